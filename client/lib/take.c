/*-------------------------------------------------------------------------
 *
 * take.c
 *	  Taking the connection from the application or from another handle, and giving it
 *	  back: free, in its modes of before, and with the transaction put right.
 *
 * A handle whose stream is under way keeps the connection between two calls: its
 * commands are in flight (Link.user).  When another handle wants the connection, that
 * stream is settled first.
 *
 * Settling, giving up and ending stand in one file because they need each other: to
 * settle a stream that fails is to give its value up, and to give a value up the
 * connection has to be taken.  The recursion ends there: pgsfi_give_up() of the handle
 * that has the connection takes it from nobody.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* End the stream of another handle; its own next call reports an error of it. */
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
	PGSF_ASSERT(link->user == NULL && link->queue_len == 0);
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

int
pgsfi_release(pgsf *h)
{
	Link	   *link = h->link;
	int			rc;

	if (link->user != h)
		return 0;
	rc = pgsfi_finish(h, NULL);

	/*
	 * the server was too late to stop anything, but the application wants the
	 * error
	 */
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

/* The connection is lost, and the value with it. */
static int
lost(pgsf *h)
{
	pgsfi_forget_ahead(h);
	(void) pgsfi_release(h);
	pgsfi_closed(h);
	return -1;
}

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

	/* nothing is in flight: this is the state on entry */
	PGSF_ASSERT(h->link->user == h && h->link->queue_len == 0);
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

int
pgsfi_end_transaction(pgsf *h, const char *command)
{
	PGresult   *result;
	int			rc = 0;

	/* a transaction that is half ended helps nobody */
	PGSF_ASSERT(h->cancel_masked);
	if (pgsfi_execute(h, command, &result) < 0)
		return -1;

	/*
	 * for the server COMMIT of a failed transaction is no error: it answers
	 * ROLLBACK
	 */
	if (strcmp(PQcmdStatus(result), command) != 0)
		rc = pgsfi_fail(h, STATE_FAILED, "the transaction was rolled back");
	PQclear(result);
	return rc;
}

/*
 * Close the server's handle in a transaction of the application.  ROLLBACK TO SAVEPOINT
 * may have closed it before, and that error must not fail the transaction: hence the
 * savepoint.
 */
static int
close_at_server(pgsf *h)
{
	bool		had_error = h->error.sqlstate[0] != '\0';
	Params		params;
	char	   *sql = pgsfi_sql(h, "SELECT %s.securefile_close($1)", h->link->schema);
	int			ready = pgsfi_params_start(h, &params, NULL);
	PGresult   *result;
	int			rc = -1;

	if (sql != NULL && ready == 0)
	{
		pgsfi_params_int4(&params, h->fd);
		if (pgsfi_send(h, AWAITED_NOTHING, "SAVEPOINT pgsf_close", NULL, 0) == 0 &&
			pgsfi_send(h, AWAITED_NOTHING, sql, &params.all, 1) == 0 &&
			pgsfi_send(h, AWAITED_NOTHING, "RELEASE SAVEPOINT pgsf_close", NULL, 0) == 0)
			rc = pgsfi_finish(h, NULL);
		if (rc < 0 && pgsfi_connected(h) &&
			pgsfi_execute(h, "ROLLBACK TO SAVEPOINT pgsf_close", &result) == 0)
		{
			PQclear(result);
			if (pgsfi_execute(h, "RELEASE SAVEPOINT pgsf_close", &result) == 0)
				PQclear(result);
		}
	}
	pgsfi_params_free(&params);
	free(sql);
	if (!pgsfi_connected(h))
		return pgsfi_fail_connection(h);
	if (!had_error)
		pgsfi_error_clear(h);
	return 0;
}

int
pgsfi_end_at_server(pgsf *h, const char *command)
{
	PGTransactionStatusType status = PQtransactionStatus(h->link->conn);

	PGSF_ASSERT(h->link->user == h && h->link->queue_len == 0);
	if (status == PQTRANS_IDLE)
		return 0;
	if (!h->own_transaction)
	{
		if (status == PQTRANS_INTRANS && h->mode != PGSF_CLOSED)
			return close_at_server(h);
		return 0;
	}
	if (pgsfi_end_transaction(h, command) == 0)
		return 0;
	/* a cancel request for the statement before may have hit this one */
	if (pgsfi_connected(h) && PQtransactionStatus(h->link->conn) != PQTRANS_IDLE)
		(void) pgsfi_end_transaction(h, "ROLLBACK");
	return -1;
}

int
pgsfi_give_up(pgsf *h)
{
	PGSF_ASSERT(h->error.sqlstate[0] != '\0' && !h->cancel_masked);
	h->cancel_masked = true;
	pgsfi_forget_ahead(h);
	h->gathered_len = 0;
	if (pgsfi_connected(h) && pgsfi_take(h) == 0)
	{
		(void) pgsfi_finish(h, NULL);
		if (pgsfi_connected(h))
			(void) pgsfi_end_at_server(h, "ROLLBACK");
		(void) pgsfi_release(h);
	}
	else if (h->link->user == h)
		(void) pgsfi_release(h);
	PGSF_ASSERT(h->link->user != h);
	pgsfi_closed(h);
	h->cancel_masked = false;
	pgsfi_forget_cancel(h);
	return -1;
}
