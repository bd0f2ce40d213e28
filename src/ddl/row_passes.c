/*-------------------------------------------------------------------------
 *
 * row_passes.c
 *	  Work on the values of a column while the table is in use: some rows in each transaction,
 *	  and passes over the table until nothing is left to do.
 *
 * A row is locked only in the transaction that works on it, and one that somebody else has
 * locked is passed over.  Between two transactions the position is in the hands of the caller,
 * as a text, so that nothing has to be taken back when a transaction fails.
 *
 * A pass goes over the blocks that the table had when the pass began.  Others may move rows
 * meanwhile: an UPDATE of another column puts the old value into a new row version, maybe
 * behind the position.  So there are more passes, until one has found nothing to do.  What is
 * left to do has to be told by the values themselves.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "ddl/command.h"
#include "ddl/ddl.h"
#include "ddl/table_rows.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define POSITION_FORMAT	"%u %u %u %u %u %u " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT
#define POSITION_FIELDS	9

/* ---- positions ---- */

void
sfi_ddl_refuse_position(const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid position \"%s\"", text),
			 errhint("Pass what the last call for this column has returned, or NULL to begin anew.")));
}

SfPosition
sfi_ddl_position_of(const char *text)
{
	SfPosition	at;
	int			end = 0;

	if (sscanf(text, POSITION_FORMAT "%n", &at.table_oid, &at.attnum, &at.pass, &at.block,
			   &at.offset, &at.end_block, &at.number, &at.done, &at.skipped,
			   &end) != POSITION_FIELDS || text[end] != '\0' || at.pass == 0 ||
		at.end_block > MaxBlockNumber || at.block > at.end_block || at.offset >= MaxOffsetNumber)
		sfi_ddl_refuse_position(text);
	return at;
}

char *
sfi_ddl_position_text(const SfPosition *at)
{
	return psprintf(POSITION_FORMAT, at->table_oid, at->attnum, at->pass, at->block, at->offset,
					at->end_block, at->number, at->done, at->skipped);
}

/* ---- one batch ---- */

static void
show_progress(SfRowBatch *batch, BlockNumber block)
{
	batch->progress->table_oid = batch->column.table_oid;
	batch->progress->attnum = batch->column.attnum;
	batch->progress->pass = batch->at.pass;
	batch->progress->blocks_total = batch->at.end_block;
	batch->progress->blocks_done = block;
	batch->progress->skipped = batch->at.skipped;
	sf_stats_progress(batch->progress);
}

void
sfi_ddl_batch_count(SfRowBatch *batch, int64 length)
{
	SF_ASSERT(length >= 0);
	batch->at.done++;
	batch->values++;
	batch->bytes += length;
	batch->progress->values++;
	batch->progress->bytes += length;
}

/* Has the batch as much as it is to have? */
static bool
is_full(const SfRowBatch *batch, uint64 begin_us)
{
	return batch->bytes >= batch->max_bytes ||
		(batch->max_us > 0 && sf_base_now_us() - begin_us >= batch->max_us);
}

/* Go on from the position until the batch is full, or the pass is over: returns true. */
static bool
visit_rows(SfRowBatch *batch, SfRowWriter *writer)
{
	SfRows		rows = sf_rows_begin_range(batch->rel, 0, writer->snapshot, batch->at.block,
										   batch->at.offset, batch->at.end_block);
	SfRowContext context;
	uint64		begin_us = sf_base_now_us();
	bool		is_first = true;
	bool		more = true;

	sfi_ddl_row_context_begin(&context, batch->rel, batch->column.attnum);
	while ((is_first || !is_full(batch, begin_us)) && (more = sf_rows_next(&rows)))
	{
		context.tid = rows.slot->tts_tid;
		/* a position that goes back would let the calls go round for ever */
		SF_ASSERT(ItemPointerGetBlockNumber(&context.tid) > batch->at.block ||
				  (ItemPointerGetBlockNumber(&context.tid) == batch->at.block &&
				   ItemPointerGetOffsetNumber(&context.tid) > batch->at.offset));
		batch->visit(batch, writer, rows.slot, &context);
		batch->at.block = ItemPointerGetBlockNumber(&context.tid);
		batch->at.offset = ItemPointerGetOffsetNumber(&context.tid);
		show_progress(batch, batch->at.block);
		is_first = false;
	}
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	return !more;
}

/* The pass is over: another one, unless it had nothing to do that can be done. */
static void
end_pass(SfRowBatch *batch)
{
	SfPosition *at = &batch->at;

	at->pass = at->done > 0 ? at->pass + 1 : 0;
	at->block = 0;
	at->offset = 0;
	at->end_block = RelationGetNumberOfBlocks(batch->rel);
	at->done = 0;
	if (at->pass > 0)
		at->skipped = 0;
}

/* A step of sf_rows_as_owner(). */
static void
batch_step(void *arg)
{
	SfRowBatch *batch = arg;
	SfRowWriter writer = sfi_ddl_writer_begin(batch->rel);

	SF_ASSERT(batch->at.table_oid == RelationGetRelid(batch->rel) &&
			  batch->at.attnum == batch->column.attnum);
	if (batch->at.block >= batch->at.end_block || visit_rows(batch, &writer))
		end_pass(batch);
	sfi_ddl_writer_end(&writer);
}

void
sfi_ddl_batch_open(SfRowBatch *batch, Oid table_oid, const char *column, const char *what)
{
	sfi_ddl_require_column(table_oid, column);
	batch->rel = try_table_open(table_oid, RowExclusiveLock);
	if (batch->rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with OID %u does not exist", table_oid),
				 errdetail("It was dropped meanwhile.")));
	/* it may have been changed while we waited */
	sfi_ddl_require_column(table_oid, column);
	CheckTableNotInUse(batch->rel, what);
	sfi_ddl_refuse_rewritten(batch->rel);
	CheckCmdReplicaIdentity(batch->rel, CMD_UPDATE);
	batch->column = sfi_ddl_column(batch->rel, get_attnum(table_oid, column));
	batch->values = 0;
	batch->bytes = 0;
}

void
sfi_ddl_batch_first_pass(SfRowBatch *batch, uint64 number)
{
	SF_ASSERT(CheckRelationLockedByMe(batch->rel, RowExclusiveLock, true));
	batch->at = (SfPosition)
	{
		.table_oid = batch->column.table_oid,
			.attnum = batch->column.attnum,
			.pass = 1,
			.end_block = RelationGetNumberOfBlocks(batch->rel),
			.number = number
	};
}

void
sfi_ddl_batch_run(SfRowBatch *batch)
{
	if (batch->at.table_oid != batch->column.table_oid || batch->at.attnum != batch->column.attnum)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the position to go on from is of another column"),
				 errhint("Pass what the last call for this column has returned, or NULL to begin anew.")));
	sf_rows_as_owner(batch->rel, batch_step, batch);
}

/* ---- calls ---- */

void
sf_ddl_require_batch(int64 bytes)
{
	if (bytes <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the size of a batch must be at least 1 byte")));
}

void
sfi_ddl_batch_require(FunctionCallInfo fcinfo, const char *function, int64 max_bytes)
{
	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	sf_ddl_require_batch(max_bytes);
	sf_base_require_writes(function);
	sf_base_require_preload();
}

void
sfi_ddl_batch_refuse_partitioned(Oid table_oid, const char *procedure)
{
	if (get_rel_relkind(table_oid) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a partitioned table, whose values lie in its partitions",
						get_rel_name(table_oid)),
				 errhint("Call the function for each partition, or CALL %s.", procedure)));
}

Datum
sfi_ddl_batch_result(FunctionCallInfo fcinfo, const SfRowBatch *batch, const char *position)
{
	Datum		values[4];
	bool		nulls[4] = {false};

	values[0] = Int64GetDatum(batch->values);
	values[1] = Int64GetDatum(batch->bytes);
	values[2] = Int64GetDatum((int64) batch->at.skipped);
	nulls[3] = position == NULL;
	values[3] = nulls[3] ? (Datum) 0 : CStringGetTextDatum(position);
	return sf_base_row(fcinfo, values, nulls);
}
