/*-------------------------------------------------------------------------
 *
 * fetch_worker.c
 *	  On a standby: a process that goes through the columns of one database whose data is not
 *	  in WAL, and fetches what is missing from securefile.fetch_from.
 *
 * The monitor's launcher starts it, once in securefile.monitor_naptime.  A pass goes through
 * a table in pieces, each in a transaction of its own: a snapshot that is kept for long would
 * be in the way of replay, which cancels it.  What was cancelled is tried again, from the same
 * piece on.
 *
 * A row that a complete pass has seen needs no look in the next one.  Rows of transactions
 * that are older than the first snapshot of a pass are those; for a row that moves on to
 * another block meanwhile is of a newer one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/worker.h"
#include "config/config.h"
#include "fetch/fetch_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PGDLLEXPORT void securefile_fetch_worker(Datum arg);

/*
 * How long the other server may take for an answer.  Meanwhile the worker has locks and a
 * snapshot, which may be in the way of replay, and of a promotion.
 */
#define PATIENCE_MS		(10 * 1000)

/* Pages of a table in one transaction. */
#define BLOCKS_AT_ONCE	1024

/* A pass that had nothing to do is repeated after so many times the time that it took. */
#define PAUSE_FACTOR	9

/* From the first time that something was left to the next try, and the longest time. */
#define FIRST_RETRY_MS	(10 * 1000)
#define MOST_RETRY_MS	(60 * 60 * 1000)

/* Transaction ids are compared over less than half of their circle. */
#define TOO_OLD			(UINT64CONST(1) << 30)

static uint32 wait_event = 0;

/* ---- pace ---- */

/* Sleep as long as securefile.fetch_rate asks for after so many bytes. */
static void
keep_pace(TimestampTz begun, uint64 bytes)
{
	TimestampTz until;

	if (sf_fetch_rate_kb == 0)
		return;
	until = TimestampTzPlusMilliseconds(begun, (int64) (bytes * 1000 / 1024 / sf_fetch_rate_kb));
	for (;;)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		if (left <= 0)
			break;
		SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileFetch");
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min(left, 1000), wait_event);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (sf_base_worker_reloads())
			break;
	}
}

/* ---- state ---- */

/* Is the state about other storage, or so old that ids cannot be compared? */
static bool
is_outdated(const SfFetchState *state, const SfSegment *seg)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	return !SfStorageEquals(state->storage, seg->storage) ||
		(state->checked != 0 && next - state->checked > TOO_OLD) ||
		(state->left_xmin != 0 && next - state->left_xmin > TOO_OLD);
}

/* Add what a piece has given. */
static void
note_counts(SfFetchState *state, const SfFetchCounts *counts)
{
	uint64		left_xmin = counts->left_xmin == InvalidTransactionId ? 0 :
		sf_base_full_xid(counts->left_xmin);

	SF_ASSERT(counts->left_values <= counts->missing_values);
	state->left_values += counts->left_values;
	state->left_bytes += counts->left_bytes;
	state->fetched_values += counts->missing_values - counts->left_values;
	state->fetched_bytes += counts->missing_bytes - counts->left_bytes;
	if (left_xmin != 0 && (state->left_xmin == 0 || left_xmin < state->left_xmin))
		state->left_xmin = left_xmin;
}

/* ---- a piece of a pass ---- */

/* A column, and its state, which is kept for all to see after each piece. */
typedef struct Column
{
	Oid			segment_relid;
	Oid			table_oid;		/* invalid: not known yet */
	AttrNumber	attnum;
	SfFetchState state;
	bool		looked;			/* the last piece was due */
	bool		goes_on;		/* the pass has more pieces */
	uint64		fetched_bytes;	/* by this worker */
} Column;

/* A new pass: of the rows that are new, or of those, too, that were left behind before. */
static void
begin_pass(SfFetchState *state)
{
	SF_ASSERT(state->next_block == 0);
	state->is_retry = state->left_xmin != 0 && state->retry_at <= GetCurrentTimestamp();
	state->since = state->is_retry ? state->left_xmin : state->checked;
	if (state->is_retry)
	{
		/* they are counted anew */
		state->left_before = state->left_values;
		state->left_values = state->left_bytes = state->left_xmin = 0;
	}
	state->pass_xmin = 0;
}

/* Fetch for the next blocks of a pass. */
static void
fetch_blocks(Column *column, Relation rel, SfSegment *seg, SfFetchSource *source)
{
	SfFetchState *state = &column->state;
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	SfFetchRange range;
	SfFetchCounts counts = {0};
	TransactionId xmin;

	if (state->next_block == 0)
		begin_pass(state);
	range.from = state->next_block;
	range.to = Min(nblocks, range.from + BLOCKS_AT_ONCE);
	range.since = (TransactionId) state->since;
	range.most_bytes = sf_fetch_rate_kb * UINT64CONST(1024);
	if (range.from < range.to)
	{
		xmin = sfi_fetch_rows(rel, seg, source, &range, &counts);
		if (state->pass_xmin == 0)
			state->pass_xmin = sf_base_full_xid(xmin);
		note_counts(state, &counts);
		column->fetched_bytes += counts.missing_bytes - counts.left_bytes;
		state->next_block = range.to;
	}
	column->goes_on = range.to < nblocks;
}

/* A piece of the column, if one is due. */
static void
do_due(Column *column, SfSegment *seg, SfFetchSource *source)
{
	Relation	rel = try_table_open(seg->table_oid, AccessShareLock);

	if (rel == NULL)
		return;
	column->table_oid = seg->table_oid;
	column->attnum = seg->attnum;
	column->state = sfi_fetch_state_get(seg->table_oid, seg->attnum);
	if (is_outdated(&column->state, seg))
		column->state = (SfFetchState) {.storage = seg->storage};
	column->looked = column->state.due <= GetCurrentTimestamp();
	if (column->looked)
		fetch_blocks(column, rel, seg, source);
	table_close(rel, NoLock);
}

/* What is in WAL needs nothing. */
static void
do_piece(Column *column, SfFetchSource *source)
{
	Relation	segrel = try_relation_open(column->segment_relid, AccessShareLock);
	SfSegment  *seg;

	column->goes_on = column->looked = false;
	if (segrel == NULL)
		return;
	seg = sf_space_open_rel(segrel);
	if (!seg->logged_data)
		do_due(column, seg, source);
	relation_close(segrel, NoLock);
}

/* Note an error, in the log and in the view; the worker goes on with the next column. */
static void
note_failure(Column *column, SfFetchSource *source)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	ErrorData  *error = CopyErrorData();

	MemoryContextSwitchTo(old);
	EmitErrorReport();
	AbortOutOfAnyTransaction();
	FlushErrorState();
	sfi_fetch_disconnect(source);
	if (error->sqlerrcode == ERRCODE_CONNECTION_FAILURE ||
		error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		sfi_fetch_note_answer(false);
	strlcpy(column->state.failure, error->message, sizeof(column->state.failure));
	if (OidIsValid(column->table_oid))
		sfi_fetch_state_set(column->table_oid, column->attnum, &column->state);
	FreeErrorData(error);
	column->goes_on = column->looked = false;
}

/* A piece in a transaction of its own; what it has done is kept. */
static void
run_piece(Column *column, SfFetchSource *source)
{
	SF_ASSERT(!IsTransactionState());
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		do_piece(column, source);
		CommitTransactionCommand();
		column->state.failure[0] = '\0';
		if (OidIsValid(column->table_oid))
			sfi_fetch_state_set(column->table_oid, column->attnum, &column->state);
		if (column->fetched_bytes > 0)
			sfi_fetch_note_answer(true);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		note_failure(column, source);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/* ---- a pass ---- */

/*
 * When to ask again for what was left: another standby that is behind has it soon, and what is
 * gone is gone; so after twice the time, each time that most of it is left again.
 */
static void
plan_retry(SfFetchState *state, TimestampTz now)
{
	if (state->left_xmin == 0 ||
		(state->is_retry && 2 * state->left_values <= state->left_before))
		state->retry_ms = 0;
	if (state->left_xmin == 0)
		return;
	if (state->is_retry || state->retry_ms == 0)
	{
		state->retry_ms = Min(Max(2 * state->retry_ms, FIRST_RETRY_MS), MOST_RETRY_MS);
		SF_ASSERT(state->retry_ms >= FIRST_RETRY_MS);
		state->retry_at = TimestampTzPlusMilliseconds(now, state->retry_ms);
	}
}

/* The next pass looks at newer rows only. */
static void
note_pass(Column *column, TimestampTz begun, bool idle)
{
	SfFetchState *state = &column->state;
	TimestampTz now = GetCurrentTimestamp();

	if (state->pass_xmin != 0)
		state->checked = state->pass_xmin;
	state->next_block = 0;
	state->passes++;
	state->last_pass = now;
	state->due = idle ? now + PAUSE_FACTOR * (now - begun) : now;
	plan_retry(state, now);
	sfi_fetch_state_set(column->table_oid, column->attnum, state);
}

/* Go through a column, or through the rest of it, from where an error has ended the last try. */
static void
fetch_column(Column *column, SfFetchSource *source)
{
	TimestampTz begun = GetCurrentTimestamp();

	do
	{
		run_piece(column, source);
		keep_pace(begun, column->fetched_bytes);
	} while (column->goes_on && RecoveryInProgress());
	if (column->looked && !column->goes_on)
		note_pass(column, begun, column->fetched_bytes == 0);
}

void
securefile_fetch_worker(Datum arg)
{
	SfFetchSource *source;
	List	   *segments;
	ListCell   *cell;

	sf_base_worker_begin(DatumGetObjectId(arg), die);
	pgstat_report_appname("securefile fetch");

	StartTransactionCommand();
	segments = sf_space_list_segments(TopMemoryContext, NULL);
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	source = sfi_fetch_source(sf_fetch_from, PATIENCE_MS);
	foreach(cell, segments)
	{
		Column		column = {.segment_relid = lfirst_oid(cell)};

		if (RecoveryInProgress() && sfi_fetch_may_ask())
			fetch_column(&column, source);
	}
	sfi_fetch_disconnect(source);
}
