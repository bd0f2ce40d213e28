/*-------------------------------------------------------------------------
 *
 * by_hand.c
 *	  securefile_fetch_left_behind(): what is missing of one column, fetched at once.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "fetch/fetch_internal.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_fetch_column);

static Datum
make_row(FunctionCallInfo fcinfo, const SfFetchCounts *counts)
{
	Datum		values[] = {
		Int64GetDatum(counts->missing_values),
		Int64GetDatum(counts->missing_bytes),
		Int64GetDatum(counts->missing_values - counts->left_values),
		Int64GetDatum(counts->missing_bytes - counts->left_bytes)
	};

	return sf_base_row(fcinfo, values, NULL);
}

/* All rows; the connection of a source, if there is one, is closed whatever happens. */
static void
fetch_all(Relation rel, SfSegment *seg, SfFetchSource *source, SfFetchCounts *counts)
{
	SfFetchRange range = {0, RelationGetNumberOfBlocks(rel), InvalidTransactionId, 0};

	PG_TRY();
	{
		if (source != NULL)
			sfi_fetch_connect(source);
		(void) sfi_fetch_rows(rel, seg, source, &range, counts);
	}
	PG_FINALLY();
	{
		if (source != NULL)
			sfi_fetch_disconnect(source);
	}
	PG_END_TRY();
}

/*
 * securefile_fetch_column(relid oid, attnum smallint, conninfo text)
 * returns (missing_values bigint, missing_bytes bigint, fetched_values bigint,
 *			fetched_bytes bigint)
 *
 * conninfo null: what is missing is only counted; empty: as securefile.fetch_from says.
 */
Datum
securefile_fetch_column(PG_FUNCTION_ARGS)
{
	Oid			table_oid = PG_GETARG_OID(0);
	AttrNumber	attnum = PG_GETARG_INT16(1);
	const char *source = sfi_fetch_choose(PG_ARGISNULL(2) ? NULL :
										  text_to_cstring(PG_GETARG_TEXT_PP(2)));
	SfFetchCounts counts = {0};
	Relation	rel;
	SfSegment  *seg;

	sf_base_require_preload();
	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	PreventCommandIfParallelMode("securefile_fetch_left_behind()");
	rel = table_open(table_oid, AccessShareLock);
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel))));
	seg = sf_space_open(table_oid, attnum, AccessShareLock, true);
	if (seg == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("column %d of table \"%s\" has no segment", attnum, RelationGetRelationName(rel))));
	if (!seg->logged_data && RelationGetNumberOfBlocks(rel) > 0)
		fetch_all(rel, seg, source == NULL ? NULL : sfi_fetch_source(source, 0), &counts);
	table_close(rel, NoLock);
	PG_RETURN_DATUM(make_row(fcinfo, &counts));
}
