/*-------------------------------------------------------------------------
 *
 * position.c
 *	  Position and length.  The handle knows both: nothing is sent.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

int64_t
pgsf_seek(pgsf *h, int64_t offset, int whence)
{
	int64_t		from;
	int64_t		to;

	if (pgsfi_start_open(h, false) < 0)
		return -1;
	switch (whence)
	{
		case SEEK_SET:
			from = 0;
			break;
		case SEEK_CUR:
			from = h->position;
			break;
		case SEEK_END:
			from = h->length;
			break;
		default:
			return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
							  "whence must be SEEK_SET, SEEK_CUR or SEEK_END");
	}
	if (__builtin_add_overflow(from, offset, &to) || to < 0)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
						  "a position must be between 0 and 2^63 - 1");
	h->position = to;
	return to;
}

int64_t
pgsf_tell(pgsf *h)
{
	return pgsfi_start_open(h, false) < 0 ? -1 : h->position;
}

int64_t
pgsf_length(pgsf *h)
{
	return pgsfi_start_open(h, false) < 0 ? -1 : h->length;
}

int
pgsf_stat(pgsf *h, pgsf_info *info)
{
	if (pgsfi_start(h) < 0)
		return -1;
	if (info == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "info must not be NULL");
	memset(info, 0, sizeof(pgsf_info));
	if (h->mode == PGSF_CLOSED)
		return 0;
	info->mode = h->mode;
	info->length = h->length;
	info->position = h->position;
	info->created = h->created;
	info->own_transaction = h->own_transaction;
	return 0;
}
