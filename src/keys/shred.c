/*-------------------------------------------------------------------------
 *
 * shred.c
 *	  All data keys of a column are destroyed, so that nobody can read its values any more.
 *
 * Values are shredded by a transaction, which may roll back.  So it only puts a mark on the
 * key pages: how many of the keys are shredded, and by which transaction.  When that has
 * committed the keys are gone for all, at once.  Their bytes are overwritten then:
 *
 *	 BEGIN; shred		COMMIT				monitor, maintain or vacuum
 *	 mark			->	keys are gone	->	zeros, on disk	->	state "destroyed", no mark
 *
 * A crash in between changes nothing: the mark is there, and the commit log knows.
 *
 * X1	bytes of a key are overwritten only when the transaction of the mark has committed.
 * X2	a key says that it is destroyed only when its bytes have been overwritten on disk.
 * X3	a mark is replaced only when its transaction has not committed, or is finished.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "keys/keys_internal.h"
#include "miscadmin.h"
#include "space/key_pages.h"
#include "utils/memutils.h"

/* Transactions and subtransactions that have shredded; of the current transaction. */
static List *shredding = NIL;

/* ---- the mark ---- */

static bool
has_mark(const SfKeyPage *keys, SfTransactionEnd end)
{
	return keys->shred_count > 0 && sf_base_transaction_end(keys->shred_fxid) == end;
}

/* The table is locked, so a transaction that has marked it and goes on is the current one. */
static void
refuse_second(const SfKeyPage *keys, uint64 fxid)
{
	if (keys->shred_fxid != fxid && has_mark(keys, SF_END_RUNNING))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot call securefile_shred() twice for a column in a transaction"),
				 errdetail("The first call was made in another subtransaction."),
				 errhint("Commit first.")));
}

/* Mark all keys of a page; how many of them were not destroyed before. */
static int
mark_all(SfKeyPage *keys, uint64 fxid)
{
	int			done = 0;

	for (uint32 i = 0; i < keys->nentries; i++)
		done += keys->entries[i].purpose == SF_KEY_DATA &&
			!sfi_keys_is_destroyed(keys, &keys->entries[i]);
	if (done == 0)
		return 0;
	refuse_second(keys, fxid);
	SF_INVARIANT(X3, !has_mark(keys, SF_END_COMMITTED));
	keys->shred_count = keys->nentries;
	keys->shred_fxid = fxid;
	return done;
}

/* Before the record, since nothing may throw after it. */
static void
note_shredding(TransactionId xid)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	shredding = list_append_unique_int(shredding, (int) xid);
	MemoryContextSwitchTo(old);
}

int
sf_keys_shred(SfSegment *seg)
{
	SfKeyPage	seen;
	SfKeyPage	keys;
	FullTransactionId fxid;
	int			done;

	if (!SF_BREAKS(x3))
		sf_keys_finish_shred(seg);
	fxid = GetCurrentFullTransactionId();
	SF_ASSERT(!seg->retained);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!sf_space_read_keys(seg, 0, &seen))
			return 0;
		keys = seen;
		done = mark_all(&keys, U64FromFullTransactionId(fxid));
		if (done == 0)
			return 0;
		note_shredding(XidFromFullTransactionId(fxid));
	} while (!sfi_keys_publish(seg, &seen, &keys));
	SF_FAULT(shred_marked);
	return done;
}

/* ---- after the commit ---- */

/* Overwrite the bytes of keys that are shredded; in memory of the caller. */
static void
wipe_all(SfKeyPage *keys)
{
	SF_INVARIANT(X1, has_mark(keys, SF_END_COMMITTED));
	for (uint32 i = 0; i < keys->shred_count; i++)
	{
		SfWrappedKey *entry = &keys->entries[i];

		if (sf_key_is_marked(keys, entry) && !SF_BREAKS(x2))
			memset(entry->master_check, 0,
				   sizeof(SfWrappedKey) - offsetof(SfWrappedKey, master_check));
	}
}

/* Say that they are destroyed, and take the mark away; in memory of the caller. */
static void
settle_all(SfKeyPage *keys)
{
	for (uint32 i = 0; i < keys->shred_count; i++)
		if (sf_key_is_marked(keys, &keys->entries[i]))
			keys->entries[i].state = SF_KEY_DESTROYED;
	keys->shred_count = 0;
	keys->shred_fxid = 0;
	SF_INVARIANT(X2, sf_format_keys_problem(keys) == NULL);
}

/* Change the keys of a segment that are shredded; false if there are none. */
static bool
change_shredded(SfSegment *seg, void (*change) (SfKeyPage *keys))
{
	SfKeyPage	seen;
	SfKeyPage	keys;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!sf_space_read_keys(seg, 0, &seen) ||
			!(has_mark(&seen, SF_END_COMMITTED) || SF_BREAKS(x1)))
			return false;
		keys = seen;
		change(&keys);
	} while (!sfi_keys_publish(seg, &seen, &keys));
	return true;
}

uint64
sf_keys_shredding(SfSegment *seg)
{
	SfKeyPage	keys;

	return sf_space_read_keys(seg, 0, &keys) && has_mark(&keys, SF_END_COMMITTED) ?
		keys.shred_fxid : 0;
}

void
sf_keys_finish_shred(SfSegment *seg)
{
	if (!change_shredded(seg, wipe_all))
		return;
	SF_FAULT(shred_wiped);
	sf_space_sync_keys(seg);	/* X2 */
	(void) change_shredded(seg, settle_all);
}

/* ---- the transaction ---- */

void
sf_keys_refuse_prepare(void)
{
	ListCell   *cell;

	foreach(cell, shredding)
	{
		/* one that was rolled back has left nothing */
		if (TransactionIdIsCurrentTransactionId((TransactionId) lfirst_int(cell)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has called securefile_shred()")));
	}
}

bool
sf_keys_at_end(void)
{
	bool		any = shredding != NIL;

	shredding = NIL;			/* its memory goes with the transaction */
	return any;
}
