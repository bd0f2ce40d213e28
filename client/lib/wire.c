/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  Commands in flight.
 *
 * Whenever the connection is ours it is in pipeline mode and not blocking.
 * Commands are sent one after another; each leaves an Awaited in the queue, and
 * results are taken in the same order.  After an error the server skips what
 * comes until the next sync; finish() sends one and takes all that is in flight,
 * so that nothing of us is left in the connection whatever happened.
 *
 * When libpq meets the end of a lost connection it forgets what it awaits.  Only the
 * first result after that is sound; what there is behind it is for reason.c.
 *
 * Between pieces of a stream no sync is sent, but a request to send the answers:
 * what was sent behind a failed piece is then skipped in silence, where a sync
 * would let the server try each, and log an error for each.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- whose connection it is ---- */

/* The stream of another handle ends; an error of it is for its next call. */
static void
settle(pgsf *other)
{
	pgsfi_error_clear(other);
	pgsfi_forget_ahead(other);
	if (pgsfi_send_gathered(other) == 0 && pgsfi_release(other) == 0)
		return;
	(void) pgsfi_give_up(other);
	other->failed_unseen = true;
}

/* Make the connection ours, if it is not. */
int
pgsfi_take(pgsf *h)
{
	Link	   *link = h->link;
	PGTransactionStatusType status;

	if (link->conn == NULL || PQstatus(link->conn) != CONNECTION_OK)
		return pgsfi_fail_connection(h);
	if (link->user == h)
		return 0;
	if (link->user != NULL)
		settle(link->user);
	status = PQtransactionStatus(link->conn);
	if (status == PQTRANS_UNKNOWN)
		return pgsfi_fail_connection(h);
	link->was_pipeline = PQpipelineStatus(link->conn) != PQ_PIPELINE_OFF;
	if (status == PQTRANS_ACTIVE ||
		(link->was_pipeline && !PQexitPipelineMode(link->conn)) ||
		!PQenterPipelineMode(link->conn))
		return pgsfi_fail(h, PGSF_ERROR_BUSY, "the connection has a command in progress");
	link->was_nonblocking = PQisnonblocking(link->conn);
	link->was_idle = status == PQTRANS_IDLE;
	(void) PQsetnonblocking(link->conn, 1);
	link->prepared = PREPARED_NONE;
	link->user = h;
	return 0;
}

/* Take all that is in flight and give the connection back as it was. */
int
pgsfi_release(pgsf *h)
{
	Link	   *link = h->link;
	int			rc;

	if (link->user != h)
		return 0;
	rc = pgsfi_finish(h, NULL);
	/* a cancel request may have come too late for the server, but not for us */
	if (h->cancel_sent && !h->cancel_masked)
		rc = -1;
	link->user = NULL;
	if (!PQexitPipelineMode(link->conn))
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "could not leave pipeline mode");
	(void) PQsetnonblocking(link->conn, link->was_nonblocking);
	if (link->was_pipeline)
		(void) PQenterPipelineMode(link->conn);
	return rc;
}

/* The connection is lost, or the transaction that the value was open in. */
static int
lost(pgsf *h)
{
	pgsfi_forget_ahead(h);
	pgsfi_closed(h);
	return -1;
}

/*
 * Make the connection ours, in a state that allows for commands, at the start of
 * a public function.  What is found wrong here leaves a value open, unless it is
 * gone.
 */
int
pgsfi_enter(pgsf *h)
{
	PGTransactionStatusType status;

	if (!pgsfi_connected(h))
	{
		pgsfi_fail_connection(h);
		return lost(h);
	}
	if (h->link->user == h)
		return 0;
	if (pgsfi_take(h) < 0)
		return pgsfi_connected(h) ? -1 : lost(h);

	/* h is the user and nothing is in flight: this is the state on entry */
	status = PQtransactionStatus(h->link->conn);
	if (status == PQTRANS_INERROR)
		pgsfi_fail(h, STATE_FAILED, "the transaction has failed: roll it back");
	else if (h->link->was_idle && h->mode != PGSF_CLOSED)
	{
		pgsfi_fail(h, STATE_NOT_OPEN, "the transaction in which the value was open has ended");
		pgsfi_closed(h);
	}
	else
		return 0;
	(void) pgsfi_release(h);
	return -1;
}

/* ---- sending ---- */

/* With the connection all that was in flight is lost. */
int
pgsfi_lost_in_flight(pgsf *h)
{
	Link	   *link = h->link;

	if (link->queue_len > 0 && !pgsfi_connected(h))
		pgsfi_hear_reason(h);
	link->queue_len = 0;
	link->unsynced = false;
	return pgsfi_fail_connection(h);
}

static void
push(Link *link, AwaitedKind kind, int64_t object_offset, int64_t len_bytes)
{
	Awaited    *awaited = &link->queue[(link->queue_head + link->queue_len) % QUEUE_MAX];

	awaited->kind = kind;
	awaited->object_offset = object_offset;
	awaited->len_bytes = len_bytes;
	link->queue_len++;
	link->unsynced = kind != AWAITED_SYNC;
}

/* Room for two more commands and a sync, and for what is sent. */
static int
make_room(pgsf *h)
{
	while (h->link->queue_len > QUEUE_MAX - 3)
	{
		Awaited		awaited;
		PGresult   *result;

		if (pgsfi_next(h, &awaited, &result) < 0)
			return -1;
		PQclear(result);
	}
	return pgsfi_send_all(h);
}

/* After sending: libpq's answer, and what is awaited now. */
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

/*
 * Let the unnamed statement be that, if it is not: a call of the function with the
 * handle, $1, and $2, at the position or (_AT) at offset $3.
 */
int
pgsfi_prepare(pgsf *h, Prepared which, const char *function, Oid second)
{
	const Oid	types[] = {OID_INT4, second, OID_INT8};
	const char *schema = h->link->schema;
	int			at = which == PREPARED_READ_AT || which == PREPARED_WRITE_AT;
	char	   *sql;
	int			rc;

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

/* Execute the unnamed statement, for a binary result. */
int
pgsfi_send_prepared(pgsf *h, const Awaited *awaited, const pgsf_params *params)
{
	if (make_room(h) < 0)
		return -1;
	return sent(h, PQsendQueryPrepared(h->link->conn, "", params->count, params->values,
									   params->lengths, params->formats, 1),
				awaited->kind, awaited->object_offset, awaited->len_bytes);
}

/* Ask for the answers to what was sent. */
int
pgsfi_request_answers(pgsf *h)
{
	if (!PQsendFlushRequest(h->link->conn))
		return pgsfi_lost_in_flight(h);
	return pgsfi_send_all(h);
}

/* End the series of commands, if there is one. */
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

	link->queue_head = (link->queue_head + 1) % QUEUE_MAX;
	link->queue_len--;
	return awaited;
}

/*
 * Wait for a result and get it; NULL is what ends the results of a command.  -1 if
 * the connection is lost and this is not the first after that.
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
	return 0;
}

/* What else there is of a command, up to the NULL that ends it, goes. */
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

/* Whether a result is a success; if not, its error is set. */
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
			/* skipped after an error, which has been seen */
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

/*
 * Take the result of the first command in flight.  Bytes that were written are
 * counted here.
 */
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

/*
 * The next row of a command in single-row mode, which is the only one in flight;
 * NULL after the last one.
 */
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

/*
 * Send a sync and take all that is in flight, also after an error.  If answer is
 * not NULL it receives the result of the last AWAITED_ANSWER; NULL after an error.
 */
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
	if (rc < 0 && answer != NULL)
	{
		PQclear(*answer);
		*answer = NULL;
	}
	return rc;
}

/* One statement without parameters, and its result in text form. */
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
