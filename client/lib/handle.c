/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  Making and freeing handles.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

int
pgsf_version(void)
{
	return PGSF_VERSION_NUM;
}

pgsf *
pgsf_new(PGconn *conn)
{
	pgsf	   *h;

	if (conn == NULL || PQstatus(conn) != CONNECTION_OK)
		return NULL;
	h = calloc(1, sizeof(pgsf));
	if (h == NULL)
		return NULL;
	h->cancel_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	h->link = h->cancel_event < 0 ? NULL : pgsfi_link(conn);
	if (h->link == NULL)
	{
		if (h->cancel_event >= 0)
			close(h->cancel_event);
		free(h);
		return NULL;
	}
	h->next = h->link->handles;
	h->link->handles = h;
	return h;
}

void
pgsf_free(pgsf *h)
{
	if (h == NULL)
		return;
	(void) pgsf_close(h);
	pgsfi_forget_nodes(h);
	pgsfi_error_clear(h);
	pgsfi_link_leave(h);
	close(h->cancel_event);
	free(h->gathered);
	free(h);
}
