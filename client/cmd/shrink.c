/*-------------------------------------------------------------------------
 *
 * shrink.c
 *	  securefile shrink
 *
 * The server does it all; the call is sent on one connection, and a second one asks meanwhile how
 * far it is.  Where there is no second connection nothing is shown, and of a distributed table
 * neither: the sessions that work are on its nodes.
 *
 *-------------------------------------------------------------------------
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "session.h"
#include "text.h"
#include "verbs.h"

#define LOOK_MS			250

/* What a column takes. */
typedef struct Space
{
	int64_t		file_bytes;
	int64_t		disk_bytes;
} Space;

/* ---- asking ---- */

/* Where the functions of this table are, and what their names begin with. */
static char *
functions_of(const Target *target)
{
	return target->distributed ? text_make("%s.securefile_dist_", target->dist_schema) :
		text_make("%s.securefile_", target->extension);
}

static int64_t
number_at(const PGresult *result, int column)
{
	return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

/* Call a function with table and column; the result has one row of so many numbers. */
static PGresult *
ask(Session *session, const char *expressions, int columns, const char *function, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {target->table, target->plain_column};
	char	   *functions = functions_of(target);
	char	   *sql = text_make("SELECT %s FROM %s%s($1::pg_catalog.regclass,"
								" $2::pg_catalog.name) s", expressions, functions, function);
	PGresult   *result = session_rows(session, failure, columns, sql, 2, values);

	free(sql);
	free(functions);
	return result;
}

/* The sums are over the shards, if there are any. */
static bool
measure(Session *session, Space *space, Failure *failure)
{
	PGresult   *result = ask(session, "pg_catalog.sum(s.file_bytes)::pg_catalog.int8,"
							 " pg_catalog.sum(s.disk_bytes)::pg_catalog.int8", 2, "usage", failure);

	if (result == NULL)
		return false;
	*space = (Space) {number_at(result, 0), number_at(result, 1)};
	PQclear(result);
	return true;
}

/* ---- the estimate ---- */

static const struct
{
	const char *name;
	bool		is_bytes;
	const char *text;
}			estimated[] = {
	{"file_bytes", true, "files"},
	{"disk_bytes", true, "on disk"},
	{"live_bytes", true, "live"},
	{"releasable_bytes", true, "can be given back as holes, at best"},
	{"movable_bytes", true, "lie high, and would find room lower down"},
	{"rows_to_move_estimate", false, "rows have these, about"},
	{"target_bytes", true, "files, when these are stored again"},
};

#define NUM_ESTIMATED	((int) (sizeof(estimated) / sizeof(estimated[0])))

/* One number, as a line or into an object. */
static void
tell_number(json_t *record, const PGresult *result, int i)
{
	char		size[32];
	bool		known = !PQgetisnull(result, 0, i);
	int64_t		number = known ? number_at(result, i) : 0;

	if (record != NULL)
		json_object_set_new(record, estimated[i].name, known ? json_integer(number) : json_null());
	else if (known && estimated[i].is_bytes)
		output_line("%12s %s", progress_size(number, size, sizeof(size)), estimated[i].text);
	else if (known)
		output_line("%12lld %s", (long long) number, estimated[i].text);
}

static bool
estimate(Session *session, const Options *options, Failure *failure)
{
	char	   *sums = NULL;
	json_t	   *record = NULL;
	PGresult   *result;

	for (int i = 0; i < NUM_ESTIMATED; i++)
	{
		char	   *more = text_make("%s%spg_catalog.sum(s.%s)::pg_catalog.int8",
									 i == 0 ? "" : sums, i == 0 ? "" : ", ", estimated[i].name);

		free(sums);
		sums = more;
	}
	result = ask(session, sums, NUM_ESTIMATED, "shrink_estimate", failure);
	free(sums);
	if (result == NULL)
		return false;
	if (options->json)
		record = json_pack("{s:s}", "report", "shrink");
	for (int i = 0; i < NUM_ESTIMATED; i++)
		tell_number(record, result, i);
	if (record != NULL)
		output_record(record);
	PQclear(result);
	return true;
}

/* ---- the call ---- */

static const char *
mode_of(const Options *options)
{
	return options->move ? "move" : "release";
}

/* Ask the second connection how far the session of that process is, and show it. */
static void
show_progress(Session *watcher, const char *pid)
{
	const Target *target = watcher->target;
	const char *const values[] = {pid};
	Failure		ignored;
	char	   *sql = text_make("SELECT p.operation, p.released_bytes, p.releasable_bytes,"
								" p.blocks_done, p.blocks_total"
								" FROM %s.securefile_progress p"
								" WHERE p.pid OPERATOR(pg_catalog.=) $1::pg_catalog.int4", target->extension);
	PGresult   *result = session_rows(watcher, &ignored, 5, sql, 1, values);

	free(sql);
	if (PQntuples(result) != 1)
		 /* it is between two steps */ ;
	else if (strcmp(PQgetvalue(result, 0, 0), "release") != 0)
		progress_share("moving values", number_at(result, 3), number_at(result, 4));
	else if (number_at(result, 2) == 0)
		progress_share("looking at rows", 0, 0);
	else
		progress_share("giving space back", number_at(result, 1), number_at(result, 2));
	PQclear(result);
}

/* Wait for the answer to what was sent. */
static bool
wait_for_answer(Session *session, Session *watcher, Failure *failure)
{
	struct pollfd answer = {.fd = PQsocket(session->conn), .events = POLLIN};
	char	   *pid = text_make("%d", PQbackendPID(session->conn));
	bool		good;

	while ((good = PQconsumeInput(session->conn) == 1) && PQisBusy(session->conn))
		if (poll(&answer, 1, LOOK_MS) == 0 && watcher != NULL)
			show_progress(watcher, pid);
	free(pid);
	return good || failure_sql(failure, session->conn, NULL);
}

/* Take the answer: nothing but the end of a command. */
static bool
take_answer(Session *session, Failure *failure)
{
	bool		good = true;
	PGresult   *result;

	while ((result = PQgetResult(session->conn)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
			good = failure_sql(failure, session->conn, result);
		PQclear(result);
	}
	return good;
}

static bool
call(Session *session, const Options *options, Session *watcher, Failure *failure)
{
	const Target *target = session->target;
	char	   *rate = text_make("%lld", (long long) options->rate);
	const char *const values[] = {target->table, target->plain_column, mode_of(options), rate,
		options->allow_decoding ? "t" : "f", options->force ? "t" : "f"};
	char	   *functions = functions_of(target);
	char	   *sql = text_make("CALL %sshrink($1::pg_catalog.regclass, $2::pg_catalog.name,"
								" $3::pg_catalog.text, $4::pg_catalog.int8,"
								" allow_decoding => $5::pg_catalog.bool, force => $6::pg_catalog.bool)",
								functions);
	bool		sent = PQsendQueryParams(session->conn, sql, 6, NULL, values, NULL, NULL, 0) == 1;

	free(sql);
	free(functions);
	free(rate);
	if (!sent)
		return failure_sql(failure, session->conn, NULL);
	return wait_for_answer(session, watcher, failure) && take_answer(session, failure);
}

static void
tell_result(const Options *options, const Space *before, const Space *after)
{
	char		sizes[4][32];

	if (options->json)
		output_record(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "summary", "shrink",
								"mode", mode_of(options),
								"file_bytes_before", (json_int_t) before->file_bytes,
								"disk_bytes_before", (json_int_t) before->disk_bytes,
								"file_bytes", (json_int_t) after->file_bytes,
								"disk_bytes", (json_int_t) after->disk_bytes));
	else if (!options->quiet)
		output_line("on disk %s, before %s; files %s, before %s",
					progress_size(after->disk_bytes, sizes[0], sizeof(sizes[0])),
					progress_size(before->disk_bytes, sizes[1], sizeof(sizes[1])),
					progress_size(after->file_bytes, sizes[2], sizeof(sizes[2])),
					progress_size(before->file_bytes, sizes[3], sizeof(sizes[3])));
}

static bool
shrink(Session *session, const Options *options, Failure *failure)
{
	const Target *target = session->target;
	Failure		ignored;
	Session    *watcher = NULL;
	Space		before;
	Space		after;
	bool		good;

	if (!measure(session, &before, failure))
		return false;
	if (!options->quiet && !target->distributed)
		watcher = session_more(options, target, &ignored);
	if (watcher != NULL)
		progress_begin(0, -1);
	good = call(session, options, watcher, failure);
	progress_end();
	if (watcher != NULL)
		session_end(watcher);
	if (!good || !measure(session, &after, failure))
		return false;
	tell_result(options, &before, &after);
	return true;
}

int
verb_shrink(const Options *options)
{
	Target		target;
	Session    *session = session_column(options, &target);
	Failure		failure;
	bool		good;

	if (session != NULL && target.distributed && target.dist_schema == NULL)
		session = session_refuse_distributed(session, "whose shards cannot be shrunk from here\n"
											 "Hint: CREATE EXTENSION securefile_citus;");
	if (session == NULL)
		return EXIT_SETUP;
	good = options->estimate ? estimate(session, options, &failure) :
		shrink(session, options, &failure);
	if (!good)
		output_message(&failure);
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
