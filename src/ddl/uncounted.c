/*-------------------------------------------------------------------------
 *
 * uncounted.c
 *	  Tables that a transaction may have written to while the server counts nothing.
 *
 * With track_counts = off nobody knows how many rows came (unseen.c).  What is left is the lock
 * that every writer takes: a table that this transaction has locked so, and of which no trigger
 * has seen a row, is looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/command.h"
#include "ddl/rows.h"
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
	unsigned int table_oid;
	int			attnum;

	if (name == NULL || sscanf(name, "pg_securefile_%u_%d", &table_oid, &attnum) != 2)
		return false;
	column->relid = table_oid;
	column->attnum = attnum;
	return true;
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
	segments = sf_space_list_segments(CurrentMemoryContext);
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

/* Has this transaction locked the table as a writer does? */
static bool
is_locked_to_write(Oid table_oid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table_oid);
	return sf_compat_lock_held(&tag, RowExclusiveLock) ||
		sf_compat_lock_held(&tag, ShareRowExclusiveLock) ||
		sf_compat_lock_held(&tag, ExclusiveLock) ||
		sf_compat_lock_held(&tag, AccessExclusiveLock);
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
