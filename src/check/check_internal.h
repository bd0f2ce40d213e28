/*-------------------------------------------------------------------------
 *
 * check_internal.h
 *	  What the files of the check room share.
 *
 * column.c		whose column, which leaves, may the caller
 * check.c		securefile_check(): one column after the other
 * rows.c		the live rows: values verified, what they own collected
 * runs.c		sorted arrays of runs and pages; runs of bits
 * walk.c		the walk over the segment relation, and its reading of pages
 * pages.c		the pages of the segment relation, against what rows own
 * maps.c		the same for the space map
 * header.c		the header page, which may be an old one
 * report.c		findings, and errors turned into findings
 * usage.c		securefile_usage() and what is behind securefile_columns
 * maintain.c	securefile_maintain()
 * repair.c		securefile_repair(): check, and mend what rows can tell
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
extern void sfi_check_arguments(FunctionCallInfo fcinfo, bool monitors);

/* ERROR unless the caller owns the table (or, with monitors, may look). */
extern void sfi_check_privilege(Oid table_oid, bool monitors);

/*
 * The columns a call is about, locked: the one named, or those of all leaves
 * of a partitioned table (palloc'd SfCheckColumn).  ERROR when there is no
 * such column, when it is not a securefile, or when it can have no segment; and
 * when sfi_check_privilege() says so of a partition.
 */
extern List *sfi_check_columns(FunctionCallInfo fcinfo, LOCKMODE lockmode, bool monitors);

/* Open a column's segment for reading; ERROR when there is none. */
extern SfSegment *sfi_check_open_segment(const SfCheckColumn *column);

/* ERROR that says why a column has no segment. */
SF_NORETURN extern void sfi_check_no_segment(const SfCheckColumn *column);

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

extern void sfi_check_runs_init(SfCheckRuns *runs);

/* Add one; split, so that no run crosses a multiple of split_at (0: never). */
extern void sfi_check_runs_add(SfCheckRuns *runs, uint64 start, uint64 count,
							   uint32 split_at, ItemPointer tid);

/* Sort by start, and begin a walk. */
extern void sfi_check_runs_sort(SfCheckRuns *runs);

/*
 * Next run of bits of a value, from *at on and below end: moves *at to it.  False
 * when there is none.
 */
extern bool sfi_check_next_run(const uint8 *plane, bool bit, uint32 end, uint32 *at, uint32 *n);

/* ---- the check of one column ---- */

/* What a repair does about a finding. */
#define SF_REPAIR_NONE		"none"
#define SF_REPAIR_MARK		"mark used"
#define SF_REPAIR_FREE		"set free"
#define SF_REPAIR_KEEP		"keep"
#define SF_REPAIR_LISTS		"rebuild lists of pages"
#define SF_REPAIR_PAGE		"rebuild page"
#define SF_REPAIR_CORRECT	"correct"

typedef struct SfCheck
{
	const SfCheckColumn *column;
	ReturnSetInfo *rsinfo;		/* findings go here */
	uint64		nfindings;
	bool		moving;			/* a standby: replay goes on meanwhile */
	LOCKMODE	lockmode;		/* of the segment relation */

	Relation	rel;
	Relation	segrel;
	SfSegment  *seg;
	SfHeader	header;

	ItemPointerData tid;		/* row being looked at */
	SfCheckRuns owned;			/* sectors that live rows own */
	SfCheckRuns owned_pages;	/* inode pages that they own */
	uint64		max_object_id;	/* of live rows */
	bool		hidden;			/* not all that live rows own is known */
	uint64		total_sectors;	/* more than the header has, when that is an
								 * old one */
} SfCheck;

/* What is known of a page of the segment relation. */
#define SF_KNOWN_QUEUED		0x01	/* in the queue of pending pages */
#define SF_KNOWN_FREE		0x02	/* in the list of free pages */
#define SF_KNOWN_OWNED		0x04	/* inode page of a live row */
#define SF_KNOWN_NAMED		0x08	/* by a pending entry */
#define SF_KNOWN_DOOMED		0x10	/* by one that will set it free */
#define SF_KNOWN_TAKEN		0x20	/* by a committed transaction, which took
									 * it */

/* The walk over the pages of a segment relation, and what it has seen. */
typedef struct SfPageWalk
{
	SfCheck    *check;
	bool		all_sound;		/* all values are: what nobody owns nobody
								 * misses */
	uint32		npages;			/* of the relation */
	uint32		nblocks;		/* that it should have */
	uint8	   *known;			/* of every page */
	SfCheckRuns named;			/* sectors that pending entries answer for */
	SfCheckRuns doomed;			/* of these, those that will be set free */
	bool		lists_damaged;	/* pending and free pages need new lists */
	SfCheckRuns damaged_maps;	/* numbers of map pages */
	SfCheckRuns distrusted_maps;	/* which may have hidden places for free */
	bool		header_behind;	/* it would give out again what is in use */
	bool		running;		/* a transaction with entries has not ended */
	uint32		end_page;		/* behind the last one that is in use */
	uint64		max_stamp;		/* of inode pages */
	uint64		lost_start;		/* sectors that nobody owns, */
	uint64		lost_count;		/* not yet reported */
} SfPageWalk;

/* A page of a segment relation, copied. */
typedef struct SfCheckPage
{
	uint32		page;
	SfPageType	type;			/* 0: none of ours, or not to be read */
	bool		is_new;			/* there is nothing on it, or no such page */
	union
	{
		char		content[SF_PAGE_CONTENT];
		SfInode		inode;
		SfPending	pending;
		SfFreePage	free;
		SfMap		map;
		uint64		force_align;
	}			u;
} SfCheckPage;

/* ---- check.c ---- */

/*
 * Check the columns that a call is about, and report findings as its result;
 * lockmode is for tables and segment relations.  then, unless NULL, is called for
 * each column that has a segment to go by, and findings.
 */
typedef void (*SfCheckThen) (SfPageWalk *walk);
extern void sfi_check_columns_of_call(FunctionCallInfo fcinfo, LOCKMODE lockmode, SfCheckThen then);

/* ---- rows.c ---- */

/* Verify the values of all live rows; collect what they own. */
extern void sfi_check_rows(SfCheck *check);

/* Report what two values claim, or what lies outside of the data files. */
extern void sfi_check_overlaps(SfCheck *check);

/* ---- walk.c ---- */

/* The walk before it has seen anything. */
extern void sfi_check_begin_walk(SfCheck *check, SfPageWalk *walk);

/* Read a page; false, and a finding (unless action is NULL), when it cannot be read. */
extern bool sfi_check_read_any(SfPageWalk *walk, const char *action, uint32 page,
							   SfCheckPage *read);

/* Same for a page that must be of a type. */
extern bool sfi_check_read(SfPageWalk *walk, const char *action, uint32 page, SfPageType type,
						   SfCheckPage *read);

/* What a repair does with space that nobody owns. */
extern const char *sfi_check_unowned(const SfPageWalk *walk);

/* ---- pages.c ---- */

/* Compare the pages of the segment relation with what rows own. */
extern void sfi_check_pages(SfPageWalk *walk);

/* ---- maps.c ---- */

/* Compare the space map with what rows own and pending entries name. */
extern void sfi_check_map(SfPageWalk *walk);

/* What is known of the sectors of a map page, a bit a sector. */
typedef struct SfCheckPlanes
{
	uint8		owned[SF_MAP_SECTORS / 8];
	uint8		named[SF_MAP_SECTORS / 8];
	uint8		doomed[SF_MAP_SECTORS / 8];
	Size		owned_from;		/* which of the owned runs lie there */
	Size		owned_end;
} SfCheckPlanes;

/*
 * The planes of the map page whose first sector is given.  Pages come in
 * ascending order; rewind goes back to the first.
 */
extern void sfi_check_rewind_planes(SfPageWalk *walk);
extern void sfi_check_fill_planes(SfPageWalk *walk, uint64 first, SfCheckPlanes *planes);

/* ---- header.c ---- */

/* Find out where the segment ends: check->total_sectors. */
extern void sfi_check_find_end(SfPageWalk *walk);

/* Report what an old header page would give out again. */
extern void sfi_check_header(SfPageWalk *walk);

/* ---- report.c ---- */

/*
 * Report sectors; tid NULL: no row; nsectors 0: no place in the data files.  A
 * repair says what it does about it: the action.
 */
extern void sfi_check_report(SfCheck *check, const char *action, const char *finding,
							 ItemPointer tid, uint64 sector, uint64 nsectors,
							 const char *detail, ...)
			pg_attribute_printf(7, 8);

/* Same, for bytes; -1 is NULL. */
extern void sfi_check_report_bytes(SfCheck *check, const char *action, const char *finding,
								   ItemPointer tid, int64 segment_offset, int64 len_bytes,
								   const char *detail);

/*
 * Report an error as a finding, of the current row, when there is one; not if
 * action is NULL.
 */
extern void sfi_check_report_error(SfCheck *check, const char *action, const ErrorData *error);

/*
 * Run a step inside a subtransaction; when it fails for what it found on disk
 * that becomes a finding (of the current row, when there is one; none if action
 * is NULL), and false is returned.
 */
typedef void (*SfCheckStep) (SfCheck *check, void *arg);
extern bool sfi_check_guarded(SfCheck *check, const char *action, SfCheckStep step, void *arg);

#endif							/* SF_CHECK_INTERNAL_H */
