/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  How this room learns that a table may have changed, and when it acts.
 *
 * The object access hook notes every table and composite type that is
 * created or altered, by whatever command.  When the command is through, at
 * its own nesting level, the noted tables are brought in line (sf_ddl_drain).
 * Not earlier: a nested command (in an event trigger, say) may end while the
 * outer one has changed the catalogs but not yet rewritten the rows, and a
 * segment dropped then could not be read any more.
 *
 * The event trigger does the same at ddl_command_end; it is what is left in a
 * session without the library preloaded, where it refuses new securefile
 * columns.  The hooks are needed beside it since event triggers do not fire
 * for everything (EXPLAIN ANALYZE CREATE TABLE AS; replica role).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/event_trigger.h"
#include "ddl/ddl.h"
#include "ddl/ddl_internal.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_ddl_command_end);

static object_access_hook_type prev_object_access_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;
static ExecutorStart_hook_type prev_executor_start_hook = NULL;

/* Tables noted and not yet looked at; lives until drained. */
static SfDirtyTable *dirty = NULL;
static int	ndirty = 0;
static int	dirty_capacity = 0;

static int	depth = 0;			/* nesting level of utility commands */
static bool draining = false;	/* our own changes are not noted */

static void note_access(ObjectAccessType access, Oid class_id, Oid object_id,
						int sub_id, void *arg);
static void note_table(Oid relid, bool created, bool column_added);
static void note_trigger(Oid trigoid);
static void note_drop(Oid relid);
static bool watching(void);

/* ---- noting ---- */

static void
note_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
			void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class_id, object_id, sub_id, arg);

	if (class_id == TriggerRelationId && access == OAT_POST_ALTER && watching())
		note_trigger(object_id);
	if (class_id != RelationRelationId || !watching())
		return;
	switch (access)
	{
		case OAT_POST_CREATE:
			note_table(object_id, sub_id == 0, sub_id != 0);
			break;
		case OAT_POST_ALTER:
			note_table(object_id, false, false);
			break;
		case OAT_DROP:
			if (sub_id != 0)
				note_table(object_id, false, false);
			else
				note_drop(object_id);
			break;
		default:
			break;
	}
}

static bool
watching(void)
{
	return !IsBinaryUpgrade && !IsBootstrapProcessingMode() &&
		!IsParallelWorker() && OidIsValid(MyDatabaseId) &&
		IsTransactionState() && !RecoveryInProgress();
}

/*
 * File number and tablespace are taken at the first touch, which in ALTER TABLE
 * comes before the rows are rewritten or moved: a later difference tells of that.
 */
static void
note_table(Oid relid, bool created, bool column_added)
{
	SfDirtyTable *entry;
	HeapTuple	tuple;

	if (draining)
		return;
	for (int i = ndirty - 1; i >= 0 && i >= ndirty - 8; i--)
	{
		if (dirty[i].relid == relid && dirty[i].depth == depth)
		{
			dirty[i].column_added |= column_added;
			return;
		}
	}

	if (ndirty == dirty_capacity)
	{
		int			capacity = Max(64, dirty_capacity * 2);

		if (dirty == NULL)
			dirty = MemoryContextAlloc(TopMemoryContext,
									   capacity * sizeof(SfDirtyTable));
		else
			dirty = repalloc(dirty, capacity * sizeof(SfDirtyTable));
		dirty_capacity = capacity;
	}
	entry = &dirty[ndirty++];
	entry->relid = relid;
	entry->depth = depth;
	entry->created = created;
	entry->column_added = column_added;
	entry->relfilenode = entry->tablespace = InvalidOid;
	entry->moved = false;
	tuple = created ? NULL : SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		entry->relfilenode = form->relfilenode;
		entry->tablespace = sf_ddl_tablespace(form->reltablespace);
		ReleaseSysCache(tuple);
	}
}

/* ENABLE and DISABLE TRIGGER announce the trigger only, not its table. */
static void
note_trigger(Oid trigoid)
{
	Relation	tgrel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (draining)
		return;
	tgrel = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(trigoid));
	scan = systable_beginscan(tgrel, TriggerOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) &&
		((Form_pg_trigger) GETSTRUCT(tuple))->tgisinternal)
		note_table(((Form_pg_trigger) GETSTRUCT(tuple))->tgrelid, false, false);
	systable_endscan(scan);
	table_close(tgrel, AccessShareLock);
}

/* A relation goes: if it is a segment, so do its files, at commit. */
static void
note_drop(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	bool		is_segment;
	Relation	rel;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	is_segment = form->relkind == RELKIND_TOASTVALUE &&
		OidIsValid(form->relam) && form->relam == sf_ddl_am_oid();
	ReleaseSysCache(tuple);
	if (!is_segment)
		return;

	if (sf_space_dropped_is_wanted())
		sf_write_flush();
	rel = relation_open(relid, NoLock);
	sf_space_drop_storage(SfRelNode(rel));
	relation_close(rel, NoLock);
}

/* ---- acting ---- */

static int
compare_dirty(const void *a, const void *b)
{
	Oid			x = ((const SfDirtyTable *) a)->relid;
	Oid			y = ((const SfDirtyTable *) b)->relid;

	return (x > y) - (x < y);
}

/*
 * Take the tables noted at this level or below off the list; several notes of
 * one table become one.  A command of the outermost level also takes what was
 * noted outside of any (by a function that makes tables in its own way).  The
 * result is palloc'd.
 */
static SfDirtyTable *
take_dirty(int *ntaken)
{
	SfDirtyTable *taken = palloc(ndirty * sizeof(SfDirtyTable));
	int			n = 0;
	int			kept = 0;
	int			unique = 0;

	for (int i = 0; i < ndirty; i++)
	{
		if (dirty[i].depth >= depth || depth == 1)
			taken[n++] = dirty[i];
		else
			dirty[kept++] = dirty[i];
	}
	ndirty = kept;

	qsort(taken, n, sizeof(SfDirtyTable), compare_dirty);
	for (int i = 0; i < n; i++)
	{
		SfDirtyTable *last = unique > 0 ? &taken[unique - 1] : NULL;

		if (last == NULL || last->relid != taken[i].relid)
		{
			taken[unique++] = taken[i];
			continue;
		}
		last->created |= taken[i].created;
		last->column_added |= taken[i].column_added;
		/* any difference between first and last file number is a rewrite */
		if (!OidIsValid(last->relfilenode))
			last->relfilenode = taken[i].relfilenode;
		if (!OidIsValid(last->tablespace))
			last->tablespace = taken[i].tablespace;
		last->moved |= OidIsValid(taken[i].tablespace) &&
			taken[i].tablespace != last->tablespace;
	}
	*ntaken = unique;
	return taken;
}

void
sf_ddl_drain(void)
{
	SfDirtyTable *taken;
	int			ntaken;

	if (ndirty == 0 || draining || !watching())
		return;
	if (sf_ddl_objects() == NULL)
	{
		/* nothing of ours in this database */
		ndirty = 0;
		return;
	}

	CommandCounterIncrement();
	taken = take_dirty(&ntaken);
	draining = true;
	PG_TRY();
	{
		for (int i = 0; i < ntaken; i++)
			sf_ddl_sync_table(&taken[i]);
	}
	PG_FINALLY();
	{
		draining = false;
	}
	PG_END_TRY();
	pfree(taken);
}

/*
 * VACUUM, CLUSTER and REINDEX announce what they rewrite, but change no
 * column; and they work in several transactions, so that looking at all those
 * tables once more would have to lock them again.
 */
static void
forget_rewritten(NodeTag command)
{
	int			kept = 0;

	if (command != T_VacuumStmt && command != T_ClusterStmt && command != T_ReindexStmt)
		return;
	for (int i = 0; i < ndirty; i++)
	{
		if (dirty[i].depth != depth)
			dirty[kept++] = dirty[i];
	}
	ndirty = kept;
}

static void
call_utility(PlannedStmt *pstmt, const char *query, bool read_only,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_process_utility_hook)
		prev_process_utility_hook(pstmt, query, read_only, context, params,
								  env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params,
								env, dest, qc);
}

/*
 * Run a utility command one level deeper, then bring in line what it touched.
 * What was noted by a command that fails is forgotten: it did not happen.
 */
static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	NodeTag		command = nodeTag(stmt);
	const SfAlter *outer_alter = sf_ddl_alter;
	int			noted = ndirty;
	Oid			dropped_db;

	if (!watching())
	{
		call_utility(pstmt, query, read_only, context, params, env, dest, qc);
		if (IsBinaryUpgrade && IsTransactionState())
			sf_ddl_upgrade_guard(stmt);
		return;
	}

	sf_ddl_trigger_guard(stmt);
	sf_ddl_guard_type(stmt);
	dropped_db = sf_ddl_database_before(stmt);

	depth++;
	PG_TRY();
	{
		sf_ddl_alter = command == T_AlterTableStmt ?
			sf_ddl_alter_analyze((AlterTableStmt *) stmt) : NULL;
		/* may be built by parallel workers */
		if (command == T_IndexStmt)
			sf_write_flush();
		/* from here on stmt may go away (CALL with COMMIT inside) */
		call_utility(sf_ddl_trigger_spare(pstmt), query, read_only, context, params,
					 env, dest, qc);
		if (command == T_VacuumStmt)
			sf_ddl_vacuum_segments((VacuumStmt *) stmt, context == PROCESS_UTILITY_TOPLEVEL);
		forget_rewritten(command);
		sf_ddl_drain();
	}
	PG_CATCH();
	{
		depth--;
		sf_ddl_alter = outer_alter;
		ndirty = Min(ndirty, noted);
		PG_RE_THROW();
	}
	PG_END_TRY();
	depth--;
	sf_ddl_alter = outer_alter;

	if (OidIsValid(dropped_db))
		sf_ddl_database_after(dropped_db);
}

/*
 * Parallel workers do not see this backend's gather buffers: what is gathered
 * is written before they start.
 */
static void
executor_start(QueryDesc *query, int eflags)
{
	if (query->plannedstmt->parallelModeNeeded && !IsParallelWorker() &&
		(eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		sf_write_flush();

	if (prev_executor_start_hook)
		prev_executor_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
sf_ddl_install_hooks(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = note_access;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_executor_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

/* ---- the event trigger ---- */

/*
 * Without the hooks nothing could keep a securefile column in order: refuse
 * the command that makes or changes one.
 */
static void
refuse_without_preload(void)
{
	SPI_connect();
	if (SPI_execute("SELECT classid, objid FROM pg_catalog.pg_event_trigger_ddl_commands()",
					true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read the commands of the event trigger");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		bool		isnull;
		Oid			class_id = DatumGetObjectId(SPI_getbinval(row, SPI_tuptable->tupdesc, 1, &isnull));
		Oid			object_id = DatumGetObjectId(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &isnull));

		if (class_id == RelationRelationId && sf_ddl_table_has_columns(object_id))
			sf_base_require_preload();
	}
	SPI_finish();
}

Datum
securefile_ddl_command_end(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as an event trigger",
						get_func_name(fcinfo->flinfo->fn_oid))));
	if (sf_base_preloaded)
		sf_ddl_drain();
	else if (!IsBinaryUpgrade && sf_ddl_objects() != NULL)
		refuse_without_preload();
	PG_RETURN_NULL();
}
