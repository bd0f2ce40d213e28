/*-------------------------------------------------------------------------
 *
 * dispense.c
 *	  The in-memory dispenser: runs of blocks believed to be free, by segment,
 *	  best fit first (SecureFiles paper: "in-memory dispenser").
 *
 * It holds hints.  The truth is the space map, and a run is checked there when
 * it is lent; so a slot may be evicted, go stale, or overflow without harm.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/reserve.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
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

static DispenserTable *table;

Size
sfi_dispense_shmem_size(void)
{
	return sizeof(DispenserTable);
}

void
sfi_dispense_shmem_init(void)
{
	bool		found;

	table = ShmemInitStruct("securefile dispenser", sizeof(DispenserTable), &found);
	if (!found)
	{
		int			tranche = LWLockNewTrancheId();

		memset(table, 0, sizeof(DispenserTable));
		LWLockRegisterTranche(tranche, "securefile_dispenser");
		LWLockInitialize(&table->lock, tranche);
	}
}

/* The slot of a segment; with make, the least recently used is taken over. */
static Dispenser *
find_slot(SfStorage storage, bool make)
{
	Dispenser  *oldest = &table->slots[0];

	SF_ASSERT(LWLockHeldByMeInMode(&table->lock, LW_EXCLUSIVE));
	for (int i = 0; i < DISPENSE_SEGMENTS; i++)
	{
		Dispenser  *slot = &table->slots[i];

		if (slot->used && SfStorageEquals(slot->storage, storage))
		{
			slot->last_used = ++table->clock;
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
	oldest->last_used = ++table->clock;
	return oldest;
}

/*
 * Index of the smallest run of at least want blocks, else of the largest of
 * at least need, else -1.
 */
static int
best_fit(const Dispenser *slot, uint32 need, uint32 want)
{
	int			best = -1;

	for (int i = 0; i < slot->nruns; i++)
	{
		uint32		n = slot->runs[i].nblocks;
		uint32		best_n = best < 0 ? 0 : slot->runs[best].nblocks;

		if (n < need)
			continue;
		if (best < 0 || (best_n < want && n > best_n) || (n >= want && n < best_n))
			best = i;
	}
	return best;
}

/* Take the run that fits best out of the dispenser. */
bool
sfi_dispense_take(SfStorage storage, uint32 need, uint32 want, SfRegion *run)
{
	Dispenser  *slot;
	int			i = -1;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot = find_slot(storage, false);
	if (slot != NULL && (i = best_fit(slot, need, want)) >= 0)
	{
		*run = slot->runs[i];
		slot->runs[i] = slot->runs[--slot->nruns];
	}
	LWLockRelease(&table->lock);
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
 * Put a run in; when full, it takes the place of a smaller one.  Of a run that
 * is known already the news is its length.
 */
void
sfi_dispense_put(SfStorage storage, SfRegion run)
{
	Dispenser  *slot;
	SfRegion   *known;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot = find_slot(storage, true);
	if ((known = known_run(slot, run.start_block)) != NULL)
		known->nblocks = run.nblocks;
	else if (slot->nruns < DISPENSE_RUNS)
		slot->runs[slot->nruns++] = run;
	else
	{
		int			smallest = 0;

		for (int i = 1; i < slot->nruns; i++)
			if (slot->runs[i].nblocks < slot->runs[smallest].nblocks)
				smallest = i;
		if (slot->runs[smallest].nblocks < run.nblocks)
			slot->runs[smallest] = run;
	}
	LWLockRelease(&table->lock);
}

void
sfi_dispense_forget(SfStorage storage)
{
	Dispenser  *slot;

	if (table == NULL)
		return;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot = find_slot(storage, false);
	if (slot != NULL)
		memset(slot, 0, sizeof(*slot));
	LWLockRelease(&table->lock);
}

void
sfi_dispense_note_demand(SfStorage storage, uint32 nblocks)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	find_slot(storage, true)->demand_blocks += nblocks;
	LWLockRelease(&table->lock);
}

/* Halve what was lent in the past, once a minute. */
static void
fade(Dispenser *slot, TimestampTz now)
{
	while (slot->recent_blocks > 0 &&
		   TimestampDifferenceExceeds(slot->recent_since, now, RECENT_HALF_LIFE_MS))
	{
		slot->recent_blocks /= 2;
		slot->recent_since = TimestampTzPlusMilliseconds(slot->recent_since, RECENT_HALF_LIFE_MS);
	}
	if (slot->recent_blocks == 0)
		slot->recent_since = now;
}

SfDemand
sfi_dispense_take_demand(SfStorage storage)
{
	TimestampTz now = GetCurrentTimestamp();
	SfDemand	demand = {0};
	Dispenser  *slot;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot = find_slot(storage, false);
	if (slot != NULL)
	{
		fade(slot, now);
		demand.latest_blocks = slot->demand_blocks;
		slot->recent_blocks += slot->demand_blocks;
		slot->demand_blocks = 0;
		demand.recent_blocks = slot->recent_blocks;
	}
	LWLockRelease(&table->lock);
	return demand;
}

uint32
sfi_dispense_cursor(SfStorage storage, uint32 npages)
{
	uint32		cursor;
	Dispenser  *slot;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot = find_slot(storage, true);
	cursor = slot->cursor;
	slot->cursor += npages;
	LWLockRelease(&table->lock);
	return cursor;
}

bool
sfi_dispense_worth_resolving(SfStorage storage, uint64 horizon)
{
	Dispenser  *slot;
	bool		worth;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	slot = find_slot(storage, false);
	worth = slot == NULL || slot->horizon != horizon;
	LWLockRelease(&table->lock);
	return worth;
}

void
sfi_dispense_note_resolved(SfStorage storage, uint64 horizon)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	find_slot(storage, true)->horizon = horizon;
	LWLockRelease(&table->lock);
}
