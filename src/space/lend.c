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
 * much of the segment is free; growth, of which the caller gets what it has grown.
 *
 * The order is that of cost: a look into shared memory, a thousand pages that are in
 * shared buffers as a rule, a walk through the pending queue, longer files.
 * "A run" is one of a decent length at first, an eighth of what is wanted: a value in
 * many small pieces is slow to read for as long as it lives, so the last attempt but
 * growth takes small runs only where free space is more than a sixteenth of the whole.
 * Below a bound there is no growth to fall back on: then all of the map below it is
 * looked at, a few runs at a time, and any run will do.  So it is where growth has met the limit
 * of the column.
 *
 * A scan has an end (SF_SCAN_PAGES), and the segment may be longer.  Where free space is known
 * to be much, or nothing is known, a few scans are made before growth: one in front, the others
 * where the last scan stopped.  So a front that is full neither hides what is free behind it,
 * nor has the whole map read for each value.
 *
 * The lists of the dispenser are short, and drop runs.  So what a scan has found, and what
 * growth has made, comes here as a number, too, and is lent as any hint is: else a list full of
 * runs that do not serve would make the segment grow for ever.  S9 is about that.
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
#define MANY_SCANS			5	/* before growth: 80 GB */
#define ENOUGH_RUNS			64	/* of a scan: more do not fit into the
								 * dispenser */
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
	sfi_proved_forget(search->seg->storage, sf_map_of_block(region.start_block), first,
					  region.nblocks);
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

/*
 * Have room for a region that lies in a file with holes, durably: a full disk is met here.  Where
 * it is full the region goes back; false.
 *
 * Under the growth lock: else another process could take for durable what has been promised just
 * now, and what it commits there would need room again after a power cut.
 */
static bool
promise(const Search *search, SfRegion region)
{
	const SfStorage storage = search->seg->storage;
	const uint64 offset = region.start_block * SF_BLOCK_SIZE;
	volatile bool promised = false;

	if (SF_BREAKS(unpromised) || !sf_io_may_have_holes(storage, offset))
		return true;
	LockPage(search->rel, SF_LOCK_GROWTH, ExclusiveLock);
	PG_TRY();
	{
		promised = sf_io_promise(storage, offset, (uint64) region.nblocks * SF_BLOCK_SIZE);
	}
	PG_FINALLY();
	{
		if (!promised)
			sfi_take_back_blocks(search->rel, region.start_block,
								 region.start_block + region.nblocks);
	}
	PG_END_TRY();
	UnlockPage(search->rel, SF_LOCK_GROWTH, ExclusiveLock);
	return promised;
}

/* Lend from a run believed free that may lie in a hole. */
static bool
lend_hint(const Search *search, SfRegion hint, uint32 need, SfRegion *region)
{
	if (!lend_from(search, hint, need, region))
		return false;
	if (promise(search, *region))
		return true;
	*region = (SfRegion) {0};
	return false;
}

/* Try the runs the dispenser knows, best fit first; a region has at least need blocks. */
static bool
lend_known(const Search *search, uint32 need, SfRegion *region)
{
	const uint64 end_block = SF_BREAKS(s7) ? SF_NO_END : search->end_block;
	SfRegion	hint;

	SF_ASSERT(need >= search->need && need <= search->want);
	while (sfi_dispense_take(search->seg->storage, need, search->want, end_block, &hint))
		if (lend_hint(search, hint, need, region))
			return true;
	return false;
}

/* Tell the dispenser, and the scan, of a free run. */
static void
note_run(SfSegment *seg, SfRegion run, SfScan *scan)
{
	scan->free_blocks += run.nblocks;
	if (run.nblocks < scan->need)
		return;
	scan->nruns++;
	sfi_dispense_put(seg->storage, run, scan->end_block);
	if (scan->best.nblocks < scan->want && run.nblocks > scan->best.nblocks)
		scan->best = run;
}

/*
 * Look at one map page, up to limit.  The page is copied: to put runs in takes the
 * dispenser's lock, perhaps 4000 times, and a process that lends or commits on that page
 * would wait for all of it.
 */
static void
scan_page(SfSegment *seg, Relation rel, uint32 map, uint32 limit, SfScan *scan)
{
	PGAlignedBlock copy;
	SfMap	   *content = (SfMap *) copy.data;
	uint32		from = 0;
	uint32		first;
	uint32		count;
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);

	memcpy(content, SfPageMap(BufferGetPage(buf)), sizeof(SfMap));
	UnlockReleaseBuffer(buf);
	while (sfi_map_next_free(content, limit, &from, &first, &count))
		note_run(seg, (SfRegion) {sf_map_first_block(map) + first, count}, scan);
}

uint32
sfi_lend_scan_pages(void)
{
	return SF_FAULT_SKIPS(short_scan) ? 2 : SF_SCAN_PAGES;
}

/*
 * A scan below a bound tells nothing of the share that is free.  Nor does one in front: what it
 * comes back to is what has been filled.
 */
void
sfi_lend_scan(SfSegment *seg, Relation rel, uint64 total_sectors, SfScan *scan)
{
	uint64		end_sector = Min(total_sectors, sf_blocks_to_sectors(scan->end_block));
	uint32		npages = sf_maps_of(end_sector);
	uint32		map = scan->from;
	uint64		blocks = 0;

	SF_ASSERT(scan->need > 0 && scan->need <= scan->want);
	scan->npages = Min(npages, sfi_lend_scan_pages());
	scan->free_blocks = scan->nruns = 0;
	scan->best = (SfRegion) {0};
	if (npages == 0)
		return;
	if (map == SF_NO_PAGE)
		map = sfi_dispense_start(seg->storage, scan->npages, npages, &scan->at_low);
	for (uint32 i = 0; i < scan->npages; i++)
	{
		uint32		page = (map + i) % npages;
		uint32		limit = sf_block_of(sf_map_sectors_before(end_sector, page));

		CHECK_FOR_INTERRUPTS();
		scan_page(seg, rel, page, limit, scan);
		blocks += limit;
		if (scan->enough > 0 && scan->nruns >= scan->enough)
			scan->npages = i + 1;
	}
	if (end_sector == total_sectors && scan->enough == 0 &&
		(scan->npages == npages || !scan->at_low))
		sfi_dispense_note_seen(seg->storage, blocks, scan->free_blocks, scan->npages == npages);
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
	{
		sfi_take_back_blocks(rel, region.start_block, region.start_block + region.nblocks);
		sfi_dispense_note_returned(seg->storage);
	}
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

/* What the scans of one attempt have found. */
typedef struct Found
{
	uint64		free_blocks;
	SfRegion	best;			/* the longest run, or one that has all that
								 * is wanted */
} Found;

/* Lend from the runs that the dispenser knows, or, since it may drop runs, from the best one. */
static bool
lend_found(const Search *search, uint32 need, const Found *found, SfRegion *region)
{
	return lend_known(search, need, region) ||
		(found->best.nblocks >= need && lend_hint(search, found->best, need, region));
}

/*
 * Scan, and lend from what was found.  Below a bound all of the map is looked at, in the order of
 * its pages; where growth comes next, one scan, or a few where much may be free.
 */
static bool
lend_scanned(const Search *search, uint64 total, uint32 need, Found *found, SfRegion *region)
{
	uint32		npages = sf_maps_of(Min(total, sf_blocks_to_sectors(search->end_block)));
	uint32		scans = search->bounded ? npages : 1;
	uint32		looked = 0;

	if (!search->bounded && npages > sfi_lend_scan_pages() &&
		sfi_dispense_may_be_roomy(search->seg->storage))
		scans = MANY_SCANS;
	*found = (Found) {0};
	for (uint32 i = 0; i < scans && looked < npages; i++)
	{
		SfScan		scan = {
			.need = search->need, .want = search->want, .end_block = search->end_block,
			.from = search->bounded ? looked : SF_NO_PAGE, .at_low = i == 0,
			.enough = search->bounded ? ENOUGH_RUNS : 0
		};

		sfi_lend_scan(search->seg, search->rel, total, &scan);
		looked += scan.npages;
		found->free_blocks += scan.free_blocks;
		if (scan.best.nblocks > found->best.nblocks)
			found->best = scan.best;
		if (lend_found(search, need, found, region))
			return true;
	}
	return false;
}

/* All attempts but growth. */
static bool
lend_free(const Search *search, uint64 total, SfRegion *region)
{
	uint32		decent = Max(search->need, search->want / 8);
	Found		found;

	if (lend_known(search, decent, region) ||
		lend_scanned(search, total, decent, &found, region) ||
		(reclaim(search->seg, search->rel) &&
		 lend_scanned(search, total, decent, &found, region)))
		return true;
	/* many small runs rather than growth, where they are much of the whole */
	return (search->bounded || found.free_blocks > sf_block_of(total) / 16) &&
		lend_found(search, search->need, &found, region);
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

/* Is what growth has made free still, to be lent by anybody?  A look without a lock. */
static bool
is_left(const Search *search, SfRegion made)
{
	uint32		map = sf_map_of_block(made.start_block);
	uint32		from = made.start_block % SF_MAP_BLOCKS;
	uint32		first = from;
	uint32		count = 0;
	uint64		total = sfi_header(search->rel).total_sectors;
	Buffer		buf;

	if (sf_blocks_to_sectors(made.start_block + made.nblocks) > total)
		return false;
	buf = sfi_page_read(search->rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
	(void) sfi_map_next_free(SfPageMap(BufferGetPage(buf)), from + made.nblocks, &from, &first,
							 &count);
	UnlockReleaseBuffer(buf);
	return first == made.start_block % SF_MAP_BLOCKS && count == made.nblocks;
}

/*
 * Grow, and lend from what that has made.  False when another process grew, or has found by a
 * scan what this one has made.
 */
static bool
lend_grown(const Search *search, uint64 *total, uint64 ahead_sectors, SfRegion *region)
{
	SfRegion	made;

	*total = sfi_grow(search->seg, search->rel, *total, search->need, search->want, ahead_sectors,
					  &made);
	if (made.nblocks == 0)
		return false;
	if (!SF_BREAKS(s9) && lend_from(search, made, search->need, region))
		return true;
	SF_INVARIANT(S9, !is_left(search, made));
	return false;
}

/*
 * The segment may not grow: look through all of it, also for what sessions have parked just now,
 * and take any run that serves.  Throws if there is none.
 */
static void
lend_at_limit(const Search *search, uint64 total, SfRegion *region)
{
	Search		whole = *search;

	SF_ASSERT(!search->bounded && search->end_block == SF_NO_END);
	whole.bounded = true;
	sfi_full_refuse_again(search->seg, search->need);
	while (sfi_lend_collect(search->seg, search->rel, 0))
		 /* until there is nothing left */ ;
	if (!lend_free(&whole, total, region))
		sfi_full_refuse(search->seg, search->need, sf_maps_of(total) > sfi_lend_scan_pages());
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
	uint64		seen;

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
		seen = total;
		if (lend_grown(&search, &total, want->ahead_sectors, &region))
			break;
		if (total == seen)
		{
			lend_at_limit(&search, total, &region);
			break;
		}
		CHECK_FOR_INTERRUPTS();
	}
	SF_ASSERT(region.nblocks <= search.want &&
			  (region.nblocks >= search.need || (search.bounded && region.nblocks == 0)));
	/* the monitor is not to grow ahead for what does not grow */
	if (!search.bounded)
		sfi_dispense_note_demand(seg->storage, region.nblocks);
	sfi_segment_close(rel);
	return region;
}
