/*-------------------------------------------------------------------------
 *
 * stat.c
 *	  SQL functions over the statistics room.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "io/io.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(securefile_stat_columns);
PG_FUNCTION_INFO_V1(securefile_stat_reset);
PG_FUNCTION_INFO_V1(securefile_kept_memory);

#define NCOUNTERS	(sizeof(SfStatCounters) / sizeof(uint64))
#define NCOLUMNS	(2 + NCOUNTERS + 1)

static void
put_column(ReturnSetInfo *rsinfo, const SfStatColumn *column)
{
	Datum		values[NCOLUMNS];
	bool		nulls[NCOLUMNS] = {false};
	int			n = 0;

	values[n++] = ObjectIdGetDatum(column->table_oid);
	values[n++] = Int16GetDatum(column->attnum);
#define SF_STAT(name) values[n++] = Int64GetDatum((int64) column->counters.name);
	SF_STAT_LIST
#undef SF_STAT
		values[n++] = TimestampTzGetDatum(column->reset);
	SF_ASSERT(n == NCOLUMNS);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* One row a column of the current database that ever counted something. */
Datum
securefile_stat_columns(PG_FUNCTION_ARGS)
{
	SfStatColumn *columns;
	int			n = sf_stats_list(&columns);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
		put_column((ReturnSetInfo *) fcinfo->resultinfo, &columns[i]);
	PG_RETURN_NULL();
}

/* May the current user reset a table's statistics?  Nobody, if it is gone. */
static bool
may_reset(Oid table_oid)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table_oid)) &&
		sf_compat_owns_table(table_oid, GetUserId());
}

/*
 * Resets what the caller owns; for a superuser that is all of them.  Whoever
 * owns nothing is told so, rather than left to believe that it worked.
 */
Datum
securefile_stat_reset(PG_FUNCTION_ARGS)
{
	SfStatColumn *columns;
	int			n = sf_stats_list(&columns);
	bool		any = superuser();

	for (int i = 0; i < n; i++)
	{
		if (!may_reset(columns[i].table_oid))
			continue;
		sf_stats_reset(columns[i].table_oid, columns[i].attnum);
		any = true;
	}
	if (!any)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser or owner of a table with statistics to reset")));
	PG_RETURN_VOID();
}

/*
 * securefile_kept_memory()
 * returns (total_bytes bigint, processes integer, own_bytes bigint)
 */
Datum
securefile_kept_memory(PG_FUNCTION_ARGS)
{
	SfKeptMemory kept = sf_io_kept_memory();
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};

	sf_base_require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum((int64) kept.total_bytes);
	values[1] = Int32GetDatum((int32) kept.processes);
	values[2] = Int64GetDatum((int64) kept.own_bytes);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
