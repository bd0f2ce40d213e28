/*-------------------------------------------------------------------------
 *
 * monitor_worker.c
 *	  A monitor worker: goes once through the segments of one database.
 *
 * Each segment gets a transaction of its own, under a lock that is taken only
 * if it is free: a worker never waits.  The lock keeps out vacuum of the segment,
 * DDL and securefile_check(), but lets readers and writers in.  An error on one
 * segment is logged, and the worker goes on with the next one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/xact.h"
#include "base/worker.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "monitor/monitor_internal.h"
#include "pgstat.h"
#include "space/space.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

PGDLLEXPORT void securefile_monitor_worker(Datum arg);

static SfMonitorTidy tidy_table = NULL;

void
sf_monitor_set_tidy(SfMonitorTidy tidy)
{
	tidy_table = tidy;
}

/*
 * Work on one segment, which is locked; sets the table it belongs to.  Returns whether to
 * come back: work is left, or another process holds the resolver's lock or waits for this one.
 */
static bool
maintain_segment(Relation rel, Oid *table_oid)
{
	SfSegment  *seg = sf_space_open_rel(rel);
	SfMaintain	work = {0};

	*table_oid = seg->table_oid;
	if (!sf_space_resolve(seg, false, &work))
		return true;
	CHECK_FOR_INTERRUPTS();

	/* a command that waits for the lock is more important than the rest */
	if (LockHasWaitersRelation(rel, ShareUpdateExclusiveLock))
		return true;
	sf_space_maintain(seg, false, &work);
	sf_keys_finish_shred(seg);
	return sfi_monitor_release(seg, rel) || work.fading ||
		work.entries_seen > work.entries_resolved;
}

/* Work on one segment, unless it is in use. */
static bool
visit_segment(Oid relid)
{
	Relation	rel;
	Oid			table_oid;
	bool		come_back = true;

	SF_FAULT(monitor_before_visit);
	if (SF_BREAKS(rule_4) || ConditionalLockRelationOid(relid, ShareUpdateExclusiveLock))
	{
		rel = try_relation_open(relid, NoLock);
		if (rel != NULL)
		{
			pgstat_report_activity(STATE_RUNNING, RelationGetRelationName(rel));
			come_back = maintain_segment(rel, &table_oid);
			relation_close(rel, NoLock);
			come_back |= tidy_table(table_oid);
		}
		else
			come_back = false;	/* dropped meanwhile */
	}
	return come_back;
}

/*
 * Remove data files of dropped segments.  Returns whether to come back, for files that a
 * replication slot still needs.
 */
static bool
sweep(void)
{
	int			kept;

	pgstat_report_activity(STATE_RUNNING, "removing data files of dropped segments");
	(void) sf_space_sweep(&kept);
	return kept > 0;
}

/*
 * Visit a segment, or, with InvalidOid, sweep; in a transaction of its own.  An error is
 * logged, and the rest of the work goes on.  The step is not tried again before a transaction
 * writes there, or all databases have their turn: otherwise damage would fill the log.
 */
static bool
visit_guarded(Oid relid)
{
	volatile bool come_back = false;

	SF_ASSERT(!IsTransactionState());
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		come_back = OidIsValid(relid) ? visit_segment(relid) : sweep();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		come_back = false;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	pgstat_report_activity(STATE_IDLE, NULL);
	SF_ASSERT(!IsTransactionState());
	return come_back;
}

/* Must the worker end: at shutdown, or because a command wants the database? */
static bool
must_leave(void)
{
	return ProcDiePending || sfi_monitor_must_leave(MyDatabaseId);
}

/* Visit all segments, and sweep.  Returns whether to come back in the next pass. */
static bool
work_through(List *segments)
{
	bool		come_back = false;
	ListCell   *cell;

	foreach(cell, segments)
	{
		if (must_leave())
			return true;
		come_back |= visit_guarded(lfirst_oid(cell));
	}
	if (must_leave())
		return true;
	come_back |= visit_guarded(InvalidOid);
	return come_back;
}

/* Override settings, of the database or the cluster, that would disturb a worker. */
static void
override_settings(void)
{
	SetConfigOption("default_transaction_isolation", "read committed",
					PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("zero_damaged_pages", "false", PGC_SUSET, PGC_S_OVERRIDE);
}

void
securefile_monitor_worker(Datum arg)
{
	Oid			db = DatumGetObjectId(arg);
	List	   *segments;

	sf_base_worker_begin(db, die);
	sfi_monitor_note_worker_pid(MyProcPid);
	override_settings();
	pgstat_report_appname("securefile monitor");

	StartTransactionCommand();
	segments = sf_space_list_segments(TopMemoryContext, NULL);
	CommitTransactionCommand();

	if (work_through(segments))
		sf_monitor_wake(db);
	sfi_monitor_note_worker_done();
}
