/*-------------------------------------------------------------------------
 *
 * maintain.c
 *	  securefile_maintain(): one pass of the monitor, in the foreground.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "check/check.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "sql/maintain.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(securefile_maintain);

#define MAINTAIN_COLUMNS	8

void
sfi_maintain_column(const SfCheckColumn *column, SfMaintain *sum)
{
	Relation	segrel = sf_space_open_resolved(sf_check_segment_relid(column), sum);
	SfSegment  *seg;

	/* the table was not locked, and has been dropped */
	if (segrel == NULL)
		return;
	SF_ASSERT(sum->entries_resolved <= sum->entries_seen);
	seg = sf_space_open_rel(segrel);
	sf_space_maintain(seg, true, sum);
	sf_keys_finish_shred(seg);
	relation_close(segrel, ShareUpdateExclusiveLock);
}

/*
 * securefile_maintain(table regclass, column name)
 * returns (entries_seen bigint, entries_resolved bigint, bytes_freed bigint,
 *			pages_freed bigint, bytes_grown bigint, bytes_cut bigint,
 *			oldest_unresolved xid8, orphans_removed integer)
 */
Datum
securefile_maintain(PG_FUNCTION_ARGS)
{
	SfMaintain	sum = {0};
	int			kept;
	List	   *columns;
	List	   *locked;
	ListCell   *cell;
	Datum		values[MAINTAIN_COLUMNS];
	bool		nulls[MAINTAIN_COLUMNS] = {0};

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	PreventCommandDuringRecovery("securefile_maintain()");

	columns = sf_check_columns(fcinfo, AccessShareLock, false, &locked);
	foreach(cell, columns)
		sfi_maintain_column(lfirst(cell), &sum);
	sf_check_release(locked, AccessShareLock);

	values[0] = Int64GetDatum(sum.entries_seen);
	values[1] = Int64GetDatum(sum.entries_resolved);
	values[2] = Int64GetDatum(sf_sectors_to_bytes(sum.sectors_freed));
	values[3] = Int64GetDatum(sum.pages_freed);
	values[4] = Int64GetDatum(sf_sectors_to_bytes(sum.sectors_grown));
	values[5] = Int64GetDatum(sf_sectors_to_bytes(sum.sectors_cut));
	values[6] = FullTransactionIdGetDatum(sum.oldest_unresolved);
	nulls[6] = !FullTransactionIdIsValid(sum.oldest_unresolved);
	values[7] = Int32GetDatum(sf_space_sweep(&kept));
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
