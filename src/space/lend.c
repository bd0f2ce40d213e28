/*-------------------------------------------------------------------------
 *
 * lend.c
 *	  Lending free blocks to a backend.
 *
 * What is lent stands in the lent plane of the space map, which is not logged
 * and holds for one boot of the server only: a crash forgets it, and nothing
 * can overflow.  Blocks stay lent while their backend may have I/O in flight
 * to them, so that an abort, or a resolver that is quicker than the abort,
 * never hands out a block that an old write may still hit.
 *
 * Order of attempts: a run the dispenser knows; a scan of the map; what other
 * backends left behind and what has become free meanwhile; any run at all if
 * much of the segment is free; growth.
 *
 * The order is that of cost: a look into shared memory, a thousand pages that are in
 * shared buffers as a rule, a walk through the pending queue, longer files.
 * "A run" is one of a decent length at first, an eighth of what is wanted: a value in
 * many small pieces is slow to read for as long as it lives, so the last attempt but
 * growth takes small runs only where free space is more than a sixteenth of the whole.
 * Below a bound there is no growth to fall back on: then all of the map below it is
 * looked at, and any run will do.
 *
 * What a hint says is looked at under the locks of header and map page:
 *
 *	 hint [start, n) --- cut at the end of the segment --- first free run of at least
 *	 need in it --- mark lent --- locks are let go --- WAL of the freeing is flushed
 *
 * The flush comes last, since nobody may wait for a disk under a page lock.  Nobody
 * else can write to the blocks meanwhile: they are lent already.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

#define COLLECT_AT_ONCE		64
#define SMALL_STEP_BLOCKS	16	/* 64 KB, in a small segment */

/* What one call of sf_space_lend() looks for, and where. */
typedef struct Search
{
	SfSegment  *seg;
	Relation	rel;
	uint32		need;			/* blocks, at least */
	uint32		want;			/* blocks, at most */
	bool		bounded;		/* so the segment does not grow */
	uint64		end_block;		/* of what may be lent */
} Search;

/*
 * Rule 2: what was freed may be written over only when the record that freed
 * it is durable.  An LSN beyond the end of WAL is of another history.
 */
static void
flush_freeing(XLogRecPtr cleared_lsn)
{
	if (cleared_lsn != InvalidXLogRecPtr && cleared_lsn <= GetXLogInsertRecPtr() &&
		!SF_BREAKS(rule_2))
		XLogFlush(cleared_lsn);
	SF_INVARIANT(rule_2, cleared_lsn > GetXLogInsertRecPtr() || !XLogNeedsFlush(cleared_lsn));
}

/* Mark a region of a map page lent.  Both pages are locked, the map exclusively. */
static void
mark(const Search *search, SfRegion region, Buffer hbuf, Buffer buf)
{
	SfMap	   *map = SfPageMap(BufferGetPage(buf));
	uint32		first = region.start_block % SF_MAP_BLOCKS;

	SF_ASSERT(sfi_page_is_locked(hbuf, LW_SHARED) && sfi_page_is_locked(buf, LW_EXCLUSIVE));
	if (SF_BREAKS(s2))
		sfi_map_lend(map, first, 1);
	if (SF_BREAKS(s3))
		region.nblocks = SF_MAP_BLOCKS - first;
	SF_INVARIANT(S3, sf_blocks_to_sectors(region.start_block + region.nblocks) <=
				 SfPageHeader(BufferGetPage(hbuf))->total_sectors);
	SF_INVARIANT(S7, region.start_block + region.nblocks <= search->end_block);
	sfi_map_lend(map, first, region.nblocks);
	sfi_map_dirty_lent(buf, search->seg->storage);
}

/*
 * Lend need blocks or more from a run believed free; false when it does not hold them.  The
 * header stays locked until the blocks are marked: else their end of the
 * segment could be cut off, and even grown again in part, after we have looked
 * how long it is.
 */
static bool
lend_from(const Search *search, SfRegion hint, uint32 need, SfRegion *region)
{
	const uint32 want = search->want;
	uint32		map = sf_map_of_block(hint.start_block);
	uint32		from = hint.start_block % SF_MAP_BLOCKS;
	uint32		limit;
	uint32		first;
	uint32		count;
	bool		found = false;
	XLogRecPtr	cleared_lsn = InvalidXLogRecPtr;
	Buffer		hbuf;
	Buffer		buf;

	SF_ASSERT(need > 0 && need <= want && hint.nblocks > 0);
	SF_ASSERT(from + hint.nblocks <= SF_MAP_BLOCKS);
	SF_FAULT(lend_before_mark);
	hbuf = sfi_page_read(search->rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
	limit = sf_map_sectors_before(SfPageHeader(BufferGetPage(hbuf))->total_sectors, map);
	limit = Min(sf_block_of(limit), from + hint.nblocks);
	if (limit < from + need)
	{
		UnlockReleaseBuffer(hbuf);
		return false;
	}
	buf = sfi_page_read(search->rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);
	while (!found && sfi_map_next_free(SfPageMap(BufferGetPage(buf)), limit, &from, &first, &count))
		found = count >= need;
	if (found)
	{
		region->start_block = sf_map_first_block(map) + first;
		region->nblocks = Min(count, want);
		mark(search, *region, hbuf, buf);
		cleared_lsn = SfPageMap(BufferGetPage(buf))->cleared_lsn;
	}
	UnlockReleaseBuffer(buf);
	UnlockReleaseBuffer(hbuf);
	if (!found)
		return false;
	SF_ASSERT(region->nblocks >= need && region->nblocks <= want);

	/*
	 * An ERROR from here on leaves the blocks lent until the next start of
	 * the server: only the caller could know of them, and gets no answer.
	 */
	(void) SF_FAULT_IO(lend_after_mark);

	if (count > want)
		sfi_dispense_put(search->seg->storage,
						 (SfRegion) {region->start_block + want, count - want},
						 search->end_block);
	flush_freeing(cleared_lsn);
	return true;
}

/* Try the runs the dispenser knows, best fit first; a region has at least need blocks. */
static bool
lend_known(const Search *search, uint32 need, SfRegion *region)
{
	const uint64 end_block = SF_BREAKS(s7) ? SF_NO_END : search->end_block;
	SfRegion	hint;

	SF_ASSERT(need >= search->need && need <= search->want);
	while (sfi_dispense_take(search->seg->storage, need, search->want, end_block, &hint))
		if (lend_from(search, hint, need, region))
			return true;
	return false;
}

/*
 * Tell the dispenser of the free runs on one map page; returns free blocks.  The page
 * is copied: to put runs in takes the dispenser's lock, perhaps 4000 times, and a process
 * that lends or commits on that page would wait for all of it.
 */
static uint32
scan_page(SfSegment *seg, Relation rel, uint32 map, uint32 limit, uint32 need, uint64 end_block)
{
	PGAlignedBlock copy;
	SfMap	   *content = (SfMap *) copy.data;
	uint32		from = 0;
	uint32		first;
	uint32		count;
	uint32		free_blocks = 0;
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);

	memcpy(content, SfPageMap(BufferGetPage(buf)), sizeof(SfMap));
	UnlockReleaseBuffer(buf);
	while (sfi_map_next_free(content, limit, &from, &first, &count))
	{
		free_blocks += count;
		if (count >= need)
			sfi_dispense_put(seg->storage,
							 (SfRegion) {sf_map_first_block(map) + first, count}, end_block);
	}
	return free_blocks;
}

uint64
sfi_lend_scan(SfSegment *seg, Relation rel, uint64 total_sectors, uint32 need, uint64 end_block)
{
	uint64		end_sector = Min(total_sectors, sf_blocks_to_sectors(end_block));
	uint32		npages = sf_maps_of(end_sector);
	uint32		nscan = Min(npages, SF_SCAN_PAGES);
	uint32		map = npages == 0 ? 0 : sfi_dispense_cursor(seg->storage, nscan) % npages;
	uint64		free_blocks = 0;

	SF_ASSERT(need > 0);
	for (uint32 i = 0; i < nscan; i++, map = (map + 1) % npages)
	{
		CHECK_FOR_INTERRUPTS();
		free_blocks += scan_page(seg, rel, map, sf_block_of(sf_map_sectors_before(end_sector, map)),
								 need, end_block);
	}
	return free_blocks;
}

/*
 * The relation may be gone, or have other storage, when a transaction ends that has
 * dropped or truncated it; then there is no map page to go back to.
 */
void
sf_space_take_back(SfSegment *seg, SfRegion region)
{
	Relation	rel = try_relation_open(seg->relid, AccessShareLock);

	if (rel == NULL)
		return;
	if (SfStorageEquals(SfRelStorage(rel), seg->storage))
		sfi_take_back_blocks(rel, region.start_block, region.start_block + region.nblocks);
	relation_close(rel, NoLock);
}

/*
 * The regions are copied out of the table first: its lock is a leaf, and map pages may
 * have to be read from disk.
 */
bool
sfi_lend_collect(SfSegment *seg, Relation rel, int idle_ms)
{
	SfRegion	regions[COLLECT_AT_ONCE];
	int			n = sfi_parked_collect(seg->storage, idle_ms, regions, COLLECT_AT_ONCE);

	SF_ASSERT(n >= 0 && n <= COLLECT_AT_ONCE);
	for (int i = 0; i < n; i++)
		sfi_take_back_blocks(rel, regions[i].start_block,
							 regions[i].start_block + regions[i].nblocks);
	return n > 0;
}

/*
 * Make space free that nobody has counted yet: parked garbage, ended transactions.
 * The queue is not resolved twice at the same horizon, which would find nothing new:
 * while one long snapshot is open every value would walk through all of it.
 */
static bool
reclaim(SfSegment *seg, Relation rel)
{
	SfMaintain	stats = {0};
	bool		found = sfi_lend_collect(seg, rel, SF_PARKED_IDLE_MS);
	uint64		horizon = sfi_pending_horizon().removable;

	if (sfi_dispense_worth_resolving(seg->storage, horizon) && sf_space_resolve(seg, false, &stats))
		sfi_dispense_note_resolved(seg->storage, horizon);
	return found || stats.sectors_freed > 0;
}

/* Scan, and lend from what was found: one scan where growth comes next, else all of the map. */
static bool
lend_scanned(const Search *search, uint64 total, uint32 need, uint64 *free_blocks,
			 SfRegion *region)
{
	uint64		end_sector = Min(total, sf_blocks_to_sectors(search->end_block));
	uint32		scans = search->bounded ? sf_maps_of(end_sector) / SF_SCAN_PAGES + 1 : 1;

	*free_blocks = 0;
	for (uint32 i = 0; i < scans; i++)
	{
		*free_blocks += sfi_lend_scan(search->seg, search->rel, total, search->need,
									  search->end_block);
		if (lend_known(search, need, region))
			return true;
	}
	return false;
}

/* All attempts but growth. */
static bool
lend_free(const Search *search, uint64 total, SfRegion *region)
{
	uint32		decent = Max(search->need, search->want / 8);
	uint64		free_blocks;

	if (lend_known(search, decent, region) ||
		lend_scanned(search, total, decent, &free_blocks, region) ||
		(reclaim(search->seg, search->rel) &&
		 lend_scanned(search, total, decent, &free_blocks, region)))
		return true;
	/* many small runs rather than growth, where they are much of the whole */
	return (search->bounded || free_blocks > sf_block_of(total) / 16) &&
		lend_known(search, search->need, region);
}

/*
 * What is known to come, or a step, whichever is more.  The step is limited lest many sessions
 * that write a little each make a small segment several times as large.
 */
static uint32
blocks_wanted(const SfWant *want, uint64 total)
{
	uint64		quarter = Max(sf_block_of(total) / 4, SMALL_STEP_BLOCKS);
	uint64		blocks = Max(sf_blocks_of(want->ahead_sectors), Min(want->step_blocks, quarter));

	return Max(want->need_blocks, Min(blocks, want->most_blocks));
}

SfRegion
sf_space_lend(SfSegment *seg, const SfWant *want, uint64 below_sector)
{
	Relation	rel = sfi_segment_rel(seg);
	Search		search = {
		.seg = seg, .rel = rel, .need = want->need_blocks,
		.bounded = below_sector != SF_NO_BOUND, .end_block = sf_block_of(below_sector)
	};
	SfRegion	region = {0};
	uint64		total;

	SF_ASSERT(want->need_blocks > 0 && want->need_blocks <= SF_MAP_BLOCKS);
	SF_ASSERT(want->most_blocks <= SF_MAP_BLOCKS);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	sf_base_wait_out_old_io();

	/*
	 * The size is read before the look for space.  If somebody else grows the
	 * segment meanwhile, sfi_grow() sees that, and the next round looks
	 * there.
	 */
	total = sfi_header(rel).total_sectors;
	search.want = blocks_wanted(want, total);
	while (!lend_free(&search, total, &region) && !search.bounded)
	{
		CHECK_FOR_INTERRUPTS();
		total = sfi_grow(seg, rel, total, search.want, want->ahead_sectors);
	}
	SF_ASSERT(region.nblocks <= search.want &&
			  (region.nblocks >= search.need || (search.bounded && region.nblocks == 0)));
	/* the monitor is not to grow ahead for what does not grow */
	if (!search.bounded)
		sfi_dispense_note_demand(seg->storage, region.nblocks);
	sfi_segment_close(rel);
	return region;
}
