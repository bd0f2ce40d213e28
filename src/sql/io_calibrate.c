/*-------------------------------------------------------------------------
 *
 * io_calibrate.c
 *	  securefile_io_calibrate(): what the storage under a column can do.
 *
 * It is measured in the tablespace of the column's segment, and touches no file of that.
 * Nothing is written to the database, so the function works on a standby, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <math.h>

#include "access/relation.h"
#include "check/check.h"
#include "funcapi.h"
#include "io/io.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_io_calibrate);

#define MOST_SECONDS	3600

/* ERROR unless argument 2, max_bytes, and 3, seconds, can be had. */
static void
require_limits(FunctionCallInfo fcinfo)
{
	sf_base_refuse_nulls(fcinfo, 2, 3, "max_bytes and seconds");
	if (PG_GETARG_INT64(2) < SF_IO_SCRATCH_MIN_BYTES ||
		PG_GETARG_INT64(2) > SF_IO_SCRATCH_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_bytes must be between %d and %d",
						SF_IO_SCRATCH_MIN_BYTES, SF_IO_SCRATCH_MAX_BYTES)));
	if (!(PG_GETARG_FLOAT8(3) > 0 && PG_GETARG_FLOAT8(3) <= MOST_SECONDS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("seconds must be greater than 0 and at most %d", MOST_SECONDS)));
}

/* The tablespace of a column's segment. */
static Oid
tablespace_of(const SfCheckColumn *column)
{
	Relation	segrel = relation_open(sf_check_segment_relid(column), AccessShareLock);
	Oid			spc = SfStorageSpc(SfRelStorage(segrel));

	relation_close(segrel, AccessShareLock);
	return spc;
}

/* An SfIoMeasureFn: one row. */
static void
put_measured(const SfIoMeasured *measured, void *arg)
{
	double		per_second = measured->operations / measured->seconds;
	Datum		values[] = {
		CStringGetTextDatum(measured->operation),
		CStringGetTextDatum(measured->method),
		BoolGetDatum(measured->direct),
		Int32GetDatum((int32) measured->size_bytes),
		Int32GetDatum(measured->depth),
		Int64GetDatum((int64) measured->operations),
		Float8GetDatum(per_second * measured->size_bytes),
		Float8GetDatum(per_second),
		Float8GetDatum(measured->mean_ms),
		Float8GetDatum(measured->median_ms),
		Float8GetDatum(measured->p99_ms)
	};

	SF_ASSERT(measured->operations > 0 && measured->seconds > 0);
	sf_base_put_row(arg, values, NULL);
}

/*
 * securefile_io_calibrate(table regclass, column name, max_bytes bigint, seconds float8)
 * returns setof (operation text, io_method text, direct boolean, size_bytes integer,
 *		depth integer, operations bigint, bytes_per_second float8, iops float8,
 *		mean_ms float8, median_ms float8, p99_ms float8)
 *
 * The lock on the table keeps its tablespace from being dropped.
 */
Datum
securefile_io_calibrate(PG_FUNCTION_ARGS)
{
	List	   *columns;
	List	   *locked;

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	require_limits(fcinfo);
	sf_check_refuse_partitioned(fcinfo, "a tablespace");
	columns = sf_check_columns(fcinfo, AccessShareLock, false, &locked);
	InitMaterializedSRF(fcinfo, 0);
	sf_io_calibrate(tablespace_of(linitial(columns)), (uint64) PG_GETARG_INT64(2),
					PG_GETARG_FLOAT8(3), put_measured, fcinfo);
	sf_check_release(locked, AccessShareLock);
	PG_RETURN_NULL();
}
