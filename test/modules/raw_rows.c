/*-------------------------------------------------------------------------
 *
 * raw_rows.c
 *	  What tools that rewrite tables do: rows are written by functions of the heap, and tables
 *	  exchange their files or their names, all past triggers and commands.
 *
 *	 raw_copy(from, to, how)	insert all rows of a table into another one, which has the same
 *								columns: how is insert, multi, slot or frozen
 *	 raw_move(table)			delete each row, and insert it again
 *	 raw_update(table)			replace each row by a version that is the same
 *	 raw_delete(table)			delete all rows
 *	 raw_rewrite(from, to)		put all rows of a table into new pages of another one
 *	 raw_swap(a, b)				exchange the files of two tables
 *	 raw_rename(table, name)	rename a table
 *	 raw_drop(table)			drop a table
 *	 raw_start(from, to, how)	raw_copy() in a background worker; returns when that has ended
 *
 * For test/t/ddl/206_rows_past_triggers.pl.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/rewriteheap.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(raw_copy);
PG_FUNCTION_INFO_V1(raw_move);
PG_FUNCTION_INFO_V1(raw_update);
PG_FUNCTION_INFO_V1(raw_delete);
PG_FUNCTION_INFO_V1(raw_rewrite);
PG_FUNCTION_INFO_V1(raw_swap);
PG_FUNCTION_INFO_V1(raw_rename);
PG_FUNCTION_INFO_V1(raw_drop);
PG_FUNCTION_INFO_V1(raw_start);

extern PGDLLEXPORT void raw_worker_main(Datum main_arg);

/* What is to be done with a row; its tuple is the visit's own. */
typedef void (*Visit) (Relation rel, HeapTuple tuple, void *arg);

/* Visit all rows of a table that were there at the begin. */
static void
visit_rows(Oid table_oid, LOCKMODE lockmode, Visit visit, void *arg)
{
	Relation	rel = table_open(table_oid, lockmode);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
		visit(rel, heap_copytuple(tuple), arg);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/* ---- rows ---- */

typedef struct Target
{
	Relation	rel;
	const char *how;
} Target;

static TupleTableSlot *
make_slot(Relation rel, HeapTuple tuple)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);

	return ExecStoreHeapTuple(tuple, slot, false);
}

static void
insert_row(Relation from, HeapTuple tuple, void *arg)
{
	Target	   *to = arg;
	CommandId	cid = GetCurrentCommandId(true);
	TupleTableSlot *slot;

	tuple->t_tableOid = RelationGetRelid(to->rel);
	if (strcmp(to->how, "insert") == 0)
	{
		heap_insert(to->rel, tuple, cid, 0, NULL);
		return;
	}
	if (strcmp(to->how, "frozen") == 0)
	{
		heap_insert(to->rel, tuple, cid, HEAP_INSERT_FROZEN, NULL);
		return;
	}
	slot = make_slot(to->rel, tuple);
	if (strcmp(to->how, "multi") == 0)
		heap_multi_insert(to->rel, &slot, 1, cid, 0, NULL);
	else
		table_tuple_insert(to->rel, slot, cid, 0, NULL);
	ExecDropSingleTupleTableSlot(slot);
}

static void
copy_rows(Oid from, Oid to_oid, const char *how)
{
	Target		to = {table_open(to_oid, RowExclusiveLock), how};

	visit_rows(from, AccessShareLock, insert_row, &to);
	table_close(to.rel, NoLock);
}

Datum
raw_copy(PG_FUNCTION_ARGS)
{
	copy_rows(PG_GETARG_OID(0), PG_GETARG_OID(1), text_to_cstring(PG_GETARG_TEXT_PP(2)));
	PG_RETURN_VOID();
}

static void
move_row(Relation rel, HeapTuple tuple, void *arg)
{
	ItemPointerData tid = tuple->t_self;

	simple_heap_delete(rel, &tid);
	heap_insert(rel, tuple, GetCurrentCommandId(true), 0, NULL);
}

Datum
raw_move(PG_FUNCTION_ARGS)
{
	visit_rows(PG_GETARG_OID(0), RowExclusiveLock, move_row, NULL);
	PG_RETURN_VOID();
}

static void
update_row(Relation rel, HeapTuple tuple, void *arg)
{
	ItemPointerData tid = tuple->t_self;

	CatalogTupleUpdate(rel, &tid, tuple);
}

Datum
raw_update(PG_FUNCTION_ARGS)
{
	visit_rows(PG_GETARG_OID(0), RowExclusiveLock, update_row, NULL);
	PG_RETURN_VOID();
}

static void
delete_row(Relation rel, HeapTuple tuple, void *arg)
{
	simple_heap_delete(rel, &tuple->t_self);
}

Datum
raw_delete(PG_FUNCTION_ARGS)
{
	visit_rows(PG_GETARG_OID(0), RowExclusiveLock, delete_row, NULL);
	PG_RETURN_VOID();
}

static void
rewrite_row(Relation rel, HeapTuple tuple, void *arg)
{
	rewrite_heap_tuple(arg, tuple, heap_copytuple(tuple));
}

Datum
raw_rewrite(PG_FUNCTION_ARGS)
{
	Relation	from = table_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Relation	to = table_open(PG_GETARG_OID(1), AccessExclusiveLock);
	TransactionId oldest = GetOldestNonRemovableTransactionId(from);
	RewriteState state = begin_heap_rewrite(from, to, oldest, oldest, GetOldestMultiXactId());

	visit_rows(PG_GETARG_OID(0), NoLock, rewrite_row, state);
	end_heap_rewrite(state);
	table_close(from, NoLock);
	table_close(to, NoLock);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

/* ---- tables ---- */

/* A copy of the row of pg_class of a table that is locked against everybody else. */
static HeapTuple
class_row(Oid table_oid)
{
	HeapTuple	tuple;

	LockRelationOid(table_oid, AccessExclusiveLock);
	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(table_oid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "no table %u", table_oid);
	return tuple;
}

Datum
raw_swap(PG_FUNCTION_ARGS)
{
	HeapTuple	a = class_row(PG_GETARG_OID(0));
	HeapTuple	b = class_row(PG_GETARG_OID(1));
	Form_pg_class form_a = (Form_pg_class) GETSTRUCT(a);
	Form_pg_class form_b = (Form_pg_class) GETSTRUCT(b);
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	Oid			relfilenode = form_a->relfilenode;

	form_a->relfilenode = form_b->relfilenode;
	form_b->relfilenode = relfilenode;
	CatalogTupleUpdate(catalog, &a->t_self, a);
	CatalogTupleUpdate(catalog, &b->t_self, b);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

Datum
raw_rename(PG_FUNCTION_ARGS)
{
	LockRelationOid(PG_GETARG_OID(0), AccessExclusiveLock);
	RenameRelationInternal(PG_GETARG_OID(0), text_to_cstring(PG_GETARG_TEXT_PP(1)), true, false);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

Datum
raw_drop(PG_FUNCTION_ARGS)
{
	ObjectAddress table;

	LockRelationOid(PG_GETARG_OID(0), AccessExclusiveLock);
	ObjectAddressSet(table, RelationRelationId, PG_GETARG_OID(0));
	performDeletion(&table, DROP_CASCADE, 0);
	PG_RETURN_VOID();
}

/* ---- another process ---- */

typedef struct Order
{
	Oid			database;
	Oid			from;
	Oid			to;
	char		how[16];
} Order;

void
raw_worker_main(Datum main_arg)
{
	Order		order;

	memcpy(&order, MyBgworkerEntry->bgw_extra, sizeof(order));
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(order.database, InvalidOid, 0);
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	copy_rows(order.from, order.to, order.how);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* raw_start(from, to, how, library) */
Datum
raw_start(PG_FUNCTION_ARGS)
{
	Order		order = {MyDatabaseId, PG_GETARG_OID(0), PG_GETARG_OID(1)};
	BackgroundWorker worker = {.bgw_start_time = BgWorkerStart_ConsistentState};
	BackgroundWorkerHandle *handle;

	strlcpy(order.how, text_to_cstring(PG_GETARG_TEXT_PP(2)), sizeof(order.how));
	memcpy(worker.bgw_extra, &order, sizeof(order));
	strlcpy(worker.bgw_name, "raw rows", BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, text_to_cstring(PG_GETARG_TEXT_PP(3)), BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "raw_worker_main", BGW_MAXLEN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		elog(ERROR, "could not start a background worker");
	WaitForBackgroundWorkerShutdown(handle);
	PG_RETURN_VOID();
}
