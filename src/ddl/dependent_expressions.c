/*-------------------------------------------------------------------------
 *
 * dependent_expressions.c
 *	  Expressions that are stored with a table, of which a column got another type modifier.
 *
 * Each mention of a column in a stored expression has the modifier of the time when it was made.
 * It changes no result.  But the planner looks for expressions that are equal to the bit: with an
 * old modifier an index, extended statistics, a CHECK constraint or the key of partitions would
 * not serve a query of today any more, nor would the condition of a policy find an index.
 *
 * So the mentions are changed where they are.  Rules other than those of views, and bodies of SQL
 * functions, stay as they are: they are planned like the queries that they are, and the worst that
 * an old modifier does there is that an index is not used until they are made anew.  Publications
 * cannot name a column of a type that is not the server's own.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_partitioned_table.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
#include "ddl/objects.h"
#include "nodes/nodeFuncs.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/rel.h"

#define EXPRESSIONS_MAX		2

/* A catalog whose rows have expressions of one table each. */
typedef struct Stored
{
	Oid			catalog;
	Oid			index;			/* of the catalog, that begins with the table */
	AttrNumber	table;
	AttrNumber	expressions[EXPRESSIONS_MAX];
} Stored;

static const Stored all_stored[] = {
	{IndexRelationId, IndexIndrelidIndexId, Anum_pg_index_indrelid,
	{Anum_pg_index_indexprs, Anum_pg_index_indpred}},
	{ConstraintRelationId, ConstraintRelidTypidNameIndexId, Anum_pg_constraint_conrelid,
	{Anum_pg_constraint_conbin}},
	{AttrDefaultRelationId, AttrDefaultIndexId, Anum_pg_attrdef_adrelid,
	{Anum_pg_attrdef_adbin}},
	{StatisticExtRelationId, StatisticExtRelidIndexId, Anum_pg_statistic_ext_stxrelid,
	{Anum_pg_statistic_ext_stxexprs}},
	{PartitionedRelationId, PartitionedRelidIndexId, Anum_pg_partitioned_table_partrelid,
	{Anum_pg_partitioned_table_partexprs}},
	{PolicyRelationId, PolicyPolrelidPolnameIndexId, Anum_pg_policy_polrelid,
	{Anum_pg_policy_polqual, Anum_pg_policy_polwithcheck}},
	{TriggerRelationId, TriggerRelidNameIndexId, Anum_pg_trigger_tgrelid,
	{Anum_pg_trigger_tgqual}},
};

/* A column, and its new type modifier. */
typedef struct Retyped
{
	AttrNumber	attnum;
	int32		typmod;
	int			depth;			/* of queries in the expression, as policies
								 * have */
	bool		found;
} Retyped;

/*
 * An expression over one table, or OLD and NEW of one, with the new type modifier.  A query in it
 * may be over the same table once more; there the modifier stays.
 */
static Node *
retype(Node *node, void *arg)
{
	Retyped    *to = arg;

	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = copyObject((Var *) node);

		if (var->varlevelsup == to->depth && var->varattno == to->attnum)
		{
			var->vartypmod = to->typmod;
			to->found = true;
		}
		return (Node *) var;
	}
	if (IsA(node, Query))
	{
		Query	   *query;

		to->depth++;
		query = query_tree_mutator((Query *) node, retype, to, 0);
		to->depth--;
		return (Node *) query;
	}
	return expression_tree_mutator(node, retype, arg);
}

/* Change the expressions of one row that mention the column. */
static void
renew_row(Relation catalog, HeapTuple row, const Stored *stored, Retyped *to)
{
	TupleDesc	desc = RelationGetDescr(catalog);
	int			columns[EXPRESSIONS_MAX];
	Datum		values[EXPRESSIONS_MAX];
	bool		nulls[EXPRESSIONS_MAX] = {false};
	int			n = 0;

	for (int i = 0; i < EXPRESSIONS_MAX && stored->expressions[i] != InvalidAttrNumber; i++)
	{
		bool		isnull;
		Datum		value = heap_getattr(row, stored->expressions[i], desc, &isnull);
		Node	   *node;

		if (isnull)
			continue;
		to->found = false;
		node = retype(stringToNode(TextDatumGetCString(value)), to);
		if (!to->found)
			continue;
		columns[n] = stored->expressions[i];
		values[n++] = CStringGetTextDatum(nodeToString(node));
	}
	if (n > 0)
	{
		row = heap_modify_tuple_by_cols(row, desc, n, columns, values, nulls);
		CatalogTupleUpdate(catalog, &row->t_self, row);
	}
}

static void
renew_stored(const Stored *stored, Oid relid, Retyped *to)
{
	Relation	catalog = table_open(stored->catalog, RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	row;

	ScanKeyInit(&key, stored->table, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, stored->index, true, NULL, 1, &key);
	while (HeapTupleIsValid(row = systable_getnext(scan)))
		renew_row(catalog, row, stored, to);
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
}

void
sfi_ddl_renew_expressions(Oid relid, AttrNumber attnum, int32 typmod)
{
	Retyped		to = {.attnum = attnum, .typmod = typmod};

	SF_ASSERT(CheckRelationOidLockedByMe(relid, ShareUpdateExclusiveLock, true));
	for (int i = 0; i < lengthof(all_stored); i++)
		renew_stored(&all_stored[i], relid, &to);
	CacheInvalidateRelcacheByRelid(relid);
	CommandCounterIncrement();
}
