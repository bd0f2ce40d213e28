/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  Rows of a table taken at random, for functions that tell from a few values
 *	  what a column is like.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_SAMPLE_H
#define SF_SQL_SAMPLE_H

#include "base/base.h"

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/*
 * The number of a securefile column.  ERROR UNDEFINED_TABLE, WRONG_OBJECT_TYPE (it is
 * neither a table nor a partitioned one), UNDEFINED_COLUMN, DATATYPE_MISMATCH.
 */
extern AttrNumber sfi_sample_column(Oid table_oid, const char *column);

/*
 * The OIDs of the tables whose rows a query of a table takes: its own, and (not only) those
 * of its children, which are locked.  ERROR WRONG_OBJECT_TYPE when one of them is a foreign
 * table: all of its values would be fetched, and no option of the column holds for them.
 */
extern List *sfi_sample_tables(Oid table_oid, bool only);

/* A sample in the making. */
typedef struct SfSample
{
	Relation	rel;			/* locked, with its children as SELECT needs
								 * it */
	const char *column;
	int			rows;			/* that are wanted */
	bool		only;			/* without those of children */
	MemoryContext context;		/* lasts for the whole call */
	MemoryContext value_context;	/* take() runs in it; reset after each
									 * value */

	/*
	 * Called with each value, which is not null.  begin: a pass begins; what
	 * was taken before counts no more.
	 */
	void		(*begin) (void *arg);
	void		(*take) (Datum value, void *arg);
	void	   *arg;

	/* of the pass so far */
	int64		taken;			/* values */
	int64		damaged;		/* of these, those that cannot be read */
	char	   *problem;		/* of the first one */
} SfSample;

/*
 * Prepare a sample by the arguments of a function: table, column, sample_rows.  ERROR
 * NULL_VALUE_NOT_ALLOWED, INVALID_PARAMETER_VALUE when sample_rows is less than that; usual:
 * its default, for the hint.  The table is the caller's to open.
 */
extern void sfi_sample_begin(SfSample *sample, FunctionCallInfo fcinfo, int least, int usual);

/*
 * Open the table of a sample, locked until the transaction ends, as SELECT does; returns the
 * number of the column.  A role without privileges gets no lock.  ERROR of
 * sfi_sample_column(), INSUFFICIENT_PRIVILEGE, FEATURE_NOT_SUPPORTED.
 */
extern AttrNumber sfi_sample_open(SfSample *sample, Oid table_oid);

/*
 * Take a sample, in an SPI connection of the caller.  It is a second pass over all rows if
 * the first one hits too few, because the catalog's number of rows is old or many values
 * are null.  The query runs with the caller's rights and row security, and sees what the
 * statement of the caller sees.  ERROR WRONG_OBJECT_TYPE when a child is a foreign table.
 */
extern void sfi_sample_take(SfSample *sample);

/*
 * Read a value, or a part of it, by step(sample->arg), which may throw.  False when the
 * data cannot be read, which is counted.  Other errors are thrown on.
 */
extern bool sfi_sample_read(SfSample *sample, SfBaseStep step);

/* WARNING that so many damaged values are not in the result, unless there are none. */
extern void sfi_sample_warn(const SfSample *sample);

#endif							/* SF_SQL_SAMPLE_H */
