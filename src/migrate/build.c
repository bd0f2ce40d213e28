/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Indexes of the new column, built before the swap, while the table is in use.
 *
 * CREATE INDEX CONCURRENTLY runs in transactions of its own, which no procedure can give it.  So
 * a background worker runs it, as the role that has called the procedure.  The worker is told
 * the number of the old index and the names; whether it has come to its end is seen by the index,
 * which is there and valid then.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "base/worker.h"
#include "catalog/pg_index.h"
#include "executor/spi.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PGDLLEXPORT void securefile_migrate_worker(Datum arg);

/* What the worker is told. */
typedef struct Order
{
	Oid			index_oid;
	Oid			role;
	Oid			table_oid;
	AttrNumber	from;
	AttrNumber	to;
} Order;

StaticAssertDecl(sizeof(Order) <= SF_WORKER_EXTRA, "an order fits into a background worker");

/* ---- the worker ---- */

/*
 * Run the statement as a client's would be run.  It ends and begins transactions, in which the
 * settings and the role of the session hold on.
 */
static void
build_index(const Order *order)
{
	PlannedStmt *planned = makeNode(PlannedStmt);
	char	   *text = pg_get_indexdef_string(order->index_oid);
	const char *from = get_attname(order->table_oid, order->from, false);
	const char *to = get_attname(order->table_oid, order->to, false);
	char	   *twin = sfi_rename_twin(get_rel_name(order->index_oid));
	IndexStmt  *stmt = castNode(IndexStmt, sfi_rename_index_statement(text, from, to, twin));

	stmt->concurrent = true;
	planned->commandType = CMD_UTILITY;
	planned->canSetTag = true;
	planned->utilityStmt = (Node *) stmt;
	debug_query_string = text;
	pgstat_report_activity(STATE_RUNNING, text);
	ProcessUtility(planned, text, false, PROCESS_UTILITY_TOPLEVEL, NULL, NULL, None_Receiver, NULL);
}

void
securefile_migrate_worker(Datum arg)
{
	Order		order;

	sf_base_worker_begin(DatumGetObjectId(arg), die);
	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	SetConfigOption("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION);
	StartTransactionCommand();
	SetUserIdAndSecContext(order.role, 0);
	/* what is needed in several transactions */
	PortalContext = AllocSetContextCreate(TopMemoryContext, "securefile migrate",
										  ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(PortalContext);
	PushActiveSnapshot(GetTransactionSnapshot());
	build_index(&order);
	if (ActiveSnapshotSet())
		PopActiveSnapshot();
	CommitTransactionCommand();
	proc_exit(0);
}

/* ---- the procedure ---- */

/* The twin of an index, if it is there and complete.  One that is not is dropped. */
static bool
is_built(const SfMigration *m, const SfFinding *finding)
{
	Oid			twin_oid;
	HeapTuple	index;
	bool		valid;

	/* another process has made it */
	AcceptInvalidationMessages();
	twin_oid = sfi_rename_twin_index(m, finding);
	if (!OidIsValid(twin_oid))
		return false;
	index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(twin_oid));
	if (!HeapTupleIsValid(index))
		return false;
	valid = ((Form_pg_index) GETSTRUCT(index))->indisvalid;
	ReleaseSysCache(index);
	if (!valid)
	{
		char	   *schema = get_namespace_name(get_rel_namespace(twin_oid));

		sfi_migrate_run_as_caller("DROP INDEX %s",
								  quote_qualified_identifier(schema, get_rel_name(twin_oid)));
	}
	return valid;
}

/* Have a worker build an index, and wait for its end; no lock and no snapshot is held meanwhile. */
static void
order_index(const SfMigration *m, const SfFinding *finding)
{
	Order		order = {finding->oid, GetUserId(), m->table_oid,
		get_attnum(m->table_oid, m->column), get_attnum(m->table_oid, m->beside)};
	SfWorker	worker = {
		.name = "securefile migrate", .function = "securefile_migrate_worker",
		.start = BgWorkerStart_RecoveryFinished, .restart_s = BGW_NEVER_RESTART,
		.extra = &order, .extra_bytes = sizeof(order)
	};
	BackgroundWorkerHandle *handle = sf_base_worker_start(&worker, MyDatabaseId);

	SPI_commit();
	if (handle == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no background worker is free to build the index of column \"%s\"", m->beside),
				 errhint("Call securefile_migrate() again later to go on, or increase max_worker_processes.")));
	PG_TRY();
	{
		if (WaitForBackgroundWorkerShutdown(handle) == BGWH_POSTMASTER_DIED)
			proc_exit(1);
	}
	PG_CATCH();
	{
		TerminateBackgroundWorker(handle);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

void
sfi_build_indexes(SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		SfFinding  *finding = lfirst(lc);

		if (finding->what != SF_DEPENDS_INDEX || strcmp(finding->action, SF_ACTION_REBUILT) != 0 ||
			is_built(m, finding))
			continue;
		order_index(m, finding);
		if (!is_built(m, finding))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not build index \"%s\" for the new column \"%s\"", finding->name,
							m->beside),
					 errdetail("The log of the server says why."),
					 errhint("Call securefile_migrate() again to go on; drop the index first if the new type cannot have it.")));
		SF_FAULT(migrate_index);
	}
}
