/*-------------------------------------------------------------------------
 *
 * purge.c
 *	  securefile purge [--older-than INTERVAL] [--dry-run]
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "output.h"
#include "removed.h"
#include "text.h"
#include "verbs.h"

static int64_t
number_at(const PGresult *result, int column)
{
	return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

/*
 * A sum of what a function says of the column, or of its shards; -1 after a failure.  The third
 * argument of the function may be null, as for one that has two.
 */
static int64_t
sum_of_call(Session *session, const char *expression, const char *function, const char *interval,
			Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {target->table, target->plain_column, interval};
	const char *schema = target->distributed ? target->dist_schema : target->extension;
	char	   *sql = text_make("SELECT pg_catalog.sum(%s)::pg_catalog.int8"
								" FROM %s.securefile_%s%s("
								"$1::pg_catalog.regclass, $2::pg_catalog.name%s) s", expression, schema,
								target->distributed ? "dist_" : "", function,
								interval == NULL ? "" : ", $3::pg_catalog.interval");
	PGresult   *result = session_rows(session, failure, 1, sql, interval == NULL ? 2 : 3, values);
	int64_t		bytes = result == NULL ? -1 : number_at(result, 0);

	PQclear(result);
	free(sql);
	return bytes;
}

/* What would be ended: how many values are listed, how long they are; and all that is kept. */
static bool
say_kept(Session *session, const Options *options, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {target->table, target->plain_column, NULL, options->older_than};
	int64_t		bytes = sum_of_call(session, "s.retained_bytes", "usage", NULL, failure);
	char	   *source = removed_source(target);
	char	   *sql = text_make("SELECT pg_catalog.count(*),"
								" COALESCE(pg_catalog.sum(r.length), 0::pg_catalog.numeric)"
								" FROM %s WHERE $4::pg_catalog.interval IS NULL OR"
								" r.removed_at OPERATOR(pg_catalog.<) (pg_catalog.now()"
								" OPERATOR(pg_catalog.-) $4::pg_catalog.interval)", source);
	PGresult   *result = bytes < 0 ? NULL : session_rows(session, failure, 2, sql, 4, values);
	char		sizes[2][32];

	free(sql);
	free(source);
	if (result == NULL)
		return false;
	if (options->json)
		output_record(json_pack("{s:s, s:I, s:I, s:I}", "report", "purge",
								"values", (json_int_t) number_at(result, 0),
								"bytes", (json_int_t) number_at(result, 1),
								"retained_bytes", (json_int_t) bytes));
	else
		output_line("%lld removed values of %s would end;"
					" in all, %s of the data files are retained", (long long) number_at(result, 0),
					progress_size(number_at(result, 1), sizes[0], sizeof(sizes[0])),
					progress_size(bytes, sizes[1], sizeof(sizes[1])));
	PQclear(result);
	return true;
}

static bool
purge(Session *session, const Options *options, Failure *failure)
{
	bool		distributed = session->target->distributed;
	const char *interval = options->older_than != NULL ? options->older_than : "0";
	int64_t		bytes = sum_of_call(session, distributed ? "s.freed_bytes" : "s", "purge", interval,
									failure);
	char		size[32];

	if (bytes < 0)
		return false;
	if (options->json)
		output_record(json_pack("{s:s, s:I}", "summary", "purge", "freed_bytes",
								(json_int_t) bytes));
	else if (!options->quiet)
		output_line("%s became free", progress_size(bytes, size, sizeof(size)));
	return true;
}

int
verb_purge(const Options *options)
{
	Target		target;
	Session    *session = removed_session(options, &target);
	Failure		failure;
	bool		good;

	if (session == NULL)
		return EXIT_SETUP;
	good = options->dry_run ? say_kept(session, options, &failure) :
		purge(session, options, &failure);
	if (!good)
		output_message(&failure);
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
