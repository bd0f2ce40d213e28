/*-------------------------------------------------------------------------
 *
 * segment.c
 *	  Finding and opening the segment of a column.
 *
 * A segment is found by name (a syscache look-up), so that nothing has to be
 * invalidated; what its header page says about it is cached for as long as
 * its storage is the same.
 *
 * What an open segment is good for, and for how long:
 *
 *	 relid			found by name, under a lock that stays until the transaction ends
 *	 storage		as it was when the entry was filled; compared with the relation's
 *					each time it is opened, since a TRUNCATE gives it new storage
 *	 from header	incarnation, secret, column, logging: never change in one storage
 *	 ids			reserved for this process; those of a transaction that fails are
 *					lost, as with sequences
 *	 column			what the catalog says, until an invalidation message comes
 *
 * The size of the segment is none of these: it changes while others write, so it is
 * read from the header page each time.
 *
 * An open segment has no pointer to its relation, only the OID: a relcache
 * entry is pinned by the statement that opened it, and a segment lives longer.  The
 * functions of this room open and close the relation for themselves, which costs a
 * look into a hash table and no lock, since the caller's lock is there.
 *
 * Logical decoding is another world: it sees the catalog of a past moment, and storage
 * that has been dropped since (open_historic(), retained.c).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "space/pages.h"
#include "space/storage.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

SfSpaceAbove sfi_above;

static HTAB *segments;			/* SfSegment by relid */

#define IDS_RESERVED_AT_ONCE	64

static uint64 catalog_state = 1;	/* rises whenever a column may have
									 * changed */

/* A look into the cache of pg_class by name, not a scan. */
Oid
sf_space_segment_relid(Oid table_oid, AttrNumber attnum)
{
	char		name[NAMEDATALEN];

	sf_space_segment_name(name, table_oid, attnum);
	return get_relname_relid(name, PG_TOAST_NAMESPACE);
}

SfHeader
sfi_header(Relation segrel)
{
	Buffer		buf = sfi_page_read(segrel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
	SfHeader	header = *SfPageHeader(BufferGetPage(buf));

	SF_ASSERT(header.total_sectors <= SF_MAX_SECTORS && header.next_page >= 2);
	UnlockReleaseBuffer(buf);
	return header;
}

Buffer
sfi_header_lock(Relation segrel, SfHeader *header)
{
	Buffer		buf = sfi_page_read(segrel, 0, SF_PAGE_HEADER, BUFFER_LOCK_EXCLUSIVE);

	*header = *SfPageHeader(BufferGetPage(buf));
	return buf;
}

/*
 * Fill a cache entry from the header page.  The storage is noted last: an entry whose
 * storage is not the relation's is filled anew, also after an ERROR in the middle.
 */
static void
load_segment(SfSegment *seg, SfStorage storage, SfHeader header, bool kept)
{
	SF_ASSERT(OidIsValid(seg->relid) && SfStorageRel(storage) != 0);
	seg->table_oid = header.table_oid;
	seg->attnum = header.attnum;
	seg->incarnation = header.incarnation;
	seg->secret = header.secret;
	seg->logged_data = !(header.flags & SF_SEG_UNLOGGED_DATA);
	seg->retained = kept;
	seg->next_id = seg->end_id = 0;
	seg->described = 0;
	seg->total_sectors = 0;
	seg->storage = storage;
}

/* The cache entry of a segment relation; a new one has no storage. */
static SfSegment *
find_entry(Oid relid)
{
	SfSegment  *seg;
	bool		found;

	if (segments == NULL)
		segments = sf_base_table("securefile segments", sizeof(Oid), sizeof(SfSegment),
								 TopMemoryContext);
	SF_ASSERT(OidIsValid(relid));
	seg = hash_search(segments, &relid, HASH_ENTER, &found);
	if (!found)
		memset(&seg->storage, 0, sizeof(seg->storage));
	return seg;
}

SfSegment *
sf_space_open_rel(Relation segrel)
{
	SfSegment  *seg = find_entry(RelationGetRelid(segrel));

	SF_INVARIANT(rule_4, CheckRelationLockedByMe(segrel, AccessShareLock, true));
	if (!SfStorageEquals(seg->storage, SfRelStorage(segrel)) || seg->retained)
		load_segment(seg, SfRelStorage(segrel), sfi_header(segrel), false);
	return seg;
}

/*
 * Open the segment relation of that name, or return NULL.  It may be dropped between
 * the look for its name and the lock: then there is none.
 */
static SfSegment *
open_named(const char *name, LOCKMODE lockmode)
{
	Oid			relid = get_relname_relid(name, PG_TOAST_NAMESPACE);
	Relation	rel;
	SfSegment  *seg;

	if (!OidIsValid(relid))
		return NULL;
	rel = try_relation_open(relid, lockmode);
	if (rel == NULL)
		return NULL;
	seg = sf_space_open_rel(rel);
	relation_close(rel, NoLock);
	return seg;
}

SfSegment *
sf_space_open(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode, bool missing_ok)
{
	char		name[NAMEDATALEN];
	SfSegment  *seg;

	SF_ASSERT(lockmode == AccessShareLock || lockmode == RowExclusiveLock);
	sf_base_require_preload();
	sf_space_segment_name(name, table_oid, attnum);
	seg = open_named(name, lockmode);
	if (seg == NULL && !missing_ok)
	{
		sf_space_refuse_unfinished(table_oid, attnum, false);
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("column %d of table with OID %u has no securefile segment",
						attnum, table_oid),
				 errdetail("The table or column was dropped, the command that makes it is not through yet, or the segment relation is missing.")));
	}
	return seg;
}

/* The same for the column that a value was read from. */
static SfSegment *
open_of_value(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode)
{
	SfSegment  *seg = sf_space_open(table_oid, attnum, lockmode, true);

	if (seg != NULL)
		return seg;
	sf_space_refuse_unfinished(table_oid, attnum, false);
	sf_base_report_outlived(psprintf("Column %d of table with OID %u has no segment any more: it was dropped, or given another type, after the value was read.",
									 attnum, table_oid));
}

/* The storage that a value was in is gone. */
SF_NORETURN static void
report_replaced(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("securefile value no longer exists"),
			 errdetail("Its column was truncated or rewritten after the value was read, or is being truncated."),
			 errhint("Repeat the command that read the value from its table. A BEFORE TRUNCATE trigger can read the rows of its own table.")));
}

SfSegment *
sf_space_open_to_edit(Oid table_oid, AttrNumber attnum, uint64 incarnation)
{
	SfSegment  *seg = open_of_value(table_oid, attnum, RowExclusiveLock);

	if (seg->incarnation != incarnation)
		report_replaced();
	return seg;
}

/* The storage a segment relation has in the catalog as decoding sees it. */
static bool
historic_storage(Oid relid, SfStorage *storage)
{
	Relation	rel = RelationIdGetRelation(relid);

	if (rel == NULL)
		return false;
	*storage = SfRelStorage(rel);
	RelationClose(rel);
	return true;
}

/* What went while this server was a standby has no copy here: only the one that drops makes it. */
static void
require_kept(Relation rel)
{
	SF_ASSERT(HistoricSnapshotActive());
	if (!smgrexists(RelationGetSmgr(rel), MAIN_FORKNUM))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("storage that the replication slot needs is not on this server"),
				 errdetail("A table was truncated, rewritten or dropped while the slot lagged and this server was a standby, which keeps no storage for slots."),
				 errhint("Move the slot on with pg_replication_slot_advance(), and bring the rows over by other means.")));
}

/*
 * Logical decoding: the segment as it was, which may have been dropped or
 * replaced since.  We do not wait for its lock: the transaction that drops it may
 * have committed and wait for a synchronous subscriber, that is for us.
 *
 * Each round asks in this order: can the lock be had, and is there a copy that counts?
 * With the lock, and no such copy, the relation is there and stays (K2).  With a copy
 * that counts, no lock is needed.  Without both, somebody is about to drop it: a moment
 * later it has committed, and the copy counts, or it has failed, and the lock is free.
 */
static SfSegment *
open_historic(const char *name)
{
	Oid			relid = get_relname_relid(name, PG_TOAST_NAMESPACE);
	SfSegment  *seg;
	SfStorage	storage;

	if (!OidIsValid(relid) || !historic_storage(relid, &storage))
		return NULL;
	SF_ASSERT(HistoricSnapshotActive());
	for (;;)
	{
		bool		locked = SF_BREAKS(k2) || ConditionalLockRelationOid(relid, AccessShareLock);

		/* looked for under the lock, if we have it: nobody drops it meanwhile */
		if (sfi_retained_counts(storage))
		{
			if (locked)
				UnlockRelationOid(relid, AccessShareLock);
			break;
		}
		if (locked)
		{
			Relation	rel = relation_open(relid, NoLock);

			SF_INVARIANT(K2, CheckRelationLockedByMe(rel, AccessShareLock, true));
			require_kept(rel);
			seg = sf_space_open_rel(rel);
			relation_close(rel, NoLock);
			return seg;
		}
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
	seg = find_entry(relid);
	if (!SfStorageEquals(seg->storage, storage) || !seg->retained)
		load_segment(seg, storage, sfi_retained_header(storage), true);
	return seg;
}

/*
 * Two names may lead to the segment of a value: the column's, and the one that it has
 * while securefile_rewrite() fills a new segment and both are there.  The incarnation
 * says which of them it is; that of a truncated segment is in neither.
 */
SfSegment *
sf_space_open_incarnation(Oid table_oid, AttrNumber attnum, uint64 incarnation)
{
	bool		historic = HistoricSnapshotActive();
	char		name[NAMEDATALEN];
	char		old_name[NAMEDATALEN];
	SfSegment  *seg;

	sf_space_segment_name(name, table_oid, attnum);
	seg = historic ? open_historic(name) :
		open_of_value(table_oid, attnum, AccessShareLock);
	if (seg != NULL && seg->incarnation == incarnation)
		return seg;
	snprintf(old_name, NAMEDATALEN, "%s_old", name);
	seg = historic ? open_historic(old_name) : open_named(old_name, AccessShareLock);
	if (seg != NULL && seg->incarnation == incarnation)
		return seg;
	report_replaced();
}

/*
 * Readers give the lock back as soon as they have read, as the server does for TOAST
 * tables: a transaction that has read one value must not hold up a TRUNCATE for hours.
 */
void
sf_space_release(SfSegment *seg)
{
	if (!seg->retained)
		UnlockRelationOid(seg->relid, AccessShareLock);
}

/*
 * The lock is the transaction's, not that of the statement or subtransaction in
 * which it happens to be taken, or given back.
 */
Oid
sf_space_hold(SfSegment *seg, LOCKMODE lockmode)
{
	ResourceOwner owner = CurrentResourceOwner;

	SF_ASSERT(IsTransactionState());
	SF_ASSERT(lockmode == AccessShareLock || (lockmode == RowExclusiveLock && !seg->retained));
	if (seg->retained)
		return InvalidOid;
	CurrentResourceOwner = TopTransactionResourceOwner;
	PG_TRY();
	{
		LockRelationOid(seg->relid, lockmode);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = owner;
	}
	PG_END_TRY();
	return seg->relid;
}

void
sf_space_let_go(Oid segment_relid)
{
	ResourceOwner owner = CurrentResourceOwner;

	SF_ASSERT(OidIsValid(segment_relid));
	CurrentResourceOwner = TopTransactionResourceOwner;
	UnlockRelationOid(segment_relid, AccessShareLock);
	CurrentResourceOwner = owner;
}

/*
 * A transaction that drops or truncates holds an exclusive lock until its end, so a lock
 * that is to be had means that none does so now, and then the catalog says which storage
 * there is.
 *
 * A lock that is not to be had means less than "dropped": securefile_check() and
 * securefile_repair() keep writers out as well.  The answer is the same for them,
 * and right.  They got their lock, so this transaction held none.  It had one when it
 * wrote, so a rollback to a savepoint has taken back all that it wrote, and none of
 * it is wanted.  To write it nevertheless would change what the check believes to
 * stand still, and to wait for the check would make a commit wait.
 */
bool
sf_space_is_usable(SfSegment *seg)
{
	Relation	rel;
	bool		same;

	SF_ASSERT(IsTransactionState() && !seg->retained);
	if (sf_space_is_removed(seg->storage) ||
		!ConditionalLockRelationOid(seg->relid, RowExclusiveLock))
		return false;
	rel = try_relation_open(seg->relid, NoLock);
	if (rel == NULL)
		return false;
	same = SfStorageEquals(SfRelStorage(rel), seg->storage);
	relation_close(rel, NoLock);
	return same;
}

/*
 * The storage is compared each time.  A statement may truncate the table, and a value
 * of the same statement be written to the old storage: its pages are gone, or worse,
 * are those of the new storage.
 */
Relation
sfi_segment_rel(SfSegment *seg)
{
	Relation	rel = relation_open(seg->relid, AccessShareLock);

	SF_ASSERT(!seg->retained);
	if (!SfStorageEquals(SfRelStorage(rel), seg->storage))
	{
		seg = sf_space_open_rel(rel);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("segment \"%s\" was replaced in this transaction",
						RelationGetRelationName(rel))));
	}
	return rel;
}

void
sfi_segment_close(Relation rel)
{
	relation_close(rel, AccessShareLock);
}

/*
 * Reserve ids on the header page; a crash may lose some, never repeat one: the record
 * is in WAL before anything that the ids stand for.
 *
 * The first reservation after the cluster was restored notes where the ids of that
 * time end: data of objects below may be missing (read/damage.c).
 */
static uint64
reserve_ids(SfSegment *seg, uint32 n)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header;
	Buffer		buf = sfi_header_lock(rel, &header);
	uint64		first = header.next_object_id;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	if (header.restore_id != sf_io_restore_id())
	{
		header.restore_id = sf_io_restore_id();
		header.kept_from_id = header.next_object_id;
	}
	header.next_object_id += n;
	sfi_change_begin_header(buf, &header);
	sfi_change_finish_pages(SF_PAGES_HEADER, 0, 0);
	sfi_segment_close(rel);
	return first;
}

/*
 * An id costs a WAL record, so a process takes 64 of them at a time and gives them out
 * from memory.  The rest is lost when it ends or opens other storage of the segment.
 */
uint64
sf_space_reserve_ids(SfSegment *seg, uint32 n)
{
	SF_ASSERT(n > 0 && n <= IDS_RESERVED_AT_ONCE && !seg->retained);
	if (seg->next_id + n > seg->end_id)
	{
		seg->next_id = reserve_ids(seg, IDS_RESERVED_AT_ONCE);
		seg->end_id = seg->next_id + IDS_RESERVED_AT_ONCE;
	}
	seg->next_id += n;
	SF_ASSERT(seg->next_id <= seg->end_id);
	return seg->next_id - n;
}

SfHeader
sf_space_read_header(SfSegment *seg)
{
	Relation	rel;
	SfHeader	header;

	if (seg->retained)
		return sfi_retained_header(seg->storage);
	rel = sfi_segment_rel(seg);
	header = sfi_header(rel);
	sfi_segment_close(rel);
	return header;
}

/* Retained storage has no relation any more: its pages lie in a file. */
SfPageType
sf_space_read_page(SfSegment *seg, uint32 page, char *content)
{
	Relation	rel;
	SfPageType	type;

	if (seg->retained)
		return sfi_retained_page(seg->storage, page, content);
	rel = sfi_segment_rel(seg);
	type = sfi_page_copy(rel, page, content);
	sfi_segment_close(rel);
	return type;
}

bool
sf_space_page_is_new(SfSegment *seg, uint32 page)
{
	Relation	rel = sfi_segment_rel(seg);
	bool		is_new = !sfi_page_is_used(rel, page);

	sfi_segment_close(rel);
	return is_new;
}

/* ---- columns ---- */

/*
 * A SyscacheCallbackFunction: some column of some table has changed.  To find out which one
 * would cost more than to ask again for those that are used.
 */
static void
column_changed(Datum arg, int cache_id, uint32 hash_value)
{
	catalog_state++;
}

const SfColumn *
sf_space_column(SfSegment *seg)
{
	static bool watching;

	SF_ASSERT(seg->described <= catalog_state);
	if (!watching)
		CacheRegisterSyscacheCallback(ATTNUM, column_changed, (Datum) 0);
	watching = true;
	if (seg->described != catalog_state)
	{
		/*
		 * The look-up itself may find that the catalog has changed.  Then the
		 * answer is that of the state before, and the next call asks again.
		 */
		uint64		state = catalog_state;

		seg->column = sfi_above.describe(seg->table_oid, seg->attnum);
		seg->described = state;
	}
	return &seg->column;
}
