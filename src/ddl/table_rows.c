/*-------------------------------------------------------------------------
 *
 * table_rows.c
 *	  Walking over the rows of a table: are there stored values, and putting
 *	  them where they belong.
 *
 * Rows are updated through the table access method directly: no trigger, rule
 * or policy of the user's has a say, since the row's contents do not change,
 * only where they lie.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/tablecmds.h"
#include "ddl/table_rows.h"
#include "executor/executor.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "read/read.h"
#include "stats/stats.h"
#include "write/write.h"

/*
 * Is the value to be stored?  all: every value that is not in the row, and those that are
 * there in another way than the column's options ask for; else only those that do not lie
 * where they belong.
 */
static bool
wants_store(const SfColumn *column, Datum value, bool all)
{
	struct varlena *stored = sfi_ddl_stored(value);

	if (stored == NULL)
		return !sfi_ddl_may_stay_inline(column, value) ||
			(all && sfi_ddl_wants_packing(column, value));
	return all || !sfi_ddl_is_own(stored, column->table_oid, column->attnum);
}

/* Does a value fit the filter? */
static bool
matches(Datum value, const SfColumn *column, SfRowFilter filter)
{
	struct varlena *stored;
	bool		own;

	stored = sfi_ddl_stored(value);
	if (filter == SF_ROWS_MISPLACED || filter == SF_ROWS_COMPUTED)
		return wants_store(column, value, filter == SF_ROWS_COMPUTED && stored == NULL);
	if (stored == NULL)
		return false;
	own = sfi_ddl_is_own(stored, column->table_oid, column->attnum);
	switch (filter)
	{
		case SF_ROWS_FOREIGN:
			return !own;
		case SF_ROWS_OWN:
			return own;
		case SF_ROWS_UNPROVED:
			return !own || (sf_read_form(stored) == SF_FORM_STORED &&
							sf_write_is_unconfirmed(stored));
		default:
			SF_ASSERT(filter == SF_ROWS_STORED);
			return true;
	}
}

/*
 * Does the table go away if this transaction fails?  An error does not name a row of such
 * a table, since nobody could look at that row.
 */
static bool
is_new(Relation rel)
{
	return rel->rd_createSubid != InvalidSubTransactionId;
}

bool
sfi_ddl_rows_exist(Relation rel, AttrNumber attnum, SfRowFilter filter)
{
	SfColumn	column = sfi_ddl_column(rel, attnum);
	Snapshot	snapshot;
	SfRows		rows;
	SfRowContext context;
	bool		found = false;

	CheckTableNotInUse(rel, "look at the rows of");
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	rows = sf_rows_begin(rel, attnum, snapshot);
	sfi_ddl_row_context_begin(&context, rel, attnum);
	while (!found && sf_rows_next(&rows))
	{
		if (!is_new(rel))
			context.tid = rows.slot->tts_tid;
		found = matches(rows.value, &column, filter);
	}
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	UnregisterSnapshot(snapshot);
	return found;
}

SfRowWriter
sfi_ddl_writer_begin(Relation rel)
{
	SfRowWriter writer;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	CommandCounterIncrement();
	writer.rel = rel;
	writer.snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(writer.snapshot);
	writer.columns = sfi_ddl_columns_of(rel);
	writer.keeps_old = false;
	writer.estate = CreateExecutorState();
	writer.result_rel = makeNode(ResultRelInfo);
	InitResultRelInfo(writer.result_rel, rel, 0, NULL, 0);
	ExecOpenIndices(writer.result_rel, false);
	writer.new_slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	return writer;
}

/*
 * Update one row with another value of a column of any type, insert index entries, and free the
 * old value, if that is given: what UPDATE and the account trigger would do.
 */
static void
replace_value(SfRowWriter *writer, TupleTableSlot *slot, AttrNumber attnum, NullableDatum value,
			  struct varlena *freed)
{
	TupleTableSlot *new_slot = writer->new_slot;
	Oid			table_oid = RelationGetRelid(writer->rel);
	int			natts = slot->tts_tupleDescriptor->natts;
	SfUpdateIndexes update_indexes;
	ListCell   *lc;

	SF_ASSERT(attnum > 0 && attnum <= natts);
	SF_ASSERT(ItemPointerIsValid(&slot->tts_tid));
	slot_getallattrs(slot);
	ExecClearTuple(new_slot);
	memcpy(new_slot->tts_values, slot->tts_values, natts * sizeof(Datum));
	memcpy(new_slot->tts_isnull, slot->tts_isnull, natts * sizeof(bool));
	new_slot->tts_values[attnum - 1] = value.value;
	new_slot->tts_isnull[attnum - 1] = value.isnull;
	ExecStoreVirtualTuple(new_slot);

	simple_table_tuple_update(writer->rel, &slot->tts_tid, new_slot,
							  writer->snapshot, &update_indexes);
	if (sf_compat_any_index(update_indexes) && writer->result_rel->ri_NumIndices > 0)
		list_free(sf_compat_insert_index_tuples(writer->result_rel, new_slot,
												writer->estate, update_indexes));
	if (freed != NULL)
		sf_write_free(table_oid, attnum, freed, NULL, NULL);
	/* each column of the row counts it, also the one that is changed */
	foreach(lc, writer->columns)
		sfi_ddl_see(table_oid, lfirst_int(lc), 1, freed != NULL && lfirst_int(lc) == attnum);
	ExecClearTuple(new_slot);
}

/* The old value of a row, if its space is to be freed; else NULL. */
static struct varlena *
value_to_free(const SfRowWriter *writer, Datum old)
{
	struct varlena *stored = writer->keeps_old ? NULL : sfi_ddl_stored(old);

	return stored != NULL && sf_read_form(stored) == SF_FORM_STORED ? stored : NULL;
}

void
sfi_ddl_writer_end(SfRowWriter *writer)
{
	SF_ASSERT(GetActiveSnapshot() == writer->snapshot);
	ExecCloseIndices(writer->result_rel);
	ExecDropSingleTupleTableSlot(writer->new_slot);
	FreeExecutorState(writer->estate);
	PopActiveSnapshot();
	UnregisterSnapshot(writer->snapshot);
	CommandCounterIncrement();
}

/*
 * Announce the column that a value in a new table was read from.  Its locator names this
 * column, and no row.  A value of several parts has no such column.  The names lie in the
 * memory of the row.
 */
static void
announce_source(SfRowContext *context, Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);
	SfLocator	loc;

	SF_ASSERT(context->table == NULL && context->column == NULL);
	if (stored == NULL || sf_read_form(stored) != SF_FORM_STORED)
		return;
	loc = sf_object_locator(stored);
	context->table = get_rel_name(loc.table_oid);
	context->column = get_attname(loc.table_oid, loc.attnum, true);
}

bool
sfi_ddl_writer_store(SfRowWriter *writer, TupleTableSlot *slot, const SfColumn *column,
					 Datum old, SfRowContext *context)
{
	SfValue		value;
	bool		stored;

	SF_ASSERT(column->table_oid == RelationGetRelid(writer->rel));
	if (context->any_row)
		announce_source(context, old);
	stored = sfi_ddl_put_value(column, old, &value);
	if (stored)
	{
		/*
		 * each column of the table counts the row, also the one that is
		 * changed
		 */
		SF_ASSERT(list_member_int(writer->columns, column->attnum));
		replace_value(writer, slot, column->attnum,
					  (NullableDatum) {PointerGetDatum(value.datum), false},
					  value_to_free(writer, old));
	}
	if (context->any_row)
		context->table = context->column = NULL;
	ResetPerTupleExprContext(writer->estate);
	return stored;
}

void
sfi_ddl_writer_replace(SfRowWriter *writer, TupleTableSlot *slot, const SfColumn *column,
					   Datum old, const SfValue *value)
{
	SF_ASSERT(column->table_oid == RelationGetRelid(writer->rel));
	if (value->form == SF_FORM_STORED)
		sf_write_confirm(column->table_oid, column->attnum, value->datum, NULL);
	replace_value(writer, slot, column->attnum,
				  (NullableDatum) {PointerGetDatum(value->datum), false},
				  value_to_free(writer, old));
	ResetPerTupleExprContext(writer->estate);
}

bool
sfi_ddl_writer_lock(SfRowWriter *writer, TupleTableSlot *slot)
{
	TupleTableSlot *locked = table_slot_create(writer->rel, NULL);
	ItemPointerData tid = slot->tts_tid;
	TM_FailureData failure;
	TM_Result	result = table_tuple_lock(writer->rel, &tid, writer->snapshot, locked,
										  GetCurrentCommandId(true), LockTupleNoKeyExclusive,
										  LockWaitSkip, 0, &failure);

	ExecDropSingleTupleTableSlot(locked);
	return result == TM_Ok;
}

void
sfi_ddl_writer_put(SfRowWriter *writer, TupleTableSlot *slot, AttrNumber attnum,
				   NullableDatum value)
{
	bool		is_ours = list_member_int(writer->columns, attnum);
	NullableDatum old;
	SfValue		stored;

	old.value = slot_getattr(slot, attnum, &old.isnull);
	if (is_ours && !value.isnull)
	{
		SfColumn	column = sfi_ddl_column(writer->rel, attnum);

		if (sfi_ddl_put_value(&column, value.value, &stored))
			value.value = PointerGetDatum(stored.datum);
	}
	replace_value(writer, slot, attnum, value,
				  is_ours && !old.isnull ? value_to_free(writer, old.value) : NULL);
	ResetPerTupleExprContext(writer->estate);
}

/* Arguments and result of store_rows(). */
typedef struct StoreRows
{
	Relation	rel;
	const SfColumn *column;
	bool		all;
	int64		nrows;
} StoreRows;

/* Update all visible rows whose value is to be stored: a step of sf_rows_as_owner(). */
static void
store_rows(void *arg)
{
	StoreRows  *store = arg;
	Relation	rel = store->rel;
	const SfColumn *column = store->column;
	SfRowWriter writer = sfi_ddl_writer_begin(rel);
	SfRows		rows = sf_rows_begin(rel, 0, writer.snapshot);
	SfRowContext context;
	SfProgress	progress = {
		.table_oid = column->table_oid, .attnum = column->attnum, .pass = 1,
		.blocks_total = RelationGetNumberOfBlocks(rel)
	};

	sfi_ddl_row_context_begin(&context, rel, column->attnum);
	context.any_row = is_new(rel);
	if (context.any_row)
		context.table = context.column = NULL;
	while (sf_rows_next(&rows))
	{
		bool		isnull;
		Datum		old = slot_getattr(rows.slot, column->attnum, &isnull);

		context.tid = rows.slot->tts_tid;
		if (!isnull && wants_store(column, old, store->all) &&
			sfi_ddl_writer_store(&writer, rows.slot, column, old, &context))
			store->nrows++;
		progress.blocks_done = ItemPointerGetBlockNumber(&context.tid);
		progress.values = store->nrows;
		sf_stats_progress(&progress);
	}
	sf_stats_progress_end();
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	sfi_ddl_writer_end(&writer);
}

int64
sfi_ddl_rows_store(Relation rel, const SfColumn *column, bool all)
{
	StoreRows	store = {rel, column, all, 0};

	CheckTableNotInUse(rel, "store the rows of");
	SF_ASSERT(CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	SF_ASSERT(column->table_oid == RelationGetRelid(rel));
	sf_rows_as_owner(rel, store_rows, &store);
	return store.nrows;
}
