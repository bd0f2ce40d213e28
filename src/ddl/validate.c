/*-------------------------------------------------------------------------
 *
 * validate.c
 *	  Columns that cannot hold securefile values, and why.
 *
 * A stored value lives exactly as long as its row says, and the row triggers
 * see it only as a column of its own.  So it must not hide inside another
 * value (array, composite, range), and not in relations whose rows come into
 * being without row triggers (materialized views, generated columns).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/dependency.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "nodes/nodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

static void
refuse_materialized_view(Relation rel, Form_pg_attribute att)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("materialized view \"%s\" cannot have column \"%s\" of type %s",
					RelationGetRelationName(rel), NameStr(att->attname),
					format_type_be(att->atttypid)),
			 errhint("Cast the column to bytea, or leave it out and join with the table.")));
}

/*
 * pg_repack copies the rows to a table of its own, swaps the files of the two
 * and drops the other one, with our segment and all the data.  Before that it
 * makes a table of changes, with a column of the row type.
 */
static void
refuse_repack(Relation rel)
{
	Oid			extension = getExtensionOfObject(NamespaceRelationId,
												 RelationGetNamespace(rel));
	char	   *name = OidIsValid(extension) ? get_extension_name(extension) : NULL;

	if (name != NULL && strcmp(name, "pg_repack") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pg_repack cannot work on tables with securefile columns"),
				 errdetail("It would swap the rows, but not the segments they point into."),
				 errhint("Use VACUUM FULL or CLUSTER, which leave the stored values where they are.")));
}

static void
refuse_generated(Relation rel, Form_pg_attribute att)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("generated column \"%s\" of table \"%s\" cannot be of type %s",
					NameStr(att->attname), RelationGetRelationName(rel),
					format_type_be(att->atttypid)),
			 errhint("Use a trigger that sets the column, or generate a bytea.")));
}

/* Returns true for a securefile column, false for a nested one that is fine. */
static bool
validate_column(Relation rel, Form_pg_attribute att)
{
	int32		typmod = att->atttypmod;
	bool		direct = sfi_ddl_is_securefile(att->atttypid, &typmod);

	/* these hold nothing by themselves; but a table with their row types does */
	if (rel->rd_rel->relkind == RELKIND_COMPOSITE_TYPE ||
		rel->rd_rel->relkind == RELKIND_VIEW ||
		rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		return true;
	if (rel->rd_rel->relkind == RELKIND_MATVIEW)
		refuse_materialized_view(rel, att);
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		refuse_repack(rel);
	if (!direct)
		sfi_ddl_refuse_nested(rel, att);
	if (att->attgenerated != '\0')
		refuse_generated(rel, att);
	return true;
}

bool
sfi_ddl_validate(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		has_columns = false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && sfi_ddl_contains_securefile(att->atttypid))
			has_columns |= validate_column(rel, att);
	}

	/* the row type may already be in use as the type of some column */
	if (has_columns && OidIsValid(rel->rd_rel->reltype))
		find_composite_type_dependencies(rel->rd_rel->reltype, rel, NULL);
	return has_columns;
}

void
sfi_ddl_refuse_nested(Relation rel, Form_pg_attribute att)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("column \"%s\" of table \"%s\" cannot have type %s",
					NameStr(att->attname), RelationGetRelationName(rel),
					format_type_be(att->atttypid)),
			 errdetail("A securefile value must be a column of its own, not part of an array, row or range."),
			 errhint("Use a table with a column of type securefile, or bytea inside the type.")));
}

/*
 * Expressions or predicate of an index, as the catalog has them; NULL: none.
 *
 * What the relation cache gives out (RelationGetIndexExpressions()) is folded to
 * constants, that is, functions of the table's owner are called on the way.  Here
 * nothing of the kind may run: the current user is the role that runs the command.
 */
static Node *
read_expressions(Relation index, AttrNumber attribute)
{
	bool		isnull;
	Datum		nodes = SysCacheGetAttr(INDEXRELID, index->rd_indextuple, attribute, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(nodes));
}

/* Columns of its table that an index or its expressions look at. */
static Bitmapset *
index_columns(Relation index)
{
	Bitmapset  *columns = NULL;

	for (int i = 0; i < index->rd_index->indnatts; i++)
		if (index->rd_index->indkey.values[i] > 0)
			columns = bms_add_member(columns, index->rd_index->indkey.values[i] -
									 FirstLowInvalidHeapAttributeNumber);
	pull_varattnos(read_expressions(index, Anum_pg_index_indexprs), 1, &columns);
	pull_varattnos(read_expressions(index, Anum_pg_index_indpred), 1, &columns);
	return columns;
}

bool
sfi_ddl_takes(const Bitmapset *taken, AttrNumber attnum)
{
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, taken) ||
		bms_is_member(-FirstLowInvalidHeapAttributeNumber, taken);	/* the whole row */
}

bool
sfi_ddl_index_has_key(Relation index, AttrNumber attnum)
{
	List	   *expressions = (List *) read_expressions(index, Anum_pg_index_indexprs);
	ListCell   *next = list_head(expressions);

	/* 0 is the key that is an expression */
	SF_ASSERT(attnum > 0);
	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		AttrNumber	key = index->rd_index->indkey.values[i];
		Bitmapset  *columns = NULL;
		int32		typmod = -1;

		if (key == attnum)
			return true;
		if (key != 0)
			continue;
		pull_varattnos(lfirst(next), 1, &columns);
		if (sfi_ddl_is_securefile(exprType(lfirst(next)), &typmod) &&
			sfi_ddl_takes(columns, attnum))
			return true;
		next = lnext(expressions, next);
	}
	return false;
}

/*
 * ERROR when an expression has securefile values inside its own: these are kept by
 * ANALYZE, which knows securefile only.  kind and name: of what has the expressions.
 */
static void
refuse_nested_expressions(Node *expressions, const char *kind, const char *name, const char *hint)
{
	ListCell   *lc;

	foreach(lc, castNode(List, expressions))
	{
		Oid			type = exprType(lfirst(lc));
		int32		typmod = -1;

		if (sfi_ddl_contains_securefile(type) && !sfi_ddl_is_securefile(type, &typmod))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s \"%s\" cannot have an expression of type %s",
							kind, name, format_type_be(type)),
					 errdetail("A securefile value must not be part of an array, row or range that is kept."),
					 errhint("%s", hint)));
	}
}

/*
 * The object has just been made: its row is visible to nobody else, and to us only
 * by the snapshot that sees all.
 */
void
sfi_ddl_validate_statistics(Oid statistics_oid)
{
	Relation	catalog;
	HeapTuple	tuple;
	bool		isnull = true;
	Datum		nodes = (Datum) 0;

	if (sfi_ddl_objects() == NULL)
		return;
	catalog = table_open(StatisticExtRelationId, AccessShareLock);
	tuple = sf_ddl_catalog_row(catalog, StatisticExtOidIndexId, Anum_pg_statistic_ext_oid,
							   statistics_oid, SnapshotSelf);
	if (HeapTupleIsValid(tuple))
		nodes = heap_getattr(tuple, Anum_pg_statistic_ext_stxexprs,
							 RelationGetDescr(catalog), &isnull);
	if (!isnull)
		refuse_nested_expressions(stringToNode(TextDatumGetCString(nodes)), "statistics object",
								  NameStr(((Form_pg_statistic_ext) GETSTRUCT(tuple))->stxname),
								  "Use an expression of another type, such as the length of the column, or cast the column to bytea inside the expression.");
	table_close(catalog, AccessShareLock);
}

void
sfi_ddl_guard_type(Node *stmt)
{
	AlterTableStmt *alter = (AlterTableStmt *) stmt;
	ListCell   *lc;

	if (!IsA(stmt, AlterTableStmt) || alter->objtype != OBJECT_TYPE ||
		sfi_ddl_objects() == NULL)
		return;
	foreach(lc, alter->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		Oid			relid;
		Oid			old_type;
		Oid			new_type;

		if (cmd->subtype != AT_AlterColumnType)
			continue;
		relid = RangeVarGetRelid(alter->relation, AccessShareLock, true);
		old_type = !OidIsValid(relid) ? InvalidOid :
			get_atttype(relid, get_attnum(relid, cmd->name));
		new_type = LookupTypeNameOid(NULL, castNode(ColumnDef, cmd->def)->typeName, true);
		if ((OidIsValid(old_type) && sfi_ddl_contains_securefile(old_type)) ||
			(OidIsValid(new_type) && sfi_ddl_contains_securefile(new_type)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot change attribute \"%s\" of type \"%s\" to or from securefile",
							cmd->name, alter->relation->relname),
					 errdetail("Values of the type that are kept elsewhere would not be changed with it."),
					 errhint("Create a new type.")));
	}
}

static bool
is_edit(Oid function, void *context)
{
	return sfi_ddl_edits(function);
}

static bool
has_edit(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return check_functions_in_node(node, is_edit, context) ||
		expression_tree_walker(node, has_edit, context);
}

/* ERROR when an index would keep, or go by, a value that has no place of its own. */
static void
refuse_edits(Relation index)
{
	if (has_edit(read_expressions(index, Anum_pg_index_indexprs), NULL) ||
		has_edit(read_expressions(index, Anum_pg_index_indpred), NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" cannot have an edited securefile value in an expression",
						RelationGetRelationName(index)),
				 errdetail("||, overlay(), securefile_truncate(), securefile_part() and the like return such values. They are made anew, and read whole, each time that they are looked at."),
				 errhint("Create the index on an expression of the column itself.")));
}

void
sfi_ddl_validate_index(Relation index)
{
	Oid			table_oid = index->rd_index->indrelid;
	Bitmapset  *columns;
	int			member = -1;

	refuse_nested_expressions(read_expressions(index, Anum_pg_index_indexprs), "index",
							  RelationGetRelationName(index),
							  "Create a hash index on the column itself, which finds its values by their content.");
	refuse_edits(index);
	if (!index->rd_index->indisexclusion)
		return;
	columns = index_columns(index);
	while ((member = bms_next_member(columns, member)) >= 0)
	{
		AttrNumber	attnum = member + FirstLowInvalidHeapAttributeNumber;

		if (attnum > 0 && sfi_ddl_contains_securefile(get_atttype(table_oid, attnum)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" of type securefile cannot be part of an exclusion constraint",
							get_attname(table_oid, attnum, false)),
					 errdetail("The check would read values of other transactions before they are on disk."),
					 errhint("Use a column with a hash of the contents, set by a trigger.")));
	}
}
