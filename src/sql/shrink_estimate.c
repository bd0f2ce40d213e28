/*-------------------------------------------------------------------------
 *
 * shrink_estimate.c
 *	  securefile_shrink_estimate(): what securefile_shrink() would give back.
 *
 * The numbers come from the map pages and the pending entries of the segment, from the file
 * system, which knows the holes, and from what ANALYZE has left in the catalog.  Neither rows nor
 * values are read, so nothing is proved here that a release would have to prove first.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <math.h>

#include "check/check.h"
#include "space/release.h"
#include "space/shrink_limit.h"
#include "stats/stats.h"

PG_FUNCTION_INFO_V1(securefile_shrink_estimate);

#define ESTIMATE_COLUMNS	7

/* The sum of all segments, in bytes. */
typedef struct Estimate
{
	uint64		file_bytes;
	uint64		disk_bytes;
	uint64		live_bytes;
	uint64		releasable_bytes;
	uint64		movable_bytes;
	uint64		target_bytes;
	double		rows;			/* negative: not known */
} Estimate;

/* Add the rows whose values have so many bytes; without an ANALYZE the sum is not known. */
static void
add_rows(Estimate *sum, const SfSampled *sampled, uint64 bytes)
{
	if (bytes == 0 || sum->rows < 0)
		return;
	if (sampled->stored_bytes > 0)
		sum->rows += ceil(bytes / sampled->stored_bytes);
	else
		sum->rows = -1;
}

/* How long the pieces are in which values are stored; that is known by an ANALYZE, too. */
static uint32
piece_sectors(const SfSampled *sampled)
{
	return Max(1, sf_bytes_to_sectors((uint64) Min(sampled->stored_bytes, SF_UNIT_SIZE)));
}

/*
 * Add what moving would do.  In a column that deduplicates nothing is moved; its tail is cut all
 * the same.
 */
static void
add_move(Estimate *sum, const SfCheckColumn *column, SfSegment *seg)
{
	SfSampled	sampled = {0};
	bool		known = sf_stats_sampled_column(column->table_oid, column->attnum, &sampled);
	SfShrinkLimit shrink = sf_space_shrink_limit(seg, piece_sectors(&sampled), 0);
	uint64		unmoved = Min(shrink.total, sf_space_after_cuts(shrink.tail));
	uint64		target = Min(unmoved, sf_space_after_cuts(Min(shrink.tail, shrink.limit)));
	bool		moves = !sf_space_column(seg)->options.deduplicate && target < unmoved;
	uint64		movable = moves ? sf_sectors_to_bytes(shrink.above) : 0;

	SF_ASSERT(known || sampled.stored_bytes == 0);
	sum->movable_bytes += movable;
	sum->target_bytes += sf_sectors_to_bytes(moves ? target : unmoved);
	add_rows(sum, &sampled, movable);
}

/* Add what one segment has. */
static void
add_segment(Estimate *sum, const SfCheckColumn *column, SfSegment *seg)
{
	SfUsage		usage = sf_space_usage(seg);

	sum->file_bytes += usage.file_bytes;
	sum->disk_bytes += sf_io_files_disk_bytes(seg->storage);
	sum->live_bytes += usage.live_bytes;
	sum->releasable_bytes += sf_space_releasable_bytes(seg);
	add_move(sum, column, seg);
}

/*
 * securefile_shrink_estimate(table regclass, column name) returns record; for a partitioned
 * table, the sum of its partitions
 */
Datum
securefile_shrink_estimate(PG_FUNCTION_ARGS)
{
	Estimate	sum = {0};
	List	   *columns;
	List	   *locked;
	ListCell   *cell;
	Datum		values[ESTIMATE_COLUMNS];
	bool		nulls[ESTIMATE_COLUMNS] = {0};

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	columns = sf_check_columns(fcinfo, AccessShareLock, false, &locked);
	foreach(cell, columns)
	{
		SfSegment  *seg = sf_check_open_segment(lfirst(cell), AccessShareLock);

		add_segment(&sum, lfirst(cell), seg);
		sf_space_release(seg);
	}
	sf_check_release(locked, AccessShareLock);

	values[0] = Int64GetDatum(sum.file_bytes);
	values[1] = Int64GetDatum(sum.disk_bytes);
	values[2] = Int64GetDatum(sum.live_bytes);
	values[3] = Int64GetDatum(sum.releasable_bytes);
	values[4] = Int64GetDatum(sum.movable_bytes);
	values[5] = Int64GetDatum(sum.target_bytes);
	values[6] = Int64GetDatum((int64) rint(Max(sum.rows, 0)));
	nulls[6] = sum.rows < 0;
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
