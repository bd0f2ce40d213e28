/*-------------------------------------------------------------------------
 *
 * shrink.c
 *	  securefile_shrink(): free space of a column goes back to the file system.
 *
 * For each table that has rows, in transactions of its own:
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
#include "catalog/pg_class.h"
#include "check/walk.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "space/release.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(securefile_shrink);

/* A punch takes a millisecond or more, and writers of that file wait for it. */
#define PAUSE_US			40000	/* between records of SF_RELEASE_RUNS runs */

/* One table's work. */
typedef struct Shrink
{
	const SfCheckColumn *column;
	MemoryContext context;		/* of the call, for all transactions */
	LockRelId	lock;			/* of the session, on the segment relation */
	bool		locked;
	bool		stopped;		/* somebody waits for that lock */
	SfRelease	release;
} Shrink;

/* the one of this call, for sfi_check_places() */
static Shrink *current;

/* ---- the end ---- */

/*
 * Give back what is claimed, and the lock; also after an ERROR, which may have left pages locked,
 * and as the session ends.  The claim is under a lock to its end, else a repair might come before.
 */
static void
end_table(int code, Datum arg)
{
	Shrink	   *shrink = (Shrink *) DatumGetPointer(arg);
	Relation	segrel;

	if (!shrink->locked)
		return;
	LWLockReleaseAll();
	segrel = relation_open(shrink->lock.relId, RowExclusiveLock);
	shrink->locked = false;
	UnlockRelationIdForSession(&shrink->lock, RowExclusiveLock);
	sf_space_release_end(segrel, &shrink->release);
	relation_close(segrel, NoLock);
}

/* ---- steps ---- */

/* Free what can be freed; the resolver frees nothing but what entries name. */
static void
resolve(const SfCheckColumn *column)
{
	Relation	segrel = relation_open(sf_check_segment_relid(column), ShareUpdateExclusiveLock);
	SfSegment  *seg = sf_space_open_rel(segrel);
	SfMaintain	work = {0};

	(void) sf_space_resolve(seg, true, &work);
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

	current = shrink;
	sound = sfi_check_places(shrink->column, claim_space);
	current = NULL;
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

/* Punch until nothing is left, or somebody waits for the segment relation. */
static void
punch(Shrink *shrink)
{
	Relation	segrel = relation_open(shrink->lock.relId, RowExclusiveLock);
	SfSegment  *seg = sf_space_open_rel(segrel);

	/*
	 * the catalog's snapshot would keep vacuum from removing rows for all
	 * that time
	 */
	InvalidateCatalogSnapshot();
	while (sf_space_release_some(seg, segrel, &shrink->release))
	{
		if (LockHasWaitersRelation(segrel, RowExclusiveLock))
		{
			shrink->stopped = true;
			break;
		}
		CHECK_FOR_INTERRUPTS();
		pg_usleep(PAUSE_US);
	}
	relation_close(segrel, RowExclusiveLock);
}

/* Release what is free in one table. */
static void
shrink_table(Shrink *shrink)
{
	resolve(shrink->column);
	SPI_commit();
	PG_ENSURE_ERROR_CLEANUP(end_table, PointerGetDatum(shrink));
	{
		prove(shrink);
		SF_FAULT(release_claimed);
		SPI_commit();
		if (shrink->release.n > 0)
		{
			RequestCheckpoint(CHECKPOINT_IMMEDIATE | CHECKPOINT_FORCE | CHECKPOINT_WAIT);
			punch(shrink);
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_table, PointerGetDatum(shrink));
	end_table(0, PointerGetDatum(shrink));
	SPI_commit();
}

/* ---- securefile_shrink() ---- */

/* ERROR when it cannot be called like that, or there. */
static void
require_call(FunctionCallInfo fcinfo)
{
	CallContext *call = (CallContext *) fcinfo->context;
	const char *mode = PG_ARGISNULL(2) ? "release" : text_to_cstring(PG_GETARG_TEXT_PP(2));

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	PreventCommandDuringRecovery("securefile_shrink()");
	if (strcmp(mode, "release") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized mode \"%s\" of securefile_shrink()", mode),
				 errhint("The mode is \"release\".")));
	if (call == NULL || !IsA(call, CallContext) || call->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("securefile_shrink() commits, and cannot run in a transaction block")));
}

/*
 * securefile_shrink(table regclass, column name, mode text), a procedure
 */
Datum
securefile_shrink(PG_FUNCTION_ARGS)
{
	List	   *columns;
	ListCell   *cell;
	bool		stopped = false;

	require_call(fcinfo);
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	columns = sf_check_columns(fcinfo, AccessShareLock, false, NULL);
	foreach(cell, columns)
	{
		Shrink		shrink = {.column = lfirst(cell), .context = CurrentMemoryContext};

		/* dropped since: its space is back */
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(shrink.column->table_oid)))
			continue;
		shrink_table(&shrink);
		stopped |= shrink.stopped;
	}
	if (stopped)
		ereport(NOTICE,
				(errmsg("not all free space was released"),
				 errdetail("Another session waited for the column's segment relation."),
				 errhint("Call the procedure again.")));
	SPI_finish();
	PG_RETURN_VOID();
}
