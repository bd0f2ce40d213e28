/*-------------------------------------------------------------------------
 *
 * shrink.c
 *	  Mode "release" of securefile_shrink(): free space of a column goes back to the file system.
 *
 * For one table, in transactions of its own:
 *
 *	 1	what waits to be freed is, as far as it can be.  No tail is cut: that would be
 *		before the proof;
 *	 2	proof: the walk of securefile_check() over rows and pages, without data, under its
 *		locks.  A finding of any kind ends it.  Free runs are claimed under these locks;
 *	 3	a checkpoint, which replays nothing into what is claimed;
 *	 4	holes are punched, some at a time (space/release.c).
 *
 * In 3 and 4 writers and readers go on.  A lock of the session on the segment relation keeps out
 * a repair, which may make map pages anew and so forget claims, and all that replaces the storage.
 * A session that waits for it has priority: the rest is left, and a NOTICE says so.
 *
 * Whatever ends the call, also the end of the session, gives back what is claimed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "check/walk.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "space/release.h"
#include "stats/stats.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* One table's work. */
typedef struct Shrink
{
	const SfCheckColumn *column;
	uint64		most_bytes;		/* a second; 0: no limit but that of punches */
	MemoryContext context;		/* of the call, for all transactions */
	LockRelId	lock;			/* of the session, on the segment relation */
	bool		locked;
	bool		stopped;		/* somebody waits for that lock */
	SfRelease	release;
} Shrink;

/* of this session; NULL: none */
static Shrink *current = NULL;

/* ---- the end ---- */

/*
 * Give back what is claimed, and the lock; also after an ERROR, which may have left pages locked,
 * and as the session ends.  The claim is under a lock to its end, else a repair might come before.
 */
static void
end_table(int code, Datum arg)
{
	Shrink	   *shrink = current;
	Relation	segrel;

	current = NULL;
	if (shrink == NULL || !shrink->locked)
		return;
	LWLockReleaseAll();
	segrel = relation_open(shrink->lock.relId, RowExclusiveLock);
	shrink->locked = false;
	UnlockRelationIdForSession(&shrink->lock, RowExclusiveLock);
	sf_space_release_end(segrel, &shrink->release);
	relation_close(segrel, NoLock);
}

/*
 * One callback for the process: those of PG_ENSURE_ERROR_CLEANUP() must not have others registered
 * after them, and reading a value that is compressed in its row may register some.
 */
static void
begin_table(Shrink *shrink)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(end_table, (Datum) 0);
	registered = true;
	current = shrink;
}

/* ---- steps ---- */

/* Free what can be freed; the resolver frees nothing but what entries name. */
static void
resolve(const SfCheckColumn *column)
{
	SfMaintain	work = {0};
	Relation	segrel = sf_space_open_resolved(sf_check_segment_relid(column), &work);

	if (segrel != NULL)
		relation_close(segrel, ShareUpdateExclusiveLock);
}

/* All is sound: claim, and keep a lock beyond the transaction (an SfCheckThen). */
static void
claim_space(SfPageWalk *walk)
{
	Shrink	   *shrink = current;
	Relation	segrel = relation_open(walk->check->seg->relid, NoLock);
	MemoryContext old = MemoryContextSwitchTo(shrink->context);

	shrink->lock = segrel->rd_lockInfo.lockRelId;
	LockRelationIdForSession(&shrink->lock, RowExclusiveLock);
	shrink->locked = true;
	sf_space_release_claim(walk->check->seg, segrel, &shrink->release);
	MemoryContextSwitchTo(old);
	relation_close(segrel, NoLock);
}

/* ERROR unless all that is free is proved to be. */
static void
prove(Shrink *shrink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile shrink",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	bool		sound;

	sound = sfi_check_places(shrink->column, claim_space);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	if (!sound)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("space of column \"%s\" of table \"%s\" is not released",
						shrink->column->name, shrink->column->table),
				 errdetail("The check of rows and space map has findings, so what the map calls free may be in use."),
				 errhint("SELECT * FROM securefile_check() shows them, securefile_repair() mends what can be mended.")));
}

/* For view securefile_progress. */
static void
show_progress(void *arg)
{
	const Shrink *shrink = arg;
	SfProgress	progress = {
		.operation = SF_OPERATION_RELEASE,
		.table_oid = shrink->column->table_oid, .attnum = shrink->column->attnum, .pass = 1,
		.releasable_bytes = shrink->release.claimed_blocks * SF_BLOCK_SIZE,
		.released_bytes = shrink->release.released_blocks * SF_BLOCK_SIZE
	};

	sf_stats_progress(&progress);
}

/* Punch until nothing is left, or somebody waits for the segment relation. */
static void
punch(Shrink *shrink)
{
	Relation	segrel = relation_open(shrink->lock.relId, RowExclusiveLock);
	SfReleasePace pace = {shrink->most_bytes, RowExclusiveLock, show_progress, shrink};

	/*
	 * the catalog's snapshot would keep vacuum from removing rows for all
	 * that time
	 */
	InvalidateCatalogSnapshot();
	shrink->stopped = !sf_space_release_all(sf_space_open_rel(segrel), segrel, &shrink->release,
											&pace);
	relation_close(segrel, RowExclusiveLock);
}

/* Release what is free in one table. */
static void
release_table(Shrink *shrink)
{
	show_progress(shrink);
	resolve(shrink->column);
	SPI_commit();
	begin_table(shrink);
	PG_TRY();
	{
		prove(shrink);
		SF_FAULT(release_claimed);
		SPI_commit();
		show_progress(shrink);
		if (shrink->release.n > 0)
		{
			RequestCheckpoint(CHECKPOINT_IMMEDIATE | CHECKPOINT_FORCE | CHECKPOINT_WAIT);
			punch(shrink);
		}
	}
	PG_FINALLY();
	{
		end_table(0, (Datum) 0);
	}
	PG_END_TRY();
	SPI_commit();
}

bool
sf_check_release_space(const SfCheckColumn *column, uint64 most_bytes)
{
	Shrink		shrink = {
		.column = column, .context = CurrentMemoryContext, .most_bytes = most_bytes
	};

	release_table(&shrink);
	sf_stats_progress_end();
	return !shrink.stopped;
}
