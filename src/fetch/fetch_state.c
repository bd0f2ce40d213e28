/*-------------------------------------------------------------------------
 *
 * fetch_state.c
 *	  The shared memory of the room: how far the worker has come with each column, and
 *	  the function behind view securefile_fetch.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_authid.h"
#include "config/config.h"
#include "fetch/fetch_internal.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(securefile_fetch_state);

#define COLUMNS		9

/* After the first time without an answer, and the longest time. */
#define FIRST_PAUSE_MS	(10 * 1000)
#define MOST_PAUSE_MS	(5 * 60 * 1000)

typedef struct Entry
{
	SfSharedColumn key;
	SfFetchState state;
} Entry;

/* The other server, for all columns of all databases. */
typedef struct Peer
{
	LWLock		lock;			/* covers this and all entries */
	TimestampTz pause_until;	/* it did not answer: nobody asks it before */
	int			pause_ms;		/* and how long that is; 0: it did */
} Peer;

/* Both are made before any process looks. */
static Peer *peer = NULL;
static HTAB *table = NULL;

const SfSharedArea sf_fetch_area = {
	.name = "securefile fetch", .at = (void **) &peer,
	.bytes = sizeof(Peer), .lock = "securefile_fetch"
};

const SfSharedArea sf_fetch_columns_area = {
	.name = "securefile fetch columns", .at = (void **) &table,
	.items = &sf_max_columns, .item_bytes = sizeof(Entry), .key_bytes = sizeof(SfSharedColumn)
};

SfFetchState
sfi_fetch_state_get(Oid table_oid, AttrNumber attnum)
{
	SfSharedColumn key = sf_base_shared_column(table_oid, attnum);
	SfFetchState state = {0};
	Entry	   *entry;

	LWLockAcquire(&peer->lock, LW_SHARED);
	entry = hash_search(table, &key, HASH_FIND, NULL);
	if (entry != NULL)
		state = entry->state;
	LWLockRelease(&peer->lock);
	return state;
}

void
sfi_fetch_state_set(Oid table_oid, AttrNumber attnum, const SfFetchState *state)
{
	SfSharedColumn key = sf_base_shared_column(table_oid, attnum);
	Entry	   *entry;

	LWLockAcquire(&peer->lock, LW_EXCLUSIVE);
	entry = hash_search(table, &key, HASH_ENTER_NULL, NULL);
	if (entry != NULL)
		entry->state = *state;
	LWLockRelease(&peer->lock);
}

/* ---- the other server ---- */

void
sfi_fetch_note_answer(bool came)
{
	LWLockAcquire(&peer->lock, LW_EXCLUSIVE);
	if (came)
		peer->pause_ms = 0;
	else
	{
		peer->pause_ms = Min(Max(2 * peer->pause_ms, FIRST_PAUSE_MS), MOST_PAUSE_MS);
		peer->pause_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), peer->pause_ms);
	}
	LWLockRelease(&peer->lock);
}

bool
sfi_fetch_may_ask(void)
{
	bool		may;

	LWLockAcquire(&peer->lock, LW_SHARED);
	may = peer->pause_ms == 0 || peer->pause_until <= GetCurrentTimestamp();
	LWLockRelease(&peer->lock);
	return may;
}

/* ---- view ---- */

static void
put_row(FunctionCallInfo fcinfo, const Entry *entry)
{
	const SfFetchState *state = &entry->state;
	Datum		values[COLUMNS];
	bool		nulls[COLUMNS] = {0};

	values[0] = ObjectIdGetDatum(entry->key.table_oid);
	values[1] = Int16GetDatum(entry->key.attnum);
	values[2] = Int64GetDatum(state->fetched_values);
	values[3] = Int64GetDatum(state->fetched_bytes);
	values[4] = Int64GetDatum(state->left_values);
	values[5] = Int64GetDatum(state->left_bytes);
	values[6] = Int64GetDatum(state->passes);
	values[7] = TimestampTzGetDatum(state->last_pass);
	nulls[7] = state->last_pass == 0;
	/* it may name the other server */
	nulls[8] = state->failure[0] == '\0' ||
		!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
	values[8] = nulls[8] ? (Datum) 0 : CStringGetTextDatum(state->failure);
	sf_base_put_row(fcinfo, values, nulls);
}

/* The entries of this database, palloc'd; returns how many.  No row is made under the lock. */
static int
copy_entries(Entry **copies)
{
	HASH_SEQ_STATUS scan;
	Entry	   *entry;
	int			n = 0;

	*copies = palloc_extended(sf_max_columns * sizeof(Entry), MCXT_ALLOC_HUGE);

	LWLockAcquire(&peer->lock, LW_SHARED);
	hash_seq_init(&scan, table);
	while ((entry = hash_seq_search(&scan)) != NULL)
		if (entry->key.db == MyDatabaseId && n < sf_max_columns)
			(*copies)[n++] = *entry;
	LWLockRelease(&peer->lock);
	return n;
}

/*
 * securefile_fetch_state()
 * returns setof (table_oid oid, attnum smallint, fetched_values bigint, fetched_bytes bigint,
 *				  left_values bigint, left_bytes bigint, passes bigint,
 *				  last_pass timestamptz, failure text)
 */
Datum
securefile_fetch_state(PG_FUNCTION_ARGS)
{
	Entry	   *entries;
	int			n;

	sf_base_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	n = copy_entries(&entries);
	for (int i = 0; i < n; i++)
		put_row(fcinfo, &entries[i]);
	return (Datum) 0;
}
