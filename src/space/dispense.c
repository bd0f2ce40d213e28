/*-------------------------------------------------------------------------
 *
 * dispense.c
 *	  The in-memory dispenser: runs of blocks believed to be free, by segment,
 *	  best fit first (SecureFiles paper: "in-memory dispenser").
 *
 * It holds hints.  The truth is the space map, and a run is checked there when
 * it is lent; so a slot may be evicted, go stale, or overflow without harm.
 *
 * Why hints are worth it: a map page is 8 KB for 16 MB of data, so a segment of 1 TB
 * has 64,000 of them.  To look for free space from the first page on for each value
 * would read them all once the segment is nearly full.  The dispenser is filled by a
 * scan that goes round (sfi_dispense_cursor()), by growth, and by what is left over of
 * a run when part of it is lent.
 *
 *	 scan, growth, rest of a run -> put -> [ runs of a segment ] -> take -> lend.c
 *														looks at the map page, then lends
 *
 * A run is taken out before it is looked at, so two backends never get the same one
 * from here.  Nobody puts back a run that has turned out not to be free.
 *
 * Best fit keeps long runs whole for long values.  The list of a segment is short
 * (64 runs), so that a look through all of it under the lock costs less than any
 * ordered structure; and 256 segments at once get a list, which is more than are
 * written to at the same time in most clusters.  What a segment is known for beside
 * its runs (demand, cursor, horizon) is lost with its slot: the monitor then grows
 * less ahead, a scan begins at the front, and a resolver looks once more.
 *
 * One LWLock guards the table.  It is a leaf: it is held for a look through a slot,
 * and nothing else is waited for meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/lend.h"
#include "space/reserve.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#define DISPENSE_SEGMENTS	256
#define DISPENSE_RUNS		64
#define RECENT_HALF_LIFE_MS	60000

typedef struct Dispenser
{
	bool		used;
	SfStorage	storage;
	uint64		last_used;		/* value of the clock */
	uint64		demand_blocks;	/* lent since the monitor looked */
	uint64		recent_blocks;	/* lent before that, fading */
	TimestampTz recent_since;	/* when they were halved last */
	uint64		horizon;		/* at which the queue was resolved last */
	uint32		cursor;			/* map page where the next scan starts */
	int			nruns;
	SfRegion	runs[DISPENSE_RUNS];
} Dispenser;

typedef struct DispenserTable
{
	LWLock		lock;
	uint64		clock;
	Dispenser	slots[DISPENSE_SEGMENTS];
} DispenserTable;

static DispenserTable *dispensers;

const SfSharedArea sf_space_dispenser_area = {
	.name = "securefile dispenser", .at = (void **) &dispensers,
	.bytes = sizeof(DispenserTable), .lock = "securefile_dispenser"
};

/* Do the runs of a slot keep to what sfi_dispense_take() promises of them? */
static bool
dispenser_is_valid(const Dispenser *slot)
{
	if (!slot->used || slot->nruns < 0 || slot->nruns > DISPENSE_RUNS)
		return false;
	for (int i = 0; i < slot->nruns; i++)
	{
		const SfRegion *run = &slot->runs[i];

		if (run->nblocks == 0 || sf_map_of_block(run->start_block) !=
			sf_map_of_block(run->start_block + run->nblocks - 1))
			return false;
	}
	return true;
}

/*
 * Lock the table, and find the slot of a segment; with make, the least recently used is taken
 * over.  Ages are values of a clock that rises with each use: a time of day would tell two
 * uses in one millisecond for the same age.
 */
static Dispenser *
lock_dispenser(SfStorage storage, bool make)
{
	Dispenser  *oldest = &dispensers->slots[0];

	SF_ASSERT(!LWLockHeldByMe(&dispensers->lock));
	LWLockAcquire(&dispensers->lock, LW_EXCLUSIVE);
	for (int i = 0; i < DISPENSE_SEGMENTS; i++)
	{
		Dispenser  *slot = &dispensers->slots[i];

		if (slot->used && SfStorageEquals(slot->storage, storage))
		{
			slot->last_used = ++dispensers->clock;
			return slot;
		}
		if (slot->last_used < oldest->last_used)
			oldest = slot;
	}
	if (!make)
		return NULL;
	memset(oldest, 0, sizeof(*oldest));
	oldest->used = true;
	oldest->storage = storage;
	oldest->last_used = ++dispensers->clock;
	return oldest;
}

/* How many blocks of a run lie before a block. */
static uint32
blocks_before(SfRegion run, uint64 end_block)
{
	return run.start_block >= end_block ? 0 : Min(run.nblocks, end_block - run.start_block);
}

/*
 * Index of the run with the fewest blocks before end_block, but at least want; else of the
 * one with the most, but at least need; else -1.
 */
static int
best_fit(const Dispenser *slot, uint32 need, uint32 want, uint64 end_block)
{
	int			best = -1;

	SF_ASSERT(need > 0 && dispenser_is_valid(slot));
	for (int i = 0; i < slot->nruns; i++)
	{
		uint32		n = blocks_before(slot->runs[i], end_block);
		uint32		best_n = best < 0 ? 0 : blocks_before(slot->runs[best], end_block);

		if (n < need)
			continue;
		if (best < 0 || (best_n < want && n > best_n) || (n >= want && n < best_n))
			best = i;
	}
	return best;
}

bool
sfi_dispense_take(SfStorage storage, uint32 need, uint32 want, uint64 end_block, SfRegion *run)
{
	Dispenser  *slot = lock_dispenser(storage, false);
	int			i = -1;

	if (slot != NULL && (i = best_fit(slot, need, want, end_block)) >= 0)
	{
		SfRegion   *known = &slot->runs[i];

		*run = *known;
		run->nblocks = blocks_before(*known, end_block);
		known->start_block += run->nblocks;
		known->nblocks -= run->nblocks;
		if (known->nblocks == 0)
			*known = slot->runs[--slot->nruns];
		SF_ASSERT(run->nblocks >= need && dispenser_is_valid(slot));
	}
	LWLockRelease(&dispensers->lock);
	return i >= 0;
}

/* The run known to start at that block, or NULL. */
static SfRegion *
known_run(Dispenser *slot, uint64 start_block)
{
	for (int i = 0; i < slot->nruns; i++)
		if (slot->runs[i].start_block == start_block)
			return &slot->runs[i];
	return NULL;
}

/*
 * Of a run that is known already the news is its length: a scan found more or less of
 * it than the last one did.  When the list is full, long runs are worth more.
 */
void
sfi_dispense_put(SfStorage storage, SfRegion run, uint64 end_block)
{
	Dispenser  *slot;
	SfRegion   *known;

	SF_ASSERT(run.nblocks > 0 && run.start_block % SF_MAP_BLOCKS + run.nblocks <= SF_MAP_BLOCKS);
	slot = lock_dispenser(storage, true);
	if ((known = known_run(slot, run.start_block)) != NULL)
		known->nblocks = run.nblocks;
	else if (slot->nruns < DISPENSE_RUNS)
		slot->runs[slot->nruns++] = run;
	else
	{
		int			smallest = 0;

		for (int i = 1; i < slot->nruns; i++)
			if (blocks_before(slot->runs[i], end_block) <
				blocks_before(slot->runs[smallest], end_block))
				smallest = i;
		if (blocks_before(slot->runs[smallest], end_block) < blocks_before(run, end_block))
			slot->runs[smallest] = run;
	}
	SF_ASSERT(dispenser_is_valid(slot));
	LWLockRelease(&dispensers->lock);
}

void
sfi_dispense_forget(SfStorage storage)
{
	Dispenser  *slot;

	/* the end of a transaction in a process without shared memory */
	if (dispensers == NULL)
		return;
	slot = lock_dispenser(storage, false);
	if (slot != NULL)
		memset(slot, 0, sizeof(*slot));
	LWLockRelease(&dispensers->lock);
}

void
sfi_dispense_note_demand(SfStorage storage, uint32 nblocks)
{
	SF_ASSERT(nblocks > 0 && nblocks <= SF_MAP_BLOCKS);
	lock_dispenser(storage, true)->demand_blocks += nblocks;
	LWLockRelease(&dispensers->lock);
}

/*
 * Halve what was lent in the past, once a minute.  Nobody calls this every minute, so
 * it makes up for the minutes that have passed; and it ends at zero, when there is
 * nothing left to halve, so that an idle segment does not count from years ago.
 */
static void
fade(Dispenser *slot, TimestampTz now)
{
	SF_ASSERT(LWLockHeldByMeInMode(&dispensers->lock, LW_EXCLUSIVE));
	while (slot->recent_blocks > 0 &&
		   TimestampDifferenceExceeds(slot->recent_since, now, RECENT_HALF_LIFE_MS))
	{
		slot->recent_blocks /= 2;
		slot->recent_since = TimestampTzPlusMilliseconds(slot->recent_since, RECENT_HALF_LIFE_MS);
	}
	if (slot->recent_blocks == 0)
		slot->recent_since = now;
}

/*
 * What was lent since the last call becomes part of the past.  The monitor alone calls
 * this, so that "since the last call" means "since its last visit".
 */
SfDemand
sfi_dispense_take_demand(SfStorage storage)
{
	TimestampTz now = GetCurrentTimestamp();
	SfDemand	demand = {0};
	Dispenser  *slot = lock_dispenser(storage, false);

	if (slot != NULL)
	{
		fade(slot, now);
		demand.latest_blocks = slot->demand_blocks;
		slot->recent_blocks += slot->demand_blocks;
		slot->demand_blocks = 0;
		demand.recent_blocks = slot->recent_blocks;
	}
	LWLockRelease(&dispensers->lock);
	return demand;
}

/*
 * Backends that scan at the same time look at different parts of the map.  The number
 * only rises; the caller takes the remainder by the number of map pages there are now.
 */
uint32
sfi_dispense_cursor(SfStorage storage, uint32 npages)
{
	uint32		cursor;
	Dispenser  *slot;

	SF_ASSERT(npages > 0);
	slot = lock_dispenser(storage, true);
	cursor = slot->cursor;
	slot->cursor += npages;
	LWLockRelease(&dispensers->lock);
	return cursor;
}

/* A segment that has no slot has not been asked about: it is worth a look. */
bool
sfi_dispense_worth_resolving(SfStorage storage, uint64 horizon)
{
	Dispenser  *slot = lock_dispenser(storage, false);
	bool		worth = slot == NULL || slot->horizon != horizon;

	LWLockRelease(&dispensers->lock);
	return worth;
}

void
sfi_dispense_note_resolved(SfStorage storage, uint64 horizon)
{
	lock_dispenser(storage, true)->horizon = horizon;
	LWLockRelease(&dispensers->lock);
}
