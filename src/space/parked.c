/*-------------------------------------------------------------------------
 *
 * parked.c
 *	  Regions that stay lent between transactions, in shared memory.
 *
 * A backend that ends a transaction with room left in its region parks it
 * here and claims it at its next write, so that single-row commits lie side by
 * side.  Because the table is shared, space that an idle backend keeps can be
 * taken when it is needed, and what an aborted or ended backend could not give
 * back itself is given back by the next backend.
 *
 *					  park, owned							claim (its owner)
 *	 lent to a backend ---------> idle, of that backend ---------------> lent to it
 *			|						  |			|
 *			| park, not owned		  | disown	| collect, when it is idle for long
 *			v						  v			v
 *			garbage <-----------------+		given back: lent bits are cleared
 *			|									^
 *			+------------ collect --------------+
 *
 * The process that takes an entry out of the table is the only one that has the region, so
 * the lock is needed for the table alone, and map pages are changed without it.
 *
 * Garbage is what an abort leaves: it may not touch pages, since it must not fail.  The
 * next one that looks for space, or the monitor, gives it back.
 *
 * If the table is full, or the server goes down, the region stays lent until the next
 * start, which gives all lent blocks back (map.c).  That costs space, never data.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/reserve.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

typedef struct ParkedRegion
{
	bool		used;
	int			owner_pid;		/* 0: nobody's, to be given back */
	uint32		next_block;		/* first one not written yet, from the start */
	TimestampTz since;			/* parked */
	SfStorage	storage;
	SfRegion	region;
} ParkedRegion;

typedef struct ParkedTable
{
	LWLock		lock;
	int			high;			/* entries at and above were never used */
	ParkedRegion entries[FLEXIBLE_ARRAY_MEMBER];
} ParkedTable;

static ParkedTable *arenas;
static bool exit_is_registered;

/* Four for each backend, and room for what aborts leave behind. */
#define BACKEND_ENTRIES		4
#define SPARE_ENTRIES		1024

const SfSharedArea sf_space_parked_area = {
	.name = "securefile arenas", .at = (void **) &arenas,
	.bytes = offsetof(ParkedTable, entries) + SPARE_ENTRIES * sizeof(ParkedRegion),
	.lock = "securefile_arenas",
	.items = &MaxBackends, .item_bytes = BACKEND_ENTRIES * sizeof(ParkedRegion)
};

static int
table_size(void)
{
	return BACKEND_ENTRIES * MaxBackends + SPARE_ENTRIES;
}

/*
 * The time is that of the end of the transaction, which the server has asked for
 * already: each commit comes here.  Entries above "high" were never used, so that a
 * look through the table costs as much as there have been regions at a time, not as
 * much as there can be.
 */
bool
sf_space_park(SfStorage storage, SfRegion region, uint32 next_block, bool owned)
{
	bool		parked = false;

	SF_ASSERT(!LWLockHeldByMe(&arenas->lock) && CritSectionCount == 0);
	SF_ASSERT(!owned || exit_is_registered);
	SF_ASSERT(region.nblocks > 0 && next_block <= region.nblocks);
	SF_ASSERT(sf_map_of_block(region.start_block) ==
			  sf_map_of_block(region.start_block + region.nblocks - 1));
	LWLockAcquire(&arenas->lock, LW_EXCLUSIVE);
	for (int i = 0; i < table_size() && !parked; i++)
	{
		ParkedRegion *entry = &arenas->entries[i];

		if (entry->used)
			continue;
		*entry = (ParkedRegion) {true, owned ? MyProcPid : 0, next_block,
										GetCurrentTransactionStopTimestamp(), storage, region};
		arenas->high = Max(arenas->high, i + 1);
		SF_ASSERT(arenas->high <= table_size());
		parked = true;
	}
	LWLockRelease(&arenas->lock);
	return parked;
}

/*
 * The number of this process may be given to another one after its exit, which would
 * then claim what is not its own.
 */
static void
disown(int code, Datum arg)
{
	SF_ASSERT(!LWLockHeldByMe(&arenas->lock));
	/* what is in flight must not reach blocks that are for others */
	sf_io_reap_all();
	LWLockAcquire(&arenas->lock, LW_EXCLUSIVE);
	for (int i = 0; i < arenas->high; i++)
		if (arenas->entries[i].used && arenas->entries[i].owner_pid == MyProcPid)
			arenas->entries[i].owner_pid = 0;
	LWLockRelease(&arenas->lock);
}

/*
 * Any one of this process will do.  A process that writes to one segment by turns with
 * others has a few entries at most.
 */
bool
sf_space_claim_parked(SfStorage storage, SfRegion *region, uint32 *next_block)
{
	bool		claimed = false;

	if (!exit_is_registered)
		on_shmem_exit(disown, (Datum) 0);	/* after the abort of an open
											 * transaction */
	exit_is_registered = true;
	LWLockAcquire(&arenas->lock, LW_EXCLUSIVE);
	for (int i = 0; i < arenas->high && !claimed; i++)
	{
		ParkedRegion *entry = &arenas->entries[i];

		if (!entry->used || entry->owner_pid != MyProcPid ||
			!SfStorageEquals(entry->storage, storage))
			continue;
		SF_ASSERT(entry->next_block <= entry->region.nblocks);
		*region = entry->region;
		*next_block = entry->next_block;
		entry->used = false;
		claimed = true;
	}
	LWLockRelease(&arenas->lock);
	return claimed;
}

int
sfi_parked_collect(SfStorage storage, int idle_ms, SfRegion *regions, int max)
{
	TimestampTz limit = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), -idle_ms);
	int			n = 0;

	SF_ASSERT(max > 0 && !LWLockHeldByMe(&arenas->lock));
	LWLockAcquire(&arenas->lock, LW_EXCLUSIVE);
	for (int i = 0; i < arenas->high && n < max; i++)
	{
		ParkedRegion *entry = &arenas->entries[i];

		if (!entry->used || !SfStorageEquals(entry->storage, storage) ||
			(entry->owner_pid != 0 && entry->since > limit))
			continue;
		regions[n++] = entry->region;
		entry->used = false;
	}
	LWLockRelease(&arenas->lock);
	return n;
}

/* Its map pages go with the storage, and nobody needs to give anything back. */
void
sfi_parked_forget(SfStorage storage)
{
	if (arenas == NULL)
		return;
	LWLockAcquire(&arenas->lock, LW_EXCLUSIVE);
	for (int i = 0; i < arenas->high; i++)
		if (SfStorageEquals(arenas->entries[i].storage, storage))
			arenas->entries[i].used = false;
	LWLockRelease(&arenas->lock);
}
