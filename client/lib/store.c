/*-------------------------------------------------------------------------
 *
 * store.c
 *	  How a value ends: stored, closed, or given up after an error; and with it
 *	  the transaction, if it is ours.
 *
 * Once a statement has stored the value a cancel request comes too late: COMMIT is
 * not cancelled.  Nor is what puts things right after an error.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Nothing is open any more; what the server has is its own matter. */
void
pgsfi_closed(pgsf *h)
{
	PQclear(h->piece);
	h->piece = NULL;
	h->piece_len = 0;
	h->gathered_len = 0;
	h->mode = PGSF_CLOSED;
	h->own_transaction = false;
}

/* End the transaction that we began, in pipeline mode. */
static int
end_transaction(pgsf *h, const char *command)
{
	PGresult   *result;
	int			rc = 0;

	if (pgsfi_execute(h, command, &result) < 0)
		return -1;
	/* COMMIT of a transaction that has failed is no error, but a ROLLBACK */
	if (strcmp(PQcmdStatus(result), command) != 0)
		rc = pgsfi_fail(h, STATE_FAILED, "the transaction was rolled back");
	PQclear(result);
	return rc;
}

/*
 * Tell the server, in a transaction of the application, that its handle is not
 * needed.  It may have closed it itself by now (ROLLBACK TO SAVEPOINT), which must
 * not fail the transaction.
 */
static int
close_at_server(pgsf *h)
{
	bool		had_error = h->error.sqlstate[0] != '\0';
	Params		params;
	char	   *sql = pgsfi_sql(h, "SELECT %s.securefile_close($1)", h->link->schema);
	PGresult   *result;
	int			rc = -1;

	if (sql != NULL && pgsfi_params_start(h, &params, NULL) == 0)
	{
		pgsfi_params_int4(&params, h->fd);
		if (pgsfi_send(h, AWAITED_NOTHING, "SAVEPOINT pgsf_close", NULL, 0) == 0 &&
			pgsfi_send(h, AWAITED_NOTHING, sql, &params.all, 1) == 0 &&
			pgsfi_send(h, AWAITED_NOTHING, "RELEASE SAVEPOINT pgsf_close", NULL, 0) == 0)
			rc = pgsfi_finish(h, NULL);
		pgsfi_params_free(&params);
		if (rc < 0 && pgsfi_connected(h) &&
			pgsfi_execute(h, "ROLLBACK TO SAVEPOINT pgsf_close", &result) == 0)
		{
			PQclear(result);
			if (pgsfi_execute(h, "RELEASE SAVEPOINT pgsf_close", &result) == 0)
				PQclear(result);
		}
	}
	free(sql);
	if (!pgsfi_connected(h))
		return pgsfi_fail_connection(h);
	if (!had_error)
		pgsfi_error_clear(h);
	return 0;
}

/* What has to be sent so that the server has nothing open of us. */
static int
end_at_server(pgsf *h, const char *command)
{
	PGTransactionStatusType status = PQtransactionStatus(h->link->conn);

	if (status == PQTRANS_IDLE)
		return 0;
	if (!h->own_transaction)
	{
		if (status == PQTRANS_INTRANS && h->mode != PGSF_CLOSED)
			return close_at_server(h);
		return 0;
	}
	if (end_transaction(h, command) == 0)
		return 0;
	/* a cancel request for the statement before may have hit this one */
	if (pgsfi_connected(h) && PQtransactionStatus(h->link->conn) != PQTRANS_IDLE)
		(void) end_transaction(h, "ROLLBACK");
	return -1;
}

/*
 * After an error, which is set: take what is in flight, roll back or close, and
 * leave the connection free.  Returns -1.
 */
int
pgsfi_give_up(pgsf *h)
{
	h->cancel_masked = true;
	pgsfi_forget_ahead(h);
	h->gathered_len = 0;
	if (pgsfi_connected(h) && pgsfi_take(h) == 0)
	{
		(void) pgsfi_finish(h, NULL);
		if (pgsfi_connected(h))
			(void) end_at_server(h, "ROLLBACK");
		(void) pgsfi_release(h);
	}
	else if (h->link->user == h)
		(void) pgsfi_release(h);
	pgsfi_closed(h);
	h->cancel_masked = false;
	pgsfi_forget_cancel(h);
	return -1;
}

/* ---- storing ---- */

/* The storing statement must have done something. */
static int
check_stored(pgsf *h, const PGresult *result)
{
	if (result == NULL)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "no answer");
	if (strcmp(PQcmdTuples((PGresult *) result), "0") == 0)
		return pgsfi_fail(h, PGSF_ERROR_NOT_FOUND, "the statement stored no row");
	return 0;
}

/* Send the rest, the storing statement, and wait for its result. */
static int
execute_storing(pgsf *h, const char *sql, const pgsf_params *given, PGresult **answer)
{
	Params		params;
	char	   *text = NULL;
	int			rc = -1;

	if (pgsfi_params_start(h, &params, given) == 0 && pgsfi_send_gathered(h) == 0)
	{
		pgsfi_params_int4(&params, h->fd);
		text = pgsfi_sql_with_value(h, sql, params.all.count);
		if (pgsfi_send(h, AWAITED_ANSWER, text, &params.all, 0) == 0 &&
			pgsfi_finish(h, answer) == 0)
			rc = check_stored(h, *answer);
	}
	free(text);
	pgsfi_params_free(&params);
	return rc;
}

/*
 * A COMMIT that was sent and not answered may have been executed: that is another
 * error than any other loss of the connection.
 */
static int
commit(pgsf *h)
{
	int			rc;

	if (pgsfi_check_cancel(h) < 0)
		return -1;
	h->cancel_masked = true;
	rc = end_transaction(h, "COMMIT");
	h->cancel_masked = false;
	if (rc < 0 && !pgsfi_connected(h))
	{
		pgsfi_error_clear(h);
		pgsfi_fail(h, PGSF_ERROR_UNKNOWN, "the connection was lost during COMMIT:"
				   " whether the value is stored is not known");
	}
	return rc;
}

/*
 * Store what is open, and commit if the transaction is ours; then nothing is open.
 * A cancel request that did not keep the statement from storing, or COMMIT, is
 * forgotten: an error must not be told of what is stored.
 */
int
pgsfi_store(pgsf *h, const char *sql, const pgsf_params *params, PGresult **result)
{
	PGresult   *answer = NULL;

	if (execute_storing(h, sql, params, &answer) < 0 ||
		(h->own_transaction && commit(h) < 0))
	{
		PQclear(answer);
		return -1;
	}
	pgsfi_closed(h);
	pgsfi_forget_cancel(h);
	(void) pgsfi_release(h);
	pgsfi_error_clear(h);
	if (result != NULL)
		*result = answer;
	else
		PQclear(answer);
	return 0;
}

int
pgsf_store(pgsf *h, const char *sql, const pgsf_params *params, PGresult **result)
{
	if (result != NULL)
		*result = NULL;
	if (pgsfi_start_open(h, true) < 0 || pgsfi_check_storing(h, sql, params) < 0 ||
		pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	if (pgsfi_store(h, sql, params, result) < 0)
		return pgsfi_give_up(h);
	return 0;
}

/* ---- closing ---- */

int
pgsf_close(pgsf *h)
{
	int			rc;

	if (h == NULL)
		return -1;
	pgsfi_error_clear(h);
	h->failed_unseen = false;
	pgsfi_forget_cancel(h);
	if (h->mode == PGSF_CLOSED)
		return 0;
	pgsfi_forget_ahead(h);
	h->gathered_len = 0;
	h->cancel_masked = true;
	rc = pgsfi_take(h);
	if (rc < 0 && pgsfi_connected(h))
	{
		/* the application is in the middle of something: it can try again */
		h->cancel_masked = false;
		return -1;
	}
	if (rc == 0)
	{
		/* what failed of it is not stored anyway */
		(void) pgsfi_finish(h, NULL);
		pgsfi_error_clear(h);
		rc = pgsfi_connected(h) ?
			end_at_server(h, h->mode == PGSF_READ ? "COMMIT" : "ROLLBACK") :
			pgsfi_fail_connection(h);
		if (pgsfi_release(h) < 0)
			rc = -1;
	}
	h->cancel_masked = false;
	pgsfi_closed(h);
	return rc;
}
