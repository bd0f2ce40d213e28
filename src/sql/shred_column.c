/*-------------------------------------------------------------------------
 *
 * shred_column.c
 *	  securefile_shred(): destroy the data keys of a column, and with them its values.
 *
 * It is like TRUNCATE, in that it is for all snapshots once it has committed: the table is
 * locked against everybody.  The rows stay, and every read of their values fails.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "commands/tablecmds.h"
#include "sql/data_keys.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(securefile_shred);

/* Values in the rows of a column that a shredding would make unreadable. */
static int64
count_readable(const SfCheckColumn *column, SfSegment *seg)
{
	/* not that of the statement, which was taken before the table was locked */
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SfKeyCounts counts = {0};
	SfKeyShown *keys;
	int			n = sf_keys_show(seg, &keys);
	int64		readable = 0;

	sfi_sql_count_keys(column, snapshot, &counts);
	UnregisterSnapshot(snapshot);
	SF_ASSERT(n <= SF_DATA_KEYS_MAX);
	for (int i = 0; i < n; i++)
		if (!keys[i].is_shredded)
			readable += counts.values[keys[i].key_id];
	return readable;
}

/* ERROR where somebody may still have to read values of a column. */
static void
require_unused(const SfCheckColumn *column, SfSegment *seg)
{
	const char *name = get_attname(column->table_oid, column->attnum, false);
	const char *table = get_rel_name(column->table_oid);
	int64		readable = count_readable(column, seg);

	if (readable > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of table \"%s\" has encrypted values", name, table),
				 errdetail("Values that could never be read again: " INT64_FORMAT ".", readable),
				 errhint("TRUNCATE the table, or set the column to NULL, first.  With force => true they are destroyed.")));
	if (sf_space_keeps_dropped())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("logical replication slots may still have to send values of column \"%s\" of table \"%s\"",
						name, table),
				 errdetail("Their decoding fails at values that were destroyed."),
				 errhint("Drop the logical slots of this database first.  With force => true they are not asked for.")));
}

static void
require_not_in_use(const SfCheckColumn *column)
{
	Relation	rel = table_open(column->table_oid, NoLock);

	CheckTableNotInUse(rel, "shred");
	table_close(rel, NoLock);
}

/* Shred one column, whose table is locked. */
static int
shred_column(const SfCheckColumn *column, bool force)
{
	Oid			segrelid = sf_space_segment_relid(column->table_oid, column->attnum);
	SfSegment  *seg;

	require_not_in_use(column);

	/*
	 * a session with a value in a variable reads it without a lock on the
	 * table
	 */
	if (OidIsValid(segrelid))
		LockRelationOid(segrelid, AccessExclusiveLock);
	seg = sf_check_open_segment(column, RowExclusiveLock);
	if (!force)
		require_unused(column, seg);
	return sf_keys_shred(seg);
}

/*
 * securefile_shred(table regclass, column name, force boolean) returns integer
 */
Datum
securefile_shred(PG_FUNCTION_ARGS)
{
	bool		force = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	List	   *columns;
	ListCell   *cell;
	int			done = 0;

	columns = sfi_sql_columns_to_change(fcinfo, AccessExclusiveLock, "securefile_shred()");
	foreach(cell, columns)
	{
		int			n = shred_column(lfirst(cell), force);

		SF_ASSERT(n >= 0 && n <= SF_DATA_KEYS_MAX);
		done += n;
	}
	PG_RETURN_INT32(done);
}
