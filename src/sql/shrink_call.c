/*-------------------------------------------------------------------------
 *
 * shrink_call.c
 *	  CALL securefile_shrink(): a column takes less of the disk.
 *
 *	 release	free space goes back to the file system where it lies (check/shrink.c)
 *	 move		the free tail is cut; values from behind are stored again in front
 *				(ddl/move_values.c); the tail is cut once more; what is free then is released
 *
 * For each table that has rows, one after the other.  One session at a time shrinks a segment.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "ddl/ddl.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "sql/maintain.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(securefile_shrink);

/* Each cut leaves an eighth of what there was before: after some nothing is left to be cut. */
#define MOST_CUTS	8

/* What a call asks for. */
typedef struct Request
{
	bool		moves;			/* else it only releases */
	uint64		release_bytes;	/* in a second; 0: no limit */
	SfMoveRequest move;
} Request;

/* ---- arguments ---- */

/* Does a call move values, or only release space? */
static bool
moves_by(const char *mode)
{
	if (strcmp(mode, "move") == 0)
		return true;
	if (strcmp(mode, "release") == 0)
		return false;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized mode \"%s\" of securefile_shrink()", mode),
			 errhint("The modes are \"release\" and \"move\".")));
	return false;
}

/* The fourth argument: bytes a second; 0: nothing was asked for. */
static uint64
most_bytes_of(FunctionCallInfo fcinfo)
{
	int64		bytes = PG_ARGISNULL(3) ? 0 : PG_GETARG_INT64(3);

	if (bytes < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s of securefile_shrink() must not be negative", "max_bytes_per_second"),
				 errhint("0 stands for securefile.shrink_rate, or, of a release, for no limit but that of holes a second.")));
	return bytes;
}

/* Bytes a second that may be moved: what is asked for, or what the setting has. */
static uint64
moved_rate(uint64 rate)
{
	uint64		most = (uint64) sf_shrink_rate_kb * 1024;

	if (rate == 0)
		return most;
	if (most > 0 && rate > most && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to shrink faster than securefile.shrink_rate"),
				 errdetail("The setting allows " UINT64_FORMAT " bytes in a second.", most)));
	return rate;
}

/* ERROR when the procedure cannot be called like that, or there. */
static Request
require_call(FunctionCallInfo fcinfo)
{
	Request		request = {0};

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	PreventCommandDuringRecovery("securefile_shrink()");
	request.moves = !PG_ARGISNULL(2) && moves_by(text_to_cstring(PG_GETARG_TEXT_PP(2)));
	request.release_bytes = most_bytes_of(fcinfo);
	if (request.moves)
		request.move.bytes_per_second = moved_rate(request.release_bytes);
	request.move.batch_bytes = PG_ARGISNULL(4) ? SF_MOVE_BATCH_BYTES : PG_GETARG_INT64(4);
	sf_ddl_require_batch(request.move.batch_bytes);
	request.move.allow_decoding = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	request.move.force = !PG_ARGISNULL(6) && PG_GETARG_BOOL(6);
	sf_base_require_commits(fcinfo, "securefile_shrink()",
							"securefile_shrink_some() moves values there.");
	return request;
}

/* ---- one table ---- */

/* Was the table dropped?  Its space is back then. */
static bool
is_gone(const SfCheckColumn *column)
{
	return !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(column->table_oid));
}

/* Free what can be freed, and cut the tail. */
static void
cut(const SfCheckColumn *column)
{
	for (int i = 0; i < MOST_CUTS && !is_gone(column); i++)
	{
		SfMaintain	work = {0};

		sfi_maintain_column(column, &work);
		SPI_commit();
		if (work.sectors_cut == 0)
			break;
	}
}

/* Say what keeps the tail from being cut. */
static void
note_uncut(const SfCheckColumn *column, uint64 after_sectors)
{
	Relation	segrel = try_relation_open(sf_check_segment_relid(column), AccessShareLock);

	if (segrel == NULL)
		return;
	sf_ddl_note_uncut(sf_space_open_rel(segrel), after_sectors, get_rel_name(column->table_oid),
					  column->name);
	relation_close(segrel, AccessShareLock);
}

/* False: not all could be released. */
static bool
shrink_table(const SfCheckColumn *column, const Request *request)
{
	Oid			segment_relid = sf_check_segment_relid(column);
	bool		complete = true;

	SF_ASSERT(request->move.batch_bytes > 0);

	/*
	 * fails where a procedure may not commit, before there is a lock of the
	 * session
	 */
	SPI_commit();
	sf_ddl_shrink_lock(segment_relid, true);
	if (request->moves)
	{
		uint64		after_sectors;

		cut(column);
		after_sectors = sf_ddl_move(column->table_oid, column->name, &request->move);
		cut(column);
		if (after_sectors > 0 && !is_gone(column))
			note_uncut(column, after_sectors);
	}
	if (!is_gone(column))
		complete = sf_check_release_space(column, request->release_bytes);
	sf_ddl_shrink_unlock(segment_relid);
	return complete;
}

/* ---- securefile_shrink() ---- */

/*
 * securefile_shrink(table regclass, column name, mode text, max_bytes_per_second bigint,
 *		batch_bytes bigint, allow_decoding boolean, force boolean), a procedure
 */
Datum
securefile_shrink(PG_FUNCTION_ARGS)
{
	Request		request = require_call(fcinfo);
	List	   *columns;
	ListCell   *cell;
	bool		complete = true;

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	columns = sf_check_columns(fcinfo, AccessShareLock, false, NULL);
	foreach(cell, columns)
	{
		if (!is_gone(lfirst(cell)))
			complete &= shrink_table(lfirst(cell), &request);
	}
	if (!complete)
		ereport(NOTICE,
				(errmsg("not all free space was released"),
				 errdetail("Another session waited for the column's segment relation."),
				 errhint("Call the procedure again.")));
	SPI_finish();
	PG_RETURN_VOID();
}
