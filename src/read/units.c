/*-------------------------------------------------------------------------
 *
 * units.c
 *	  Reading a range of units: what lies side by side becomes one request,
 *	  several requests are in flight, every unit is checked, and goes with one
 *	  copy to where it is wanted.
 *
 * The buffers are kept and aligned; a result's memory never is, since a
 * varlena's data starts behind a 4-byte header.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "config/config.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "read/read_internal.h"
#include "stats/stats.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

#define UNITS_AT_ONCE		512
#define CHUNK_SECTORS		(1024 * 1024 / SF_SECTOR_SIZE)
#define SLOT_BYTES			(1024 * 1024 + 2 * SF_BLOCK_SIZE)
#define MAX_SLOTS			16

/* Consecutive units that lie side by side: one request. */
typedef struct Chunk
{
	SfIo		io;
	char	   *buf;
	char	   *data;			/* first byte of the first unit, in buf */
	uint64		first_unit;		/* of the object */
	uint32		nunits;
	const SfUnit *units;
	uint32		nsectors;
	uint32		overlaid;		/* sectors that come from gather buffers */
	bool		started;
} Chunk;

/* One call of sf_read_units(). */
typedef struct ReadJob
{
	SfSegment  *seg;
	const SfLocator *loc;
	SfReadTarget *target;
	SfFiles    *files;
	bool		buffered;
	uint64		seed;
	uint64		total_sectors;
	SfStatCounters *stats;
} ReadJob;

static Chunk slots[MAX_SLOTS];
static int	nslots;
static SfReadOverlay overlay;

void
sf_read_set_overlay(SfReadOverlay fn)
{
	overlay = fn;
}

/* Depth of the queue; the memory for it is made on first use. */
static int
prepare_slots(void)
{
	int			want = Min(sf_io_concurrency, MAX_SLOTS);

	if (nslots < want)
	{
		char	   *mem = sf_io_buffer_alloc((Size) (want - nslots) * SLOT_BYTES);

		for (; nslots < want; nslots++, mem += SLOT_BYTES)
			slots[nslots].buf = mem;
	}
	/* an ERROR may have left some in flight in this transaction */
	for (int i = 0; i < nslots; i++)
		if (slots[i].io.in_flight)
			sf_io_reap_all();
	return want;
}

/* Does any part of a run come from gather buffers? */
static bool
in_gather_buffers(ReadJob *job, SfRun run)
{
	return overlay(job->seg->node, run.start, run.nsectors, NULL) > 0;
}

/* ---- damage ---- */

/*
 * Is what is wrong with a unit that its data stayed on another server?  Then
 * that is reported.
 */
static bool
report_left_behind(ReadJob *job, const SfUnit *unit)
{
	const char *detail = "The column is filesystem_like_logging, and the value was stored before this"
	" server was restored from a backup or became a standby.";

	if (!sf_space_left_behind(job->seg, job->loc->object_id))
		return false;
	if (job->target->found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("data of a securefile value is not on this server"),
				 errdetail_internal("%s", detail),
				 errhint("Store the value again, or delete its row; securefile_check() lists such values.")));
	job->target->found("data left behind", unit->start * SF_SECTOR_SIZE, unit->stored_bytes,
					   detail, job->target->arg);
	return true;
}

/*
 * A unit does not match.  Free space in its place means that the value
 * outlived its row and the space has been given back since.
 */
static void
report_mismatch(ReadJob *job, uint64 unit_no, const SfUnit *unit, uint64 found)
{
	SfRun		run = {unit->start, SF_BYTES_TO_SECTORS(unit->stored_bytes)};
	char	   *detail = psprintf("Unit " UINT64_FORMAT " at segment offset " UINT64_FORMAT
								  ": expected checksum " SF_HEX64_FORMAT ", found " SF_HEX64_FORMAT ".",
								  unit_no, unit->start * SF_SECTOR_SIZE, unit->checksum, found);

	if (job->target->found != NULL && report_left_behind(job, unit))
		return;
	if (job->target->found != NULL)
	{
		job->target->found("checksum mismatch", unit->start * SF_SECTOR_SIZE,
						   unit->stored_bytes, detail, job->target->arg);
		return;
	}
	sf_base_check_decoded();
	if (!sf_space_is_used(job->seg, run))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("securefile value no longer exists"),
				 errdetail("Its row is gone and its space has been given back."),
				 errhint("Read the row again.")));
	(void) report_left_behind(job, unit);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("securefile value is damaged, or outlived its row"),
			 errdetail_internal("%s", detail),
			 errhint("Read the row again; if that fails, run securefile_check() on the column.")));
}

/* A unit lies where no data file is. */
static void
report_beyond_end(ReadJob *job, const SfUnit *unit)
{
	sf_base_check_decoded();
	if (report_left_behind(job, unit))
		return;
	if (job->target->found != NULL)
	{
		job->target->found("unreadable", unit->start * SF_SECTOR_SIZE, unit->stored_bytes,
						   "The unit lies beyond the end of the segment.", job->target->arg);
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("securefile value no longer exists"),
			 errdetail("Its place lies beyond the end of its segment now."),
			 errhint("Read the row again; if that fails, run securefile_check() on the column.")));
}

/* ---- requests ---- */

/* Make a request for the block-aligned surroundings of a chunk. */
static void
start_chunk(ReadJob *job, Chunk *chunk)
{
	uint64		first = chunk->units[0].start / SF_BLOCK_SECTORS * SF_BLOCK_SECTORS;
	uint64		end = chunk->units[0].start + chunk->nsectors;
	uint32		nblocks = (end - first + SF_BLOCK_SECTORS - 1) / SF_BLOCK_SECTORS;

	chunk->data = chunk->buf + (chunk->units[0].start - first) * SF_SECTOR_SIZE;
	chunk->started = false;
	chunk->overlaid = overlay(job->seg->node, chunk->units[0].start, chunk->nsectors, chunk->data);
	if (chunk->overlaid == chunk->nsectors)
		return;
	chunk->io.files = job->files;
	chunk->io.segment_offset = first * SF_SECTOR_SIZE;
	chunk->io.buf = chunk->buf;
	chunk->io.len_bytes = nblocks * SF_BLOCK_SIZE;
	chunk->io.is_write = chunk->io.durable = false;
	sf_io_start(&chunk->io);
	chunk->started = true;
	job->stats->direct_read_ops++;
	job->stats->direct_read_bytes += chunk->io.len_bytes;
}

/* For tests: what a page cache that is behind the disk gives. */
static void
spoil_cached(ReadJob *job, Chunk *chunk)
{
	if (job->buffered && SF_FAULT_IO(read_stale) != SF_FAULT_NONE)
		chunk->data[0] ^= 1;
}

/* Wait for a request; in a check, an error is a finding.  False: no data. */
static bool
wait_chunk(ReadJob *job, Chunk *chunk)
{
	volatile bool ok = true;

	if (!chunk->started)
		return true;
	if (job->target->found == NULL)
		sf_io_wait(&chunk->io);
	else
	{
		MemoryContext context = CurrentMemoryContext;

		PG_TRY();
		{
			sf_io_wait(&chunk->io);
		}
		PG_CATCH();
		{
			ErrorData  *error;

			MemoryContextSwitchTo(context);
			error = CopyErrorData();
			FlushErrorState();
			job->target->found("unreadable", chunk->units[0].start * SF_SECTOR_SIZE,
							   (int64) chunk->nsectors * SF_SECTOR_SIZE, error->message,
							   job->target->arg);
			ok = false;
		}
		PG_END_TRY();
	}
	job->stats->ioreap_time_us += sf_io_take_counts().reap_us;
	spoil_cached(job, chunk);
	if (ok && chunk->overlaid > 0)
		overlay(job->seg->node, chunk->units[0].start, chunk->nsectors, chunk->data);
	return ok;
}

/*
 * The page cache can be behind a direct write; the disk is the truth.  Reads
 * the chunk again directly, into the same buffer.
 */
static void
reread_directly(ReadJob *job, Chunk *chunk)
{
	chunk->io.files = sf_io_open(job->seg->node, false);
	sf_io_start(&chunk->io);
	sf_io_wait(&chunk->io);
	if (chunk->overlaid > 0)
		overlay(job->seg->node, chunk->units[0].start, chunk->nsectors, chunk->data);
}

/*
 * Is a chunk wanted whole, and in the page cache's hands?  Then it is read
 * straight into the result.
 */
static bool
goes_straight(ReadJob *job, Chunk *chunk)
{
	SfReadTarget *target = job->target;
	uint64		start = chunk->first_unit * SF_UNIT_SIZE;
	const SfUnit *last = &chunk->units[chunk->nunits - 1];
	uint64		len = (uint64) (chunk->nunits - 1) * SF_UNIT_SIZE + last->stored_bytes;

	if (!job->buffered || target->dst == NULL || start < target->offset ||
		start + len > target->offset + target->len)
		return false;
	chunk->data = target->dst + (start - target->offset);
	chunk->io.len_bytes = len;
	return true;
}

/*
 * Read a chunk into the result and check it there.  False when something does
 * not match or is still in gather buffers: then it goes the usual way.
 */
static bool
read_straight(ReadJob *job, Chunk *chunk)
{
	const char *bytes;

	if (!goes_straight(job, chunk) || in_gather_buffers(job, (SfRun) {chunk->units[0].start, chunk->nsectors}))
		return false;
	chunk->io.files = job->files;
	chunk->io.segment_offset = chunk->units[0].start * SF_SECTOR_SIZE;
	chunk->io.buf = chunk->data;
	chunk->io.is_write = chunk->io.durable = false;
	sf_io_read_cached(&chunk->io);
	spoil_cached(job, chunk);
	job->stats->direct_read_ops++;
	job->stats->direct_read_bytes += chunk->io.len_bytes;
	bytes = chunk->data;
	for (uint32 i = 0; i < chunk->nunits; i++, bytes += SF_UNIT_SIZE)
		if (sf_format_checksum(bytes, chunk->units[i].stored_bytes, job->seed) !=
			chunk->units[i].checksum)
			return false;
	return true;
}

/*
 * Logical decoding may stream a transaction that is still running, whose values
 * lie in the gather buffers of another process.  Wait for them to be written,
 * or for its end; false when the data on disk is what there is.
 */
static bool
wait_for_writer(bool *ended)
{
	if (!TransactionIdIsValid(CheckXidAlive) || *ended)
		return false;
	if (TransactionIdIsInProgress(CheckXidAlive))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
		return true;
	}
	*ended = true;
	return true;
}

/* Copy what the target wants of a unit. */
static void
deliver(ReadJob *job, uint64 unit_no, const char *bytes, uint32 len)
{
	SfReadTarget *target = job->target;
	uint64		start = unit_no * SF_UNIT_SIZE;
	uint64		from = Max(start, target->offset);
	uint64		to = Min(start + len, target->offset + target->len);

	if (target->dst == NULL || from >= to)
		return;
	if (bytes == NULL)
		memset(target->dst + (from - target->offset), 0, to - from);
	else
		memcpy(target->dst + (from - target->offset), bytes + (from - start), to - from);
}

/* Check and deliver the units of a chunk that has arrived. */
static void
take_chunk(ReadJob *job, Chunk *chunk)
{
	const char *bytes = chunk->data;
	bool		reread = !job->buffered || !chunk->started;
	bool		ended = false;

	for (uint32 i = 0; i < chunk->nunits; i++)
	{
		const SfUnit *unit = &chunk->units[i];
		uint64		found = sf_format_checksum(bytes, unit->stored_bytes, job->seed);

		if (found != unit->checksum && !reread)
		{
			reread_directly(job, chunk);
			reread = true;
			found = sf_format_checksum(bytes, unit->stored_bytes, job->seed);
		}
		while (found != unit->checksum && wait_for_writer(&ended))
		{
			reread_directly(job, chunk);
			found = sf_format_checksum(bytes, unit->stored_bytes, job->seed);
		}
		if (found == unit->checksum)
			deliver(job, chunk->first_unit + i, bytes, unit->stored_bytes);
		else
			report_mismatch(job, chunk->first_unit + i, unit, found);
		bytes += SF_BYTES_TO_SECTORS(unit->stored_bytes) * SF_SECTOR_SIZE;
	}
}

/* ---- planning ---- */

static uint64
unit_end(const SfUnit *unit)
{
	return unit->start + SF_BYTES_TO_SECTORS(unit->stored_bytes);
}

/* Can a unit be read at all?  If not, it has been dealt with. */
static bool
is_readable(ReadJob *job, uint64 unit_no, const SfUnit *unit)
{
	if (unit->start == SF_HOLE)
	{
		deliver(job, unit_no, NULL, SF_UNIT_SIZE);
		return false;
	}
	if (unit->stored_bytes == 0 || unit_end(unit) > job->total_sectors)
	{
		report_beyond_end(job, unit);
		return false;
	}
	return true;
}

/*
 * Take the next chunk off the list of units [*next, n); false when there is
 * none any more.
 */
static bool
next_chunk(ReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n, uint32 *next,
		   Chunk *chunk)
{
	uint32		i = *next;

	while (i < n && !is_readable(job, first_unit + i, &units[i]))
		i++;
	if (i == n)
	{
		*next = n;
		return false;
	}
	chunk->units = &units[i];
	chunk->first_unit = first_unit + i;
	chunk->nunits = 1;
	for (i++; i < n; i++, chunk->nunits++)
	{
		if (units[i].start != unit_end(&units[i - 1]) ||
			units[i].start / SF_FILE_SECTORS != chunk->units[0].start / SF_FILE_SECTORS ||
			unit_end(&units[i]) - chunk->units[0].start > CHUNK_SECTORS ||
			unit_end(&units[i]) > job->total_sectors || units[i].stored_bytes == 0)
			break;
	}
	chunk->nsectors = unit_end(&units[i - 1]) - chunk->units[0].start;
	*next = i;
	return true;
}

/* Read a window of units with as many requests in flight as are allowed. */
static void
read_window(ReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n)
{
	int			depth = prepare_slots();
	uint32		next = 0;
	int			oldest = 0;
	int			busy = 0;

	for (;;)
	{
		while (busy < depth)
		{
			Chunk	   *chunk = &slots[(oldest + busy) % depth];

			CHECK_FOR_INTERRUPTS();

			if (!next_chunk(job, units, first_unit, n, &next, chunk))
				break;
			if (busy == 0 && read_straight(job, chunk))
				continue;
			start_chunk(job, chunk);
			busy++;
		}
		if (busy == 0)
			break;
		if (wait_chunk(job, &slots[oldest]))
			take_chunk(job, &slots[oldest]);
		oldest = (oldest + 1) % depth;
		busy--;
	}
}

/* Look up units, and the time that takes. */
static void
look_up(ReadJob *job, uint64 first, uint32 n, SfUnit *units)
{
	instr_time	start;
	instr_time	end;

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
sf_read_units(SfSegment *seg, const SfLocator *loc, SfReadTarget *target)
{
	SfCacheMode cache = sf_space_cache_mode(seg->table_oid, seg->attnum);
	ReadJob		job = {.seg = seg,.loc = loc,.target = target};
	uint64		first = target->offset / SF_UNIT_SIZE;
	uint64		end = (target->offset + target->len - 1) / SF_UNIT_SIZE + 1;
	SfUnit	   *units = palloc(Min(end - first, UNITS_AT_ONCE) * sizeof(SfUnit));

	job.buffered = cache == SF_CACHE_READS || cache == SF_CACHE_FULL;
	job.files = sf_io_open(seg->node, job.buffered);
	job.seed = sf_format_seed(loc->incarnation, loc->object_id);
	job.total_sectors = sf_space_total_sectors(seg);
	job.stats = sf_stats_local(seg->table_oid, seg->attnum);
	for (; first < end; first += UNITS_AT_ONCE)
	{
		uint32		n = Min(end - first, UNITS_AT_ONCE);

		look_up(&job, first, n, units);
		read_window(&job, units, first, n);
	}
	pfree(units);
}
