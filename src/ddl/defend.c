/*-------------------------------------------------------------------------
 *
 * defend.c
 *	  The last line of defence: no row is written past the internal triggers.
 *
 * A stored value that goes into a row without the trigger "store" would be
 * shared with the row it was read from, and be lost with that row.  A row that
 * goes without "account" would leave its space taken for ever.  Every table
 * gets its triggers when the command that made it is through (noted.c).  These
 * are the ways of rows into a table before that, or into a table that lost its
 * triggers in a way nobody has thought of:
 *
 *	 INSERT, UPDATE, DELETE, MERGE	the executor's own copy of the triggers is
 *									looked at, when the plan starts; and at its
 *									end for partitions that were met on the way
 *	 COPY FROM						the table, or the partitions it has locked, afterwards
 *	 all of these, while a command
 *	 of this session rewrites it	refused by the triggers (replaced.c)
 *	 CREATE TABLE AS, SELECT INTO	the command's drain looks at all rows
 *	 a table made by C code			the end of the transaction (noted.c, N2)
 *
 * Subscribers get contents, never stored values; their tables are covered by
 * the last line, for they were made by some transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/trigger.h"
#include "ddl/command.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* The row triggers that a column has. */
#define HAS_STORE		1
#define HAS_ACCOUNT		2

/*
 * By attribute number, which row triggers of a column are switched on for every
 * role.  A table may have as many columns as it likes, each with its triggers: they
 * are looked at once.
 */
static uint8 *
find_triggers(const TriggerDesc *triggers, int natts)
{
	const SfDdlObjects *objects = sfi_ddl_objects();
	uint8	   *found = palloc0(natts + 1);

	SF_ASSERT(objects != NULL);
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		int			attnum;

		if (!trigger->tgisinternal || trigger->tgenabled != TRIGGER_FIRES_ALWAYS ||
			trigger->tgnargs < 1 ||
			(trigger->tgfoid != objects->store_fn && trigger->tgfoid != objects->account_fn))
			continue;
		attnum = pg_strtoint16(trigger->tgargs[0]);
		if (attnum > 0 && attnum <= natts)
			found[attnum] |= trigger->tgfoid == objects->store_fn ? HAS_STORE : HAS_ACCOUNT;
	}
	return found;
}

/* ERROR: a row of the table would be written past the triggers of the column. */
static void
refuse_without_triggers(Relation rel, AttrNumber attnum)
{
	const char *column = get_attname(RelationGetRelid(rel), attnum, false);

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column \"%s\" of table \"%s\" does not have its internal triggers",
					column, RelationGetRelationName(rel)),
			 errdetail("A stored value in a row that was written without them would be lost with the row it was read from."),
			 errhint("If the table is being made, write to it when that command is through, in an event trigger under a name that sorts after \"securefile_ddl\". "
					 "Else ALTER TABLE %s ALTER COLUMN %s SET STORAGE MAIN makes them.",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)),
					 quote_identifier(column))));
}

void
sfi_ddl_require_triggers(Relation rel, const TriggerDesc *triggers)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	uint8	   *found = NULL;

	/* else the columns may be others than those that rows are written to */
	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	sfi_ddl_require_whole(rel);
	if (rel->rd_rel->relkind != RELKIND_RELATION || sfi_ddl_objects() == NULL)
		return;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int32		typmod = att->atttypmod;

		if (att->atttypid < FirstNormalObjectId || att->attisdropped ||
			!sfi_ddl_contains_securefile(att->atttypid))
			continue;
		/* the type was changed by another session while the table was made */
		if (!sfi_ddl_is_securefile(att->atttypid, &typmod))
			sfi_ddl_refuse_nested(rel, att);
		if (found == NULL)
			found = find_triggers(triggers, desc->natts);
		/* the shell of a distributed table has no segment to account for */
		if (!(found[att->attnum] & HAS_STORE) ||
			(permanent && !(found[att->attnum] & HAS_ACCOUNT) &&
			 !sf_base_is_shell(RelationGetRelid(rel))))
			refuse_without_triggers(rel, att->attnum);
	}
	if (found != NULL)
		pfree(found);
}

/* ---- the executor ---- */

void
sfi_ddl_require_result_triggers(List *result_rels)
{
	ListCell   *lc;

	if (result_rels == NIL || !sfi_ddl_noting() || !OidIsValid(sfi_ddl_am_oid()))
		return;
	foreach(lc, result_rels)
	{
		ResultRelInfo *info = lfirst(lc);

		sfi_ddl_require_triggers(info->ri_RelationDesc, info->ri_TrigDesc);
	}
}

/* ---- COPY FROM ---- */

Oid
sfi_ddl_copy_target(Node *stmt)
{
	CopyStmt   *copy = (CopyStmt *) stmt;

	if (!IsA(stmt, CopyStmt) || !copy->is_from || copy->relation == NULL ||
		!OidIsValid(sfi_ddl_am_oid()))
		return InvalidOid;
	return RangeVarGetRelid(copy->relation, NoLock, true);
}

/*
 * The rows carry contents, but a default or a trigger of a user may supply a
 * stored value.  The table is known from before, since its triggers may have
 * renamed it; partitions that got a row are told by the lock.  One that is being
 * altered may have got its triggers after the rows.
 */
void
sfi_ddl_require_copy_triggers(Oid relid)
{
	ListCell   *lc;

	if (!OidIsValid(relid))
		return;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		Relation	rel = sf_base_has_locked(lfirst_oid(lc), RowExclusiveLock)
			? try_relation_open(lfirst_oid(lc), NoLock) : NULL;

		if (rel == NULL)
			continue;
		sfi_ddl_require_triggers(rel, rel->trigdesc);
		sfi_ddl_refuse_rewritten(rel);
		relation_close(rel, NoLock);
	}
}
