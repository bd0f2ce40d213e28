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
 * Of a distributed table, securefile_citus calls the first function here for each shard and
 * the second one for the shell of each node (base/remote.c).
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
PG_FUNCTION_INFO_V1(securefile_dist_set_shell_max_size);

/*
 * Of a shell that stands by itself.  A move of a shard makes the new one like the shell of the
 * coordinator, with ShareUpdateExclusiveLock there, or RowExclusiveLock from Citus 13.2 on.
 */
#define SHELL_LOCK	ShareRowExclusiveLock

/* ERROR unless the limit of the column is that of the table itself, and the user's to change. */
static void
require_limit(Oid relid, const char *column, bool shell)
{
	if (shell)
		sfi_ddl_require_named_column(relid, column);
	else
		sfi_ddl_require_column(relid, column);
	if (shell && !sf_base_is_shell(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a distributed table", get_rel_name(relid))));
	sfi_ddl_require_own_options(relid, column, 0, "limit", shell ?
								"securefile_dist_set_max_size()" : "securefile_set_max_size()");
}

/* Lock a table, and all that inherits from it; returns them, and of each its number of parents. */
static List *
lock_tables(Oid relid, const char *column, bool shell, List **parents)
{
	bool		alone = get_rel_relkind(relid) == RELKIND_RELATION && !has_subclass(relid);
	LOCKMODE	of_alone = shell ? SHELL_LOCK : ShareUpdateExclusiveLock;
	LOCKMODE	lockmode = alone ? of_alone : AccessExclusiveLock;
	List	   *tables;

	if (shell)
		sf_base_lock_nodes();
	LockRelationOid(relid, lockmode);
	/* it may have been dropped while we waited */
	sfi_ddl_require_named_column(relid, column);
	tables = find_all_inheritors(relid, lockmode, parents);
	/* it may have got a child while we waited */
	if (alone && list_length(tables) > 1)
	{
		LockRelationOid(relid, AccessExclusiveLock);
		tables = find_all_inheritors(relid, AccessExclusiveLock, parents);
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
	sfi_ddl_renew_expressions(relid, attnum, typmod);
}

/*
 * Change the size in a table, and in all that inherits from it.  Views come last: one may be over
 * several of the tables.
 */
static void
set_max_size(FunctionCallInfo fcinfo, bool shell)
{
	Oid			relid;
	char	   *column;
	char	   *size;
	List	   *tables;
	List	   *parents;
	ListCell   *cell;
	ListCell   *parents_cell;

	sf_base_refuse_nulls(fcinfo, 0, 2, "table, column and size");
	relid = PG_GETARG_OID(0);
	column = NameStr(*PG_GETARG_NAME(1));
	size = text_to_cstring(PG_GETARG_TEXT_PP(2));
	sf_base_require_writes("securefile_set_max_size()");
	sf_base_require_preload();
	require_limit(relid, column, shell);
	tables = lock_tables(relid, column, shell, &parents);
	/* it may have been dropped, or changed, while we waited */
	require_limit(relid, column, shell);
	forboth(cell, tables, parents_cell, parents)
	{
		sf_ddl_require_owner(lfirst_oid(cell));
		sfi_ddl_require_own_options(lfirst_oid(cell), column, lfirst_int(parents_cell), "limit",
									"securefile_set_max_size()");
	}
	foreach(cell, tables)
		set_size(lfirst_oid(cell), column, size);
	foreach(cell, tables)
		sfi_ddl_renew_views(lfirst_oid(cell), get_attnum(lfirst_oid(cell), column));
}

/* securefile_set_max_size(table regclass, column name, max_size text) returns void */
Datum
securefile_set_max_size(PG_FUNCTION_ARGS)
{
	set_max_size(fcinfo, false);
	PG_RETURN_VOID();
}

/* securefile_dist_set_shell_max_size(table regclass, column name, max_size text) returns void */
Datum
securefile_dist_set_shell_max_size(PG_FUNCTION_ARGS)
{
	set_max_size(fcinfo, true);
	PG_RETURN_VOID();
}
