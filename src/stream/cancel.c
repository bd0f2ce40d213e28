/*-------------------------------------------------------------------------
 *
 * cancel.c
 *	  Cancel requests that come between two pieces of a stream.
 *
 * A stream of pieces is one operation to the user who cancels it, and many statements to
 * the server, which drops a request that comes between two of them: while it waits
 * for the next command there is no statement to cancel.  So a handler of SIGINT in
 * front of the server's own notes that a request came while a handle was open, and
 * the next use of a handle gives it to the server once more.  The server then
 * reports it as it does any other, in its own words and under its own rules.
 *
 * A request is reported once.  What a statement reports by itself ends its
 * (sub)transaction, and with that the note goes.  So it is with statement_timeout
 * and lock_timeout, which also come as SIGINT: the server always reports these.
 *
 * The handler is installed when a session opens its first handle, and stays: the
 * next handler in the chain may be another extension's, as may be the one before.
 * If somebody takes it out of the chain, requests between pieces are lost again.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "stream/stream_internal.h"
#include "tcop/tcopprot.h"

static volatile sig_atomic_t watching = false;
static volatile sig_atomic_t noted = false;
static pqsigfunc next_handler = StatementCancelHandler;

/*
 * The SIGINT handler: reads flags, sets one.  After an error the second signal of
 * one request (PQcancel sends two) may still come: there is nothing to cancel then.
 */
static void
note_request(SIGNAL_ARGS)
{
	if (watching && !IsAbortedTransactionBlockState())
		noted = true;
	next_handler(postgres_signal_arg);
}

/* Other processes have no client that sends pieces. */
static void
install(void)
{
	static bool installed = false;

	if (installed || MyBackendType != B_BACKEND)
		return;
	installed = true;
	next_handler = sf_compat_set_handler(SIGINT, note_request, StatementCancelHandler);
}

/* A note of before the first handle is opened is of another operation. */
void
sfi_cancel_watch(bool any_open)
{
	if (any_open && !watching)
	{
		install();
		noted = false;
	}
	watching = any_open;
}

void
sfi_cancel_forget(void)
{
	noted = false;
}

void
sf_stream_cancel_report(void)
{
	if (!watching || !noted)
		return;
	noted = false;
	QueryCancelPending = true;
	InterruptPending = true;
	CHECK_FOR_INTERRUPTS();
}
