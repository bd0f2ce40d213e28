/*-------------------------------------------------------------------------
 *
 * release.c
 *	  Free runs go back to the file system where they lie, as holes of the data files.
 *
 * A wrong free bit would become a loss here: the bytes of a value that the map calls free are
 * there until somebody is lent them, and a repair finds them.  After a punch they are gone.  So
 * nothing is released that is not proved free: no row, no share record and no pending entry
 * names it.  Only a walk over all rows can tell (check/shrink.c), under locks that keep
 * writers out.
 *
 *	 1	the walk; under the same locks the runs are claimed: lent to this process (claim)
 *	 2	the locks go, but one that keeps out a repair, which makes map pages anew, and all that
 *		replaces the storage
 *	 3	a checkpoint: from its redo point on no WAL writes to what is claimed.  Else the
 *		replay after a crash would need room for it, and on a full disk the server would
 *		not start
 *	 4	record RELEASE, durable; the punch; the run is given back (some)
 *
 * What is claimed nobody else can lend, so what was free in 1 is free in 4.
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
#include "miscadmin.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/record.h"
#include "space/release.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

#define MOST_PUNCHES		10	/* in a row: writers of the file wait for them */
#define LEAST_BLOCKS		64	/* 256 KB: shorter holes cost more than they
								 * give */
#define KEPT_SECTORS		(64 * SF_MB_SECTORS)	/* stay free and promised,
													 * at most */

/* ---- claims ---- */

/* Add the free runs of a map page, which is locked exclusively, and lend them to this process. */
static void
claim_runs(SfRelease *release, uint32 map, uint32 limit, SfMap *content)
{
	uint32		from = 0;
	uint32		first;
	uint32		count;

	SF_ASSERT(limit <= SF_MAP_BLOCKS && release->next == 0);
	while (release->budget_blocks > 0 &&
		   sfi_map_next_free(content, limit, &from, &first, &count))
	{
		if (count < LEAST_BLOCKS)
			continue;
		count = Min(count, release->budget_blocks);
		SF_ASSERT(release->n < release->size);
		sfi_map_lend(content, first, count);
		release->runs[release->n++] = (SfRegion) {sf_map_first_block(map) + first, count};
		release->budget_blocks -= count;
		release->claimed_blocks += count;
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
		Buffer		buf;

		CHECK_FOR_INTERRUPTS();
		while (release->n + SF_MAP_BLOCKS / LEAST_BLOCKS > release->size)
			release->runs = sf_base_array_grow(release->runs, release->size, &release->size,
											   sizeof(SfRegion), CurrentMemoryContext);
		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);
		claim_runs(release, map, limit, SfPageMap(BufferGetPage(buf)));
		sfi_map_dirty_lent(buf, seg->storage);
		UnlockReleaseBuffer(buf);
	}
	release->claimed_lsn = GetXLogInsertRecPtr();
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

bool
sf_space_release_some(SfSegment *seg, Relation rel, SfRelease *release)
{
	int			n = next_runs(seg, rel, release);

	if (GetRedoRecPtr() < release->claimed_lsn)
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

/*
 * How much of a map page, which is a copy, a release would give back.  The file system is asked,
 * so no page is locked.
 */
static uint64
releasable_bytes(SfStorage storage, uint32 map, uint32 limit, const SfMap *content,
				 uint64 *budget_blocks)
{
	uint64		sum = 0;
	uint32		from = 0;
	uint32		first;
	uint32		count;

	SF_ASSERT(limit <= SF_MAP_BLOCKS);
	while (*budget_blocks > 0 && sfi_map_next_free(content, limit, &from, &first, &count))
	{
		if (count < LEAST_BLOCKS)
			continue;
		count = Min(count, *budget_blocks);
		*budget_blocks -= count;
		sum += sf_io_room_bytes(storage, (sf_map_first_block(map) + first) * SF_BLOCK_SIZE,
								(uint64) count * SF_BLOCK_SIZE);
	}
	return sum;
}

/* The same runs as those of a claim, in the same order. */
uint64
sf_space_releasable_bytes(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	uint64		total = sfi_header(rel).total_sectors;
	uint64		budget_blocks = budget(rel, total);
	uint64		sum = 0;
	SfMap		content;

	for (uint32 map = sf_maps_of(total); map-- > 0 && budget_blocks > 0;)
	{
		Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);

		CHECK_FOR_INTERRUPTS();
		content = *SfPageMap(BufferGetPage(buf));
		UnlockReleaseBuffer(buf);
		sum += releasable_bytes(seg->storage, map, sf_block_of(sf_map_sectors_before(total, map)),
								&content, &budget_blocks);
	}
	sfi_segment_close(rel);
	return sum;
}
