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
 * Grow unless another did since total_sectors was seen; waits for one that does.  want_blocks
 * (at most SF_MAP_BLOCKS) will lie side by side; where the column's limit is near, fewer, but
 * at least need_blocks.  at_once_sectors: ahead_sectors of SfWant.  Returns the sectors that
 * there are now.
 *
 * made: the want_blocks that this call has made, of which the dispenser is not told; 0 blocks
 * when another grew, or, with as many sectors as were seen, when the limit leaves no room.  They
 * are not lent: a scan may find them, too.  NULL: the dispenser is told of all, and no limit
 * counts.
 */
extern uint64 sfi_grow(SfSegment *seg, Relation rel, uint64 seen_total_sectors, uint32 need_blocks,
					   uint32 want_blocks, uint64 at_once_sectors, SfRegion *made);

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
 * slack: what a cut leaves of a segment with so many sectors.  cut_end: where the segment
 * ends after a cut, if what lies behind tail is free.
 */
extern uint64 sfi_grow_slack_sectors(uint64 total);
extern uint64 sfi_grow_cut_end(uint64 tail, uint64 slack);

/*
 * Fill up data files that end before the segment does, where nothing is in use or
 * lent in what is missing.  Takes the growth lock, and may wait for it.  ERROR
 * when the disk is full.
 */
extern void sfi_grow_fill_up(SfSegment *seg, Relation rel);

/* Clear the lent bits of blocks, page by page.  No map page is locked before.  DATA_CORRUPTED. */
extern void sfi_take_back_blocks(Relation rel, uint64 start_block, uint64 end_block);

/* ---- the limit of a column (quota.c, full.c) ---- */

/*
 * pages: how many count of a segment relation whose data files have so many sectors.
 * sectors: how many the column's limit leaves for the data files; SF_MAX_SECTORS without a limit.
 * has_pages: may that many pages be made besides?  Both ask the catalog: no page is locked.
 */
extern uint64 sfi_quota_pages(const SfHeader *h, uint64 sectors);
extern uint64 sfi_quota_sectors(SfSegment *seg, Relation rel);
extern bool sfi_quota_has_pages(SfSegment *seg, Relation rel, int n);

/*
 * refuse: CONFIGURATION_LIMIT_EXCEEDED; all of the map was looked through for need_blocks.
 * refuse_again: the same if that was so, and remembered, a moment ago, and nothing was freed since.
 */
SF_NORETURN extern void sfi_full_refuse(SfSegment *seg, uint32 need_blocks, bool remember);
extern void sfi_full_refuse_again(SfSegment *seg, uint32 need_blocks);

/* ---- lending (lend.c) ---- */

#define SF_SCAN_PAGES		1024	/* map pages looked at in one scan: 16 GB
									 * of data */

/* How many pages that is here: tests have it made two. */
extern uint32 sfi_lend_scan_pages(void);

/* An end_block: blocks may lie anywhere. */
#define SF_NO_END			sf_block_of(SF_NO_BOUND)

/* A scan: what it looks for, and what it has found. */
typedef struct SfScan
{
	uint32		need;			/* blocks of a run, at least */
	uint32		want;			/* more are of no use */
	uint64		end_block;		/* only blocks before it count */
	uint32		from;			/* map page; SF_NO_PAGE: see
								 * sfi_dispense_start() */
	bool		at_low;			/* asked of that */
	uint32		enough;			/* ends behind a page with which so many runs
								 * of need blocks were found; 0: never */

	uint32		npages;			/* map pages looked at, SF_SCAN_PAGES at most */
	uint32		nruns;			/* of need blocks, on these */
	uint64		free_blocks;	/* on them, in runs of any length */
	SfRegion	best;			/* the first run of want blocks, else the
								 * longest of need; 0 blocks: none */
} SfScan;

/*
 * scan: refill the dispenser from the map with free runs of at least need blocks.  What it has
 * found itself stays with the caller: the list of the dispenser may have dropped it.
 * collect: give back what is parked and idle for so long, a few at a time; false when there
 * was nothing.  No page is locked before.
 */
extern void sfi_lend_scan(SfSegment *seg, Relation rel, uint64 total_sectors, SfScan *scan);
extern bool sfi_lend_collect(SfSegment *seg, Relation rel, int idle_ms);

/* ---- proved space (proved.c): free blocks that the monitor may release ---- */

/*
 * None of these throws; each takes an LWLock for a moment, and does nothing without preload.
 *
 * note: the used bits of a range are cleared, all of which were set.  content is the map page
 * before that; it is locked exclusively, as of forget: blocks of it that are marked lent.
 * get: the bits of the blocks of a map page (SF_MAP_BLOCKS / 8 bytes); false: nothing is known.
 * blocks: how many of a storage are known.
 * forget_storage: all of it.  refuse: the same, and from now on nothing is noted of it.
 */
extern void sfi_proved_note(SfStorage storage, uint32 map, const SfMap *content, SfMapRange range);
extern void sfi_proved_forget(SfStorage storage, uint32 map, uint32 first, uint32 count);
extern bool sfi_proved_get(SfStorage storage, uint32 map, uint8 *blocks);
extern uint64 sfi_proved_blocks(SfStorage storage);
extern void sfi_proved_forget_storage(SfStorage storage);
extern void sfi_proved_refuse(SfStorage storage);

/* ---- dispenser (dispense.c): hints, never truth ---- */

/*
 * None of these throws; each takes the dispenser's LWLock for a moment.  Do not call them
 * with that lock or in a critical section.
 *
 * take: a run of at least want blocks, else the longest of at least need, or nearly; it is
 * taken out.  Where a quarter of the segment is free, the lowest such run (S8).  Of a run that
 * goes beyond end_block the blocks before it count, and the others stay.
 * put: a run believed free, on one map page; may be forgotten.  When there is no room, what
 * runs have before end_block counts.
 * forget: all of a storage, when that goes.
 */
extern bool sfi_dispense_take(SfStorage storage, uint32 need, uint32 want, uint64 end_block,
							  SfRegion *run);
extern void sfi_dispense_put(SfStorage storage, SfRegion run, uint64 end_block);
extern void sfi_dispense_forget(SfStorage storage);

/*
 * The map page where a scan of nscan pages starts, of npages that there are.  at_low: in front,
 * where something may be free that is not in the list, if much of the segment is free; is made
 * false where the scan begins where the last one stopped.
 *
 * note_freed: so many blocks of that map page, and of higher ones, have become free.
 * note_seen: how many blocks a scan has seen, and how many free ones; all: there are no others.
 * may_be_roomy: is a quarter of the segment free, or more, or is that not known?
 */
extern uint32 sfi_dispense_start(SfStorage storage, uint32 nscan, uint32 npages, bool *at_low);
extern void sfi_dispense_note_freed(SfStorage storage, uint32 map, uint64 blocks);
extern void sfi_dispense_note_seen(SfStorage storage, uint64 blocks, uint64 free_blocks, bool all);
extern bool sfi_dispense_may_be_roomy(SfStorage storage);

/*
 * Was the queue resolved at this very horizon already?  Then there is nothing
 * to be had from it; note_resolved says so.
 */
extern bool sfi_dispense_worth_resolving(SfStorage storage, uint64 horizon);
extern void sfi_dispense_note_resolved(SfStorage storage, uint64 horizon);

/*
 * note_full: at its limit the segment has no run of need blocks, and this is its usage.
 * note_returned: a lent region of it is free again.
 * is_full: was it full for as many blocks or fewer not long ago, and has become nothing free since?
 */
extern void sfi_dispense_note_returned(SfStorage storage);
extern void sfi_dispense_note_full(SfStorage storage, uint32 need, const SfUsage *usage);
extern bool sfi_dispense_is_full(SfStorage storage, uint32 need, SfUsage *usage);

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
