/*-------------------------------------------------------------------------
 *
 * storage.c
 *	  Life of a segment's storage: data files follow the segment relation.
 *
 * As in the server's catalog/storage.c there is one list of what to do at the
 * end of the transaction, with nest levels: files made by an aborted
 * (sub)transaction go, files dropped by a committed one go.  Both creation and
 * removal are logged, and the log flushed, before they are done (rule 2).  New
 * storage has no files: they come with its first growth (grow.c).
 * Whatever a crash leaves between these steps is found by sf_space_sweep().
 *
 * The removal record is written after the transaction's own commit or abort
 * record and may carry its xid, which replay tolerates: an xid that was seen
 * to end is not taken for running again.
 *
 *	 crash after						is left							cleaned up by
 *	 the header page, no growth			a fork without files			the server
 *	 growth, before the commit			files of an aborted creator		sweeper
 *	 the commit of a drop				files of dropped storage		sweeper
 *	 the removal record					files, perhaps some of them		redo, sweeper
 *	 the files, before the directory	an empty directory				sweeper
 *
 * The list is newest first, and its levels never rise from the head on: so the notes
 * of a subtransaction are a prefix of the list.
 *
 * Nothing may throw once the transaction has committed.  So all that can fail comes
 * before, in sf_space_pre_commit(); after it, a failed removal is a WARNING, and the
 * sweeper tries again.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "base/server.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "space/storage.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

typedef struct StorageNote
{
	struct StorageNote *next;
	SfStorage	storage;
	bool		at_commit;		/* remove at commit, else at abort */
	bool		retained;		/* but leave it to the sweeper */
	int			level;			/* nest level of the (sub)transaction */
} StorageNote;

static StorageNote *notes;

/* Notes of storage that a rollback to a savepoint of this transaction removed. */
static StorageNote *gone;

/* How often storage that this process has made was lost by a rollback, or may be. */
static uint64 undone;

/* Are the notes in the order of their levels, newest first? */
static bool
notes_are_valid(void)
{
	for (const StorageNote *note = notes; note != NULL; note = note->next)
		if (note->level < 1 || (note->next != NULL && note->next->level > note->level))
			return false;
	return true;
}

/* The note outlives the transaction's memory: it is acted upon when that is gone. */
static void
add_storage_note(SfStorage storage, bool at_commit)
{
	StorageNote *note = MemoryContextAlloc(TopMemoryContext, sizeof(*note));

	note->storage = storage;
	note->at_commit = at_commit;
	note->retained = false;
	note->level = GetCurrentTransactionNestLevel();
	note->next = notes;
	notes = note;
	SF_ASSERT(SfStorageRel(storage) != 0 && notes_are_valid());
}

void
sfi_storage_note_made(SfStorage storage)
{
	add_storage_note(storage, false);
}

/* Nothing in this process, or in shared memory, may lead to the storage any more. */
static void
forget_storage(SfStorage storage)
{
	sfi_dispense_forget(storage);
	sfi_parked_forget(storage);
	sfi_proved_forget_storage(storage);
	sf_io_close(storage);
}

static XLogRecPtr
log_unlink(SfStorage storage)
{
	xl_sf_storage rec = {SF_WAL_VERSION, storage};

	SF_ASSERT(!InRecovery && SfStorageRel(storage) != 0);
	XLogBeginInsert();
	XLogRegisterData((char *) &rec, sizeof(rec));
	return XLogInsert(SF_RMGR_ID, XLOG_SF_UNLINK);
}

/*
 * Log the removal of the storage in a list, make the log durable, remove it, make
 * that durable: each once for all of them.  Storage that never had data has no
 * directory, here and on standbys, and there is nothing to do.
 */
static void
unlink_logged(const StorageNote *list)
{
	XLogRecPtr	end = InvalidXLogRecPtr;

	(void) SF_FAULT_IO(drop_before_unlink); /* must not throw */
	for (const StorageNote *note = list; note != NULL; note = note->next)
	{
		forget_storage(note->storage);
		if (sf_io_files_may_exist(note->storage, WARNING))
			end = log_unlink(note->storage);
	}
	if (end == InvalidXLogRecPtr)
		return;
	XLogFlush(end);
	SF_INVARIANT(rule_2, !XLogNeedsFlush(end));
	(void) SF_FAULT_IO(drop_after_record);
	for (const StorageNote *note = list; note != NULL; note = note->next)
	{
		sf_io_files_remove(note->storage);
		/* notes of one tablespace mostly follow one another */
		if (note->next == NULL || SfStorageSpc(note->next->storage) != SfStorageSpc(note->storage))
			sf_io_sync_removed(SfStorageSpc(note->storage), SfStorageDb(note->storage));
	}
	(void) SF_FAULT_IO(drop_after_unlink);
}

void
sf_space_create_storage(SfStorage storage, Oid table_oid, AttrNumber attnum, bool logged_data,
						uint64 next_object_id)
{
	xl_sf_storage rec = {SF_WAL_VERSION, storage};
	SfHeader	header = {0};
	Buffer		buf;

	SF_ASSERT(next_object_id > 0 && attnum > 0 && OidIsValid(table_oid));
	sf_base_require_preload();
	SF_FAULT(create_before_record);
	if (!sfi_upgrade_is_finishing())
		sf_io_database_claim(SfStorageDb(storage));
	sf_io_files_clear(storage);
	if (!pg_strong_random(&header.incarnation, sizeof(header.incarnation)) ||
		!pg_strong_random(&header.secret, sizeof(header.secret)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate the random numbers of a segment")));

	/*
	 * The creator is the top-level transaction: the sweeper asks whether it
	 * still runs, and a subtransaction that has ended may be part of one that
	 * does.
	 */
	header.restore_id = sf_io_restore_id();
	header.creator_fxid = U64FromFullTransactionId(GetTopFullTransactionId());
	header.next_object_id = next_object_id;
	header.table_oid = table_oid;
	header.attnum = attnum;
	header.flags = logged_data ? 0 : SF_SEG_UNLOGGED_DATA;
	header.free_head = header.pending_head = header.pending_tail = SF_NO_PAGE;
	header.next_page = 2;
	header.next_stamp = 1;

	/* the fork gets its block before files exist: see creator_may_live() */
	buf = sf_compat_first_page(storage);
	if (BufferGetBlockNumber(buf) != 0)
		elog(ERROR, "new segment relation is not empty");
	sfi_storage_note_made(storage);
	sfi_change_begin();
	sfi_change_init(sfi_change_add(buf), SF_PAGE_HEADER, &header, sizeof(header));
	(void) sfi_change_finish(XLOG_SF_CREATE, &rec, sizeof(rec));
	SF_FAULT(create_after_record);
}

void
sf_space_drop_storage(SfStorage storage)
{
	add_storage_note(storage, true);
}

bool
sf_space_has_dropped(void)
{
	for (const StorageNote *note = notes; note != NULL; note = note->next)
		if (note->at_commit)
			return true;
	return false;
}

bool
sf_space_undone_since(uint64 *as_of)
{
	bool		rose = *as_of != undone;

	SF_ASSERT(*as_of <= undone);
	*as_of = undone;
	return rose;
}

static void
free_notes(StorageNote **list)
{
	while (*list != NULL)
	{
		StorageNote *note = *list;

		*list = note->next;
		pfree(note);
	}
}

/*
 * Do what the notes of this level and above ask for; they are the first ones
 * of the list.  All are taken off before they are acted on, so that an error
 * cannot make us do a thing twice.  Those whose storage was removed are gone then.
 */
static void
run_notes(bool commit, int min_level)
{
	StorageNote *removed = NULL;
	StorageNote **end = &gone;

	SF_ASSERT(notes_are_valid() && CritSectionCount == 0);
	while (notes != NULL && notes->level >= min_level)
	{
		StorageNote *note = notes;

		notes = note->next;
		if (note->at_commit == commit && !note->retained)
		{
			note->next = removed;
			removed = note;
			continue;
		}
		if (note->at_commit == commit)
			forget_storage(note->storage);
		pfree(note);
	}
	SF_ASSERT(notes == NULL || notes->level < min_level);
	undone += !commit && removed != NULL;
	if (removed != NULL)
		unlink_logged(removed);
	while (*end != NULL)
		end = &(*end)->next;
	*end = removed;
}

/*
 * Storage that logical decoding may need is copied as far as the server removes it, and
 * is left to the sweeper.  An ERROR here still rolls the transaction back.
 */
void
sf_space_pre_commit(void)
{
	SF_ASSERT(GetCurrentTransactionNestLevel() == 1 && notes_are_valid());
	if (notes == NULL || !sf_space_keeps_dropped())
		return;
	for (StorageNote *note = notes; note != NULL; note = note->next)
		if (note->at_commit)
		{
			sfi_retained_save(note->storage);
			note->retained = true;
		}
}

/*
 * A prepared transaction is ended by another process, perhaps after a
 * restart: its files are left to the sweeper.  Nobody tells this process how it ends.
 */
static void
forget_prepared(void)
{
	SF_ASSERT(notes_are_valid());
	undone += notes != NULL;
	free_notes(&notes);
}

/* Storage that a slot may need is left to the sweeper. */
bool
sf_space_at_end(SfTransactionEnd how)
{
	bool		commit = how == SF_END_COMMITTED;
	bool		kept = false;

	SF_ASSERT(how != SF_END_UNKNOWN);
	for (StorageNote *note = notes; note != NULL && commit; note = note->next)
		kept |= note->retained;
	if (how == SF_END_RUNNING)
		forget_prepared();
	else
	{
		run_notes(commit, 0);
		kept |= sfi_upgrade_at_end(commit);
	}
	free_notes(&gone);
	SF_ASSERT(notes == NULL);
	sfi_keep_at_end();
	return kept;
}

/*
 * What the rolled back subtransaction made goes at once.  Outer levels may
 * still hold bytes for it, and must know.
 */
static void
abort_level(int level)
{
	/*
	 * an error in a move may have left it set; the end of the transaction
	 * clears it
	 */
	sf_server_delay_checkpoint_end();
	run_notes(false, level);
}

void
sf_space_at_subend(int level, bool commit)
{
	SF_ASSERT(level > 1 && (notes == NULL || notes->level <= level));
	if (!commit)
		abort_level(level);
	for (StorageNote *note = notes; note != NULL; note = note->next)
		note->level = Min(note->level, level - 1);
}

/*
 * The list is short: it has what the savepoints of one transaction, rolled back, had made
 * by CREATE or TRUNCATE.
 */
bool
sf_space_is_removed(SfStorage storage)
{
	for (const StorageNote *note = gone; note != NULL; note = note->next)
		if (SfStorageEquals(note->storage, storage))
			return true;
	return false;
}

void
sf_space_log_drop_database(Oid db)
{
	xl_sf_db	rec = {SF_WAL_VERSION, db};

	SF_ASSERT(OidIsValid(db) && !InRecovery);
	XLogBeginInsert();
	XLogRegisterData((char *) &rec, sizeof(rec));
	XLogFlush(XLogInsert(SF_RMGR_ID, XLOG_SF_DROP_DB));
}

/* ---- sweeping ---- */

/*
 * May the files of a segment go?  Only when no transaction that could still
 * commit made them, and the catalog, looked at after that, does not know them.
 *
 * The creator stands in the header page.  It is read from disk, past the
 * buffers: no process may make buffers of a relation that a drop is removing
 * (rule 4).  A fork without blocks is one that a committed drop left behind
 * for the next checkpoint.  One whose header has not reached the disk has a
 * creator that is alive: recovery puts the headers of the others there, for
 * they are durable in WAL before there is a file.
 */
static bool
creator_may_live(SfStorage storage)
{
	SfIoBlock	block;
	FullTransactionId creator;

	if (!sfi_page_first_of_fork(storage, block.data))
		return false;
	if (sfi_page_type(block.data) != SF_PAGE_HEADER)
		return true;
	creator = FullTransactionIdFromU64(SfPageHeader(block.data)->creator_fxid);
	/* an id that is still to come was lost in a crash, with all that it did */
	return FullTransactionIdPrecedes(creator, ReadNextFullTransactionId()) &&
		TransactionIdIsInProgress(XidFromFullTransactionId(creator));
}

/*
 * The catalog is asked as it is now, by a snapshot of this moment, and not through the
 * cache of file numbers.  That may hold "nobody's" for a number that somebody asked for
 * while its creator ran, until the creator has sent its invalidations; and before these
 * its callbacks at commit run, which wait for disks.
 */
bool
sfi_space_is_named(SfStorage storage)
{
	Oid			spc = SfStorageSpc(storage) == MyDatabaseTableSpace ? InvalidOid :
		SfStorageSpc(storage);
	Relation	rel = table_open(RelationRelationId, AccessShareLock);
	Snapshot	now = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData key[2];
	SysScanDesc scan;
	bool		found;

	ScanKeyInit(&key[0], Anum_pg_class_reltablespace, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(spc));
	ScanKeyInit(&key[1], Anum_pg_class_relfilenode, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(SfStorageRel(storage)));
	scan = systable_beginscan(rel, ClassTblspcRelfilenodeIndexId, true, now, 2, key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	UnregisterSnapshot(now);
	table_close(rel, AccessShareLock);
	return found;
}

/* A creator that has ended is asked for first: what it made is then in the snapshot. */
static bool
is_orphan(SfStorage storage)
{
	return !creator_may_live(storage) && !sfi_space_is_named(storage);
}

typedef struct Sweep
{
	int			removed;
	int			kept;
} Sweep;

/* Remove the files of one segment, unless somebody needs them; told by sf_io_scan(). */
static void
sweep_one(SfStorage storage, void *arg)
{
	Sweep	   *sweep = arg;
	StorageNote note = {.next = NULL, .storage = storage};

	SF_ASSERT(SfStorageDb(storage) == MyDatabaseId);
	CHECK_FOR_INTERRUPTS();
	if (!is_orphan(storage))
	{
		/* pages beside the data files are of an upgrade that is finished */
		sf_io_pages_remove(storage);
		return;
	}
	if (sfi_retained_is_needed(storage))
	{
		sweep->kept++;
		return;
	}
	SF_FAULT(sweep_before);
	ereport(LOG_SERVER_ONLY,
			(errmsg("removing data files of dropped segment %s", sf_io_files_pattern(storage))));
	unlink_logged(&note);
	sweep->removed++;
}

/*
 * In a transaction that has written anything nothing is removed: its own view of
 * the catalog lacks what it has dropped or given new storage itself, and a rollback
 * would want that again.
 */
int
sf_space_sweep(int *kept)
{
	Sweep		sweep = {0};

	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		sf_io_database_is_own(MyDatabaseId, WARNING))
		sf_io_scan(MyDatabaseId, sweep_one, &sweep);
	*kept = sweep.kept;
	return sweep.removed;
}
