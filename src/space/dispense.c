/*-------------------------------------------------------------------------
 *
 * dispense.c
 *	  The in-memory dispenser: runs of blocks believed to be free, by segment
 *	  (SecureFiles paper: "in-memory dispenser").
 *
 * It holds hints.  The truth is the space map, and a run is checked there when
 * it is lent; so a slot may be evicted, go stale, or overflow without harm.
 *
 * Why hints are worth it: a map page is 8 KB for 16 MB of data, so a segment of 1 TB
 * has 64,000 of them.  To look for free space from the first page on for each value
 * would read them all once the segment is nearly full.  The dispenser is filled by a
 * scan (sfi_dispense_start()), by growth, and by what is left over of a run when part
 * of it is lent.
 *
 *	 scan, growth, rest of a run -> put -> [ runs of a segment ] -> take -> lend.c
 *														looks at the map page, then lends
 *
 * A run is taken out before it is looked at, so two backends never get the same one
 * from here.  Nobody puts back a run that has turned out not to be free.
 *
 * Which run is given, and which one is dropped when the list is full, depends on how
 * much of the segment is free:
 *
 * - less than a quarter: best fit, which keeps long runs whole for long values.  The
 *	 shortest run is dropped.
 * - a quarter or more: the lowest of the runs that have all that is wanted, so that the
 *	 end of the segment becomes free and is cut off.  If none has that, the lowest of the
 *	 longest ones: lengths between two powers of two are one class, and count as equal.
 *	 A value in many small pieces is slow to read for as long as it lives, so a longer
 *	 run is worth more than a lower one.  The highest run is dropped, of the shortest
 *	 class that has more than its share.
 *
 * Writers that always take the lowest run meet on one map page, whose lock a commit needs,
 * too.  So a process that takes turns with others prefers one of the next few map pages, by
 * its number (spread_pages()).
 *
 * The list of a segment is short (64 runs), so that a look through all of it under the
 * lock costs less than any ordered structure; and 256 segments at once get a list, which
 * is more than are written to at the same time in most clusters.  What a segment is known
 * for beside its runs (demand, cursors, share of free space, horizon) is lost with its slot:
 * the monitor then grows less ahead, a scan begins at the front, the fit is the best one,
 * and a resolver looks once more.
 *
 * Invariant S8: where a quarter is free, no run is given while the list has one of the same
 * class, or a higher one, further in front than the spread.
 *
 * One LWLock guards the table.  It is a leaf: it is held for a look through a slot,
 * and nothing else is waited for meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "space/lend.h"
#include "space/reserve.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#define DISPENSE_SEGMENTS	256
#define DISPENSE_RUNS		64
#define RECENT_HALF_LIFE_MS	60000
#define FULL_FOR_MS			2000

/*
 * Class k + 1 has the runs of 2^k blocks and more, up to twice as many; class 0 those that
 * have none before the end that counts.  A class that has no more than its share loses no
 * run: twelve shorter ones leave a quarter of the list to the longest at least.
 */
#define DISPENSE_CLASSES	14
#define CLASS_SHARE			4
#define ALL_WANTED			DISPENSE_CLASSES	/* above all classes */

/* Writers spread over so many map pages, or a sixteenth of the segment if that is less. */
#define SPREAD_PAGES		8
#define SPREAD_PART			16

/* The list is stale when so large a part of the segment was freed since the last scan in front. */
#define STALE_PART			16

StaticAssertDecl(SF_MAP_BLOCKS < 1 << (DISPENSE_CLASSES - 1), "a run has a class");
StaticAssertDecl(DISPENSE_RUNS >= DISPENSE_CLASSES * CLASS_SHARE,
				 "of a full list some class has more than its share");

typedef struct Dispenser
{
	bool		used;
	SfStorage	storage;
	uint64		last_used;		/* value of the clock */
	uint64		demand_blocks;	/* lent since the monitor looked */
	uint64		recent_blocks;	/* lent before that, fading */
	TimestampTz recent_since;	/* when they were halved last */
	uint64		horizon;		/* at which the queue was resolved last */
	uint32		cursor;			/* map page where the next scan starts that
								 * goes round */
	uint32		low;			/* lowest map page that may have free runs
								 * which the list has not */
	uint32		map_pages;		/* that scans have seen there to be */
	uint64		low_freed;		/* blocks freed since a scan began there, or
								 * one of all the map did */
	uint64		seen_blocks;	/* by scans, those of the past fading */
	uint64		seen_free;		/* of these, free ones */
	uint32		full_need;		/* blocks that nothing was found for; 0: it is
								 * not known to be full */
	TimestampTz full_since;
	SfUsage		full_usage;
	int			last_pid;		/* of whom a run was given to last */
	int			nruns;
	SfRegion	runs[DISPENSE_RUNS];
} Dispenser;

typedef struct DispenserTable
{
	LWLock		lock;
	uint64		clock;
	Dispenser	slots[DISPENSE_SEGMENTS];
} DispenserTable;

/* What a run is asked for. */
typedef struct Ask
{
	uint32		need;			/* blocks, at least */
	uint32		want;			/* more are of no use */
	uint64		end_block;		/* only blocks before it count */
} Ask;

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
best_fit(const Dispenser *slot, const Ask *ask)
{
	int			best = -1;

	for (int i = 0; i < slot->nruns; i++)
	{
		uint32		n = blocks_before(slot->runs[i], ask->end_block);
		uint32		best_n = best < 0 ? 0 : blocks_before(slot->runs[best], ask->end_block);

		if (n < ask->need)
			continue;
		if (best < 0 || (best_n < ask->want && n > best_n) || (n >= ask->want && n < best_n))
			best = i;
	}
	return best;
}

/* Is a quarter of the segment free, or more, as far as scans have seen? */
static bool
is_roomy(const Dispenser *slot)
{
	return slot->seen_free > 0 && slot->seen_free >= slot->seen_blocks / 4;
}

/* The class of a run, by its blocks before an end. */
static int
class_of(SfRegion run, uint64 end_block)
{
	uint32		n = blocks_before(run, end_block);

	return n == 0 ? 0 : pg_leftmost_one_pos32(n) + 1;
}

/* How well a run serves: ALL_WANTED, or its class; -1: it is too short. */
static int
rank_of(SfRegion run, const Ask *ask)
{
	uint32		n = blocks_before(run, ask->end_block);

	if (n < ask->need)
		return -1;
	return n >= ask->want ? ALL_WANTED : class_of(run, ask->end_block);
}

/* Index of the lowest run of the best rank, of those that begin at from_block or behind; or -1. */
static int
lowest_fit(const Dispenser *slot, const Ask *ask, uint64 from_block)
{
	int			best = -1;
	int			best_rank = -1;

	for (int i = 0; i < slot->nruns; i++)
	{
		int			rank = rank_of(slot->runs[i], ask);

		if (rank < 0 || slot->runs[i].start_block < from_block || rank < best_rank ||
			(rank == best_rank && slot->runs[i].start_block > slot->runs[best].start_block))
			continue;
		best = i;
		best_rank = rank;
	}
	return best;
}

static uint32
spread_pages(const Dispenser *slot)
{
	return Min(SPREAD_PAGES, 1 + slot->map_pages / SPREAD_PART);
}

/* S8 of a run that is to be given. */
static bool
is_low(const Dispenser *slot, const Ask *ask, int chosen)
{
	int			rank = rank_of(slot->runs[chosen], ask);
	uint32		map = sf_map_of_block(slot->runs[chosen].start_block);

	for (int i = 0; i < slot->nruns; i++)
		if (rank_of(slot->runs[i], ask) > rank ||
			(rank_of(slot->runs[i], ask) == rank &&
			 sf_map_of_block(slot->runs[i].start_block) + spread_pages(slot) <= map))
			return false;
	return rank >= 0;
}

/*
 * Index of the run to be given where much is free, or -1.  A process that gets all runs gets
 * the lowest: processes spread only where another one came in between.
 */
static int
low_fit(Dispenser *slot, const Ask *ask)
{
	int			best = lowest_fit(slot, ask, 0);

	if (best >= 0 && slot->last_pid != MyProcPid)
	{
		uint32		spread = spread_pages(slot);
		uint32		map = sf_map_of_block(slot->runs[best].start_block);
		uint32		own = map + MyProcPid % spread;
		int			other = lowest_fit(slot, ask, sf_map_first_block(own));

		if (other >= 0 && rank_of(slot->runs[other], ask) == rank_of(slot->runs[best], ask) &&
			sf_map_of_block(slot->runs[other].start_block) < map + spread)
			best = other;
	}
	slot->last_pid = MyProcPid;
	if (SF_BREAKS(s8))
		best = slot->nruns - 1;
	SF_INVARIANT(S8, best < 0 || is_low(slot, ask, best));
	return best;
}

/*
 * Would a scan in front find lower runs than this one?  Worth it when so much was freed since
 * the last one that its cost, all pages of the map at most, is small beside that of the freeing.
 */
static bool
is_outdone(const Dispenser *slot, int chosen)
{
	SF_ASSERT(chosen >= 0 && chosen < slot->nruns);
	return is_roomy(slot) && slot->low_freed >= slot->seen_blocks / STALE_PART &&
		slot->low < sf_map_of_block(slot->runs[chosen].start_block);
}

bool
sfi_dispense_take(SfStorage storage, uint32 need, uint32 want, uint64 end_block, SfRegion *run)
{
	const Ask	ask = {need, want, end_block};
	Dispenser  *slot = lock_dispenser(storage, false);
	int			i = -1;

	SF_ASSERT(need > 0 && need <= want && (slot == NULL || dispenser_is_valid(slot)));
	if (slot != NULL)
		i = is_roomy(slot) ? low_fit(slot, &ask) : best_fit(slot, &ask);
	if (i >= 0 && end_block == SF_NO_END && is_outdone(slot, i))
		i = -1;
	if (i >= 0)
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
 * Index of the run to be dropped where less than a quarter is free: the shortest.  slot->nruns
 * stands for a new run, here and below.
 */
static int
shortest(const Dispenser *slot, SfRegion run, uint64 end_block)
{
	int			least = slot->nruns;

	for (int i = 0; i < slot->nruns; i++)
		if (blocks_before(slot->runs[i], end_block) <
			blocks_before(least == slot->nruns ? run : slot->runs[least], end_block))
			least = i;
	return least;
}

/* The same where more is free: the highest of the shortest class that has too many. */
static int
highest_of_many(const Dispenser *slot, SfRegion run, uint64 end_block)
{
	int			count[DISPENSE_CLASSES] = {0};
	int			class = 0;
	int			dropped = -1;
	uint64		start = 0;

	for (int i = 0; i <= slot->nruns; i++)
		count[class_of(i == slot->nruns ? run : slot->runs[i], end_block)]++;
	while (count[class] <= (class == 0 ? 0 : CLASS_SHARE))
		class++;
	for (int i = 0; i <= slot->nruns; i++)
	{
		SfRegion	known = i == slot->nruns ? run : slot->runs[i];

		if (class_of(known, end_block) != class || (dropped >= 0 && known.start_block < start))
			continue;
		dropped = i;
		start = known.start_block;
	}
	SF_ASSERT(dropped >= 0 && class < DISPENSE_CLASSES);
	return dropped;
}

/* Add a run to a full list; a run is dropped, which a scan from its map page on finds again. */
static void
replace(Dispenser *slot, SfRegion run, uint64 end_block)
{
	int			i = is_roomy(slot) ? highest_of_many(slot, run, end_block) :
		shortest(slot, run, end_block);
	SfRegion	dropped = i == slot->nruns ? run : slot->runs[i];

	SF_ASSERT(slot->nruns == DISPENSE_RUNS);
	if (i < slot->nruns)
		slot->runs[i] = run;
	slot->low = Min(slot->low, sf_map_of_block(dropped.start_block));
}

/*
 * Of a run that is known already the news is its length: a scan found more or less of
 * it than the last one did.
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
		replace(slot, run, end_block);
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
 * There are two cursors.  One goes round: backends that scan at the same time look at different
 * parts of the map, and every page has its turn, whatever happens in front.  It only rises; the
 * remainder by the number of map pages there are now is where it stands.
 *
 * The other one is for segments of which much is free.  It rises, too, but falls back to where
 * something was freed, or dropped from the list; behind the last page it rests.  So the front is
 * looked at again when that is of use, and only then.
 */
uint32
sfi_dispense_start(SfStorage storage, uint32 nscan, uint32 npages, bool *at_low)
{
	uint32		start;
	Dispenser  *slot;

	SF_ASSERT(nscan > 0 && nscan <= npages);
	slot = lock_dispenser(storage, true);
	slot->map_pages = npages;
	*at_low &= is_roomy(slot) && slot->low < npages;

	/*
	 * one that goes round from somewhere else does not see what is free in
	 * front
	 */
	if (*at_low || nscan == npages)
		slot->low_freed = 0;
	if (*at_low)
	{
		start = slot->low;
		slot->low += nscan;
	}
	else
	{
		start = slot->cursor % npages;
		slot->cursor = start + nscan;
	}
	LWLockRelease(&dispensers->lock);
	return start;
}

/* The share that is free rises at once; the next scans put it right if they see less. */
void
sfi_dispense_note_freed(SfStorage storage, uint32 map, uint64 blocks)
{
	Dispenser  *slot = lock_dispenser(storage, false);

	if (slot != NULL)
	{
		slot->low = Min(slot->low, map);
		slot->low_freed += blocks;
		slot->seen_free = Min(slot->seen_blocks, slot->seen_free + blocks);
		slot->full_need = 0;
	}
	LWLockRelease(&dispensers->lock);
}

/* A scan of all there is replaces what is known; others are added to half of it. */
void
sfi_dispense_note_seen(SfStorage storage, uint64 blocks, uint64 free_blocks, bool all)
{
	Dispenser  *slot = lock_dispenser(storage, true);

	SF_ASSERT(free_blocks <= blocks);
	slot->seen_blocks = (all ? 0 : slot->seen_blocks / 2) + blocks;
	slot->seen_free = (all ? 0 : slot->seen_free / 2) + free_blocks;
	LWLockRelease(&dispensers->lock);
}

bool
sfi_dispense_may_be_roomy(SfStorage storage)
{
	Dispenser  *slot = lock_dispenser(storage, false);
	bool		may_be = slot == NULL || slot->seen_blocks == 0 || is_roomy(slot);

	LWLockRelease(&dispensers->lock);
	return may_be;
}

void
sfi_dispense_note_full(SfStorage storage, uint32 need, const SfUsage *usage)
{
	TimestampTz now = GetCurrentTimestamp();
	Dispenser  *slot = lock_dispenser(storage, true);

	SF_ASSERT(need > 0);
	slot->full_need = need;
	slot->full_since = now;
	slot->full_usage = *usage;
	LWLockRelease(&dispensers->lock);
}

void
sfi_dispense_note_returned(SfStorage storage)
{
	Dispenser  *slot = lock_dispenser(storage, false);

	if (slot != NULL)
		slot->full_need = 0;
	LWLockRelease(&dispensers->lock);
}

bool
sfi_dispense_is_full(SfStorage storage, uint32 need, SfUsage *usage)
{
	TimestampTz now = GetCurrentTimestamp();
	Dispenser  *slot = lock_dispenser(storage, false);
	bool		full = slot != NULL && slot->full_need != 0 && need >= slot->full_need &&
		!TimestampDifferenceExceeds(slot->full_since, now, FULL_FOR_MS);

	if (full)
		*usage = slot->full_usage;
	LWLockRelease(&dispensers->lock);
	return full;
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
