/*-------------------------------------------------------------------------
 *
 * column_access.c
 *	  The column that a call is about: which tables it stands for, and whether
 *	  the caller may look at it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "check/check.h"
#include "miscadmin.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* ERROR unless the caller owns a table or, with monitors, is a member of pg_monitor. */
static void
require_privilege(Oid table_oid, bool monitors)
{
	char	   *name = get_rel_name(table_oid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", table_oid)));
	if (monitors && has_privs_of_role(GetUserId(), ROLE_PG_MONITOR))
		return;
	if (!sf_compat_owns_table(table_oid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(table_oid)), name);
}

/* The functions are not strict: no row for a null would look like "no finding". */
void
sf_check_require_arguments(FunctionCallInfo fcinfo, bool monitors)
{
	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	require_privilege(PG_GETARG_OID(0), monitors);
	sf_base_refuse_other_temp(PG_GETARG_OID(0));
}

void
sf_check_refuse_dropped(const char *function, const char *back)
{
	if (sf_space_has_dropped())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot call %s in a transaction that has truncated, rewritten or dropped a securefile column",
						function),
				 errdetail("A ROLLBACK would bring back %s.", back),
				 errhint("Commit first.")));
}

/*
 * Is a type securefile, or a domain over it?  The type lives in the schema of this
 * extension's functions, and the extension is not relocatable.
 */
static bool
is_securefile(FunctionCallInfo fcinfo, Oid typid)
{
	Oid			schema = get_func_namespace(fcinfo->flinfo->fn_oid);
	Oid			securefile = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
											 CStringGetDatum("securefile"),
											 ObjectIdGetDatum(schema));

	return OidIsValid(securefile) && getBaseType(typid) == securefile;
}

/* Find the column's number; ERROR when it is missing or of another type. */
static AttrNumber
find_column(FunctionCallInfo fcinfo, Relation rel, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						name, RelationGetRelationName(rel))));
	if (attnum < 0 || !is_securefile(fcinfo, get_atttype(RelationGetRelid(rel), attnum)))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s\" is not of type securefile",
						name, RelationGetRelationName(rel)),
				 errhint("View securefile_columns lists those that are.")));
	return attnum;
}

/* The column of one leaf.  All leaves have the same names, but perhaps other numbers. */
static SfCheckColumn *
leaf_column(Oid table_oid, const char *name, bool is_partition)
{
	SfCheckColumn *column = palloc(sizeof(SfCheckColumn));

	SF_ASSERT(get_rel_relkind(table_oid) == RELKIND_RELATION);
	column->table_oid = table_oid;
	column->attnum = get_attnum(table_oid, name);
	column->name = name;
	column->table = get_rel_name(table_oid);
	column->permanent = get_rel_persistence(table_oid) == RELPERSISTENCE_PERMANENT;
	column->is_partition = is_partition;
	return column;
}

/* The columns of all partitions that have segments: those of permanent leaves. */
static List *
partition_columns(List *relids, const char *name, bool monitors)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, relids)
	{
		Oid			relid = lfirst_oid(cell);

		/* a partition may have another owner than its parent */
		require_privilege(relid, monitors);
		if (get_rel_relkind(relid) == RELKIND_RELATION &&
			get_rel_persistence(relid) == RELPERSISTENCE_PERMANENT)
			columns = lappend(columns, leaf_column(relid, name, true));
	}
	return columns;
}

List *
sf_check_columns(FunctionCallInfo fcinfo, LOCKMODE lockmode, bool monitors, List **locked)
{
	Oid			table_oid = PG_GETARG_OID(0);
	char	   *name = NameStr(*PG_GETARG_NAME(1));
	Relation	rel;
	char		relkind;
	List	   *relids;
	List	   *columns;

	/* before the lock, somebody may have dropped the table, or given it away */
	LockRelationOid(table_oid, lockmode);
	require_privilege(table_oid, monitors);
	rel = table_open(table_oid, NoLock);
	relkind = rel->rd_rel->relkind;
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel))));
	(void) find_column(fcinfo, rel, name);
	sf_base_refuse_remote(table_oid);

	if (relkind == RELKIND_PARTITIONED_TABLE)
	{
		/* the table itself is the first of them */
		relids = find_all_inheritors(table_oid, lockmode, NULL);
		columns = partition_columns(relids, name, monitors);
	}
	else
	{
		relids = list_make1_oid(table_oid);
		columns = list_make1(leaf_column(table_oid, name, false));
	}
	table_close(rel, NoLock);
	if (locked != NULL)
		*locked = relids;
	return columns;
}

void
sf_check_release(List *locked, LOCKMODE lockmode)
{
	ListCell   *cell;

	foreach(cell, locked)
		UnlockRelationOid(lfirst_oid(cell), lockmode);
}

void
sf_check_refuse_partitioned(FunctionCallInfo fcinfo, const char *what)
{
	Oid			table_oid = PG_GETARG_OID(0);

	if (get_rel_relkind(table_oid) == RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a partitioned table", get_rel_name(table_oid)),
				 errdetail("Each partition has a segment, and %s, of its own.", what),
				 errhint("Call the function for each of the partitions; pg_partition_tree() lists them.")));
}

void
sf_check_report_no_segment(const SfCheckColumn *column)
{
	if (column->permanent)
		sf_space_refuse_unfinished(column->table_oid, column->attnum, false);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column \"%s\" of table \"%s\" has no segment",
					column->name, column->table),
			 column->permanent ?
			 errdetail("Its segment relation is missing.") :
			 errdetail("Temporary and unlogged tables keep values in their rows.")));
}

Oid
sf_check_segment_relid(const SfCheckColumn *column)
{
	Oid			segrelid = sf_space_segment_relid(column->table_oid, column->attnum);

	if (!column->permanent || !OidIsValid(segrelid))
		sf_check_report_no_segment(column);
	return segrelid;
}

SfSegment *
sf_check_open_segment(const SfCheckColumn *column, LOCKMODE lockmode)
{
	SfSegment  *seg = NULL;

	SF_ASSERT(AttributeNumberIsValid(column->attnum));
	if (column->permanent)
		seg = sf_space_open(column->table_oid, column->attnum, lockmode, true);
	if (seg == NULL)
		sf_check_report_no_segment(column);
	return seg;
}
