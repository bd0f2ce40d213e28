/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Local counters of a process, and their sums in shared memory.
 *
 * Shared memory has a hash table of fixed size: securefile.max_columns
 * columns of all databases.  When it is full, the column that was flushed longest
 * ago gives way, and the log says so once.  That is a dropped column if there is
 * one, since this room does not learn of a DROP or a DROP DATABASE.  Therefore
 * counting never fails.
 *
 * Locking: shared->lock covers the table's structure, shared to find an entry
 * and exclusive to add, evict or list; each entry's spinlock covers its
 * numbers.  Nothing here throws while it holds either, and no other lock is
 * taken under them.  sf_stats_flush() runs in the commit and abort callbacks,
 * so it allocates nothing and throws nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "stats/stats_internal.h"

#include "access/xact.h"
#include "config/config.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

/* with more columns than this a backend gives its local table back after a flush */
#define LOCAL_KEEP		64

typedef struct StatEntry
{
	SfSharedColumn key;
	slock_t		lock;
	TimestampTz reset;
	TimestampTz last_flush;
	SfStatCounters counters;
} StatEntry;

typedef struct StatShared
{
	LWLock		lock;
	bool		overflowed;		/* logged once */
} StatShared;

typedef struct LocalEntry
{
	SfSharedColumn key;
	SfStatCounters counters;
	SfStatCounters *session;	/* what the session has counted before */
} LocalEntry;

static StatShared *shared = NULL;
static HTAB *shared_table = NULL;

static HTAB *local_table = NULL;
static LocalEntry *local_last = NULL;	/* the entry asked for last */

/* ---- shared memory ---- */

const SfSharedArea sf_stats_area = {
	.name = "securefile stats", .at = (void **) &shared,
	.bytes = sizeof(StatShared), .lock = "securefile_stats"
};

const SfSharedArea sf_stats_columns_area = {
	.name = "securefile stats columns", .at = (void **) &shared_table,
	.items = &sf_max_columns, .item_bytes = sizeof(StatEntry), .key_bytes = sizeof(SfSharedColumn)
};

/* ---- counters ---- */

static bool
all_zero(const SfStatCounters *counters)
{
	static const SfStatCounters zero;

	return memcmp(counters, &zero, sizeof(zero)) == 0;
}

SfStatCounters *
sf_stats_local(Oid table_oid, AttrNumber attnum)
{
	SfSharedColumn key;
	bool		found;

	if (!OidIsValid(table_oid))
		return sfi_stats_session_nowhere();
	if (local_last != NULL && local_last->key.db == MyDatabaseId &&
		local_last->key.table_oid == table_oid && local_last->key.attnum == attnum)
		return &local_last->counters;

	key = sf_base_shared_column(table_oid, attnum);
	if (local_table == NULL)
		local_table = sf_base_table("securefile local stats", sizeof(SfSharedColumn),
									sizeof(LocalEntry), TopMemoryContext);
	local_last = hash_search(local_table, &key, HASH_ENTER, &found);
	if (!found)
	{
		memset(&local_last->counters, 0, sizeof(SfStatCounters));
		/* what comes next may throw */
		local_last->session = sfi_stats_session_nowhere();
		local_last->session = sfi_stats_session(&key);
	}
	return &local_last->counters;
}

/* Remove the entry that was flushed longest ago.  The lock is held exclusively. */
static void
evict_oldest(void)
{
	HASH_SEQ_STATUS scan;
	StatEntry  *entry;
	StatEntry  *oldest = NULL;

	SF_ASSERT(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));

	hash_seq_init(&scan, shared_table);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (oldest == NULL || entry->last_flush < oldest->last_flush)
			oldest = entry;
	}
	if (oldest != NULL)
		hash_search(shared_table, &oldest->key, HASH_REMOVE, NULL);
}

/*
 * Find or make an entry; NULL when there is no memory even so.  The lock is held
 * exclusively.  Sets *first_overflow when an entry had to give way for the first
 * time.
 */
static StatEntry *
enter(const SfSharedColumn *key, TimestampTz now, bool *first_overflow)
{
	bool		found;
	StatEntry  *entry;

	SF_ASSERT(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	entry = hash_search(shared_table, key, HASH_ENTER_NULL, &found);
	if (entry == NULL)
	{
		*first_overflow = !shared->overflowed;
		shared->overflowed = true;
		evict_oldest();
		entry = hash_search(shared_table, key, HASH_ENTER_NULL, &found);
	}
	if (entry != NULL && !found)
	{
		SpinLockInit(&entry->lock);
		entry->reset = now;
		entry->last_flush = now;
		memset(&entry->counters, 0, sizeof(SfStatCounters));
	}
	return entry;
}

static void
add_to_entry(StatEntry *entry, const SfStatCounters *add, TimestampTz now)
{
	/* else the entry could be evicted meanwhile */
	SF_ASSERT(LWLockHeldByMe(&shared->lock));
	SpinLockAcquire(&entry->lock);
	sfi_stats_add_counters(&entry->counters, add);
	entry->last_flush = now;
	SpinLockRelease(&entry->lock);
}

/*
 * Add local counters to a column's shared ones.  The entry is there but for the first
 * time, so the lock is first taken in shared mode.
 */
static void
flush_one(const SfSharedColumn *key, const SfStatCounters *add)
{
	TimestampTz now = GetCurrentTransactionStopTimestamp();
	bool		first_overflow = false;
	StatEntry  *entry;

	LWLockAcquire(&shared->lock, LW_SHARED);
	entry = hash_search(shared_table, key, HASH_FIND, NULL);
	if (entry == NULL)
	{
		LWLockRelease(&shared->lock);
		LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
		entry = enter(key, now, &first_overflow);
	}
	if (entry != NULL)
		add_to_entry(entry, add, now);
	LWLockRelease(&shared->lock);

	if (first_overflow)
		ereport(LOG_SERVER_ONLY,
				(errmsg("more than %d securefile columns are in use, statistics of those unused longest are lost",
						sf_max_columns),
				 errhint("Increase securefile.max_columns.")));
}

/* Hand over all local counters, to the session and to shared memory. */
static void
flush_local(void)
{
	HASH_SEQ_STATUS scan;
	LocalEntry *entry;

	hash_seq_init(&scan, local_table);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (all_zero(&entry->counters))
			continue;
		flush_one(&entry->key, &entry->counters);
		sfi_stats_add_counters(entry->session, &entry->counters);
		memset(&entry->counters, 0, sizeof(SfStatCounters));
	}
	if (hash_get_num_entries(local_table) > LOCAL_KEEP)
	{
		hash_destroy(local_table);
		local_table = NULL;
		local_last = NULL;
	}
}

void
sf_stats_flush(void)
{
	if (shared == NULL)
		return;
	if (local_table != NULL)
		flush_local();
	sfi_stats_session_at_end();
}

/* ---- views of the counters ---- */

/* Copy an entry of the table, whose lock is held. */
static void
copy_entry(SfStatColumn *column, StatEntry *entry)
{
	column->table_oid = entry->key.table_oid;
	column->attnum = (AttrNumber) entry->key.attnum;
	SpinLockAcquire(&entry->lock);
	column->counters = entry->counters;
	column->reset = entry->reset;
	SpinLockRelease(&entry->lock);
}

int
sf_stats_list(SfStatColumn **columns)
{
	HASH_SEQ_STATUS scan;
	StatEntry  *entry;
	int			n = 0;

	sf_base_require_preload();

	/*
	 * before the lock is taken, since memory may be short; there are at most
	 * this many
	 */
	*columns = MemoryContextAllocHuge(CurrentMemoryContext,
									  mul_size(sf_max_columns, sizeof(SfStatColumn)));
	LWLockAcquire(&shared->lock, LW_SHARED);
	hash_seq_init(&scan, shared_table);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.db != MyDatabaseId)
			continue;
		SF_ASSERT(n < sf_max_columns);
		copy_entry(&(*columns)[n++], entry);
	}
	LWLockRelease(&shared->lock);
	return n;
}

/* Add the local counters of a column, if there are any. */
static void
add_local(SfStatColumn *column)
{
	SfSharedColumn key = sf_base_shared_column(column->table_oid, column->attnum);
	LocalEntry *entry = hash_search(local_table, &key, HASH_FIND, NULL);

	if (entry != NULL)
		sfi_stats_add_counters(&column->counters, &entry->counters);
}

int
sf_stats_session_list(SfStatColumn **columns)
{
	int			n = sfi_stats_session_list(columns);

	for (int i = 0; i < n && local_table != NULL; i++)
		add_local(&(*columns)[i]);
	return n;
}

void
sf_stats_reset(Oid table_oid, AttrNumber attnum)
{
	SfSharedColumn key = sf_base_shared_column(table_oid, attnum);
	TimestampTz now = GetCurrentTimestamp();
	StatEntry  *entry;

	sf_base_require_preload();

	LWLockAcquire(&shared->lock, LW_SHARED);
	entry = hash_search(shared_table, &key, HASH_FIND, NULL);
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->lock);
		memset(&entry->counters, 0, sizeof(SfStatCounters));
		entry->reset = now;
		SpinLockRelease(&entry->lock);
	}
	LWLockRelease(&shared->lock);
}
