/*-------------------------------------------------------------------------
 *
 * rebuild.c
 *	  Writing all rows of a table anew, with values where they belong.
 *
 * For rows that ALTER TABLE itself has just written anew, without triggers, and
 * whose expression could not be changed beforehand (convert.c): a volatile default of a
 * new column, USING on a column that was a securefile already, SET LOGGED.
 * Updating them would leave as many dead rows, and logical decoding would send
 * them.  So this works as ALTER TABLE does, by the same functions of the server:
 * the rows go to new storage, which takes the place of the old one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/heapam.h"
#include "access/multixact.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/cluster.h"
#include "ddl/rows.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "write/write.h"

/* Put the values of these columns of one row where they belong. */
static void
put_values(TupleTableSlot *slot, const SfColumn *columns, int ncolumns, SfRowContext *context)
{
	for (int i = 0; i < ncolumns; i++)
	{
		int			at = columns[i].attnum - 1;

		context->column = NameStr(TupleDescAttr(slot->tts_tupleDescriptor, at)->attname);
		if (!slot->tts_isnull[at])
			(void) sfi_ddl_put_value(&columns[i], slot->tts_values[at], &slot->tts_values[at]);
	}
}

/*
 * Insert all visible rows of a table into its new storage, with the values of these
 * columns where they belong.
 */
static void
copy_rows(Relation rel, Relation transient, List *attnums)
{
	int			ncolumns = list_length(attnums);
	SfColumn   *columns = palloc(ncolumns * sizeof(SfColumn));
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TupleTableSlot *new_slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	BulkInsertState bulk = GetBulkInsertState();
	CommandId	cid = GetCurrentCommandId(true);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "securefile rows",
													  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context;
	SfRowContext context;

	for (int i = 0; i < ncolumns; i++)
		columns[i] = sfi_ddl_column(rel, list_nth_int(attnums, i));
	old_context = MemoryContextSwitchTo(row_context);
	sfi_ddl_row_context_begin(&context, RelationGetRelationName(rel), NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		ExecCopySlot(new_slot, slot);
		context.tid = slot->tts_tid;
		put_values(new_slot, columns, ncolumns, &context);
		table_tuple_insert(transient, new_slot, cid, TABLE_INSERT_SKIP_FSM, bulk);
		ItemPointerSetInvalid(&context.tid);
		ExecClearTuple(new_slot);
		MemoryContextReset(row_context);
	}
	sfi_ddl_row_context_end(&context);
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(row_context);
	FreeBulkInsertState(bulk);
	table_finish_bulk_insert(transient, TABLE_INSERT_SKIP_FSM);
	ExecDropSingleTupleTableSlot(new_slot);
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
}

void
sfi_ddl_rebuild(Oid table_oid, List *attnums)
{
	Relation	rel = table_open(table_oid, AccessExclusiveLock);
	char		persistence = rel->rd_rel->relpersistence;
	Oid			transient_oid = make_new_heap(table_oid, rel->rd_rel->reltablespace,
											  rel->rd_rel->relam, persistence,
											  AccessExclusiveLock);
	Relation	transient = table_open(transient_oid, NoLock);

	SF_ASSERT(attnums != NIL);
	SF_ASSERT(RelationGetNumberOfBlocks(transient) == 0);

	copy_rows(rel, transient, attnums);
	table_close(transient, NoLock);
	table_close(rel, NoLock);

	/* indexes may be built by parallel workers */
	sf_write_flush();
	finish_heap_swap(table_oid, transient_oid, false, false, true, true,
					 RecentXmin, ReadNextMultiXactId(), persistence);
	CommandCounterIncrement();
}
