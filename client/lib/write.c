/*-------------------------------------------------------------------------
 *
 * write.c
 *	  Writing a stream: bytes are gathered to pieces, pieces are sent.
 *
 * A piece ends at a multiple of PIECE_BYTES in the object.  So the server receives each
 * unit of a stream in one command, whatever the sizes of the application's writes are.
 * At most WINDOW_PIECES are in flight.
 *
 * Bytes that are inserted are not gathered: they are sent at once, as pieces that begin where they
 * do.  All bytes behind them move, so no place of the object is better for a piece to end at.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Add bytes at the position to the gathered ones, which are sent when their piece is full. */
static int
gather(pgsf *h, const char *data, int64_t len_bytes, int64_t until_end)
{
	if (h->gathered == NULL)
	{
		h->gathered = aligned_alloc(BUFFER_ALIGNMENT, PIECE_BYTES);
		if (h->gathered == NULL)
			return pgsfi_fail_memory(h);
	}
	if (h->gathered_len == 0)
		h->gathered_offset = h->position;
	PGSF_ASSERT(h->gathered_offset + h->gathered_len == h->position);
	PGSF_ASSERT(h->gathered_len + len_bytes <= PIECE_BYTES);
	memcpy(h->gathered + h->gathered_len, data, len_bytes);
	h->gathered_len += len_bytes;
	return len_bytes == until_end ? pgsfi_send_gathered(h) : 0;
}

int
pgsfi_write(pgsf *h, const char *data, int64_t len_bytes)
{
	/* what was read ahead may be written over */
	PGSF_ASSERT(h->requested_until == 0 && h->piece == NULL);
	if (h->gathered_len > 0 && h->gathered_offset + h->gathered_len != h->position &&
		pgsfi_send_gathered(h) < 0)
		return -1;
	while (len_bytes > 0)
	{
		int64_t		until_end = PIECE_BYTES - h->position % PIECE_BYTES;
		int64_t		len = len_bytes < until_end ? len_bytes : until_end;
		int			rc;

		if (h->gathered_len == 0 && len == until_end)
			rc = pgsfi_send_piece(h, h->position, data, len);
		else
			rc = gather(h, data, len, until_end);
		if (rc < 0)
			return -1;
		h->position += len;
		if (h->length < h->position)
			h->length = h->position;
		data += len;
		len_bytes -= len;
	}
	return 0;
}

int
pgsf_write(pgsf *h, const void *buf, size_t len)
{
	if (pgsfi_start_open(h, true) < 0)
		return -1;
	if (buf == NULL && len > 0)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "buf must not be NULL");
	if (pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	if (len > (uint64_t) (INT64_MAX - h->position))
		pgsfi_fail(h, "54000", "a value cannot be longer than 2^63 - 1 bytes");
	else if (pgsfi_write(h, buf, (int64_t) len) == 0 && !h->cancel_sent)
		return 0;
	return pgsfi_give_up(h);
}

/* Insert at the position, which has bytes behind it, and move it. */
static int
insert(pgsf *h, const char *data, int64_t len_bytes)
{
	PGSF_ASSERT(h->position < h->length && len_bytes <= INT64_MAX - h->length);
	if (pgsfi_send_gathered(h) < 0)
		return -1;
	while (len_bytes > 0)
	{
		int64_t		len = len_bytes < PIECE_BYTES ? len_bytes : PIECE_BYTES;

		if (pgsfi_send_insertion(h, h->position, data, len) < 0)
			return -1;
		h->position += len;
		h->length += len;
		data += len;
		len_bytes -= len;
	}
	return 0;
}

int
pgsf_insert(pgsf *h, const void *buf, size_t len)
{
	int64_t		behind;
	int			rc = -1;

	if (pgsfi_start_open(h, true) < 0)
		return -1;
	if (buf == NULL && len > 0)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "buf must not be NULL");
	if (pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	behind = h->position < h->length ? h->length : h->position;
	if (len > (uint64_t) (INT64_MAX - behind))
		pgsfi_fail(h, "54000", "a value cannot be longer than 2^63 - 1 bytes");
	else if (h->position < h->length)
		rc = insert(h, buf, (int64_t) len);
	else
		rc = pgsfi_write(h, buf, (int64_t) len);
	return rc == 0 && !h->cancel_sent ? 0 : pgsfi_give_up(h);
}

int
pgsfi_truncate(pgsf *h, int64_t length)
{
	Params		params;
	char	   *sql = NULL;
	int			rc = -1;

	PGSF_ASSERT(length >= 0 && h->requested_until == 0);
	if (pgsfi_params_start(h, &params, NULL) == 0 && pgsfi_send_gathered(h) == 0)
	{
		pgsfi_params_int4(&params, h->fd);
		pgsfi_params_int8(&params, length);
		sql = pgsfi_sql(h, "SELECT %s.securefile_truncate($1, $2)", h->link->schema);
		rc = pgsfi_send(h, AWAITED_NOTHING, sql, &params.all, 1);
	}
	free(sql);
	pgsfi_params_free(&params);
	if (rc < 0 || pgsfi_request_answers(h) < 0)
		return -1;
	h->length = length;
	return 0;
}

int
pgsf_truncate(pgsf *h, int64_t length)
{
	if (pgsfi_start_open(h, true) < 0)
		return -1;
	if (length < 0)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "length must not be negative");
	if (pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	if (pgsfi_truncate(h, length) < 0 || h->cancel_sent)
		return pgsfi_give_up(h);
	return 0;
}

int
pgsf_flush(pgsf *h)
{
	if (pgsfi_start_open(h, false) < 0 || pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	if (pgsfi_send_gathered(h) == 0 && pgsfi_release(h) == 0)
		return 0;
	return pgsfi_give_up(h);
}
