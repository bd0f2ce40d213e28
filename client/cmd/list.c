/*-------------------------------------------------------------------------
 *
 * list.c
 *	  Names, lengths and stored bytes of the stored files, a row at a time.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "list.h"
#include "storage.h"
#include "text.h"

/* A pattern of * and ? as a pattern of LIKE; a backslash takes away their meaning. */
static char *
like_pattern(const char *pattern)
{
	char	   *like = malloc(strlen(pattern) * 2 + 3);
	char	   *out = like;

	if (like == NULL)
		abort();
	for (; *pattern; pattern++)
	{
		if (*pattern == '*' || *pattern == '?')
		{
			*out++ = *pattern == '*' ? '%' : '_';
			continue;
		}
		if (*pattern == '\\' && pattern[1] != '\0')
			pattern++;
		if (*pattern == '%' || *pattern == '_' || *pattern == '\\')
			*out++ = '\\';
		*out++ = *pattern;
	}
	*out = '\0';
	return like;
}

/* Hand the rows of the running statement to a function as they come. */
static bool
take_rows(Session *session, ListEach each, void *arg, Failure *failure)
{
	PGresult   *result;
	bool		good = true;

	while ((result = PQgetResult(session->conn)) != NULL)
	{
		ExecStatusType status = PQresultStatus(result);

		if (status == PGRES_SINGLE_TUPLE)
		{
			Listed		file = {PQgetvalue(result, 0, 0),
				strtoll(PQgetvalue(result, 0, 1), NULL, 10), storage_field(result, 2),
			PQgetvalue(result, 0, 3)};

			each(arg, &file);
		}
		else if (status != PGRES_TUPLES_OK)
			good = failure_sql(failure, session->conn, result);
		PQclear(result);
	}
	return good;
}

bool
list_each(Session *session, const char *pattern, const char *prefix, bool stored,
		  bool hash, ListEach each, void *arg, Failure *failure)
{
	const Target *target = session->target;
	char	   *like = pattern != NULL ? like_pattern(pattern) : NULL;
	const char *const values[] = {like, prefix};
	char	   *storage = stored ? text_make("(%s).stored_bytes", target->storage) : NULL;

	/*
	 * COLLATE: a pattern means the same whatever the collation of the column
	 * is. ORDER BY cannot name an operator: it takes the one of the default
	 * operator class of text, and only a superuser can make operator classes.
	 */
	char	   *sql = text_make("SELECT f.name, f.length, f.stored, f.hash FROM ("
								"SELECT %s, pg_catalog.length(%s), %s, %s FROM %s WHERE %s IS NOT NULL"
								") f (name, length, stored, hash)"
								" WHERE ($1::pg_catalog.text IS NULL OR"
								"  f.name COLLATE pg_catalog.\"C\" OPERATOR(pg_catalog.~~) $1::pg_catalog.text)"
								" AND pg_catalog.starts_with(f.name COLLATE pg_catalog.\"C\", $2::pg_catalog.text)"
								" ORDER BY f.name",
								target->key_text, target->column, stored ? storage : "NULL",
								hash ? target->digest : "NULL", target->table, target->column);
	bool		sent = PQsendQueryParams(session->conn, sql, 2, NULL, values, NULL, NULL, 0) &&
	PQsetSingleRowMode(session->conn);

	free(sql);
	free(storage);
	free(like);
	if (!sent)
		return failure_sql(failure, session->conn, NULL);
	return take_rows(session, each, arg, failure);
}

static void
add_to_list(void *arg, const Listed *file)
{
	walk_add(arg, file->name, file->length);
}

bool
list_all(Session *session, const char *pattern, const char *prefix,
		 FoundList *list, Failure *failure)
{
	return list_each(session, pattern, prefix, false, false, add_to_list, list, failure);
}
