/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Reading a stream: pieces are asked for ahead of the application.
 *
 * A read asks for what it wants, in one round trip.  Reads that follow each other
 * ask for more: one piece, then two, four, up to WINDOW_PIECES, which the server
 * sends while the application works on what it has.
 *
 * Invariant: the bytes from the end of the piece in hand up to asked_until are in
 * flight, in order, as the AWAITED_READs of the queue.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "internal.h"

/* Nothing is in hand, and what is in flight is of no interest. */
void
pgsfi_forget_ahead(pgsf *h)
{
	Link	   *link = h->link;

	PQclear(h->piece);
	h->piece = NULL;
	h->piece_len = 0;
	h->piece_offset = 0;
	h->asked_until = 0;
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

/* Ask for the next piece after what is asked for. */
static int
ask_piece(pgsf *h, int64_t len_bytes)
{
	int64_t		object_offset = h->asked_until;
	Prepared	which = object_offset == h->server_position ? PREPARED_READ : PREPARED_READ_AT;
	Awaited		awaited = {AWAITED_READ, object_offset, len_bytes};
	char		fd[4];
	char		len[4];
	char		offset[8];
	const char *values[] = {fd, len, offset};
	static const int lengths[] = {sizeof(fd), sizeof(len), sizeof(offset)};
	static const int formats[] = {1, 1, 1};
	pgsf_params params = {which == PREPARED_READ ? 2 : 3, NULL, values, lengths, formats};

	pgsfi_put_int4(fd, h->fd);
	pgsfi_put_int4(len, (int32_t) len_bytes);
	pgsfi_put_int8(offset, object_offset);
	if (pgsfi_prepare(h, which, "securefile_read", OID_INT4) < 0 || pgsfi_send_prepared(h, &awaited, &params) < 0)
		return -1;
	h->asked_until += len_bytes;
	h->server_position = h->asked_until;
	return 0;
}

/* Of a full window, take what was sent before the first read in it. */
static int
skip_others(pgsf *h)
{
	Link	   *link = h->link;

	while (link->queue_len >= WINDOW_PIECES &&
		   link->queue[link->queue_head].kind != AWAITED_READ)
	{
		Awaited		awaited;
		PGresult   *result;

		if (pgsfi_next(h, &awaited, &result) < 0)
			return -1;
		PQclear(result);
	}
	return 0;
}

/*
 * Ask for all up to goal, as far as the window allows.  Without reading ahead the
 * series ends with what is wanted, and the connection can be given back.
 */
static int
ask_until(pgsf *h, int64_t goal)
{
	bool		asked = false;

	if (skip_others(h) < 0)
		return -1;
	while (h->asked_until < goal && h->link->queue_len < WINDOW_PIECES)
	{
		int64_t		until_end = PIECE_BYTES - h->asked_until % PIECE_BYTES;
		int64_t		left = goal - h->asked_until;

		if (ask_piece(h, left < until_end ? left : until_end) < 0)
			return -1;
		asked = true;
	}
	if (!asked)
		return 0;
	if (h->ahead == 0 && h->asked_until == goal)
		return pgsfi_sync(h);
	return pgsfi_request_answers(h);
}

/* Take the next piece in flight into the hand. */
static int
take_piece(pgsf *h)
{
	Awaited		awaited;

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
	if (PQntuples(h->piece) != 1 || PQgetlength(h->piece, 0, 0) != awaited.len_bytes)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent fewer bytes than there are");
	h->piece_offset = awaited.object_offset;
	h->piece_len = awaited.len_bytes;
	return 0;
}

/* How far to ask: what is wanted and, for a stream, some pieces more. */
static int64_t
goal_of(pgsf *h, int64_t want)
{
	int64_t		goal = h->position + want;

	if (h->ahead > 0)
	{
		/* a piece is asked for as a whole */
		if (goal > INT64_MAX - (h->ahead + 1) * PIECE_BYTES)
			goal = h->length;
		else
			goal = (goal / PIECE_BYTES + h->ahead) * PIECE_BYTES;
	}
	return goal < h->length ? goal : h->length;
}

/* Be ready to go on at the position, whatever was read before. */
static void
aim(pgsf *h)
{
	bool		sequential = h->position == h->last_end;

	if (h->position < h->piece_offset || h->position > h->asked_until)
		pgsfi_forget_ahead(h);
	if (h->asked_until == 0)
		h->asked_until = h->piece_offset = h->position;
	if (!sequential)
		h->ahead = 0;
	else if (h->ahead < WINDOW_PIECES)
		h->ahead = h->ahead == 0 ? 1 : h->ahead * 2;
}

/* Read bytes that are there. */
static int
read_bytes(pgsf *h, char *buf, int64_t want)
{
	aim(h);
	while (want > 0)
	{
		int64_t		in_hand = h->piece_offset + h->piece_len - h->position;

		if (in_hand > 0)
		{
			int64_t		len = want < in_hand ? want : in_hand;

			memcpy(buf, PQgetvalue(h->piece, 0, 0) + (h->position - h->piece_offset), len);
			h->position += len;
			buf += len;
			want -= len;
			continue;
		}
		if (pgsfi_check_cancel(h) < 0 ||
			ask_until(h, goal_of(h, want)) < 0 || take_piece(h) < 0)
			return -1;
	}
	h->last_end = h->position;
	return h->ahead == 0 ? pgsfi_release(h) : 0;
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
