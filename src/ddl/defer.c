/*-------------------------------------------------------------------------
 *
 * defer.c
 *	  A value is placed when its row is written, and not before.
 *
 * The trigger "store" fires before the server looks at constraints, policies and
 * conflicts (ON CONFLICT).  A value that is placed there is written for nothing if the row
 * is rejected.  So the trigger gives the row a deferred value (object/deferred.c), which
 * "place" stores when the server hands the row to the heap.
 *
 * A deferred value must not outlive its row, so it is made only where the executor is known
 * to write the row next:
 *
 *	 by the executor or COPY		the trigger is one of a table that the innermost query
 *									or COPY writes to; hooks.c says what that is.  For the
 *									code of other extensions values are stored at once
 *	 no later trigger				it would see, and could keep, the deferred value
 *	 no RETURNING in WITH			that makes other values of it, such as edited ones
 *
 * The trigger replaces the row's tuple, and the server would free the one that has the
 * value; so it is taken away from the server, and freed with the row's memory.  Nothing
 * is copied.
 *
 * Readers come after the row.  What a query returns gets the placed values (settle.c).  A
 * transition table, and what WITH has returned, keep the datum until the query ends, so what the
 * datum points to lives as long.
 *
 * While a query has deferred values, functions can run queries of their own with such a value as
 * a parameter.  A parallel worker could not follow its pointer, so they get no workers
 * (sfi_ddl_any_deferred()).  A cursor stays open, so it is given the value itself
 * (sfi_ddl_settle_parameters()).  Where the planner makes a constant of the parameter, it
 * detoasts it: then the value is placed, though the row may yet be rejected.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "catalog/partition.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "executor/execdesc.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "object/object.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/rel.h"

/* What it takes to place the value of one row; in the memory of the row. */
typedef struct Deferral
{
	Relation	rel;
	SfColumn	column;
	Datum		old;			/* the value that the row had, STORED; or 0 */
	void	   *taken;			/* memory that has the value, or NULL */
	Datum		datum;			/* what the row has */
	bool		outlives_row;	/* what that points to does */
	MemoryContextCallback at_end;
} Deferral;

static SfExecution *innermost = NULL;

/* A query with deferred values that live as long as the query itself; in its memory. */
typedef struct Keeper
{
	const EState *query;
	struct Keeper *next;
	MemoryContextCallback at_end;
} Keeper;

static Keeper *keepers = NULL;

/* The query ends. */
static void
forget_keeper(void *arg)
{
	Keeper	  **link = &keepers;

	while (*link != arg)
	{
		SF_ASSERT(*link != NULL);
		link = &(*link)->next;
	}
	*link = (*link)->next;
}

static bool
keeps_deferred(const EState *query)
{
	for (const Keeper *keeper = keepers; keeper != NULL; keeper = keeper->next)
		if (keeper->query == query)
			return true;
	return false;
}

static void
add_keeper(const EState *query)
{
	Keeper	   *keeper = MemoryContextAlloc(query->es_query_cxt, sizeof(Keeper));

	SF_ASSERT(!keeps_deferred(query));
	*keeper = (Keeper)
	{
		.query = query, .next = keepers, .at_end =
		{
			forget_keeper, keeper
		}
	};
	MemoryContextRegisterResetCallback(query->es_query_cxt, &keeper->at_end);
	keepers = keeper;
}

void
sfi_ddl_run_begins(SfExecution *run, QueryDesc *query, Oid copied)
{
	SF_ASSERT(query == NULL || !OidIsValid(copied));
	*run = (SfExecution) {.query = query, .copied = copied, .outer = innermost};
	run->deferred = query != NULL && keeps_deferred(query->estate);
	innermost = run;
}

void
sfi_ddl_run_ends(SfExecution *run)
{
	SF_ASSERT(innermost == run);
	innermost = run->outer;
}

bool
sfi_ddl_any_deferred(void)
{
	for (const SfExecution *run = innermost; run != NULL; run = run->outer)
		if (run->deferred)
			return true;
	return false;
}

/* ---- does the row end with the heap? ---- */

static bool
keeps_new_rows(const TriggerDesc *triggers)
{
	return triggers != NULL &&
		(triggers->trig_insert_new_table || triggers->trig_update_new_table);
}

static bool
has_trigger(const ResultRelInfo *info, const Trigger *trigger)
{
	const TriggerDesc *all = info->ri_TrigDesc;

	return all != NULL && trigger >= all->triggers && trigger < all->triggers + all->numtriggers;
}

/* Has a table that a node writes to the trigger?  Partitions that were met last are asked first. */
static bool
is_of_node(const ModifyTableState *node, const Trigger *trigger)
{
	List	   *routed = node->ps.state->es_tuple_routing_result_relations;

	for (int i = 0; i < node->mt_nrels; i++)
		if (has_trigger(&node->resultRelInfo[i], trigger))
			return true;
	for (int i = list_length(routed) - 1; i >= 0; i--)
	{
		const ResultRelInfo *info = list_nth(routed, i);

		if (info->ri_RootResultRelInfo == node->rootResultRelInfo && has_trigger(info, trigger))
			return true;
	}
	return false;
}

/*
 * Does a node in a WITH clause return values that it makes of the new ones?  These could refer to
 * memory of the row.  A column as it is does not.
 */
static bool
returns_made_values(const ModifyTableState *node)
{
	ListCell   *lists;
	ListCell   *lc;

	foreach(lists, ((ModifyTable *) node->ps.plan)->returningLists)
	{
		foreach(lc, (List *) lfirst(lists))
		{
			const Expr *expr = ((TargetEntry *) lfirst(lc))->expr;

			if (!(IsA(expr, Var) && ((const Var *) expr)->varattno > 0) &&
				sfi_ddl_contains_securefile(exprType((const Node *) expr)))
				return true;
		}
	}
	return false;
}

/*
 * The node of a query that writes to the table of a trigger, if it does not make other values of
 * those that are written.  keeps: the rest of the query may keep new rows.
 */
static const ModifyTableState *
find_node(const QueryDesc *query, const Trigger *trigger, bool *keeps)
{
	ListCell   *lc;

	/* what the topmost one returns is settled */
	*keeps = false;
	if (IsA(query->planstate, ModifyTableState) &&
		is_of_node((ModifyTableState *) query->planstate, trigger))
		return (ModifyTableState *) query->planstate;
	foreach(lc, query->estate->es_auxmodifytables)
	{
		const ModifyTableState *node = lfirst(lc);

		if (!is_of_node(node, trigger))
			continue;
		*keeps = ((ModifyTable *) node->ps.plan)->returningLists != NIL;
		return returns_made_values(node) ? NULL : node;
	}
	return NULL;
}

/* Do rows of a table get into the one of a COPY FROM, and has that a transition table? */
static bool
is_copied_to(Oid copied, Relation rel, bool *keeps)
{
	Oid			relid = RelationGetRelid(rel);
	Relation	target;

	if (relid != copied && !(rel->rd_rel->relispartition &&
							 list_member_oid(get_partition_ancestors(relid), copied)))
		return false;
	target = relation_open(copied, AccessShareLock);
	*keeps = keeps_new_rows(target->trigdesc);
	relation_close(target, NoLock);
	return true;
}

/* Is the trigger, but for ours, the last one that fires before the row? */
static bool
is_last(const TriggerDesc *all, const Trigger *trigger)
{
	bool		found = false;

	for (int i = 0; i < all->numtriggers; i++)
	{
		const Trigger *other = &all->triggers[i];

		if (other->tgoid == trigger->tgoid)
			found = true;
		else if (found && TRIGGER_FOR_ROW(other->tgtype) && TRIGGER_FOR_BEFORE(other->tgtype) &&
				 other->tgfoid != trigger->tgfoid)
			return false;
	}
	return found;
}

/* Find out what becomes of rows that the trigger fires for. */
static SfRowsGo
rows_go(const TriggerData *trigdata)
{
	const Trigger *trigger = trigdata->tg_trigger;
	Relation	rel = trigdata->tg_relation;
	bool		keeps = false;

	if (!is_last(rel->trigdesc, trigger))
		return SF_ROWS_ANYWHERE;
	if (innermost->query != NULL)
	{
		const ModifyTableState *node = find_node(innermost->query, trigger, &keeps);

		if (node == NULL)
			return SF_ROWS_ANYWHERE;
		keeps |= keeps_new_rows(node->rootResultRelInfo->ri_TrigDesc);
	}
	else if (!OidIsValid(innermost->copied) || !is_copied_to(innermost->copied, rel, &keeps))
		return SF_ROWS_ANYWHERE;
	return keeps || keeps_new_rows(rel->trigdesc) ? SF_ROWS_TO_QUERY : SF_ROWS_TO_HEAP;
}

/* ---- deferring ---- */

/*
 * Take the memory that has the value of a column away from the slot, which would free it: the
 * slot is given another tuple at once.  A slot of a partitioned table has no tuple, and the
 * server forms one for the trigger.  Its values lie in the slot, or belong to the plan, which
 * keeps them as long as the row.  False: the slot is of another kind.
 */
static bool
take_value(TupleTableSlot *slot, HeapTuple tuple, AttrNumber attnum, Datum *value, void **taken)
{
	if (slot->tts_ops == &TTSOpsVirtual)
	{
		SF_ASSERT(slot->tts_nvalid >= attnum && !slot->tts_isnull[attnum - 1]);
		*value = slot->tts_values[attnum - 1];
		if (TTS_SHOULDFREE(slot))
		{
			*taken = ((VirtualTupleTableSlot *) slot)->data;
			((VirtualTupleTableSlot *) slot)->data = NULL;
		}
	}
	else if ((slot->tts_ops == &TTSOpsBufferHeapTuple || slot->tts_ops == &TTSOpsHeapTuple) &&
			 TTS_SHOULDFREE(slot) && ((HeapTupleTableSlot *) slot)->tuple == tuple)
		*taken = tuple;
	else
		return false;
	slot->tts_flags &= ~TTS_FLAG_SHOULDFREE;
	return true;
}

/* An SfPlace. */
static Datum
place(Datum given, void *arg)
{
	Deferral   *deferral = arg;
	SfValue		stored;

	/* the row is being written, or its check reads the value */
	SF_ASSERT(CheckRelationLockedByMe(deferral->rel, RowExclusiveLock, true));
	if (!sfi_ddl_store_value(&deferral->column, given, deferral->old, false, &stored))
		return given;
	sfi_ddl_refuse_unpublishable(deferral->rel, deferral->column.attnum, &stored);
	return PointerGetDatum(stored.datum);
}

/* Where does the row go next?  Asked once for rows that a trigger fires for in turn. */
static SfRowsGo
row_goes(const TriggerData *trigdata)
{
	if (innermost == NULL)
		return SF_ROWS_ANYWHERE;
	if (innermost->trigger != trigdata->tg_trigger)
	{
		innermost->rows_go = rows_go(trigdata);
		innermost->trigger = trigdata->tg_trigger;
	}
	return innermost->rows_go;
}

/* The row ends. */
static void
end_row(void *arg)
{
	Deferral   *deferral = arg;

	if (deferral->outlives_row)
		sf_object_forget_given(deferral->datum);
	if (deferral->taken != NULL)
		pfree(deferral->taken);
}

bool
sfi_ddl_defer(TriggerData *trigdata, const SfColumn *column, Datum value, bool borrowed,
			  Datum old, Datum *deferred)
{
	bool		update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	TupleTableSlot *slot = update ? trigdata->tg_newslot : trigdata->tg_trigslot;
	HeapTuple	tuple = update ? trigdata->tg_newtuple : trigdata->tg_trigtuple;
	void	   *taken = NULL;
	struct varlena *located = old == (Datum) 0 ? NULL : sfi_ddl_located(old);
	Deferral   *deferral;

	SF_ASSERT(sf_object_given(value) == value);
	if (!sfi_ddl_leaves_row(column, value) || row_goes(trigdata) == SF_ROWS_ANYWHERE ||
		!(borrowed || take_value(slot, tuple, column->attnum, &value, &taken)))
		return false;
	deferral = palloc0(sizeof(Deferral));
	deferral->rel = trigdata->tg_relation;
	deferral->column = *column;
	if (located != NULL)
		deferral->old = datumCopy(PointerGetDatum(located), false, -1);
	deferral->taken = taken;
	deferral->outlives_row = row_goes(trigdata) == SF_ROWS_TO_QUERY;
	deferral->datum = sf_object_defer(value, place, deferral, deferral->outlives_row ?
									  slot->tts_mcxt : CurrentMemoryContext);
	deferral->at_end.func = end_row;
	deferral->at_end.arg = deferral;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &deferral->at_end);
	*deferred = deferral->datum;
	if (deferral->outlives_row && innermost->query != NULL &&
		!keeps_deferred(innermost->query->estate))
		add_keeper(innermost->query->estate);
	SF_ASSERT(innermost->rows_go != SF_ROWS_ANYWHERE);
	innermost->deferred = true;
	return true;
}
