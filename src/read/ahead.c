/*-------------------------------------------------------------------------
 *
 * ahead.c
 *	  Reading ahead: what a reader will ask for next is on its way while its
 *	  caller sends off what it got last.
 *
 * A reader that reads ahead has a slot: a ring of requests, in the order of their
 * units, the oldest being the one that bytes are taken from.  Units between two
 * requests are holes.  A request stays until its last byte was taken, so that a unit
 * is read once and checked once, however small the pieces are.  As the reader
 * goes on, the ring grows from one request to all of the slot's.
 *
 * Slots are few, in static memory, and their buffers are never given back; so
 * they can be left at any time, with requests in flight.  Whoever takes the
 * slot next waits for those.
 *
 * What is read through the page cache the system reads ahead itself.  Then the
 * ring is one small request, so that a unit is read and checked once here, too.
 *
 * What nobody has asked for yet must not be an error: planning ends before a
 * unit that is not where data files are, and a request that failed is left
 * aside.  What was asked for is then read in one go, which finds the error
 * again, if it concerns that.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "config/config.h"
#include "miscadmin.h"
#include "read/read_internal.h"

#define SLOTS			4
#define SLOT_REQUESTS		4
#define SLOT_UNITS		(SLOT_REQUESTS * SF_READ_REQUEST_UNITS)

/* of a request that is copied from the page cache: the processor's cache takes it */
#define CACHED_REQUEST_UNITS	2

struct SfReadSlot
{
	SfReader   *owner;			/* NULL: free */
	int			oldest;
	int			busy;
	SfReadRequest requests[SLOT_REQUESTS];
};

static SfReadSlot slots[SLOTS];

/* ---- slots ---- */

/* The slot is the reader's, and its ring is within its requests. */
static bool
slot_is_valid(const SfReader *reader)
{
	const SfReadSlot *slot = reader->slot;

	return slot->owner == reader && slot->oldest >= 0 && slot->oldest < SLOT_REQUESTS &&
		slot->busy >= 0 && slot->busy <= SLOT_REQUESTS && reader->depth > 0 &&
		reader->depth <= SLOT_REQUESTS;
}

/* Memory of a slot, made on first use; and nothing of old in flight. */
static void
prepare_slot(SfReadSlot *slot)
{
	sf_io_use_memory();
	if (slot->requests[0].buf == NULL)
	{
		char	   *mem = sf_io_buffer_alloc(SLOT_REQUESTS * SF_READ_REQUEST_BYTES);

		for (int i = 0; i < SLOT_REQUESTS; i++)
			slot->requests[i].buf = mem + i * SF_READ_REQUEST_BYTES;
	}
	for (int i = 0; i < SLOT_REQUESTS; i++)
		if (slot->requests[i].io.in_flight)
			sf_io_reap_all();
	slot->oldest = slot->busy = 0;
}

static bool
take_slot(SfReader *reader)
{
	for (SfReadSlot *slot = slots; slot < slots + SLOTS; slot++)
	{
		if (slot->owner != NULL)
			continue;
		prepare_slot(slot);
		slot->owner = reader;
		reader->slot = slot;
		reader->depth = 1;
		SF_ASSERT(slot_is_valid(reader));
		return true;
	}
	return false;
}

void
sfi_read_leave_slot(SfReader *reader)
{
	SF_ASSERT(reader->slot == NULL || slot_is_valid(reader));
	if (reader->slot != NULL)
		reader->slot->owner = NULL;
	reader->slot = NULL;
}

void
sfi_read_clear_slots(void)
{
	for (int i = 0; i < SLOTS; i++)
		slots[i].owner = NULL;
}

/* ---- known units: those of one leaf of the unit map at a time ---- */

typedef struct LookUp
{
	SfReader   *reader;
	SfReadJob  *job;
	uint64		unit_no;
} LookUp;

/* An SfBaseStep. */
static void
look_up(void *arg)
{
	LookUp	   *what = arg;
	SfReader   *reader = what->reader;
	uint64		first = what->unit_no / SF_INODE_MAX_UNITS * SF_INODE_MAX_UNITS;
	uint32		n = Min(reader->loc.nunits - first, SF_INODE_MAX_UNITS);

	if (reader->units == NULL)
		reader->units = MemoryContextAlloc(reader->context, SF_INODE_MAX_UNITS * sizeof(SfUnit));
	SF_ASSERT(first < reader->loc.nunits && what->unit_no < first + n);
	reader->nknown = 0;
	sfi_read_look_up(what->job, first, n, reader->units);
	reader->first_known = first;
	reader->nknown = n;
}

/*
 * Look up units that have not been asked for: damage of their page is no error
 * yet.  A leaf is 42 MB, so that a subtransaction for each costs nothing; where
 * there can be none, they are looked up when they are asked for.
 */
static void
look_up_ahead(LookUp *what)
{
	ErrorData  *error;

	if (IsInParallelMode() || IsParallelWorker())
		return;
	error = sf_base_guarded(look_up, what);
	if (error != NULL)
		FreeErrorData(error);
}

const SfUnit *
sfi_read_find_unit(SfReader *reader, SfReadJob *job, uint64 unit_no, uint32 *n)
{
	LookUp		what = {reader, job, unit_no};

	if (unit_no - reader->first_known >= reader->nknown)
	{
		if (unit_no < SfReadTargetEnd(job->target))
			look_up(&what);
		else
			look_up_ahead(&what);
	}
	if (unit_no - reader->first_known >= reader->nknown)
		return NULL;
	*n = reader->first_known + reader->nknown - unit_no;
	return &reader->units[unit_no - reader->first_known];
}

/* ---- the ring ---- */

static SfReadRequest *
oldest_request(SfReadSlot *slot)
{
	return slot->busy > 0 ? &slot->requests[slot->oldest] : NULL;
}

/* Do requests go on by themselves, while the caller does other things? */
static bool
is_asynchronous(const SfReadJob *job)
{
	return !job->buffered && sf_io_method != SF_IO_METHOD_SYNC;
}

/* How many requests are worth it. */
static int
max_depth(const SfReadJob *job)
{
	return is_asynchronous(job) ? Min(sf_io_concurrency, SLOT_REQUESTS) : 1;
}

static void
drop_oldest(SfReader *reader, const SfReadJob *job)
{
	SfReadSlot *slot = reader->slot;

	slot->oldest = (slot->oldest + 1) % SLOT_REQUESTS;
	slot->busy--;
	reader->depth = Min(reader->depth * 2, max_depth(job));
}

/* Plan a request from the next unit on; false when there is none to be read now. */
static bool
plan_next(SfReader *reader, SfReadJob *job, uint64 limit, SfReadRequest *request)
{
	const SfUnit *unit = NULL;
	uint32		n;

	while (reader->next_unit < limit &&
		   (unit = sfi_read_find_unit(reader, job, reader->next_unit, &n)) != NULL &&
		   unit->start == SF_HOLE)
		reader->next_unit++;
	if (reader->next_unit >= limit || unit == NULL || !sfi_read_is_there(job, unit))
		return false;
	n = Min(n, limit - reader->next_unit);
	sfi_read_plan_request(job, unit, reader->next_unit,
						  job->buffered ? Min(n, CACHED_REQUEST_UNITS) : n, request);
	reader->next_unit += request->nunits;
	return true;
}

/* Start reading what comes from unit_no on, as far as the reader may. */
static void
fill_ring(SfReader *reader, SfReadJob *job, uint64 unit_no)
{
	SfReadSlot *slot = reader->slot;
	uint64		limit = Min(sf_units_of(reader->end_offset), unit_no + SLOT_UNITS);

	while (slot->busy < reader->depth)
	{
		SfReadRequest *request = &slot->requests[(slot->oldest + slot->busy) % SLOT_REQUESTS];

		if (!plan_next(reader, job, limit, request))
			break;
		sfi_read_start_request(job, request);
		request->may_reread = true;
		slot->busy++;
	}
}

/* An SfReadFinding: what failed is read again if it is asked for. */
static void
ignore_finding(const char *what, int64 segment_offset, int64 len, const char *detail, void *arg)
{
}

/* Wait for a request; false when it could not be read, which is no error yet. */
static bool
wait_request(SfReadJob *job, SfReadRequest *request)
{
	SfReadTarget quiet = {.found = ignore_finding};
	SfReadJob	quiet_job = *job;

	quiet_job.target = &quiet;
	return sfi_read_wait_request(&quiet_job, request);
}

/*
 * Give the target what it wants of the oldest request, from unit_no on; returns
 * the next unit that it wants.
 */
static uint64
take_request(SfReader *reader, SfReadJob *job, SfReadRequest *request, uint64 unit_no)
{
	uint64		request_end = request->first_unit + request->nunits;
	uint64		end = Min(request_end, SfReadTargetEnd(job->target));

	SF_ASSERT(unit_no >= request->first_unit && unit_no < end);
	for (; unit_no < end; unit_no++)
		sfi_read_deliver_unit(job, request, unit_no - request->first_unit);
	if (sf_unit_start(request_end) <= job->target->offset + job->target->len)
		drop_oldest(reader, job);
	return unit_no;
}

/* Read the rest of the target, from unit_no on, in one go; ring is empty or useless. */
static void
read_rest(SfReader *reader, SfReadJob *job, uint64 unit_no)
{
	SfReadTarget rest = *job->target;
	SfReadJob	rest_job = *job;
	uint64		skip = Max(sf_unit_start(unit_no), rest.offset) - rest.offset;

	SF_ASSERT(skip < rest.len);
	rest.dst += skip;
	rest.offset += skip;
	rest.len -= skip;
	rest_job.target = &rest;
	sfi_read_leave_slot(reader);
	sfi_read_units(&rest_job);
}

/* Take a slot, or go on in the one there is. */
static bool
take_slot_for(SfReader *reader, SfReadJob *job)
{
	/* storage that has been moved has other files */
	if (reader->slot != NULL && !SfStorageEquals(reader->storage, job->seg->storage))
		sfi_read_leave_slot(reader);
	if (reader->slot != NULL)
		return true;
	if (!take_slot(reader))
		return false;
	reader->storage = job->seg->storage;
	reader->next_unit = SfReadTargetFirst(job->target);
	return true;
}

bool
sfi_read_ahead(SfReader *reader, SfReadJob *job)
{
	uint64		unit_no = SfReadTargetFirst(job->target);
	uint64		end = SfReadTargetEnd(job->target);

	if (!take_slot_for(reader, job))
		return false;
	while (unit_no < end)
	{
		SfReadRequest *request;

		CHECK_FOR_INTERRUPTS();
		fill_ring(reader, job, unit_no);
		SF_ASSERT(slot_is_valid(reader));
		request = oldest_request(reader->slot);
		if (unit_no < (request != NULL ? request->first_unit : reader->next_unit))
			sfi_read_deliver_hole(job, unit_no++);
		else if (request != NULL && wait_request(job, request))
			unit_no = take_request(reader, job, request, unit_no);
		else
		{
			read_rest(reader, job, unit_no);
			return true;
		}
	}
	if (is_asynchronous(job))
		fill_ring(reader, job, unit_no);
	return true;
}
