/*-------------------------------------------------------------------------
 *
 * route.c
 *	  Distributed tables of Citus: files go between this machine and the node that has their
 *	  shard.
 *
 * Through the coordinator a value is a literal in a statement, of 256 MB at most, and on its
 * way back it is first written to a temporary file.  See pgsf_find_route() for the protocol.
 *
 * While files are stored one after the other, a session keeps its lock of the table from one to
 * the next, so that the coordinator has next to nothing to do for each.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "output.h"
#include "route.h"
#include "shard.h"
#include "text.h"

/* A shard that moves away between the question and the answer moves once. */
#define TRIES	3
#define NO_SUCH_TABLE	"42P01"
#define LOCK_TIMEOUT	"55P03"
#define BEGIN	"BEGIN ISOLATION LEVEL READ COMMITTED"

/* A command that changes the table has its turn after so long, in milliseconds. */
#define KEEP_MS	1000

/*
 * A lock on the node is not waited for longer while the table is kept from a file before: the
 * holder of the lock may wait for the table.
 */
#define SHORT_WAIT	"SELECT pg_catalog.set_config('lock_timeout', '2s', true)"

bool
route_is_key(const Session *session, const char *column)
{
	const char *key = session->target->dist_key;
	char	   *quoted = PQescapeIdentifier(session->conn, column, strlen(column));
	bool		same;

	if (quoted == NULL)
		abort();
	/* the server has left out quotes that are not needed */
	same = key != NULL && (strcmp(quoted, key) == 0 || strcmp(column, key) == 0);
	PQfreemem(quoted);
	return same;
}

/* The value that --set gives to the distribution column; NULL: none. */
static const char *
given_key(const Session *session, const Options *options)
{
	for (int i = 0; i < options->nsets; i++)
		if (route_is_key(session, options->sets[i].column))
			return options->sets[i].value;
	return NULL;
}

/* The value of the distribution column in the row of a name, as text, which the caller frees. */
static bool
look_up_key(Session *session, const char *name, char **key, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	char	   *sql;
	PGresult   *result;

	*key = NULL;
	sql = text_make("SELECT %s::pg_catalog.text FROM %s WHERE %s LIMIT 2",
					target->dist_key, target->table, target->key_is_name);
	result = session_rows(session, failure, 1, sql, 1, values);
	free(sql);
	if (result == NULL)
		return false;
	if (PQntuples(result) == 1)
		*key = text_make("%s", PQgetvalue(result, 0, 0));
	else
		failure_say(failure, PQntuples(result) > 1 ?
					"more than one row has that name" : "no file of that name");
	PQclear(result);
	return *key != NULL;
}

/*
 * The key that tells the shard: the name itself, that of the row, or for a new row (options is
 * not NULL) that of --set.  The caller frees it; NULL for a table that has one shard.
 */
static bool
find_key(Session *session, const Options *options, const char *name, char **key,
		 Failure *failure)
{
	const Target *target = session->target;
	const char *given;

	*key = NULL;
	if (target->dist_key == NULL)
		return true;
	if (strcmp(target->dist_key, target->key) != 0 && options == NULL)
		return look_up_key(session, name, key, failure);
	given = strcmp(target->dist_key, target->key) == 0 ? name : given_key(session, options);
	if (given == NULL)
		return failure_say(failure, "the distribution column %s has no value\n"
						   "Hint: --set gives a column of a new row its value.",
						   target->dist_key);
	*key = text_make("%s", given);
	return true;
}

static bool
use_shard(Session *session, const Shard *shard, pgsf_route *route, Failure *failure)
{
	pgsf_place	place = {session->target->dist_schema, session->target->dist_key, shard->id,
		shard->name, shard->host, shard->port};

	if (pgsf_use_route(session->handle, &place, route) == 0)
		return true;
	failure_pgsf(failure, session->handle);
	return false;
}

/* Find the node of a key, and connect to it. */
static bool
find_route(Session *session, const char *key, Shard **shard, pgsf_route *route, Failure *failure)
{
	*shard = shard_find(session, key, failure);
	return *shard != NULL && use_shard(session, *shard, route, failure);
}

static void
roll_back(const pgsf_route *route)
{
	Failure		ignored;

	pgsf_close(route->handle);
	if (PQstatus(route->conn) == CONNECTION_OK &&
		PQtransactionStatus(route->conn) != PQTRANS_IDLE)
		(void) conn_do(route->conn, &ignored, "ROLLBACK");
}

/* ---- put ---- */

/*
 * Keep the table as it is until the transaction of a connection to the coordinator ends.  Citus
 * would make it anew without what is written to shards meanwhile.
 */
static bool
hold_table(const Target *target, PGconn *conn, Failure *failure)
{
	const char *const values[] = {target->table};
	char	   *sql = text_make("SELECT %s.securefile_dist_hold($1::pg_catalog.regclass)",
								target->dist_schema);
	PGresult   *result = conn_query(conn, failure, sql, 1, values);

	PQclear(result);
	free(sql);
	return result != NULL;
}

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Begin the transaction that holds the table, unless one has not been open for long. */
static bool
keep_table(Session *session, Failure *failure)
{
	if (session->keeps_table && now_ms() - session->kept_since < KEEP_MS)
		return true;
	session_let_go(session);
	if (!session_do(session, failure, BEGIN))
		return false;
	session->keeps_table = true;
	session->kept_since = now_ms();
	return hold_table(session->target, session->conn, failure);
}

/* Is the node of a route the coordinator? */
static bool
look_at_node(const pgsf_route *route, bool *is_coordinator, Failure *failure)
{
	PGresult   *result = conn_rows(route->conn, failure, 1,
								   "SELECT groupid FROM pg_catalog.pg_dist_local_group", 0, NULL);

	*is_coordinator = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "0") == 0;
	PQclear(result);
	return result != NULL;
}

/*
 * Begin the transaction on the node, and hold the table: on the coordinator, in the session of
 * its own.  Where the node is the coordinator, both are one transaction: a command that waits
 * for the table would else stand between them.
 */
static bool
begin_put(Session *session, const pgsf_route *route, Failure *failure)
{
	bool		is_coordinator;
	bool		was_kept = session->keeps_table;

	if (!conn_do(route->conn, failure, BEGIN) ||
		!look_at_node(route, &is_coordinator, failure))
		return false;
	if (!is_coordinator)
		return (!was_kept || conn_do(route->conn, failure, SHORT_WAIT)) &&
			keep_table(session, failure);
	session_let_go(session);
	return hold_table(session->target, route->conn, failure);
}

/*
 * Execute the statement of a routed put, and take the lock of the shard.  *place: where the row
 * is, the shard or a partition of it, which the caller frees; NULL: not on that node.
 */
static bool
hold_row(const RoutedPut *put, const pgsf_route *route, const char *key_is_name, char **place,
		 Failure *failure)
{
	PGresult   *result;
	bool		stored;
	char	   *sql;

	*place = NULL;
	if (put->statement != NULL)
	{
		result = conn_query(route->conn, failure, put->statement, put->count, put->values);
		if (result == NULL)
			return false;
		stored = strcmp(PQcmdTuples(result), "0") != 0;
		PQclear(result);
		if (!stored)
			return failure_say(failure, ROUTE_NO_ROW);
	}
	sql = text_make("SELECT tableoid::pg_catalog.regclass FROM %s WHERE %s AND %s", route->shard,
					key_is_name, route->is_held);
	result = conn_rows(route->conn, failure, 1, sql, 1, put->values);
	free(sql);
	if (result != NULL && PQntuples(result) > 0)
		*place = text_make("%s", PQgetvalue(result, 0, 0));
	PQclear(result);
	/* the table was made anew after the route was found */
	return result != NULL || strcmp(failure->sqlstate, NO_SUCH_TABLE) == 0;
}

/*
 * Stream the file into the shard, which cannot move any more, and commit, unless the coordinator
 * has lost its lock meanwhile.
 */
static int64_t
stream_into(Session *session, const RoutedPut *put, const pgsf_route *route,
			const char *place, Failure *failure)
{
	const Target *target = session->target;
	pgsf_params params = {1, NULL, put->values, NULL, NULL};
	char	   *sql = text_make("UPDATE %s SET %s = %s WHERE %s AND %s", route->shard,
								target->column, PGSF_VALUE, target->key_is_name, route->is_held);
	int64_t		bytes = pgsf_put_sparse(route->handle, put->source, put->arg, put->total,
										place, target->plain_column, sql, &params, NULL);

	free(sql);
	if (bytes < 0)
		failure_pgsf(failure, route->handle);
	else if ((session->keeps_table && !conn_do(session->conn, failure, "SELECT")) ||
			 !conn_do(route->conn, failure, "COMMIT"))
		bytes = -1;
	return bytes;
}

/*
 * One attempt to hold the row of a put; *place as above, NULL also if the attempt has to be
 * repeated.  False after a failure.
 */
static bool
try_put(Session *session, const RoutedPut *put, const char *key, pgsf_route *route, char **place,
		Failure *failure)
{
	bool		was_kept = session->keeps_table;
	Shard	   *shard;
	bool		good;

	*place = NULL;
	if (!find_route(session, key, &shard, route, failure))
		return false;
	good = begin_put(session, route, failure) &&
		hold_row(put, route, session->target->key_is_name, place, failure);
	if (*place != NULL)
		return true;
	roll_back(route);
	if (good)
		atomic_store(&shard->moved, true);
	else if (was_kept && strcmp(failure->sqlstate, LOCK_TIMEOUT) == 0)
	{
		session_let_go(session);
		return true;
	}
	return good;
}

/* What was committed on the node stays, whatever becomes of the table's lock afterwards. */
int64_t
route_put(Session *session, const Options *options, const RoutedPut *put, Failure *failure)
{
	pgsf_route	route;
	char	   *key;
	char	   *place = NULL;
	int64_t		bytes = -1;
	bool		good = find_key(session, put->row_exists ? NULL : options, put->values[0], &key,
								failure);

	for (int i = 0; i < TRIES && good && place == NULL; i++)
		good = try_put(session, put, key, &route, &place, failure);
	free(key);
	if (place != NULL)
	{
		bytes = stream_into(session, put, &route, place, failure);
		if (bytes < 0)
			roll_back(&route);
	}
	else if (good)
		failure_say(failure, "the row is gone, or its shard is being moved\nHint: Try again.");
	free(place);
	if (bytes < 0)
		session_let_go(session);
	return bytes;
}

/* ---- looking ---- */

bool
route_look(Session *session, const char *name, int *rows, PGresult **result)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	Shard	   *shard = session->no_routes ? NULL : shard_known(session);
	pgsf_route	route;
	Failure		failure;
	char	   *sql;

	if (shard == NULL)
		return false;
	if (!use_shard(session, shard, &route, &failure))
	{
		(void) route_is_missing(session, &failure);
		return false;
	}
	sql = text_make("SELECT f.length, f.is_row, h.is_here FROM (SELECT %s) h (is_here) LEFT JOIN"
					" (SELECT pg_catalog.length(%s), true FROM %s WHERE %s LIMIT 2)"
					" f (length, is_row) ON true", route.is_here, target->column, route.shard,
					target->key_is_name);
	*result = conn_rows(route.conn, &failure, 3, sql, 1, values);
	free(sql);
	if (PQntuples(*result) > 0 && PQgetvalue(*result, 0, 2)[0] == 't')
	{
		*rows = PQgetisnull(*result, 0, 1) ? 0 : PQntuples(*result);
		return true;
	}
	if (*result != NULL || strcmp(failure.sqlstate, NO_SUCH_TABLE) == 0)
		atomic_store(&shard->moved, true);
	PQclear(*result);
	return false;
}

bool
route_seat(Session *session, Seat *seat)
{
	Shard	   *shard = session->no_routes ? NULL : shard_known(session);
	pgsf_route	route;
	Failure		ignored;

	if (shard == NULL || !use_shard(session, shard, &route, &ignored))
		return false;
	*seat = (Seat) {route.conn, route.shard, route.is_here};
	return true;
}

/* ---- get ---- */

int64_t
route_get(Session *session, const char *name, Download *to, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	pgsf_params params = {1, NULL, values, NULL, NULL};
	pgsf_route	route;
	char	   *key;
	int64_t		bytes = -1;

	if (!find_key(session, NULL, name, &key, failure))
		return -1;
	for (int i = 0; i < TRIES && bytes < 0; i++)
	{
		Shard	   *shard;
		char	   *sql;

		if (!find_route(session, key, &shard, &route, failure))
			break;
		sql = text_make("SELECT %s FROM %s WHERE %s AND %s", target->column, route.shard,
						target->key_is_name, route.is_here);
		bytes = download(to, route.handle, sql, &params, failure);
		free(sql);
		if (bytes >= 0)
			break;

		/*
		 * nothing was written yet: the shard is elsewhere, or there is no
		 * such row
		 */
		if (strcmp(failure->sqlstate, PGSF_ERROR_NOT_FOUND) != 0 &&
			strcmp(failure->sqlstate, NO_SUCH_TABLE) != 0)
			break;
		atomic_store(&shard->moved, true);
	}
	free(key);
	return bytes;
}

bool
route_is_missing(Session *session, const Failure *failure)
{
	Failure		notice;

	if (strcmp(failure->sqlstate, PGSF_ERROR_CONNECTION) != 0 ||
		PQstatus(session->conn) != CONNECTION_OK)
		return false;
	failure_say(&notice, "%s\nHint: Files go through the coordinator, which is slower.",
				failure->text);
	output_notice(NULL, notice.text);
	session->no_routes = true;
	return true;
}
