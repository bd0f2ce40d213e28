/*-------------------------------------------------------------------------
 *
 * copy_range.c
 *	  Bytes from one stream, or from a value, into another stream, in pieces of constant size.
 *
 * Gaps stay gaps.  The source is asked for its next data, so that a sparse one of any length costs
 * no more than its data; what lies between becomes zeros in the target, whole units of it holes.
 *
 *		 source		[ AAAA |      |      | BBBB ]
 *							 \- passed over -/
 *
 * Two streams never share what they write, also where both were opened on the same value: each
 * has a draft and a stage of its own.  So the source is as its own writes have left it,
 * whatever is written to the target meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stream/stream_internal.h"

#define COPY_BYTES		(4 * 1024 * 1024)

/* Where bytes come from: a STORED value, or (stream not NULL) a stream that was written. */
typedef struct Source
{
	SfValue		value;
	SfStream   *stream;
} Source;

/* The next bytes that are in no gap, as sf_read_next_data(). */
static bool
next_data(Source *source, int64 *from, int64 *len)
{
	if (source->stream == NULL)
		return sf_read_next_data(&source->value, from, len);
	return sf_stream_next_data(source->stream, from, len);
}

static void
read_bytes(Source *source, int64 from, int64 len, char *dst)
{
	if (source->stream == NULL)
		sf_read_value_range(&source->value, from, len, dst);
	else
		sf_stream_read(source->stream, from, len, dst);
}

/* How much to copy next: to a unit of the copy, so that the next ones go straight. */
static int64
next_length(int64 at, int64 left)
{
	return Min(left, COPY_BYTES - at % SF_UNIT_SIZE);
}

/*
 * Copy bytes [start, end) of the source, which has them, to a place in the target.  The buffer may
 * have decrypted bytes, whatever ends the copy.
 */
static void
copy_range(SfStream *target, int64 at, Source *source, int64 start, int64 end)
{
	char	   *buffer = sf_base_secret_new(Min(end - start, COPY_BYTES));
	int64		shift = at - start;
	int64		done = start;
	int64		from = start;
	int64		len = next_length(at, end - start);

	while (from < end && next_data(source, &from, &len) && from < end)
	{
		CHECK_FOR_INTERRUPTS();
		SF_ASSERT(from >= done && len > 0);
		len = Min(len, end - from);
		sfi_zero_within(target, done + shift, from - done);
		read_bytes(source, from, len, buffer);
		sf_stream_write(target, from + shift, buffer, len);
		done = from += len;
		len = next_length(from + shift, end - from);
	}
	SF_ASSERT(done <= end);
	sfi_zero_within(target, done + shift, end - done);
	sf_base_secret_free(buffer);
}

void
sfi_copy_piece(SfStream *target, int64 at, const SfPiece *piece)
{
	Source		source = {{NULL}};

	SF_ASSERT(at >= 0);
	switch (piece->kind)
	{
		case SF_PIECE_BYTES:
			sf_stream_write(target, at, piece->bytes, piece->length);
			break;
		case SF_PIECE_ZEROS:
			sfi_zero_within(target, at, piece->length);
			break;
		case SF_PIECE_VALUE:
			sf_read_look(piece->value, &source.value);
			copy_range(target, at, &source, piece->start, piece->start + piece->length);
			break;
	}
}

/* The end of what was copied may be a gap, which nothing was written behind. */
static void
lengthen(SfStream *target, int64 length)
{
	if (sf_stream_length(target) < length)
		sf_stream_truncate(target, length);
}

void
sf_stream_copy_value(SfStream *target, int64 at, struct varlena *value, int64 start, int64 len)
{
	SfPiece    *pieces;
	int			npieces = sf_read_pieces(value, &pieces);
	int64		end = start + len;
	int64		place = 0;

	SF_ASSERT(start >= 0 && len >= 0 && end <= sf_read_length(value));
	target->final_length = Max(target->final_length, at + len);
	for (int i = 0; i < npieces && place < end; place += pieces[i++].length)
	{
		int64		from = Max(start, place);
		int64		to = Min(end, (int64) (place + pieces[i].length));
		SfPiece		part;

		if (from >= to)
			continue;
		part = sf_object_cut_piece(pieces[i], from - place, to - place);
		sfi_copy_piece(target, at + (from - start), &part);
	}
	pfree(pieces);
	lengthen(target, at + len);
}

void
sf_stream_copy(SfStream *target, int64 at, SfStream *source, int64 start, int64 len)
{
	struct varlena *value = sf_stream_unchanged(source);

	SF_ASSERT(target != source && start >= 0 && len >= 0);
	SF_ASSERT(start + len <= sf_stream_length(source));
	if (value != NULL)
	{
		sf_stream_copy_value(target, at, value, start, len);
		return;
	}
	target->final_length = Max(target->final_length, at + len);
	copy_range(target, at, &(Source) {{NULL}, source}, start, start + len);
	lengthen(target, at + len);
}

void
sf_stream_zero(SfStream *target, int64 object_offset, int64 len)
{
	SF_ASSERT(target->kind != STREAM_READ && object_offset >= 0 && len >= 0);
	if (len == 0)
		return;
	sfi_zero_within(target, object_offset, len);
	lengthen(target, object_offset + len);
}
