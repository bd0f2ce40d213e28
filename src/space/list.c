/*-------------------------------------------------------------------------
 *
 * list.c
 *	  The segments of a database.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "space/space_internal.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

List *
sf_space_list_segments(MemoryContext context, List **makers)
{
	Oid			am = GetSysCacheOid1(AMNAME, Anum_pg_am_oid, CStringGetDatum(SF_SEGMENT_AM_NAME));
	List	   *segments = NIL;
	SnapshotData dirty;
	Relation	rel;
	TableScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	SF_ASSERT(IsTransactionState());
	if (makers != NULL)
		*makers = NIL;
	if (!OidIsValid(am))
		return NIL;
	InitDirtySnapshot(dirty);
	rel = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(am));
	scan = makers == NULL ? table_beginscan_catalog(rel, 1, &key) :
		table_beginscan(rel, &dirty, 1, &key);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		MemoryContext old = MemoryContextSwitchTo(context);

		if (form->relkind == RELKIND_TOASTVALUE)
			segments = lappend_oid(segments, form->oid);
		if (form->relkind == RELKIND_TOASTVALUE && makers != NULL &&
			TransactionIdIsValid(dirty.xmin))
			*makers = list_append_unique_int(*makers, (int) dirty.xmin);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	if (makers != NULL)
	{
		/* a row of the catalog that is being changed was met twice */
		list_sort(segments, list_oid_cmp);
		list_deduplicate_oid(segments);
	}
	return segments;
}
