/*-------------------------------------------------------------------------
 *
 * fate.c
 *	  What has become of a value that is not found at its place.
 *
 * A statement that keeps a locator longer than any snapshot shows its row finds other bytes
 * at the place of the value, or another map, once the place is used again.  So does a
 * statement that reads a value that is damaged.  The first is a race, and an error of the
 * statement; the second is a fault of the disk, which an administrator has to look after.  The
 * row tells them apart:
 *
 *	 a row that some snapshot may show has the value		it lives: damage
 *	 no row has it, and a retention keeps it				it can be listed: damage
 *	 no row has it, but its space waits to be freed			it lives for somebody: damage
 *	 the same, in a column with a retention					it may be that of a later value, since
 *															purged values are read: nobody knows
 *	 none of these											it is gone
 *	 the rows cannot be looked at							nobody knows
 *
 * The table is scanned for that.  This happens only where a read has failed, and a scan ends
 * at the row; an answer is kept for the statement, which may ask again for the next unit.
 * A value that lives is never called gone: of the rows only those are passed over that no
 * snapshot of any session can show.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "object/object_internal.h"
#include "space/history.h"
#include "space/share_records.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* The value that was asked about last, and when. */
typedef struct LastAsked
{
	uint64		tag;
	TimestampTz statement;
	LocalTransactionId transaction;
	SfFate		fate;
} LastAsked;

static LastAsked last;

/* Do two locators name the same version of an object?  Rows that share it have their own. */
static bool
names_same(const SfLocator *a, const SfLocator *b)
{
	if (a->incarnation != b->incarnation || a->object_id != b->object_id)
		return false;
	return sf_format_locator_tag(a) == sf_format_locator_tag(b) ||
		(!sf_object_is_version(a) && !sf_object_is_version(b) && a->generation == b->generation);
}

/* Is the value of a row the one that is looked for?  Large ones in the row are not fetched. */
static bool
row_has(TupleTableSlot *slot, const SfLocator *loc)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, loc->attnum, &isnull);
	struct varlena *datum;
	SfLocator	found;

	if (isnull)
		return false;
	datum = sf_base_detoast_short(value, SF_LOCATOR_MAX_SIZE);
	return datum != NULL && sf_object_decode(datum, &found) == NULL && names_same(&found, loc);
}

/* Scan a table for a row that some snapshot may show, and that has the value. */
static bool
scan_table(Relation rel, const SfLocator *loc)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile rows",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	SnapshotData snapshot;
	TableScanDesc scan;
	bool		found = false;

	SF_ASSERT(loc->attnum > 0 && CheckRelationLockedByMe(rel, AccessShareLock, true));

	/*
	 * makes the server's idea of what is removable as new as that of a
	 * resolver
	 */
	(void) GetOldestNonRemovableTransactionId(rel);
	InitNonVacuumableSnapshot(snapshot, GlobalVisTestFor(rel));
	scan = table_beginscan_strat(rel, &snapshot, 0, NULL, true, false);
	while (!found && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(context);
		found = row_has(slot, loc);
		MemoryContextSwitchTo(old);
		MemoryContextReset(context);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(context);
	return found;
}

/*
 * Look at the rows of the table.  We do not wait for it: a transaction that has it locked may
 * wait for the segment, which is locked by us.
 */
static SfFate
ask_rows(const SfLocator *loc)
{
	SfFate		fate = SF_FATE_UNKNOWN;
	Relation	rel;

	if (!ConditionalLockRelationOid(loc->table_oid, AccessShareLock))
		return SF_FATE_UNKNOWN;
	rel = try_relation_open(loc->table_oid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(loc->table_oid, AccessShareLock);
		return SF_FATE_UNKNOWN;
	}

	/*
	 * while a command of this session changes the table, its rows may have
	 * another form than the catalogs describe
	 */
	if (rel->rd_rel->relkind == RELKIND_RELATION &&
		!CheckRelationLockedByMe(rel, AccessExclusiveLock, false) &&
		loc->attnum <= RelationGetNumberOfAttributes(rel) &&
		rel->rd_tableam == GetHeapamTableAmRoutine())
		fate = scan_table(rel, loc) ? SF_FATE_LIVES : SF_FATE_GONE;
	relation_close(rel, AccessShareLock);
	return fate;
}

static SfFate
ask_rows_once(const SfLocator *loc)
{
	LastAsked	now = {sf_format_locator_tag(loc), GetCurrentStatementStartTimestamp(),
		SfProcLxid(MyProc)};

	if (last.tag == now.tag && last.statement == now.statement &&
		last.transaction == now.transaction)
		return last.fate;
	now.fate = ask_rows(loc);
	last = now;
	return now.fate;
}

/* Is the object that a value shares with others still there? */
static bool
is_recorded(SfSegment *seg, const SfLocator *loc)
{
	SfShareCopy copy;

	return sf_object_is_reference(loc) && sf_space_share_read(seg, sf_share_id_of(loc), &copy) &&
		copy.record.object_id == loc->object_id;
}

/* A value that is looked for among the removed ones. */
typedef struct Sought
{
	const SfLocator *loc;
	bool		found;
} Sought;

/* An SfRemovedVisit. */
static bool
match_removed(const SfRemovedChunk *chunk, const SfRemovedRecord *record, void *arg)
{
	Sought	   *sought = arg;
	SfLocator	found;
	struct varlena *datum = sf_space_removed_value(record, &found);

	if (datum == NULL)
		return true;
	SF_ASSERT(!sought->found);
	sought->found = names_same(&found, sought->loc);
	pfree(datum);
	return !sought->found;
}

static bool
keeps(SfSegment *seg)
{
	return sf_space_column(seg)->options.retention_us > 0;
}

/* Does the column keep the value, which was removed? */
static bool
is_kept(SfSegment *seg, const SfLocator *loc)
{
	Sought		sought = {.loc = loc};

	SF_ASSERT(!seg->retained && loc->encoded != NULL);
	if (keeps(seg))
		sf_space_visit_removed(seg, sf_space_column(seg)->options.retention_us, match_removed,
							   &sought);
	return sought.found;
}

SfFate
sf_object_fate(SfSegment *seg, const SfLocator *loc, uint64 start, uint32 count, bool is_page)
{
	SfFate		fate;

	SF_ASSERT(seg->incarnation == loc->incarnation && count > 0);
	/* a version in the making has no locator yet */
	if (loc->encoded == NULL || seg->retained || HistoricSnapshotActive())
		return SF_FATE_UNKNOWN;
	if (is_recorded(seg, loc))
		return SF_FATE_LIVES;
	fate = ask_rows_once(loc);
	if (fate != SF_FATE_GONE)
		return fate;
	if (is_kept(seg, loc))
		return SF_FATE_LIVES;
	if (sf_space_is_waiting(seg, start, count, is_page))
		return keeps(seg) ? SF_FATE_UNKNOWN : SF_FATE_LIVES;
	return SF_FATE_GONE;
}
