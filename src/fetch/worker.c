/*-------------------------------------------------------------------------
 *
 * worker.c
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
#include "config/config.h"
#include "fetch/fetch_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PGDLLEXPORT void securefile_fetch_worker(Datum arg);

/* Pages of a table in one transaction. */
#define BLOCKS_AT_ONCE	1024

/* A pass that had nothing to do is repeated after so many times the time that it took. */
#define PAUSE_FACTOR	9

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
	}
}

/* ---- state ---- */

static TransactionId
xid_of(FullTransactionId xid)
{
	return FullTransactionIdIsValid(xid) ? XidFromFullTransactionId(xid) : InvalidTransactionId;
}

/* The full id of an xid that is not newer than the next one. */
static FullTransactionId
full_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

/* Is the state about other storage, or so old that ids cannot be compared? */
static bool
is_outdated(const SfFetchState *state, const SfSegment *seg)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	return !SfStorageEquals(state->storage, seg->storage) ||
		(FullTransactionIdIsValid(state->checked) &&
		 next - U64FromFullTransactionId(state->checked) > TOO_OLD);
}

/* Add what a piece has given. */
static void
note_counts(SfFetchState *state, const SfFetchCounts *counts)
{
	SF_ASSERT(counts->left_values <= counts->missing_values);
	state->left_values += counts->left_values;
	state->left_bytes += counts->left_bytes;
	state->fetched_values += counts->missing_values - counts->left_values;
	state->fetched_bytes += counts->missing_bytes - counts->left_bytes;
}

/* ---- a piece of a pass ---- */

/* A column, and its state, which is kept for all to see after each piece. */
typedef struct Column
{
	Oid			segment_relid;
	Oid			table_oid;		/* invalid: not known yet */
	AttrNumber	attnum;
	SfFetchState state;
	bool		goes_on;		/* the pass has more pieces */
	uint64		fetched_bytes;	/* by this worker */
} Column;

/* Fetch for the next blocks of a pass. */
static void
fetch_blocks(Column *column, Relation rel, SfSegment *seg, SfFetchSource *source)
{
	SfFetchState *state = &column->state;
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	SfFetchRange range = {state->next_block, nblocks, xid_of(state->checked)};
	SfFetchCounts counts = {0};
	TransactionId xmin;

	range.to = Min(nblocks, range.from + BLOCKS_AT_ONCE);
	if (range.from < range.to)
	{
		xmin = sfi_fetch_rows(rel, seg, source, range, &counts);
		if (range.from == 0)
			state->pass_xmin = full_xid(xmin);
		note_counts(state, &counts);
		column->fetched_bytes += counts.missing_bytes - counts.left_bytes;
		state->next_block = range.to;
	}
	column->goes_on = range.to < nblocks;
}

/* What is in WAL, and what is not due, needs nothing. */
static void
do_piece(Column *column, SfFetchSource *source)
{
	Relation	segrel = try_relation_open(column->segment_relid, AccessShareLock);
	SfSegment  *seg = segrel == NULL ? NULL : sf_space_open_rel(segrel);
	Relation	rel;

	column->goes_on = false;
	if (seg == NULL || seg->logged_data)
		return;
	rel = try_table_open(seg->table_oid, AccessShareLock);
	if (rel == NULL)
		return;
	column->table_oid = seg->table_oid;
	column->attnum = seg->attnum;
	column->state = sfi_fetch_state_get(seg->table_oid, seg->attnum);
	if (is_outdated(&column->state, seg))
		column->state = (SfFetchState) {.storage = seg->storage};
	if (column->state.due <= GetCurrentTimestamp())
		fetch_blocks(column, rel, seg, source);
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
	strlcpy(column->state.failure, error->message, sizeof(column->state.failure));
	if (OidIsValid(column->table_oid))
		sfi_fetch_state_set(column->table_oid, column->attnum, &column->state);
	FreeErrorData(error);
	column->goes_on = false;
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

/* The next pass looks at newer rows only. */
static void
note_pass(Column *column, TimestampTz begun, bool idle)
{
	SfFetchState *state = &column->state;
	TimestampTz now = GetCurrentTimestamp();

	state->checked = state->pass_xmin;
	state->next_block = 0;
	state->passes++;
	state->last_pass = now;
	state->due = idle ? now + PAUSE_FACTOR * (now - begun) : now;
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
	if (!column->goes_on && column->state.next_block > 0 && column->state.failure[0] == '\0')
		note_pass(column, begun, column->fetched_bytes == 0);
}

void
securefile_fetch_worker(Datum arg)
{
	SfFetchSource *source;
	List	   *segments;
	ListCell   *cell;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	pgstat_report_appname("securefile fetch");

	StartTransactionCommand();
	segments = sf_space_list_segments(TopMemoryContext);
	CommitTransactionCommand();
	MemoryContextSwitchTo(TopMemoryContext);
	source = sfi_fetch_source(sf_fetch_from);
	foreach(cell, segments)
	{
		Column		column = {.segment_relid = lfirst_oid(cell)};

		if (RecoveryInProgress())
			fetch_column(&column, source);
	}
	sfi_fetch_disconnect(source);
}
