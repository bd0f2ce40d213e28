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
 *	 of this session rewrites it	refused: the old rows would stay, without their values
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
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "ddl/ddl_internal.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static bool has_triggers(const TriggerDesc *triggers, AttrNumber attnum, bool permanent);
static void refuse(Relation rel, AttrNumber attnum);
static void refuse_rewriting(Relation rel);

const SfRewriting *sf_ddl_rewriting = NULL;

/* Look at all securefile columns; are there any? */
static bool
check_columns(Relation rel, const TriggerDesc *triggers)
{
	bool		has_columns = false;
	TupleDesc	desc = RelationGetDescr(rel);
	bool		permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int32		typmod = att->atttypmod;

		if (att->atttypid < FirstNormalObjectId || att->attisdropped ||
			!sf_ddl_contains_securefile(att->atttypid))
			continue;
		/* the type was changed by another session while the table was made */
		if (!sf_ddl_is_securefile(att->atttypid, &typmod))
			sf_ddl_refuse_nested(rel, att);
		if (!has_triggers(triggers, att->attnum, permanent))
			refuse(rel, att->attnum);
		has_columns = true;
	}
	return has_columns;
}

void
sf_ddl_require_triggers(Relation rel, const TriggerDesc *triggers)
{
	(void) check_columns(rel, triggers);
}

/* The same for a table that rows are written to. */
static void
check_written(Relation rel, const TriggerDesc *triggers)
{
	if (check_columns(rel, triggers))
		refuse_rewriting(rel);
}

/* Does a column have the row triggers it needs, switched on for every role? */
static bool
has_triggers(const TriggerDesc *triggers, AttrNumber attnum, bool permanent)
{
	const SfDdlObjects *objects = sf_ddl_objects();
	bool		store = false;
	bool		account = !permanent;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (!trigger->tgisinternal || trigger->tgenabled != TRIGGER_FIRES_ALWAYS ||
			trigger->tgnargs < 1 || pg_strtoint16(trigger->tgargs[0]) != attnum)
			continue;
		store |= trigger->tgfoid == objects->store_fn;
		account |= trigger->tgfoid == objects->account_fn;
	}
	return store && account;
}

static void
refuse(Relation rel, AttrNumber attnum)
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

/* ---- the executor ---- */

void
sf_ddl_require_result_triggers(List *result_rels)
{
	ListCell   *lc;

	if (result_rels == NIL || !sf_ddl_noting() || sf_ddl_objects() == NULL)
		return;
	foreach(lc, result_rels)
	{
		ResultRelInfo *info = lfirst(lc);

		check_written(info->ri_RelationDesc, info->ri_TrigDesc);
	}
}

/* ---- tables that are being rewritten ---- */

bool
sf_ddl_rewrites(Node *stmt, SfRewriting *rewriting)
{
	AlterTableStmt *alter = (AlterTableStmt *) stmt;

	rewriting->outer = sf_ddl_rewriting;
	rewriting->depth = sf_ddl_depth();
	rewriting->relid = InvalidOid;
	if (IsA(stmt, AlterTableStmt) && alter->objtype == OBJECT_TABLE)
	{
		rewriting->relid = RangeVarGetRelid(alter->relation, NoLock, true);
		return OidIsValid(rewriting->relid);
	}
	return IsA(stmt, ClusterStmt) ||
		(IsA(stmt, VacuumStmt) && ((VacuumStmt *) stmt)->is_vacuumcmd);
}

void
sf_ddl_rewriting_is_over(void)
{
	if (sf_ddl_rewriting != NULL && sf_ddl_rewriting->depth == sf_ddl_depth())
		sf_ddl_rewriting = sf_ddl_rewriting->outer;
}

static bool
is_locked(Oid relid, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	return sf_compat_lock_held(&tag, mode);
}

/* Commands that do not say which table take no new one: that is locked by who made it. */
static bool
may_be_rewritten(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);

	if (sf_ddl_rewriting == NULL || !is_locked(relid, AccessExclusiveLock))
		return false;
	for (const SfRewriting *command = sf_ddl_rewriting; command != NULL; command = command->outer)
	{
		if (OidIsValid(command->relid)
			? list_member_oid(find_all_inheritors(command->relid, NoLock, NULL), relid)
			: rel->rd_createSubid == InvalidSubTransactionId)
			return true;
	}
	return false;
}

static void
refuse_rewriting(Relation rel)
{
	if (may_be_rewritten(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot write to table \"%s\" while a command of this session may rewrite it",
						RelationGetRelationName(rel)),
				 errdetail("The command would keep the old rows, whose securefile values would be freed."),
				 errhint("Write to the table before or after the command, not in a function that it calls; in an event trigger under a name that sorts after \"securefile_ddl\".")));
}

/* ---- COPY FROM ---- */

Oid
sf_ddl_copy_target(Node *stmt)
{
	CopyStmt   *copy = (CopyStmt *) stmt;

	if (!IsA(stmt, CopyStmt) || !copy->is_from || copy->relation == NULL ||
		sf_ddl_objects() == NULL)
		return InvalidOid;
	return RangeVarGetRelid(copy->relation, NoLock, true);
}

/*
 * The rows carry contents, but a default or a trigger of a user may supply a
 * stored value.  The table is known from before, since its triggers may have
 * renamed it; partitions that got a row are told by the lock.
 */
void
sf_ddl_require_copy_triggers(Oid relid)
{
	ListCell   *lc;

	if (!OidIsValid(relid))
		return;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		Relation	rel = is_locked(lfirst_oid(lc), RowExclusiveLock)
			? try_relation_open(lfirst_oid(lc), NoLock) : NULL;

		if (rel == NULL)
			continue;
		check_written(rel, rel->trigdesc);
		relation_close(rel, NoLock);
	}
}
