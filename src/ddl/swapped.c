/*-------------------------------------------------------------------------
 *
 * swapped.c
 *	  Tables that were given the file of another relation.
 *
 * The rows of a table name the table in their locators.  A program that exchanges the files of
 * two tables in pg_class, as tools that rewrite tables do, gives each the rows of the other.  No
 * hook hears of that.  But a change of pg_class makes the relation cache forget the table: we
 * keep the tables that it forgot, and before the commit look which of them have another file
 * than before.
 *
 * Files that a command of the server's own has put there are known to be right: VACUUM FULL and
 * CLUSTER copy rows as they are, ALTER TABLE is followed by sync.c, and after a TRUNCATE there
 * is nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "ddl/ddl.h"
#include "ddl/command.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* More than these are not kept: then all of pg_class is looked at. */
#define MOST_CHANGED	128

/* Tables that the relation cache was told to forget, in the transaction with that xid. */
static Oid	changed[MOST_CHANGED];
static int	nchanged = 0;
static TransactionId changed_xid = InvalidTransactionId;

static uint64 nchanges = 1;		/* of any relation, in the life of the process */

/* A file that a table has rightly. */
typedef struct KnownFile
{
	Oid			table_oid;
	Oid			relfilenode;
} KnownFile;

static List *known = NIL;		/* in TopTransactionContext */

/*
 * A RelcacheCallbackFunction.  It may come at any time, so it only remembers.  Changes of other
 * sessions come here, too.
 */
static void
table_changed(Datum arg, Oid relid)
{
	TransactionId xid = GetTopTransactionIdIfAny();

	nchanges++;
	/* a transaction without an xid has not changed pg_class */
	if (relid < FirstNormalObjectId || !TransactionIdIsValid(xid))
		return;
	SF_ASSERT(nchanged >= 0 && nchanged <= MOST_CHANGED);
	if (xid != changed_xid)
		nchanged = 0;
	changed_xid = xid;
	for (int i = nchanged - 1; i >= 0 && i >= nchanged - 8; i--)
	{
		if (changed[i] == relid)
			return;
	}
	if (nchanged < MOST_CHANGED)
		changed[nchanged++] = relid;
}

void
sfi_ddl_watch_files(void)
{
	CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
}

uint64
sfi_ddl_relation_changes(void)
{
	return nchanges;
}

void
sfi_ddl_file_is_right(Oid table_oid, Oid relfilenode)
{
	MemoryContext context = MemoryContextSwitchTo(TopTransactionContext);
	KnownFile  *file = palloc(sizeof(KnownFile));

	SF_ASSERT(IsTransactionState() && OidIsValid(table_oid));
	file->table_oid = table_oid;
	file->relfilenode = relfilenode;
	known = lappend(known, file);
	MemoryContextSwitchTo(context);
}

static bool
is_right(Oid table_oid, Oid relfilenode)
{
	ListCell   *lc;

	foreach(lc, known)
	{
		const KnownFile *file = lfirst(lc);

		if (file->table_oid == table_oid && file->relfilenode == relfilenode)
			return true;
	}
	return false;
}

/* Has this transaction made this version of a row of pg_class? */
static bool
is_ours(HeapTuple tuple)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetRawXmin(tuple->t_data));
}

bool
sfi_ddl_is_gone_by_us(HeapTuple tuple)
{
	HeapTupleHeader header = tuple->t_data;

	return !(header->t_infomask & HEAP_XMAX_INVALID) &&
		!HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header));
}

/*
 * Had the table several files in the course of this transaction that no command has put there?
 * One it had at the begin.
 */
static bool
had_other_files(Relation catalog, Oid table_oid, Oid relfilenode)
{
	Oid			first = is_right(table_oid, relfilenode) ? InvalidOid : relfilenode;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table_oid));
	scan = systable_beginscan(catalog, ClassOidIndexId, true, SnapshotAny, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			file = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;

		if (!sfi_ddl_is_gone_by_us(tuple) || is_right(table_oid, file))
			continue;
		found = OidIsValid(first) && file != first;
		first = file;
	}
	systable_endscan(scan);
	return found;
}

bool
sfi_ddl_table_was_here(Oid table_oid)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table_oid));

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table_oid));
	scan = systable_beginscan(catalog, ClassOidIndexId, true, SnapshotAny, 1, &key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = sfi_ddl_is_gone_by_us(tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* Add a table to the list if it has a file that nobody accounts for. */
static List *
add_if_swapped(List *swapped, Relation catalog, HeapTuple tuple)
{
	Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

	if (form->relkind != RELKIND_RELATION || form->oid < FirstNormalObjectId ||
		!is_ours(tuple) || !had_other_files(catalog, form->oid, form->relfilenode))
		return swapped;
	return list_append_unique_oid(swapped, form->oid);
}

/* Among all tables. */
static List *
find_in_catalog(Relation catalog)
{
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *swapped = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		swapped = add_if_swapped(swapped, catalog, tuple);
	systable_endscan(scan);
	return swapped;
}

/* Among those that were kept. */
static List *
find_in_changed(Relation catalog)
{
	List	   *swapped = NIL;

	/* looking one up may let the relation cache forget others */
	for (int i = 0; i < nchanged; i++)
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(changed[i]));

		if (!HeapTupleIsValid(tuple))
			continue;
		swapped = add_if_swapped(swapped, catalog, tuple);
		ReleaseSysCache(tuple);
	}
	return swapped;
}

List *
sfi_ddl_swapped(void)
{
	Relation	catalog;
	List	   *swapped;

	/* what was changed last is told to the cache by this */
	CommandCounterIncrement();
	if (nchanged == 0 || changed_xid != GetTopTransactionIdIfAny())
		return NIL;
	catalog = table_open(RelationRelationId, AccessShareLock);
	swapped = nchanged < MOST_CHANGED ? find_in_changed(catalog) : find_in_catalog(catalog);
	table_close(catalog, AccessShareLock);
	return swapped;
}

void
sf_ddl_swapped_at_end(void)
{
	known = NIL;
	nchanged = 0;
}
