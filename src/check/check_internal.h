/*-------------------------------------------------------------------------
 *
 * check_internal.h
 *	  What the files of the check room share.
 *
 * column.c		whose column, which leaves, may the caller
 * check.c		securefile_check(): one column after the other
 * rows.c		the live rows: values verified, what they own collected
 * runs.c		sorted arrays of runs and pages
 * pages.c		the pages of the segment relation, against what rows own
 * report.c		findings, and errors turned into findings
 * usage.c		securefile_usage() and what is behind securefile_columns
 * maintain.c	securefile_maintain()
 *
 * The room has no header for others: it is called from SQL only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CHECK_INTERNAL_H
#define SF_CHECK_INTERNAL_H

#include "base/base.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "space/space.h"
#include "storage/itemptr.h"

/* ---- column.c ---- */

/* A column of one table that has rows: an ordinary table or a partition. */
typedef struct SfCheckColumn
{
	Oid			table_oid;
	AttrNumber	attnum;
	bool		permanent;		/* else it has no segment */
	char	   *partition;		/* its name when a parent was asked for */
} SfCheckColumn;

/*
 * Arguments 0, table, and 1, column: ERROR when one is null, or when the caller
 * does not own the table (or, with monitors, may not look).
 */
extern void sf_check_arguments(FunctionCallInfo fcinfo, bool monitors);

/* ERROR unless the caller owns the table (or, with monitors, may look). */
extern void sf_check_privilege(Oid table_oid, bool monitors);

/*
 * The columns a call is about, locked: the one named, or those of all leaves
 * of a partitioned table (palloc'd SfCheckColumn).  ERROR when there is no
 * such column, when it is not a securefile, or when it can have no segment; and
 * when sf_check_privilege() says so of a partition.
 */
extern List *sf_check_columns(FunctionCallInfo fcinfo, LOCKMODE lockmode, bool monitors);

/* Open a column's segment for reading; ERROR when there is none. */
extern SfSegment *sf_check_open_segment(const SfCheckColumn *column);

/* ERROR that says why a column has no segment. */
SF_NORETURN extern void sf_check_no_segment(const SfCheckColumn *column);

/* ---- runs.c ---- */

/* A run, or a page (start, count 1), and the row that owns it, if any. */
typedef struct SfCheckRun
{
	uint64		start;
	uint32		count;
	ItemPointerData tid;
} SfCheckRun;

typedef struct SfCheckRuns
{
	SfCheckRun *runs;
	Size		n;
	Size		size;
	Size		next;			/* of a walk in order */
} SfCheckRuns;

extern void sf_check_runs_init(SfCheckRuns *runs);

/* Add one; split, so that no run crosses a multiple of split_at (0: never). */
extern void sf_check_runs_add(SfCheckRuns *runs, uint64 start, uint64 count,
							  uint32 split_at, ItemPointer tid);

/* Sort by start, and begin a walk. */
extern void sf_check_runs_sort(SfCheckRuns *runs);

/* ---- the check of one column ---- */

typedef struct SfCheck
{
	const SfCheckColumn *column;
	ReturnSetInfo *rsinfo;		/* findings go here */
	bool		moving;			/* a standby: replay goes on meanwhile */

	Relation	rel;
	Relation	segrel;
	SfSegment  *seg;
	SfHeader	header;

	ItemPointerData tid;		/* row being looked at */
	SfCheckRuns owned;			/* sectors that live rows own */
	SfCheckRuns owned_pages;	/* inode pages that they own */
} SfCheck;

/* ---- rows.c ---- */

/* Verify the values of all live rows; collect what they own. */
extern void sf_check_rows(SfCheck *check);

/* Report what two values claim, or what lies outside of the data files. */
extern void sf_check_overlaps(SfCheck *check);

/* ---- pages.c ---- */

/* Compare the pages of the segment relation with what rows own. */
extern void sf_check_pages(SfCheck *check);

/* ---- report.c ---- */

/* Report sectors; tid NULL: no row; nsectors 0: no place in the data files. */
extern void sf_check_report(SfCheck *check, const char *finding, ItemPointer tid,
							uint64 sector, uint64 nsectors, const char *detail,...)
			pg_attribute_printf(6, 7);

/* Same, for bytes; -1 is NULL. */
extern void sf_check_report_bytes(SfCheck *check, const char *finding, ItemPointer tid,
								  int64 segment_offset, int64 len_bytes,
								  const char *detail);

/*
 * Run a step inside a subtransaction; when it fails for what it found on disk
 * that becomes a finding (of the current row, when there is one), and false is
 * returned.
 */
typedef void (*SfCheckStep) (SfCheck *check, void *arg);
extern bool sf_check_guarded(SfCheck *check, SfCheckStep step, void *arg);

#endif							/* SF_CHECK_INTERNAL_H */
