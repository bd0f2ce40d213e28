/*-------------------------------------------------------------------------
 *
 * lend.h
 *	  Blocks that are lent to a backend, and what a transaction says of them:
 *	  entries of the pending queue, and data in WAL.
 *
 * Audience: write/, which fills the blocks; check/, which has them freed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_LEND_H
#define SF_LEND_H

#include "base/shared.h"
#include "space/space.h"

/* ---- lending: blocks for this backend's use, known in memory only ---- */

/* A contiguous lent region; never crosses a space-map page (16 MB). */
typedef struct SfRegion
{
	uint64		start_block;
	uint32		nblocks;
} SfRegion;

/* What a region is wanted for. */
typedef struct SfWant
{
	uint32		need_blocks;	/* at least so many; 1 to SF_MAP_BLOCKS */
	uint32		most_blocks;	/* no more than that, unless they are needed */
	uint64		ahead_sectors;	/* known to be written and flushed at once */
	uint32		step_blocks;	/* what nobody knows a use for: no more than a
								 * quarter of the segment */
} SfWant;

/*
 * Lend a region, which ends at or before below_sector (S7).  With SF_NO_BOUND the segment
 * grows if free space does not serve; ahead_sectors tells how.  Else it never grows: a region
 * of 0 blocks says that no free run below the bound was found.  What backends have lent or
 * parked is not free.  The WAL that freed the blocks is durable when this returns (rule 2).
 * ERROR DISK_FULL; CONFIGURATION_LIMIT_EXCEEDED when the column has reached its limit.
 */
#define SF_NO_BOUND		PG_UINT64_MAX
extern SfRegion sf_space_lend(SfSegment *seg, const SfWant *want, uint64 below_sector);

/*
 * Give lent blocks back; those in use stay in use, of course.  Nothing may be
 * in flight to them.  Inside a transaction; does nothing when the storage has
 * been replaced.
 */
extern void sf_space_take_back(SfSegment *seg, SfRegion region);

/*
 * Parked regions: what a backend keeps lent between transactions, known to all so that
 * it can be taken from an idle backend, or from one that is gone.
 *
 * park: leave a region idle; owned: this backend may claim it again (else it
 * is garbage, to be given back by the next process).  Never throws; returns
 * false when the table is full (the region stays lent until the next start).
 * claim: take back one parked region of this backend in that storage.  A process that parks
 * has claimed before: then it is prepared that at its exit what it parked becomes garbage.
 */
extern bool sf_space_park(SfStorage storage, SfRegion region, uint32 next_block, bool owned);
extern bool sf_space_claim_parked(SfStorage storage, SfRegion *region, uint32 *next_block);

/* ---- facts of a transaction ---- */

/*
 * Write pending entries of the current transaction, and for SF_PEND_ALLOC set the bits of the
 * run in the same record (rule 1): as many of the first ones as a record takes; how many is
 * returned.  fxid: the top-level one (rule 3), or that of a subtransaction, not above
 * the current one.  kinds: SF_PEND_ALLOC, SF_PEND_FREE, SF_PEND_FREE_PAGE, and the two .._NOW.
 * start/count as in SfPendEntry.  An ERROR means that nothing was written.
 */
extern int	sf_space_log_some(SfSegment *seg, SfPendKind kind, uint64 fxid,
							  const SfRun *runs, int nruns);

/*
 * Data records of a logging column: nsectors of bytes at data, which lie on disk already, or
 * are on their way with checkpoints held up.  Does nothing where wal_level is minimal.
 */
extern void sf_space_log_data(SfSegment *seg, uint64 start_sector,
							  const char *data, uint32 nsectors);

extern const SfSharedArea sf_space_parked_area;
extern const SfSharedArea sf_space_dispenser_area;
extern const SfSharedArea sf_space_proved_area;

#endif							/* SF_LEND_H */
