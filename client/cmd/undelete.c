/*-------------------------------------------------------------------------
 *
 * undelete.c
 *	  securefile undelete [--at TIME] [--xid XID] [--replace] [--dry-run] [--to FILE] KEY|PATTERN...
 *
 * The server copies the bytes.  An argument is one statement, and so all or nothing: it chooses a
 * removed value for each key, looks which rows there are, and stores the values in these or in new
 * ones.  What a row has now stays, unless --replace is given.  That is a failure of a key, and not
 * of a pattern: each row that was ever changed has removed values.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "download.h"
#include "list.h"
#include "meta.h"
#include "names.h"
#include "output.h"
#include "place.h"
#include "removed.h"
#include "reserved.h"
#include "tempfile.h"
#include "text.h"
#include "verbs.h"

#define NOT_NULL_VIOLATION	"23502"

/* The primary key, as parts of statements in which t is the table, and f a removed value. */
typedef struct PrimaryKey
{
	int			columns;
	char	   *is_row;			/* condition: the row had that value */
	char	   *fits;			/* condition: the value's key is one of the
								 * table */
	char	   *names;			/* columns that an INSERT names */
	char	   *values;			/* what it gives them */
} PrimaryKey;

/* Of the table of this run: undelete_one() is called with nothing that could lead to it. */
static PrimaryKey primary_key;

/* Connect; the values of a distributed table cannot be had from here. */
static Session *
begin(const Options *options, Target *target)
{
	Session    *session = removed_session(options, target);

	if (session == NULL || !target->distributed)
		return session;
	return session_refuse_distributed(session, "whose removed values are on its nodes\n"
									  "Hint: securefile_removed() of a shard has them, on its node: INSERT INTO .. SELECT ..;");
}

/* ---- the primary key ---- */

/* Add to a text that is allocated; NULL is an empty one. */
static void
join(char **text, const char *between, const char *more)
{
	char	   *all = *text == NULL ? text_make("%s", more) :
		text_make("%s%s%s", *text, between, more);

	free(*text);
	*text = all;
}

/* Add a column to the parts. */
static bool
add_column(Session *session, const char *name, const char *type_oid, bool generated,
		   PrimaryKey *key, Failure *failure)
{
	char	   *quoted = PQescapeIdentifier(session->conn, name, strlen(name));
	char	   *literal = PQescapeLiteral(session->conn, name, strlen(name));
	char	   *column;
	char	   *value;
	char	   *cast;
	KeyComparison comparison;

	if (quoted == NULL || literal == NULL)
		abort();
	column = text_make("t.%s", quoted);
	value = text_make("(f.row_key OPERATOR(pg_catalog.->>) %s::pg_catalog.text)", literal);
	if (!key_compare(session, type_oid, column, value, &comparison, failure))
		return false;
	join(&key->is_row, " AND ", comparison.condition);
	cast = text_make("f.row_key OPERATOR(pg_catalog.?) %s::pg_catalog.text", literal);
	join(&key->fits, " AND ", cast);
	free(cast);
	cast = text_make("%s::%s", value, comparison.type);
	if (!generated)
	{
		join(&key->names, ", ", quoted);
		join(&key->values, ", ", cast);
	}
	key->columns++;
	free(cast);
	free(comparison.text);
	free(comparison.condition);
	free(comparison.any);
	free(comparison.type);
	free(value);
	free(column);
	PQfreemem(literal);
	PQfreemem(quoted);
	return true;
}

static bool
find_primary_key(Session *session, PrimaryKey *key, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {target->table};
	PGresult   *result = session_rows(session, failure, 3,
									  "SELECT a.attname, a.atttypid,"
									  " a.attgenerated OPERATOR(pg_catalog.<>) ''::pg_catalog.\"char\""
									  " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a"
									  "  ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid"
									  "  AND a.attnum OPERATOR(pg_catalog.=)"
									  "   ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1])"
									  " WHERE i.indrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass AND i.indisprimary"
									  " ORDER BY a.attnum", 1, values);
	bool		good = result != NULL;

	for (int i = 0; good && i < PQntuples(result); i++)
		good = add_column(session, PQgetvalue(result, i, 0), PQgetvalue(result, i, 1),
						  PQgetvalue(result, i, 2)[0] == 't', key, failure);
	PQclear(result);
	if (good && key->columns == 0)
		return failure_say(failure,
						   "%s has no primary key, by which rows of removed values are found\n"
						   "Hint: --to writes a value to a file; securefile_removed() lists all.",
						   target->table);
	return good;
}

/* ---- which values ---- */

/* Parameters: 1 to 6 are what is asked for, 7 is whether rows that have a file lose it. */
typedef struct Asked
{
	const char *values[7];
	char	   *made[2];		/* of them, what is freed */
} Asked;

/* Parameter 3 is --at, as removed_source() wants it. */
static Asked
ask_for(const Session *session, const Options *options, const char *name, bool by_pattern)
{
	const Target *target = session->target;
	Asked		asked = {.values = {target->table, target->plain_column, options->at}};
	json_t	   *key = by_pattern ? NULL : json_loads(name, 0, NULL);

	/* a key may also be written as JSON, as "removed --json" shows it */
	if (json_is_object(key))
		asked.values[4] = name;
	json_decref(key);
	if (by_pattern)
		asked.made[0] = list_like(name);
	asked.values[3] = by_pattern ? asked.made[0] : name;
	asked.values[5] = options->xid;
	asked.values[6] = options->replace ? "t" : "f";
	return asked;
}

static void
forget_asked(Asked *asked)
{
	free(asked->made[0]);
}

/* The part of a FROM, as r, that has all values that are asked for. */
static char *
asked_source(const Session *session, bool by_pattern)
{
	char	   *source = removed_source(session->target);
	char	   *asked = text_make("%s WHERE (r.name OPERATOR(pg_catalog.%s) $4::pg_catalog.text"
								  " OR r.row_key OPERATOR(pg_catalog.=) $5::pg_catalog.jsonb)"
								  " AND ($6::pg_catalog.xid8 IS NULL"
								  " OR r.xid OPERATOR(pg_catalog.=) $6::pg_catalog.xid8)",
								  source, by_pattern ? "~~" : "=");

	free(source);
	return asked;
}

/* The newest comes first; with --at the oldest of those since then. */
static const char *
order_of(const Options *options)
{
	return options->at != NULL ? "r.removed_at, r.number" : "r.removed_at DESC, r.number DESC";
}

static bool
say_none(Session *session, const Options *options, bool by_pattern, Failure *failure)
{
	bool		some = options->at != NULL || options->xid != NULL;

	return failure_say(failure, "no removed value of that key%s%s%s",
					   by_pattern ? ", and none that matches" : "",
					   !some ? "" : options->xid == NULL ? " since that time" :
					   options->at == NULL ? " by that transaction" :
					   " since that time by that transaction",
					   removed_are_kept(session) ? "" :
					   "\nHint: The column has no retention, and keeps nothing of what is removed.");
}

/* ---- into the table ---- */

/* columns of the answer */
enum
{
	DONE_NAME,
	DONE_LENGTH,
	DONE_OUTCOME,
	DONE_STORED,
	DONE_COLUMNS
};

/* The values that are chosen, each with what is in its row, as f of the statement below. */
static char *
found_part(const Session *session, const Options *options, bool by_pattern)
{
	const Target *target = session->target;
	char	   *asked = asked_source(session, by_pattern);
	char	   *part = text_make("WITH chosen AS MATERIALIZED ("
								 "SELECT DISTINCT ON (r.row_key) r.name, r.row_key, r.length, r.document"
								 " FROM %s AND r.row_key IS NOT NULL ORDER BY r.row_key, %s),"
								 " looked AS MATERIALIZED ("
								 "SELECT f.*, CASE"
								 " WHEN (SELECT pg_catalog.count(*) FROM pg_catalog.jsonb_object_keys(f.row_key))"
								 "  OPERATOR(pg_catalog.<>) %d OR NOT (%s) THEN 'unfit'"
								 " ELSE COALESCE((SELECT CASE WHEN t.%s IS NULL THEN 'fill' ELSE 'replace' END"
								 "  FROM %s t WHERE %s), 'insert') END AS state FROM chosen f),"
								 " found AS MATERIALIZED (SELECT f.*,"
								 " CASE WHEN f.state OPERATOR(pg_catalog.=) 'replace' AND NOT $7::pg_catalog.bool"
								 "  THEN 'taken' ELSE f.state END AS outcome FROM looked f)",
								 asked, order_of(options), primary_key.columns, primary_key.fits,
								 target->column, target->table, primary_key.is_row);

	free(asked);
	return part;
}

/*
 * The parts that store them.  New bytes make the time and the link target of the old ones wrong,
 * as of put.
 */
static char *
store_parts(const Session *session)
{
	const Target *target = session->target;

	return text_make(", updated AS (UPDATE %s t SET %s = f.document%s FROM found f"
					 " WHERE f.outcome OPERATOR(pg_catalog.=) ANY ('{fill,replace}'::pg_catalog.text[])"
					 " AND %s AND ($7::pg_catalog.bool OR t.%s IS NULL) RETURNING f.row_key),"
					 " inserted AS (INSERT INTO %s (%s%s%s) OVERRIDING SYSTEM VALUE"
					 " SELECT %s%sf.document FROM found f"
					 " WHERE f.outcome OPERATOR(pg_catalog.=) 'insert' RETURNING 1)",
					 target->table, target->column,
					 target->has_meta ? ", mtime = NULL, link_target = NULL" : "",
					 primary_key.is_row, target->column, target->table,
					 primary_key.names == NULL ? "" : primary_key.names,
					 primary_key.names == NULL ? "" : ", ", target->column,
					 primary_key.values == NULL ? "" : primary_key.values,
					 primary_key.values == NULL ? "" : ", ");
}

/* The statement; in a dry run nothing is stored, and all counts as if it were. */
static char *
store_statement(const Session *session, const Options *options, bool by_pattern)
{
	char	   *found = found_part(session, options, by_pattern);
	char	   *store = options->dry_run ? text_make("%s", "") : store_parts(session);
	char	   *sql = text_make("%s%s SELECT f.name, f.length, f.outcome, %s FROM found f"
								" ORDER BY f.name, f.row_key", found, store, options->dry_run ? "true" :
								"CASE WHEN f.outcome OPERATOR(pg_catalog.=) 'insert' THEN"
								" (SELECT pg_catalog.count(*) FROM inserted) OPERATOR(pg_catalog.=)"
								" (SELECT pg_catalog.count(*) FROM found o WHERE o.outcome OPERATOR(pg_catalog.=) 'insert')"
								" ELSE f.row_key OPERATOR(pg_catalog.=) ANY (SELECT u.row_key FROM updated u) END");

	free(store);
	free(found);
	return sql;
}

/* Tell the user what became of a value. */
static void
tell(const PGresult *result, int row, bool by_pattern)
{
	const char *name = PQgetvalue(result, row, DONE_NAME);
	const char *outcome = PQgetvalue(result, row, DONE_OUTCOME);
	Failure		failure;

	if (strcmp(outcome, "taken") == 0 && by_pattern)
	{
		output_file(name, ACTION_SKIPPED, 0);
		return;
	}
	if (strcmp(outcome, "taken") == 0)
		failure_say(&failure, "the row has a file\nHint: --replace replaces it.");
	else if (strcmp(outcome, "unfit") == 0)
		failure_say(&failure, "the table has another primary key now");
	else if (PQgetvalue(result, row, DONE_STORED)[0] != 't')
		failure_say(&failure, "the statement stored no row");
	else
	{
		output_file(name, strcmp(outcome, "replace") == 0 ? ACTION_REPLACED : ACTION_PUT,
					strtoll(PQgetvalue(result, row, DONE_LENGTH), NULL, 10));
		return;
	}
	output_failed(name, &failure);
}

/* A row that is gone has lost its other columns, too. */
static void
hint_at_insert(const Target *target, Failure *failure)
{
	char	   *text = text_make("%s", failure->text);

	if (strcmp(failure->sqlstate, NOT_NULL_VIOLATION) == 0)
	{
		failure_say(failure, "%s\nHint: Other columns than the key are not kept."
					" Give them values: INSERT INTO %s (..)"
					" SELECT .., document FROM %s.securefile_removed(..) WHERE ..;", text, target->table,
					target->extension);
		strcpy(failure->sqlstate, NOT_NULL_VIOLATION);
	}
	free(text);
}

/* Store what an argument means, as a key or as a pattern; *count is how many values that were. */
static bool
store(Session *session, const Options *options, const char *name, bool by_pattern, int *count,
	  Failure *failure)
{
	Asked		asked = ask_for(session, options, name, by_pattern);
	char	   *sql = store_statement(session, options, by_pattern);
	PGresult   *result = session_rows(session, failure, DONE_COLUMNS, sql, 7, asked.values);

	free(sql);
	forget_asked(&asked);
	if (result == NULL)
	{
		hint_at_insert(session->target, failure);
		return false;
	}
	*count = PQntuples(result);
	for (int i = 0; i < *count; i++)
		tell(result, i, by_pattern);
	PQclear(result);
	return true;
}

/* A NameWork. */
static bool
undelete_one(Session *session, const Options *options, const char *name, Failure *failure)
{
	bool		pattern = list_is_pattern(name);
	int			count;

	if (!reserved_refuse(name, failure) ||
		!store(session, options, name, false, &count, failure) ||
		(count == 0 && pattern && !store(session, options, name, true, &count, failure)))
		return false;
	return count > 0 || say_none(session, options, pattern, failure);
}

/* ---- into a file ---- */

/* Write the value to an open file; -1 after a failure. */
static int64_t
fetch(Session *session, const Options *options, const Asked *asked, int fd, Failure *failure)
{
	pgsf_params params = {6, NULL, asked->values, NULL, NULL};
	Download	to = {fd, 0};
	char	   *source = asked_source(session, false);
	char	   *sql = text_make("SELECT r.document FROM %s ORDER BY %s LIMIT 1", source,
								order_of(options));
	int64_t		bytes = download(&to, session->handle, sql, &params, failure);

	free(sql);
	free(source);
	return bytes;
}

/* How long the value is; -1: there is none, or a failure. */
static int64_t
look(Session *session, const Options *options, const Asked *asked, Failure *failure)
{
	char	   *source = asked_source(session, false);
	char	   *sql = text_make("SELECT r.length FROM %s ORDER BY %s LIMIT 1", source,
								order_of(options));
	PGresult   *result = session_rows(session, failure, 1, sql, 6, asked->values);
	int64_t		length = -1;

	if (PQntuples(result) == 1)
		length = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	else if (result != NULL)
		say_none(session, options, false, failure);
	PQclear(result);
	free(sql);
	free(source);
	return length;
}

/* Write it to its place, under a temporary name until it is complete. */
static int64_t
fetch_to(Session *session, const Options *options, const Asked *asked, const Place *place,
		 Failure *failure)
{
	TempFile   *file;
	int64_t		bytes;

	if (place->fd >= 0)
		return fetch(session, options, asked, place->fd, failure);
	file = tempfile_open(place->directory, 0666, failure);
	if (file == NULL)
		return -1;
	bytes = fetch(session, options, asked, tempfile_fd(file), failure);
	if (bytes < 0)
		tempfile_discard(file);
	else if (!tempfile_finish(file, place->name, options->replace, failure))
		bytes = -1;
	return bytes;
}

static int
undelete_to(const Options *options)
{
	const char *name = options->args[0];
	Target		target;
	Session    *session;
	Place		place;
	Asked		asked;
	Failure		failure;
	int64_t		bytes;

	if (!place_find(options, name, options->to, &place, &failure))
	{
		output_failed(name, &failure);
		return EXIT_SOME;
	}
	session = begin(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	asked = ask_for(session, options, name, false);
	bytes = look(session, options, &asked, &failure);
	if (bytes >= 0)
	{
		if (!options->quiet && place.fd < 0)
			progress_begin(0, bytes);
		bytes = fetch_to(session, options, &asked, &place, &failure);
		progress_end();
	}
	forget_asked(&asked);
	if (bytes < 0)
		output_failed(name, &failure);
	else if (place.fd != STDOUT_FILENO)
		output_file(name, ACTION_GOT, bytes);
	return session_leave(session, bytes >= 0);
}

int
verb_undelete(const Options *options)
{
	Target		target;
	Session    *session;
	Failure		failure;

	if (options->to != NULL)
		return undelete_to(options);
	session = begin(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	if (meta_find(session, options, &target, &failure) &&
		find_primary_key(session, &primary_key, &failure))
		return output_end(names_each_of(session, options, undelete_one));
	output_message(&failure);
	session_end(session);
	return EXIT_SETUP;
}
