/*-------------------------------------------------------------------------
 *
 * set_max_size.c
 *	  securefile_set_max_size(table, column, size): another limit for a column.
 *
 * ALTER TABLE refuses to change the type of a column that a view, a rule, a policy or a trigger
 * uses, and a limit has to be raised just when the column is full.  So this function changes
 * the size in the type modifier and nothing else: no value, no segment and no trigger depends
 * on it.
 *
 * Of a table by itself, readers and writers go on.  A session that is between a parent and its
 * child would find two types that differ, so trees of tables are locked from everybody.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(securefile_set_max_size);

/* Lock a table, and all that inherits from it; returns them. */
static List *
lock_tables(Oid relid)
{
	bool		alone = get_rel_relkind(relid) == RELKIND_RELATION && !has_subclass(relid);
	LOCKMODE	lockmode = alone ? ShareUpdateExclusiveLock : AccessExclusiveLock;
	List	   *tables;

	LockRelationOid(relid, lockmode);
	tables = find_all_inheritors(relid, lockmode, NULL);
	/* it may have got a child while we waited */
	if (alone && list_length(tables) > 1)
	{
		LockRelationOid(relid, AccessExclusiveLock);
		tables = find_all_inheritors(relid, AccessExclusiveLock, NULL);
	}
	return tables;
}

/* Change the size in one table. */
static void
set_size(Oid relid, const char *column, const char *size)
{
	AttrNumber	attnum = get_attnum(relid, column);
	Oid			typid;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(relid, attnum, &typid, &typmod, &collation);
	typmod = sf_config_with_max_size(typmod, size);
	sfi_ddl_set_typmod(relid, attnum, typmod);
	sfi_ddl_renew_indexes(relid, attnum, typmod);
}

/*
 * securefile_set_max_size(table regclass, column name, max_size text) returns void
 *
 * Views come last: one may be over several of the tables.
 */
Datum
securefile_set_max_size(PG_FUNCTION_ARGS)
{
	Oid			relid;
	char	   *column;
	char	   *size;
	List	   *tables;
	ListCell   *cell;

	sf_base_refuse_nulls(fcinfo, 0, 2, "table, column and size");
	relid = PG_GETARG_OID(0);
	column = NameStr(*PG_GETARG_NAME(1));
	size = text_to_cstring(PG_GETARG_TEXT_PP(2));
	sf_base_require_writes("securefile_set_max_size()");
	sf_base_require_preload();
	sfi_ddl_require_own_options(relid, column, "limit", "securefile_set_max_size()");
	tables = lock_tables(relid);
	/* it may have been dropped, or changed, while we waited */
	sfi_ddl_require_own_options(relid, column, "limit", "securefile_set_max_size()");
	foreach(cell, tables)
		sf_ddl_require_owner(lfirst_oid(cell));
	foreach(cell, tables)
		set_size(lfirst_oid(cell), column, size);
	foreach(cell, tables)
		sfi_ddl_renew_views(lfirst_oid(cell), get_attnum(lfirst_oid(cell), column));
	PG_RETURN_VOID();
}
