/*-------------------------------------------------------------------------
 *
 * release.c
 *	  Free runs go back to the file system where they lie, as holes of the data files.
 *
 * A wrong free bit would become a loss here: the bytes of a value that the map calls free are
 * there until somebody is lent them, and a repair finds them.  After a punch they are gone.  So
 * nothing is released that is not proved free: no row, no share record and no pending entry
 * names it.  A walk over all rows can tell (check/shrink.c), under locks that keep writers out.
 *
 *	 1	the walk; under the same locks the runs are claimed: lent to this process (claim)
 *	 2	the locks go, but one that keeps out a repair, which makes map pages anew, and all that
 *		replaces the storage
 *	 3	a checkpoint: from its redo point on no WAL writes to what is claimed.  Else the
 *		replay after a crash would need room for it, and on a full disk the server would
 *		not start
 *	 4	record RELEASE, durable; the punch; the run is given back (all)
 *
 * What is claimed nobody else can lend, so what was free in 1 is free in 4.
 *
 * The monitor has no time for the walk.  It takes what this start of the server has seen becoming
 * free, and nobody has been lent since (proved.c), as soon as a checkpoint has come by itself: WAL
 * that writes there is older than the freeing.
 *
 * A crash anywhere leaves free space free; what is claimed is free again at the next start.  The
 * record says nothing of the space map.  It tells standbys where holes are.
 *
 * A run of a file with holes has its room promised before it is lent (lend.c).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "config/config.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/record.h"
#include "space/release.h"
#include "space/reserve.h"
#include "storage/lmgr.h"
#include "utils/wait_event.h"

#define MOST_PUNCHES		10	/* in a row: writers of the file wait for them */
#define LEAST_BLOCKS		64	/* 256 KB: shorter holes cost more than they
								 * give */
#define LEAST_PROVED_BLOCKS	32	/* 128 KB: the ends of a value lie in blocks
								 * that nobody knows all of */
#define LEAST_DUE_BYTES		(64 * UINT64CONST(1024) * 1024)
#define LITTLE_BYTES		(UINT64CONST(1024) * 1024)	/* in tests */
#define PUNCH_US			(1000000 / SF_RELEASE_PUNCHES)
#define KEPT_SECTORS		(64 * SF_MB_SECTORS)	/* stay free and promised,
													 * at most */

static uint32 wait_event = 0;

static uint64
offset_of(SfRegion run)
{
	SF_ASSERT(run.nblocks > 0 && run.nblocks <= SF_MAP_BLOCKS);
	return run.start_block * SF_BLOCK_SIZE;
}

static uint64
length_of(SfRegion run)
{
	return (uint64) run.nblocks * SF_BLOCK_SIZE;
}

/* ---- claims ---- */

/* Have room for the runs of one more map page. */
static void
make_room(SfRelease *release, uint32 least_blocks)
{
	SF_ASSERT(least_blocks > 0 && release->next == 0);
	while (release->n + SF_MAP_BLOCKS / least_blocks > release->size)
		release->runs = sf_base_array_grow(release->runs, release->size, &release->size,
										   sizeof(SfRegion), CurrentMemoryContext);
}

/* Note a free run of a map page, or as much of it as may be claimed still. */
static void
take_run(SfRelease *release, uint32 map, uint32 first, uint32 count)
{
	count = Min(count, release->budget_blocks);
	SF_ASSERT(release->n < release->size && count > 0);
	release->runs[release->n++] = (SfRegion) {sf_map_first_block(map) + first, count};
	release->budget_blocks -= count;
}

/* Note the free runs of a map page that are long enough. */
static void
take_runs(SfRelease *release, uint32 map, uint32 limit, const SfMap *content)
{
	uint32		from = 0;
	uint32		first;
	uint32		count;

	SF_ASSERT(limit <= SF_MAP_BLOCKS && release->next == 0);
	while (release->budget_blocks > 0 &&
		   sfi_map_next_free(content, limit, &from, &first, &count))
	{
		if (count >= LEAST_BLOCKS)
			take_run(release, map, first, count);
	}
}

/* Lend to this process what was noted from there on, all on one map page, locked exclusively. */
static void
lend_runs(SfRelease *release, int64 from, SfStorage storage, uint32 map, SfMap *content)
{
	SF_ASSERT(from <= release->n);
	for (int64 i = from; i < release->n; i++)
	{
		SfRegion	run = release->runs[i];
		uint32		first = run.start_block - sf_map_first_block(map);

		sfi_map_lend(content, first, run.nblocks);
		sfi_proved_forget(storage, map, first, run.nblocks);
		release->claimed_blocks += run.nblocks;
		release->claimed_punches += sf_io_punches(offset_of(run), length_of(run));
	}
}

/* Blocks that may be released: what is free but for some. */
static uint64
budget(Relation rel, uint64 total_sectors)
{
	uint64		keep = Min(total_sectors / 8, KEPT_SECTORS);
	uint64		unused;

	SF_ASSERT(total_sectors % SF_BLOCK_SECTORS == 0);
	unused = total_sectors - sfi_used_sectors(rel, total_sectors);
	return unused > keep ? sf_block_of(unused - keep) : 0;
}

/* From the end on: what is free in front is lent first, and so it stays on disk. */
void
sf_space_release_claim(SfSegment *seg, Relation rel, SfRelease *release)
{
	uint64		total = sfi_header(rel).total_sectors;

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareLock, true));
	release->budget_blocks = budget(rel, total);
	for (uint32 map = sf_maps_of(total); map-- > 0 && release->budget_blocks > 0;)
	{
		uint32		limit = sf_block_of(sf_map_sectors_before(total, map));
		int64		n = release->n;
		Buffer		buf;

		CHECK_FOR_INTERRUPTS();
		make_room(release, LEAST_BLOCKS);
		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);
		take_runs(release, map, limit, SfPageMap(BufferGetPage(buf)));
		lend_runs(release, n, seg->storage, map, SfPageMap(BufferGetPage(buf)));
		sfi_map_dirty_lent(buf, seg->storage);
		UnlockReleaseBuffer(buf);
	}
	release->claimed_lsn = GetXLogInsertRecPtr();
}

/* ---- claims of the monitor ---- */

/*
 * Where recovery would begin: the redo point of the last checkpoint that is complete.  The one that
 * GetRedoRecPtr() tells may belong to a checkpoint that is running.
 */
static XLogRecPtr
redo_point(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	XLogRecPtr	redo = crc_ok ? control->checkPointCopy.redo : InvalidXLogRecPtr;

	pfree(control);
	return redo;
}

/* Free blocks that take room, and may be released; 0 where they are too few for the monitor. */
static uint64
budget_due(SfSegment *seg, Relation rel, uint64 total_sectors)
{
	uint64		least = SF_FAULT_SKIPS(release_little) ? LITTLE_BYTES : LEAST_DUE_BYTES;
	uint64		keep = sf_sectors_to_bytes(Min(total_sectors / 8, KEPT_SECTORS));
	uint64		taken;
	uint64		used;

	if (sf_release_threshold == 0 ||
		sfi_proved_blocks(seg->storage) * SF_BLOCK_SIZE < least)
		return 0;
	SF_ASSERT(total_sectors > 0 && least >= LITTLE_BYTES);
	taken = sf_io_files_disk_bytes(seg->storage);
	used = sf_sectors_to_bytes(sfi_used_sectors(rel, total_sectors));
	if (taken < used + keep + least ||
		(taken - used) / sf_release_threshold < sf_sectors_to_bytes(total_sectors) / 100)
		return 0;
	return (taken - used - keep) / SF_BLOCK_SIZE;
}

/* The first run of blocks from *from on that are known to be free, before end. */
static bool
next_proved(const uint8 *blocks, uint32 end, uint32 *from, uint32 *first, uint32 *count)
{
	uint32		b = *from;

	SF_ASSERT(b <= end && end <= SF_MAP_BLOCKS);
	while (b < end && (blocks[b / 8] & (1 << (b % 8))) == 0)
		b++;
	*first = b;
	while (b < end && (blocks[b / 8] & (1 << (b % 8))) != 0)
		b++;
	*count = b - *first;
	*from = b;
	return *count > 0;
}

/* Of the free runs of a map page add what is known to be free.  False when this is enough. */
static bool
claim_proved_runs(SfRelease *release, SfStorage storage, uint32 map, uint32 limit, SfMap *content,
				  const uint8 *blocks)
{
	uint32		from = 0;
	uint32		first;
	uint32		count;

	while (sfi_map_next_free(content, limit, &from, &first, &count))
	{
		uint32		at = first;
		uint32		end = first + count;

		while (next_proved(blocks, end, &at, &first, &count))
		{
			if (count < LEAST_PROVED_BLOCKS)
				continue;
			if (release->budget_blocks == 0 || release->claimed_punches >= SF_RELEASE_PUNCHES)
				return false;
			take_run(release, map, first, count);
			lend_runs(release, release->n - 1, storage, map, content);
		}
	}
	return true;
}

/* Look at one map page.  *more: what is known there cannot be released yet, or not now. */
static void
claim_proved_page(SfRelease *release, Relation rel, uint32 map, uint32 limit, XLogRecPtr redo,
				  bool *more)
{
	SfStorage	storage = SfRelStorage(rel);
	uint8		blocks[SF_MAP_BLOCKS / 8];
	Buffer		buf;
	SfMap	   *content;

	make_room(release, LEAST_PROVED_BLOCKS);
	buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);
	content = SfPageMap(BufferGetPage(buf));
	if (!sfi_proved_get(storage, map, blocks))
		memset(blocks, 0, sizeof(blocks));
	if (SF_BREAKS(unproved))
		memset(blocks, 0xff, sizeof(blocks));
	if (content->cleared_lsn > redo && !SF_BREAKS(unwritten))
		*more = true;
	else
	{
		release->claimed_lsn = Max(release->claimed_lsn, content->cleared_lsn);
		if (!claim_proved_runs(release, storage, map, limit, content, blocks))
			*more = release->budget_blocks > 0;
		sfi_map_dirty_lent(buf, storage);
	}
	UnlockReleaseBuffer(buf);
}

/* Its file system cannot do it: said once, and not tried again before the server starts again. */
static void
refuse_storage(Relation rel, SfRelease *release)
{
	SF_ASSERT(release->next == 0 && release->n > 0);
	sf_space_release_end(rel, release);
	sfi_proved_refuse(SfRelStorage(rel));
	ereport(LOG,
			(errmsg("free space of segment \"%s\" is not released", RelationGetRelationName(rel)),
			 errdetail("Its file system cannot take room back from a file, or does not tell or promise it.")));
}

bool
sf_space_release_claim_proved(SfSegment *seg, Relation rel, SfRelease *release)
{
	uint64		total = sfi_header(rel).total_sectors;
	XLogRecPtr	redo;
	bool		more = false;
	uint8		blocks[SF_MAP_BLOCKS / 8];

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	release->budget_blocks = budget_due(seg, rel, total);
	if (release->budget_blocks == 0)
		return false;
	redo = redo_point();
	for (uint32 map = sf_maps_of(total);
		 map-- > 0 && release->budget_blocks > 0 && release->claimed_punches < SF_RELEASE_PUNCHES;)
	{
		CHECK_FOR_INTERRUPTS();
		if (sfi_proved_get(seg->storage, map, blocks))
			claim_proved_page(release, rel, map, sf_block_of(sf_map_sectors_before(total, map)),
							  redo, &more);
	}
	if (release->n > 0 &&
		!sf_io_has_promises(seg->storage, offset_of(release->runs[0]), SF_BLOCK_SIZE))
	{
		refuse_storage(rel, release);
		return false;
	}
	return more || release->claimed_punches >= SF_RELEASE_PUNCHES;
}

void
sf_space_release_end(Relation rel, SfRelease *release)
{
	SF_ASSERT(release->next <= release->n);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	while (release->next < release->n)
	{
		SfRegion	run = release->runs[release->next++];

		sfi_take_back_blocks(rel, run.start_block, run.start_block + run.nblocks);
	}
	sfi_dispense_note_returned(SfRelStorage(rel));
}

/* ---- the release itself ---- */

/* Tell standbys, and make that durable: one that starts again must not punch what is newer. */
static void
log_runs(SfSegment *seg, const SfRegion *runs, int n)
{
	xl_sf_release rec = {SF_WAL_VERSION, seg->storage, n};
	xl_sf_hole	holes[SF_RELEASE_RUNS];
	XLogRecPtr	lsn;

	SF_ASSERT(n > 0 && n <= SF_RELEASE_RUNS);
	for (int i = 0; i < n; i++)
		holes[i] = (xl_sf_hole) {sf_blocks_to_sectors(runs[i].start_block),
										sf_blocks_to_sectors((uint64) runs[i].nblocks)};
	SF_FAULT(release_before);
	XLogBeginInsert();
	XLogRegisterData((char *) &rec, sizeof(rec));
	XLogRegisterData((char *) holes, n * sizeof(xl_sf_hole));
	lsn = XLogInsert(SF_RMGR_ID, XLOG_SF_RELEASE);
	XLogFlush(lsn);
	SF_INVARIANT(rule_2, !XLogNeedsFlush(lsn));
	SF_FAULT(release_after_record);
}

/*
 * Give back what has no room already, at the front of the rest; how many of the next runs have
 * some, and are punched in a row.
 */
static int
next_runs(SfSegment *seg, Relation rel, SfRelease *release)
{
	uint32		punches = 0;
	int			n = 0;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	while (release->next + n < release->n && n < SF_RELEASE_RUNS)
	{
		SfRegion	run = release->runs[release->next + n];

		punches += sf_io_punches(offset_of(run), length_of(run));
		if (n > 0 && punches > MOST_PUNCHES)
			break;
		if (sf_io_has_room(seg->storage, offset_of(run), length_of(run)))
			n++;
		else if (n > 0)
			break;
		else
		{
			sfi_take_back_blocks(rel, run.start_block, run.start_block + run.nblocks);
			release->next++;
			punches = 0;
		}
	}
	return n;
}

/* Release some runs; false: there are none left. */
static bool
release_some(SfSegment *seg, Relation rel, SfRelease *release)
{
	int			n = next_runs(seg, rel, release);

	if (GetRedoRecPtr() < release->claimed_lsn && !SF_BREAKS(unwritten))
		elog(ERROR, "no checkpoint since space was claimed");
	if (n == 0)
		return false;
	sf_io_require_promises(seg->storage, offset_of(release->runs[release->next]), SF_BLOCK_SIZE);
	log_runs(seg, release->runs + release->next, n);
	for (int i = 0; i < n; i++)
	{
		SfRegion	run = release->runs[release->next];

		sf_io_punch(seg->storage, offset_of(run), length_of(run));
		SF_FAULT(release_after_punch);
		sfi_take_back_blocks(rel, run.start_block, run.start_block + run.nblocks);
		release->next++;
		release->released_blocks += run.nblocks;
		release->punches += sf_io_punches(offset_of(run), length_of(run));
	}
	return release->next < release->n;
}

/* ---- estimate ---- */

/* Note what a claim would take from a map page (an SfMapVisit). */
static bool
note_claimable(const SfMap *content, uint32 map, uint32 limit, void *arg)
{
	SfRelease  *release = arg;

	make_room(release, LEAST_BLOCKS);
	take_runs(release, map, limit, content);
	return release->budget_blocks > 0;
}

/* The file system is asked when no page is locked any more. */
uint64
sf_space_releasable_bytes(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	uint64		total = sfi_header(rel).total_sectors;
	SfRelease	release = {.budget_blocks = budget(rel, total)};
	uint64		sum = 0;

	sfi_visit_maps(rel, total, true, note_claimable, &release);
	for (int64 i = 0; i < release.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		sum += sf_io_room_bytes(seg->storage, offset_of(release.runs[i]),
								length_of(release.runs[i]));
	}
	if (release.runs != NULL)
		pfree(release.runs);
	sfi_segment_close(rel);
	return sum;
}

/* ---- pace ---- */

/* When is the next step due, after one that began then? */
static uint64
next_due_us(const SfRelease *before, const SfRelease *now, uint64 most_bytes, uint64 began_us)
{
	uint64		bytes = (now->released_blocks - before->released_blocks) * SF_BLOCK_SIZE;
	uint64		us = (now->punches - before->punches) * PUNCH_US;

	SF_ASSERT(now->punches >= before->punches && now->next >= before->next);
	if (most_bytes > 0)
		us = Max(us, (uint64) ((double) bytes / most_bytes * 1000000));
	return began_us + us;
}

/* Sleep until then; false as soon as somebody waits for the segment relation. */
static bool
pause_until(Relation rel, LOCKMODE held, uint64 due_us)
{
	SF_ASSERT(CheckRelationLockedByMe(rel, held, false));
	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileRelease");
	while (!LockHasWaitersRelation(rel, held))
		if (!sf_base_sleep(due_us, wait_event))
			return true;
	return false;
}

bool
sf_space_release_all(SfSegment *seg, Relation rel, SfRelease *release, const SfReleasePace *pace)
{
	for (;;)
	{
		const SfRelease before = *release;
		uint64		began_us = sf_base_now_us();
		bool		more = release_some(seg, rel, release);

		if (pace->show != NULL)
			pace->show(pace->arg);
		if (!more)
			return true;
		if (!pause_until(rel, pace->held,
						 next_due_us(&before, release, pace->most_bytes, began_us)))
			return false;
	}
}
