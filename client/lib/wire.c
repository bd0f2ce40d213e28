/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  Commands in flight.
 *
 * While a handle has the connection (take.c), it is in pipeline mode and not
 * blocking.  Commands are sent one after another; each leaves an Awaited in the queue,
 * and results are taken in the same order.  After an error the server skips all
 * commands up to the next sync.  pgsfi_finish() sends a sync and takes all results, so
 * that the connection is empty whatever happened.
 *
 * When libpq meets the end of a lost connection it forgets which commands it awaits.
 * Only the first result after that is sound; reason.c looks at the rest.
 *
 * Between pieces of a stream there is no sync, but a request to send the answers: the
 * server then skips the pieces behind a failed one in silence.  With a sync behind
 * each piece the server would try each of them, and log an error for each.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "internal.h"

/* ---- sending ---- */

static void
push(Link *link, AwaitedKind kind, int64_t object_offset, int64_t len_bytes)
{
	Awaited    *awaited = &link->queue[(link->queue_head + link->queue_len) % QUEUE_MAX];

	PGSF_ASSERT(link->queue_len < QUEUE_MAX);
	awaited->kind = kind;
	awaited->object_offset = object_offset;
	awaited->len_bytes = len_bytes;
	link->queue_len++;
	link->unsynced = kind != AWAITED_SYNC;
}

/*
 * Make room in the queue for two more commands and a sync, and send all that libpq
 * still has in its buffer, which would grow otherwise.
 */
static int
make_room(pgsf *h)
{
	while (h->link->queue_len > QUEUE_MAX - 3)
	{
		if (pgsfi_drop_next(h) < 0)
			return -1;
	}
	return pgsfi_send_all(h);
}

/* After libpq was given a command: rc is libpq's answer, the rest tells what is awaited. */
static int
sent(pgsf *h, int rc, AwaitedKind kind, int64_t object_offset, int64_t len_bytes)
{
	if (!rc)
		return pgsfi_lost_in_flight(h);
	push(h->link, kind, object_offset, len_bytes);
	return 0;
}

int
pgsfi_send(pgsf *h, AwaitedKind kind, const char *sql, const pgsf_params *params,
		   int binary_result)
{
	static const pgsf_params none = {0, NULL, NULL, NULL, NULL};

	PGSF_ASSERT(pgsfi_has_connection(h));
	if (sql == NULL)
		return pgsfi_fail_memory(h);
	if (params == NULL)
		params = &none;
	if (pgsfi_check_params(h, params) < 0 || make_room(h) < 0)
		return -1;
	h->link->prepared = PREPARED_NONE;
	return sent(h, PQsendQueryParams(h->link->conn, sql, params->count, params->types,
									 params->values, params->lengths, params->formats,
									 binary_result), kind, 0, 0);
}

/* securefile_seek() never yields NULL: the CASE only makes it run before the function. */
int
pgsfi_prepare(pgsf *h, Prepared which, const char *function, Oid second)
{
	const Oid	types[] = {OID_INT4, second, OID_INT8};
	const char *schema = h->link->schema;
	bool		at = which == PREPARED_READ_AT || which == PREPARED_WRITE_AT ||
		which == PREPARED_INSERT_AT;
	char	   *sql;
	int			rc;

	PGSF_ASSERT(which != PREPARED_NONE && pgsfi_has_connection(h));
	if (h->link->prepared == which)
		return 0;
	if (at)
		sql = pgsfi_sql(h, "SELECT %s.%s("
						"CASE WHEN %s.securefile_seek($1, $3, 0) IS NOT NULL THEN $1 END, $2)",
						schema, function, schema);
	else
		sql = pgsfi_sql(h, "SELECT %s.%s($1, $2)", schema, function);
	if (sql == NULL)
		return -1;
	rc = make_room(h);
	if (rc == 0)
		rc = sent(h, PQsendPrepare(h->link->conn, "", sql, at ? 3 : 2, types),
				  AWAITED_NOTHING, 0, 0);
	free(sql);
	if (rc < 0)
		return -1;
	h->link->prepared = which;
	return 0;
}

int
pgsfi_send_prepared(pgsf *h, const Awaited *awaited, const pgsf_params *params)
{
	PGSF_ASSERT(h->link->prepared != PREPARED_NONE);
	if (make_room(h) < 0)
		return -1;
	return sent(h, PQsendQueryPrepared(h->link->conn, "", params->count, params->values,
									   params->lengths, params->formats, 1),
				awaited->kind, awaited->object_offset, awaited->len_bytes);
}

int
pgsfi_request_answers(pgsf *h)
{
	if (!PQsendFlushRequest(h->link->conn))
		return pgsfi_lost_in_flight(h);
	return pgsfi_send_all(h);
}

int
pgsfi_sync(pgsf *h)
{
	if (!h->link->unsynced)
		return 0;
	if (!PQpipelineSync(h->link->conn))
		return pgsfi_lost_in_flight(h);
	push(h->link, AWAITED_SYNC, 0, 0);
	return 0;
}

/* ---- taking results ---- */

static Awaited
pop(Link *link)
{
	Awaited		awaited = link->queue[link->queue_head];

	PGSF_ASSERT(link->queue_len > 0);
	link->queue_head = (link->queue_head + 1) % QUEUE_MAX;
	link->queue_len--;
	return awaited;
}

/* No command of the library is a COPY.  libpq would return such a result for ever. */
static void
refuse_copy(pgsf *h, const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COPY_IN && status != PGRES_COPY_OUT && status != PGRES_COPY_BOTH)
		return;
	pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "unexpected answer: %s", PQresStatus(status));
	pgsfi_abandon(h);
}

/*
 * Wait for a result and get it; NULL ends the results of a command.  Returns -1 if the
 * connection is lost and the first result after the loss was taken before.
 */
static int
get_result(pgsf *h, PGresult **result)
{
	*result = NULL;
	if (h->link->lost || pgsfi_wait_result(h) < 0)
		return -1;
	if (!pgsfi_connected(h))
		h->link->lost = true;
	*result = PQgetResult(h->link->conn);
	refuse_copy(h, *result);
	return 0;
}

/* Drop the other results of a command, up to the NULL that ends them; an error is noted. */
static int
skip_rest(pgsf *h)
{
	for (;;)
	{
		PGresult   *result;

		if (get_result(h, &result) < 0)
			return -1;
		if (result == NULL)
			return 0;
		if (PQresultStatus(result) == PGRES_FATAL_ERROR)
			pgsfi_fail_result(h, result);
		PQclear(result);
	}
}

/* Is a result a success?  If it is not, its error becomes the handle's. */
static bool
succeeded(pgsf *h, const PGresult *result)
{
	switch (PQresultStatus(result))
	{
		case PGRES_COMMAND_OK:
		case PGRES_TUPLES_OK:
		case PGRES_SINGLE_TUPLE:
		case PGRES_PIPELINE_SYNC:
			return true;
		case PGRES_PIPELINE_ABORTED:

			/*
			 * an error before it was seen, and stands: this text is for the
			 * case without one
			 */
			pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "a command was skipped");
			return false;
		case PGRES_FATAL_ERROR:
			pgsfi_fail_result(h, result);
			return false;
		default:
			pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "unexpected answer: %s",
					   PQresStatus(PQresultStatus(result)));
			return false;
	}
}

/* All results of writes pass here, so this is the place to count the bytes that the server took. */
int
pgsfi_next(pgsf *h, Awaited *awaited, PGresult **result)
{
	Link	   *link = h->link;
	bool		good;

	if (get_result(h, result) < 0 || *result == NULL)
		return pgsfi_lost_in_flight(h);
	*awaited = pop(link);
	good = succeeded(h, *result);
	if (awaited->kind != AWAITED_SYNC && skip_rest(h) < 0)
		good = false;
	if (good)
	{
		if (awaited->kind == AWAITED_WRITE)
			h->taken += awaited->len_bytes;
		return 0;
	}
	PQclear(*result);
	*result = NULL;
	if (PQstatus(link->conn) != CONNECTION_OK)
		return pgsfi_lost_in_flight(h);
	return -1;
}

int
pgsfi_drop_next(pgsf *h)
{
	Awaited		awaited;
	PGresult   *result;

	if (pgsfi_next(h, &awaited, &result) < 0)
		return -1;
	PQclear(result);
	return 0;
}

int
pgsfi_next_row(pgsf *h, PGresult **row)
{
	bool		good;

	if (get_result(h, row) < 0 || *row == NULL)
		return pgsfi_lost_in_flight(h);
	if (PQresultStatus(*row) == PGRES_SINGLE_TUPLE)
		return 0;
	(void) pop(h->link);
	good = succeeded(h, *row);
	if (skip_rest(h) < 0)
		good = false;
	PQclear(*row);
	*row = NULL;
	if (good)
		return 0;
	if (PQstatus(h->link->conn) != CONNECTION_OK)
		return pgsfi_lost_in_flight(h);
	return -1;
}

/* Goes on after an error: the results behind it have to be taken too. */
int
pgsfi_finish(pgsf *h, PGresult **answer)
{
	int			rc = pgsfi_sync(h);

	if (answer != NULL)
		*answer = NULL;
	while (h->link->queue_len > 0)
	{
		Awaited		awaited;
		PGresult   *result;

		if (pgsfi_next(h, &awaited, &result) < 0)
			rc = -1;
		else if (awaited.kind == AWAITED_ANSWER && answer != NULL)
		{
			PQclear(*answer);
			*answer = result;
		}
		else
			PQclear(result);
	}
	PGSF_ASSERT(!h->link->unsynced);
	if (rc < 0 && answer != NULL)
	{
		PQclear(*answer);
		*answer = NULL;
	}
	return rc;
}

int
pgsfi_execute(pgsf *h, const char *sql, PGresult **answer)
{
	int			rc;

	if (pgsfi_send(h, AWAITED_ANSWER, sql, NULL, 0) < 0)
		return -1;
	rc = pgsfi_finish(h, answer);
	if (rc == 0 && *answer == NULL)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "no answer");
	return rc;
}
