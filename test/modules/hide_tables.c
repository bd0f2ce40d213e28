/*-------------------------------------------------------------------------
 *
 * hide_tables.c
 *	  Hides tables whose names begin with "hidden" from queries of pg_class, as Citus hides
 *	  shards: the planner hook adds a condition to each query that reads it.
 *
 * Loaded with LOAD, for the session.  For test/t/distributed/215_hidden_tables.pl.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static planner_hook_type next_planner = NULL;

/* NOT starts_with(relname::text, 'hidden'); true for the nulls of an outer join */
static Node *
make_condition(int varno)
{
	Var		   *name = makeVar(varno, Anum_pg_class_relname, NAMEOID, -1, C_COLLATION_OID, 0);
	FuncExpr   *text = makeFuncExpr(F_TEXT_NAME, TEXTOID, list_make1(name), DEFAULT_COLLATION_OID,
									C_COLLATION_OID, COERCE_EXPLICIT_CALL);
	Const	   *prefix = makeConst(TEXTOID, -1, DEFAULT_COLLATION_OID, -1,
								   PointerGetDatum(cstring_to_text("hidden")), false, false);
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = (Expr *) makeFuncExpr(F_STARTS_WITH, BOOLOID, list_make2(text, prefix),
									  InvalidOid, DEFAULT_COLLATION_OID, COERCE_EXPLICIT_CALL);
	test->booltesttype = IS_NOT_TRUE;
	test->location = -1;
	return (Node *) test;
}

static bool
reads(Node *node, void *varno)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblRef))
		return ((RangeTblRef *) node)->rtindex == *(int *) varno;
	return expression_tree_walker(node, reads, varno);
}

static bool
hide(Node *node, void *context)
{
	Query	   *query = (Query *) node;
	int			varno = 0;
	ListCell   *cell;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, hide, context);
	foreach(cell, query->rtable)
	{
		RangeTblEntry *entry = lfirst(cell);

		varno++;
		if (entry->rtekind == RTE_RELATION && entry->relid == RelationRelationId &&
			reads((Node *) query->jointree->fromlist, &varno))
			query->jointree->quals = make_and_qual(query->jointree->quals,
												   make_condition(varno));
	}
	return query_tree_walker(query, hide, context, 0);
}

static PlannedStmt *
plan(Query *query, const char *text, int options, ParamListInfo params)
{
	(void) hide((Node *) query, NULL);
	return next_planner != NULL ? next_planner(query, text, options, params)
		: standard_planner(query, text, options, params);
}

void
_PG_init(void)
{
	next_planner = planner_hook;
	planner_hook = plan;
}
