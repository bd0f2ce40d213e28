/*-------------------------------------------------------------------------
 *
 * uncounted.c
 *	  Tables that a transaction may have written to while the server counts nothing: by their locks.
 *
 * With track_counts = off nobody knows how many rows came (unseen.c).  What is left is the lock
 * that every writer takes: a table that this transaction has locked so, and of which no trigger
 * has seen a row, is looked at.
 *
 * Some functions of the server write rows that it never counts (filled.c).  Their callers hold
 * AccessExclusiveLock.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "space/space.h"
#include "storage/lock.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* The columns that have segments, as of that state of the catalogs. */
static SfTableSegment *columns = NULL;
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

	if (columns != NULL && as_of == now)
		return;
	segments = sf_space_list_segments(CurrentMemoryContext, NULL);
	if (columns != NULL)
		pfree(columns);
	columns = MemoryContextAlloc(TopMemoryContext,
								 (list_length(segments) + 1) * sizeof(SfTableSegment));
	ncolumns = 0;
	foreach(lc, segments)
		ncolumns += parse_segment(lfirst_oid(lc), &columns[ncolumns]);
	SF_ASSERT(ncolumns <= list_length(segments));
	list_free(segments);
	as_of = now;
}

bool
sfi_ddl_is_locked(Oid table_oid, LOCKMODE lockmode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table_oid);
	return sf_compat_lock_held(&tag, lockmode);
}

/* As a writer does? */
static bool
is_locked_to_write(Oid table_oid)
{
	return sfi_ddl_is_locked(table_oid, RowExclusiveLock) ||
		sfi_ddl_is_locked(table_oid, ShareRowExclusiveLock) ||
		sfi_ddl_is_locked(table_oid, ExclusiveLock) ||
		sfi_ddl_is_locked(table_oid, AccessExclusiveLock);
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

		if (!is_locked_to_write(columns[i].relid))
			continue;
		seen = sfi_ddl_seen(columns[i].relid, columns[i].attnum);
		if (seen.came == 0 && seen.went == 0)
			tables = list_append_unique_oid(tables, columns[i].relid);
	}
	return tables;
}

List *
sfi_ddl_locked_alone(void)
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
		if (sfi_ddl_is_locked(columns[i].relid, AccessExclusiveLock))
			tables = list_append_unique_oid(tables, columns[i].relid);
	}
	return tables;
}
