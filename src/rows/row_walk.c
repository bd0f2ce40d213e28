/*-------------------------------------------------------------------------
 *
 * row_walk.c
 *	  Walks over the rows of a table, and steps that run as its owner.
 *
 * A row may have a value of any length, and a table any number of rows.  So what is allocated
 * for a row lasts until the next one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "rows/rows.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"

static SfRows
begin(Relation rel, AttrNumber attnum, TableScanDesc scan, bool is_range)
{
	SfRows		rows = {.attnum = attnum, .scan = scan, .is_range = is_range};

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	SF_ASSERT(attnum >= 0 && attnum <= RelationGetNumberOfAttributes(rel));
	rows.slot = table_slot_create(rel, NULL);
	rows.context = AllocSetContextCreate(CurrentMemoryContext, "securefile row",
										 ALLOCSET_DEFAULT_SIZES);
	rows.caller = MemoryContextSwitchTo(rows.context);
	return rows;
}

SfRows
sf_rows_begin(Relation rel, AttrNumber attnum, Snapshot snapshot)
{
	return begin(rel, attnum, table_beginscan(rel, snapshot, 0, NULL), false);
}

SfRows
sf_rows_begin_range(Relation rel, AttrNumber attnum, Snapshot snapshot,
					BlockNumber block, OffsetNumber offset, BlockNumber end)
{
	ItemPointerData first;
	ItemPointerData last;

	SF_ASSERT(block < end && offset < MaxOffsetNumber);
	ItemPointerSet(&first, block, offset + 1);
	ItemPointerSet(&last, end - 1, MaxOffsetNumber);
	return begin(rel, attnum, table_beginscan_tidrange(rel, snapshot, &first, &last), true);
}

/* Put the next row of the table, or of the range, into the slot. */
static bool
next_slot(SfRows *rows)
{
	return rows->is_range
		? table_scan_getnextslot_tidrange(rows->scan, ForwardScanDirection, rows->slot)
		: table_scan_getnextslot(rows->scan, ForwardScanDirection, rows->slot);
}

/* Is the row in the slot to be visited?  Sets the value. */
static bool
is_wanted(SfRows *rows)
{
	bool		isnull;

	if (rows->attnum == 0)
		return true;
	rows->value = slot_getattr(rows->slot, rows->attnum, &isnull);
	return !isnull && (rows->matches == NULL || rows->matches(rows));
}

bool
sf_rows_next(SfRows *rows)
{
	SF_ASSERT(CurrentMemoryContext == rows->context);
	do
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(rows->context);
		if (!next_slot(rows))
			return false;
	} while (!is_wanted(rows));
	return true;
}

void
sf_rows_end(SfRows *rows)
{
	SF_ASSERT(CurrentMemoryContext == rows->context);
	MemoryContextSwitchTo(rows->caller);
	MemoryContextDelete(rows->context);
	table_endscan(rows->scan);
	ExecDropSingleTupleTableSlot(rows->slot);
}

/* As in core's maintenance commands, any caller runs the owner's code like this. */
void
sf_rows_as_owner(Relation rel, void (*step) (void *arg), void *arg)
{
	Oid			save_userid;
	int			save_sec_context;
	int			save_nestlevel;

	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   save_sec_context | SECURITY_RESTRICTED_OPERATION);
	save_nestlevel = NewGUCNestLevel();
	sf_compat_restrict_search_path();
	step(arg);
	AtEOXact_GUC(false, save_nestlevel);
	SetUserIdAndSecContext(save_userid, save_sec_context);
}
