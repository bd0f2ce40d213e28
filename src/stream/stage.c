/*-------------------------------------------------------------------------
 *
 * stage.c
 *	  A value that is written to a segment, in any order, unit by unit.
 *
 * Whole units go straight to the draft.  The others are put together in one
 * unit in memory, the stage: read when a part of them is wanted, written when
 * another unit takes their place (SecureFiles paper, section 3.1: updates touch
 * the chunks they change).
 *
 * A write of any range is cut at the edges of units:
 *
 *		 unit		|   7   |   8   |   9   |  10   |
 *		 range		     [..|.......|.......|..]
 *					 staged	 \- one call -/	 staged
 *
 * Units have a fixed size, are checksummed and compressed as a whole, and are never
 * overwritten: to change a byte is to write a unit anew.  The stage saves writing a unit
 * once for each small piece.  A stream of small pieces in order stages each unit
 * once, and reads none of them, since nothing is there yet.
 *
 * Reads see the stage first, then the draft's map, then the value that the stream was
 * opened on.  A unit that the draft has and that is not written out yet is found by the
 * read room in the gather buffers.
 *
 * T1	every unit of the draft has the length that the object's length gives
 *		it: the last one is staged before the end moves;
 * T2	what is behind the end of the staged unit are zeros;
 * T3	from data_end on there is nothing but holes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "miscadmin.h"
#include "stream/stream_internal.h"

/* Bytes of a unit that are before the end. */
static uint32
unit_bytes(const SfStream *stream, uint64 unit_no)
{
	return sf_unit_plain_bytes(stream->length, unit_no);
}

/*
 * What the stream has been given is for storage that is the column's still.  TRUNCATE, a
 * rewrite or a drop of the column in the same transaction may have replaced it: the
 * draft's units lie in files that go with the old storage.
 */
void
sfi_stage_require_usable(SfStream *stream)
{
	if (!sf_space_is_usable(&stream->seg))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("securefile column was truncated, rewritten or dropped while a value was being written to it"),
				 errhint("Write the value again.")));
}

/*
 * The draft of a stream, made at the first use in the stream's memory.  An edit that changes
 * nothing so makes none, and takes no object id.
 */
static SfDraft *
draft_of(SfStream *stream)
{
	if (stream->draft == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(stream->context);

		stream->draft = sf_write_draft(sf_space_open(stream->seg.table_oid, stream->seg.attnum,
													 RowExclusiveLock, false),
									   stream->value);
		MemoryContextSwitchTo(old);
		sf_write_draft_resize(stream->draft, sf_units_of(stream->length));
	}
	return stream->draft;
}

/*
 * Read what the draft, or what the stream was opened on, has; not what is staged.  The
 * map of a draft has all of the value's units too, so only one of them need be asked.
 */
static void
read_old_bytes(SfStream *stream, int64 object_offset, int64 len, char *dst)
{
	SfSegment  *seg;
	const SfLocator *version;
	SfEdit	   *edit;

	if (stream->draft != NULL)
	{
		edit = sf_write_draft_map(stream->draft, &seg, &version);
		sf_read_map(seg, edit, version, stream->length, object_offset, len, dst);
	}
	else if (stream->value != NULL)
	{
		SfValue		value;

		sf_read_look(stream->value, &value);
		sf_read_unit_space(&value, object_offset, len, dst);
	}
	else
		memset(dst, 0, len);
}

/* ---- the staged unit ---- */

/*
 * What is still to come from a unit on, for the length of its run.  Where nobody knows,
 * it is as much again as what is before it, so that a small value takes little space
 * and a large one gets long runs.
 */
static uint64
ahead_bytes(const SfStream *stream, uint64 unit_no, uint64 len)
{
	int64		before = sf_unit_start(unit_no);

	return Max((int64) len, Max(before, stream->final_length - before));
}

/* T2: the staged unit.  Goes through it, as the store does. */
static bool
has_zeros_behind(const SfStream *stream, uint32 len)
{
	for (uint32 i = len; i < SF_UNIT_SIZE; i++)
		if (stream->unit[i] != 0)
			return false;
	return true;
}

/* Write the staged unit if it was changed; it stays staged, for reads. */
static void
write_unit(SfStream *stream)
{
	uint32		len = unit_bytes(stream, stream->unit_no);

	SF_ASSERT(!stream->unit_changed || stream->unit_loaded);
	SF_INVARIANT(T2, !stream->unit_loaded || has_zeros_behind(stream, len));
	if (stream->unit_loaded && stream->unit_changed)
		sf_write_draft_put(draft_of(stream), stream->unit_no, stream->unit, len,
						   ahead_bytes(stream, stream->unit_no, len));
	stream->unit_changed = false;
}

/* Memory for one unit; it is wiped when the stream goes, finished or not. */
static void
allocate_unit(SfStream *stream)
{
	MemoryContext old = MemoryContextSwitchTo(stream->context);

	stream->unit = sf_base_secret_new(SF_UNIT_SIZE);
	MemoryContextSwitchTo(old);
}

/*
 * Stage a unit; its bytes are not read when all of them will be written.  The unit that
 * was staged is written first.  unit_loaded is false while the new one is read, so an
 * ERROR in between leaves no stage rather than a wrong one.
 */
static void
stage_unit(SfStream *stream, uint64 unit_no, bool whole)
{
	uint32		len = unit_bytes(stream, unit_no);

	SF_ASSERT(len > 0 && len <= SF_UNIT_SIZE);
	SF_ASSERT(unit_no < sf_units_of(stream->length));
	if (stream->unit_loaded && stream->unit_no == unit_no)
		return;
	write_unit(stream);
	if (stream->unit == NULL)
		allocate_unit(stream);
	stream->unit_loaded = false;
	if (!whole)
		read_old_bytes(stream, sf_unit_start(unit_no), len, stream->unit);
	memset(stream->unit + len, SF_BREAKS(t2) ? 1 : 0, SF_UNIT_SIZE - len);
	stream->unit_no = unit_no;
	stream->unit_loaded = true;
}

/*
 * Forget the staged unit if it is one of those: it is about to be written as a whole, or
 * to be cut off, and its bytes would come out after the newer ones.
 */
static void
drop_staged(SfStream *stream, uint64 first_unit, uint64 end_unit)
{
	if (stream->unit_loaded && stream->unit_no >= first_unit && stream->unit_no < end_unit)
		stream->unit_loaded = stream->unit_changed = false;
}

/* ---- moving the end ---- */

/*
 * Would a unit read as zeros, without taking space?  Makes the draft if there is a value:
 * its map is the only one that can be asked for a single unit.  A staged unit is none,
 * since it may have been changed.
 */
static bool
is_hole_unit(SfStream *stream, uint64 unit_no)
{
	SfSegment  *seg;
	const SfLocator *version;
	SfUnit		unit;

	if (stream->unit_loaded && stream->unit_no == unit_no)
		return false;
	if (stream->draft == NULL && stream->value == NULL)
		return true;
	sf_object_edit_units(sf_write_draft_map(draft_of(stream), &seg, &version), stream->length,
						 unit_no, 1, &unit);
	return unit.start == SF_HOLE;
}

static bool
is_staged(const SfStream *stream, uint64 unit_no)
{
	return stream->unit_loaded && stream->unit_changed && stream->unit_no == unit_no;
}

/*
 * T1: the end may leave this place, or come to it.  A unit that it cuts has to be staged
 * and changed, so that it is written with its new length, or a hole, which has no length.
 */
static void
check_cut_unit(SfStream *stream, int64 end)
{
	uint64		unit_no = sf_unit_of(end);

	SF_INVARIANT(T1, end % SF_UNIT_SIZE == 0 || is_staged(stream, unit_no) ||
				 is_hole_unit(stream, unit_no));
}

/* T3: looks at the first unit that is behind data_end, and only where there is a draft. */
static void
check_data_end(SfStream *stream)
{
	uint64		unit_no = sf_units_of(stream->data_end);

	SF_ASSERT(stream->data_end >= 0 && stream->data_end <= stream->length);
	SF_INVARIANT(T3, stream->draft == NULL || unit_no >= sf_units_of(stream->length) ||
				 is_hole_unit(stream, unit_no));
}

/*
 * Stage the unit that the nearer end cuts, since its length changes (T1).  What is behind
 * the cut becomes zeros: if the end moves up again later, they show (T2).
 */
static void
stage_last_unit(SfStream *stream, int64 end)
{
	uint64		unit_no = sf_unit_of(end);
	uint32		len = end % SF_UNIT_SIZE;

	if (len == 0 || is_hole_unit(stream, unit_no))
		return;
	stage_unit(stream, unit_no, false);
	memset(stream->unit + len, 0, SF_UNIT_SIZE - len);
	stream->unit_changed = true;
}

/*
 * The unit that the nearer end cuts changes its length, so it is staged and written anew
 * (T1).  The units between the two ends are dropped, or become holes.
 */
static void
move_end(SfStream *stream, int64 length)
{
	int64		nearer = Min(length, stream->length);

	stream->changed = true;
	sfi_hash_cut(stream, length);
	if (!SF_BREAKS(t1))
		stage_last_unit(stream, nearer);
	check_cut_unit(stream, nearer);
	if (length < stream->length)
		drop_staged(stream, sf_units_of(length), sf_units_of(stream->length));
	stream->data_end = Min(stream->data_end, length);

	/*
	 * A new stream without a draft has no units to cut; draft_of() will know
	 * the length.
	 */
	if (stream->draft != NULL || stream->value != NULL)
		sf_write_draft_resize(draft_of(stream), sf_units_of(length));
	stream->length = length;
	check_data_end(stream);
}

void
sfi_stage_resize(SfStream *stream, int64 length)
{
	SF_ASSERT(stream->kind == STREAM_STAGE && length >= 0);
	if (length == stream->length)
		return;
	sfi_stage_require_usable(stream);
	move_end(stream, length);
}

/* ---- reading and writing ---- */

/*
 * A range may begin before the staged unit and end behind it.  That unit's bytes come from
 * memory, for the draft may have older ones, and the rest from the draft.
 */
void
sfi_stage_read(SfStream *stream, int64 object_offset, int64 len, char *dst)
{
	int64		end = object_offset + len;
	int64		from = Max(sf_unit_start(stream->unit_no), object_offset);
	int64		to = Min(sf_unit_start(stream->unit_no + 1), end);

	sfi_stage_require_usable(stream);
	if (!stream->unit_loaded || from >= to)
	{
		read_old_bytes(stream, object_offset, len, dst);
		return;
	}
	/* before, in, and behind the staged unit */
	read_old_bytes(stream, object_offset, from - object_offset, dst);
	memcpy(dst + (from - object_offset), stream->unit + from % SF_UNIT_SIZE, to - from);
	read_old_bytes(stream, to, end - to, dst + (to - object_offset));
}

/* Read and hash what is not hashed yet, up to there; parts end with units. */
static void
hash_to(SfStream *stream, int64 end)
{
	const int64 at_once = 2 * SF_UNIT_SIZE;
	char	   *part = sf_base_secret_new(at_once);
	int64		at;

	SF_ASSERT(stream->kind == STREAM_STAGE && end <= stream->length);
	while ((at = sfi_hash_place(stream)) < end)
	{
		int64		len = Min(at_once - at % SF_UNIT_SIZE, end - at);

		CHECK_FOR_INTERRUPTS();
		sfi_stage_read(stream, at, len, part);
		sfi_hash_add_read(stream, part, len);
	}
	sf_base_secret_free(part);
}

/*
 * Write whole units from the caller's memory, past the stage: what comes in large pieces is
 * copied once only, by the write room.
 */
static void
put_whole_units(SfStream *stream, uint64 unit_no, const char *data, uint64 nunits)
{
	uint64		len = sf_unit_start(nunits);

	SF_ASSERT(nunits > 0 && unit_no + nunits <= sf_units_of(stream->length));
	drop_staged(stream, unit_no, unit_no + nunits);
	sf_write_draft_put(draft_of(stream), unit_no, data, len, ahead_bytes(stream, unit_no, len));
}

/* A part of one unit; data NULL: zeros. */
static void
put_part(SfStream *stream, uint64 unit_no, uint32 offset, const char *data, uint32 len)
{
	SF_ASSERT(len > 0 && offset + len <= unit_bytes(stream, unit_no));
	stage_unit(stream, unit_no, offset == 0 && len == unit_bytes(stream, unit_no));
	if (data == NULL)
		memset(stream->unit + offset, 0, len);
	else
		memcpy(stream->unit + offset, data, len);
	stream->unit_changed = true;
}

/*
 * Whole units in the middle go to the draft in one call, so that they are placed in one
 * run; the parts at both ends go through the stage.  The end moves first, so that every
 * unit has its final length when it is written (T1).
 */
void
sfi_stage_write(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	const int64 start = object_offset;
	const int64 end = object_offset + len;
	const char *const bytes = data;

	SF_ASSERT(stream->kind == STREAM_STAGE && object_offset >= 0 && len >= 0);
	sfi_stage_require_usable(stream);
	stream->changed |= len > 0;
	sfi_hash_cut(stream, start);
	if (end > stream->length)
		move_end(stream, end);
	if (sfi_hash_wants_gap(stream, start))
		hash_to(stream, start);
	if (!SF_BREAKS(t3))
		stream->data_end = Max(stream->data_end, object_offset + len);
	while (len > 0)
	{
		uint64		unit_no = sf_unit_of(object_offset);
		uint32		offset = object_offset % SF_UNIT_SIZE;
		int64		n = Min(SF_UNIT_SIZE - offset, len);

		/*
		 * The object's last unit, if it is shorter, is staged: it may still
		 * grow.
		 */
		if (n == SF_UNIT_SIZE)
		{
			n = sf_unit_start(sf_unit_of(len));
			put_whole_units(stream, unit_no, data, sf_unit_of(n));
		}
		else
			put_part(stream, unit_no, offset, data, n);
		object_offset += n;
		data += n;
		len -= n;
	}
	check_data_end(stream);
	/* while what was written is on its way to the disk */
	sfi_hash_add(stream, start, bytes, end - start);
}

/* The first unit from there on that is no hole, or is staged; behind the last one if none is. */
static uint64
next_stored(SfStream *stream, uint64 unit_no)
{
	uint64		found = sf_units_of(stream->length);
	SfSegment  *seg;
	const SfLocator *version;

	if (stream->draft != NULL || stream->value != NULL)
		found = sf_object_edit_next_stored(sf_write_draft_map(draft_of(stream), &seg, &version),
										   unit_no);
	if (stream->unit_loaded && stream->unit_no >= unit_no)
		found = Min(found, stream->unit_no);
	return found;
}

bool
sfi_stage_next_data(SfStream *stream, int64 *object_offset, int64 *len)
{
	uint64		unit_no = sf_unit_of(*object_offset);
	uint64		first;
	uint64		past;

	SF_ASSERT(stream->kind == STREAM_STAGE && *len > 0);
	SF_ASSERT(*object_offset >= 0 && *object_offset <= stream->length);
	sfi_stage_require_usable(stream);
	first = next_stored(stream, unit_no);
	past = first + 1;
	if (first > unit_no)
		*object_offset = Min(sf_unit_start(first), stream->length);
	*len = Min(*len, stream->length - *object_offset);
	while (sf_unit_start(past) < (uint64) (*object_offset + *len) && !is_hole_unit(stream, past))
		past++;
	*len = Min((uint64) *len, sf_unit_start(past) - *object_offset);
	return *len > 0;
}

/* End of the last unit that may have data, as far as it is there (T3). */
static int64
end_of_data_units(const SfStream *stream)
{
	return Min((uint64) stream->length, sf_unit_start(sf_units_of(stream->data_end)));
}

/*
 * Only up to data_end: behind it are holes (T3), and a range of zeros may be terabytes.
 * A whole unit becomes a hole, a part of one is staged.  Holes stay, and are passed over at once.
 */
void
sfi_stage_zero(SfStream *stream, int64 object_offset, int64 len)
{
	SF_ASSERT(stream->kind == STREAM_STAGE && object_offset >= 0);
	check_data_end(stream);
	stream->changed |= len > 0;
	len = Min(len, end_of_data_units(stream) - object_offset);
	if (len > 0)
	{
		sfi_stage_require_usable(stream);
		sfi_hash_cut(stream, object_offset);
	}
	while (len > 0)
	{
		uint64		unit_no = sf_unit_of(object_offset);
		uint32		offset = object_offset % SF_UNIT_SIZE;
		int64		n = Min(SF_UNIT_SIZE - offset, len);

		CHECK_FOR_INTERRUPTS();
		if (is_hole_unit(stream, unit_no))
			n = Min((uint64) len, sf_unit_start(next_stored(stream, unit_no)) - object_offset);
		else if (offset == 0 && n == unit_bytes(stream, unit_no))
		{
			drop_staged(stream, unit_no, unit_no + 1);

			/* is_hole_unit() would refuse a unit that a moved end cuts */
			if (next_stored(stream, unit_no) == unit_no)
				sf_write_draft_punch(draft_of(stream), unit_no);
		}
		else
			put_part(stream, unit_no, offset, NULL, n);
		object_offset += n;
		len -= n;
	}
}

/* Of a value that is encrypted no plain byte stays in memory that is given back. */
static void
wipe_unit(SfStream *stream)
{
	SfSegment  *seg;
	const SfLocator *version;

	SF_ASSERT(!stream->unit_changed);
	(void) sf_write_draft_map(draft_of(stream), &seg, &version);
	if (stream->unit != NULL && (version->flags & SF_LOC_KEYED))
		sodium_memzero(stream->unit, SF_UNIT_SIZE);
	/* has the last bytes, if they are no whole block */
	sodium_memzero(&stream->hash, sizeof(stream->hash));
	stream->unit_loaded = false;
}

/* The unit that is still staged is written last, whatever its number. */
static void
end_writing(SfStream *stream)
{
	SF_ASSERT(stream->kind == STREAM_STAGE && stream->length > 0);
	sfi_stage_require_usable(stream);
	check_data_end(stream);
	write_unit(stream);
}

SfValue
sfi_stage_finish(SfStream *stream)
{
	SfContentHash hash;
	bool		hashed;

	end_writing(stream);
	hashed = sfi_hash_wants_rest(stream);
	if (hashed)
	{
		hash_to(stream, stream->length);
		sf_transform_hash_finish(&stream->hash, &hash);
	}
	wipe_unit(stream);
	return sf_write_draft_finish(draft_of(stream), stream->length, hashed ? &hash : NULL, NULL, 0);
}

SfValue
sfi_stage_finish_pieces(SfStream *stream, const SfContentHash *hash, const SfRange *ranges,
						int64 nranges)
{
	SF_ASSERT(!stream->hashes && nranges > 0);
	end_writing(stream);
	wipe_unit(stream);
	return sf_write_draft_finish(draft_of(stream), stream->length, hash, ranges, nranges);
}
