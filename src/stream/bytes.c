/*-------------------------------------------------------------------------
 *
 * bytes.c
 *	  Reading and writing a stream of any kind; values that are changed in memory.
 *
 * A value in memory is in one piece, so that its length has the limit of such a value, which is
 * checked before any memory is asked for: the error of palloc would not tell what to do instead.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "stream/pieced.h"
#include "utils/memutils.h"

/* ---- values that are changed in memory ---- */

static void
require_length(int64 length)
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
void
sfi_bytes_reserve(SfStream *stream, int64 length)
{
	int64		size = Max(stream->bytes_size, 8192);

	require_length(length);
	if (length <= stream->bytes_size)
		return;
	while (size < length)
		size = Min(size * 2, SF_INLINE_MAX);
	stream->bytes = stream->bytes == NULL ? MemoryContextAlloc(stream->context, size)
		: repalloc(stream->bytes, size);
	stream->bytes_size = size;
	SF_ASSERT(stream->length <= size && size <= SF_INLINE_MAX);
}

/* A gap between the old end and the new one reads as zeros, as in a stage. */
static void
resize_in_memory(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind == STREAM_MEMORY && length >= 0);
	/* memory that a cut makes superfluous is kept: the stream may grow again */
	sfi_bytes_reserve(stream, length);
	if (length > stream->length)
		memset(stream->bytes + stream->length, 0, length - stream->length);
	stream->length = length;
	SF_ASSERT(length <= stream->bytes_size || length == 0);
}

/* ---- reading and writing ---- */

/* A handle that was opened to read refuses writes, with an error that names it. */
bool
sf_stream_is_writable(const SfStream *stream)
{
	return stream->kind != STREAM_READ;
}

int64
sf_stream_length(const SfStream *stream)
{
	return stream->pieced != NULL ? stream->pieced->length : stream->length;
}

/* A STORED value of a column, of which nothing else is known. */
static SfValue
place_in_column(Oid table_oid, AttrNumber attnum)
{
	SfValue		value = {.form = SF_FORM_STORED};

	value.loc.table_oid = table_oid;
	value.loc.attnum = attnum;
	return value;
}

/* What is changed in memory was in a row, and will be in another one. */
SfValue
sf_stream_place(const SfStream *stream)
{
	if (stream->kind == STREAM_STAGE)
		return place_in_column(stream->seg.table_oid, stream->seg.attnum);
	if (OidIsValid(stream->home.table_oid))
		return place_in_column(stream->home.table_oid, stream->home.attnum);
	if (stream->kind == STREAM_READ)
		return *sf_read_reader_value(stream->reader);
	return (SfValue) {.form = SF_FORM_INLINE};
}

struct varlena *
sf_stream_unchanged(const SfStream *stream)
{
	return stream->changed ? NULL : stream->value;
}

bool
sf_stream_next_data(SfStream *stream, int64 *object_offset, int64 *len)
{
	SF_ASSERT(sf_stream_is_writable(stream) && *object_offset <= sf_stream_length(stream));
	if (stream->pieced != NULL)
		return sfi_pieced_next_data(stream, object_offset, len);
	if (stream->kind == STREAM_STAGE)
		return sfi_once_next_data(stream, object_offset, len);
	*len = Min(*len, stream->length - *object_offset);
	return *len > 0;
}

void
sf_stream_read(SfStream *stream, int64 object_offset, int64 len, char *dst)
{
	if (len == 0)
		return;					/* also behind the end */
	SF_ASSERT(object_offset >= 0 && len > 0 && object_offset + len <= sf_stream_length(stream));
	switch (stream->kind)
	{
		case STREAM_READ:
			sf_read_at(stream->reader, object_offset, len, dst);
			break;
		case STREAM_MEMORY:
			memcpy(dst, stream->bytes + object_offset, len);
			break;
		case STREAM_STAGE:
			if (stream->pieced != NULL)
				sfi_pieced_read(stream, object_offset, len, dst);
			else
				sfi_once_read(stream, object_offset, len, dst);
			break;
	}
}

/*
 * Lengths are 64 bits wide with a sign, in the server and in SQL; a value in memory has a
 * limit that is far lower.
 */
void
sf_stream_require_room(const SfStream *stream, int64 object_offset, int64 len)
{
	int64		end = sf_object_add_lengths(object_offset, len);

	SF_ASSERT(object_offset >= 0 && len >= 0);
	if (stream->kind == STREAM_MEMORY)
		require_length(end);
}

void
sf_stream_write(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	if (len == 0)
		return;
	if (stream->pieced != NULL)
	{
		sfi_pieced_write(stream, object_offset, data, len);
		return;
	}
	if (stream->kind == STREAM_STAGE)
	{
		sfi_once_write(stream, object_offset, data, len);
		return;
	}
	SF_ASSERT(stream->kind == STREAM_MEMORY && object_offset >= 0 && len > 0);
	if (object_offset + len > stream->length)
		resize_in_memory(stream, object_offset + len);
	memcpy(stream->bytes + object_offset, data, len);
}

void
sfi_zero_within(SfStream *stream, int64 object_offset, int64 len)
{
	if (stream->pieced != NULL)
		sfi_pieced_zero(stream, object_offset, len);
	else if (stream->kind == STREAM_STAGE)
		sfi_once_zero(stream, object_offset, len);
	else if (object_offset < stream->length)
		memset(stream->bytes + object_offset, 0, Min(len, stream->length - object_offset));
}

void
sf_stream_truncate(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind != STREAM_READ && length >= 0);
	if (stream->pieced != NULL)
		sfi_pieced_resize(stream, length);
	else if (stream->kind == STREAM_STAGE)
		sfi_once_resize(stream, length);
	else
		resize_in_memory(stream, length);
}
