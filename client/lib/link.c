/*-------------------------------------------------------------------------
 *
 * link.c
 *	  What all handles of one connection share.
 *
 * A Link hangs at its PGconn as instance data of an event procedure
 * (libpq-events.h).  So handles of one connection find each other, and learn of
 * PQfinish() and PQreset(): what they had open is lost then.  The Link goes when
 * both the connection and the last handle are gone.
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
	free(link->schema);
	free(link);
}

/* Whatever the handles had open is gone with the session. */
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

static int
link_event(PGEventId id, void *info, void *passthrough)
{
	Link	   *link;

	(void) passthrough;
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

/* The Link of a connection; NULL: no memory. */
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
	/* registering fails if it is registered already, by an attempt that failed below */
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

	for (at = &link->handles; *at != h; at = &(*at)->next)
		;
	*at = h->next;
	if (link->conn == NULL && link->handles == NULL)
		free_link(link);
}

bool
pgsfi_connected(const pgsf *h)
{
	return h->link->conn != NULL && PQstatus(h->link->conn) == CONNECTION_OK;
}

/*
 * Find the schema of the extension, once for a connection: the search path of the
 * application may lack it, or have other functions of these names before it.
 */
int
pgsfi_schema(pgsf *h)
{
	Link	   *link = h->link;
	PGresult   *result;

	if (link->schema != NULL)
		return 0;
	if (pgsfi_execute(h, "SELECT pg_catalog.quote_ident(n.nspname)"
					  " FROM pg_catalog.pg_extension e"
					  " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
					  " WHERE e.extname OPERATOR(pg_catalog.=) 'securefile'", &result) < 0)
		return -1;
	if (PQntuples(result) == 1)
	{
		link->schema = strdup(PQgetvalue(result, 0, 0));
		if (link->schema == NULL)
			pgsfi_fail_memory(h);
	}
	else
		pgsfi_fail(h, PGSF_ERROR_EXTENSION,
				   "extension securefile is not in this database");
	PQclear(result);
	return link->schema == NULL ? -1 : 0;
}
