/*-------------------------------------------------------------------------
 *
 * lend.c
 *	  SQL functions that lend blocks of a segment (space/lend.c), with and without a bound.
 *
 * The library exports what they need where it is built with fault points.  For
 * test/t/engine/214_lend_below.pl, 290_low_first.pl and 291_max_size.pl.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/base.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/space.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(lend);
PG_FUNCTION_INFO_V1(lend_all);
PG_FUNCTION_INFO_V1(lend_back);
PG_FUNCTION_INFO_V1(lend_total);
PG_FUNCTION_INFO_V1(lend_grown);

#define ATTNUM		4

static SfSegment *
open_to_write(Oid table_oid)
{
	return sf_space_open(table_oid, ATTNUM, RowExclusiveLock, false);
}

/* A bound below 0: there is none.  Adds the region to the text; false: there is nothing. */
static bool
lend_one(SfSegment *seg, int32 need, int32 most, int64 below_sector, StringInfo text)
{
	SfWant		want = {.need_blocks = need, .most_blocks = most};
	SfRegion	region;

	want.ahead_sectors = sf_blocks_to_sectors(most);
	region = sf_space_lend(seg, &want, below_sector < 0 ? SF_NO_BOUND : below_sector);

	if (region.nblocks > 0)
		appendStringInfo(text, "%s" UINT64_FORMAT "+%u", text->len > 0 ? " " : "",
						 region.start_block, region.nblocks);
	return region.nblocks > 0;
}

/* lend(table oid, need int, most int, below_sector bigint) returns text: start+blocks */
Datum
lend(PG_FUNCTION_ARGS)
{
	StringInfoData text;

	initStringInfo(&text);
	(void) lend_one(open_to_write(PG_GETARG_OID(0)), PG_GETARG_INT32(1), PG_GETARG_INT32(2),
					PG_GETARG_INT64(3), &text);
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

/* lend_all(table oid, need int, most int, below_sector bigint) returns text: all */
Datum
lend_all(PG_FUNCTION_ARGS)
{
	SfSegment  *seg = open_to_write(PG_GETARG_OID(0));
	StringInfoData text;

	initStringInfo(&text);
	while (lend_one(seg, PG_GETARG_INT32(1), PG_GETARG_INT32(2), PG_GETARG_INT64(3), &text))
		CHECK_FOR_INTERRUPTS();
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

/* lend_back(table oid, start_block bigint, nblocks int) */
Datum
lend_back(PG_FUNCTION_ARGS)
{
	SfRegion	region = {PG_GETARG_INT64(1), PG_GETARG_INT32(2)};

	sf_space_take_back(open_to_write(PG_GETARG_OID(0)), region);
	PG_RETURN_VOID();
}

/* lend_total(table oid) returns bigint: sectors of the segment */
Datum
lend_total(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sf_space_read_header(open_to_write(PG_GETARG_OID(0))).total_sectors);
}

/* lend_grown(table oid) returns bigint: sectors that the monitor would add */
Datum
lend_grown(PG_FUNCTION_ARGS)
{
	SfMaintain	stats = {0};

	sf_space_maintain(open_to_write(PG_GETARG_OID(0)), false, &stats);
	PG_RETURN_INT64(stats.sectors_grown);
}
