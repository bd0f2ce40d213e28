/*-------------------------------------------------------------------------
 *
 * reason.c
 *	  Why the server has ended a session.
 *
 * A server that ends a session says why, closes, and so fails what is being sent.
 * Its words come behind the results of pieces that were still answered.  If libpq
 * meets the end before it has parsed these, it forgets which commands they are of,
 * and takes them, and the server's words, for strange messages while idle: they go
 * to the notice receiver.  So for that moment this file is the receiver.
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

	/* ERROR, FATAL, PANIC; an error of libpq itself has none */
	if (reason->heard || severity == NULL || strchr("EFP", severity[0]) == NULL)
		return;
	reason->heard = true;
	pgsfi_error_clear(reason->h);
	pgsfi_fail_result(reason->h, message);
}

/*
 * Has the application left it to libpq how notices are received?  libpq tells no
 * receiver's argument, so another one could not be put back; the default ignores it.
 */
static bool
receiver_is_default(PGconn *conn)
{
	/* connects to nothing */
	PGconn	   *other = PQconnectStart("no_such_word=1");
	bool		same = PQsetNoticeReceiver(conn, NULL, NULL) == PQsetNoticeReceiver(other, NULL, NULL);

	PQfinish(other);
	return same;
}

/*
 * The connection is lost with commands in flight: set the error, to the server's
 * reason if there is one.  Past another receiver the first result is all that can be
 * asked for, if it was not taken before.
 */
void
pgsfi_hear_reason(pgsf *h)
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
	/* idle now: parses the rest */
	(void) PQisBusy(link->conn);
	(void) PQsetNoticeReceiver(link->conn, usual, NULL);
}
