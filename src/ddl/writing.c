/*-------------------------------------------------------------------------
 *
 * writing.c
 *	  The column that a value is written for, before there is a row: which
 *	  segment that is, and whether the user may.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#define NAMES_SHOWN		10

/* ---- tables and columns that functions are called with ---- */

/* A partition or child may be somebody else's. */
void
sf_ddl_require_owner(Oid table_oid)
{
	if (!sf_compat_owns_table(table_oid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(table_oid));
}

void
sfi_ddl_require_named_column(Oid table_oid, const char *column)
{
	char	   *name = get_rel_name(table_oid);
	char		relkind = get_rel_relkind(table_oid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with OID %u does not exist", table_oid)));
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name)));
	sf_ddl_require_owner(table_oid);
	sf_base_refuse_other_temp(table_oid);
	(void) sf_ddl_find_column(table_oid, column);
}

void
sfi_ddl_require_column(Oid table_oid, const char *column)
{
	sfi_ddl_require_named_column(table_oid, column);
	sf_base_refuse_remote(table_oid);
}

/* Is this a table of a composite type (CREATE TABLE .. OF)? */
static bool
is_typed(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		typed;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find relation %u", relid);
	typed = OidIsValid(((Form_pg_class) GETSTRUCT(tuple))->reloftype);
	ReleaseSysCache(tuple);
	return typed;
}

/* A column that has its options from parents, of which some are not changed with it. */
SF_NORETURN static void
refuse_inherited(Oid relid, const char *column, int parents, const char *what,
				 const char *function)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("cannot change the %s of inherited column \"%s\" of table \"%s\"", what, column,
					get_rel_name(relid)),
			 parents > 0 ? errdetail("The table has the column from another parent, too.") : 0,
			 parents > 0 ? 0 : errhint("Call %s for the parent table.", function)));
}

void
sfi_ddl_require_own_options(Oid relid, const char *column, int parents, const char *what,
							const char *function)
{
	HeapTuple	tuple = SearchSysCacheAttName(relid, column);
	Form_pg_attribute att;
	bool		inherited;
	bool		domain;

	SF_ASSERT(parents >= 0);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find column \"%s\" of relation %u", column, relid);
	att = (Form_pg_attribute) GETSTRUCT(tuple);
	inherited = att->attinhcount > parents;
	domain = get_typtype(att->atttypid) != TYPTYPE_BASE;
	ReleaseSysCache(tuple);

	if (inherited)
		refuse_inherited(relid, column, parents, what, function);
	if (domain)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot change the %s of column \"%s\", whose type is a domain", what, column),
				 errdetail("The options of the column are those of the domain."),
				 errhint("Change the type of the column to bytea first, and then to securefile with the options wanted.")));
	if (is_typed(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot change the %s of column \"%s\" of a typed table", what, column),
				 errdetail("The options of the column are those of the composite type."),
				 errhint("Use ALTER TYPE .. ALTER ATTRIBUTE .. CASCADE.")));
}

AttrNumber
sf_ddl_find_column(Oid table_oid, const char *column)
{
	AttrNumber	attnum = get_attnum(table_oid, column);
	Oid			typid;
	int32		typmod;
	Oid			collation;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist",
						column, get_rel_name(table_oid))));
	get_atttypetypmodcoll(table_oid, attnum, &typid, &typmod, &collation);
	if (!sfi_ddl_is_securefile(typid, &typmod))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s\" is not of type securefile",
						column, get_rel_name(table_oid)),
				 errhint("View securefile_columns lists those that are.")));
	/* no system column is of the type */
	SF_ASSERT(attnum > 0);
	return attnum;
}

/* ---- the column that a value is written for ---- */

/* Names of the partitions that have rows, as far as there is room. */
static char *
partition_names(Oid table_oid)
{
	StringInfoData names;
	ListCell   *lc;
	int			n = 0;

	initStringInfo(&names);
	foreach(lc, find_all_inheritors(table_oid, AccessShareLock, NULL))
	{
		Oid			relid = lfirst_oid(lc);

		if (get_rel_relkind(relid) != RELKIND_RELATION)
			continue;
		if (n++ == NAMES_SHOWN)
		{
			appendStringInfoString(&names, ", ...");
			break;
		}
		appendStringInfo(&names, "%s%s", n > 1 ? ", " : "",
						 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
													get_rel_name(relid)));
	}
	return names.data;
}

/* ERROR unless this is an ordinary table; for a partitioned one, name its partitions. */
static void
require_table(Relation rel)
{
	char	   *names;

	sf_base_refuse_shell(RelationGetRelid(rel));
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		return;
	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel))));
	names = partition_names(RelationGetRelid(rel));
	if (names[0] == '\0')
		sf_base_refuse_remote(RelationGetRelid(rel));
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is a partitioned table, whose values lie in its partitions",
					RelationGetRelationName(rel)),
			 names[0] == '\0' ? errdetail("It has no partitions.") :
			 errdetail("Its partitions are: %s.", names),
			 errhint("Name the partition that the row will be in.")));
}

void
sf_ddl_require_privilege(Oid table_oid, AttrNumber attnum, uint64 any_of)
{
	/* every role has all of no privileges */
	SF_ASSERT(any_of != 0 && attnum > 0);
	if (pg_class_aclcheck(table_oid, GetUserId(), any_of) != ACLCHECK_OK &&
		pg_attribute_aclcheck(table_oid, attnum, GetUserId(), any_of) != ACLCHECK_OK)
		aclcheck_error_col(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(table_oid),
						   get_attname(table_oid, attnum, true));
}

SfSegment *
sf_ddl_column_to_write(Oid table_oid, const char *column)
{
	Relation	rel = try_relation_open(table_oid, RowExclusiveLock);
	AttrNumber	attnum;
	SfColumn	described;

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with OID %u does not exist", table_oid)));
	require_table(rel);
	attnum = sf_ddl_find_column(table_oid, column);
	described = sfi_ddl_column(rel, attnum);
	sf_ddl_require_privilege(table_oid, attnum, ACL_INSERT | ACL_UPDATE);
	sf_base_refuse_other_temp(table_oid);
	relation_close(rel, NoLock);
	return described.permanent
		? sf_space_open(table_oid, attnum, RowExclusiveLock, false) : NULL;
}
