/*-------------------------------------------------------------------------
 *
 * move_values.c
 *	  securefile_shrink_some(), and mode "move" of securefile_shrink(): values that lie at the end
 *	  of a segment are stored again further in front, some at a time, so that the end becomes
 *	  free and can be cut off.
 *
 * It is what securefile_rewrite_online() does (row_passes.c), with a filter and a place: only
 * values that reach beyond a limit (move_limit.c), and all their new bytes lie below it
 * (sf_write_limit()).  For a value that finds no place there the segment does not grow: the row is
 * passed over.
 *
 * The new value is stored in a subtransaction, since that may fail in the middle, and the row is
 * changed outside of it: so no subtransaction needs an id of its own.
 *
 * What a transaction has moved stays locked until its end.  So each ends after a moment.
 *
 * A row that moves looks to everybody like one that was updated.  Hence what is refused:
 * replication slots would get whole values; and where data is not in WAL, a backup that was made
 * before has the old places only.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "ddl/ddl.h"
#include "ddl/move_values.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_shrink_some);

#define BATCH_US		100000	/* how long rows stay locked */
#define MOST_ROUNDS		6		/* of passes */
#define LOCKED_US		1000000 /* until rows that were locked are tried again */

/* Why a row was passed over. */
typedef enum Reason
{
	MOVED,						/* it was not */
	LOCKED,						/* somebody else has locked or changed it */
	NO_PLACE,					/* no room below the limit */
	SHARED,						/* it shares space with others */
	NO_KEY,						/* a key is not loaded */
	DAMAGED,					/* its bytes are damaged, or not here */
	REASONS
} Reason;

/* One call, or one transaction. */
typedef struct Move
{
	SfRowBatch	rows;			/* at.number: the limit; bytes: as stored */
	SfMoveRequest request;
	uint64		incarnation;	/* that the position is of; 0: none yet */
	SfMovePlan	plan;			/* of the first pass */
	SfSegment  *seg;			/* of this transaction */
	bool		stopped;		/* there is little room for WAL */
	int			round;			/* of passes, each with one limit */
	uint64		spare;			/* sectors below the limit for values that
								 * have found no place */
	uint64		too_long;		/* sectors that have found no place in this
								 * transaction */
	uint64		longest;		/* the most of these, in this pass */
	uint64		skipped[REASONS];	/* in this pass */
} Move;

/* ---- one row ---- */

/* Arguments and result of store_step(). */
typedef struct Store
{
	const SfColumn *column;
	Datum		old;
	SfValue		value;
} Store;

/* A step of sf_base_caught(). */
static void
store_step(void *arg)
{
	Store	   *store = arg;
	bool		stored = sfi_ddl_store_value(store->column, store->old, (Datum) 0, true,
											 &store->value);

	SF_ASSERT(stored);
}

/* Why a value could not be stored again; thrown on if that says nothing about this value. */
static Reason
reason_of(ErrorData *edata)
{
	switch (edata->sqlerrcode)
	{
		case ERRCODE_CONFIGURATION_LIMIT_EXCEEDED:
			return NO_PLACE;
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
			return NO_KEY;
		case ERRCODE_DATA_CORRUPTED:
		case ERRCODE_UNDEFINED_FILE:
			return DAMAGED;
		default:
			ReThrowError(edata);
	}
	return DAMAGED;
}

/* Move the value of a row, which takes that many sectors. */
static Reason
move_value(Move *move, SfRowWriter *writer, TupleTableSlot *slot, Datum value,
		   const SfLocator *loc, uint64 sectors)
{
	const SfColumn *column = &move->rows.column;
	Store		store = {.column = column, .old = value};
	ErrorData  *edata;
	Reason		reason;

	if (sfi_ddl_move_is_shared(move->seg, loc))
		return SHARED;
	if (sectors >= move->too_long)
		return NO_PLACE;
	if (!sfi_ddl_writer_lock(writer, slot))
		return LOCKED;
	edata = sf_base_caught(store_step, &store);
	if (edata == NULL)
	{
		SF_FAULT(shrink_stored);
		sfi_ddl_writer_replace(writer, slot, column, value, &store.value);
		SF_FAULT(shrink_row_updated);
		return MOVED;
	}
	reason = reason_of(edata);
	if (reason == NO_PLACE)
		move->too_long = sectors;
	FreeErrorData(edata);
	return reason;
}

/* Move the value of the row in a slot, if it reaches beyond the limit (an SfRowVisit). */
static void
visit_value(SfRowBatch *rows, SfRowWriter *writer, TupleTableSlot *slot, SfRowContext *context)
{
	Move	   *move = (Move *) rows;
	bool		isnull;
	Datum		value = slot_getattr(slot, rows->column.attnum, &isnull);
	SfLocator	loc;
	SfOwned		owned;
	uint64		sectors;
	Reason		reason;

	if (isnull || !sf_rows_space_of(move->seg, value, &loc, &owned) ||
		sf_rows_end_of(&owned) <= rows->at.number)
		return;
	sectors = sf_space_owned_sectors(&owned);
	reason = move_value(move, writer, slot, value, &loc, sectors);
	move->skipped[reason]++;
	if (reason == NO_PLACE)
		move->longest = Max(move->longest, sectors);
	if (reason == MOVED)
		sfi_ddl_batch_count(rows, sf_sectors_to_bytes(sectors));
	else
		rows->at.skipped++;
}

/* ---- what is told ---- */

static const char *
in_mb(uint64 sectors)
{
	return psprintf(UINT64_FORMAT " MB", (sf_sectors_to_bytes(sectors) + 1024 * 1024 - 1) >> 20);
}

/* A hint, if something is pending. */
static int
hint_pending(const SfUsage *usage)
{
	const char *pending = in_mb(sf_bytes_to_sectors(usage->pending_bytes));

	if (usage->pending_bytes == 0)
		return 0;
	if (usage->retained_bytes == 0)
		return
			errhint("%s are pending: deleted or moved values that a transaction, a snapshot or a slot may still need. Call it again when that has ended.",
					pending);
	return
		errhint("%s are pending, of which the column's retention keeps %s: securefile_purge() ends that. A transaction, a snapshot or a slot may still need the rest. Call it again then.",
				pending, in_mb(sf_bytes_to_sectors(usage->retained_bytes)));
}

/* Nothing is moved, since the files would not become shorter. */
static void
note_useless(SfSegment *seg, const SfMovePlan *plan, const char *table, const char *column)
{
	uint64		after = Min(plan->after_sectors, plan->total_sectors);
	SfUsage		usage = sf_space_usage(seg);

	ereport(NOTICE,
			(errmsg("no value of column \"%s\" of table \"%s\" is moved", column, table),
			 !plan->is_fixed ?
			 errdetail("The files have %s, and would have about %s.",
					   in_mb(plan->total_sectors), in_mb(after)) :
			 errdetail("The files have %s, and would have about %s: at %s lies what cannot be moved, a value that shares space with others, or whose key is not loaded, or that a transaction has stored or deleted which takes long, or is prepared, or that was removed and is kept by the retention.",
					   in_mb(plan->total_sectors), in_mb(after), in_mb(plan->fixed_end)),
			 hint_pending(&usage)));
}

void
sf_ddl_note_uncut(SfSegment *seg, uint64 after_sectors, const char *table, const char *column)
{
	SfUsage		usage = sf_space_usage(seg);
	uint64		after = sf_sectors_to_bytes(after_sectors);

	if (usage.file_bytes > after + after / SFI_WORTH_PART)
		ereport(NOTICE,
				(errmsg("files of column \"%s\" of table \"%s\" are still longer than they have to be",
						column, table),
				 errdetail("They have %s, and could have about %s.",
						   in_mb(sf_bytes_to_sectors(usage.file_bytes)), in_mb(after_sectors)),
				 usage.pending_bytes > 0 ? hint_pending(&usage) :
				 errhint("Other sessions have stored values meanwhile. Call it again.")));
}

/* Which rows were passed over, and why. */
static void
note_skipped(const Move *move, const char *table, const char *column)
{
	const uint64 *n = move->skipped;
	uint64		sum = 0;

	for (int i = MOVED + 1; i < REASONS; i++)
		sum += n[i];
	if (sum > 0)
		ereport(NOTICE,
				(errmsg_plural(UINT64_FORMAT
							   " value of column \"%s\" of table \"%s\" was not moved",
							   UINT64_FORMAT
							   " values of column \"%s\" of table \"%s\" were not moved",
							   sum, sum, column, table),
				 errdetail("Rows that are locked or being changed: " UINT64_FORMAT
						   "; no place in front: " UINT64_FORMAT "; sharing space: " UINT64_FORMAT
						   "; key not loaded: " UINT64_FORMAT
						   "; damaged, or not on this server: " UINT64_FORMAT ".",
						   n[LOCKED], n[NO_PLACE], n[SHARED], n[NO_KEY], n[DAMAGED]),
				 errhint("Call it again when that has changed.")));
}

/* Do values move that no backup has at their new places? */
static bool
escapes_wal(const SfColumn *column)
{
	return column->options.fs_like_logging && XLogIsNeeded();
}

/* At the begin, since the end may not come; and at the end. */
static void
note_backup(bool at_end, const char *table, const char *column)
{
	ereport(NOTICE,
			(at_end ?
			 errmsg("values of column \"%s\" of table \"%s\" have moved: take a base backup now",
					column, table) :
			 errmsg("values of column \"%s\" of table \"%s\" are moved, and are not in WAL",
					column, table),
			 errdetail("Base backups and standbys do not have them at their new places."),
			 at_end ? 0 : errhint("Take a base backup when it has ended, however it ends.")));
}

/* In a column that deduplicates nothing is moved. */
static bool
passes_over(const SfColumn *column, SfSegment *seg, const char *table, const char *name)
{
	if (!sf_config_deduplicates(column))
		return false;
	ereport(NOTICE,
			(errmsg("no value of column \"%s\" of table \"%s\" is moved, since the column deduplicates",
					name, table),
			 errdetail("skipped_shared_bytes: " UINT64_FORMAT, sf_space_usage(seg).live_bytes)));
	return true;
}

/* ---- one batch ---- */

/* ERROR where moving is refused; asked in each batch, since it may have changed. */
static void
require_movable(const Move *move)
{
	const SfColumn *column = &move->rows.column;

	if (escapes_wal(column) && !move->request.force)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("values of column \"%s\" of table \"%s\" are not moved, since they are not in WAL",
						get_attname(column->table_oid, column->attnum, false),
						RelationGetRelationName(move->rows.rel)),
				 errdetail("The column has filesystem_like_logging: base backups and standbys that have the values at their old places would not have them at the new ones."),
				 errhint("Use mode \"release\", which moves nothing, or pass force => true and make a base backup afterwards.")));
	if (!move->request.allow_decoding)
		sfi_ddl_refuse_decoded(move->rows.rel, column->attnum);
}

/*
 * The lock that only one session at a time has which shrinks a segment.  No other code locks
 * relations as objects.
 */
static LOCKTAG
lock_tag(Oid segment_relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, segment_relid, 0);
	return tag;
}

void
sf_ddl_shrink_lock(Oid segment_relid, bool session)
{
	LOCKTAG		tag = lock_tag(segment_relid);

	if (LockAcquire(&tag, ExclusiveLock, session, true) == LOCKACQUIRE_NOT_AVAIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another session shrinks the column"),
				 errhint("Wait for its end; securefile_progress shows it.")));
}

void
sf_ddl_shrink_unlock(Oid segment_relid)
{
	LOCKTAG		tag = lock_tag(segment_relid);

	(void) LockRelease(&tag, ExclusiveLock, true);
}

/* Find a limit, and begin at the first row, if it makes the work worth while. */
static void
begin_with_plan(Move *move)
{
	SfMovePlan *plan = &move->plan;

	*plan = sfi_ddl_move_plan(move->rows.rel, move->rows.column.attnum, move->seg, move->spare);
	move->incarnation = move->seg->incarnation;
	SF_FAULT(shrink_limit);
	if (sfi_ddl_move_is_worth(plan))
		sfi_ddl_batch_first_pass(&move->rows, plan->limit);
}

/*
 * Begin once more with the same limit, if writers have left something beyond it: new values that
 * found no room in front meanwhile, and those whose rows were locked.
 */
static void
begin_again(Move *move)
{
	if (move->incarnation != move->seg->incarnation)
		return;
	if (sfi_ddl_move_is_left(move->rows.rel, move->rows.column.attnum, move->seg,
							 move->plan.limit))
		sfi_ddl_batch_first_pass(&move->rows, move->plan.limit);
	else
		move->skipped[LOCKED] = move->skipped[NO_PLACE] = 0;
}

/* Begin a round, if there is something to do; else say why not, in the first one. */
static void
begin(Move *move, const char *table, const char *column)
{
	SfMaintain	work = {0};

	/*
	 * before all rows are looked at for nothing; a slot that is made
	 * meanwhile is seen by move_batch()
	 */
	require_movable(move);
	if (passes_over(&move->rows.column, move->seg, table, column))
		return;
	/* what is free by now is room for values */
	(void) sf_space_resolve(move->seg, true, &work);
	if (move->round > 0 && move->skipped[NO_PLACE] == 0)
		begin_again(move);
	else
		begin_with_plan(move);
	if (move->round > 0)
		return;
	if (move->rows.at.pass == 0)
		note_useless(move->seg, &move->plan, table, column);
	else if (escapes_wal(&move->rows.column))
		note_backup(false, table, column);
}

/* INVALID_PARAMETER_VALUE unless the position is of the segment that there is now. */
static void
require_position(const Move *move)
{
	uint64		limit = move->rows.at.number;

	if (move->incarnation == move->seg->incarnation && limit > 0 && limit <= SF_MAX_SECTORS &&
		limit % SF_BLOCK_SECTORS == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("the position to go on from is not one of this column's storage"),
			 errdetail("The column may have been truncated or rewritten since the last call."),
			 errhint("Pass what the last call for this column has returned, or NULL to begin anew.")));
}

/* Do the work; whatever ends it, the transaction may store values anywhere again. */
static void
run_limited(Move *move)
{
	PG_TRY();
	{
		sf_write_limit(move->seg, move->rows.at.number);
		sfi_ddl_batch_run(&move->rows);
	}
	PG_CATCH();
	{
		sf_write_limit_end(move->seg);
		PG_RE_THROW();
	}
	PG_END_TRY();
	sf_write_limit_end(move->seg);
}

/*
 * A process has one limit at a time.  Rows are stored with their index entries, so a function in an
 * index may come here again.
 */
static void
refuse_nested(void)
{
	if (sf_write_has_limit())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot move values in a function that is called by a move of values"),
				 errhint("A function in an index of the table does this.")));
}

/* The segment of the column, which is locked; ERROR: it has none. */
static SfSegment *
open_segment(const SfColumn *column, Relation rel)
{
	SfSegment  *seg = !column->permanent ? NULL :
		sf_space_open(column->table_oid, column->attnum, RowExclusiveLock, true);

	if (seg == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of table \"%s\" has no segment",
						get_attname(column->table_oid, column->attnum, false),
						RelationGetRelationName(rel))));
	return seg;
}

/*
 * One transaction's work; the position is move->rows.at.  follow: nothing is left to do where the
 * position is not of the storage that there is now, or there is too little room for WAL.
 */
static void
move_batch(Move *move, Oid table_oid, const char *column, bool follow)
{
	SfRowBatch *rows = &move->rows;

	refuse_nested();
	sfi_ddl_batch_open(rows, table_oid, column, "shrink");
	move->seg = open_segment(&rows->column, rows->rel);
	sf_ddl_shrink_lock(move->seg->relid, false);
	move->too_long = SF_MAX_SECTORS;
	move->stopped = !sfi_ddl_move_has_wal_room(move->seg, rows->max_bytes);
	if (move->stopped && !follow)
		sfi_ddl_move_refuse_wal();
	if (move->stopped ||
		(follow && rows->at.pass > 0 && move->incarnation != move->seg->incarnation))
		rows->at.pass = 0;
	else if (rows->at.pass == 0)
		begin(move, RelationGetRelationName(rows->rel), column);
	else
		require_position(move);
	/* by now: its values would refer to what lies behind, again and again */
	if (rows->at.pass > 0 && passes_over(&rows->column, move->seg,
										 RelationGetRelationName(rows->rel), column))
		rows->at.pass = 0;
	if (rows->at.pass > 0)
	{
		if (rows->at.block == 0 && rows->at.offset == 0)
		{
			memset(move->skipped, 0, sizeof(move->skipped));
			move->longest = 0;
		}
		require_movable(move);
		run_limited(move);
	}
	table_close(rows->rel, NoLock);
}

/* ---- securefile_shrink_some() ---- */

/* The number in front is the incarnation. */
static void
parse_position(Move *move, const char *text)
{
	char	   *rest;

	move->incarnation = strtoull(text, &rest, 10);
	if (rest == text || *rest != ' ')
		sfi_ddl_refuse_position(text);
	move->rows.at = sfi_ddl_position_of(rest + 1);
}

/*
 * securefile_shrink_some(table regclass, column name, batch_bytes bigint, position text,
 *		allow_decoding boolean, force boolean)
 *		returns (moved bigint, moved_bytes bigint, skipped bigint, next text)
 */
Datum
securefile_shrink_some(PG_FUNCTION_ARGS)
{
	SfProgress	progress = {.operation = SF_OPERATION_MOVE};
	Move		move = {
		.rows = {.visit = visit_value, .max_us = BATCH_US, .progress = &progress},
	};
	char	   *column;
	char	   *next = NULL;

	move.rows.max_bytes = PG_ARGISNULL(2) ? SF_MOVE_BATCH_BYTES : PG_GETARG_INT64(2);
	sfi_ddl_batch_require(fcinfo, "securefile_shrink_some()", move.rows.max_bytes);
	column = NameStr(*PG_GETARG_NAME(1));
	if (!PG_ARGISNULL(3))
		parse_position(&move, text_to_cstring(PG_GETARG_TEXT_PP(3)));
	move.request.allow_decoding = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);
	move.request.force = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	sfi_ddl_require_column(PG_GETARG_OID(0), column);
	sfi_ddl_batch_refuse_partitioned(PG_GETARG_OID(0), "securefile_shrink()");
	move_batch(&move, PG_GETARG_OID(0), column, false);
	sf_stats_progress_end();
	if (move.rows.at.pass > 0)
		next = psprintf(UINT64_FORMAT " %s", move.incarnation,
						sfi_ddl_position_text(&move.rows.at));
	else
		note_skipped(&move, get_rel_name(PG_GETARG_OID(0)), column);
	PG_RETURN_DATUM(sfi_ddl_batch_result(fcinfo, &move.rows, next));
}

/* ---- mode "move" of securefile_shrink() ---- */

/* Passes with one limit, a transaction for each batch. */
static void
run_round(Move *move, Oid table_oid, const char *column)
{
	move->rows.at = (SfPosition) {0};
	do
	{
		uint64		begin_us = sf_base_now_us();

		/* dropped since: its space is back */
		if (get_rel_name(table_oid) == NULL)
			return;
		move_batch(move, table_oid, column, true);
		SF_FAULT(shrink_batch_done);
		SPI_commit();
		if (move->rows.at.pass > 0)
			sfi_ddl_move_pause(move->rows.bytes, move->request.bytes_per_second, begin_us);
	} while (move->rows.at.pass > 0);
}

/*
 * After a round that has moved so many values: is another one worth while?  Where values have
 * found no place, the limit gets as high as the longest of them needs.  Rows that were locked get
 * some time.
 */
static bool
is_next_round(Move *move, uint64 moved)
{
	bool		locked = move->skipped[LOCKED] > 0;
	bool		no_place = move->skipped[NO_PLACE] > 0;

	if (move->stopped || ++move->round == MOST_ROUNDS || (moved == 0 && !locked && !no_place))
		return false;
	if (no_place)
		move->spare = Min(move->spare + move->longest, SF_MAX_SECTORS);
	if (locked)
		sfi_ddl_move_sleep(sf_base_now_us() + LOCKED_US);
	return true;
}

uint64
sf_ddl_move(Oid table_oid, const char *column, const SfMoveRequest *request)
{
	SfProgress	progress = {.operation = SF_OPERATION_MOVE};
	Move		move = {
		.rows = {.visit = visit_value, .max_us = BATCH_US, .progress = &progress},
		.request = *request
	};
	uint64		before;
	char	   *table;

	SF_ASSERT(request->batch_bytes > 0);
	move.rows.max_bytes = request->batch_bytes;
	do
	{
		before = progress.values;
		run_round(&move, table_oid, column);
		SF_FAULT(shrink_round_done);
	} while (is_next_round(&move, progress.values - before));
	sf_stats_progress_end();
	table = get_rel_name(table_oid);
	if (table == NULL)
		return 0;
	note_skipped(&move, table, column);
	if (progress.values > 0 && escapes_wal(&move.rows.column))
		note_backup(true, table, column);
	if (move.stopped)
		sfi_ddl_move_note_wal();
	return progress.values > 0 ? move.plan.after_sectors : 0;
}
