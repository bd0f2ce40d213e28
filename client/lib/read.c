/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Reading a stream: pieces are requested ahead of the application.
 *
 * A single read requests only its own bytes, in one round trip.  Reads that follow
 * each other without a gap request more pieces behind them: one, then two, four, up to
 * WINDOW_PIECES.  The server sends these while the application works on the bytes
 * before them.
 *
 * Invariant: the bytes from the end of the received piece up to requested_until are in
 * flight, in order, as the AWAITED_READs of the queue.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "internal.h"

/*
 * Take the answers in front of the first read, if the window is full: otherwise no
 * read could be sent, and the caller would wait for a piece that was not requested.
 */
static int
drop_others(pgsf *h)
{
	Link	   *link = h->link;

	while (link->queue_len >= WINDOW_PIECES &&
		   link->queue[link->queue_head].kind != AWAITED_READ)
	{
		if (pgsfi_drop_next(h) < 0)
			return -1;
	}
	return 0;
}

/*
 * Request everything up to goal, as far as the window allows.  A read that does not
 * read ahead ends the series with a sync, so that the connection can be given back
 * as soon as the answers are taken.
 */
static int
request_until(pgsf *h, int64_t goal)
{
	bool		sent = false;

	if (drop_others(h) < 0)
		return -1;
	while (h->requested_until < goal && h->link->queue_len < WINDOW_PIECES)
	{
		int64_t		until_end = PIECE_BYTES - h->requested_until % PIECE_BYTES;
		int64_t		left = goal - h->requested_until;

		if (pgsfi_request_piece(h, left < until_end ? left : until_end) < 0)
			return -1;
		sent = true;
	}
	if (!sent)
		return 0;
	if (h->ahead == 0 && h->requested_until == goal)
		return pgsfi_sync(h);
	return pgsfi_request_answers(h);
}

/* Receive the next piece in flight; results of other commands before it are dropped. */
static int
take_piece(pgsf *h)
{
	Awaited		awaited;
	const int64_t next = h->piece_offset + h->piece_len;

	PQclear(h->piece);
	h->piece = NULL;
	h->piece_len = 0;
	for (;;)
	{
		if (pgsfi_next(h, &awaited, &h->piece) < 0)
			return -1;
		if (awaited.kind == AWAITED_READ)
			break;
		PQclear(h->piece);
		h->piece = NULL;
	}
	PGSF_ASSERT(awaited.object_offset == next && next + awaited.len_bytes <= h->requested_until);
	if (PQntuples(h->piece) != 1 || PQgetlength(h->piece, 0, 0) != awaited.len_bytes)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent fewer bytes than there are");
	h->piece_offset = awaited.object_offset;
	h->piece_len = awaited.len_bytes;
	return 0;
}

/* The offset to request up to: the end of this read and, for a stream, some pieces more. */
static int64_t
goal_of(pgsf *h, int64_t want)
{
	int64_t		goal = h->position + want;

	if (h->ahead > 0)
	{
		/*
		 * a stream requests whole pieces, because the next read wants the
		 * rest of this one
		 */
		if (goal > INT64_MAX - (h->ahead + 1) * PIECE_BYTES)
			goal = h->length;
		else
			goal = (goal / PIECE_BYTES + h->ahead) * PIECE_BYTES;
	}
	/* else read_bytes() would request nothing, and go round for ever */
	PGSF_ASSERT(goal > h->position && h->length > h->position);
	return goal < h->length ? goal : h->length;
}

/*
 * Prepare to read at the position: drop the pieces of an earlier read that do not
 * reach it, and decide from the last read how far to read ahead.
 */
static void
aim(pgsf *h)
{
	bool		sequential = h->position == h->last_end;

	if (h->position < h->piece_offset || h->position > h->requested_until)
		pgsfi_forget_ahead(h);
	if (h->requested_until == 0)
		h->requested_until = h->piece_offset = h->position;
	PGSF_ASSERT(h->piece_offset <= h->position && h->position <= h->requested_until);
	if (!sequential)
		h->ahead = 0;
	else if (h->ahead < WINDOW_PIECES)
		h->ahead = h->ahead == 0 ? 1 : h->ahead * 2;
}

/* Copy want bytes at the position to buf; the caller knows that the value has as many. */
static int
read_bytes(pgsf *h, char *buf, int64_t want)
{
	PGSF_ASSERT(want > 0 && want <= h->length - h->position && h->gathered_len == 0);
	aim(h);
	while (want > 0)
	{
		int64_t		received = h->piece_offset + h->piece_len - h->position;

		if (received > 0)
		{
			int64_t		len = want < received ? want : received;

			memcpy(buf, PQgetvalue(h->piece, 0, 0) + (h->position - h->piece_offset), len);
			h->position += len;
			buf += len;
			want -= len;
			continue;
		}
		if (pgsfi_check_cancel(h) < 0 ||
			request_until(h, goal_of(h, want)) < 0 || take_piece(h) < 0)
			return -1;
	}
	h->last_end = h->position;
	if (h->ahead > 0)
		return 0;

	/*
	 * what a stream before this read has in flight yet is dropped with the
	 * connection
	 */
	h->requested_until = h->piece_offset + h->piece_len;
	return pgsfi_release(h);
}

int64_t
pgsf_read(pgsf *h, void *buf, size_t len)
{
	int64_t		want;

	if (pgsfi_start_open(h, false) < 0)
		return -1;
	if (buf == NULL && len > 0)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "buf must not be NULL");
	want = h->length > h->position ? h->length - h->position : 0;
	if (len < (uint64_t) want)
		want = (int64_t) len;
	if (want == 0)
		return 0;
	if (pgsfi_enter(h) < 0)
		return -1;
	if (pgsfi_send_gathered(h) == 0 && read_bytes(h, buf, want) == 0 && !h->cancel_sent)
		return want;
	return pgsfi_give_up(h);
}
