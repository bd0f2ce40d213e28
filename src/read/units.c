/*-------------------------------------------------------------------------
 *
 * units.c
 *	  Reading a range of units in one go: requests of what lies side by side,
 *	  several of them in flight.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "read/read_internal.h"
#include "transform/transform.h"

#define UNITS_AT_ONCE		512
#define MAX_SLOTS			16

static SfReadRequest slots[MAX_SLOTS];
static int	nslots;

/* Depth of the queue; the memory for it is made on first use. */
static int
prepare_slots(void)
{
	int			want = Min(sf_io_concurrency, MAX_SLOTS);

	if (nslots < want)
	{
		char	   *mem = sf_io_buffer_alloc((Size) (want - nslots) * SF_READ_REQUEST_BYTES);

		for (; nslots < want; nslots++, mem += SF_READ_REQUEST_BYTES)
			slots[nslots].buf = mem;
	}
	/* an ERROR may have left some in flight in this transaction */
	for (int i = 0; i < nslots; i++)
		if (slots[i].io.in_flight)
			sf_io_reap_all();
	return want;
}

/* ---- straight into the result ---- */

static bool
is_raw(const SfReadRequest *request)
{
	for (uint32 i = 0; i < request->nunits; i++)
		if (!sf_transform_is_raw(&request->units[i]))
			return false;
	return true;
}

/*
 * Is a request wanted whole, as it is stored, and in the page cache's hands?  Then
 * it is read straight into the result.
 */
static bool
goes_straight(SfReadJob *job, SfReadRequest *request)
{
	SfReadTarget *target = job->target;
	uint64		start = sf_unit_start(request->first_unit);
	uint64		end = Min(sf_unit_start(request->first_unit + request->nunits), job->length_bytes);

	if (!job->buffered || target->dst == NULL || start < target->offset ||
		end > target->offset + target->len || !is_raw(request))
		return false;
	SF_ASSERT(start < end);
	request->data = target->dst + (start - target->offset);
	request->io.len_bytes = end - start;
	return true;
}

/*
 * Read a request into the result and check it there.  False when something does
 * not match or is still in gather buffers: then it goes the usual way.
 */
static bool
read_straight(SfReadJob *job, SfReadRequest *request)
{
	const char *bytes;

	if (!goes_straight(job, request) || sfi_read_is_gathered(job, request))
		return false;
	request->io.files = job->files;
	request->io.segment_offset = sf_sectors_to_bytes(request->units[0].start);
	request->io.buf = request->data;
	request->io.is_write = request->io.durable = false;
	sf_io_read_cached(&request->io);
	sfi_read_spoil_cached(job, request);
	job->stats->direct_read_ops++;
	job->stats->direct_read_bytes += request->io.len_bytes;
	bytes = request->data;
	for (uint32 i = 0; i < request->nunits; i++, bytes += SF_UNIT_SIZE)
		if (sf_format_checksum(bytes, request->units[i].stored_bytes, job->seed) !=
			request->units[i].checksum)
			return false;
	return true;
}

/* ---- the usual way ---- */

/* Check and deliver the units of a request that has arrived. */
static void
take_request(SfReadJob *job, SfReadRequest *request)
{
	for (uint32 i = 0; i < request->nunits; i++)
		sfi_read_deliver_unit(job, request, i);
}

/* Can a unit be read at all?  If not, it has been dealt with. */
static bool
is_readable(SfReadJob *job, uint64 unit_no, const SfUnit *unit)
{
	if (unit->start == SF_HOLE)
	{
		sfi_read_deliver_hole(job, unit_no);
		return false;
	}
	if (!sfi_read_is_there(job, unit))
	{
		sfi_read_report_beyond_end(job, unit);
		return false;
	}
	return true;
}

/*
 * Take the next request off the list of units [*next, n); false when there is
 * none any more.
 */
static bool
next_request(SfReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n, uint32 *next,
			 SfReadRequest *request)
{
	uint32		i = *next;

	while (i < n && !is_readable(job, first_unit + i, &units[i]))
		i++;
	*next = i;
	if (i == n)
		return false;
	sfi_read_plan_request(job, &units[i], first_unit + i, n - i, request);
	*next += request->nunits;
	return true;
}

/* Read a window of units with as many requests in flight as are allowed. */
static void
read_window(SfReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n)
{
	int			depth = prepare_slots();
	uint32		next = 0;
	int			oldest = 0;
	int			busy = 0;

	SF_ASSERT(n > 0 && n <= UNITS_AT_ONCE);
	for (;;)
	{
		while (busy < depth)
		{
			SfReadRequest *request = &slots[(oldest + busy) % depth];

			CHECK_FOR_INTERRUPTS();

			SF_ASSERT(!request->io.in_flight);
			if (!next_request(job, units, first_unit, n, &next, request))
				break;
			if (busy == 0 && read_straight(job, request))
				continue;
			sfi_read_start_request(job, request);
			busy++;
		}
		if (busy == 0)
			break;
		if (sfi_read_wait_request(job, &slots[oldest]))
			take_request(job, &slots[oldest]);
		SF_ASSERT(busy > 0 && busy <= depth && depth <= nslots);
		oldest = (oldest + 1) % depth;
		busy--;
	}
}

/* ---- jobs ---- */

void
sfi_read_look_up(SfReadJob *job, uint64 first, uint32 n, SfUnit *units)
{
	instr_time	start;
	instr_time	end;

	SF_ASSERT(n > 0);
	if (job->target->edit != NULL)
	{
		sf_object_edit_units(job->target->edit, first, n, units);
		return;
	}
	if (!(job->loc->flags & SF_LOC_INODE))
	{
		sf_object_units(job->seg, job->loc, first, n, units);
		return;
	}
	INSTR_TIME_SET_CURRENT(start);
	sf_object_units(job->seg, job->loc, first, n, units);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	job->stats->inode_read_time_us += INSTR_TIME_GET_MICROSEC(end);
}

void
sfi_read_prepare_job(SfReadJob *job, SfSegment *seg, const SfLocator *loc, SfReadTarget *target)
{
	job->seg = seg;
	job->loc = loc;
	job->target = target;
	job->length_bytes = loc->length_bytes;
	job->cache = sf_space_column(seg)->options.cache;
	job->buffered = job->cache == SF_CACHE_READS || job->cache == SF_CACHE_FULL;
	job->files = sf_io_open(seg->storage, job->buffered);
	job->seed = sf_format_seed(loc->incarnation, loc->object_id);
	job->total_sectors = sf_space_total_sectors(seg);
	/* for a check, that may be what an old header page says */
	if (target->found != NULL)
		job->total_sectors = Max(job->total_sectors,
								 sf_io_files_size(seg->storage) / SF_SECTOR_SIZE);
	job->stats = sf_stats_local(seg->table_oid, seg->attnum);
}

void
sfi_read_units(SfReadJob *job)
{
	uint64		first = SfReadTargetFirst(job->target);
	uint64		end = SfReadTargetEnd(job->target);
	SfUnit	   *units = palloc(Min(end - first, UNITS_AT_ONCE) * sizeof(SfUnit));

	for (;; first += UNITS_AT_ONCE)
	{
		uint32		n;

		/* a check wants no zeros */
		if (job->target->dst == NULL)
			first = sf_object_next_stored(job->seg, job->loc, first);
		if (first >= end)
			break;
		n = Min(end - first, UNITS_AT_ONCE);
		sfi_read_look_up(job, first, n, units);
		read_window(job, units, first, n);
	}
	pfree(units);
}
