/*-------------------------------------------------------------------------
 *
 * units.c
 *	  Reading a range of units in one go: requests of units that lie side by
 *	  side, several of them in flight.
 *
 * The units are looked up a window at a time, so that the memory for them stays
 * small however long the value is.  Between two windows the ring runs empty, which
 * costs one wait in 64 MB.
 *
 * Two ways lead to the result.  By the usual one a request goes to an aligned buffer,
 * and each of its units is checked there and then copied: direct I/O needs aligned
 * memory, which a result never has.  The page cache has no such need.  So a
 * request whose units are all wanted whole, and stored as they are, is read from the
 * page cache straight to its place in the result and checked there, which saves a
 * copy of every byte.  If anything is odd about it, it is read again the usual way,
 * which knows what to do about bytes that do not match.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "read/read_internal.h"

/* units of a window, and requests of the ring: their buffers take 16 MB at most */
#define UNITS_AT_ONCE		512
#define MAX_SLOTS			16

static SfReadRequest slots[MAX_SLOTS];
static SfReadRing ring = {.slots = slots};

/* Everything is wanted now, so the whole queue is worth it from the start. */
static void
prepare_ring(uint64 first_unit)
{
	int			depth = Min(sf_io_concurrency, MAX_SLOTS);

	sfi_ring_prepare(&ring, depth, first_unit);
	ring.depth = ring.most = depth;
	SF_ASSERT(sfi_ring_is_valid(&ring) && ring.busy == 0);
}

/* ---- straight into the result ---- */

/* Stored bytes that are the plain bytes can be checked where they are wanted. */
static bool
is_plain(const SfReadJob *job, const SfReadRequest *request)
{
	for (uint32 i = 0; i < request->nunits; i++)
		if (!sfi_read_is_plain(job, &request->units[i]))
			return false;
	return true;
}

/*
 * Are the units of a request wanted whole, and as they are stored?  The object's last unit
 * is whole where the object ends.
 */
static bool
is_wanted_whole(const SfReadJob *job, const SfReadRequest *request)
{
	const SfReadTarget *target = job->target;
	uint64		end = Min(sf_unit_start(SfReadRequestEnd(request)), job->unit_space_bytes);

	return target->dst != NULL && sf_unit_start(request->first_unit) >= target->offset &&
		end <= target->offset + target->len && is_plain(job, request);
}

/*
 * Read a request to the place in the result where its bytes belong.  No buffer, no
 * alignment, and no request in flight: the call returns when all bytes are there.
 */
static void
read_to_result(SfReadJob *job, SfReadRequest *request)
{
	uint64		start = sf_unit_start(request->first_unit);
	uint64		end = Min(sf_unit_start(SfReadRequestEnd(request)), job->unit_space_bytes);

	SF_ASSERT(start < end && start >= job->target->offset);
	SF_ASSERT(end <= job->target->offset + job->target->len);
	request->data = job->target->dst + (start - job->target->offset);
	request->io.files = job->files;
	request->io.segment_offset = sf_sectors_to_bytes(request->units[0].start);
	request->io.buf = request->data;
	request->io.len_bytes = end - start;
	request->io.is_write = request->io.durable = false;
	sf_io_read_cached(&request->io);
	sfi_read_spoil_cached(job, request);
	job->stats->units_read += request->nunits;
	job->stats->direct_read_ops++;
	job->stats->direct_read_bytes += request->io.len_bytes;
}

/*
 * Read a planned request into the result and check it there.  False when it cannot be
 * read that way, or something does not match: the request is still planned then.
 * Bytes that do not match are in the result by then, but the usual way writes over them,
 * or throws.
 */
static bool
read_straight(SfReadJob *job, SfReadRequest *request)
{
	const char *bytes;
	uint64		found;

	SF_ASSERT(request->state == SF_READ_PLANNED);
	if (!job->buffered || !is_wanted_whole(job, request) || sfi_read_is_gathered(job, request))
		return false;
	read_to_result(job, request);
	bytes = request->data;
	for (uint32 i = 0; i < request->nunits; i++, bytes += SF_UNIT_SIZE)
		if (!sfi_read_matches(job, &request->units[i], bytes, &found))
			return false;
	return true;
}

/* ---- windows ---- */

/* Units that are known: of the object, [first, end). */
typedef struct Window
{
	const SfUnit *units;
	uint64		first;
	uint64		end;
} Window;

/*
 * Fill the ring with requests of a window.  Returns the next unit that is to be
 * taken, which is beyond unit_no when requests were read straight.  That is done only
 * while the ring is empty: with requests in flight, a wait for another one in this
 * place would leave the disk idle.
 */
static uint64
fill_window_ring(SfReadJob *job, const Window *window, uint64 unit_no)
{
	SfReadRequest *request;

	while ((request = sfi_ring_plan(&ring, job, &window->units[ring.next_unit - window->first],
									window->end - ring.next_unit)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (ring.busy > 0 || !read_straight(job, request))
		{
			sfi_ring_start(&ring, job, false);
			continue;
		}
		sfi_read_deliver_holes(job, unit_no, request->first_unit);
		unit_no = SfReadRequestEnd(request);
		sfi_read_drop_request(request);
	}
	SF_ASSERT(unit_no <= ring.next_unit && ring.next_unit <= window->end);
	return unit_no;
}

/*
 * Read a window of units with as many requests in flight as are allowed.  A check goes
 * on behind a unit that cannot be read: its listener was told.  Such a unit ends the
 * planning, so it is reached when all requests before it were taken and the ring is empty.
 */
static void
read_window(SfReadJob *job, const SfReadListener *listener, const Window *window)
{
	uint64		unit_no = window->first;

	prepare_ring(unit_no);
	while ((unit_no = fill_window_ring(job, window, unit_no)) < window->end)
	{
		if (sfi_ring_wait(&ring, job, listener, unit_no))
			unit_no = sfi_ring_take(&ring, job, listener, unit_no, window->end);
		else
		{
			if (ring.busy == 0)
				sfi_read_report_beyond_end(job, listener, &window->units[unit_no - window->first]);
			unit_no = sfi_ring_skip(&ring);
		}
	}
}

void
sfi_read_units(SfReadJob *job, const SfReadListener *listener, uint64 first_unit)
{
	uint64		end = SfReadTargetEnd(job->target);
	SfUnit	   *units = palloc(Min(end - first_unit, UNITS_AT_ONCE) * sizeof(SfUnit));
	Window		window = {units, first_unit, first_unit};

	SF_ASSERT(first_unit >= SfReadTargetFirst(job->target) && first_unit <= end);
	SF_ASSERT((listener != NULL) == (job->target->dst == NULL));
	for (;; window.first = window.end)
	{
		/* a check wants no zeros, and a sparse value may have many */
		if (job->target->dst == NULL)
			window.first = sf_object_next_stored(job->seg, job->loc, window.first);
		if (window.first >= end)
			break;
		window.end = Min(end, window.first + UNITS_AT_ONCE);
		sfi_read_look_up(job, window.first, window.end - window.first, units);
		read_window(job, listener, &window);
	}
	pfree(units);
}

/* ---- jobs ---- */

/* The time is that of reading inode pages: the map of a flat value is in its row. */
void
sfi_read_look_up(SfReadJob *job, uint64 first, uint32 n, SfUnit *units)
{
	uint64		start_us;

	SF_ASSERT(n > 0);
	if (job->target->edit != NULL)
	{
		sf_object_edit_units(job->target->edit, job->unit_space_bytes, first, n, units);
		return;
	}
	if (!(job->loc->flags & SF_LOC_INODE))
	{
		sf_object_units(job->seg, job->loc, first, n, units);
		return;
	}
	start_us = sf_base_now_us();
	sf_object_units(job->seg, job->loc, first, n, units);
	job->stats->inode_read_time_us += sf_base_now_us() - start_us;
}

void
sfi_read_prepare_job(SfReadJob *job, SfSegment *seg, const SfLocator *loc, SfReadTarget *target,
					 const SfReadListener *listener)
{
	SF_ASSERT(loc->incarnation == seg->incarnation);
	job->seg = seg;
	job->loc = loc;
	job->target = target;
	job->unit_space_bytes = loc->unit_space_bytes;
	job->cache = sf_space_column(seg)->options.cache;
	job->buffered = job->cache == SF_CACHE_READS || job->cache == SF_CACHE_FULL;
	job->files = sf_io_open(seg->storage, job->buffered);
	job->seed = sf_format_seed(loc->incarnation, loc->object_id);
	job->total_sectors = sfi_read_known_end(seg, 0);
	/* rounded down: a sector that a crash has torn cannot be read */
	if (listener != NULL)
		job->total_sectors = Max(job->total_sectors,
								 sf_io_files_size(seg->storage) / SF_SECTOR_SIZE);
	job->decrypts = listener == NULL || sf_keys_can_decrypt(seg, loc->key_id);
	job->stats = sf_stats_local(seg->table_oid, seg->attnum);
}

void
sfi_read_past_cache(SfReadJob *job)
{
	job->buffered = false;
	job->files = sf_io_open(job->seg->storage, false);
}
