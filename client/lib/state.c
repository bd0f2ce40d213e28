/*-------------------------------------------------------------------------
 *
 * state.c
 *	  The data that a handle keeps of its value, and the beginning of each public
 *	  function.
 *
 * This file sends nothing to the server.
 *
 *-------------------------------------------------------------------------
 */
#include "internal.h"

int
pgsfi_start(pgsf *h)
{
	if (h == NULL)
		return -1;
	if (h->failed_unseen)
	{
		h->failed_unseen = false;
		return -1;
	}
	pgsfi_error_clear(h);
	h->cancel_sent = false;
	h->unanswered_since_ms = 0;
	return 0;
}

int
pgsfi_start_open(pgsf *h, bool writing)
{
	if (pgsfi_start(h) < 0)
		return -1;
	if (h->mode == PGSF_CLOSED)
		return pgsfi_fail(h, PGSF_ERROR_STATE, "no value is open");
	if (writing && h->mode == PGSF_READ)
		return pgsfi_fail(h, PGSF_ERROR_STATE, "the value is open for reading only");
	return 0;
}

int
pgsfi_start_closed(pgsf *h)
{
	if (pgsfi_start(h) < 0)
		return -1;
	if (h->mode != PGSF_CLOSED)
		return pgsfi_fail(h, PGSF_ERROR_STATE, "a value is open already");
	return 0;
}

void
pgsfi_opened(pgsf *h, pgsf_mode mode, bool created, int fd, int64_t length)
{
	h->mode = mode;
	h->created = created;
	h->fd = fd;
	h->length = length;
	h->position = 0;
	h->server_position = 0;
	h->gathered_offset = 0;
	h->gathered_len = 0;
	h->taken = 0;
	h->piece_offset = 0;
	h->piece_len = 0;
	h->requested_until = 0;
	h->last_end = -1;
	h->ahead = 0;
}

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

/* Reads in flight stay in the queue, because their results will come; they are dropped then. */
void
pgsfi_forget_ahead(pgsf *h)
{
	Link	   *link = h->link;

	PQclear(h->piece);
	h->piece = NULL;
	h->piece_len = 0;
	h->piece_offset = 0;
	h->requested_until = 0;
	h->last_end = -1;
	if (link->user != h)
		return;
	for (int i = 0; i < link->queue_len; i++)
	{
		Awaited    *awaited = &link->queue[(link->queue_head + i) % QUEUE_MAX];

		if (awaited->kind == AWAITED_READ)
			awaited->kind = AWAITED_NOTHING;
	}
}

void
pgsfi_disown_transaction(Link *link)
{
	for (pgsf *h = link->handles; h != NULL; h = h->next)
		h->own_transaction = false;
}
