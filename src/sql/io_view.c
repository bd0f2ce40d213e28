/*-------------------------------------------------------------------------
 *
 * io_view.c
 *	  The function behind view securefile_io: what each process reads and writes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "io/io.h"
#include "miscadmin.h"
#include "utils/acl.h"

PG_FUNCTION_INFO_V1(securefile_io_files);

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
	ReturnSetInfo *rsinfo = arg;
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
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
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
	sf_io_watch(put_watched, fcinfo->resultinfo);
	PG_RETURN_NULL();
}
