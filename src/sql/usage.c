/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  The space of a column: securefile_usage(), and the functions behind view
 *	  securefile_columns.
 *
 * All numbers come from the pages of the segment relation, but for disk_bytes, which the file
 * system tells, and for those of compression, which ANALYZE has left in the catalog.  No function
 * here reads a value or changes anything, so they work on a standby, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_attribute.h"
#include "check/check.h"
#include "config/config.h"
#include "stats/stats.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(securefile_usage);
PG_FUNCTION_INFO_V1(securefile_column_info);
PG_FUNCTION_INFO_V1(securefile_object_bytes);
PG_FUNCTION_INFO_V1(securefile_column_ratio);

#define USAGE_COLUMNS	12
#define INFO_COLUMNS	6

/* ---- securefile_usage(table regclass, column name) ---- */

/* Add the space of one segment to a sum. */
static void
add_usage(SfUsage *sum, SfUsage usage)
{
	sum->file_bytes += usage.file_bytes;
	sum->live_bytes += usage.live_bytes;
	sum->pending_bytes += usage.pending_bytes;
	sum->retained_bytes += usage.retained_bytes;
	sum->free_bytes += usage.free_bytes;
	sum->metadata_bytes += usage.metadata_bytes;
	sum->shared_objects += usage.shared_objects;
	sum->references += usage.references;
	sum->saved_bytes += usage.saved_bytes;
}

/*
 * Add an estimate of the plain bytes that are stored in a segment; *sum becomes negative
 * when ANALYZE has not said anything of one that is not empty.
 */
static void
add_plain(double *sum, const SfCheckColumn *column, uint64 live_bytes)
{
	double		ratio;

	if (live_bytes == 0 || *sum < 0)
		return;
	if (sf_stats_plain_ratio(column->table_oid, column->attnum, &ratio))
		*sum += live_bytes * ratio;
	else
		*sum = -1;
}

/* For a partitioned table, the sum of its partitions. */
Datum
securefile_usage(PG_FUNCTION_ARGS)
{
	SfUsage		sum = {0};
	uint64		disk_bytes = 0;
	double		plain_bytes = 0;
	List	   *columns;
	List	   *locked;
	ListCell   *cell;
	Datum		values[USAGE_COLUMNS];
	bool		nulls[USAGE_COLUMNS] = {0};

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, true);
	columns = sf_check_columns(fcinfo, AccessShareLock, true, &locked);
	foreach(cell, columns)
	{
		SfSegment  *seg = sf_check_open_segment(lfirst(cell), AccessShareLock);
		SfUsage		usage = sf_space_usage(seg);

		disk_bytes += sf_io_files_disk_bytes(seg->storage);
		sf_space_release(seg);
		add_usage(&sum, usage);
		add_plain(&plain_bytes, lfirst(cell), usage.live_bytes);
	}
	sf_check_release(locked, AccessShareLock);

	values[0] = Int64GetDatum(sum.file_bytes);
	values[1] = Int64GetDatum(sum.live_bytes);
	values[2] = Int64GetDatum(sum.pending_bytes);
	values[3] = Int64GetDatum(sum.free_bytes);
	values[4] = Int64GetDatum(sum.metadata_bytes);
	values[5] = Int64GetDatum((int64) rint(plain_bytes));
	nulls[5] = plain_bytes < 0;
	nulls[6] = plain_bytes < 0 || sum.live_bytes == 0;
	values[6] = Float8GetDatum(nulls[6] ? 0 : plain_bytes / sum.live_bytes);
	values[7] = Int64GetDatum(sum.shared_objects);
	values[8] = Int64GetDatum(sum.references);
	values[9] = Int64GetDatum(sum.saved_bytes);
	values[10] = Int64GetDatum(disk_bytes);
	values[11] = Int64GetDatum(sum.retained_bytes);
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}

/* ---- behind securefile_columns ---- */

/*
 * Open the segment of a column, for any caller.  It must be released at once: a user
 * without privileges on a table must not be able to hold a lock on it.  NULL when there
 * is no segment, or when it was dropped meanwhile: a view must not fail because of a
 * table that is being dropped.
 */
static SfSegment *
visible_segment(Oid table_oid, AttrNumber attnum)
{
	if (!sf_base_preloaded)
		return NULL;
	return sf_space_open(table_oid, attnum, AccessShareLock, true);
}

/* The option word of a cache mode. */
static const char *
cache_word(SfCacheMode cache)
{
	switch (cache)
	{
		case SF_CACHE_NOCACHE:
			return "nocache";
		case SF_CACHE_READS:
			return "cache_reads";
		case SF_CACHE_FULL:
			return "cache";
		case SF_CACHE_DEFAULT:
			break;
	}
	pg_unreachable();
}

/* Option words as they are written, without the parentheses. */
static text *
option_words(int32 typmod)
{
	char	   *words = sf_config_print_options(typmod);
	int			len = strlen(words);

	SF_ASSERT(len == 0 || (words[0] == '(' && words[len - 1] == ')'));
	if (len < 2)
		return cstring_to_text("");
	return cstring_to_text_with_len(words + 1, len - 2);
}

/* The options of a column, through domains; false when there is no column. */
static bool
column_typmod(Oid table_oid, AttrNumber attnum, int32 *typmod)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table_oid),
										Int16GetDatum(attnum));
	Oid			typid;

	if (!HeapTupleIsValid(tuple))
		return false;
	typid = ((Form_pg_attribute) GETSTRUCT(tuple))->atttypid;
	*typmod = ((Form_pg_attribute) GETSTRUCT(tuple))->atttypmod;
	ReleaseSysCache(tuple);
	(void) getBaseTypeAndTypmod(typid, typmod);
	return true;
}

/* Fill in the columns that the segment tells, which wins over the options. */
static void
fill_segment(SfSegment *seg, Datum *values, bool *nulls)
{
	Relation	rel = relation_open(seg->relid, AccessShareLock);
	SfHeader	header = sf_space_read_header(seg);

	values[1] = ObjectIdGetDatum(seg->relid);
	values[2] = CStringGetTextDatum(sf_io_files_pattern(seg->storage));
	values[3] = CStringGetTextDatum(seg->logged_data ? "logging" : "filesystem_like_logging");
	values[5] = Int64GetDatum(sf_sectors_to_bytes(header.total_sectors));
	nulls[1] = nulls[2] = nulls[5] = false;
	relation_close(rel, AccessShareLock);
}

/*
 * securefile_column_info(table oid, attnum smallint)
 * returns (options text, segment_relid oid, data_files text, logging text,
 *			cache text, file_bytes bigint)
 */
Datum
securefile_column_info(PG_FUNCTION_ARGS)
{
	Oid			table_oid = PG_GETARG_OID(0);
	AttrNumber	attnum = PG_GETARG_INT16(1);
	SfSegment  *seg;
	SfOptions	options;
	int32		typmod;
	Datum		values[INFO_COLUMNS];
	bool		nulls[INFO_COLUMNS] = {false, true, true, false, false, true};

	if (!column_typmod(table_oid, attnum, &typmod))
		PG_RETURN_NULL();
	options = sf_config_options(typmod);
	values[0] = PointerGetDatum(option_words(typmod));
	values[3] = CStringGetTextDatum(options.fs_like_logging ?
									"filesystem_like_logging" : "logging");
	values[4] = CStringGetTextDatum(cache_word(options.cache));
	seg = visible_segment(table_oid, attnum);
	if (seg != NULL)
	{
		fill_segment(seg, values, nulls);
		sf_space_release(seg);
	}
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}

/* securefile_object_bytes(table oid, attnum smallint) returns bigint */
Datum
securefile_object_bytes(PG_FUNCTION_ARGS)
{
	SfSegment  *seg = visible_segment(PG_GETARG_OID(0), PG_GETARG_INT16(1));
	int64		live_bytes;

	if (seg == NULL)
		PG_RETURN_NULL();
	live_bytes = sf_space_usage(seg).live_bytes;
	sf_space_release(seg);
	PG_RETURN_INT64(live_bytes);
}

/* securefile_column_ratio(table oid, attnum smallint) returns double precision */
Datum
securefile_column_ratio(PG_FUNCTION_ARGS)
{
	double		ratio;

	if (!sf_stats_plain_ratio(PG_GETARG_OID(0), PG_GETARG_INT16(1), &ratio))
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(ratio);
}
