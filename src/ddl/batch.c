/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  securefile_rewrite_some() and securefile_rewrite_online(): store the values of a
 *	  column again, some at a time, while the table is in use.
 *
 * securefile_rewrite() keeps writers out, and does all in one transaction.  Here each
 * transaction stores as many values again as were asked for.  A row is locked only while
 * its value is being stored, and one that somebody else has locked is passed over.
 *
 * Between two transactions the position is in the hands of the caller, as a text, so that
 * nothing has to be taken back when a transaction fails.
 *
 * A pass goes over the blocks that the table had when the pass began.  Others may move rows
 * meanwhile: an UPDATE of another column puts the old value into a new row version, maybe
 * behind the position.  So there are more passes, until one has found nothing to do.  A
 * value that must be stored again is told by itself:
 *
 *	 key id		is not that of the key which new values take
 *	 object id	of a stored value: is below the number that was the next one at the begin
 *	 in the row	the first pass asks as securefile_rewrite() does, for a value does not tell
 *				the level of its codec; later ones ask for the key, and whether the value
 *				belongs there
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "keys/keys.h"
#include "object/object.h"
#include "read/read.h"
#include "stats/stats.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(securefile_rewrite_some);
PG_FUNCTION_INFO_V1(securefile_rewrite_online);

/* Where the work on a column stands, between two transactions. */
typedef struct Position
{
	uint32		table_oid;
	uint32		attnum;
	uint32		pass;			/* from 1; 0: nothing is left to do */
	uint32		block;			/* behind which row the next batch begins */
	uint32		offset;
	uint32		end_block;		/* of this pass */
	uint64		first_new_id;	/* objects from here on were stored by then */
	uint64		stored;			/* values, in this pass */
	uint64		skipped;		/* rows, likewise */
} Position;

#define POSITION_FORMAT	"%u %u %u %u %u %u " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT
#define POSITION_FIELDS	9

/* One call, or one transaction. */
typedef struct Batch
{
	Relation	rel;
	SfColumn	column;
	bool		only_keys;
	int64		max_bytes;
	uint16		key_id;			/* that new values take; 0: none */
	Position	at;
	SfProgress *progress;		/* values and bytes are of all batches */
	int64		values;			/* of this one */
	int64		bytes;
} Batch;

/* ---- which values ---- */

/* When a value was stored: its object id, or, if it is shared, that of the reference. */
static uint64
id_of(struct varlena *stored)
{
	SfLocator	loc = sf_object_locator(stored);

	return loc.flags & SF_LOC_SHARED ? loc.share.reference_id : loc.object_id;
}

/* Is a value, which is not in a segment, to be stored again? */
static bool
is_stale_in_row(const Batch *batch, Datum value, struct varlena *stored)
{
	SF_ASSERT(batch->at.pass > 0);
	if (stored == NULL && !sfi_ddl_may_stay_inline(&batch->column, value))
		return true;
	if (batch->at.pass > 1)
		return sfi_ddl_is_coded_otherwise(&batch->column, value);
	return stored != NULL || sfi_ddl_wants_packing(&batch->column, value);
}

static bool
is_stale(const Batch *batch, Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);
	bool		is_empty = stored == NULL && !sfi_ddl_is_plain(value);

	if (!is_empty && (stored == NULL ? 0 : sf_read_key_id(stored)) != batch->key_id)
		return true;
	if (batch->only_keys)
		return false;
	if (stored == NULL || sf_read_is_homed(stored))
		return is_stale_in_row(batch, value, stored);
	return id_of(stored) < batch->at.first_new_id;
}

/* ---- one batch ---- */

static int64
length_of(Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);

	return stored != NULL ? sf_read_length(stored) : (int64) toast_raw_datum_size(value) - VARHDRSZ;
}

static void
show_progress(Batch *batch, BlockNumber block)
{
	batch->progress->table_oid = batch->column.table_oid;
	batch->progress->attnum = batch->column.attnum;
	batch->progress->pass = batch->at.pass;
	batch->progress->blocks_total = batch->at.end_block;
	batch->progress->blocks_done = block;
	batch->progress->skipped = batch->at.skipped;
	sf_stats_progress(batch->progress);
}

/* Store the value of the row in a slot again, if it has to be. */
static void
visit_row(Batch *batch, SfRowWriter *writer, TupleTableSlot *slot, SfRowContext *context)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, batch->column.attnum, &isnull);
	int64		length;

	if (isnull || !is_stale(batch, value))
		return;
	length = length_of(value);
	if (!sfi_ddl_writer_lock(writer, slot))
	{
		batch->at.skipped++;
		return;
	}
	if (!sfi_ddl_writer_store(writer, slot, &batch->column, value, context))
		return;
	batch->at.stored++;
	batch->values++;
	batch->bytes += length;
	batch->progress->values++;
	batch->progress->bytes += length;
}

/* Go on from the position until the batch is full, or the pass is over: returns true. */
static bool
visit_rows(Batch *batch, SfRowWriter *writer)
{
	SfRows		rows = sf_rows_begin_range(batch->rel, 0, writer->snapshot, batch->at.block,
										   batch->at.offset, batch->at.end_block);
	SfRowContext context;
	bool		more = true;

	sfi_ddl_row_context_begin(&context, batch->rel, batch->column.attnum);
	while (batch->bytes < batch->max_bytes && (more = sf_rows_next(&rows)))
	{
		context.tid = rows.slot->tts_tid;
		/* a position that goes back would let the calls go round for ever */
		SF_ASSERT(ItemPointerGetBlockNumber(&context.tid) > batch->at.block ||
				  (ItemPointerGetBlockNumber(&context.tid) == batch->at.block &&
				   ItemPointerGetOffsetNumber(&context.tid) > batch->at.offset));
		visit_row(batch, writer, rows.slot, &context);
		batch->at.block = ItemPointerGetBlockNumber(&context.tid);
		batch->at.offset = ItemPointerGetOffsetNumber(&context.tid);
		show_progress(batch, batch->at.block);
	}
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	return !more;
}

/* The pass is over: another one, unless it had nothing to do that can be done. */
static void
end_pass(Batch *batch)
{
	Position   *at = &batch->at;

	at->pass = at->stored > 0 ? at->pass + 1 : 0;
	at->block = 0;
	at->offset = 0;
	at->end_block = RelationGetNumberOfBlocks(batch->rel);
	at->stored = 0;
	if (at->pass > 0)
		at->skipped = 0;
}

/* A step of sf_rows_as_owner(). */
static void
batch_step(void *arg)
{
	Batch	   *batch = arg;
	SfRowWriter writer = sfi_ddl_writer_begin(batch->rel);

	SF_ASSERT(batch->at.table_oid == RelationGetRelid(batch->rel) &&
			  batch->at.attnum == batch->column.attnum);
	if (batch->at.block >= batch->at.end_block || visit_rows(batch, &writer))
		end_pass(batch);
	sfi_ddl_writer_end(&writer);
}

/* Begin at the first row of the table. */
static void
begin_first_pass(Batch *batch)
{
	SfSegment  *seg = sf_space_open(batch->column.table_oid, batch->column.attnum,
									RowExclusiveLock, true);

	SF_ASSERT(CheckRelationLockedByMe(batch->rel, RowExclusiveLock, true));
	batch->at = (Position)
	{
		.table_oid = batch->column.table_oid,
			.attnum = batch->column.attnum,
			.pass = 1,
			.end_block = RelationGetNumberOfBlocks(batch->rel),
			.first_new_id = seg == NULL ? 0 : sf_space_read_header(seg).next_object_id
	};
}

/* The key that new values of the column take; 0: none. */
static uint16
current_key(const SfColumn *column)
{
	SfSegment  *seg;

	if (!sf_config_encrypts(column))
		return 0;
	seg = sf_space_open(column->table_oid, column->attnum, RowExclusiveLock, false);
	return sf_keys_current(seg)->id;
}

/*
 * The values that this pass stores must not look like those that are to be stored again.  The
 * position may come from another session than that which has ids left.
 */
static void
take_new_ids(const Batch *batch)
{
	SfSegment  *seg = sf_space_open(batch->column.table_oid, batch->column.attnum,
									RowExclusiveLock, true);

	if (seg != NULL)
		sf_space_ids_from(seg, batch->at.first_new_id);
}

/* One transaction's work on a table that is locked; the position is batch->at. */
static void
run_batch(Batch *batch, Oid table_oid, const char *column)
{
	sfi_ddl_require_column(table_oid, column);
	batch->rel = table_open(table_oid, RowExclusiveLock);
	/* it may have been changed while we waited */
	sfi_ddl_require_column(table_oid, column);
	CheckTableNotInUse(batch->rel, "rewrite");
	sfi_ddl_refuse_rewritten(batch->rel);
	CheckCmdReplicaIdentity(batch->rel, CMD_UPDATE);
	batch->column = sfi_ddl_column(batch->rel, get_attnum(table_oid, column));
	batch->key_id = current_key(&batch->column);
	batch->values = 0;
	batch->bytes = 0;
	if (batch->at.pass == 0)
		begin_first_pass(batch);
	if (batch->at.table_oid != table_oid || batch->at.attnum != batch->column.attnum)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the position to go on from is of another column"),
				 errhint("Pass what the last call for this column has returned, or NULL to begin anew.")));
	take_new_ids(batch);
	sf_rows_as_owner(batch->rel, batch_step, batch);
	table_close(batch->rel, NoLock);
}

/* ---- securefile_rewrite_some() ---- */

static Position
parse_position(const char *text)
{
	Position	at;
	int			end = 0;

	if (sscanf(text, POSITION_FORMAT "%n", &at.table_oid, &at.attnum, &at.pass, &at.block,
			   &at.offset, &at.end_block, &at.first_new_id, &at.stored, &at.skipped,
			   &end) != POSITION_FIELDS || text[end] != '\0' || at.pass == 0 ||
		at.end_block > MaxBlockNumber || at.block > at.end_block || at.offset >= MaxOffsetNumber)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid position \"%s\"", text),
				 errhint("Pass what the last call for this column has returned, or NULL to begin anew.")));
	return at;
}

static void
require_arguments(FunctionCallInfo fcinfo, const char *function, int64 max_bytes)
{
	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	if (max_bytes <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the size of a batch must be at least 1 byte")));
	sf_base_require_writes(function);
	sf_base_require_preload();
}

/* The result: values, bytes, skipped, and where to go on, NULL at the end. */
static Datum
make_result(FunctionCallInfo fcinfo, const Batch *batch)
{
	const Position *at = &batch->at;
	Datum		values[4];
	bool		nulls[4] = {false};

	values[0] = Int64GetDatum(batch->values);
	values[1] = Int64GetDatum(batch->bytes);
	values[2] = Int64GetDatum((int64) at->skipped);
	values[3] = (Datum) 0;
	nulls[3] = at->pass == 0;
	if (!nulls[3])
		values[3] = CStringGetTextDatum(psprintf(POSITION_FORMAT, at->table_oid, at->attnum,
												 at->pass, at->block, at->offset, at->end_block,
												 at->first_new_id, at->stored, at->skipped));
	return sf_base_row(fcinfo, values, nulls);
}

/*
 * securefile_rewrite_some(table regclass, column name, max_bytes bigint, position text,
 *		only_keys boolean)
 *		returns (rewritten bigint, rewritten_bytes bigint, skipped bigint, next text)
 */
Datum
securefile_rewrite_some(PG_FUNCTION_ARGS)
{
	int64		max_bytes = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);
	Batch		batch = {.max_bytes = max_bytes};
	SfProgress	progress = {0};

	require_arguments(fcinfo, "securefile_rewrite_some()", max_bytes);
	batch.only_keys = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);
	batch.progress = &progress;
	if (!PG_ARGISNULL(3))
		batch.at = parse_position(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	sfi_ddl_require_column(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));
	if (get_rel_relkind(PG_GETARG_OID(0)) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a partitioned table, whose values lie in its partitions",
						get_rel_name(PG_GETARG_OID(0))),
				 errhint("Call the function for each partition, or CALL securefile_rewrite_online().")));
	run_batch(&batch, PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));
	sf_stats_progress_end();
	PG_RETURN_DATUM(make_result(fcinfo, &batch));
}

/* ---- securefile_rewrite_online() ---- */

/* All of one table, a transaction for each batch; returns how many rows were passed over. */
static uint64
rewrite_in_batches(Batch *batch, Oid table_oid, const char *column)
{
	batch->at = (Position) {0};
	do
	{
		run_batch(batch, table_oid, column);
		SPI_commit();
	} while (batch->at.pass > 0);
	return batch->at.skipped;
}

/*
 * securefile_rewrite_online(table regclass, column name, batch_bytes bigint,
 *		only_keys boolean), a procedure
 */
Datum
securefile_rewrite_online(PG_FUNCTION_ARGS)
{
	CallContext *call = (CallContext *) fcinfo->context;
	int64		max_bytes = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);
	SfProgress	progress = {0};
	Batch		batch = {.max_bytes = max_bytes, .progress = &progress};
	uint64		skipped = 0;
	char	   *column;
	List	   *tables;
	ListCell   *lc;

	require_arguments(fcinfo, "securefile_rewrite_online()", max_bytes);
	if (call == NULL || !IsA(call, CallContext) || call->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("securefile_rewrite_online() commits, and cannot run in a transaction block"),
				 errhint("Use securefile_rewrite_some() there.")));
	sfi_ddl_require_column(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	column = pstrdup(NameStr(*PG_GETARG_NAME(1)));
	batch.only_keys = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);
	tables = find_all_inheritors(PG_GETARG_OID(0), AccessShareLock, NULL);
	foreach(lc, tables)
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_RELATION)
			skipped += rewrite_in_batches(&batch, lfirst_oid(lc), column);
	}
	sf_stats_progress_end();
	if (skipped > 0)
		ereport(NOTICE,
				(errmsg(UINT64_FORMAT " values were not stored again", skipped),
				 errdetail("Their rows were locked or being changed."),
				 errhint("Call the procedure again, with only_keys if it is for a new key.")));
	SPI_finish();
	PG_RETURN_VOID();
}
