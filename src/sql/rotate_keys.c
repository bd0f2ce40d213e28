/*-------------------------------------------------------------------------
 *
 * rotate_keys.c
 *	  securefile_rewrap() and securefile_new_key(): other master keys, new data keys; and what
 *	  all functions that change keys ask first.
 *
 * What these do holds at once, and is not taken back by a ROLLBACK: a key that has
 * encrypted a value of another session cannot be.  When they return it is durable, since
 * the caller may destroy a master key next.
 *
 * Only the segment relation is locked for writing: commands that truncate, rewrite or move
 * the column wait, and readers and writers go on.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "space/upgrade.h"
#include "sql/data_keys.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(securefile_rewrap);
PG_FUNCTION_INFO_V1(securefile_rewrap_all);
PG_FUNCTION_INFO_V1(securefile_new_key);

/* ---- what all of them ask ---- */

static void
require_key_changes(const char *function)
{
	sf_base_require_preload();
	PreventCommandDuringRecovery(function);
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
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

static void
refuse_dropped(const char *function)
{
	if (sf_space_has_dropped())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot call %s in a transaction that has truncated, rewritten or dropped a securefile column",
						function),
				 errdetail("A ROLLBACK would bring back keys as they were."),
				 errhint("Commit first.")));
}

List *
sfi_sql_columns_to_change(FunctionCallInfo fcinfo, LOCKMODE lockmode, const char *function)
{
	require_key_changes(function);
	sf_check_require_arguments(fcinfo, false);
	refuse_dropped(function);
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

	columns = sfi_sql_columns_to_change(fcinfo, AccessShareLock, "securefile_rewrap()");
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
	refuse_dropped("securefile_rewrap()");
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
						get_attname(column->table_oid, column->attnum, false),
						get_rel_name(column->table_oid)),
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

	columns = sfi_sql_columns_to_change(fcinfo, AccessShareLock, "securefile_new_key()");

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
