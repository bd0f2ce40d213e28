/*-------------------------------------------------------------------------
 *
 * ahead.c
 *	  Reading ahead: the bytes that a reader will ask for next are on their way
 *	  while its caller sends off the last ones.
 *
 *		 calls		 |-- this one --|-- next --|
 *		 requests	[  oldest  ][  started  ][  started  ]		units planned
 *								 planned during this call --->
 *
 * A reader that reads ahead has a slot: a ring of requests (ring.c).  Each call first
 * fills the ring, then takes from it the units that the target wants, and fills it once
 * more before it returns.  A request stays until its last byte was taken, so that a
 * unit is read once and checked once, however small the pieces are.
 *
 * An example: 32 units that lie side by side, from the start of a block on, are read in
 * pieces of two units, past the page cache.  A request takes up to eight of them (1 MB).
 *
 *	 piece		comes from					then started			depth of the ring
 *	 0, 1		a read alone				-						no slot yet
 *	 2, 3		request 2 .. 9				-						1: the piece is in order
 *	 4 .. 7		2 .. 9						-						1
 *	 8, 9		2 .. 9, which ends			10 .. 17, 18 .. 25		2
 *	 10 .. 15	10 .. 17					-						2
 *	 16, 17		10 .. 17, which ends		26 .. 31				4: nothing is left for it
 *	 18 .. 31	18 .. 25, 26 .. 31			-						4
 *
 * So two requests are on their way while the caller sends off units 8 and 9.
 *
 * A slot's buffers take 4 MB, and all of them may be asked for at once, so a process has
 * few.  A reader that finds none free reads call by call, and tries again with the next
 * one.
 *
 * Slots lie in static memory, and their buffers are never given back; so
 * they can be left at any time, with requests in flight.  The next user of the
 * slot waits for those.
 *
 * The system itself reads ahead in the page cache.  There the ring is one small
 * request, only so that a unit is read and checked once here, too.
 *
 * Units that nobody has asked for yet must not be an error.  So planning ends before a
 * unit that is not where data files are, and the wait for a request that fails has a
 * listener that does nothing.  When such a unit is asked for, the rest of the
 * target is read in one go (units.c), which meets the error again and reports it,
 * if it concerns the target.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "miscadmin.h"
#include "read/read_internal.h"

#define SLOTS				4
#define SLOT_REQUESTS		4
#define SLOT_UNITS		(SLOT_REQUESTS * SF_READ_REQUEST_UNITS)

/* of a request that is copied from the page cache: the processor's cache takes it */
#define CACHED_REQUEST_UNITS	2

struct SfReadSlot
{
	SfReader   *owner;			/* NULL: free */
	SfReadRing	ring;
	SfReadRequest requests[SLOT_REQUESTS];
};

/* Their readers may go at any time, so it is the slot that knows its owner. */
static SfReadSlot ahead_slots[SLOTS];

/* ---- slots ---- */

/* The slot is the reader's, and its ring is sound. */
static bool
read_slot_is_valid(const SfReader *reader)
{
	return reader->slot->owner == reader && reader->slot->ring.slots == reader->slot->requests &&
		sfi_ring_is_valid(&reader->slot->ring);
}

/*
 * Take a free slot for a reader that begins to read ahead at a unit; false if there is
 * none.  The owner is set last: the preparation of the ring may throw.
 */
static bool
take_slot(SfReader *reader, uint64 first_unit)
{
	for (SfReadSlot *slot = ahead_slots; slot < ahead_slots + SLOTS; slot++)
	{
		if (slot->owner != NULL)
			continue;
		sf_io_use_memory();
		slot->ring.slots = slot->requests;
		sfi_ring_prepare(&slot->ring, SLOT_REQUESTS, first_unit);
		slot->owner = reader;
		reader->slot = slot;
		SF_ASSERT(read_slot_is_valid(reader));
		return true;
	}
	return false;
}

void
sfi_read_leave_slot(SfReader *reader)
{
	SF_ASSERT(reader->slot == NULL || read_slot_is_valid(reader));
	if (reader->slot != NULL)
		reader->slot->owner = NULL;
	reader->slot = NULL;
}

/* Their requests may be in flight still; the ring that is prepared next waits for them. */
void
sfi_read_clear_slots(void)
{
	for (int i = 0; i < SLOTS; i++)
		ahead_slots[i].owner = NULL;
}

/* ---- known units: those of one leaf of the unit map at a time ---- */

typedef struct LookUp
{
	SfReader   *reader;
	SfReadJob  *job;
	uint64		unit_no;
} LookUp;

/*
 * An SfBaseStep: looks up the whole leaf that a unit is in, as its page is read for one
 * unit as well as for all.  nknown is 0 meanwhile, so an ERROR leaves nothing half known.
 */
static void
look_up(void *arg)
{
	LookUp	   *what = arg;
	SfReader   *reader = what->reader;
	uint64		first = what->unit_no / SF_INODE_MAX_UNITS * SF_INODE_MAX_UNITS;
	uint32		n = Min(reader->value.loc.nunits - first, SF_INODE_MAX_UNITS);

	if (reader->units == NULL)
		reader->units = MemoryContextAlloc(reader->context, SF_INODE_MAX_UNITS * sizeof(SfUnit));
	SF_ASSERT(first < reader->value.loc.nunits && what->unit_no < first + n);
	reader->nknown = 0;
	sfi_read_look_up(what->job, first, n, reader->units);
	reader->first_known = first;
	reader->nknown = n;
}

const SfUnit *
sfi_read_find_unit(SfReader *reader, SfReadJob *job, uint64 unit_no, uint32 *n)
{
	LookUp		what = {reader, job, unit_no};
	ErrorData  *error;

	SF_ASSERT(unit_no < reader->value.loc.nunits);

	/*
	 * Without sign: the difference of a unit before the first known one is
	 * large, too.
	 */
	if (unit_no - reader->first_known >= reader->nknown)
	{
		if (unit_no < SfReadTargetEnd(job->target))
			look_up(&what);
		/* nobody has asked for it: damage of its page is no error yet */
		else if ((error = sf_base_guarded_read(look_up, &what)) != NULL)
			FreeErrorData(error);
	}
	if (unit_no - reader->first_known >= reader->nknown)
		return NULL;
	*n = reader->first_known + reader->nknown - unit_no;
	return &reader->units[unit_no - reader->first_known];
}

/* ---- the ring ---- */

/* Do requests go on by themselves, while the caller does other things? */
static bool
is_asynchronous(const SfReadJob *job)
{
	return !job->buffered && sf_io_method != SF_IO_METHOD_SYNC;
}

/*
 * How many requests are worth it.  A transfer that does not go on by itself only makes the
 * caller wait for bytes that it may never ask for.
 */
static int
most_requests(const SfReadJob *job)
{
	return is_asynchronous(job) ? Min(sf_io_concurrency, SLOT_REQUESTS) : 1;
}

/*
 * Start reading from unit_no on, as far as the reader may: not behind the end of what
 * it wants, and not more than a slot's worth of units, so that holes do not make it
 * look up the units of a whole value.
 */
static void
fill_ring_ahead(SfReader *reader, SfReadJob *job, uint64 unit_no)
{
	SfReadRing *ring = &reader->slot->ring;
	uint64		limit = Min(sf_units_of(reader->end_offset), unit_no + SLOT_UNITS);
	const SfUnit *units;
	uint32		n;

	while (ring->busy < ring->depth && ring->next_unit < limit &&
		   (units = sfi_read_find_unit(reader, job, ring->next_unit, &n)) != NULL)
	{
		uint32		most = job->buffered ? CACHED_REQUEST_UNITS : SLOT_UNITS;
		uint64		end = Min(ring->next_unit + Min(n, most), limit);

		if (sfi_ring_plan(ring, job, units, end - ring->next_unit) != NULL)
			sfi_ring_start(ring, job, true);
		else if (ring->next_unit < end)
			break;				/* this one is not where data files are */
	}
}

/* ---- reading ---- */

/* Nobody is told of a unit that failed: if it is asked for, it is read again. */
static const SfReadListener nobody = {NULL};

/* Take a slot, or go on in the one there is. */
static bool
prepare_slot(SfReader *reader, SfReadJob *job)
{
	/* storage that has been moved has other files */
	if (reader->slot != NULL && !SfStorageEquals(reader->storage, job->seg->storage))
		sfi_read_leave_slot(reader);
	if (reader->slot == NULL && !take_slot(reader, SfReadTargetFirst(job->target)))
		return false;
	SF_ASSERT(read_slot_is_valid(reader));
	/* the settings may have changed since the last call */
	reader->storage = job->seg->storage;
	reader->slot->ring.most = most_requests(job);
	return true;
}

/*
 * The target has the begin of a unit, and no bytes: nobody has asked for any yet, so that damage is
 * no error.
 */
void
sfi_read_begin_ahead(SfReader *reader, SfReadJob *job)
{
	uint64		unit_no = sf_unit_of(job->target->offset);

	SF_ASSERT(job->target->len == 0 && job->target->offset == sf_unit_start(unit_no));
	if (reader->slot == NULL && is_asynchronous(job) && prepare_slot(reader, job))
		fill_ring_ahead(reader, job, unit_no);
}

bool
sfi_read_ahead(SfReader *reader, SfReadJob *job)
{
	uint64		unit_no = SfReadTargetFirst(job->target);
	uint64		end = SfReadTargetEnd(job->target);
	SfReadRing *ring;

	SF_ASSERT(job->target->dst != NULL && unit_no < end);
	if (!prepare_slot(reader, job))
		return false;
	ring = &reader->slot->ring;
	while (unit_no < end)
	{
		CHECK_FOR_INTERRUPTS();
		fill_ring_ahead(reader, job, unit_no);
		SF_ASSERT(read_slot_is_valid(reader));
		if (!sfi_ring_wait(ring, job, &nobody, unit_no))
		{
			sfi_read_leave_slot(reader);
			sfi_read_units(job, NULL, unit_no);
			return true;
		}
		unit_no = sfi_ring_take(ring, job, NULL, unit_no, end);
	}
	/* while the caller works; a synchronous method would only make it wait */
	if (is_asynchronous(job))
		fill_ring_ahead(reader, job, unit_no);
	return true;
}
