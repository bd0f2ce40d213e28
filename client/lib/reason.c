/*-------------------------------------------------------------------------
 *
 * reason.c
 *	  A connection is lost with commands in flight: why the server has ended it.
 *
 * A server that ends a session sends its reason and closes the socket, so that the
 * commands being sent fail.  The reason stands behind the results of pieces that were
 * still answered.  If libpq meets the end of the socket before it has parsed these, it
 * forgets which commands they belong to.  It then takes them, and the reason, for
 * messages of an idle session, and gives them to the notice receiver.  So for that
 * moment this file is the receiver.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "internal.h"

typedef struct Reason
{
	pgsf	   *h;
	bool		heard;
} Reason;

/* A notice receiver: the first error of the server is the reason. */
static void
hear(void *arg, const PGresult *message)
{
	Reason	   *reason = arg;
	const char *severity = PQresultErrorField(message, PG_DIAG_SEVERITY_NONLOCALIZED);

	/* ERROR, FATAL, PANIC; an error of libpq itself has no severity */
	if (reason->heard || severity == NULL || strchr("EFP", severity[0]) == NULL)
		return;
	reason->heard = true;
	pgsfi_error_clear(reason->h);
	pgsfi_fail_result(reason->h, message);
}

/*
 * Is the notice receiver libpq's default?  Only the default can be replaced for a
 * moment and put back: libpq does not tell the argument of a receiver, and the default
 * ignores its own.
 */
static bool
receiver_is_default(PGconn *conn)
{
	/* connects to nothing */
	PGconn	   *other = PQconnectStart("no_such_word=1");
	PQnoticeReceiver usual = PQsetNoticeReceiver(other, NULL, NULL);

	PQfinish(other);
	return PQsetNoticeReceiver(conn, NULL, NULL) == usual;
}

/*
 * Set the error to the server's reason, if it sent one, else to libpq's message.  If
 * the application has a notice receiver of its own, only the first result after the
 * loss can be looked at, and only if nobody took it before.
 */
static void
hear_reason(pgsf *h)
{
	Link	   *link = h->link;
	Reason		reason = {h, false};
	bool		first = !link->lost;
	bool		all = receiver_is_default(link->conn);
	PQnoticeReceiver usual = NULL;
	PGresult   *result;

	link->lost = true;
	if (h->error.sqlstate[0] != '\0')
		return;
	pgsfi_fail_connection(h);
	if (all)
		usual = PQsetNoticeReceiver(link->conn, hear, &reason);
	while ((all || first) && (result = PQgetResult(link->conn)) != NULL)
	{
		hear(&reason, result);
		PQclear(result);
		first = false;
	}
	if (!all)
		return;
	/* libpq is idle now, so that this call parses the rest and calls hear() */
	(void) PQisBusy(link->conn);
	(void) PQsetNoticeReceiver(link->conn, usual, NULL);
}

int
pgsfi_lost_in_flight(pgsf *h)
{
	Link	   *link = h->link;

	if (link->queue_len > 0 && !pgsfi_connected(h))
		hear_reason(h);
	link->queue_len = 0;
	link->unsynced = false;
	return pgsfi_fail_connection(h);
}
