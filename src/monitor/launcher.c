/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The monitor's launcher: wakes every securefile.monitor_naptime and
 *	  sends a worker into each database that has something to do.
 *
 * It is connected to no database, so it sees shared catalogs only and never
 * touches a page of a segment.  Its only work of its own is to remove the data
 * files of databases that are gone, which a crash in DROP DATABASE leaves behind.
 *
 * On a standby there is no space to be freed.  If securefile.fetch_from is set, the workers
 * that it sends are others: they fetch data that is not in WAL (fetch/fetch_worker.c).
 *
 * Any ERROR ends it; the postmaster starts it again.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/worker.h"
#include "catalog/pg_database.h"
#include "config/config.h"
#include "io/io.h"
#include "miscadmin.h"
#include "monitor/monitor_internal.h"
#include "space/space.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define RESTART_SECONDS		5

/* while a worker runs: pause between looks whether a command wants its database */
#define POLL_MS				200

/* each so many passes, unmarked databases are visited, too */
#define VISIT_ALL_EVERY		30

SF_NORETURN PGDLLEXPORT void securefile_monitor_launcher(Datum arg);

/* Databases of the cluster, and which of them have data files. */
typedef struct Databases
{
	List	   *with_files;		/* from the file system */
	List	   *existing;		/* from pg_database */
	List	   *connectable;	/* of these, those a worker can enter */
} Databases;

static uint32 wait_event = 0;
static bool no_slot_logged = false;

static const SfWorker launcher = {
	"securefile monitor launcher", "securefile_monitor_launcher",
	BgWorkerStart_ConsistentState, RESTART_SECONDS
};
static const SfWorker maintains = {
	"securefile monitor worker", "securefile_monitor_worker",
	BgWorkerStart_ConsistentState, BGW_NEVER_RESTART
};
static const SfWorker fetches = {
	"securefile fetch worker", "securefile_fetch_worker",
	BgWorkerStart_ConsistentState, BGW_NEVER_RESTART
};

void
sf_monitor_register(void)
{
	sf_base_worker_register(&launcher);
}

/* ---- signals ---- */

/*
 * Act on signals.  At SIGTERM the launcher ends with exit code 1: then the postmaster
 * starts it again, unless the server shuts down.  In waits of the server's own code
 * CHECK_FOR_INTERRUPTS does the same, with a FATAL in the log.
 */
static void
serve_interrupts(void)
{
	if (ProcDiePending)
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	(void) sf_base_worker_reloads();
}

static void
nap(long ms)
{
	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileMonitor");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, wait_event);
	ResetLatch(MyLatch);
	serve_interrupts();
}

static void
note_exit(int code, Datum arg)
{
	sfi_monitor_note_launcher(0);
}

/* ---- one worker ---- */

/*
 * Note the end of a worker.  If it ended early its mark is set again, and it counts as
 * a failure unless it was asked to leave.
 */
static void
note_end(Oid db, bool asked_to_leave)
{
	SfMonitorState state;
	char		message[SF_MONITOR_MESSAGE_MAX];

	sfi_monitor_note_worker_pid(0);
	sfi_monitor_state_get(&state);
	if (state.worker_done)
		return;
	sf_monitor_wake(db);
	if (asked_to_leave)
		return;
	snprintf(message, sizeof(message),
			 "worker in database %u ended early, see the server log", db);
	sfi_monitor_note_failure(message);
}

/* Wait for a worker's end; end it when a command wants its database: true then. */
static bool
wait_for_worker(Oid db, BackgroundWorkerHandle *handle)
{
	bool		asked_to_leave = false;

	/* a snapshot kept here would hold back the horizon that the worker needs */
	SF_ASSERT(!IsTransactionState());
	for (;;)
	{
		pid_t		pid;
		BgwHandleStatus status = GetBackgroundWorkerPid(handle, &pid);

		if (status == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		if (status == BGWH_STOPPED)
			break;
		if (status == BGWH_STARTED && !asked_to_leave && sfi_monitor_must_leave(db))
		{
			TerminateBackgroundWorker(handle);
			asked_to_leave = true;
		}
		nap(POLL_MS);
	}
	return asked_to_leave;
}

/*
 * Note that no worker could be started, once in the log, each time in the view.  The
 * foreground does the work then, which is slower.
 */
static void
note_no_slot(Oid db)
{
	sf_monitor_wake(db);
	sfi_monitor_note_failure("no worker could be started: max_worker_processes is too low");
	if (!no_slot_logged)
		ereport(LOG,
				(errmsg("securefile monitor could not start a worker"),
				 errhint("Consider increasing the configuration parameter \"max_worker_processes\".")));
	no_slot_logged = true;
}

/* Run a worker in a database, unless a command wants it, and wait for its end. */
static void
run_worker(Oid db, const SfWorker *worker)
{
	BackgroundWorkerHandle *handle;
	bool		asked_to_leave;

	SF_ASSERT(worker == &maintains || worker == &fetches);
	if (sfi_monitor_must_leave(db))
	{
		sf_monitor_wake(db);
		return;
	}
	/* the worker must not be done before this is noted */
	sfi_monitor_note_worker(db);
	handle = sf_base_worker_start(worker, db);
	if (handle == NULL)
	{
		note_no_slot(db);
		return;
	}
	no_slot_logged = false;
	asked_to_leave = wait_for_worker(db, handle);
	/* the other kind does not say when it has done all its work */
	if (worker == &maintains)
		note_end(db, asked_to_leave);
	pfree(handle);
}

/* ---- one pass ---- */

static void
note_database(SfStorage storage, void *arg)
{
	Databases  *dbs = arg;

	dbs->with_files = list_append_unique_oid(dbs->with_files, SfStorageDb(storage));
}

static void
read_pg_database(Databases *dbs)
{
	Relation	rel = table_open(DatabaseRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(rel, 0, NULL);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		dbs->existing = lappend_oid(dbs->existing, form->oid);
		if (form->datallowconn && !database_is_invalid_form(form))
			dbs->connectable = lappend_oid(dbs->connectable, form->oid);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
}

/*
 * Remove data files of databases that do not exist.  The files were listed before
 * pg_database was read, and no database has files before its row is
 * committed: a database with files that has no row is gone for good.
 */
static void
remove_orphans(Databases *dbs)
{
	List	   *orphans = list_difference_oid(dbs->with_files, dbs->existing);
	ListCell   *cell;

	SF_ASSERT(!OidIsValid(MyDatabaseId));
	foreach(cell, orphans)
	{
		Oid			db = lfirst_oid(cell);

		CHECK_FOR_INTERRUPTS();
		if (!sf_io_database_is_own(db, WARNING))
			continue;
		ereport(LOG,
				(errmsg("removing securefile data files of dropped database %u", db)));
		sf_space_log_drop_database(db);
		sf_io_database_unlink(db);
	}
}

/*
 * Find out which databases exist and which have data files; a transaction of its own, which
 * the lists outlive.
 */
static Databases
survey(void)
{
	Databases	dbs = {NIL, NIL, NIL};
	MemoryContext context = CurrentMemoryContext;

	SF_ASSERT(!IsTransactionState());
	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	MemoryContextSwitchTo(context);
	sf_io_scan(InvalidOid, note_database, &dbs);
	read_pg_database(&dbs);
	if (!RecoveryInProgress())
		remove_orphans(&dbs);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return dbs;
}

/* One pass: a worker, one after the other, for each database in need. */
static void
run_pass(bool visit_all)
{
	bool		overflow;
	List	   *marked = sfi_monitor_take_marks(&overflow);

	if (marked != NIL || overflow || visit_all)
	{
		Databases	dbs = survey();
		ListCell   *cell;

		foreach(cell, dbs.connectable)
		{
			Oid			db = lfirst_oid(cell);

			if (!list_member_oid(marked, db) &&
				!((visit_all || overflow) && list_member_oid(dbs.with_files, db)))
				continue;
			serve_interrupts();
			if (sf_monitor_enabled)
				run_worker(db, &maintains);
			else
				sf_monitor_wake(db);
		}
	}
	sfi_monitor_note_pass();
}

/* A pass on a standby: each database that has data files is visited. */
static void
run_fetch_pass(void)
{
	Databases	dbs = survey();
	ListCell   *cell;

	foreach(cell, dbs.connectable)
	{
		Oid			db = lfirst_oid(cell);

		serve_interrupts();
		if (list_member_oid(dbs.with_files, db) && RecoveryInProgress())
			run_worker(db, &fetches);
	}
}

/* Milliseconds that are left of the nap; a changed setting counts at once. */
static long
nap_left(TimestampTz last_pass)
{
	TimestampTz next = TimestampTzPlusMilliseconds(last_pass, sf_monitor_naptime_s * 1000L);

	return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), next);
}

void
securefile_monitor_launcher(Datum arg)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext,
												  "securefile monitor pass",
												  ALLOCSET_DEFAULT_SIZES);
	TimestampTz last_pass = 0;
	uint64		passes = 0;

	sf_base_worker_begin(InvalidOid, die);
	before_shmem_exit(note_exit, (Datum) 0);
	sfi_monitor_note_launcher(MyProcPid);

	MemoryContextSwitchTo(context);
	for (;;)
	{
		long		left = nap_left(last_pass);

		MemoryContextReset(context);
		serve_interrupts();
		if (RecoveryInProgress())
		{
			if (sf_fetch_from[0] != '\0')
				run_fetch_pass();
			nap(sf_monitor_naptime_s * 1000L);
		}
		else if (sf_monitor_enabled && left <= 0)
		{
			/*
			 * the first pass finds the leftovers of a crash, or of a long
			 * time off
			 */
			run_pass(passes++ % VISIT_ALL_EVERY == 0);
			last_pass = GetCurrentTimestamp();
		}
		else
			nap(left > 0 ? left : sf_monitor_naptime_s * 1000L);
	}
}
