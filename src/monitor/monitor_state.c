/*-------------------------------------------------------------------------
 *
 * monitor_state.c
 *	  The shared memory of the monitor: marks on databases, and the state that
 *	  view securefile_monitor shows.
 *
 * A mark is an atomic word that holds the OID of a database.  On a busy server a
 * backend usually finds its database marked already, and that costs a few loads.
 * No work is overlooked: a backend looks for a mark after its entries are in the
 * pages, and the launcher takes marks away before it starts a worker.  So a mark
 * that a backend finds in place is taken away later, and the worker that follows
 * sees the entries.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "config/config.h"
#include "miscadmin.h"
#include "monitor/monitor_internal.h"
#include "port/atomics.h"
#include "storage/lmgr.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#define MARKS			64
#define STATE_COLUMNS	10

typedef struct MonitorShared
{
	pg_atomic_uint32 marks[MARKS];	/* database OIDs; 0: unused */
	pg_atomic_uint32 overflow;	/* a database found no room for its mark */
	slock_t		lock;			/* covers the following */
	SfMonitorState state;
} MonitorShared;

static MonitorShared *shared = NULL;

PG_FUNCTION_INFO_V1(securefile_monitor_state);

static void
init_state(void)
{
	SpinLockInit(&shared->lock);
}

const SfSharedArea sf_monitor_area = {
	.name = "securefile monitor", .at = (void **) &shared,
	.bytes = sizeof(MonitorShared), .init = init_state
};

/* ---- marks ---- */

void
sf_monitor_wake(Oid db)
{
	if (shared == NULL || !OidIsValid(db))
		return;

	/* the entries of this backend must be visible before it looks for a mark */
	pg_memory_barrier();
	for (int i = 0; i < MARKS; i++)
	{
		uint32		found = pg_atomic_read_u32(&shared->marks[i]);

		if (found == InvalidOid &&
			pg_atomic_compare_exchange_u32(&shared->marks[i], &found, db))
			return;
		if (found == db)
			return;
	}
	pg_atomic_write_u32(&shared->overflow, 1);
}

List *
sfi_monitor_take_marks(bool *all)
{
	List	   *dbs = NIL;

	/* two takers could each take what the other one is about to act on */
	SF_ASSERT(shared->state.launcher_pid == MyProcPid);
	for (int i = 0; i < MARKS; i++)
	{
		Oid			db = pg_atomic_exchange_u32(&shared->marks[i], InvalidOid);

		if (OidIsValid(db))
			dbs = list_append_unique_oid(dbs, db);
	}
	*all = pg_atomic_exchange_u32(&shared->overflow, 0) != 0;
	return dbs;
}

/* ---- state ---- */

void
sfi_monitor_state_get(SfMonitorState *state)
{
	SpinLockAcquire(&shared->lock);
	memcpy(state, &shared->state, sizeof(*state));
	SpinLockRelease(&shared->lock);
}

void
sfi_monitor_note_launcher(int pid)
{
	SF_ASSERT(pid == 0 || pid == MyProcPid);
	SpinLockAcquire(&shared->lock);
	shared->state.launcher_pid = pid;
	SpinLockRelease(&shared->lock);
}

void
sfi_monitor_note_pass(void)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->lock);
	shared->state.passes++;
	shared->state.last_pass = now;
	SpinLockRelease(&shared->lock);
}

void
sfi_monitor_note_failure(const char *message)
{
	TimestampTz now = GetCurrentTimestamp();
	char		copy[SF_MONITOR_MESSAGE_MAX];

	strlcpy(copy, message, sizeof(copy));
	SpinLockAcquire(&shared->lock);
	shared->state.failures++;
	shared->state.last_failure_time = now;
	memcpy(shared->state.last_failure, copy, sizeof(copy));
	SpinLockRelease(&shared->lock);
}

void
sfi_monitor_note_worker(Oid db)
{
	SpinLockAcquire(&shared->lock);
	shared->state.worker_db = db;
	shared->state.worker_done = false;
	SpinLockRelease(&shared->lock);
}

void
sfi_monitor_note_worker_pid(int pid)
{
	SF_ASSERT(pid == 0 || pid == MyProcPid);
	SpinLockAcquire(&shared->lock);
	shared->state.worker_pid = pid;
	if (pid != 0)
		shared->state.workers++;
	SpinLockRelease(&shared->lock);
}

void
sfi_monitor_note_worker_done(void)
{
	/* all its transactions have ended: the next worker may begin */
	SF_ASSERT(!IsTransactionState());
	SpinLockAcquire(&shared->lock);
	shared->state.worker_done = true;
	SpinLockRelease(&shared->lock);
}

/* ---- commands that want a database for themselves ---- */

/*
 * Sessions hold RowExclusiveLock on their database while they connect.  A command
 * that wants to be alone takes a lock that conflicts with it, and then waits five
 * seconds for all others to leave.  So the try to get the lock of a new session
 * tells.  A session-level lock needs no transaction.
 */
bool
sfi_monitor_must_leave(Oid db)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, db, 0);
	if (LockAcquire(&tag, RowExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, true);
	return false;
}

/* ---- view ---- */

/* Column "state" of the view. */
static const char *
state_word(const SfMonitorState *state)
{
	if (RecoveryInProgress())
		return "in recovery";
	if (!sf_monitor_enabled)
		return "off";
	if (state->launcher_pid == 0)
		return "not running";
	return state->worker_pid != 0 ? "working" : "waiting";
}

/*
 * securefile_monitor_state()
 * returns (state text, launcher_pid integer, worker_pid integer, worker_db oid,
 *			passes bigint, last_pass timestamptz, workers bigint,
 *			failures bigint, last_failure text, last_failure_time timestamptz)
 */
Datum
securefile_monitor_state(PG_FUNCTION_ARGS)
{
	SfMonitorState state;
	Datum		values[STATE_COLUMNS];
	bool		nulls[STATE_COLUMNS] = {0};

	sf_base_require_preload();
	sfi_monitor_state_get(&state);

	values[0] = CStringGetTextDatum(state_word(&state));
	values[1] = Int32GetDatum(state.launcher_pid);
	nulls[1] = state.launcher_pid == 0;
	values[2] = Int32GetDatum(state.worker_pid);
	nulls[2] = state.worker_pid == 0;
	values[3] = ObjectIdGetDatum(state.worker_db);
	nulls[3] = state.worker_pid == 0;
	values[4] = Int64GetDatum(state.passes);
	values[5] = TimestampTzGetDatum(state.last_pass);
	nulls[5] = state.last_pass == 0;
	values[6] = Int64GetDatum(state.workers);
	values[7] = Int64GetDatum(state.failures);
	values[8] = CStringGetTextDatum(state.last_failure);
	values[9] = TimestampTzGetDatum(state.last_failure_time);
	nulls[8] = nulls[9] = state.failures == 0;
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
