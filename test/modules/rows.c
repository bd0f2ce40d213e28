/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  SQL functions that walk over the rows of a table (src/rows): those that have space
 *	  from a sector on, those of an object, those of a range of blocks.
 *
 * The library exports what they need where it is built with fault points.  For
 * test/t/engine/164_rows.pl.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "fmgr.h"
#include "rows/rows.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(rows_all);
PG_FUNCTION_INFO_V1(rows_from_sector);
PG_FUNCTION_INFO_V1(rows_of_object);
PG_FUNCTION_INFO_V1(rows_of_range);

#define ATTNUM		4
#define ROW_BYTES	(1024 * 1024)

/* Go on to the end, or until there are so many rows; their places, as text. */
static Datum
walked(SfRows *rows, int most)
{
	StringInfoData text;

	/* outlives the rows */
	MemoryContextSwitchTo(rows->caller);
	initStringInfo(&text);
	MemoryContextSwitchTo(rows->context);
	for (int n = 0; n < most && sf_rows_next(rows); n++)
	{
		ItemPointer tid = &rows->slot->tts_tid;

		/* what was allocated for the rows before is gone */
		if (MemoryContextMemAllocated(CurrentMemoryContext, true) > 2 * ROW_BYTES)
			elog(ERROR, "memory of earlier rows is still there");
		(void) palloc(ROW_BYTES);
		appendStringInfo(&text, "%s(%u,%u)", n > 0 ? " " : "", ItemPointerGetBlockNumber(tid),
						 ItemPointerGetOffsetNumber(tid));
	}
	sf_rows_end(rows);
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

/* rows_all(table oid, attnum int, most int) returns text */
Datum
rows_all(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	SfRows		rows = sf_rows_begin(rel, PG_GETARG_INT32(1), GetActiveSnapshot());
	Datum		text = walked(&rows, PG_GETARG_INT32(2));

	table_close(rel, NoLock);
	return text;
}

/* The places of the rows of a table that a filter of its segment leaves, as text. */
static Datum
filtered(Oid table_oid, void (*filter) (SfRows *rows, SfSegment *seg, uint64 number), uint64 number)
{
	Relation	rel = table_open(table_oid, AccessShareLock);
	SfSegment  *seg = sf_space_open(table_oid, ATTNUM, AccessShareLock, false);
	SfRows		rows = sf_rows_begin(rel, ATTNUM, GetActiveSnapshot());
	Datum		text;

	filter(&rows, seg, number);
	text = walked(&rows, PG_INT32_MAX);
	table_close(rel, NoLock);
	return text;
}

/* rows_from_sector(table oid, sector bigint) returns text */
Datum
rows_from_sector(PG_FUNCTION_ARGS)
{
	return filtered(PG_GETARG_OID(0), sf_rows_only_from_sector, PG_GETARG_INT64(1));
}

/* rows_of_object(table oid, object_id bigint) returns text */
Datum
rows_of_object(PG_FUNCTION_ARGS)
{
	return filtered(PG_GETARG_OID(0), sf_rows_only_object, PG_GETARG_INT64(1));
}

/* rows_of_range(table oid, attnum int, block int, offset int, end int) returns text */
Datum
rows_of_range(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(0), AccessShareLock);
	SfRows		rows = sf_rows_begin_range(rel, PG_GETARG_INT32(1), GetActiveSnapshot(),
										   PG_GETARG_INT32(2), PG_GETARG_INT32(3),
										   PG_GETARG_INT32(4));
	Datum		text = walked(&rows, PG_INT32_MAX);

	table_close(rel, NoLock);
	return text;
}
