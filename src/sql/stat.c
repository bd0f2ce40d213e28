/*-------------------------------------------------------------------------
 *
 * stat.c
 *	  SQL functions over the statistics room, and the function behind view securefile_io: what
 *	  each process reads and writes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "io/io.h"
#include "miscadmin.h"
#include "space/keep.h"
#include "space/space.h"
#include "stats/stats.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(securefile_stat_columns);
PG_FUNCTION_INFO_V1(securefile_stat_session_columns);
PG_FUNCTION_INFO_V1(securefile_stat_reset);
PG_FUNCTION_INFO_V1(securefile_kept_memory);
PG_FUNCTION_INFO_V1(securefile_kept_space);
PG_FUNCTION_INFO_V1(securefile_progress_slots);
PG_FUNCTION_INFO_V1(securefile_io_files);

/*
 * The value of an output column of that name; false: there is none.  Columns are found by
 * their names, since the SQL objects of an older version of the extension have fewer.
 */
static bool
find_value(const SfStatColumn *column, const char *name, Datum *value)
{
	const SfStatCounters *counters = &column->counters;

	if (strcmp(name, "table_oid") == 0)
		*value = ObjectIdGetDatum(column->table_oid);
	else if (strcmp(name, "attnum") == 0)
		*value = Int16GetDatum(column->attnum);
	else if (strcmp(name, "stats_reset") == 0)
		*value = TimestampTzGetDatum(column->reset);
#define SF_STAT(counter) \
	else if (strcmp(name, #counter) == 0) \
		*value = Int64GetDatum((int64) counters->counter);
	SF_STAT_LIST
#undef SF_STAT
		else
		return false;
	return true;
}

static void
put_column(ReturnSetInfo *rsinfo, const SfStatColumn *column)
{
	TupleDesc	desc = rsinfo->setDesc;
	Datum	   *values = palloc0(desc->natts * sizeof(Datum));
	bool	   *nulls = palloc0(desc->natts * sizeof(bool));

	for (int i = 0; i < desc->natts; i++)
		nulls[i] = !find_value(column, NameStr(TupleDescAttr(desc, i)->attname), &values[i]);
	tuplestore_putvalues(rsinfo->setResult, desc, values, nulls);
	pfree(values);
	pfree(nulls);
}

static Datum
put_columns(FunctionCallInfo fcinfo, const SfStatColumn *columns, int n)
{
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < n; i++)
		put_column((ReturnSetInfo *) fcinfo->resultinfo, &columns[i]);
	PG_RETURN_NULL();
}

/* One row a column of the current database that ever counted something. */
Datum
securefile_stat_columns(PG_FUNCTION_ARGS)
{
	SfStatColumn *columns;
	int			n = sf_stats_list(&columns);

	return put_columns(fcinfo, columns, n);
}

/* The same of this session, with a row of OID 0 for what belongs to no column. */
Datum
securefile_stat_session_columns(PG_FUNCTION_ARGS)
{
	SfStatColumn *columns;
	int			n = sf_stats_session_list(&columns);

	return put_columns(fcinfo, columns, n);
}

/* May the current user reset a table's statistics?  Nobody, if it is gone. */
static bool
may_reset(Oid table_oid)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table_oid)) &&
		sf_compat_owns_table(table_oid, GetUserId());
}

/*
 * Resets what the caller owns; for a superuser that is all of them.  A role that
 * owns nothing gets a message, rather than being left to believe that it worked.
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
	Datum		values[] = {
		Int64GetDatum((int64) kept.total_bytes),
		Int32GetDatum((int32) kept.processes),
		Int64GetDatum((int64) kept.own_bytes)
	};

	sf_base_require_preload();
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, NULL));
}

/* What keeps space in a process, as an array of words. */
static ArrayType *
words_of_readers(uint32 readers)
{
	Datum		words[3];
	int			n = 0;

	if (readers & SF_KEEP_CURSOR)
		words[n++] = CStringGetTextDatum("cursor");
	if (readers & SF_KEEP_PROCEDURE)
		words[n++] = CStringGetTextDatum("procedure");
	if (readers & SF_KEEP_COMMAND)
		words[n++] = CStringGetTextDatum("command");
	SF_ASSERT(n <= (int) lengthof(words));
	return construct_array(words, n, TEXTOID, -1, false, TYPALIGN_INT);
}

/*
 * securefile_kept_space() returns setof (pid integer, database_oid oid, oldest xid8,
 *		since timestamptz, readers text[])
 */
Datum
securefile_kept_space(PG_FUNCTION_ARGS)
{
	SfKept		kept;
	int			at = 0;

	sf_base_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	while (sf_space_keep_next(&at, &kept))
	{
		Datum		values[] = {
			Int32GetDatum(kept.pid),
			ObjectIdGetDatum(kept.db),
			FullTransactionIdGetDatum(FullTransactionIdFromU64(kept.oldest)),
			TimestampTzGetDatum(kept.since),
			PointerGetDatum(words_of_readers(kept.readers))
		};

		sf_base_put_row(fcinfo, values, NULL);
	}
	PG_RETURN_NULL();
}

/*
 * securefile_progress_slots() returns setof (pid integer, database_oid oid, table_oid oid,
 *		attnum smallint, pass integer, blocks_total bigint, blocks_done bigint,
 *		rewritten bigint, rewritten_bytes bigint, skipped bigint,
 *		operation text, releasable_bytes bigint, released_bytes bigint)
 */
Datum
securefile_progress_slots(PG_FUNCTION_ARGS)
{
	SfProgress *list;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	n = sf_stats_progress_list(&list);
	for (int i = 0; i < n; i++)
	{
		const SfProgress *progress = &list[i];
		Datum		values[] = {
			Int32GetDatum(progress->pid),
			ObjectIdGetDatum(progress->database),
			ObjectIdGetDatum(progress->table_oid),
			Int16GetDatum(progress->attnum),
			Int32GetDatum(progress->pass),
			Int64GetDatum((int64) progress->blocks_total),
			Int64GetDatum((int64) progress->blocks_done),
			Int64GetDatum((int64) progress->values),
			Int64GetDatum((int64) progress->bytes),
			Int64GetDatum((int64) progress->skipped),
			CStringGetTextDatum(sf_stats_operation_name(progress->operation)),
			Int64GetDatum((int64) progress->releasable_bytes),
			Int64GetDatum((int64) progress->released_bytes)
		};

		sf_base_put_row(fcinfo, values, NULL);
	}
	PG_RETURN_NULL();
}

/* ---- I/O of processes ---- */

/* As in pg_stat_activity: one's own sessions, those of roles one is a member of, or all. */
static bool
may_see(Oid role)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

static Datum
milliseconds(uint64 us)
{
	return Float8GetDatum(us / 1000.0);
}

/* An SfIoWatchFn: one row.  Of what the caller may not see, the process is all there is. */
static void
put_watched(int pid, Oid role, const SfIoWatched *watched, void *arg)
{
	Datum		values[] = {
		Int32GetDatum(pid),
		ObjectIdGetDatum(SfStorageDb(watched->id.storage)),
		ObjectIdGetDatum(SfStorageSpc(watched->id.storage)),
		ObjectIdGetDatum(SfStorageRel(watched->id.storage)),
		Int32GetDatum((int32) watched->id.fileno),
		Int64GetDatum((int64) watched->did[SF_IO_READ].count),
		Int64GetDatum((int64) watched->did[SF_IO_READ].bytes),
		milliseconds(watched->did[SF_IO_READ].us),
		Int64GetDatum((int64) watched->did[SF_IO_WRITE].count),
		Int64GetDatum((int64) watched->did[SF_IO_WRITE].bytes),
		milliseconds(watched->did[SF_IO_WRITE].us),
		Int64GetDatum((int64) watched->did[SF_IO_FLUSH].count),
		milliseconds(watched->did[SF_IO_FLUSH].us),
		milliseconds(watched->longest_us),
		Int32GetDatum((int32) watched->in_flight),
		Int64GetDatum((int64) watched->in_flight_bytes)
	};
	bool		nulls[lengthof(values)] = {false};

	if (!may_see(role))
		memset(nulls + 1, true, sizeof(nulls) - 1);
	sf_base_put_row(arg, values, nulls);
}

/*
 * securefile_io_files() returns setof (pid integer, database_oid oid, tablespace_oid oid,
 *		number oid, file integer, reads bigint, read_bytes bigint, read_time float8,
 *		writes bigint, write_bytes bigint, write_time float8, flushes bigint,
 *		flush_time float8, longest float8, in_flight integer, in_flight_bytes bigint)
 */
Datum
securefile_io_files(PG_FUNCTION_ARGS)
{
	sf_base_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	sf_io_watch(put_watched, fcinfo);
	PG_RETURN_NULL();
}
