/*-------------------------------------------------------------------------
 *
 * uncounted.c
 *	  Tables that may have got rows which the server does not count.
 *
 * With track_counts = off nobody knows how many rows came (unseen.c).  What is left is the lock
 * that every writer takes: a table that this transaction has locked so, and of which no trigger
 * has seen a row, is looked at.
 *
 * C code can put pages of rows into a table by the functions that the server itself rewrites
 * tables with (begin_heap_rewrite()).  The server counts none of these rows, and each keeps the
 * number of the transaction that wrote it first.  But such code holds AccessExclusiveLock on the
 * table until its transaction ends.  So a table that is locked like this has some of its rows
 * looked at: those of the first pages, of the last ones, where new pages come to, and of a few
 * between.  If one has a value of another table, all rows are looked at (unseen.c).
 *
 * Most transactions that lock a table so have written no such rows.  What they pay does not
 * grow with the table.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "read/read.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* ---- by their locks ---- */

/* The columns that have segments, as of that state of the catalogs. */
static SfTableSegment *segment_columns = NULL;
static int	ncolumns = 0;
static uint64 as_of = 0;

/* Read the table and the column from the name of a segment; false: it is gone. */
static bool
parse_segment(Oid segrelid, SfTableSegment *column)
{
	char	   *name = get_rel_name(segrelid);

	return name != NULL && sf_space_segment_column(name, &column->relid, &column->attnum);
}

/* List them anew if any relation has changed. */
static void
refresh(void)
{
	uint64		now = sfi_ddl_relation_changes();
	List	   *segments;
	ListCell   *lc;

	if (segment_columns != NULL && as_of == now)
		return;
	segments = sf_space_list_segments(CurrentMemoryContext, NULL);
	if (segment_columns != NULL)
		pfree(segment_columns);
	segment_columns = MemoryContextAlloc(TopMemoryContext,
										 (list_length(segments) + 1) * sizeof(SfTableSegment));
	ncolumns = 0;
	foreach(lc, segments)
		ncolumns += parse_segment(lfirst_oid(lc), &segment_columns[ncolumns]);
	SF_ASSERT(ncolumns <= list_length(segments));
	list_free(segments);
	as_of = now;
}

/* As a writer does? */
static bool
is_locked_to_write(Oid table_oid)
{
	return sf_base_has_locked(table_oid, RowExclusiveLock) ||
		sf_base_has_locked(table_oid, ShareRowExclusiveLock) ||
		sf_base_has_locked(table_oid, ExclusiveLock) ||
		sf_base_has_locked(table_oid, AccessExclusiveLock);
}

List *
sfi_ddl_uncounted(void)
{
	List	   *tables = NIL;

	if (pgstat_track_counts)
		return NIL;
	refresh();
	for (int i = 0; i < ncolumns; i++)
	{
		SfSeen		seen;

		if (!is_locked_to_write(segment_columns[i].relid))
			continue;
		seen = sfi_ddl_seen(segment_columns[i].relid, segment_columns[i].attnum);
		if (seen.came == 0 && seen.went == 0)
			tables = list_append_unique_oid(tables, segment_columns[i].relid);
	}
	return tables;
}

/* Tables (list of Oid) on which this transaction holds AccessExclusiveLock. */
static List *
locked_alone(void)
{
	List	   *tables = NIL;

	/*
	 * where standbys are told of such locks, the server knows whether there
	 * is one
	 */
	if (XLogStandbyInfoActive() && !(MyXactFlags & XACT_FLAGS_ACQUIREDACCESSEXCLUSIVELOCK))
		return NIL;
	refresh();
	for (int i = 0; i < ncolumns; i++)
	{
		if (sf_base_has_locked(segment_columns[i].relid, AccessExclusiveLock))
			tables = list_append_unique_oid(tables, segment_columns[i].relid);
	}
	return tables;
}

/* ---- by some of their rows ---- */

/* Pages that are looked at, at the begin, at the end, and between. */
#define SAMPLE_PAGES	16

/* What is looked at. */
typedef struct Sample
{
	Relation	rel;
	AttrNumber	attnum;
	Snapshot	snapshot;
} Sample;

/*
 * Does a value belong to another table or column?  One that is damaged, or that went with its
 * table before this transaction, does not count: nobody can bring it home.
 */
static bool
is_foreign(const Sample *sample, Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);
	Oid			table_oid = RelationGetRelid(sample->rel);
	SfLocator	loc;

	if (stored == NULL)
		return false;
	if (sf_read_is_homed(stored))
		return !sfi_ddl_is_own(stored, table_oid, sample->attnum);
	if (sf_object_decode(stored, &loc) != NULL)
		return false;
	return (loc.table_oid != table_oid || loc.attnum != sample->attnum) &&
		sfi_ddl_table_was_here(loc.table_oid);
}

/* Has a row of the pages from first on, before end, such a value? */
static bool
has_foreign(const Sample *sample, BlockNumber first, BlockNumber end)
{
	SfRows		rows = sf_rows_begin_range(sample->rel, sample->attnum, sample->snapshot,
										   first, 0, end);
	bool		found = false;

	SF_ASSERT(first < end);
	while (!found && sf_rows_next(&rows))
		found = is_foreign(sample, rows.value);
	sf_rows_end(&rows);
	return found;
}

/* Has a row of the pages that are looked at such a value? */
static bool
sample_has_foreign(const Sample *sample)
{
	BlockNumber npages = RelationGetNumberOfBlocks(sample->rel);

	SF_ASSERT(sample->attnum > 0);
	if (npages == 0)
		return false;
	if (npages <= 3 * SAMPLE_PAGES)
		return has_foreign(sample, 0, npages);
	for (uint64 i = 1; i <= SAMPLE_PAGES; i++)
	{
		BlockNumber page = npages * i / (SAMPLE_PAGES + 1);

		if (has_foreign(sample, page, page + 1))
			return true;
	}
	return has_foreign(sample, 0, SAMPLE_PAGES) ||
		has_foreign(sample, npages - SAMPLE_PAGES, npages);
}

/* The same, for all columns of an open table. */
static bool
was_filled(Relation rel)
{
	Sample		sample = {.rel = rel};
	bool		found = false;
	ListCell   *lc;

	if (rel->rd_rel->relkind != RELKIND_RELATION || rel->rd_tableam->scan_set_tidrange == NULL)
		return false;
	sample.snapshot = RegisterSnapshot(GetLatestSnapshot());
	foreach(lc, sfi_ddl_columns_of(rel))
	{
		sample.attnum = lfirst_int(lc);
		found = found || sample_has_foreign(&sample);
	}
	UnregisterSnapshot(sample.snapshot);
	return found;
}

List *
sfi_ddl_filled(void)
{
	List	   *filled = NIL;
	List	   *locked = locked_alone();
	ListCell   *lc;

	foreach(lc, locked)
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), NoLock);

		if (rel == NULL)
			continue;
		SF_ASSERT(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
		if (was_filled(rel))
			filled = lappend_oid(filled, lfirst_oid(lc));
		relation_close(rel, NoLock);
	}
	list_free(locked);
	return filled;
}
