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

/* The reads in flight: what follows the received piece, in order, up to requested_until. */
static int64_t
end_of_reads(const pgsf *h)
{
	const Link *link = h->link;
	int64_t		end = h->piece_offset + h->piece_len;

	for (int i = 0; link->user == h && i < link->queue_len; i++)
	{
		const Awaited *awaited = &link->queue[(link->queue_head + i) % QUEUE_MAX];

		if (awaited->kind != AWAITED_READ)
			continue;
		PGSF_ASSERT(awaited->object_offset == end);
		end += awaited->len_bytes;
	}
	return end;
}

/*
 *	- closed: nothing of a value is left, and no transaction of the library
 *	- gathered bytes are a part of one piece, of a value that is written, and of its length
 *	- what was read, or requested, is a part of the value
 *	- only a handle that has the connection has commands in flight
 */
void
pgsfi_check_state(const pgsf *h)
{
	const Link *link = h->link;

	PGSF_ASSERT(!h->cancel_masked);
	PGSF_ASSERT(link->user != NULL || (link->queue_len == 0 && !link->unsynced));
	if (h->mode == PGSF_CLOSED)
	{
		PGSF_ASSERT(h->piece == NULL && h->gathered_len == 0 && !h->own_transaction);
		PGSF_ASSERT(link->user != h);
		return;
	}
	PGSF_ASSERT(h->fd >= 0 && h->position >= 0 && h->length >= 0 && link->schema != NULL);
	PGSF_ASSERT(h->gathered_len == 0 ||
				(h->gathered != NULL && h->mode == PGSF_READ_WRITE && link->user == h));
	PGSF_ASSERT(h->gathered_len == 0 ||
				h->gathered_offset % PIECE_BYTES + h->gathered_len < PIECE_BYTES);
	PGSF_ASSERT(h->gathered_len <= h->length - h->gathered_offset || h->gathered_len == 0);
	PGSF_ASSERT((h->piece != NULL) == (h->piece_len > 0));
	PGSF_ASSERT(h->requested_until <= h->length && end_of_reads(h) == h->requested_until);
}

int
pgsfi_start(pgsf *h)
{
	if (h == NULL)
		return -1;
	pgsfi_check_state(h);
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
	PGSF_ASSERT(h->mode == PGSF_CLOSED && mode != PGSF_CLOSED && length >= 0);
	PGSF_ASSERT(h->piece == NULL && h->gathered_len == 0);
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
