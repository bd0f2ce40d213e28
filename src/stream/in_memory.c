/*-------------------------------------------------------------------------
 *
 * in_memory.c
 *	  A value that is changed in memory: a small one, whose column is not
 *	  known, or one of a table without segments.
 *
 * All bytes of the value are in one piece of memory, as in the INLINE value that it
 * becomes.  So its length has the limit of such a value, and that is checked before any
 * memory is asked for: the error of palloc would not tell what to do instead.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "stream/stream_internal.h"
#include "utils/memutils.h"

void
sfi_memory_require_length(int64 length)
{
	if (length > SF_INLINE_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("securefile value would be too long to be changed in memory"),
				 errdetail("A value that lies in its row, or in a temporary or unlogged table, can have at most %lld bytes.",
						   (long long) SF_INLINE_MAX),
				 errhint("Write a new value with securefile_create() on the column it goes to.")));
}

/*
 * Room for length bytes.  It doubles, so that a value that grows by small pieces is not
 * copied each time, and ends at the limit exactly.
 */
static void
reserve_bytes(SfStream *stream, int64 length)
{
	int64		size = Max(stream->bytes_size, 8192);

	sfi_memory_require_length(length);
	if (length <= stream->bytes_size)
		return;
	while (size < length)
		size = Min(size * 2, SF_INLINE_MAX);
	stream->bytes = stream->bytes == NULL ? MemoryContextAlloc(stream->context, size)
		: repalloc(stream->bytes, size);
	stream->bytes_size = size;
	SF_ASSERT(stream->length <= size && size <= SF_INLINE_MAX);
}

/* An EDITED value is put together here, once, and is plain bytes from then on. */
SfStream *
sfi_memory_open(struct varlena *value)
{
	SfStream   *stream = palloc0(sizeof(SfStream));

	stream->kind = STREAM_MEMORY;
	stream->context = CurrentMemoryContext;
	if (value != NULL)
	{
		int64		length = sf_read_length(value);

		reserve_bytes(stream, length);
		sf_read_range(value, 0, length, stream->bytes);
		stream->length = length;
	}
	return stream;
}

/* A gap between the old end and the new one reads as zeros, as in a stage. */
void
sfi_memory_resize(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind == STREAM_MEMORY && length >= 0);
	/* memory that a cut makes superfluous is kept: the stream may grow again */
	reserve_bytes(stream, length);
	if (length > stream->length)
		memset(stream->bytes + stream->length, 0, length - stream->length);
	stream->length = length;
	SF_ASSERT(length <= stream->bytes_size || length == 0);
}
