/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  securefile_rewrite_some() and securefile_rewrite_online(): store the values of a
 *	  column again, some at a time, while the table is in use.
 *
 * securefile_rewrite() keeps writers out, and does all in one transaction.  Here each
 * transaction stores as many values again as were asked for (row_passes.c).  A value that must
 * be stored again is told by itself:
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
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "ddl/table_rows.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "keys/keys.h"
#include "object/object.h"
#include "read/read.h"
#include "stats/stats.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(securefile_rewrite_some);
PG_FUNCTION_INFO_V1(securefile_rewrite_online);

/* One call, or one transaction. */
typedef struct Batch
{
	SfRowBatch	rows;			/* at.number: objects from there on were
								 * stored since the begin */
	bool		only_keys;
	uint16		key_id;			/* that new values take; 0: none */
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
	SF_ASSERT(batch->rows.at.pass > 0);
	if (stored == NULL && !sfi_ddl_may_stay_inline(&batch->rows.column, value))
		return true;
	if (batch->rows.at.pass > 1)
		return sfi_ddl_is_coded_otherwise(&batch->rows.column, value);
	return stored != NULL || sfi_ddl_wants_packing(&batch->rows.column, value);
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
	return id_of(stored) < batch->rows.at.number;
}

/* ---- one batch ---- */

static int64
length_of(Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);

	return stored != NULL ? sf_read_length(stored) : (int64) toast_raw_datum_size(value) - VARHDRSZ;
}

/* Store the value of the row in a slot again, if it has to be. */
static void
visit_row(SfRowBatch *rows, SfRowWriter *writer, TupleTableSlot *slot, SfRowContext *context)
{
	Batch	   *batch = (Batch *) rows;
	bool		isnull;
	Datum		value = slot_getattr(slot, rows->column.attnum, &isnull);
	int64		length;

	if (isnull || !is_stale(batch, value))
		return;
	length = length_of(value);
	if (!sfi_ddl_writer_lock(writer, slot))
		rows->at.skipped++;
	else if (sfi_ddl_writer_store(writer, slot, &rows->column, value, context))
		sfi_ddl_batch_count(rows, length);
}

/* The next object id of the column's segment; 0: it has none. */
static uint64
next_id(const SfColumn *column)
{
	SfSegment  *seg = sf_space_open(column->table_oid, column->attnum, RowExclusiveLock, true);

	return seg == NULL ? 0 : sf_space_read_header(seg).next_object_id;
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
	SfSegment  *seg = sf_space_open(batch->rows.column.table_oid, batch->rows.column.attnum,
									RowExclusiveLock, true);

	if (seg != NULL)
		sf_space_ids_from(seg, batch->rows.at.number);
}

/* One transaction's work on a table that is locked; the position is batch->rows.at. */
static void
run_batch(Batch *batch, Oid table_oid, const char *column)
{
	SfRowBatch *rows = &batch->rows;

	sfi_ddl_batch_open(rows, table_oid, column, "rewrite");
	batch->key_id = current_key(&rows->column);
	if (rows->at.pass == 0)
		sfi_ddl_batch_first_pass(rows, next_id(&rows->column));
	take_new_ids(batch);
	sfi_ddl_batch_run(rows);
	table_close(rows->rel, NoLock);
}

/* ---- securefile_rewrite_some() ---- */

/*
 * securefile_rewrite_some(table regclass, column name, max_bytes bigint, position text,
 *		only_keys boolean)
 *		returns (rewritten bigint, rewritten_bytes bigint, skipped bigint, next text)
 */
Datum
securefile_rewrite_some(PG_FUNCTION_ARGS)
{
	int64		max_bytes = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);
	SfProgress	progress = {0};
	Batch		batch = {
		.rows = {.max_bytes = max_bytes, .progress = &progress, .visit = visit_row}
	};

	sfi_ddl_batch_require(fcinfo, "securefile_rewrite_some()", max_bytes);
	batch.only_keys = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);
	if (!PG_ARGISNULL(3))
		batch.rows.at = sfi_ddl_position_of(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	sfi_ddl_require_column(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));
	sfi_ddl_batch_refuse_partitioned(PG_GETARG_OID(0), "securefile_rewrite_online()");
	run_batch(&batch, PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));
	sf_stats_progress_end();
	PG_RETURN_DATUM(sfi_ddl_batch_result(fcinfo, &batch.rows, batch.rows.at.pass == 0 ? NULL :
										 sfi_ddl_position_text(&batch.rows.at)));
}

/* ---- securefile_rewrite_online() ---- */

/*
 * What the last batch has set free is space for the next one: so what is stored again comes to lie
 * low, and the end of the segment becomes free.
 */
static void
free_old_values(Oid table_oid, AttrNumber attnum)
{
	SfMaintain	work = {0};
	Relation	segrel = sf_space_open_resolved(sf_space_segment_relid(table_oid, attnum), &work);

	if (segrel != NULL)
		relation_close(segrel, ShareUpdateExclusiveLock);
}

/* All of one table, a transaction for each batch; returns how many rows were passed over. */
static uint64
rewrite_in_batches(Batch *batch, Oid table_oid, const char *column)
{
	batch->rows.at = (SfPosition) {0};
	do
	{
		run_batch(batch, table_oid, column);
		SPI_commit();
		free_old_values(table_oid, batch->rows.at.attnum);
		SPI_commit();
	} while (batch->rows.at.pass > 0);
	return batch->rows.at.skipped;
}

/*
 * securefile_rewrite_online(table regclass, column name, batch_bytes bigint,
 *		only_keys boolean), a procedure
 */
Datum
securefile_rewrite_online(PG_FUNCTION_ARGS)
{
	int64		max_bytes = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);
	SfProgress	progress = {0};
	Batch		batch = {
		.rows = {.max_bytes = max_bytes, .progress = &progress, .visit = visit_row}
	};
	uint64		skipped = 0;
	char	   *column;
	List	   *tables;
	ListCell   *lc;

	sfi_ddl_batch_require(fcinfo, "securefile_rewrite_online()", max_bytes);
	sf_base_require_commits(fcinfo, "securefile_rewrite_online()",
							"Use securefile_rewrite_some() there.");
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
