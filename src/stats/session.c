/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What this session has counted so far, with its parallel workers.
 *
 * A user who wants to know what one query read looks before and after it, perhaps within one
 * transaction.  So the session keeps the sums of what it has handed over, and adds what it has
 * not.
 *
 * A parallel worker is another process.  When it ends, it leaves its counters in shared memory
 * under the process id of its leader, which takes them from there when somebody looks.  The
 * leader waits for the end of its workers before its query is over, so nothing is missing then.
 * Most sessions never look: what workers have left for them goes when room is short and the
 * session has ended.  If there is no room even so, the counters of a worker are missing in its
 * leader's, and only there.
 *
 * Locking: workers->lock covers the table of what was left.  Nothing throws while it is held,
 * and only ProcArrayLock is taken under it.
 *
 *-------------------------------------------------------------------------
 */
#include "stats/stats_internal.h"

#include "access/parallel.h"
#include "config/config.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* of so many columns a session keeps counters; all others together are "no column" */
#define MOST_COLUMNS	4096

typedef struct SessionEntry
{
	SfSharedColumn key;
	SfStatCounters counters;
} SessionEntry;

/* What workers have left for a session. */
typedef struct LeftKey
{
	int32		leader_pid;
	SfSharedColumn column;
} LeftKey;

typedef struct LeftEntry
{
	LeftKey		key;
	TimestampTz since;			/* start of the worker that has made it */
	SfStatCounters counters;
} LeftEntry;

typedef struct Workers
{
	LWLock		lock;
} Workers;

static Workers *workers = NULL;
static HTAB *left_table = NULL;

static HTAB *session_table = NULL;
static SfStatCounters nowhere;	/* of no column */

const SfSharedArea sf_stats_workers_area = {
	.name = "securefile stats of workers", .at = (void **) &workers,
	.bytes = sizeof(Workers), .lock = "securefile_stats_workers"
};

const SfSharedArea sf_stats_workers_columns_area = {
	.name = "securefile stats of workers columns", .at = (void **) &left_table,
	.items = &sf_max_columns, .item_bytes = sizeof(LeftEntry), .key_bytes = sizeof(LeftKey)
};

/* ---- what the session keeps ---- */

SfStatCounters *
sfi_stats_session_nowhere(void)
{
	return &nowhere;
}

SfStatCounters *
sfi_stats_session(const SfSharedColumn *key)
{
	SessionEntry *entry;
	bool		found;

	if (!OidIsValid(key->table_oid))
		return &nowhere;
	if (session_table == NULL)
		session_table = sf_base_table("securefile stats of the session", sizeof(SfSharedColumn),
									  sizeof(SessionEntry), TopMemoryContext);
	entry = hash_search(session_table, key,
						hash_get_num_entries(session_table) < MOST_COLUMNS ? HASH_ENTER
						: HASH_FIND, &found);
	if (entry == NULL)
		return &nowhere;
	if (!found)
		memset(&entry->counters, 0, sizeof(entry->counters));
	return &entry->counters;
}

/* ---- what workers leave to their leader ---- */

/* Remove what was left for sessions that have ended. */
static void
remove_ended(void)
{
	HASH_SEQ_STATUS scan;
	LeftEntry  *entry;

	SF_ASSERT(LWLockHeldByMeInMode(&workers->lock, LW_EXCLUSIVE));
	hash_seq_init(&scan, left_table);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (BackendPidGetProc(entry->key.leader_pid) == NULL)
			hash_search(left_table, &entry->key, HASH_REMOVE, NULL);
}

static void
leave(const SfSharedColumn *column, const SfStatCounters *counters)
{
	LeftKey		key = {MyProc->lockGroupLeader->pid, *column};
	bool		found;
	LeftEntry  *entry = hash_search(left_table, &key, HASH_ENTER_NULL, &found);

	if (entry == NULL)
	{
		remove_ended();
		entry = hash_search(left_table, &key, HASH_ENTER_NULL, &found);
	}
	if (entry == NULL)
		return;
	if (!found)
	{
		entry->since = MyStartTimestamp;
		memset(&entry->counters, 0, sizeof(entry->counters));
	}
	sfi_stats_add_counters(&entry->counters, counters);
}

/* A worker ends once, with the transaction that it takes part in. */
void
sfi_stats_session_at_end(void)
{
	SfSharedColumn no_column = {MyDatabaseId, InvalidOid, 0};
	HASH_SEQ_STATUS scan;
	SessionEntry *entry;

	if (!IsParallelWorker() || MyProc->lockGroupLeader == NULL)
		return;
	LWLockAcquire(&workers->lock, LW_EXCLUSIVE);
	leave(&no_column, &nowhere);
	if (session_table != NULL)
	{
		hash_seq_init(&scan, session_table);
		while ((entry = hash_seq_search(&scan)) != NULL)
			leave(&entry->key, &entry->counters);
	}
	LWLockRelease(&workers->lock);
}

/*
 * Take what was left for this session into an array, which has room for all there may be;
 * returns how much that is.  What is older than the session was for another one, which had the
 * same process id.
 */
static int
take_left(LeftEntry *left)
{
	HASH_SEQ_STATUS scan;
	LeftEntry  *entry;
	int			n = 0;

	LWLockAcquire(&workers->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, left_table);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.leader_pid != MyProcPid)
			continue;
		SF_ASSERT(n < sf_max_columns);
		if (entry->since >= MyStartTimestamp)
			left[n++] = *entry;
		hash_search(left_table, &entry->key, HASH_REMOVE, NULL);
	}
	LWLockRelease(&workers->lock);
	return n;
}

/* Add to the counters of the session what its workers have left. */
static void
collect(void)
{
	LeftEntry  *left;
	int			n;

	if (workers == NULL)
		return;
	left = MemoryContextAllocHuge(CurrentMemoryContext,
								  mul_size(sf_max_columns, sizeof(LeftEntry)));
	n = take_left(left);
	for (int i = 0; i < n; i++)
		sfi_stats_add_counters(sfi_stats_session(&left[i].key.column), &left[i].counters);
	pfree(left);
}

/* ---- the view of them ---- */

static void
list_one(SfStatColumn *column, const SfSharedColumn *key, const SfStatCounters *counters)
{
	memset(column, 0, sizeof(*column));
	column->table_oid = key->table_oid;
	column->attnum = (AttrNumber) key->attnum;
	column->counters = *counters;
}

int
sfi_stats_session_list(SfStatColumn **columns)
{
	SfSharedColumn no_column = {MyDatabaseId, InvalidOid, 0};
	HASH_SEQ_STATUS scan;
	SessionEntry *entry;
	int			n = 0;

	collect();
	*columns = palloc((MOST_COLUMNS + 1) * sizeof(SfStatColumn));
	list_one(&(*columns)[n++], &no_column, &nowhere);
	if (session_table == NULL)
		return n;
	hash_seq_init(&scan, session_table);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		SF_ASSERT(n <= MOST_COLUMNS);
		list_one(&(*columns)[n++], &entry->key, &entry->counters);
	}
	return n;
}
