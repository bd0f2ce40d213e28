/*-------------------------------------------------------------------------
 *
 * size.c
 *	  Sizes with data files, which those of the server lack: securefile_database_size() and
 *	  securefile_total_relation_size().
 *
 * As those of the server, they ask the file system and not the catalog.  The former also
 * counts the files of segments that were dropped and not yet removed, in any tablespace.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "commands/dbcommands.h"
#include "fmgr.h"
#include "io/io.h"
#include "space/space.h"
#include "utils/fmgrprotos.h"

PG_FUNCTION_INFO_V1(securefile_database_size_name);
PG_FUNCTION_INFO_V1(securefile_database_size_oid);
PG_FUNCTION_INFO_V1(securefile_total_relation_size);

/* What a function of the server says of an object; false: null, there is no such object. */
static bool
size_by_server(PGFunction function, Oid oid, uint64 *size)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0] = (NullableDatum) {ObjectIdGetDatum(oid), false};
	result = function(fcinfo);
	*size = fcinfo->isnull ? 0 : (uint64) DatumGetInt64(result);
	return !fcinfo->isnull;
}

/* ---- a database ---- */

/* An SfIoScanFn. */
static void
add_files(SfStorage storage, void *arg)
{
	*(uint64 *) arg += sf_io_files_size(storage);
}

/* The server's function refuses a role that may neither connect nor read all statistics. */
static Datum
database_size(FunctionCallInfo fcinfo, Oid db)
{
	uint64		size;

	sf_base_require_preload();
	if (!size_by_server(pg_database_size_oid, db, &size))
		PG_RETURN_NULL();
	sf_io_scan(db, add_files, &size);
	PG_RETURN_INT64((int64) size);
}

/* securefile_database_size(oid) returns bigint; null when there is no such database */
Datum
securefile_database_size_oid(PG_FUNCTION_ARGS)
{
	return database_size(fcinfo, PG_GETARG_OID(0));
}

/* securefile_database_size(name) returns bigint */
Datum
securefile_database_size_name(PG_FUNCTION_ARGS)
{
	return database_size(fcinfo, get_database_oid(NameStr(*PG_GETARG_NAME(0)), false));
}

/* ---- a table ---- */

/* Add the segments of a table, with their metadata. */
static void
add_segments(Relation rel, uint64 *size)
{
	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		Oid			segrelid = sf_space_segment_relid(RelationGetRelid(rel), attnum);
		Relation	segrel = NULL;
		uint64		metadata;

		if (OidIsValid(segrelid))
			segrel = try_relation_open(segrelid, AccessShareLock);
		if (segrel == NULL)
			continue;
		if (size_by_server(pg_total_relation_size, segrelid, &metadata))
			*size += metadata + sf_io_files_size(SfRelStorage(segrel));
		relation_close(segrel, AccessShareLock);
	}
}

/*
 * securefile_total_relation_size(regclass) returns bigint; null when there is no such
 * relation
 */
Datum
securefile_total_relation_size(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel;
	uint64		size;

	sf_base_require_preload();
	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		PG_RETURN_NULL();
	if (size_by_server(pg_total_relation_size, relid, &size))
		add_segments(rel, &size);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT64((int64) size);
}
