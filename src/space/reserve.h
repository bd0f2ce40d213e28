/*-------------------------------------------------------------------------
 *
 * reserve.h
 *	  Free space, for the files of space/: growth, lending, and what is known of it
 *	  in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RESERVE_H
#define SF_RESERVE_H

#include "space/lend.h"
#include "space/space_internal.h"

/* ---- growth (grow.c) ---- */

#define SF_MB_SECTORS		(1024 * 1024 / SF_SECTOR_SIZE)

/* Granule of growth and cuts: what a column with one small value takes. */
#define SF_GROWTH_SECTORS	(64 * 1024 / SF_SECTOR_SIZE)

/*
 * Of these, seg is open with RowExclusiveLock at least and rel its relation.  They take the
 * growth lock, a heavyweight one: no page is locked when they are called.  DISK_FULL, with
 * the segment as it was; DATA_CORRUPTED when there is space in use behind the end.
 */

/*
 * Grow unless another did since total_sectors was seen; waits for one that does.  need_blocks
 * (at most SF_MAP_BLOCKS) will lie side by side.  at_once_sectors: ahead_sectors of SfWant.
 * Returns the sectors that there are now.
 */
extern uint64 sfi_grow(SfSegment *seg, Relation rel, uint64 seen_total_sectors, uint32 need_blocks,
					   uint64 at_once_sectors);

/*
 * The same for a segment without data files, else nothing.  Whatever a segment holds, it has
 * files, which may be holes: pg_upgrade finds segments by their directories.
 */
extern void sfi_grow_first(SfSegment *seg, Relation rel);

/*
 * Grow ahead of need by at least that much (64 MB at most), if nobody else grows or cuts;
 * returns sectors added.
 */
extern uint64 sfi_grow_ahead(SfSegment *seg, Relation rel, uint64 sectors);

/*
 * Cut a free tail, if that is at least min_cut_sectors when the slack (or
 * keep_sectors, if more) is left; returns sectors cut.  Of a segment in which
 * nothing is used no slack is left.  Does nothing while another grows or cuts.
 */
extern uint64 sfi_grow_cut_tail(SfSegment *seg, Relation rel, uint64 keep_sectors,
								uint64 min_cut_sectors);

/*
 * Fill up data files that end before the segment does, where nothing is in use or
 * lent in what is missing.  Takes the growth lock, and may wait for it.  ERROR
 * when the disk is full.
 */
extern void sfi_grow_fill_up(SfSegment *seg, Relation rel);

/* Clear the lent bits of blocks, page by page.  No map page is locked before.  DATA_CORRUPTED. */
extern void sfi_take_back_blocks(Relation rel, uint64 start_block, uint64 end_block);

/* ---- lending (lend.c) ---- */

#define SF_SCAN_PAGES		1024	/* map pages looked at in one scan: 16 GB
									 * of data */

/* An end_block: blocks may lie anywhere. */
#define SF_NO_END			sf_block_of(SF_NO_BOUND)

/*
 * scan: refill the dispenser from the map with free runs of at least need blocks before
 * end_block, going round from where the last scan stopped.  Returns the free blocks seen, of
 * any length, on SF_SCAN_PAGES map pages at most.
 * collect: give back what is parked and idle for so long, a few at a time; false when there
 * was nothing.  No page is locked before.
 */
extern uint64 sfi_lend_scan(SfSegment *seg, Relation rel, uint64 total_sectors, uint32 need,
							uint64 end_block);
extern bool sfi_lend_collect(SfSegment *seg, Relation rel, int idle_ms);

/* ---- dispenser (dispense.c): hints, never truth ---- */

/*
 * None of these throws; each takes the dispenser's LWLock for a moment.  Do not call them
 * with that lock or in a critical section.
 *
 * take: a run of at least want blocks, else the longest of at least need; it is taken out.
 * Of a run that goes beyond end_block the blocks before it count, and the others stay.
 * put: a run believed free, on one map page; may be forgotten.  When there is no room, what
 * runs have before end_block counts.
 * forget: all of a storage, when that goes.
 */
extern bool sfi_dispense_take(SfStorage storage, uint32 need, uint32 want, uint64 end_block,
							  SfRegion *run);
extern void sfi_dispense_put(SfStorage storage, SfRegion run, uint64 end_block);
extern void sfi_dispense_forget(SfStorage storage);

/* Where the next scan of the map starts; moves on by npages. */
extern uint32 sfi_dispense_cursor(SfStorage storage, uint32 npages);

/*
 * Was the queue resolved at this very horizon already?  Then there is nothing
 * to be had from it; note_resolved says so.
 */
extern bool sfi_dispense_worth_resolving(SfStorage storage, uint64 horizon);
extern void sfi_dispense_note_resolved(SfStorage storage, uint64 horizon);

/*
 * Blocks lent: since the last call, the rate the monitor grows by; and in the
 * recent past (halved every minute), which it keeps free rather than cut.
 */
typedef struct SfDemand
{
	uint64		latest_blocks;
	uint64		recent_blocks;
} SfDemand;

/* take: for the monitor; what it is told is counted as past from then on. */
extern SfDemand sfi_dispense_take_demand(SfStorage storage);
extern void sfi_dispense_note_demand(SfStorage storage, uint32 nblocks);

/* ---- parked regions (parked.c) ---- */

/*
 * Take parked regions of a storage that may be given back: garbage, and those
 * of backends that have not claimed them for idle_ms.  Returns how many, at most max.
 * The caller has them then, and clears their lent bits.  Never throws.
 */
extern int	sfi_parked_collect(SfStorage storage, int idle_ms, SfRegion *regions, int max);

/* Idle for so long, a region that a backend has parked may be taken. */
#define SF_PARKED_IDLE_MS	1000
#define SF_PARKED_ANY_AGE	(-1000) /* also what has just been parked */

/* Forget those of storage that goes.  Never throws. */
extern void sfi_parked_forget(SfStorage storage);

#endif							/* SF_RESERVE_H */
