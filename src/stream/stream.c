/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  Values in pieces: which kind of stream, its beginning and its end.
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
 * and the code that places it in a row decides where it goes.  What is done in between is in
 * bytes.c.
 *
 * A stream has no end of its own: all it has lies in the memory context that it was made
 * in, or is undone by the transaction.  So an ERROR in the middle leaves nothing to be
 * cleaned up.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "stream/pieced.h"

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

		sfi_bytes_reserve(stream, length);
		sf_read_range(value, 0, length, stream->bytes);
		stream->length = length;
	}
	return stream;
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
	if (sf_read_is_homed(value))
		stream->home = sf_read_home(value);
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
	stream->length = stream->data_end = loc.unit_space_bytes;
	sfi_hash_begin(stream, seg, &loc);
	if (loc.flags & SF_LOC_PIECED)
	{
		sf_object_require_genuine(seg, &loc);
		sfi_pieced_load(stream, seg, &loc);
	}
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
	if (sfi_store_edited(stream, pieces, npieces))
		return stream;
	return copy_stored(sf_space_open(stream->seg.table_oid, stream->seg.attnum, RowExclusiveLock,
									 false), value);
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

/* ---- finishing ---- */

/*
 * A short value goes into its row; and so does an empty one.  A unit of its own would
 * take more space than the value, and reading it a second look.
 */
static SfValue
finish_inline(SfStream *stream)
{
	char	   *data;
	SfValue		value = {sf_read_new_inline(sf_stream_length(stream), &data), SF_FORM_INLINE};

	sf_stream_read(stream, 0, sf_stream_length(stream), data);
	return value;
}

/* A value in too many pieces, or too short for any: all of its bytes, written anew. */
static SfValue
finish_copy(SfStream *stream)
{
	SfStream   *copy;

	sfi_stage_require_usable(stream);
	copy = sf_stream_create(sf_space_open(stream->seg.table_oid, stream->seg.attnum,
										  RowExclusiveLock, false));
	sf_stream_copy(copy, 0, stream, 0, sf_stream_length(stream));
	return sf_stream_finish(copy);
}

/*
 * A stream that changed nothing returns the value it was opened on, so that an UPDATE
 * with it writes nothing.  A short value goes into its row even if it was staged.
 */
SfValue
sf_stream_finish(SfStream *stream)
{
	bool		edits = stream->kind == STREAM_STAGE && stream->value != NULL;
	SfValue		unchanged;

	if (stream->kind == STREAM_READ || (edits && !stream->changed))
	{
		sf_read_look(sf_object_copy(stream->value, CurrentMemoryContext), &unchanged);
		return unchanged;
	}
	if (stream->kind == STREAM_MEMORY || sf_stream_length(stream) <= SF_IN_ROW_MAX)
		return finish_inline(stream);
	if (stream->pieced != NULL && !sfi_arrange_finish(stream))
		return finish_copy(stream);
	return stream->pieced != NULL ? sfi_pieced_finish(stream) : sfi_once_finish(stream);
}
