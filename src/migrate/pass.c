/*-------------------------------------------------------------------------
 *
 * pass.c
 *	  A walk over the rows of the table, some in each transaction.
 *
 * The walk works as the owner of the table, restricted to what the owner may do: so it reads
 * and removes large objects as the owner, and calls the functions in the expressions of
 * indexes.  Its position is in memory only, since the rows tell what was done.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "commands/tablecmds.h"
#include "ddl/ddl.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "migrate/migrate_internal.h"
#include "rows/rows.h"
#include "stats/stats.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

/* A transaction looks at no more blocks. */
#define BLOCKS_AT_ONCE	16384

/* ---- what an earlier pass has seen ---- */

SfSince *
sfi_pass_since(void)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	int			n = snapshot->xcnt + Max(0, snapshot->subxcnt);
	SfSince    *since = palloc(offsetof(SfSince, running) + n * sizeof(TransactionId));

	since->xmin = snapshot->xmin;
	since->xmax = snapshot->xmax;
	since->complete = !snapshot->suboverflowed && !snapshot->takenDuringRecovery;
	since->nrunning = n;
	memcpy(since->running, snapshot->xip, snapshot->xcnt * sizeof(TransactionId));
	memcpy(since->running + snapshot->xcnt, snapshot->subxip,
		   (n - snapshot->xcnt) * sizeof(TransactionId));
	UnregisterSnapshot(snapshot);
	return since;
}

/* Had the transaction, which has committed by now, committed then? */
static bool
was_seen(const SfSince *since, TransactionId xid)
{
	if (TransactionIdPrecedes(xid, since->xmin))
		return true;
	if (!since->complete || TransactionIdFollowsOrEquals(xid, since->xmax))
		return false;
	for (int i = 0; i < since->nrunning; i++)
	{
		if (TransactionIdEquals(since->running[i], xid))
			return false;
	}
	return true;
}

/* The raw xmin: what froze the row meanwhile has not made it older. */
static bool
is_later(const SfPass *pass, TupleTableSlot *slot)
{
	bool		isnull;
	Datum		xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

	SF_ASSERT(!isnull);
	return pass->since == NULL || !was_seen(pass->since, DatumGetTransactionId(xmin));
}

/* ---- a walk ---- */

/* Since the batch began, has it changed, or read, so much?  The snapshot must not get old. */
static bool
is_full(const SfPass *pass, const SfPass *began)
{
	return pass->rows - began->rows >= pass->batch_rows ||
		pass->bytes - began->bytes >= pass->batch_bytes ||
		pass->compared_bytes - began->compared_bytes >= pass->batch_bytes ||
		pass->block - began->block >= BLOCKS_AT_ONCE;
}

/* For view securefile_progress: what the pass does is told by its number. */
static void
show_progress(const SfPass *pass)
{
	SfProgress	progress = {
		.operation = SF_OPERATION_MIGRATE,
		.table_oid = RelationGetRelid(pass->rel), .attnum = pass->to,
		.pass = pass->visit == sfi_bring_row ? 1 : pass->visit == sfi_bring_compare ? 2 : 3,
		.blocks_total = pass->end_block, .blocks_done = pass->block,
		.values = pass->rows, .bytes = pass->bytes + pass->compared_bytes,
		.skipped = pass->skipped
	};

	sf_stats_progress(&progress);
}

/* Go on from the position until the batch is full or the rows are over: a step of the owner. */
static void
visit_rows(void *arg)
{
	SfPass	   *pass = arg;
	SfPass		began = *pass;
	SfRows		rows;
	bool		more = true;

	if (pass->block >= pass->end_block)
		return;
	pass->carrier = sf_ddl_carrier_begin(pass->rel, pass->to);
	rows = sf_rows_begin_range(pass->rel, 0, sf_ddl_carrier_snapshot(pass->carrier), pass->block,
							   pass->offset, pass->end_block);
	while (!is_full(pass, &began) && (more = sf_rows_next(&rows)))
	{
		ItemPointerData tid = rows.slot->tts_tid;

		if (is_later(pass, rows.slot) && !pass->visit(pass, rows.slot))
			pass->skipped++;
		pass->block = ItemPointerGetBlockNumber(&tid);
		pass->offset = ItemPointerGetOffsetNumber(&tid);
		show_progress(pass);
	}
	sf_rows_end(&rows);
	sf_ddl_carrier_end(pass->carrier);
	if (!more)
		pass->block = pass->end_block;
}

static SfPass
begin_pass(SfMigration *m, SfPassVisit visit, const SfSince *since)
{
	return (SfPass)
	{
		.m = m, .visit = visit, .since = since,
			.batch_rows = m->options.batch_rows, .batch_bytes = m->options.batch_bytes,
	};
}

/* A batch, in a transaction that may be new: the table may have been changed before it. */
static void
run_batch(SfPass *pass, LOCKMODE lockmode, bool is_first)
{
	Relation	rel = table_open(pass->m->table_oid, lockmode);

	pass->rel = rel;
	CheckTableNotInUse(rel, "migrate");
	CheckCmdReplicaIdentity(rel, CMD_UPDATE);
	sfi_migrate_columns(pass->m, rel, &pass->from, &pass->to);
	if (is_first)
		pass->end_block = RelationGetNumberOfBlocks(rel);
	sf_rows_as_owner(rel, visit_rows, pass);
	table_close(rel, NoLock);
	pass->rel = NULL;
}

SfPass
sfi_pass_run(SfMigration *m, SfPassVisit visit, const SfSince *since)
{
	SfPass		pass = begin_pass(m, visit, since);
	bool		is_first = true;

	do
	{
		run_batch(&pass, RowExclusiveLock, is_first);
		SF_FAULT(migrate_batch);
		SPI_commit();
		SF_FAULT(migrate_between);
		is_first = false;
	} while (pass.block < pass.end_block);
	sf_stats_progress_end();
	return pass;
}

bool
sfi_pass_run_at_once(SfMigration *m, SfPassVisit visit, const SfSince *since)
{
	SfPass		pass = begin_pass(m, visit, since);
	bool		is_first = true;

	do
	{
		run_batch(&pass, AccessExclusiveLock, is_first);
		is_first = false;
	} while (pass.block < pass.end_block && pass.rows < pass.batch_rows &&
			 pass.bytes < pass.batch_bytes && pass.compared_bytes < pass.batch_bytes);
	sf_stats_progress_end();
	return pass.block >= pass.end_block && pass.skipped == 0;
}
