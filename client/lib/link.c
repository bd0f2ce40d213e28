/*-------------------------------------------------------------------------
 *
 * link.c
 *	  The data that all handles of one connection share.
 *
 * A Link is attached to its PGconn as instance data of an event procedure
 * (libpq-events.h).  So the handles of one connection find each other, and learn of
 * PQfinish() and PQreset(), which lose their open values.  The Link is freed when both
 * the connection and the last handle are gone.
 *
 * The results of the application's statements pass through the same procedure.  They
 * tell when the application ends the library's transaction or begins its own while a
 * value is open.  That needs no round trip, and works in a failed transaction too, in
 * which the server could not be asked.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include <libpq-events.h>

#include "internal.h"

static void
free_link(Link *link)
{
	PGSF_ASSERT(link->conn == NULL && link->handles == NULL && link->user == NULL);
	free(link->schema);
	free(link);
}

/* The session has ended, and with it every open value: each handle reports that once. */
static void
lose_all(Link *link)
{
	link->user = NULL;
	link->queue_len = 0;
	link->unsynced = false;
	link->lost = false;
	free(link->schema);
	link->schema = NULL;
	for (pgsf *h = link->handles; h != NULL; h = h->next)
	{
		if (h->mode == PGSF_CLOSED)
			continue;
		pgsfi_closed(h);
		pgsfi_error_clear(h);
		pgsfi_fail(h, PGSF_ERROR_CLOSED, "the connection was closed or reset");
		h->failed_unseen = true;
	}
}

/*
 * Look at a result of a statement of the application.  After COMMIT and BEGIN the
 * library's transaction is over.  The tag ROLLBACK tells nothing, because ROLLBACK TO
 * SAVEPOINT has the same; after a true ROLLBACK the next BEGIN is seen.
 */
static void
watch_result(Link *link, const PGresult *result)
{
	const char *tag = PQcmdStatus((PGresult *) result);

	if (strcmp(tag, "COMMIT") == 0 || strcmp(tag, "BEGIN") == 0 ||
		strcmp(tag, "START TRANSACTION") == 0)
		pgsfi_disown_transaction(link);
}

/* The event procedure that libpq calls; 1 means success. */
static int
link_event(PGEventId id, void *info, void *passthrough)
{
	Link	   *link;

	(void) passthrough;
	if (id == PGEVT_RESULTCREATE)
	{
		PGEventResultCreate *create = info;

		link = PQinstanceData(create->conn, link_event);
		if (link != NULL && link->user == NULL)
			watch_result(link, create->result);
		return 1;
	}
	if (id == PGEVT_CONNRESET)
		link = PQinstanceData(((PGEventConnReset *) info)->conn, link_event);
	else if (id == PGEVT_CONNDESTROY)
		link = PQinstanceData(((PGEventConnDestroy *) info)->conn, link_event);
	else
		return 1;
	if (link == NULL)
		return 1;
	lose_all(link);
	if (id == PGEVT_CONNDESTROY)
	{
		link->conn = NULL;
		if (link->handles == NULL)
			free_link(link);
	}
	return 1;
}

Link *
pgsfi_link(PGconn *conn)
{
	Link	   *link = PQinstanceData(conn, link_event);

	if (link != NULL)
		return link;
	link = calloc(1, sizeof(Link));
	if (link == NULL)
		return NULL;
	link->conn = conn;

	/*
	 * fails if an earlier attempt registered it and then failed below: no
	 * matter
	 */
	(void) PQregisterEventProc(conn, link_event, "libpgsecurefile", NULL);
	if (!PQsetInstanceData(conn, link_event, link))
	{
		free(link);
		return NULL;
	}
	return link;
}

void
pgsfi_link_leave(pgsf *h)
{
	Link	   *link = h->link;
	pgsf	  **at;

	PGSF_ASSERT(link->user != h);
	for (at = &link->handles; *at != h; at = &(*at)->next)
		PGSF_ASSERT(*at != NULL);
	*at = h->next;
	if (link->conn == NULL && link->handles == NULL)
		free_link(link);
}
