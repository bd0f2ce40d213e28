/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The column that a call of an SQL function is about, for the functions of this room
 *	  and of sql/ that look at a column as a whole.
 *
 * Each function may throw, needs a transaction, is not for critical sections or replay, and
 * returns memory of the current context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CHECK_H
#define SF_CHECK_H

#include "base/base.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "space/space.h"
#include "storage/lockdefs.h"

/* A column of one table that has rows: an ordinary table or a partition. */
typedef struct SfCheckColumn
{
	Oid			table_oid;
	AttrNumber	attnum;
	const char *name;
	const char *table;
	bool		permanent;		/* else it has no segment */
	bool		is_partition;	/* a parent was asked for */
} SfCheckColumn;

/*
 * Check arguments 0, table, and 1, column, of an SQL function.  ERROR when one is null, when
 * the caller neither owns the table nor, with monitors, is a member of pg_monitor, or when
 * the table is a temporary one of another session.
 */
extern void sf_check_require_arguments(FunctionCallInfo fcinfo, bool monitors);

/*
 * ERROR in a transaction that has dropped or replaced storage of values: a ROLLBACK would bring it
 * back as it was, and the function has not been there.  back: what it would bring back.
 */
extern void sf_check_refuse_dropped(const char *function, const char *back);

/*
 * The columns that a call is about (a palloc'd list of SfCheckColumn), their
 * tables locked: the named one, or those of all leaves of a partitioned table.  ERROR when
 * there is no such column, when it is not a securefile, or when the caller has not got this
 * privilege on a partition.
 *
 * locked NULL: until the transaction ends.  Else it becomes the list of what is locked, and a
 * call that leaves nothing behind gives that to sf_check_release() at its end: a look at all
 * tables of a database in one transaction would need a lock for each.
 */
extern List *sf_check_columns(FunctionCallInfo fcinfo, LOCKMODE lockmode, bool monitors,
							  List **locked);
extern void sf_check_release(List *locked, LOCKMODE lockmode);

/*
 * ERROR WRONG_OBJECT_TYPE for a partitioned table, whose partitions have each its own: of
 * what, in the plural.
 */
extern void sf_check_refuse_partitioned(FunctionCallInfo fcinfo, const char *what);

/*
 * Give free space of a column back to the file system, in transactions of its own, with
 * SPI_commit(), no more than most_bytes in a second (0: no limit but that of holes).  False:
 * somebody waited for the segment relation, and the rest was left (shrink.c).
 */
extern bool sf_check_release_space(const SfCheckColumn *column, uint64 most_bytes);

/* A column's segment relation; its segment, opened and locked like that.  ERROR: there is none. */
extern Oid	sf_check_segment_relid(const SfCheckColumn *column);
extern SfSegment *sf_check_open_segment(const SfCheckColumn *column, LOCKMODE lockmode);

/* ERROR that says why a column has no segment. */
SF_NORETURN extern void sf_check_report_no_segment(const SfCheckColumn *column);

#endif							/* SF_CHECK_H */
