/*-------------------------------------------------------------------------
 *
 * walker.c
 *	  The parts of a value, given one after the other to a caller that asks for them.
 *
 * An EDITED value is walked through by its pieces: what is in memory is given as it
 * lies there, and each range of a STORED value gets a reader of its own.  To ask a
 * reader for parts of the EDITED value would take it apart again for each of them.
 *
 * Zeros that lie nowhere are given by their number, so that a gap of 2^60 bytes costs no
 * more than one of ten.  For that the map of a STORED value is looked at, some megabytes at a
 * time, before they are read.  A short hole is read as if it were data: the reader goes
 * on reading ahead then, which it would not do behind a gap.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/walker.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "read/read.h"
#include "utils/memutils.h"

/* So far the map is looked at, and shorter holes are not worth leaving out. */
#define LOOK_BYTES		((int64) 64 * SF_UNIT_SIZE)
#define LONG_HOLE_BYTES	((int64) 8 * SF_UNIT_SIZE)

/* A range of a STORED value that is being read; all offsets are of that value. */
struct SfSqlStored
{
	MemoryContext context;		/* of this, the buffer, and the reader */
	SfReader   *reader;
	SfValue		value;			/* the reader's, to look at its map */
	int64		data_start;		/* what is in between is read, .. */
	int64		data_end;		/* .. whether it is data or not */
	int64		part_bytes;		/* at most in a part */
	char	   *buffer;
};

/* Bytes [from, to) of a STORED value are to be read. */
static SfSqlStored *
begin_stored(const SfSqlWalk *walk, struct varlena *value, int64 from, int64 to)
{
	MemoryContext context = AllocSetContextCreate(walk->context, "securefile walk",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	SfSqlStored *stored = palloc0(sizeof(SfSqlStored));

	SF_ASSERT(from < to);
	stored->context = context;
	stored->part_bytes = walk->part_bytes;
	stored->buffer = sf_base_secret_new(Min(walk->part_bytes, to - from));
	stored->reader = sf_read_begin(value);
	SF_ASSERT(to <= sf_read_reader_length(stored->reader));
	sf_read_stop_at(stored->reader, to);
	sf_read_look(sf_read_reader_datum(stored->reader), &stored->value);
	MemoryContextSwitchTo(old);
	return stored;
}

/* Forget the STORED value that is being read, if there is one. */
static void
end_stored(SfSqlWalk *walk)
{
	if (walk->stored != NULL)
		MemoryContextDelete(walk->stored->context);
	walk->stored = NULL;
}

static int64
unit_floor(int64 offset)
{
	return offset / SF_UNIT_SIZE * SF_UNIT_SIZE;
}

/* Where the last unit before an offset begins, but not before from. */
static int64
unit_before(int64 from, int64 offset)
{
	return Max(from, unit_floor(offset - 1));
}

/* Where data begins at or behind an offset, at most end; *len: so much of it is known. */
static int64
data_from(SfSqlStored *stored, int64 offset, int64 end, int64 *len)
{
	*len = LOOK_BYTES - offset % SF_UNIT_SIZE;
	if (!sf_read_next_data(&stored->value, &offset, len))
		return end;
	return Min(offset, end);
}

/* The end of a hole worth leaving out that begins at from; from itself: what follows is read. */
static int64
skip_hole(SfSqlStored *stored, int64 from, int64 to)
{
	int64		len;
	int64		data;

	if (from >= stored->data_start && from < stored->data_end)
		return from;
	data = data_from(stored, from, to, &len);
	if (data == to || data - from >= LONG_HOLE_BYTES)
		return data;
	stored->data_start = from;
	stored->data_end = data + len;
	if (data > from)
		stored->data_end = Max(stored->data_end, unit_floor(from + LOOK_BYTES));
	return from;
}

/*
 * The same backwards: the start of a hole that ends at to.  A map is looked at forwards only,
 * so the last data before an offset is found by halving what is before it.
 */
static int64
skip_hole_back(SfSqlStored *stored, int64 from, int64 to)
{
	int64		len;
	int64		hole = unit_before(from, to);	/* only zeros from there on */
	int64		data = from;	/* not only zeros from there on */

	if (to > stored->data_start && to <= stored->data_end)
		return to;
	if (data_from(stored, hole, to, &len) == to)
	{
		if (data_from(stored, from, to, &len) == to)
			return from;
		while (hole - data > SF_UNIT_SIZE)
		{
			int64		middle = Max(data + 1, unit_floor(data + (hole - data) / 2));

			if (data_from(stored, middle, to, &len) == to)
				hole = middle;
			else
				data = middle;
		}
		if (to - hole >= LONG_HOLE_BYTES)
			return hole;
	}
	stored->data_start = Max(from, unit_floor(to - LOOK_BYTES));
	stored->data_end = to;
	return to;
}

static SfSqlPart
read_stored(SfSqlStored *stored, int64 from, int64 to)
{
	SF_ASSERT(to > from && to - from <= stored->part_bytes);
	sf_read_at(stored->reader, from, to - from, stored->buffer);
	return (SfSqlPart) {stored->buffer, to - from};
}

/* Whole units, or what the range has of them: from its start on, .. */
static SfSqlPart
first_stored(SfSqlStored *stored, int64 from, int64 to)
{
	int64		data = skip_hole(stored, from, to);

	if (data > from)
		return (SfSqlPart) {NULL, data - from};
	to = Min(to, stored->data_end);
	return read_stored(stored, from, Min(to, from + stored->part_bytes - from % SF_UNIT_SIZE));
}

/* .. or before its end. */
static SfSqlPart
last_stored(SfSqlStored *stored, int64 from, int64 to)
{
	int64		hole = skip_hole_back(stored, from, to);
	int64		at;

	if (hole < to)
		return (SfSqlPart) {NULL, to - hole};
	from = Max(from, stored->data_start);
	at = unit_before(from, to);
	if (at > from && stored->part_bytes > SF_UNIT_SIZE)
		at = unit_before(from, at);
	return read_stored(stored, at, to);
}

/* ---- walks ---- */

void
sfi_sql_walk_begin(SfSqlWalk *walk, Datum value)
{
	SfRope	   *rope = sf_object_rope_of(value);

	/*
	 * short values have many walks: to clear all of so large a struct would
	 * be seen
	 */
	walk->start = 0;
	walk->slice = NULL;
	walk->pieces = NULL;
	walk->npieces = walk->piece = 0;
	walk->piece_start = 0;
	walk->stored = NULL;
	walk->context = CurrentMemoryContext;
	walk->part_bytes = SF_SQL_PART_BYTES;
	walk->bytes_are = SF_SQL_SCANNED;
	walk->zeros_are = SF_SQL_SKIPPED;
	if (rope != NULL)
	{
		walk->content.value.datum = NULL;
		walk->npieces = sf_object_rope_pieces(rope, &walk->pieces);
		walk->length = sf_object_rope_length(rope);
	}
	else
	{
		sfi_sql_open(value, &walk->content);
		walk->length = walk->content.length;
		if (sfi_sql_is_inline(&walk->content))
			sfi_sql_unpack(&walk->content);
		else
			walk->npieces = sf_read_pieces(walk->content.value.datum, &walk->pieces);
	}
	walk->end = walk->length;
}

void
sfi_sql_walk_by_unit(SfSqlWalk *walk)
{
	SF_ASSERT(walk->stored == NULL);
	walk->part_bytes = SF_UNIT_SIZE;
}

void
sfi_sql_walk_range(SfSqlWalk *walk, int64 start, int64 end)
{
	SF_ASSERT(start >= 0 && start <= end && end <= walk->length);
	end_stored(walk);
	walk->start = start;
	walk->end = end;
}

/* Go to the piece that has an offset. */
static const SfPiece *
enter_piece(SfSqlWalk *walk, int64 offset)
{
	int			before = walk->piece;

	while (offset < walk->piece_start)
		walk->piece_start -= walk->pieces[--walk->piece].length;
	while (offset - walk->piece_start >= (int64) walk->pieces[walk->piece].length)
		walk->piece_start += walk->pieces[walk->piece++].length;
	SF_ASSERT(walk->piece >= 0 && walk->piece < walk->npieces);
	if (walk->piece != before)
		end_stored(walk);
	return &walk->pieces[walk->piece];
}

/* The first or last part of bytes [from, to) of a piece. */
static SfSqlPart
part_of_piece(SfSqlWalk *walk, const SfPiece *piece, int64 from, int64 to, bool last)
{
	int64		len = Min(SF_SQL_PART_BYTES, to - from);

	switch (piece->kind)
	{
		case SF_PIECE_BYTES:
			return (SfSqlPart) {piece->bytes + (last ? to - len : from), len};
		case SF_PIECE_ZEROS:
			return (SfSqlPart) {NULL, to - from};
		case SF_PIECE_VALUE:
			break;
	}
	from += piece->start;
	to += piece->start;
	if (walk->stored == NULL)
		walk->stored = begin_stored(walk, piece->value, from, to);
	return last ? last_stored(walk->stored, from, to) : first_stored(walk->stored, from, to);
}

/* Of an INLINE value, which perhaps lies in TOAST. */
static SfSqlPart
part_of_inline(SfSqlWalk *walk, bool last)
{
	int64		len = Min(SF_SQL_PART_BYTES, walk->end - walk->start);
	MemoryContext old = MemoryContextSwitchTo(walk->context);

	walk->slice = sfi_sql_slice(&walk->content, last ? walk->end - len : walk->start, len);
	MemoryContextSwitchTo(old);
	return (SfSqlPart) {VARDATA(walk->slice), len};
}

/* Count a part for the column that has it: of a list of pieces, that of its piece. */
static void
count_part(const SfSqlWalk *walk, const SfSqlPart *part)
{
	static const SfValue in_no_column = {.form = SF_FORM_INLINE};
	const SfValue *value = &walk->content.value;

	if (walk->pieces != NULL && (value->datum == NULL || value->form == SF_FORM_EDITED))
		value = walk->stored != NULL ? &walk->stored->value : &in_no_column;
	sfi_sql_count(value, 0, part->length, part->bytes != NULL ? walk->bytes_are : walk->zeros_are);
}

/* Take a part away from one end of what is left; the only place where a walk can be cancelled. */
static bool
take_part(SfSqlWalk *walk, SfSqlPart *part, bool last)
{
	const SfPiece *piece;

	CHECK_FOR_INTERRUPTS();
	if (walk->slice != NULL)
		pfree(walk->slice);
	walk->slice = NULL;
	if (walk->start == walk->end)
		return false;
	if (walk->pieces == NULL)
		*part = part_of_inline(walk, last);
	else
	{
		piece = enter_piece(walk, last ? walk->end - 1 : walk->start);
		*part = part_of_piece(walk, piece, Max(walk->start - walk->piece_start, 0),
							  Min(walk->end - walk->piece_start, (int64) piece->length), last);
	}
	SF_ASSERT(part->length > 0 && part->length <= walk->end - walk->start);
	count_part(walk, part);
	if (last)
		walk->end -= part->length;
	else
		walk->start += part->length;
	return true;
}

bool
sfi_sql_walk_next(SfSqlWalk *walk, SfSqlPart *part)
{
	return take_part(walk, part, false);
}

bool
sfi_sql_walk_previous(SfSqlWalk *walk, SfSqlPart *part)
{
	return take_part(walk, part, true);
}

void
sfi_sql_walk_end(SfSqlWalk *walk)
{
	end_stored(walk);
	if (walk->slice != NULL)
		pfree(walk->slice);
	if (walk->pieces != NULL)
		pfree(walk->pieces);
	walk->slice = NULL;
	walk->pieces = NULL;
	walk->start = walk->end;
}
