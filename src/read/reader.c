/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Readers: values that are read piece by piece, over several calls.
 *
 * A piece that begins where the one before ended shows that the value is read
 * in order: from then on the reader reads ahead (ahead.c).  All else is read as if it
 * were alone.
 *
 * Whether a piece is read ahead for, and how, is decided anew for each piece:
 *
 *		 not in order							alone
 *		 in order, past the page cache			ahead, up to four requests
 *		 in order, cached, whole units			alone: straight into the result
 *		 in order, cached, parts of units		ahead, one small request
 *
 * A reader lives in a memory context of its own, and is ended by that context's
 * end: so an ERROR, a rollback to a savepoint or a portal that is closed early
 * leave no reader behind.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"
#include "utils/memutils.h"

/*
 * A stream of that much, in a column of the default cache mode, goes past the page
 * cache where that does not have most of it: it would push out of it what is worth
 * keeping, as a scan of a large table would with shared buffers.  That is found out
 * from a few units of what comes next, farther ahead than the system reads.
 */
#define LONG_STREAM_BYTES	(64 * 1024 * 1024)
#define DECIDED_AT_ONCE		(256 * 1024 * 1024)
#define SAMPLES				16

/* All readers of this process: the end of a transaction takes slots and locks from them. */
static dlist_head readers = DLIST_STATIC_INIT(readers);

/* Never throws: called when a memory context goes. */
static void
end_reader(void *arg)
{
	SfReader   *reader = arg;

	dlist_delete(&reader->link);
	sfi_read_leave_slot(reader);
	if (OidIsValid(reader->held))
		sf_space_let_go(reader->held);
}

/*
 * The callback is registered last, when nothing can throw any more: it expects a reader
 * that is in the list.  The datum is copied, since it may lie in a row's buffer or in the
 * memory of a statement that ends before the reader.
 */
SfReader *
sf_read_begin(struct varlena *datum)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile reader",
												  ALLOCSET_SMALL_SIZES);
	SfReader   *reader = MemoryContextAllocZero(context, sizeof(SfReader));
	MemoryContext old = MemoryContextSwitchTo(context);

	reader->context = context;
	/* a PACKED value would be decoded for each piece */
	sf_read_look(sf_object_copy(sf_read_unpacked(datum), context), &reader->value);
	MemoryContextSwitchTo(old);
	reader->length_bytes = reader->wanted_end = sf_read_value_length(&reader->value);
	reader->next_offset = reader->next_position = -1;

	dlist_push_head(&readers, &reader->link);
	reader->at_reset.func = end_reader;
	reader->at_reset.arg = reader;
	MemoryContextRegisterResetCallback(context, &reader->at_reset);
	return reader;
}

void
sf_read_end(SfReader *reader)
{
	MemoryContextDelete(reader->context);
}

struct varlena *
sf_read_reader_datum(const SfReader *reader)
{
	return reader->value.datum;
}

const SfValue *
sf_read_reader_value(const SfReader *reader)
{
	return &reader->value;
}

int64
sf_read_reader_length(const SfReader *reader)
{
	return reader->length_bytes;
}

/* A hint only: a read beyond it is not refused, and takes the hint back. */
void
sf_read_stop_at(SfReader *reader, int64 object_offset)
{
	SF_ASSERT(object_offset >= 0);
	reader->wanted_end = Min(object_offset, reader->length_bytes);
}

/* Does a piece start and end with units? */
static bool
is_whole_units(const SfReader *reader, const SfReadTarget *target)
{
	uint64		end = target->offset + target->len;

	return target->offset % SF_UNIT_SIZE == 0 &&
		(end % SF_UNIT_SIZE == 0 || end == reader->value.loc.unit_space_bytes);
}

/*
 * Has the page cache most of what comes next, until there?  A few units are asked about
 * for all.  Holes and units that are not there say nothing; if nothing was learnt, the
 * page cache it is.
 */
static bool
is_cached(SfReader *reader, SfReadJob *job, int64 until)
{
	uint64		first = SfReadTargetFirst(job->target);
	uint64		step = (sf_units_of(until) - first) / SAMPLES;
	int			cached = 0;
	int			asked = 0;

	SF_ASSERT(until > (int64) job->target->offset && until <= reader->end_offset);
	/* backwards, for the reader then knows the units that it wants first */
	for (int i = SAMPLES - 1; i >= 0; i--)
	{
		uint32		n;
		const SfUnit *unit = sfi_read_find_unit(reader, job, first + i * step, &n);

		if (unit == NULL || unit->start == SF_HOLE || !sfi_read_is_there(job, unit))
			continue;
		asked++;
		cached += sf_io_is_cached(job->files, sf_sectors_to_bytes(unit->start));
	}
	return cached >= asked * 3 / 4;
}

/*
 * Does this go past the page cache?  Asked again only every DECIDED_AT_ONCE bytes, and by
 * a stream that has at least LONG_STREAM_BYTES before it: a short one is not worth it,
 * and a change of mind in the middle would throw away what the system has read ahead.
 */
static bool
goes_direct(SfReader *reader, SfReadJob *job)
{
	int64		offset = job->target->offset;

	if (job->cache == SF_CACHE_READS && offset >= reader->decided_until &&
		reader->end_offset - offset >= LONG_STREAM_BYTES)
	{
		reader->decided_until = Min(offset + DECIDED_AT_ONCE, reader->end_offset);
		reader->direct = !is_cached(reader, job, reader->decided_until);
	}
	return reader->direct;
}

/*
 * A piece by itself.  What was read ahead is given up: it began where the caller did not go
 * on, or is of no use for whole units.
 */
static void
read_alone(SfReader *reader, SfReadJob *job)
{
	sfi_read_leave_slot(reader);
	sfi_read_units(job, NULL, SfReadTargetFirst(job->target));
}

/*
 * A piece that goes on where the last one ended.  A reader with a slot has requests in
 * flight between calls, and keeps the segment locked for them: its files must not be
 * truncated or moved meanwhile.
 */
static void
read_in_order(SfReader *reader, SfReadJob *job)
{
	if (job->buffered && goes_direct(reader, job))
		sfi_read_past_cache(job);
	if ((job->buffered && is_whole_units(reader, job->target)) || !sfi_read_ahead(reader, job))
		read_alone(reader, job);
	if (reader->slot != NULL && !OidIsValid(reader->held))
		reader->held = sf_space_hold(job->seg, AccessShareLock);
}

/*
 * One call on a STORED value.  The segment is opened anew each time, since statements may
 * lie between two calls; the tag of the locator is checked once, as neither changes.
 */
static void
read_call(SfReader *reader, SfReadTarget *target, bool in_order)
{
	SfLocator  *loc = &reader->value.loc;
	SfSegment  *seg = sf_space_open_incarnation(loc->table_oid, loc->attnum, loc->incarnation);
	SfReadJob	job;

	SF_ASSERT(seg->incarnation == loc->incarnation && target->len > 0);
	if (!reader->tag_checked)
		sf_object_require_tag(seg, loc);
	reader->tag_checked = true;
	sf_object_require_genuine(seg, loc);
	sfi_read_prepare_job(&job, seg, loc, target, NULL);
	if (in_order)
		read_in_order(reader, &job);
	else
	{
		reader->direct = false;
		reader->decided_until = 0;
		read_alone(reader, &job);
	}
	sf_space_release(seg);
}

/*
 * A range of the unit space, of which nothing is wanted from that end on.  in_call stays set when
 * an ERROR leaves this function.  The ring may have been taken from in part then, so the next call
 * begins anew, without the slot.
 */
static void
read_range(SfReader *reader, SfRange range, int64 end, char *dst)
{
	SfReadTarget target = {.dst = dst, .offset = range.start, .len = range.length};
	bool		in_order = (int64) range.start == reader->next_offset && !reader->in_call;

	SF_ASSERT((int64) (range.start + range.length) <= end);
	reader->end_offset = end;
	reader->in_call = true;
	read_call(reader, &target, in_order);
	reader->in_call = false;
	reader->next_offset = range.start + range.length;
	if (reader->next_offset == reader->end_offset)
		sfi_read_leave_slot(reader);
}

/* ---- pieces ---- */

/* Have the list of a PIECED value, and where each piece begins in the value. */
static void
load_pieces(SfReader *reader)
{
	MemoryContext old = MemoryContextSwitchTo(reader->context);
	SfLocator  *loc = &reader->value.loc;
	SfSegment  *seg = sf_object_open(loc);
	uint64		at = 0;

	sf_object_require_genuine(seg, loc);
	reader->npieces = sf_object_ranges(seg, loc, 0, reader->length_bytes, &reader->pieces);
	sf_space_release(seg);
	reader->begins = palloc_extended(reader->npieces * sizeof(uint64), MCXT_ALLOC_HUGE);
	for (int64 i = 0; i < reader->npieces; at += reader->pieces[i++].length)
		reader->begins[i] = at;
	SF_ASSERT((int64) at == reader->length_bytes);
	MemoryContextSwitchTo(old);
}

/* The piece that has the byte there. */
static int64
piece_at(const SfReader *reader, uint64 object_offset)
{
	int64		low = 0;
	int64		high = reader->npieces;

	SF_ASSERT(reader->npieces > 0 && object_offset < (uint64) reader->length_bytes);
	while (high - low > 1)
	{
		int64		middle = (low + high) / 2;

		if (reader->begins[middle] <= object_offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/*
 * Pieces are read by turns by several readers, which know places of the unit space only.  While one
 * reads its piece, the next pieces are on their way in the others:
 *
 *		 lane 0		| piece 0 ......|				 | piece 3 ..
 *		 lane 1		  | piece 1 starts ......|
 *		 lane 2			| piece 2 starts				  ......|
 */
static SfReader *
lane_of(SfReader *reader, int64 piece)
{
	int			i = piece % SF_READ_LANES;

	if (reader->lanes[i] == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(reader->context);

		reader->lanes[i] = sf_read_begin(reader->value.datum);
		reader->lane_pieces[i] = -1;
		MemoryContextSwitchTo(old);
	}
	return reader->lanes[i];
}

/* Where nothing that follows in a piece is wanted. */
static int64
end_in_piece(const SfReader *reader, int64 piece)
{
	const SfRange *range = &reader->pieces[piece];
	int64		wanted = reader->wanted_end - (int64) reader->begins[piece];

	return range->start + Min((int64) range->length, Max(wanted, 0));
}

/* Have a lane begin with a piece that will be wanted, unless it has that already. */
static void
start_piece(SfReader *reader, int64 piece)
{
	SfReader   *lane = lane_of(reader, piece);
	int64		start = reader->pieces[piece].start;
	SfReadTarget target = {.offset = sf_unit_start(sf_unit_of(start))};
	SfLocator  *loc = &lane->value.loc;
	SfSegment  *seg;
	SfReadJob	job;

	if (reader->lane_pieces[piece % SF_READ_LANES] == piece)
		return;
	reader->lane_pieces[piece % SF_READ_LANES] = piece;
	sfi_read_leave_slot(lane);
	seg = sf_object_open(loc);
	sf_object_require_genuine(seg, loc);
	sfi_read_prepare_job(&job, seg, loc, &target, NULL);
	lane->next_offset = start;
	lane->end_offset = end_in_piece(reader, piece);
	sfi_read_begin_ahead(lane, &job);
	if (lane->slot != NULL && !OidIsValid(lane->held))
		lane->held = sf_space_hold(seg, AccessShareLock);
	sf_space_release(seg);
}

/* What comes next in the value, where it is read in order. */
static void
start_next_pieces(SfReader *reader, int64 piece)
{
	for (int64 next = piece + 1; next < piece + SF_READ_LANES && next < reader->npieces; next++)
		if ((int64) reader->begins[next] < reader->wanted_end)
			start_piece(reader, next);
}

static void
read_pieces(SfReader *reader, int64 object_offset, int64 len, char *dst)
{
	bool		in_order = object_offset == reader->next_position;

	if (reader->pieces == NULL)
		load_pieces(reader);
	reader->next_position = object_offset + len;
	for (int64 i = piece_at(reader, object_offset); len > 0; i++)
	{
		const SfRange *piece = &reader->pieces[i];
		uint64		skip = object_offset - reader->begins[i];
		int64		n = Min(len, (int64) (piece->length - skip));
		SfReader   *lane = lane_of(reader, i);

		SF_ASSERT(i < reader->npieces && n > 0);
		reader->lane_pieces[i % SF_READ_LANES] = i;
		if (in_order || n < len)
			start_next_pieces(reader, i);
		read_range(lane, (SfRange) {piece->start + skip, n}, end_in_piece(reader, i), dst);
		object_offset += n;
		dst += n;
		len -= n;
	}
}

void
sf_read_at(SfReader *reader, int64 object_offset, int64 len, char *dst)
{
	SF_ASSERT(object_offset >= 0 && len >= 0 && object_offset + len <= reader->length_bytes);
	if (len == 0)
		return;
	if (reader->value.form != SF_FORM_STORED)
	{
		sf_read_value_range(&reader->value, object_offset, len, dst);
		return;
	}
	/* the hint was wrong, so it is not believed any more */
	if (object_offset + len > reader->wanted_end)
		reader->wanted_end = reader->length_bytes;
	if (reader->value.loc.flags & SF_LOC_PIECED)
		read_pieces(reader, object_offset, len, dst);
	else
		read_range(reader, (SfRange) {object_offset, len}, reader->wanted_end, dst);
}

/*
 * The locks of readers go with the transaction.  What is in flight for them has
 * been waited for, or nobody wants it any more.
 */
void
sf_read_at_end(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readers)
	{
		SfReader   *reader = dlist_container(SfReader, link, iter.cur);

		reader->slot = NULL;
		reader->held = InvalidOid;
	}
	sfi_read_clear_slots();
	sfi_read_wipe();
}
