/*-------------------------------------------------------------------------
 *
 * store.c
 *	  How a value ends: stored or closed; and with it the transaction, if the library
 *	  began it.
 *
 * Once a statement has stored the value, a cancel request comes too late: COMMIT is not
 * cancelled, because the application could not tell then whether the value is stored.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- storing ---- */

/* Fail if the storing statement succeeded without storing a row. */
static int
check_stored(pgsf *h, const PGresult *result)
{
	if (result == NULL)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "no answer");
	if (strcmp(PQcmdTuples((PGresult *) result), "0") == 0)
		return pgsfi_fail(h, PGSF_ERROR_NOT_FOUND, "the statement stored no row");
	return 0;
}

/* Send the gathered bytes and the storing statement, and wait for its result. */
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
 * Commit the library's transaction.  If the connection is lost here, COMMIT may have
 * been executed: that has an error of its own, so that the application can look.
 */
static int
commit(pgsf *h)
{
	int			rc;

	PGSF_ASSERT(h->own_transaction && h->gathered_len == 0 && h->link->queue_len == 0);
	if (pgsfi_check_cancel(h) < 0)
		return -1;
	h->cancel_masked = true;
	rc = pgsfi_end_transaction(h, "COMMIT");
	h->cancel_masked = false;
	if (rc < 0 && !pgsfi_connected(h))
	{
		pgsfi_error_clear(h);
		pgsfi_fail(h, PGSF_ERROR_UNKNOWN, "the connection was lost during COMMIT:"
				   " whether the value is stored is not known");
	}
	return rc;
}

/* A cancel request that came too late is forgotten: a stored value must not give an error. */
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
		/*
		 * the application has a command in progress: it can close again after
		 * that
		 */
		h->cancel_masked = false;
		return -1;
	}
	if (rc == 0)
	{
		/* an error of a write does not matter: the value is not stored anyway */
		(void) pgsfi_finish(h, NULL);
		pgsfi_error_clear(h);
		rc = pgsfi_connected(h) ?
			pgsfi_end_at_server(h, h->mode == PGSF_READ ? "COMMIT" : "ROLLBACK") :
			pgsfi_fail_connection(h);
		if (pgsfi_release(h) < 0)
			rc = -1;
	}
	else
		(void) pgsfi_release(h);
	h->cancel_masked = false;
	pgsfi_closed(h);
	return rc;
}
