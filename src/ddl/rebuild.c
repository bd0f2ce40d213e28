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
#include "ddl/table_rows.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"
#include "write/write.h"

/* Put the values of these columns of one row where they belong. */
static void
put_values(TupleTableSlot *slot, const SfColumn *columns, int ncolumns, SfRowContext *context)
{
	for (int i = 0; i < ncolumns; i++)
	{
		int			at = columns[i].attnum - 1;
		SfValue		stored;

		context->column = NameStr(TupleDescAttr(slot->tts_tupleDescriptor, at)->attname);
		if (!slot->tts_isnull[at] &&
			sfi_ddl_put_value(&columns[i], slot->tts_values[at], &stored))
			slot->tts_values[at] = PointerGetDatum(stored.datum);
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
	TupleTableSlot *new_slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	BulkInsertState bulk = GetBulkInsertState();
	CommandId	cid = GetCurrentCommandId(true);
	SfRows		rows;
	SfRowContext context;

	/* rows are copied as they are, but for these columns */
	SF_ASSERT(RelationGetNumberOfAttributes(rel) == RelationGetNumberOfAttributes(transient));
	for (int i = 0; i < ncolumns; i++)
		columns[i] = sfi_ddl_column(rel, list_nth_int(attnums, i));
	rows = sf_rows_begin(rel, 0, snapshot);
	sfi_ddl_row_context_begin(&context, rel, 0);
	while (sf_rows_next(&rows))
	{
		ExecCopySlot(new_slot, rows.slot);
		context.tid = rows.slot->tts_tid;
		put_values(new_slot, columns, ncolumns, &context);
		table_tuple_insert(transient, new_slot, cid, TABLE_INSERT_SKIP_FSM, bulk);
		ItemPointerSetInvalid(&context.tid);
		ExecClearTuple(new_slot);
	}
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	FreeBulkInsertState(bulk);
	table_finish_bulk_insert(transient, TABLE_INSERT_SKIP_FSM);
	ExecDropSingleTupleTableSlot(new_slot);
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
	SF_ASSERT(rel->rd_refcnt == 1);
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
