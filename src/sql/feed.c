/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  All bytes of a value, in order, for a caller that wants to see each of them once.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "sql/walker.h"

/* Zeros are given by their number, and wanted as bytes. */
static void
feed_zeros(SfSqlTake take, void *arg, int64 length)
{
	char	   *zeros = palloc0(Min(SF_SQL_PART_BYTES, length));

	for (int64 at = 0; at < length; at += SF_SQL_PART_BYTES)
	{
		CHECK_FOR_INTERRUPTS();
		take(arg, zeros, Min(SF_SQL_PART_BYTES, length - at));
	}
	pfree(zeros);
}

void
sfi_sql_feed(Datum value, SfSqlTake take, void *arg)
{
	SfSqlWalk	walk;
	SfSqlPart	part;

	sfi_sql_walk_begin(&walk, value);
	walk.zeros_are = SF_SQL_SCANNED;
	while (sfi_sql_walk_next(&walk, &part))
	{
		if (part.bytes != NULL)
			take(arg, part.bytes, part.length);
		else
			feed_zeros(take, arg, part.length);
	}
	sfi_sql_walk_end(&walk);
}
