/*-------------------------------------------------------------------------
 *
 * shard.c
 *	  Clients that name a shard of Citus: is it here, and keeping it here until the transaction
 *	  ends.
 *
 * They call these functions in the condition of each read and of each write, so the functions
 * are written in C: in PL/pgSQL it took a tenth of the time that a file of 1 MB takes to hold a
 * shard.  The extension securefile_citus has their SQL.  Nothing here is linked to Citus,
 * whose catalogs and function are found by their names.
 *
 * A move of a shard waits for the lock that a write through the distributed table takes.  Citus
 * lets only the owner of the table take that lock by itself.  So it is taken here as a
 * superuser, for roles that may write to the table: writers behind a move that waits wait as
 * well.  The place of the shard is looked up with the lock held, and in the newest snapshot, so
 * that what a move has committed is seen.  A read has no lock: for it the place counts that the
 * shard has in the snapshot of the read, since a move copies rows before the shard is here.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "parser/parse_func.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(securefile_dist_hold_shard);
PG_FUNCTION_INFO_V1(securefile_dist_is_here);

/* The catalogs of Citus 12 to 14, their columns and indexes. */
#define SHARDS				"pg_dist_shard"
#define SHARDS_INDEX		"pg_dist_shard_shardid_index"
#define SHARDS_TABLE		"logicalrelid"
#define SHARDS_LOWEST		"shardminvalue"
#define SHARDS_HIGHEST		"shardmaxvalue"
#define PLACEMENTS			"pg_dist_placement"
#define PLACEMENTS_INDEX	"pg_dist_placement_shardid_index"
#define LOCAL_GROUP			"pg_dist_local_group"
#define NODES				"pg_dist_node"
#define IS_CLONE			"nodeisclone"	/* from 13.2 on */
#define CLONE_OF			"nodeprimarynodeid"
#define NODEID				"nodeid"
#define SHARDID				"shardid"
#define GROUPID				"groupid"
#define LOCK_FUNCTION		"lock_shard_metadata"

/* A row of the catalog of shards. */
typedef struct Shard
{
	int64		id;
	Oid			table_oid;		/* the distributed table */
	bool		has_range;		/* of hashes; a reference table has none */
	int32		lowest;
	int32		highest;
} Shard;

/* ---- catalogs of Citus ---- */

static Relation
open_catalog(const char *name)
{
	Oid			oid = get_relname_relid(name, PG_CATALOG_NAMESPACE);

	if (!OidIsValid(oid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("catalog \"%s\" of Citus does not exist", name)));
	return table_open(oid, AccessShareLock);
}

static Datum
column_value(Relation catalog, HeapTuple row, const char *name, bool *isnull)
{
	return heap_getattr(row, sf_base_column_number(catalog, name), RelationGetDescr(catalog),
						isnull);
}

/* All rows of a shard; no snapshot: in the newest one. */
static SysScanDesc
scan_shard(Relation catalog, const char *index, int64 shardid, Snapshot snapshot)
{
	return sf_base_scan_catalog(catalog, index, SHARDID, F_INT8EQ, Int64GetDatum(shardid),
								snapshot);
}

/* The end of a range, which Citus keeps as text; false: there is none. */
static bool
end_of_range(Relation catalog, HeapTuple row, const char *name, int32 *hash)
{
	bool		isnull;
	Datum		value = column_value(catalog, row, name, &isnull);

	if (!isnull)
		*hash = pg_strtoint32(TextDatumGetCString(value));
	return !isnull;
}

/* False: there is no such shard. */
static bool
find_shard(int64 shardid, Shard *shard)
{
	Relation	catalog = open_catalog(SHARDS);
	SysScanDesc scan = scan_shard(catalog, SHARDS_INDEX, shardid, NULL);
	HeapTuple	row = systable_getnext(scan);
	bool		isnull;

	shard->id = shardid;
	if (HeapTupleIsValid(row))
	{
		shard->table_oid = DatumGetObjectId(column_value(catalog, row, SHARDS_TABLE, &isnull));
		shard->has_range = end_of_range(catalog, row, SHARDS_LOWEST, &shard->lowest) &&
			end_of_range(catalog, row, SHARDS_HIGHEST, &shard->highest);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return HeapTupleIsValid(row);
}

/* The number by which Citus calls this node and its standbys. */
static int32
local_group(void)
{
	Relation	catalog = open_catalog(LOCAL_GROUP);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	row = systable_getnext(scan);
	bool		isnull;
	int32		group;

	if (!HeapTupleIsValid(row))
		elog(ERROR, "%s is empty", LOCAL_GROUP);
	group = DatumGetInt32(column_value(catalog, row, GROUPID, &isnull));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return group;
}

/* Is the shard on this node; and has it copies on others? */
static bool
is_here(int64 shardid, Snapshot snapshot, bool *has_copies)
{
	int32		group = local_group();
	Relation	catalog = open_catalog(PLACEMENTS);
	SysScanDesc scan = scan_shard(catalog, PLACEMENTS_INDEX, shardid, snapshot);
	bool		here = false;
	HeapTuple	row;

	*has_copies = false;
	while (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		bool		isnull;

		if (DatumGetInt32(column_value(catalog, row, GROUPID, &isnull)) == group)
			here = true;
		else
			*has_copies = true;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return here;
}

/* Is one of the nodes a standby of this one that is to take some of its shards? */
static bool
has_clone(void)
{
	int32		group = local_group();
	Relation	catalog = open_catalog(NODES);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	Bitmapset  *here = NULL;
	Bitmapset  *cloned = NULL;
	HeapTuple	row;
	bool		isnull;

	while (HeapTupleIsValid(row = systable_getnext(scan)))
	{
		if (DatumGetInt32(column_value(catalog, row, GROUPID, &isnull)) == group)
			here = bms_add_member(here,
								  DatumGetInt32(column_value(catalog, row, NODEID, &isnull)));
		if (DatumGetBool(column_value(catalog, row, IS_CLONE, &isnull)))
			cloned = bms_add_member(cloned,
									DatumGetInt32(column_value(catalog, row, CLONE_OF, &isnull)));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return bms_overlap(here, cloned);
}

/* Older versions of Citus do not have them. */
static bool
knows_clones(void)
{
	Oid			nodes = get_relname_relid(NODES, PG_CATALOG_NAMESPACE);

	return get_attnum(nodes, IS_CLONE) != InvalidAttrNumber;
}

/* ---- conditions ---- */

/* An older snapshot may have been taken before a move. */
static void
require_read_committed(void)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("a shard can be written to by its name only in a READ COMMITTED transaction"),
				 errdetail("The snapshot of the transaction may be older than a move of the shard."),
				 errhint("Use BEGIN ISOLATION LEVEL READ COMMITTED.")));
}

/* Some kind of write, also of some columns only. */
static void
require_privilege(const Shard *shard)
{
	const AclMode of_columns = ACL_INSERT | ACL_UPDATE;
	const AclMode of_table = of_columns | ACL_DELETE;
	Oid			table_oid = shard->table_oid;
	Oid			role = GetUserId();

	if (pg_class_aclmask(table_oid, role, of_table, ACLMASK_ANY) == 0 &&
		pg_attribute_aclcheck_all(table_oid, role, of_columns, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(table_oid));
}

static void
require_range(const Shard *shard, bool isnull, int32 hash)
{
	if (shard->has_range && (isnull || hash < shard->lowest || hash > shard->highest))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("shard " INT64_FORMAT " is not that of the key", shard->id),
				 errhint("The hash has to be worker_hash() of a value of the distribution column, and of its type. Ask for the route of the key.")));
}

/*
 * When a clone is promoted, some shards are there and no more here, and Citus takes the lock by
 * which writes wait on the coordinator only.
 */
static void
require_no_clone(const Shard *shard)
{
	if (knows_clones() && has_clone())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the node of shard " INT64_FORMAT " has a clone", shard->id),
				 errdetail("What is written to a shard by its name while the clone is promoted would be lost."),
				 errhint("Write through the distributed table on the coordinator, or promote the clone or remove it first.")));
}

/* ---- the lock ---- */

/* Until the transaction ends, or the subtransaction is rolled back. */
static void
lock_shard(const Shard *shard)
{
	List	   *name = list_make2(makeString("pg_catalog"), makeString(LOCK_FUNCTION));
	Oid			types[] = {INT4OID, INT8ARRAYOID};
	Oid			function = LookupFuncName(name, lengthof(types), types, false);
	Datum		shardid = Int64GetDatum(shard->id);
	ArrayType  *shards = construct_array(&shardid, 1, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
										 TYPALIGN_DOUBLE);
	Oid			role;
	int			context;

	GetUserIdAndSecContext(&role, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	OidFunctionCall2(function, Int32GetDatum(ShareLock), PointerGetDatum(shards));
	SetUserIdAndSecContext(role, context);
}

/*
 * securefile_dist_hold_shard(shardid bigint [, hash integer]) returns boolean
 *
 * False if the shard is not on this node.
 */
Datum
securefile_dist_hold_shard(PG_FUNCTION_ARGS)
{
	Shard		shard = {0};
	bool		here;
	bool		has_copies;

	require_read_committed();
	if (PG_ARGISNULL(0) || !find_shard(PG_GETARG_INT64(0), &shard))
		PG_RETURN_BOOL(false);
	require_privilege(&shard);
	if (PG_NARGS() > 1)
		require_range(&shard, PG_ARGISNULL(1), PG_ARGISNULL(1) ? 0 : PG_GETARG_INT32(1));
	lock_shard(&shard);
	/* before the place: a promotion changes both in one transaction */
	require_no_clone(&shard);
	here = is_here(shard.id, NULL, &has_copies);
	if (here && has_copies)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("shard " INT64_FORMAT " has copies on several nodes", shard.id),
				 errhint("Write through the distributed table.")));
	PG_RETURN_BOOL(here);
}

/* securefile_dist_is_here(shardid bigint) returns boolean */
Datum
securefile_dist_is_here(PG_FUNCTION_ARGS)
{
	bool		has_copies;

	PG_RETURN_BOOL(is_here(PG_GETARG_INT64(0), GetActiveSnapshot(), &has_copies));
}
