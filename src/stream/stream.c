/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  Values in pieces: which kind of stream, and what all kinds share.
 *
 *		 opened on				to read		to change
 *		 INLINE					reader		memory
 *		 STORED					reader		stage, on the value
 *		 EDITED					reader		stage, on its base; memory if it has none
 *		 nothing				-			stage; memory if the column has no segment
 *
 * A reader reads ahead (read/reader.c).  A stage writes units of the column's segment as
 * they become whole, so memory is constant however long the value is.  Memory is for
 * values that are small, or whose column has no segment: the result is INLINE then,
 * and the code that places it in a row decides where it goes.  All bytes are in one piece
 * then, so that the length has the limit of such a value, which is checked before any memory is
 * asked for: the error of palloc would not tell what to do instead.
 *
 * A stream has no end of its own: all it has lies in the memory context that it was made
 * in, or is undone by the transaction.  So an ERROR in the middle leaves nothing to be
 * cleaned up.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "stream/stream_internal.h"
#include "utils/memutils.h"

/*
 * A stream in the current memory context.  The value is copied: the caller's may go first.
 * All of a value counts as data until something is known of its holes.
 */
static SfStream *
new_stream(StreamKind kind, struct varlena *value)
{
	SfStream   *stream = palloc0(sizeof(SfStream));

	stream->kind = kind;
	stream->context = CurrentMemoryContext;
	if (value != NULL)
	{
		stream->value = sf_object_copy(value, CurrentMemoryContext);
		stream->length = stream->data_end = sf_read_length(value);
	}
	return stream;
}

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
static void
reserve_bytes(SfStream *stream, int64 length)
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

/*
 * Begin with a value of any form, or with nothing.  An EDITED value is put together here, once,
 * and is plain bytes from then on.
 */
static SfStream *
open_in_memory(struct varlena *value)
{
	SfStream   *stream = new_stream(STREAM_MEMORY, NULL);

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
static void
resize_in_memory(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind == STREAM_MEMORY && length >= 0);
	/* memory that a cut makes superfluous is kept: the stream may grow again */
	reserve_bytes(stream, length);
	if (length > stream->length)
		memset(stream->bytes + stream->length, 0, length - stream->length);
	stream->length = length;
	SF_ASSERT(length <= stream->bytes_size || length == 0);
}

/* ---- opening ---- */

/* The reader has a copy of the value already. */
SfStream *
sf_stream_open(struct varlena *value)
{
	SfStream   *stream = new_stream(STREAM_READ, NULL);

	stream->reader = sf_read_begin(value);
	stream->value = sf_read_reader_datum(stream->reader);
	stream->length = sf_read_reader_length(stream->reader);
	return stream;
}

SfStream *
sf_stream_create(SfSegment *seg)
{
	SfStream   *stream;

	if (seg == NULL)
		return open_in_memory(NULL);
	stream = new_stream(STREAM_STAGE, NULL);
	stream->seg = *seg;
	sfi_hash_begin(stream, seg, NULL);
	if (sf_config_deduplicates(sf_space_column(seg)))
		sfi_once_begin(stream);
	return stream;
}

/* A stage with all bytes of a value, which shares nothing with it. */
static SfStream *
copy_stored(SfSegment *seg, struct varlena *value)
{
	SfStream   *stream = sf_stream_create(seg);
	SfPiece    *pieces;
	int			npieces = sf_read_pieces(value, &pieces);

	sfi_store_pieces(stream, pieces, npieces);
	return stream;
}

/*
 * On a STORED value, whose segment is opened for writing, and stays locked to the end of
 * the transaction.  The tag is checked here, once: a locator that was made up must not
 * lead to units of others.
 */
static SfStream *
edit_stored(struct varlena *value)
{
	SfStream   *stream = new_stream(STREAM_STAGE, value);
	SfLocator	loc = sf_object_locator(stream->value);
	SfSegment  *seg = sf_space_open_to_edit(loc.table_oid, loc.attnum, loc.incarnation);

	sf_object_require_tag(seg, &loc);
	if (!sf_write_may_share(seg, &loc))
		return copy_stored(seg, value);
	stream->seg = *seg;
	sfi_hash_begin(stream, seg, &loc);
	return stream;
}

/*
 * An EDITED value is a STORED one, its base, and changes that are in no segment yet.  They
 * are written to a stage on the base now, and the caller's changes after them.
 */
static SfStream *
edit_edited(struct varlena *value)
{
	SfPiece    *pieces;
	int			npieces = sf_object_pieces(value, &pieces);
	struct varlena *base = sfi_store_base(pieces, npieces);
	SfStream   *stream;

	if (base == NULL)
		return open_in_memory(value);
	stream = edit_stored(base);
	sfi_store_pieces(stream, pieces, npieces);
	return stream;
}

SfStream *
sf_stream_edit(struct varlena *value)
{
	switch (sf_read_form(value))
	{
		case SF_FORM_STORED:
			return edit_stored(value);
		case SF_FORM_EDITED:
			return edit_edited(value);
		default:
			return open_in_memory(value);
	}
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
	return stream->length;
}

void
sf_stream_read(SfStream *stream, int64 object_offset, int64 len, char *dst)
{
	if (len == 0)
		return;					/* also behind the end */
	SF_ASSERT(object_offset >= 0 && len > 0 && object_offset + len <= stream->length);
	switch (stream->kind)
	{
		case STREAM_READ:
			sf_read_at(stream->reader, object_offset, len, dst);
			break;
		case STREAM_MEMORY:
			memcpy(dst, stream->bytes + object_offset, len);
			break;
		case STREAM_STAGE:
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
sf_stream_truncate(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind != STREAM_READ && length >= 0);
	if (stream->kind == STREAM_STAGE)
		sfi_once_resize(stream, length);
	else
		resize_in_memory(stream, length);
}

/*
 * A short value goes into its row; and so does an empty one.  A unit of its own would
 * take more space than the value, and reading it a second look.
 */
static SfValue
finish_inline(SfStream *stream)
{
	char	   *data;
	SfValue		value = {sf_read_new_inline(stream->length, &data), SF_FORM_INLINE};

	sf_stream_read(stream, 0, stream->length, data);
	return value;
}

/*
 * A stream that changed nothing returns the value it was opened on, so that an UPDATE
 * with it writes nothing.  A short value goes into its row even if it was staged.
 */
SfValue
sf_stream_finish(SfStream *stream)
{
	bool		edits = stream->kind == STREAM_STAGE && stream->value != NULL;

	if (stream->kind == STREAM_READ || (edits && !stream->changed))
		return sf_read_look(sf_object_copy(stream->value, CurrentMemoryContext));
	if (stream->kind == STREAM_MEMORY || stream->length <= SF_IN_ROW_MAX)
		return finish_inline(stream);
	return sfi_once_finish(stream);
}
