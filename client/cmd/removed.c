/*-------------------------------------------------------------------------
 *
 * removed.c
 *	  securefile removed [--since TIME] [--long] [--human] [--total] [PATTERN]
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "list.h"
#include "output.h"
#include "removed.h"
#include "reserved.h"
#include "storage.h"
#include "text.h"
#include "verbs.h"

/* columns of the answer */
enum
{
	REMOVED_NAME,
	REMOVED_AT,
	REMOVED_XID,
	REMOVED_KIND,
	REMOVED_LENGTH,
	REMOVED_KEY,
	REMOVED_COLUMNS
};

/* ---- what the verbs share ---- */

/* The call, whose columns are named below; of a distributed table the values are not to be had. */
static char *
call_of(const Target *target)
{
	static const char arguments[] = "($1::pg_catalog.regclass, $2::pg_catalog.name,"
		" $3::pg_catalog.timestamptz) WITH ORDINALITY";

	if (!target->distributed)
		return text_make("%s.securefile_removed%s", target->extension, arguments);
	return text_make("(SELECT d.removed_at, d.xid, d.row_key, d.kind, d.length, NULL, d.number"
					 " FROM %s.securefile_dist_removed%s d (shardid, shard_name, nodename, nodeport,"
					 " removed_at, xid, row_key, kind, length, number))", target->dist_schema, arguments);
}

char *
removed_source(const Target *target)
{
	char	   *called = call_of(target);
	char	   *source = text_make("(SELECT n.* FROM ("
								   "SELECT f.*, (SELECT CASE WHEN pg_catalog.count(*) OPERATOR(pg_catalog.=) 1"
								   " THEN pg_catalog.min(k.value) ELSE f.row_key::pg_catalog.text END"
								   " FROM pg_catalog.jsonb_each_text(f.row_key) k) COLLATE pg_catalog.\"C\" AS name"
								   " FROM %s f (removed_at, xid, row_key, kind, length, document, number)) n"
								   " WHERE n.name IS NULL OR NOT pg_catalog.starts_with(n.name, '%s')) r",
								   called, RESERVED_PREFIX);

	free(called);
	return source;
}

Session *
removed_session(const Options *options, Target *target)
{
	Session    *session = session_column(options, target);

	if (session == NULL || !target->distributed || target->dist_schema != NULL)
		return session;
	return session_refuse_distributed(session, "whose removed values are on its nodes\n"
									  "Hint: CREATE EXTENSION securefile_citus;");
}

bool
removed_are_kept(Session *session)
{
	const Target *target = session->target;
	const char *const values[] = {target->table, target->plain_column};
	Failure		ignored;
	char	   *sql = text_make("SELECT i.options FROM pg_catalog.pg_attribute a"
								" CROSS JOIN LATERAL %s.securefile_column_info(a.attrelid, a.attnum) i"
								" WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass::pg_catalog.oid"
								" AND a.attname OPERATOR(pg_catalog.=) $2::pg_catalog.name",
								target->extension);
	PGresult   *result = session_rows(session, &ignored, 1, sql, 2, values);
	bool		kept = PQntuples(result) != 1 ||
		strstr(PQgetvalue(result, 0, 0), "'retention ") != NULL;

	PQclear(result);
	free(sql);
	return kept;
}

/* ---- the verb ---- */

/* What is shown of each value, and what was shown. */
typedef struct Show
{
	const Options *options;
	Totals		totals;
} Show;

static void
show_json(const PGresult *row, int64_t length)
{
	bool		named = !PQgetisnull(row, 0, REMOVED_NAME);
	int64_t		xid = strtoll(PQgetvalue(row, 0, REMOVED_XID), NULL, 10);
	json_t	   *key = json_loads(PQgetvalue(row, 0, REMOVED_KEY), JSON_ALLOW_NUL, NULL);
	json_t	   *record = json_pack("{s:o, s:s, s:I, s:s, s:I, s:o}", "name",
								   named ? output_json_name(PQgetvalue(row, 0, REMOVED_NAME)) :
								   json_null(), "removed_at", PQgetvalue(row, 0, REMOVED_AT),
								   "xid", (json_int_t) xid,
								   "kind", PQgetvalue(row, 0, REMOVED_KIND), "length",
								   (json_int_t) length, "row_key", key != NULL ? key : json_null());

	if (record == NULL)
		abort();
	output_record(record);
}

static void
show_text(const Options *options, const PGresult *row, int64_t length)
{
	bool		named = !PQgetisnull(row, 0, REMOVED_NAME);
	char		size[32];

	output_line("%s%s%s  %-8s  %14s  %s", PQgetvalue(row, 0, REMOVED_AT),
				options->details ? "  " : "",
				options->details ? PQgetvalue(row, 0, REMOVED_XID) : "",
				PQgetvalue(row, 0, REMOVED_KIND),
				storage_bytes(length, options->human, size, sizeof(size)),
				named ? output_quoted(PQgetvalue(row, 0, REMOVED_NAME)) : "-");
}

/* Has the field no other characters? */
static bool
has_only(const PGresult *row, int column, const char *characters)
{
	const char *text = PQgetvalue(row, 0, column);

	return text[strspn(text, characters)] == '\0';
}

/* Are the fields what the server makes of a time, a number and a word? */
static bool
is_plain(const PGresult *row)
{
	return has_only(row, REMOVED_AT, "0123456789-T:.+") &&
		has_only(row, REMOVED_XID, "0123456789") &&
		has_only(row, REMOVED_KIND, "abcdefghijklmnopqrstuvwxyz");
}

/* A row of the answer. */
static bool
take_row(void *arg, const PGresult *row, Failure *failure)
{
	Show	   *show = arg;
	int64_t		length;

	if (!answer_has(row, REMOVED_COLUMNS, failure))
		return false;
	length = strtoll(PQgetvalue(row, 0, REMOVED_LENGTH), NULL, 10);
	if (!is_plain(row) || length < 0)
		return failure_say(failure, "the server sent an answer of another form");
	totals_add(&show->totals, length, 0);
	if (show->options->json)
		show_json(row, length);
	else
		show_text(show->options, row, length);
	return true;
}

/* List them, a row at a time. */
static bool
list(Session *session, const Options *options, Show *show, Failure *failure)
{
	const Target *target = session->target;
	char	   *like = options->nargs > 0 ? list_like(options->args[0]) : NULL;
	const char *const values[] = {target->table, target->plain_column, options->since, like};
	char	   *source = removed_source(target);
	char	   *sql = text_make("SELECT r.name, " REMOVED_AT_TEXT ","
								" r.xid, r.kind, r.length, r.row_key"
								" FROM %s WHERE $4::pg_catalog.text IS NULL"
								" OR r.name OPERATOR(pg_catalog.~~) $4::pg_catalog.text"
								" ORDER BY r.removed_at, r.number", source);
	bool		sent = PQsendQueryParams(session->conn, sql, 4, NULL, values, NULL, NULL, 0) &&
		PQsetSingleRowMode(session->conn);

	free(sql);
	free(source);
	free(like);
	if (!sent)
		return failure_sql(failure, session->conn, NULL);
	return answer_each_row(session->conn, take_row, show, failure);
}

static void
show_totals(const Options *options, const Totals *totals)
{
	char		size[32];

	if (options->json)
		totals_json(totals, "removed", false);
	else
		output_line("total of %lld values, %s%s", (long long) totals->files,
					options->human ? progress_size(totals->bytes, size, sizeof(size)) :
					storage_bytes(totals->bytes, false, size, sizeof(size)),
					options->human ? "" : " bytes");
}

int
verb_removed(const Options *options)
{
	Target		target;
	Session    *session = removed_session(options, &target);
	Show		show = {.options = options};
	Failure		failure;
	bool		good;

	if (session == NULL)
		return EXIT_SETUP;
	good = list(session, options, &show, &failure);
	if (!good)
		output_message(&failure);
	else if (options->total)
		show_totals(options, &show.totals);
	if (good && show.totals.files == 0 && !options->quiet && !removed_are_kept(session))
	{
		failure_say(&failure,
					"column %s of %s has no retention, and keeps nothing of what is removed",
					target.column, target.table);
		output_message(&failure);
	}
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
