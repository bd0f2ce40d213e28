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
#include "utils/syscache.h"

List *
sf_space_list_segments(MemoryContext context)
{
	List	   *segments = NIL;
	Oid			am;
	Relation	rel;
	TableScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	SF_ASSERT(IsTransactionState());
	am = GetSysCacheOid1(AMNAME, Anum_pg_am_oid, CStringGetDatum(SF_SEGMENT_AM_NAME));
	if (!OidIsValid(am))
		return NIL;
	rel = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(am));
	scan = table_beginscan_catalog(rel, 1, &key);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
		MemoryContext old = MemoryContextSwitchTo(context);

		if (form->relkind == RELKIND_TOASTVALUE)
			segments = lappend_oid(segments, form->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return segments;
}
