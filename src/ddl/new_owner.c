/*-------------------------------------------------------------------------
 *
 * new_owner.c
 *	  A table is to get another owner while it keeps removed values.
 *
 * The owner may list and read what rows have lost.  What was removed before a table changed hands
 * is nobody's business afterwards.  So the change is refused until it is gone: to purge it here
 * would be for good, also where the change is rolled back.  A superuser may read all in any case.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "ddl/command.h"
#include "ddl/ddl.h"
#include "miscadmin.h"
#include "space/history.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "write/write.h"

/* Longer than any retention. */
#define EVER_US			(INT64CONST(100) * 365 * USECS_PER_DAY)

/* The owner of a relation before the command that has just changed it; InvalidOid: no table. */
static Oid
owner_before(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	if (((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_RELATION)
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* And after it, which has not been made visible yet. */
static Oid
owner_now(Oid relid)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	HeapTuple	tuple = sf_ddl_catalog_row(catalog, ClassOidIndexId, Anum_pg_class_oid, relid,
										   SnapshotSelf);
	Oid			owner = HeapTupleIsValid(tuple) ? ((Form_pg_class) GETSTRUCT(tuple))->relowner :
		InvalidOid;

	table_close(catalog, AccessShareLock);
	return owner;
}

/* An SfRemovedVisit: one is enough. */
static bool
note_any(const SfRemovedChunk *chunk, const SfRemovedRecord *record, void *arg)
{
	*(bool *) arg = true;
	return false;
}

/*
 * Can removed values of a column be listed, or will they be when this transaction commits?
 * Whatever its retention is now: until a resolver has come by, another ALTER TABLE can bring them
 * back.
 */
static bool
keeps_any(Oid relid, AttrNumber attnum)
{
	SfSegment  *seg = sf_space_open(relid, attnum, AccessShareLock, true);
	bool		any = false;

	if (seg == NULL)
		return false;
	if (sf_write_has_removed(seg->storage))
		return true;
	sf_space_visit_removed(seg, EVER_US, note_any, &any);
	return any;
}

SF_NORETURN static void
refuse(Oid relid, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change the owner of table \"%s\" while removed values of column \"%s\" are kept",
					get_rel_name(relid), get_attname(relid, attnum, false)),
			 errdetail("The new owner could list and read them."),
			 errhint("Call securefile_purge() first.")));
}

void
sfi_ddl_refuse_new_owner(Oid relid)
{
	Oid			before = owner_before(relid);
	Oid			now = OidIsValid(before) ? owner_now(relid) : InvalidOid;
	Relation	rel;
	ListCell   *lc;

	if (before == now || !OidIsValid(now) || superuser_arg(now) || !sf_base_preloaded)
		return;
	rel = relation_open(relid, NoLock);
	SF_ASSERT(CheckRelationLockedByMe(rel, AccessExclusiveLock, true));
	foreach(lc, sfi_ddl_columns_of(rel))
	{
		if (keeps_any(relid, lfirst_int(lc)))
			refuse(relid, lfirst_int(lc));
	}
	relation_close(rel, NoLock);
}
