/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  Rows of a table, all or some at random, for functions that tell from values what a
 *	  column is like.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_SAMPLE_H
#define SF_SQL_SAMPLE_H

#include "base/base.h"

#include "fmgr.h"
#include "utils/relcache.h"

/* A sample in the making. */
typedef struct SfSample
{
	Relation	rel;			/* locked, with its children as SELECT needs
								 * it */
	const char *column;
	int			rows;			/* that are wanted; 0: all */
	bool		only;			/* without those of children */
	MemoryContext context;		/* lasts for the whole call */
	MemoryContext value_context;	/* reset after each value */
	Datum		value;			/* the one at hand, not null */
	int64		taken;			/* values before it */
	int64		damaged;		/* of these, those that cannot be read */
	char	   *problem;		/* of the first one */
} SfSample;

/*
 * Prepare a sample by the arguments of a function: table, column, sample_rows.  ERROR
 * NULL_VALUE_NOT_ALLOWED, INVALID_PARAMETER_VALUE when sample_rows is less than that; usual:
 * its default, for the hint.  least 0: all rows, for a strict function without sample_rows.
 * The table is the caller's to open.
 */
extern void sfi_sample_begin(SfSample *sample, FunctionCallInfo fcinfo, int least, int usual);

/*
 * Open the table of a sample, locked until the transaction ends, as SELECT does, or (owns: for its
 * owner) as ANALYZE does: writers go on, a second call waits.  Returns the number of the column.
 * A role without privileges gets no lock.  ERROR UNDEFINED_TABLE, WRONG_OBJECT_TYPE (it is
 * neither a table nor a partitioned one), UNDEFINED_COLUMN, DATATYPE_MISMATCH,
 * INSUFFICIENT_PRIVILEGE, FEATURE_NOT_SUPPORTED.
 */
extern AttrNumber sfi_sample_open(SfSample *sample, Oid table_oid, bool owns);

/*
 * Take the sample: for each value, read(arg) reads it, or a part of it, and then count(arg)
 * is called, unless the data cannot be read.  Both run in value_context.  Other errors of
 * read() are thrown on.
 *
 * The query runs in an SPI connection of its own, with the caller's rights and row security,
 * and sees what a SELECT would see.  ERROR WRONG_OBJECT_TYPE when a child is a foreign table:
 * all of its values would be fetched, and no option of the column holds for them.  Ends with
 * a WARNING of the damaged values, unless there are none.
 */
extern void sfi_sample_take(SfSample *sample, SfBaseStep read, SfBaseStep count, void *arg);

#endif							/* SF_SQL_SAMPLE_H */
