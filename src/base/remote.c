/*-------------------------------------------------------------------------
 *
 * remote.c
 *	  Tables whose values are stored on other servers.
 *
 * A function that works on the segment of a column sees nothing of such values.  It must
 * say so: "no finding" or 0 bytes would be untrue.  There are two kinds:
 *
 *	 a distributed table of Citus: an empty table, the shell, stands on each node for its
 *		shards, which are ordinary tables on some of the nodes.  pg_dist_partition has a
 *		row for each shell (also for reference tables, and for local tables that
 *		Citus manages).  It is found by its name: nothing here is linked to Citus;
 *	 a partitioned table with foreign tables among its leaves.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define SHELLS			"pg_dist_partition"
#define SHELLS_INDEX	"pg_dist_partition_logical_relid_index"
#define SHELLS_TABLE	"logicalrelid"
#define NODES			"pg_dist_node"

AttrNumber
sf_base_column_number(Relation catalog, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(catalog), column);

	if (attnum == InvalidAttrNumber)
		elog(ERROR, "%s has no column %s", RelationGetRelationName(catalog), column);
	return attnum;
}

SysScanDesc
sf_base_scan_catalog(Relation catalog, const char *index, const char *column, RegProcedure equal,
					 Datum key, Snapshot snapshot)
{
	Oid			index_oid = get_relname_relid(index, PG_CATALOG_NAMESPACE);
	ScanKeyData scan_key;

	SF_ASSERT(CheckRelationLockedByMe(catalog, AccessShareLock, true));
	ScanKeyInit(&scan_key, sf_base_column_number(catalog, column), BTEqualStrategyNumber, equal,
				key);
	return systable_beginscan(catalog, index_oid, OidIsValid(index_oid), snapshot, 1, &scan_key);
}

/* Has the catalog of shells a row for the table? */
static bool
has_row(Relation catalog, Oid table_oid)
{
	SysScanDesc scan = sf_base_scan_catalog(catalog, SHELLS_INDEX, SHELLS_TABLE, F_OIDEQ,
											ObjectIdGetDatum(table_oid), NULL);
	bool		found = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	return found;
}

bool
sf_base_has_shells(void)
{
	return OidIsValid(get_relname_relid(SHELLS, PG_CATALOG_NAMESPACE));
}

bool
sf_base_is_shell(Oid table_oid)
{
	Oid			catalog_oid = get_relname_relid(SHELLS, PG_CATALOG_NAMESPACE);
	Relation	catalog;
	bool		found;

	if (!OidIsValid(catalog_oid))
		return false;
	/* it may be dropped meanwhile, with Citus: then there are no shells */
	catalog = try_relation_open(catalog_oid, AccessShareLock);
	if (catalog == NULL)
		return false;
	found = has_row(catalog, table_oid);
	relation_close(catalog, AccessShareLock);
	return found;
}

void
sf_base_lock_nodes(void)
{
	Oid			nodes = get_relname_relid(NODES, PG_CATALOG_NAMESPACE);

	if (OidIsValid(nodes))
		LockRelationOid(nodes, RowShareLock);
}

void
sf_base_refuse_shell(Oid table_oid)
{
	if (sf_base_is_shell(table_oid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" is a distributed table", get_rel_name(table_oid)),
				 errdetail("Its values lie in shards, which may be on other servers."),
				 errhint("Use the functions securefile_dist_* of the extension securefile_citus, or call this function for each shard by run_command_on_shards().")));
}

void
sf_base_refuse_remote(Oid table_oid)
{
	ListCell   *lc;

	sf_base_refuse_shell(table_oid);
	if (get_rel_relkind(table_oid) != RELKIND_PARTITIONED_TABLE)
		return;
	foreach(lc, find_all_inheritors(table_oid, NoLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_FOREIGN_TABLE)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("\"%s\" has foreign tables as partitions", get_rel_name(table_oid)),
					 errdetail("The values of partition \"%s\" are stored on another server.",
							   get_rel_name(lfirst_oid(lc))),
					 errhint("Call the function for each of the other partitions, and for the values of this one on their own server.")));
	}
}
