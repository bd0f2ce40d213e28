/*-------------------------------------------------------------------------
 *
 * init.c
 *	  securefile init
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "meta.h"
#include "output.h"
#include "text.h"
#include "verbs.h"

#define DUPLICATE_TABLE	"42P07"
#define NO_PRIVILEGE	"42501"

/*
 * The name of the table as the server would quote it, and whether there is something of that
 * name; the columns, quoted.
 */
static PGresult *
ask_names(Session *session, const Options *options, Failure *failure)
{
	const char *const values[] = {options->table,
		options->key != NULL ? options->key : "name",
		options->column != NULL ? options->column : "document"};

	return session_rows(session, failure, 3,
						"SELECT (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(p.part), '.' ORDER BY p.number)"
						"  FROM pg_catalog.unnest(pg_catalog.parse_ident($1::pg_catalog.text)) WITH ORDINALITY p (part, number)),"
						" pg_catalog.quote_ident($2::pg_catalog.text), pg_catalog.quote_ident($3::pg_catalog.text)",
						3, values);
}

/* Only words may become the options of the column. */
static bool
check_with(const Options *options, Failure *failure)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_, ";

	return options->with == NULL || options->with[strspn(options->with, allowed)] == '\0' ||
		failure_say(failure, "--with wants words with commas between them, not \"%s\"",
					output_quoted(options->with));
}

/* The statement that makes the table; NULL after a failure. */
static char *
make_statement(Session *session, const Options *options, Failure *failure)
{
	Target		target = {0};
	PGresult   *names = target_find_extension(session, &target, failure) ?
		ask_names(session, options, failure) : NULL;
	char	   *table = names == NULL ? NULL : answer_name(names, 0, failure);
	char	   *key = table == NULL ? NULL : answer_name(names, 1, failure);
	char	   *column = key == NULL ? NULL : answer_name(names, 2, failure);
	char	   *sql = NULL;

	/*
	 * names of files are compared by bytes, so that the index finds a prefix,
	 * too
	 */
	if (column != NULL)
		sql = text_make("CREATE TABLE %s (%s text COLLATE pg_catalog.\"C\" PRIMARY KEY%s,"
						" %s %s.securefile%s%s%s)", table, key,
						options->meta ? ", " META_DEFINITIONS : "",
						column, target.extension, options->with != NULL ? "(" : "",
						options->with != NULL ? options->with : "",
						options->with != NULL ? ")" : "");
	free(column);
	free(key);
	free(table);
	PQclear(names);
	free(target.extension);
	return sql;
}

/* The table is there: has it what was asked for? */
static bool
check_table(Session *session, const Options *options, Failure *failure)
{
	Target		target;

	session->target = &target;
	if (!target_find(session, options, &target, failure))
		return false;
	output_line("%s exists already", output_quoted(options->table));
	return true;
}

/*
 * The table could not be made: because there is one of that name?  A role that may not make tables
 * is told that first.
 */
static bool
is_there(Session *session, const Options *options, const Failure *failure)
{
	const char *const values[] = {options->table};
	Failure		ignored;
	PGresult   *result;
	bool		there;

	if (strcmp(failure->sqlstate, NO_PRIVILEGE) != 0)
		return strcmp(failure->sqlstate, DUPLICATE_TABLE) == 0;
	result = session_rows(session, &ignored, 1,
						  "SELECT pg_catalog.to_regclass($1::pg_catalog.text)", 1, values);
	there = PQntuples(result) == 1 && !PQgetisnull(result, 0, 0);
	PQclear(result);
	return there;
}

int
verb_init(const Options *options)
{
	Session    *session = session_alone(options);
	Failure		failure;
	char	   *sql;
	bool		good;

	if (session == NULL)
		return EXIT_SETUP;
	sql = check_with(options, &failure) ? make_statement(session, options, &failure) : NULL;
	good = sql != NULL && session_do(session, &failure, sql);
	if (good)
		output_line("%s is made", output_quoted(options->table));
	else if (sql != NULL && is_there(session, options, &failure))
		good = check_table(session, options, &failure);
	if (!good)
		output_message(&failure);
	free(sql);
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
