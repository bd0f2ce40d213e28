/*-------------------------------------------------------------------------
 *
 * fetch_column.c
 *	  The rows of a column, looked through for data that is not on this server.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/sysattr.h"
#include "access/transam.h"
#include "fetch/fetch_internal.h"
#include "read/read.h"
#include "rows/rows.h"
#include "utils/snapmgr.h"

/* The raw xmin, of a row that was frozen meanwhile, too. */
static TransactionId
xmin_of(TupleTableSlot *slot)
{
	bool		isnull;

	return DatumGetTransactionId(slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull));
}

/* Was a row seen by a pass that looked at all transactions before since? */
static bool
was_seen(TransactionId xmin, TransactionId since)
{
	return TransactionIdIsNormal(since) && TransactionIdIsNormal(xmin) &&
		TransactionIdPrecedes(xmin, since);
}

/* Locators are short; a longer value is in the row itself, and is not even fetched. */
static void
look_at(SfFetchBatch *batch, Datum value, TransactionId xmin)
{
	struct varlena *packed = sf_base_detoast_short(value, SF_IN_ROW_MAX + SF_SEALED_OVERHEAD);

	if (packed == NULL)
		return;
	sfi_batch_value(batch, xmin);
	sf_read_missing(packed, sfi_batch_add, batch);
}

/* Has enough been fetched, and does a block begin with this row?  Then the range ends here. */
static bool
is_enough(TupleTableSlot *slot, SfFetchRange *range, BlockNumber *block,
		  const SfFetchCounts *counts)
{
	BlockNumber next = ItemPointerGetBlockNumber(&slot->tts_tid);
	bool		begins = next != *block;

	*block = next;
	if (range->most_bytes == 0 || !begins || next == range->from ||
		counts->missing_bytes - counts->left_bytes < range->most_bytes)
		return false;
	range->to = next;
	return true;
}

/* The snapshot keeps the place of each value that it sees from being used again. */
TransactionId
sfi_fetch_rows(Relation rel, SfSegment *seg, SfFetchSource *source, SfFetchRange *range,
			   SfFetchCounts *counts)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TransactionId xmin = snapshot->xmin;
	SfFetchBatch *batch = sfi_batch_begin(seg, source, counts);
	BlockNumber block = InvalidBlockNumber;
	SfRows		rows;

	SF_ASSERT(range->from < range->to && seg->table_oid == RelationGetRelid(rel));
	rows = sf_rows_begin_range(rel, seg->attnum, snapshot, range->from, 0, range->to);
	while (sf_rows_next(&rows) && !is_enough(rows.slot, range, &block, counts))
	{
		if (!was_seen(xmin_of(rows.slot), range->since))
			look_at(batch, rows.value, xmin_of(rows.slot));
	}
	sf_rows_end(&rows);
	sfi_batch_finish(batch);
	UnregisterSnapshot(snapshot);
	return xmin;
}
