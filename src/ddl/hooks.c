/*-------------------------------------------------------------------------
 *
 * hooks.c
 *	  How this room learns that a table may have changed, and when it acts.
 *
 * The object access hook notes every table and composite type that is
 * created or altered (noted.c).  When a utility command is through, at its own
 * nesting level, these are brought in line.  The executor's hooks see to it
 * that no row is written before (defend.c).
 *
 * The event trigger does the same at ddl_command_end; it is what is left in a
 * session without the library preloaded, where it refuses new securefile
 * columns.  The hooks are needed beside it since event triggers do not fire
 * for everything (EXPLAIN ANALYZE CREATE TABLE AS; replica role).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "commands/event_trigger.h"
#include "ddl/ddl.h"
#include "ddl/command.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_ddl_command_end);

static object_access_hook_type prev_object_access_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;
static ExecutorStart_hook_type prev_executor_start_hook = NULL;
static ExecutorRun_hook_type prev_executor_run_hook = NULL;
static ExecutorFinish_hook_type prev_executor_finish_hook = NULL;

/* ---- noting ---- */

/*
 * An internal trigger was switched on or off, or a trigger was made that fires after it:
 * note its table.
 */
static void
note_trigger(Oid trigoid)
{
	Oid			table_oid = sfi_ddl_trigger_table(trigoid);

	if (OidIsValid(table_oid))
		sfi_ddl_note_table(table_oid, false, 0);
}

/* A relation is dropped.  If it is a segment, its files are removed at commit. */
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
		OidIsValid(form->relam) && form->relam == sfi_ddl_am_oid();
	ReleaseSysCache(tuple);
	if (!is_segment)
		return;

	sfi_ddl_write_before_drop();
	rel = relation_open(relid, NoLock);
	/* nobody writes to the storage from now on */
	SF_ASSERT(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	sf_space_drop_storage(SfRelStorage(rel));
	relation_close(rel, NoLock);
}

/*
 * The object access hook: pass on what the server says of functions, triggers,
 * statistics objects and relations.
 */
static void
note_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id,
			void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class_id, object_id, sub_id, arg);

	/* functions that read a table past the executor */
	if (access == OAT_FUNCTION_EXECUTE &&
		(object_id == F_BRIN_SUMMARIZE_NEW_VALUES || object_id == F_BRIN_SUMMARIZE_RANGE))
		sfi_ddl_refuse_misread(InvalidOid);

	/* ENABLE and DISABLE TRIGGER announce the trigger only, not its table */
	if (class_id == TriggerRelationId && sfi_ddl_noting() &&
		(access == OAT_POST_ALTER ||
		 (access == OAT_POST_CREATE && !((ObjectAccessPostCreate *) arg)->is_internal)))
		note_trigger(object_id);
	if (class_id == TriggerRelationId && access == OAT_POST_CREATE && sfi_ddl_noting() &&
		((ObjectAccessPostCreate *) arg)->is_internal)
		sfi_ddl_note_shell();
	if (class_id == StatisticExtRelationId && access == OAT_POST_CREATE && sfi_ddl_noting())
		sfi_ddl_validate_statistics(object_id);
	if (class_id == ProcedureRelationId && access == OAT_POST_CREATE && sfi_ddl_noting())
		sfi_ddl_warn_of_text(object_id);
	if (class_id != RelationRelationId || !sfi_ddl_noting())
		return;
	switch (access)
	{
		case OAT_POST_CREATE:
			sfi_ddl_note_table(object_id, sub_id == 0, sub_id);
			if (sub_id != 0)
				sfi_ddl_columns_altered(object_id, sub_id);
			else if (((ObjectAccessPostCreate *) arg)->is_internal)
				sfi_ddl_storage_made(object_id);
			break;
		case OAT_POST_ALTER:
			if (sub_id != 0)
			{
				sfi_ddl_columns_altered(object_id, sub_id);
				sfi_ddl_alter_note(object_id, sub_id);
			}
			else
				sfi_ddl_refuse_new_owner(object_id);
			sfi_ddl_note_table(object_id, false, 0);

			/*
			 * rows are in place: indexes come next, perhaps by parallel
			 * workers
			 */
			if (sfi_ddl_any_copied())
				sf_write_flush();
			if (sfi_ddl_command.alter != NULL)
				ItemPointerSetInvalid(&sfi_ddl_command.alter->row.tid);
			break;
		case OAT_DROP:
			if (sub_id == 0)
			{
				note_drop(object_id);
				break;
			}
			sfi_ddl_taken_note(object_id, sub_id, true);
			sfi_ddl_note_table(object_id, false, 0);
			break;
		default:
			break;
	}
}

/* ---- utility commands ---- */

/* COMMIT and PREPARE TRANSACTION: after them nothing can be brought in line. */
static bool
ends_transaction(Node *stmt)
{
	TransactionStmt *end = (TransactionStmt *) stmt;

	return IsA(stmt, TransactionStmt) &&
		(end->kind == TRANS_STMT_COMMIT || end->kind == TRANS_STMT_PREPARE);
}

/* What hooks have to know of a command that is about to run. */
static void
describe_command(Node *stmt, const char *query)
{
	sfi_ddl_command.alter = IsA(stmt, AlterTableStmt) ?
		sfi_ddl_alter_analyze((AlterTableStmt *) stmt, query) : NULL;
	sfi_ddl_command.taken = sfi_ddl_taken_begin(stmt);
	if (sfi_ddl_command.alter != NULL)
		sfi_ddl_row_context_begin(&sfi_ddl_command.alter->row, NULL, 0);
}

/*
 * Run a utility command by the hook that was there before, or by the server.  copied: the table
 * of a COPY FROM, or InvalidOid.
 */
static void
call_utility(Oid copied, PlannedStmt *pstmt, const char *query, bool read_only,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	SfExecution run;

	sfi_ddl_run_begins(&run, NULL, copied);
	PG_TRY();
	{
		if (prev_process_utility_hook)
			prev_process_utility_hook(pstmt, query, read_only, context, params,
									  env, dest, qc);
		else
			standard_ProcessUtility(pstmt, query, read_only, context, params,
									env, dest, qc);
	}
	PG_FINALLY();
	{
		sfi_ddl_run_ends(&run);
	}
	PG_END_TRY();
}

/* Before a command runs: is it one that must not? */
static void
guard_command(Node *stmt, ProcessUtilityContext context)
{
	/*
	 * before it takes away what rows still need; COMMIT comes to this by
	 * itself
	 */
	if (context == PROCESS_UTILITY_TOPLEVEL && !IsA(stmt, TransactionStmt))
		sf_ddl_bring_home();
	sfi_ddl_trigger_guard(stmt);
	sfi_ddl_guard_type(stmt);
	if (context != PROCESS_UTILITY_SUBCOMMAND)
		sfi_ddl_refuse_misread_by(stmt);
}

/* A command has run: bring in line what it touched.  copied: of sfi_ddl_copy_target(). */
static void
follow_command(Oid copied)
{
	const NodeTag command = sfi_ddl_command.tag;

	if (sfi_ddl_only_rewrites())
		sfi_ddl_notes_forget(0, InvalidOid);
	if (command == T_TruncateStmt)
		sfi_ddl_truncated_are_right();
	sfi_ddl_drain();
	sfi_ddl_taken_report();
	if (command == T_CopyStmt)
		sfi_ddl_require_copy_triggers(copied);
	if (command == T_CreateExtensionStmt || command == T_AlterExtensionStmt)
		sfi_ddl_require_version();
}

/* What adds a hint to an error of a command; never throws. */
typedef void (*AddHint) (void);

/* What adds the hint to errors of a command, or NULL. */
static AddHint
hint_of(Node *stmt)
{
	if (sfi_ddl_converts(stmt))
		return sfi_ddl_convert_hint;
	return sfi_ddl_changes_version(stmt) ? sfi_ddl_version_hint : NULL;
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
	const NodeTag command = nodeTag(stmt);
	const SfCommand outer = sfi_ddl_command;
	PlannedStmt *spared;
	Oid			copied;
	int			mark;
	Oid			dropped_db;
	AddHint		hint;
	uint32		keeping;

	if (!sfi_ddl_noting())
	{
		call_utility(InvalidOid, pstmt, query, read_only, context, params, env, dest, qc);
		if (IsBinaryUpgrade && IsTransactionState())
			sfi_ddl_upgrade_guard(stmt);
		return;
	}

	guard_command(stmt, context);
	dropped_db = sfi_ddl_database_before(stmt);
	hint = hint_of(stmt);

	keeping = sfi_ddl_keep_begins(stmt, context);
	mark = sfi_ddl_notes_mark();
	sfi_ddl_command.depth++;
	sfi_ddl_command.tag = command;
	PG_TRY();
	{
		copied = sfi_ddl_copy_target(stmt);
		/* a copy, if it is an ALTER TABLE */
		spared = sfi_ddl_trigger_without_internal(pstmt);
		describe_command(spared->utilityStmt, query);
		if (ends_transaction(stmt))
			sfi_ddl_drain();
		/* may be built by parallel workers */
		if (command == T_IndexStmt || command == T_ReindexStmt)
			sf_write_flush();
		/* from here on stmt may go away (CALL with COMMIT inside) */
		call_utility(copied, spared, query, read_only, context, params, env, dest, qc);
		if (sfi_ddl_command.alter != NULL)
			sfi_ddl_row_context_end(&sfi_ddl_command.alter->row);
		if (command == T_VacuumStmt)
			sfi_ddl_vacuum_segments((VacuumStmt *) stmt, context == PROCESS_UTILITY_TOPLEVEL);
		follow_command(copied);
	}
	PG_CATCH();
	{
		if (hint != NULL)
			hint();
		sfi_ddl_keep_ends(keeping);
		sfi_ddl_notes_fail(mark);
		sfi_ddl_command = outer;
		PG_RE_THROW();
	}
	PG_END_TRY();
	SF_ASSERT(sfi_ddl_command.depth == outer.depth + 1);
	sfi_ddl_keep_ends(keeping);
	sfi_ddl_replaced_at_command_end();
	sfi_ddl_command = outer;

	if (OidIsValid(dropped_db))
		sfi_ddl_database_after(dropped_db);
}

/* ---- the executor ---- */

/*
 * Parallel workers do not see this backend's gather buffers: what is gathered
 * is written before they start.
 */
static void
executor_start(QueryDesc *query, int eflags)
{
	bool		runs = (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0;

	if (query->plannedstmt->parallelModeNeeded && !IsParallelWorker() && runs)
		sf_write_flush();
	if (runs)
		sfi_ddl_refuse_misread_rtes(query->plannedstmt->rtable);
	sfi_ddl_settle_parameters(query->params);

	if (prev_executor_start_hook)
		prev_executor_start_hook(query, eflags);
	else
		standard_ExecutorStart(query, eflags);

	if (runs)
		sfi_ddl_require_result_triggers(query->estate->es_opened_result_relations);
}

/*
 * Does a query make the rows of a new table?  The server fills a new materialized view with
 * the receiver of REFRESH from 17 on.
 */
static bool
fills_new_table(const DestReceiver *receiver)
{
	return receiver->mydest == DestIntoRel ||
		(receiver->mydest == DestTransientRel && sfi_ddl_command.tag == T_CreateTableAsStmt);
}

/*
 * CREATE TABLE AS makes its table when the first rows are asked for.  The receiver is known
 * here, and not in executor_start(), where that of CREATE TABLE AS EXECUTE is another one.
 */
static void
executor_run(SF_EXECUTOR_RUN_ARGS)
{
	DestReceiver *receiver = query->dest;
	const bool	alone = sfi_ddl_any_deferred();
	SfExecution run;

	/*
	 * A query that goes on, or may be run again, gets no parallel workers:
	 * minor releases differ in what they ask.
	 */
	query->already_executed |= alone;
	sfi_ddl_keep_results(query);
	if (fills_new_table(receiver) && sfi_ddl_noting() && sfi_ddl_objects() != NULL)
		query->dest = sfi_ddl_watch_rows(receiver, query->plannedstmt);
	query->dest = sfi_ddl_settle_rows(query);
	sfi_ddl_run_begins(&run, query, InvalidOid);
	PG_TRY();
	{
		if (prev_executor_run_hook)
			sf_compat_executor_run(prev_executor_run_hook, query, direction, count,
								   execute_once && !alone);
		else
			sf_compat_executor_run(standard_ExecutorRun, query, direction, count,
								   execute_once && !alone);
	}
	PG_FINALLY();
	{
		sfi_ddl_run_ends(&run);
	}
	PG_END_TRY();
	query->dest = receiver;
}

/* Partitions that a row was routed to are opened on the way. */
static void
executor_finish(QueryDesc *query)
{
	SfExecution run;

	/* writes of a WITH clause may not have come to their end yet */
	sfi_ddl_run_begins(&run, query, InvalidOid);
	PG_TRY();
	{
		if (prev_executor_finish_hook)
			prev_executor_finish_hook(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		sfi_ddl_run_ends(&run);
	}
	PG_END_TRY();

	sfi_ddl_require_result_triggers(query->estate->es_tuple_routing_result_relations);
}

void
sf_ddl_install_hooks(void)
{
	/* hooks that chain to themselves never end */
	SF_ASSERT(ProcessUtility_hook != process_utility && object_access_hook != note_access);
	sfi_ddl_watch_files();
	prev_object_access_hook = object_access_hook;
	object_access_hook = note_access;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_executor_start_hook = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_executor_run_hook = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_executor_finish_hook = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
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
		Oid			class_id = DatumGetObjectId(SPI_getbinval(row, SPI_tuptable->tupdesc, 1,
															  &isnull));
		Oid			object_id = DatumGetObjectId(SPI_getbinval(row, SPI_tuptable->tupdesc, 2,
															   &isnull));

		if (class_id == RelationRelationId && sfi_ddl_table_has_columns(object_id))
			sf_base_require_preload();
	}
	SPI_finish();
}

Datum
securefile_ddl_command_end(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo) ||
		strcmp(((EventTriggerData *) fcinfo->context)->event, "ddl_command_end") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be called as an event trigger on ddl_command_end",
						get_func_name(fcinfo->flinfo->fn_oid))));
	if (sf_base_preloaded)
	{
		sfi_ddl_replaced_at_command_end();
		sfi_ddl_drain();
	}
	else if (!IsBinaryUpgrade && sfi_ddl_objects() != NULL)
		refuse_without_preload();
	PG_RETURN_NULL();
}
