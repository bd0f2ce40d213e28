/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  The rows of a table: one walk for all rooms that look at them, and the space that
 *	  the values of rows own.
 *
 * row_walk.c	walks over the rows of a table; a step as the owner of a table
 * row_filter.c	walks over some of them: by the place of a value, by its object
 * row_runs.c	sorted arrays of runs, each with the row that owns it
 *
 * Unless a declaration says otherwise, its function may throw, needs a transaction, and is
 * not for critical sections or replay.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ROWS_H
#define SF_ROWS_H

#include "base/base.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "object/object.h"
#include "space/share_records.h"
#include "space/space.h"

/* ---- row_walk.c ---- */

/*
 * A walk over the rows of a table that a snapshot sees:
 *
 *	 SfRows rows = sf_rows_begin(rel, attnum, snapshot);
 *	 while (sf_rows_next(&rows))
 *		 .. rows.slot, rows.value ..
 *	 sf_rows_end(&rows);
 *
 * From begin to end the memory context of one row is current; it is emptied before the next
 * row, and deleted at the end.  A caller that leaves the loop early ends the walk as well.  An
 * ERROR needs no cleaning up.
 */
typedef struct SfRows
{
	TupleTableSlot *slot;		/* the row; tts_tid is its place */
	Datum		value;			/* of the column, never null; not set in a
								 * walk without a column */
	/* private to the room: */
	AttrNumber	attnum;
	bool		is_range;
	TableScanDesc scan;
	MemoryContext context;		/* of a row */
	MemoryContext caller;
	bool		(*matches) (const struct SfRows *rows); /* a filter, or NULL; */
	SfSegment  *seg;			/* its segment */
	uint64		number;			/* and the sector, or the object */
} SfRows;

/*
 * Begin a walk over all rows that have a value in the column; attnum 0: over all rows.  The
 * table is locked, AccessShareLock or more, and the snapshot is registered, or lasts otherwise
 * until the end.
 */
extern SfRows sf_rows_begin(Relation rel, AttrNumber attnum, Snapshot snapshot);

/*
 * The same for the rows behind row (block, offset), offset 0 being before the first row of the
 * block, and before block end: a range that is not empty.  The access method of the table has
 * scans of ranges (scan_set_tidrange).
 */
extern SfRows sf_rows_begin_range(Relation rel, AttrNumber attnum, Snapshot snapshot,
								  BlockNumber block, OffsetNumber offset, BlockNumber end);

/* Go to the next row; false: there are no more.  Looks for interrupts. */
extern bool sf_rows_next(SfRows *rows);

extern void sf_rows_end(SfRows *rows);

/*
 * Run a step as the owner of the table, in a restricted operation: the step may call functions
 * in the expressions of indexes, which are the owner's code.
 */
extern void sf_rows_as_owner(Relation rel, void (*step) (void *arg), void *arg);

/* ---- row_filter.c ---- */

/*
 * What a value of a column has in the segment, shared or not; loc points into the value or a copy
 * of it.  False: it does not lie there.  All is in the current memory context.  DATA_CORRUPTED
 * when that cannot be known.  end_of: behind the last sector of all runs; 0: there is none.
 */
extern bool sf_rows_space_of(SfSegment *seg, Datum value, SfLocator *loc, SfOwned *owned);
extern uint64 sf_rows_end_of(const SfOwned *owned);

/*
 * Pass over all rows but those whose value has, in this segment of the column, a sector that
 * is not below the given one.  A shared object counts for each row that refers to it.
 * The segment is locked, AccessShareLock or more.  From now on sf_rows_next() is an ERROR
 * DATA_CORRUPTED at a value whose sectors cannot be known, since its locator or its map is
 * damaged.
 */
extern void sf_rows_only_from_sector(SfRows *rows, SfSegment *seg, uint64 sector);

/*
 * Pass over all rows but those whose value is this object of the segment, as their locators
 * say.  There are several if the object is shared.  A row whose locator is damaged is passed
 * over.
 */
extern void sf_rows_only_object(SfRows *rows, SfSegment *seg, uint64 object_id);

/* ---- row_runs.c ---- */

/* A run, or a page (start, count 1), and the row that owns it, if any. */
typedef struct SfRowRun
{
	uint64		start;
	uint32		count;
	ItemPointerData tid;
} SfRowRun;

typedef struct SfRowRuns
{
	SfRowRun   *runs;
	int64		n;
	int64		size;
	int64		next;			/* of a walk in order */
	bool		sorted;			/* by start */
} SfRowRuns;

/* Make an empty array, in the current memory context. */
extern void sf_rows_runs_init(SfRowRuns *runs);

/*
 * Add a run (nothing, if count is 0); split, so that no run crosses a multiple
 * of split_at (0: never).  tid is copied; NULL: no row.
 */
extern void sf_rows_runs_add(SfRowRuns *runs, uint64 start, uint64 count,
							 uint32 split_at, const ItemPointerData * tid);

/*
 * Add the runs of sectors of a value, split at the pages of the space map, and its inode pages,
 * without the first given_back of all these.  tid as above.
 */
extern void sf_rows_runs_add_owned(SfRowRuns *sectors, SfRowRuns *pages, const SfOwned *owned,
								   int64 given_back, const ItemPointerData * tid);

/* Sort by start, and begin a walk.  Never throws. */
extern void sf_rows_runs_sort(SfRowRuns *runs);

#endif							/* SF_ROWS_H */
