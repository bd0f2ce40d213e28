/*-------------------------------------------------------------------------
 *
 * dependent_views.c
 *	  Views over a column whose type modifier has changed.
 *
 * PostgreSQL refuses to change the type of a column that a view uses: what the view has stored
 * of it would be wrong.  A type modifier is in three places of a view: its own columns, the
 * expressions of its rule, and the same of views over it.  The first one matters most, since
 * pg_dump writes it where views depend on each other in a circle of objects, and CREATE OR
 * REPLACE VIEW compares it.  The second one decides whether an expression is that of an index
 * (dependent_expressions.c).
 *
 * So the definition of each view is read again from its own text, as a restore would do, and
 * stored in its place.  The view stays what it is: its OID, owner, rights and options.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_rewrite.h"
#include "commands/view.h"
#include "ddl/objects.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* The view, materialized or not, that a rule is the definition of; InvalidOid: another rule. */
static Oid
view_of_rule(Relation rewrite, Oid rule)
{
	Oid			view = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_rewrite_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(rule));
	scan = systable_beginscan(rewrite, RewriteOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple) && ((Form_pg_rewrite) GETSTRUCT(tuple))->ev_type == '1')
		view = ((Form_pg_rewrite) GETSTRUCT(tuple))->ev_class;
	systable_endscan(scan);
	return view;
}

/* The views whose definition names a column, or the whole row. */
static List *
views_over(Oid relid, AttrNumber attnum)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	Relation	rewrite = table_open(RewriteRelationId, AccessShareLock);
	List	   *views = NIL;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		Oid			view;

		if (form->classid != RewriteRelationId ||
			(form->refobjsubid != attnum && form->refobjsubid != 0))
			continue;
		view = view_of_rule(rewrite, form->objid);
		/* a view depends on itself, too */
		if (OidIsValid(view) && view != relid)
			views = list_append_unique_oid(views, view);
	}
	systable_endscan(scan);
	table_close(rewrite, AccessShareLock);
	table_close(depend, AccessShareLock);
	return views;
}

/*
 * Settings of the session by which a text would be another expression than the one that it was
 * made of, as pg_dump has them: names, digits of numbers, time zones, NULL in arrays, XML,
 * backslashes.
 */
static void
set_as_pg_dump(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog"},
		{"extra_float_digits", "3"},
		{"datestyle", "ISO"},
		{"intervalstyle", "postgres"},
		{"array_nulls", "on"},
		{"transform_null_equals", "off"},
		{"xmloption", "content"},
		{"standard_conforming_strings", "on"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * The definition of a view, analyzed anew.  All names in its text are qualified.  The text is
 * read by a query, whose snapshot has to be taken after the view was locked: an older one would
 * bring back what another session has replaced meanwhile.
 */
static Query *
definition_again(Oid view)
{
	int			nest = NewGUCNestLevel();
	char	   *sql;
	RawStmt    *raw;
	Query	   *query;

	set_as_pg_dump();
	PushActiveSnapshot(GetLatestSnapshot());
	sql = TextDatumGetCString(DirectFunctionCall1(pg_get_viewdef, ObjectIdGetDatum(view)));
	PopActiveSnapshot();
	raw = linitial_node(RawStmt, pg_parse_query(sql));
	query = parse_analyze_fixedparams(raw, sql, NULL, 0, NULL);
	AtEOXact_GUC(true, nest);
	return query;
}

/* Give the columns of a view the type modifiers of its query; returns those that differed. */
static List *
set_view_columns(Relation rel, const Query *query)
{
	List	   *changed = NIL;
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		const TargetEntry *entry = lfirst(cell);
		int32		typmod = exprTypmod((Node *) entry->expr);
		Form_pg_attribute att;

		if (entry->resjunk)
			continue;
		att = TupleDescAttr(RelationGetDescr(rel), entry->resno - 1);
		if (att->atttypmod == typmod)
			continue;
		sfi_ddl_set_typmod(RelationGetRelid(rel), entry->resno, typmod);
		changed = lappend_int(changed, entry->resno);
	}
	return changed;
}

/* Store the definition of a view again, for its owner, and those of views over it. */
static void
renew_view(Oid view)
{
	Relation	rel = try_relation_open(view, AccessExclusiveLock);
	Query	   *query;
	List	   *changed;
	Oid			owner;
	Oid			user;
	int			context;
	ListCell   *cell;

	/* dropped while we waited */
	if (rel == NULL)
		return;
	query = definition_again(view);
	changed = set_view_columns(rel, query);
	owner = rel->rd_rel->relowner;
	relation_close(rel, NoLock);
	CommandCounterIncrement();
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE);
	StoreViewQuery(view, query, true);
	SetUserIdAndSecContext(user, context);
	CommandCounterIncrement();
	foreach(cell, changed)
		sfi_ddl_renew_views(view, lfirst_int(cell));
}

void
sfi_ddl_renew_views(Oid relid, AttrNumber attnum)
{
	ListCell   *cell;

	check_stack_depth();
	foreach(cell, views_over(relid, attnum))
		renew_view(lfirst_oid(cell));
}
