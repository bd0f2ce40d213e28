/*-------------------------------------------------------------------------
 *
 * data_keys.c
 *	  The data keys of a column: securefile_keys() lists them, and how many values use each;
 *	  securefile_rewrap() and securefile_new_key() give them other master keys, and the column a
 *	  new one; securefile_shred() destroys them, and with them the values.
 *
 * All of the list can be told without a key.  What is counted are the values that the statement
 * sees, so nobody has to wait.  Values that are stored without encryption are counted, too:
 * readers cannot know whether one was put in the place of an encrypted one.
 *
 * What rewrap and new_key do holds at once, and is not taken back by a ROLLBACK: a key that has
 * encrypted a value of another session cannot be.  When they return it is durable, since
 * the caller may destroy a master key next.  Only the segment relation is locked for writing:
 * commands that truncate, rewrite or move the column wait, and readers and writers go on.
 *
 * Shredding is like TRUNCATE, in that it is for all snapshots once it has committed: the table is
 * locked against everybody.  The rows stay, and every read of their values fails.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "check/check.h"
#include "commands/tablecmds.h"
#include "funcapi.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "read/read.h"
#include "rows/rows.h"
#include "space/history.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(securefile_keys);
PG_FUNCTION_INFO_V1(securefile_rewrap);
PG_FUNCTION_INFO_V1(securefile_rewrap_all);
PG_FUNCTION_INFO_V1(securefile_new_key);
PG_FUNCTION_INFO_V1(securefile_shred);

#define LIST_COLUMNS	9

/* Values by the number of their key; 0: without one. */
typedef struct KeyCounts
{
	int64		values[SF_DATA_KEYS_MAX + 1];
} KeyCounts;

/* ---- values by their keys ---- */

/* The key that a value is stored with; 0: none.  False if it has no byte. */
static bool
key_of_value(Datum value, uint16 *key_id)
{
	struct varlena *datum = sf_base_detoast_short(value, SF_IN_ROW_MAX + SF_SEALED_OVERHEAD);

	/* what is longer is INLINE */
	*key_id = datum == NULL ? 0 : sf_read_key_id(datum);
	return datum == NULL || sf_read_length(datum) > 0;
}

static void
count_key(KeyCounts *counts, const SfCheckColumn *column, uint16 key_id)
{
	if (key_id > SF_DATA_KEYS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a value of column \"%s\" of table \"%s\" names the impossible data key %u",
						column->name, column->table, key_id),
				 errhint("Run securefile_check() on the column.")));
	counts->values[key_id]++;
}

static void
count_key_of(KeyCounts *counts, const SfCheckColumn *column, Datum value)
{
	uint16		key_id;

	if (key_of_value(value, &key_id))
		count_key(counts, column, key_id);
}

/* Removed values that are counted. */
typedef struct KeptCounts
{
	KeyCounts  *counts;
	const SfCheckColumn *column;
} KeptCounts;

/* An SfRemovedVisit. */
static bool
count_key_of_removed(const SfRemovedChunk *chunk, const SfRemovedRecord *record, void *arg)
{
	const KeptCounts *kept = arg;
	SfLocator	loc;
	struct varlena *datum = sf_space_removed_value(record, &loc);

	if (datum == NULL)
		return true;
	count_key(kept->counts, kept->column, loc.key_id);
	pfree(datum);
	return true;
}

/* Add the removed values that the column keeps: a read of one of them needs its key. */
static void
count_kept_keys(const SfCheckColumn *column, SfSegment *seg, KeyCounts *counts)
{
	KeptCounts	kept = {counts, column};
	int64		retention_us = sf_space_column(seg)->options.retention_us;

	if (retention_us > 0)
		sf_space_visit_removed(seg, retention_us, count_key_of_removed, &kept);
}

/*
 * Add the values of a column in all rows that a snapshot sees; those without a byte are not
 * counted.  The table is locked.  DATA_CORRUPTED for one that names an impossible key.
 */
static void
count_keys(const SfCheckColumn *column, Snapshot snapshot, KeyCounts *counts)
{
	Relation	rel = table_open(column->table_oid, NoLock);
	SfRows		rows = sf_rows_begin(rel, column->attnum, snapshot);

	while (sf_rows_next(&rows))
		count_key_of(counts, column, rows.value);
	sf_rows_end(&rows);
	table_close(rel, NoLock);
}

/* ---- securefile_keys(table, column, scan) ---- */

static const char *
state_word(const SfKeyShown *key)
{
	if (key->is_shredded && key->state != SF_KEY_DESTROYED)
		return "shredded";
	switch (key->state)
	{
		case SF_KEY_USABLE:
			return "usable";
		case SF_KEY_OLD:
			return "old";
		case SF_KEY_DISTRUSTED:
			return "distrusted";
		case SF_KEY_DESTROYED:
			return "destroyed";
	}
	pg_unreachable();
}

/* The row of a key; counts NULL: values were not counted. */
static void
put_key(FunctionCallInfo fcinfo, const SfKeyShown *key, const KeyCounts *counts)
{
	Datum		values[LIST_COLUMNS];
	bool		nulls[LIST_COLUMNS] = {false};

	SF_ASSERT(key->key_id > 0 && key->key_id <= SF_DATA_KEYS_MAX);
	SF_ASSERT(strnlen(key->master, SF_MASTER_NAME_SIZE) < SF_MASTER_NAME_SIZE);
	values[0] = Int32GetDatum(key->key_id);
	values[1] = CStringGetTextDatum(key->purpose == SF_KEY_DATA ? "data" : "hash");
	values[2] = CStringGetTextDatum(state_word(key));
	values[3] = BoolGetDatum(key->is_current);
	values[4] = CStringGetTextDatum(key->cipher == SF_CIPHER_AES256 ? "aes" : "chacha20");
	values[5] = CStringGetTextDatum(key->master);
	nulls[5] = key->is_shredded;
	values[6] = BoolGetDatum(key->is_loaded);
	nulls[6] = key->is_shredded;
	values[7] = TimestampTzGetDatum(key->created);
	nulls[8] = counts == NULL;
	values[8] = Int64GetDatum(counts != NULL ? counts->values[key->key_id] : 0);
	sf_base_put_row(fcinfo, values, nulls);
}

/* The row of the values that are not encrypted. */
static void
put_plain(FunctionCallInfo fcinfo, const KeyCounts *counts)
{
	Datum		values[LIST_COLUMNS] = {0};
	bool		nulls[LIST_COLUMNS] = {true, false, true, true, true, true, true, true, false};

	values[1] = CStringGetTextDatum("plain");
	values[8] = Int64GetDatum(counts->values[0]);
	sf_base_put_row(fcinfo, values, nulls);
}

/* Values whose keys the segment does not have cannot be read: that is damage. */
static void
require_known(const SfCheckColumn *column, const KeyCounts *counts, int nkeys)
{
	for (int key_id = nkeys + 1; key_id <= SF_DATA_KEYS_MAX; key_id++)
		if (counts->values[key_id] > 0)
			sf_base_report_damage(psprintf("column \"%s\" of table \"%s\" has no data key %d",
										   column->name, column->table, key_id),
								  psprintf("Values name it: " INT64_FORMAT ".",
										   counts->values[key_id]));
}

/*
 * securefile_keys(table regclass, column name, scan boolean)
 * returns setof (key_id integer, purpose text, state text, is_current boolean, cipher text,
 *				  master_key text, is_loaded boolean, created timestamptz,
 *				  stored_values bigint)
 */
Datum
securefile_keys(PG_FUNCTION_ARGS)
{
	bool		scan = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	const SfCheckColumn *column;
	SfSegment  *seg;
	SfKeyShown *keys;
	KeyCounts	counts = {0};
	List	   *locked;
	int			n;

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	sf_check_refuse_partitioned(fcinfo, "keys");
	InitMaterializedSRF(fcinfo, 0);
	column = linitial(sf_check_columns(fcinfo, AccessShareLock, false, &locked));
	sf_space_release(sf_check_open_segment(column, AccessShareLock));	/* it has one */
	if (scan)
		count_keys(column, GetActiveSnapshot(), &counts);

	/* after the rows: whatever key they have is there now */
	seg = sf_check_open_segment(column, AccessShareLock);
	if (scan)
		count_kept_keys(column, seg, &counts);
	n = sf_keys_show(seg, &keys);
	SF_ASSERT(n <= SF_DATA_KEYS_MAX);
	sf_space_release(seg);
	if (scan)
		require_known(column, &counts, n);
	for (int i = 0; i < n; i++)
		put_key(fcinfo, &keys[i], scan ? &counts : NULL);
	if (scan)
		put_plain(fcinfo, &counts);
	sf_check_release(locked, AccessShareLock);
	return (Datum) 0;
}

/* ---- what all functions ask that change keys ---- */

static void
require_key_changes(const char *function)
{
	sf_base_require_preload();
	PreventCommandDuringRecovery(function);
	sf_base_require_writes(function);
}

static void
refuse_unfinished(const char *function)
{
	if (!sf_io_database_is_own(MyDatabaseId, ERROR) &&
		sf_io_database_has_files(MyDatabaseId, ERROR))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s would pass over columns that have no segment yet", function),
				 errdetail("The upgrade of this database by pg_upgrade is not finished."),
				 errhint("Run securefile_upgrade_finish() in this database.")));
}

/*
 * The columns whose keys a function is to change, as of sf_check_columns(), and their tables
 * locked until the transaction ends.  ERROR where nothing can be written: without preload,
 * on a standby, in a parallel worker; and in a transaction that has dropped storage: a
 * ROLLBACK would bring back keys that are not those which the caller believes to have
 * changed.
 */
static List *
columns_to_change(FunctionCallInfo fcinfo, LOCKMODE lockmode, const char *function)
{
	require_key_changes(function);
	sf_check_require_arguments(fcinfo, false);
	sf_check_refuse_dropped(function, "keys as they were");
	return sf_check_columns(fcinfo, lockmode, false, NULL);
}

/* All that was done is durable, although the transaction may have no commit record. */
static void
flush_changes(void)
{
	SF_ASSERT(!sf_space_has_dropped());
	XLogFlush(XactLastRecEnd);
	SF_ASSERT(!XLogNeedsFlush(XactLastRecEnd));
}

/* ---- securefile_rewrap(table, column, master_key) ---- */

/*
 * securefile_rewrap(table regclass, column name, master_key text) returns integer
 */
Datum
securefile_rewrap(PG_FUNCTION_ARGS)
{
	char	   *master = PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2));
	List	   *columns;
	ListCell   *cell;
	int			done = 0;

	columns = columns_to_change(fcinfo, AccessShareLock, "securefile_rewrap()");
	if (master != NULL)
		sf_base_require_superuser("choose the master key");
	foreach(cell, columns)
		done += sf_keys_rewrap(sf_check_open_segment(lfirst(cell), RowExclusiveLock), master);
	flush_changes();
	PG_RETURN_INT32(done);
}

/* ---- securefile_rewrap() ---- */

/* One segment, for a step that damage may end. */
typedef struct Rewrap
{
	Oid			relid;
	int			done;
} Rewrap;

/*
 * An SfBaseStep.  The lock is given back, since a database may have more segments than a
 * transaction can lock.
 */
static void
rewrap_step(void *arg)
{
	Rewrap	   *rewrap = arg;
	Relation	segrel = try_relation_open(rewrap->relid, RowExclusiveLock);

	if (segrel == NULL)
		return;
	SF_ASSERT(segrel->rd_rel->relkind == RELKIND_TOASTVALUE && rewrap->done == 0);
	rewrap->done += sf_keys_rewrap(sf_space_open_rel(segrel), NULL);
	relation_close(segrel, RowExclusiveLock);
}

/* Rewrap the keys of a segment; what is wrong with it becomes a WARNING. */
static int
rewrap_segment(Oid relid)
{
	Rewrap		rewrap = {.relid = relid};
	ErrorData  *error = sf_base_guarded(rewrap_step, &rewrap);

	CHECK_FOR_INTERRUPTS();
	if (error == NULL)
		return rewrap.done;
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("keys of segment \"%s\" are not wrapped anew", get_rel_name(relid)),
			 errdetail("%s.", error->message),
			 errhint("Run securefile_check() on the column.")));
	FreeErrorData(error);
	return 0;
}

/* securefile_rewrap() returns integer */
Datum
securefile_rewrap_all(PG_FUNCTION_ARGS)
{
	List	   *makers;
	List	   *segments;
	ListCell   *cell;
	int			done = 0;

	require_key_changes("securefile_rewrap()");
	sf_base_require_superuser("wrap the keys of all columns anew");
	sf_check_refuse_dropped("securefile_rewrap()", "keys as they were");
	refuse_unfinished("securefile_rewrap()");
	if (sf_keys_master_name() == NULL)
		sf_keys_refuse_no_master();
	segments = sf_space_list_segments(CurrentMemoryContext, &makers);
	foreach(cell, makers)
		XactLockTableWait((TransactionId) lfirst_int(cell), NULL, NULL, XLTW_None);
	foreach(cell, segments)
		done += rewrap_segment(lfirst_oid(cell));
	flush_changes();
	PG_RETURN_INT32(done);
}

/* ---- securefile_new_key(table, column, distrust) ---- */

static void
require_encrypts(const SfCheckColumn *column, SfSegment *seg)
{
	SF_ASSERT(seg->table_oid == column->table_oid && seg->attnum == column->attnum);
	if (!sf_config_encrypts(sf_space_column(seg)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of table \"%s\" is not encrypted",
						column->name, column->table),
				 errdetail("New values of it need no key."),
				 errhint("Give the column the option encrypt with ALTER TABLE .. ALTER COLUMN .. TYPE first.")));
}

/*
 * securefile_new_key(table regclass, column name, distrust boolean) returns integer
 */
Datum
securefile_new_key(PG_FUNCTION_ARGS)
{
	bool		distrust = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	List	   *columns;
	ListCell   *cell;
	uint16		newest = 0;

	columns = columns_to_change(fcinfo, AccessShareLock, "securefile_new_key()");

	/* what one partition cannot do is not done to the others either */
	foreach(cell, columns)
	{
		SfSegment  *seg = sf_check_open_segment(lfirst(cell), RowExclusiveLock);

		require_encrypts(lfirst(cell), seg);
		sf_keys_can_make_new(seg, distrust);
	}
	foreach(cell, columns)
	{
		SfSegment  *seg = sf_check_open_segment(lfirst(cell), RowExclusiveLock);
		uint16		key_id = sf_keys_make_new(seg, distrust);

		SF_ASSERT(key_id > 0 && key_id <= SF_DATA_KEYS_MAX);
		newest = Max(newest, key_id);
	}
	flush_changes();
	PG_RETURN_INT32(newest);
}

/* ---- securefile_shred(table, column, force) ---- */

/* Values in the rows of a column that a shredding would make unreadable. */
static int64
count_readable(const SfCheckColumn *column, SfSegment *seg)
{
	/* not that of the statement, which was taken before the table was locked */
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	KeyCounts	counts = {0};
	SfKeyShown *keys;
	int			n = sf_keys_show(seg, &keys);
	int64		readable = 0;

	count_keys(column, snapshot, &counts);
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
	int64		readable = count_readable(column, seg);

	if (readable > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of table \"%s\" has encrypted values",
						column->name, column->table),
				 errdetail("Values that could never be read again: " INT64_FORMAT ".", readable),
				 errhint("TRUNCATE the table, or set the column to NULL, first.  With force => true they are destroyed.")));
	if (sf_space_keeps_dropped())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("logical replication slots may still have to send values of column \"%s\" of table \"%s\"",
						column->name, column->table),
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
	SfSegment  *seg;

	require_not_in_use(column);

	/*
	 * a session with a value in a variable reads it without a lock on the
	 * table
	 */
	LockRelationOid(sf_check_segment_relid(column), AccessExclusiveLock);
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

	columns = columns_to_change(fcinfo, AccessExclusiveLock, "securefile_shred()");
	foreach(cell, columns)
	{
		int			n = shred_column(lfirst(cell), force);

		SF_ASSERT(n >= 0 && n <= SF_DATA_KEYS_MAX);
		done += n;
	}
	PG_RETURN_INT32(done);
}
