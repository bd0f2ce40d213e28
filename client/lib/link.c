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
 * Through the same procedure pass the results of the application's statements.  They
 * tell when it takes transactions into its own hands while a value is open in one
 * that we began: without a round trip, and also in a failed transaction, in which
 * the server could not be asked.
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

/* Whatever transaction there is, none of the handles has to end it. */
void
pgsfi_disown_transaction(Link *link)
{
	for (pgsf *h = link->handles; h != NULL; h = h->next)
		h->own_transaction = false;
}

/*
 * A result of a statement of the application.  After COMMIT and BEGIN the transaction
 * is not ours any more.  ROLLBACK may have been ROLLBACK TO SAVEPOINT, and tells
 * nothing: what is begun after a true one is seen then.
 */
static void
watch_result(Link *link, const PGresult *result)
{
	const char *tag = PQcmdStatus((PGresult *) result);

	if (strcmp(tag, "COMMIT") == 0 || strcmp(tag, "BEGIN") == 0 ||
		strcmp(tag, "START TRANSACTION") == 0)
		pgsfi_disown_transaction(link);
}

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

	/*
	 * registering fails if it is registered already, by an attempt that
	 * failed below
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
