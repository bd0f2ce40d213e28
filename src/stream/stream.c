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
 * and the code that places it in a row decides where it goes.
 *
 * A stream has no end of its own: all it has lies in the memory context that it was made
 * in, or is undone by the transaction.  So an ERROR in the middle leaves nothing to be
 * cleaned up.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/int.h"
#include "config/config.h"
#include "stream/stream_internal.h"

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
		return sfi_memory_open(NULL);
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
		return sfi_memory_open(value);
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
			return sfi_memory_open(value);
	}
}

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
	int64		end;

	SF_ASSERT(object_offset >= 0 && len >= 0);
	if (pg_add_s64_overflow(object_offset, len, &end))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("securefile value would be too long"),
				 errdetail("A value may have at most %lld bytes.", (long long) PG_INT64_MAX)));
	if (stream->kind == STREAM_MEMORY)
		sfi_memory_require_length(end);
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
		sfi_memory_resize(stream, object_offset + len);
	memcpy(stream->bytes + object_offset, data, len);
}

void
sf_stream_truncate(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind != STREAM_READ && length >= 0);
	if (stream->kind == STREAM_STAGE)
		sfi_once_resize(stream, length);
	else
		sfi_memory_resize(stream, length);
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
