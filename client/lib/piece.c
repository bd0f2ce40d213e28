/*-------------------------------------------------------------------------
 *
 * piece.c
 *	  One piece of a stream: sent to be written or inserted, or requested to be read.
 *
 * All of them use the unnamed prepared statement.  A piece at the position of the server's
 * handle needs no seek; any other piece has its offset as third parameter.
 *
 *-------------------------------------------------------------------------
 */
#include "internal.h"

/* Take the answers that are there, and wait until fewer than WINDOW_PIECES are in flight. */
static int
wait_for_window(pgsf *h)
{
	Link	   *link = h->link;

	if (link->queue_len > 0 && !PQconsumeInput(link->conn))
		return pgsfi_lost_in_flight(h);
	while (link->queue_len >= WINDOW_PIECES ||
		   (link->queue_len > 0 && !PQisBusy(link->conn)))
	{
		/* its bytes would be lost */
		PGSF_ASSERT(link->queue[link->queue_head].kind != AWAITED_READ);
		if (pgsfi_drop_next(h) < 0)
			return -1;
	}
	return 0;
}

/* Send bytes to a function: by here if the position of the server's handle is right, else by at. */
static int
send_bytes(pgsf *h, const char *function, Prepared here, Prepared at,
		   int64_t object_offset, const char *data, int64_t len_bytes)
{
	Prepared	which = object_offset == h->server_position ? here : at;
	Awaited		awaited = {AWAITED_WRITE, object_offset, len_bytes};
	char		fd[4];
	char		offset[8];
	const char *values[] = {fd, data, offset};
	int			lengths[] = {sizeof(fd), (int) len_bytes, sizeof(offset)};
	static const int formats[] = {1, 1, 1};
	pgsf_params params = {which == here ? 2 : 3, NULL, values, lengths, formats};

	PGSF_ASSERT(len_bytes > 0 && len_bytes <= PIECE_BYTES);
	PGSF_ASSERT(h->mode == PGSF_READ_WRITE || h->failed_unseen);
	pgsfi_put_int4(fd, h->fd);
	pgsfi_put_int8(offset, object_offset);
	if (pgsfi_check_cancel(h) < 0 || wait_for_window(h) < 0 ||
		pgsfi_prepare(h, which, function, OID_BYTEA) < 0 ||
		pgsfi_send_prepared(h, &awaited, &params) < 0)
		return -1;
	h->server_position = object_offset + len_bytes;
	return pgsfi_request_answers(h);
}

int
pgsfi_send_piece(pgsf *h, int64_t object_offset, const char *data, int64_t len_bytes)
{
	/* the server gets each unit of a stream in one command */
	PGSF_ASSERT(object_offset % PIECE_BYTES + len_bytes <= PIECE_BYTES);
	return send_bytes(h, "securefile_write", PREPARED_WRITE, PREPARED_WRITE_AT,
					  object_offset, data, len_bytes);
}

int
pgsfi_send_insertion(pgsf *h, int64_t object_offset, const char *data, int64_t len_bytes)
{
	PGSF_ASSERT(h->gathered_len == 0 && h->requested_until == 0);
	return send_bytes(h, "securefile_insert", PREPARED_INSERT, PREPARED_INSERT_AT,
					  object_offset, data, len_bytes);
}

int
pgsfi_send_gathered(pgsf *h)
{
	int64_t		len = h->gathered_len;

	if (len == 0)
		return 0;
	h->gathered_len = 0;
	return pgsfi_send_piece(h, h->gathered_offset, h->gathered, len);
}

int
pgsfi_request_piece(pgsf *h, int64_t len_bytes)
{
	int64_t		object_offset = h->requested_until;
	Prepared	which = object_offset == h->server_position ? PREPARED_READ : PREPARED_READ_AT;
	Awaited		awaited = {AWAITED_READ, object_offset, len_bytes};
	char		fd[4];
	char		len[4];
	char		offset[8];
	const char *values[] = {fd, len, offset};
	static const int lengths[] = {sizeof(fd), sizeof(len), sizeof(offset)};
	static const int formats[] = {1, 1, 1};
	pgsf_params params = {which == PREPARED_READ ? 2 : 3, NULL, values, lengths, formats};

	PGSF_ASSERT(len_bytes > 0 && len_bytes <= PIECE_BYTES);
	PGSF_ASSERT(h->mode != PGSF_CLOSED && object_offset + len_bytes <= h->length);
	pgsfi_put_int4(fd, h->fd);
	pgsfi_put_int4(len, (int32_t) len_bytes);
	pgsfi_put_int8(offset, object_offset);
	if (pgsfi_prepare(h, which, "securefile_read", OID_INT4) < 0 ||
		pgsfi_send_prepared(h, &awaited, &params) < 0)
		return -1;
	h->requested_until += len_bytes;
	h->server_position = h->requested_until;
	return 0;
}
