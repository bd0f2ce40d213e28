/*-------------------------------------------------------------------------
 *
 * grow.c
 *	  Making segments longer and shorter.
 *
 * New blocks are zeros, durably, before the header says that they exist: a full disk
 * is met here rather than in the middle of a value.  Zeros are written to the disk where
 * the next writer would have to wait for more than its own bytes otherwise, see
 * needs_written().
 *
 * Growth, under the growth lock:					a crash after that step leaves
 *	 1	places of new map pages in the relation		pages that nothing names
 *	 2	the header page durable, for the first one	a header that the sweeper can ask
 *	 3	zeros in the files, durable					files longer than the segment
 *	 4	record GROW: size, new map pages			all of it, if the record is durable
 *	 5	the dispenser is told of all but what the	hints only
 *		caller has grown for
 *
 * Files that are longer than the header says do no harm: nothing leads there, and the
 * next growth writes zeros again.  The reverse would: a value could get a place that
 * is not there.  So a cut goes the other way round:
 *
 *	 1	the tail is claimed: its blocks are lent to this process
 *	 2	record TRUNCATE with the new size, durable
 *	 3	the files are cut
 *
 * The marks of the claim stay on the map pages behind the new end, and the next growth
 * takes them away.  Else a process that has read the old size could lend there between
 * the record and the cut.
 *
 * Invariant S3 speaks of the header's size.  A reader gets it without the growth lock:
 * values never lie in a free tail, so the smaller size is enough for each of them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

#define MAX_STEP			(64 * SF_MB_SECTORS)
#define MUCH_SECTORS		(SF_MB_SECTORS / 4)

static uint64
round_up(uint64 sectors, uint64 granule)
{
	SF_ASSERT(granule > 0 && granule % SF_BLOCK_SECTORS == 0);
	return (sectors + granule - 1) / granule * granule;
}

/*
 * New size: twice as much up to 2 MB, then 1 MB more, then an eighth more up to
 * 64 MB; with need_sectors side by side on one map page.
 *
 * Small columns must stay small, since a database may have thousands of them; large
 * ones should grow rarely, since growth is waited for.  A region never crosses a map
 * page, so where the rest of the last one is too short for it, the new size reaches
 * that far into the next one.
 */
static uint64
new_total(uint64 total, uint64 need_sectors)
{
	uint64		step = Max(Min(total, SF_MB_SECTORS), Min(total / 8, MAX_STEP));
	uint64		in_page = total % SF_MAP_SECTORS;

	if (in_page + need_sectors > SF_MAP_SECTORS)
		need_sectors += SF_MAP_SECTORS - in_page;
	step = Max(step, need_sectors);
	SF_ASSERT(total % SF_BLOCK_SECTORS == 0 && step <= 2 * (uint64) SF_MAP_SECTORS + MAX_STEP);
	return total + round_up(Max(step, 1), SF_GROWTH_SECTORS);
}

void
sfi_take_back_blocks(Relation rel, uint64 start_block, uint64 end_block)
{
	SF_ASSERT(start_block <= end_block);
	while (start_block < end_block)
	{
		uint32		map = sf_map_of_block(start_block);
		uint64		page_first = sf_map_first_block(map);
		uint64		end = Min(end_block, page_first + SF_MAP_BLOCKS);
		Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP,
										BUFFER_LOCK_EXCLUSIVE);

		sfi_map_take_back(SfPageMap(BufferGetPage(buf)), start_block - page_first,
						  end - start_block);
		sfi_map_dirty_lent(buf, SfRelStorage(rel));
		UnlockReleaseBuffer(buf);
		start_block = end;
	}
}

/*
 * Log and apply a new size; new map pages come with it.  Returns the record's
 * end.
 */
static XLogRecPtr
set_total(Relation rel, uint8 info, uint64 total)
{
	xl_sf_size	rec = {SF_WAL_VERSION, SfRelStorage(rel), total};
	SfMap		empty = {0};
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);
	uint32		first_new = sf_maps_of(h.total_sectors);

	SF_ASSERT(sfi_page_lock_is_held(rel, SF_LOCK_GROWTH));
	SF_ASSERT(total % SF_BLOCK_SECTORS == 0 && total != h.total_sectors);

	/*
	 * what lies beyond the end may still be marked lent, see
	 * sfi_grow_cut_tail()
	 */
	if (total > h.total_sectors)
		sfi_take_back_blocks(rel, sf_block_of(h.total_sectors), sf_map_first_block(first_new));
	h.total_sectors = total;
	sfi_change_begin_header(hbuf, &h);
	for (uint32 map = first_new; map < sf_maps_of(total); map++)
		sfi_change_init(sfi_change_add(sfi_page_new(rel, SF_MAP_PAGE(map), SF_PAGE_MAP)),
						SF_PAGE_MAP, &empty, sizeof(empty));
	return sfi_change_finish(info, &rec, sizeof(rec));
}

/*
 * The blocks that growth was for: of what was made, the first ones that are side by side on one
 * map page.
 */
static SfRegion
made_for(uint64 from_sector, uint64 to_sector, uint32 nblocks)
{
	uint64		block = sf_block_of(from_sector);

	if (block % SF_MAP_BLOCKS + nblocks > SF_MAP_BLOCKS)
		block = sf_map_first_block(sf_map_of_block(block) + 1);
	SF_ASSERT(block + nblocks <= sf_block_of(to_sector));
	return (SfRegion) {block, nblocks};
}

/* Tell the dispenser of new blocks, by map page. */
static void
dispense_range(SfStorage storage, uint64 block, uint64 end)
{
	while (block < end)
	{
		uint64		page_end = Min(end, sf_map_first_block(sf_map_of_block(block) + 1));

		sfi_dispense_put(storage, (SfRegion) {block, page_end - block}, SF_NO_END);
		block = page_end;
	}
}

/* The first map page that has sectors in use in a range; 0: none has. */
static uint32
find_used(Relation rel, uint64 from_sector, uint64 to_sector)
{
	SF_ASSERT(sfi_page_lock_is_held(rel, SF_LOCK_GROWTH));
	for (uint32 map = sf_map_of(from_sector); map < sf_maps_of(to_sector); map++)
	{
		uint64		first = Max(from_sector, sf_map_start(map));
		uint64		end = Min(to_sector, sf_map_start((uint64) map + 1));
		Buffer		buf;
		bool		found;

		if (first >= end || !sfi_page_is_used(rel, SF_MAP_PAGE(map)))
			continue;
		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
		found = !sf_format_map_none_used(SfPageMap(BufferGetPage(buf)),
										 sfi_map_range(first, end - first));
		UnlockReleaseBuffer(buf);
		if (found)
			return SF_MAP_PAGE(map);
	}
	return 0;
}

/*
 * Growth writes zeros, and a cut ends the files.  Sectors in use there show that the header
 * is an old one: they would be lost.
 */
static void
require_unused(Relation rel, uint64 from_sector, uint64 to_sector)
{
	uint32		page = find_used(rel, from_sector, to_sector);

	if (page != 0)
		sfi_page_report_damaged(rel, page,
								psprintf("The header says that the segment ends at sector " UINT64_FORMAT
										 ", and there are sectors in use behind.", from_sector));
}

/*
 * Make the header page durable in WAL, before there are files: the sweeper asks it
 * whose they are.  Without it, files that a crash leaves behind would seem to be of a
 * transaction that still runs.
 */
static void
flush_header(Relation rel)
{
	Buffer		buf = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
	XLogRecPtr	lsn = PageGetLSN(BufferGetPage(buf));

	UnlockReleaseBuffer(buf);
	XLogFlush(lsn);
}

/*
 * Must zeros be written to the disk, or is the file system's promise enough?
 *
 * The first flush of promised blocks waits for the file system's journal.  In a logging
 * segment no commit waits for it, since the syncer flushes.  Elsewhere commits do: of 16 KB
 * they take twice as long as with written zeros.  For more at once the zeros would take
 * longer: with a promise, commits of 1 MB are 1.2 to 1.8 times as fast.
 */
static bool
needs_written(const SfSegment *seg, uint64 at_once_sectors)
{
	SF_ASSERT(OidIsValid(SfStorageRel(seg->storage)));
	return !seg->logged_data && at_once_sectors < MUCH_SECTORS;
}

/*
 * Grow to a new size; the growth lock is held.  The places of new map pages come
 * first: where the disk is full for them, no zeros must be left to fill it.  The
 * dispenser is not told of kept, which is for the caller alone.
 */
static void
grow_to(SfSegment *seg, Relation rel, uint64 old_total, uint64 total, bool written, SfRegion kept)
{
	SF_ASSERT(total > old_total && total <= SF_MAX_SECTORS);
	SF_ASSERT(sfi_page_lock_is_held(rel, SF_LOCK_GROWTH));
	SF_FAULT(grow_before);
	require_unused(rel, old_total, total);
	for (uint32 map = sf_maps_of(old_total); map < sf_maps_of(total); map++)
		sfi_page_extend(rel, SF_MAP_PAGE(map));
	if (old_total == 0)
		flush_header(rel);
	SF_FAULT(grow_before_files);
	sf_io_files_grow(seg->storage, sf_sectors_to_bytes(old_total), sf_sectors_to_bytes(total),
					 written);
	SF_FAULT(grow_after_zero);
	set_total(rel, XLOG_SF_GROW, total);
	SF_FAULT(grow_after_record);
	SF_ASSERT(sfi_header(rel).total_sectors == total);
	dispense_range(seg->storage, sf_block_of(old_total), kept.start_block);
	dispense_range(seg->storage, kept.start_block + kept.nblocks, sf_block_of(total));
}

/* Blocks that lie side by side on one map page between two ends, want at most. */
static uint32
blocks_between(uint64 from_sector, uint64 to_sector, uint32 want)
{
	uint64		first = sf_block_of(from_sector);
	uint64		end = sf_block_of(to_sector);
	uint64		page_end = sf_map_first_block(sf_map_of_block(first) + 1);
	uint64		behind = end > page_end ? end - page_end : 0;

	SF_ASSERT(first <= end);
	return Min(want, Max(Min(end, page_end) - first, behind));
}

uint64
sfi_grow(SfSegment *seg, Relation rel, uint64 seen_total_sectors, uint32 need_blocks,
		 uint32 want_blocks, uint64 at_once_sectors, SfRegion *made)
{
	uint64		limit = made == NULL ? SF_MAX_SECTORS : sfi_quota_sectors(seg, rel);
	SfRegion	kept = {0};
	uint64		total;
	uint64		to;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	SF_ASSERT(need_blocks > 0 && need_blocks <= want_blocks && want_blocks <= SF_MAP_BLOCKS);
	LockPage(rel, SF_LOCK_GROWTH, ExclusiveLock);
	total = sfi_header(rel).total_sectors;

	/*
	 * Many backends may find the segment full at once.  Those that come
	 * second return, and look for space in what the first one has made.
	 */
	to = total == seen_total_sectors ? new_total(total, sf_blocks_to_sectors(want_blocks)) : total;
	to = Max(total, Min(to, limit));
	want_blocks = blocks_between(total, to, want_blocks);
	if (want_blocks < need_blocks)
		to = total;
	if (to > total)
	{
		kept = made_for(total, to, made == NULL ? 0 : want_blocks);
		grow_to(seg, rel, total, to, needs_written(seg, at_once_sectors), kept);
	}
	UnlockPage(rel, SF_LOCK_GROWTH, ExclusiveLock);
	if (made != NULL)
		*made = kept;
	return to;
}

void
sfi_grow_first(SfSegment *seg, Relation rel)
{
	if (sfi_header(rel).total_sectors == 0)
		(void) sfi_grow(seg, rel, 0, 1, 1, 1, NULL);
}

uint64
sfi_grow_ahead(SfSegment *seg, Relation rel, uint64 sectors)
{
	uint64		limit = sfi_quota_sectors(seg, rel);
	uint64		total;
	uint64		to;

	if (!ConditionalLockPage(rel, SF_LOCK_GROWTH, ExclusiveLock))
		return 0;
	total = sfi_header(rel).total_sectors;
	to = Max(total, Min(limit, total + Min(round_up(sectors, SF_MB_SECTORS), MAX_STEP)));
	if (to > total)
		grow_to(seg, rel, total, to, needs_written(seg, 0), made_for(total, to, 0));
	UnlockPage(rel, SF_LOCK_GROWTH, ExclusiveLock);
	return to - total;
}

/*
 * First block of the free tail of a map page, looking below limit; limit itself if the
 * last block is not free.  Of the free runs of the page only the last one counts, if it
 * reaches up to the limit.
 */
static uint32
tail_start(Relation rel, uint32 map, uint32 limit)
{
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
	const SfMap *content = SfPageMap(BufferGetPage(buf));
	uint32		from = 0;
	uint32		first;
	uint32		count;
	uint32		start = limit;

	while (sfi_map_next_free(content, limit, &from, &first, &count))
		start = first + count == limit ? first : limit;
	UnlockReleaseBuffer(buf);
	return start;
}

/*
 * First block of the free tail of the segment.  A look without claim: others may lend
 * in it at any time, which claim_tail() finds out.
 */
static uint64
find_tail(Relation rel, uint64 total_blocks)
{
	uint64		end = total_blocks;

	while (end > 0)
	{
		uint32		map = sf_map_of_block(end - 1);
		uint64		page_first = sf_map_first_block(map);
		uint64		start = page_first + tail_start(rel, map, end - page_first);

		CHECK_FOR_INTERRUPTS();
		if (start > page_first)
			return start;
		end = page_first;
	}
	return 0;
}

/* Lend ourselves blocks [first, end) of one map page, if all are free still. */
static bool
claim_page(Relation rel, uint32 map, uint32 first, uint32 end)
{
	uint32		from = first;
	uint32		found;
	uint32		count;
	bool		claimed = false;
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);

	SF_ASSERT(first < end && end <= SF_MAP_BLOCKS && sfi_page_lock_is_held(rel, SF_LOCK_GROWTH));
	if (sfi_map_next_free(SfPageMap(BufferGetPage(buf)), end, &from, &found, &count) &&
		found == first && count == end - first)
	{
		sfi_map_lend(SfPageMap(BufferGetPage(buf)), first, count);
		sfi_proved_forget(SfRelStorage(rel), map, first, count);
		sfi_map_dirty_lent(buf, SfRelStorage(rel));
		claimed = true;
	}
	UnlockReleaseBuffer(buf);
	return claimed;
}

/*
 * Claim the tail from its end towards to_block; returns the first block that
 * was claimed (end_block when none).
 */
static uint64
claim_tail(Relation rel, uint64 to_block, uint64 end_block)
{
	while (end_block > to_block)
	{
		uint32		map = sf_map_of_block(end_block - 1);
		uint64		page_first = sf_map_first_block(map);
		uint64		first = Max(page_first, to_block);

		if (!claim_page(rel, map, first - page_first, end_block - page_first))
			break;
		end_block = first;
	}
	return end_block;
}

/* Fill up to a block, in a range that is claimed, and give that back in any case. */
static void
fill_claimed(SfSegment *seg, Relation rel, uint64 from_block, uint64 end_block)
{
	PG_TRY();
	{
		sf_io_files_ensure(seg->storage, end_block * SF_BLOCK_SIZE);
	}
	PG_CATCH();
	{
		sfi_take_back_blocks(rel, from_block, end_block);
		PG_RE_THROW();
	}
	PG_END_TRY();
	sfi_take_back_blocks(rel, from_block, end_block);
}

/*
 * Fill data files up that end before the segment does: the header page is one of
 * a time before a tail was cut off.  A whole file may be missing then, in which
 * nobody could write.  The missing part is claimed first.  If it cannot be, then
 * somebody writes there, over whom no zeros may come, or values lie there, whose
 * loss zeros would only hide.  So nothing is done in that case.
 */
static void
fill_up(SfSegment *seg, Relation rel, uint64 total)
{
	uint64		end_block = sf_block_of(total);
	uint64		from_block = sf_io_files_size(seg->storage) / SF_BLOCK_SIZE;
	uint64		claimed;

	SF_ASSERT(sfi_page_lock_is_held(rel, SF_LOCK_GROWTH));
	if (from_block >= end_block)
		return;
	claimed = claim_tail(rel, from_block, end_block);
	if (claimed == from_block)
		fill_claimed(seg, rel, from_block, end_block);
	else
		sfi_take_back_blocks(rel, claimed, end_block);
}

void
sfi_grow_fill_up(SfSegment *seg, Relation rel)
{
	LockPage(rel, SF_LOCK_GROWTH, ExclusiveLock);
	fill_up(seg, rel, sfi_header(rel).total_sectors);
	UnlockPage(rel, SF_LOCK_GROWTH, ExclusiveLock);
}

/* An eighth of the segment, so that the next value need not wait for growth. */
uint64
sfi_grow_slack_sectors(uint64 total)
{
	SF_ASSERT(total % SF_BLOCK_SECTORS == 0);
	return Min(total / 8, MAX_STEP);
}

/* In a segment in which nothing is used nothing stays for the next value. */
uint64
sfi_grow_cut_end(uint64 tail, uint64 slack)
{
	SF_ASSERT(tail % SF_BLOCK_SECTORS == 0);
	return round_up(tail == 0 ? 0 : tail + slack, SF_GROWTH_SECTORS);
}

/*
 * The tail is claimed (lent) before it is cut: nobody can lend there between
 * the look for it and the new size.  Growth takes the marks away.
 *
 * The claim may get less than was looked for, when somebody has lent in the tail
 * meanwhile; then the cut begins behind that, if it is worth it still.
 *
 * An old header says that the segment ends where it ended then.  What lies behind belongs to
 * values, and the space map shows it.
 */
uint64
sfi_grow_cut_tail(SfSegment *seg, Relation rel, uint64 keep_sectors,
				  uint64 min_cut_sectors)
{
	uint64		total;
	uint64		tail;
	uint64		target;
	uint64		start;			/* of what is claimed */
	uint64		files_size;

	if (!ConditionalLockPage(rel, SF_LOCK_GROWTH, ExclusiveLock))
		return 0;
	/* first, since it throws where there are no files to be cut */
	files_size = sf_io_files_size(seg->storage);
	start = total = sfi_header(rel).total_sectors;
	require_unused(rel, total, Max(total, sf_bytes_to_sectors(files_size)));
	tail = sf_blocks_to_sectors(find_tail(rel, sf_block_of(total)));
	target = Max(sfi_grow_cut_end(tail, sfi_grow_slack_sectors(total)),
				 round_up(tail + keep_sectors, SF_GROWTH_SECTORS));
	SF_FAULT(truncate_before_claim);
	if (target + min_cut_sectors <= total)
		start = claim_tail(rel, sf_block_of(target), sf_block_of(total))
			* SF_BLOCK_SECTORS;
	SF_FAULT(truncate_after_claim);
	SF_ASSERT(start % SF_BLOCK_SECTORS == 0 && start <= total);
	if (start + min_cut_sectors <= total)
	{
		XLogRecPtr	end;

		SF_INVARIANT(S3, find_used(rel, start, total) == 0);
		end = set_total(rel, XLOG_SF_TRUNCATE, start);
		SF_FAULT(truncate_after_record);

		/*
		 * Without the record, recovery would bring back a segment that is
		 * longer than its files (rule 2).
		 */
		XLogFlush(end);
		SF_INVARIANT(rule_2, !XLogNeedsFlush(end));
		SF_FAULT(truncate_before_file);
	}
	else
	{
		sfi_take_back_blocks(rel, sf_block_of(start), sf_block_of(total));
		start = total;
	}
	/* also what a crash left beyond the end */
	if (files_size > sf_sectors_to_bytes(start))
		sf_io_files_truncate(seg->storage, sf_sectors_to_bytes(start));
	SF_FAULT(truncate_after_file);
	fill_up(seg, rel, start);
	UnlockPage(rel, SF_LOCK_GROWTH, ExclusiveLock);
	return total - start;
}
