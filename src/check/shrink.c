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
 *		locks.  A finding of any kind ends it.  Free runs are claimed under these locks.
 *		Writers queue behind a session that waits for these locks, so each try is short: a
 *		transaction that has written and does not end costs the release, and not its neighbours;
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
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/* How long a try to keep writers out may wait, how long others pass then, how many tries. */
#define TRY_MS 1000
#define PAUSE_US 500000
#define MOST_TRIES 10

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

/* Wait for the lock that keeps writers out, and not for long (an SfBaseStep). */
static void
lock_step(void *arg)
{
	const Shrink *shrink = arg;
	int			nest_level = NewGUCNestLevel();
	char		timeout[16];

	snprintf(timeout, sizeof(timeout), "%d", LockTimeout > 0 ? Min(LockTimeout, TRY_MS) : TRY_MS);
	(void) set_config_option("lock_timeout", timeout, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	LockRelationOid(shrink->column->table_oid, ShareLock);
	AtEOXact_GUC(false, nest_level);
}

/* One try.  An error that is no lack of a lock is thrown on. */
static bool
try_lock(Shrink *shrink)
{
	ErrorData  *error = sf_base_caught(lock_step, shrink);

	if (error == NULL)
		return true;
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
		error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED)
		ReThrowError(error);
	FreeErrorData(error);
	return false;
}

/* Let writers pass that have queued behind a try. */
static void
pause_tries(void)
{
	static uint32 wait_event = 0;
	uint64		until_us = sf_base_now_us() + PAUSE_US;

	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileRelease");
	while (sf_base_sleep(until_us, wait_event))
		 /* until it is time */ ;
}

/* False, with a NOTICE: a transaction that has written to the table does not end. */
static bool
keep_writers_out(Shrink *shrink)
{
	for (int i = 1; !try_lock(shrink); i++)
	{
		SPI_commit();
		if (i == MOST_TRIES)
		{
			ereport(NOTICE,
					(errmsg("free space of column \"%s\" of table \"%s\" is not released",
							shrink->column->name, shrink->column->table),
					 errdetail("A transaction that has written to the table, or locked it, does not end: writers could not be kept out for a moment, in %d tries.", i),
					 errhint("End it, and call the procedure again. pg_locks, pg_stat_activity and pg_prepared_xacts show it.")));
			return false;
		}
		pause_tries();
	}
	return true;
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
	if (!keep_writers_out(shrink))
		return;
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
