/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  The statements that store a file.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "copied.h"
#include "route.h"
#include "statement.h"
#include "text.h"

#define BYTEA_OID		17

/* Does the user set that column? */
static bool
is_set(const Options *options, const char *column)
{
	for (int i = 0; i < options->nsets; i++)
		if (strcmp(options->sets[i].column, column) == 0)
			return true;
	return false;
}

/*
 * New bytes without --meta: the time and the link target of the old ones would be wrong, and
 * --quick would take another file for the same.
 */
static const char *
forget_meta(const Session *session, const Options *options)
{
	if (!session->target->has_meta || is_set(options, "mtime") || is_set(options, "link_target"))
		return "";
	return ", mtime = NULL, link_target = NULL";
}

/*
 * Replace the file of the row that is there, and set columns.  The distribution column cannot
 * be changed: its value is compared.
 */
static char *
update_statement(const Session *session, const Options *options, const char *value)
{
	const Target *target = session->target;
	char	   *set = text_make("%s = %s%s", target->column, value, forget_meta(session, options));
	char	   *condition = text_make("%s", target->key_is_name);
	char	   *sql;

	for (int i = 0; i < options->nsets; i++)
	{
		const char *column = options->sets[i].column;
		bool		is_key = route_is_key(session, column);
		char	  **list = is_key ? &condition : &set;
		char	   *quoted = PQescapeIdentifier(session->conn, column, strlen(column));
		char	   *more;

		if (quoted == NULL)
			abort();
		more = text_make("%s%s %s = $%d", *list, is_key ? " AND" : ",", quoted, i + 2);
		PQfreemem(quoted);
		free(*list);
		*list = more;
	}
	sql = text_make("UPDATE %s SET %s WHERE %s", target->table, set, condition);
	free(condition);
	free(set);
	return sql;
}

static char *
insert_statement(const Session *session, const Options *options, const char *value)
{
	const Target *target = session->target;
	char	   *columns = copied_columns(session, options);
	char	   *parameters = copied_parameters(options->nsets + 1);
	char	   *sql = text_make("INSERT INTO %s (%s, %s) VALUES (%s, %s)", target->table, columns,
								target->column, parameters, value);

	free(parameters);
	free(columns);
	return sql;
}

char *
statement_put(const Session *session, const Options *options, bool row_exists, const char *value)
{
	return row_exists ? update_statement(session, options, value) :
		insert_statement(session, options, value);
}

const char **
statement_values(const Options *options, const char *name)
{
	const char **values = calloc(options->nsets + 2, sizeof(char *));

	if (values == NULL)
		abort();
	values[0] = name;
	for (int i = 0; i < options->nsets; i++)
		values[i + 1] = options->sets[i].value;
	return values;
}

WholeFile
statement_with(char *sql, const char **values, int before, const char *bytes, size_t length)
{
	WholeFile	whole = {
		.sql = sql,
		.count = before + 1,
		.types = calloc(before + 1, sizeof(Oid)),
		.values = values,
		.lengths = calloc(before + 1, sizeof(int)),
		.formats = calloc(before + 1, sizeof(int)),
	};

	if (whole.types == NULL || whole.lengths == NULL || whole.formats == NULL)
		abort();
	whole.types[before] = BYTEA_OID;
	whole.values[before] = bytes;
	whole.lengths[before] = (int) length;
	whole.formats[before] = 1;
	return whole;
}

WholeFile
statement_whole(const Session *session, const Options *options, const char *name,
				bool row_exists, const char *bytes, size_t length)
{
	char	   *parameter = text_make("$%d", options->nsets + 2);
	char	   *sql = statement_put(session, options, row_exists, parameter);

	free(parameter);
	return statement_with(sql, statement_values(options, name), options->nsets + 1, bytes, length);
}

void
statement_free(WholeFile *whole)
{
	for (int i = 0; whole->owns_texts && i < whole->count - 1; i++)
		free((char *) whole->values[i]);
	free(whole->formats);
	free(whole->lengths);
	free(whole->types);
	free(whole->values);
	free(whole->sql);
}

bool
statement_stored(const Session *session, const PGresult *result, bool row_exists,
				 Failure *failure)
{
	bool		routed;

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		return failure_sql(failure, session->conn, result);
	if (strcmp(PQcmdTuples((PGresult *) result), "0") != 0)
		return true;
	routed = row_exists && session->target != NULL && session->target->dist_key != NULL;
	return failure_say(failure, routed ? ROUTE_NO_ROW : "the statement stored no row");
}

bool
statement_execute(Session *session, const WholeFile *whole, bool row_exists, Failure *failure)
{
	PGresult   *result;
	bool		stored;

	session_let_go(session);
	result = PQexecParams(session->conn, whole->sql, whole->count, whole->types, whole->values,
						  whole->lengths, whole->formats, 0);
	stored = statement_stored(session, result, row_exists, failure);
	PQclear(result);
	return stored;
}
