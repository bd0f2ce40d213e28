/*-------------------------------------------------------------------------
 *
 * triggers.c
 *	  The internal triggers of securefile columns: making, finding, guarding.
 *
 * A column of a permanent table has three: "store" (BEFORE INSERT OR UPDATE,
 * row) puts the bytes in place, "account" (AFTER INSERT OR UPDATE OR DELETE,
 * row) records the notes, "truncate" (BEFORE TRUNCATE, statement) gives the
 * segment new storage.  A column of a temporary or unlogged table has "store"
 * only.  They are found by function and argument (the attribute number), not
 * by name; the names begin with '~' so that they fire after a user's own.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

typedef struct TriggerShape
{
	const char *verb;
	int16		timing;
	int16		events;
	bool		row;
	size_t		function;		/* offset of its OID in SfDdlObjects */
} TriggerShape;

static const TriggerShape shapes[] = {
	[SF_TRIGGER_STORE] = {"store", TRIGGER_TYPE_BEFORE,
		TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE, true,
		offsetof(SfDdlObjects, store_fn)},
	[SF_TRIGGER_ACCOUNT] = {"account", TRIGGER_TYPE_AFTER,
		TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE, true,
		offsetof(SfDdlObjects, account_fn)},
	[SF_TRIGGER_TRUNCATE] = {"truncate", TRIGGER_TYPE_BEFORE,
		TRIGGER_TYPE_TRUNCATE, false,
		offsetof(SfDdlObjects, truncate_fn)},
};

StaticAssertDecl(lengthof(shapes) == SF_TRIGGER_KINDS, "one shape a kind");

/*
 * The command in which a trigger was made last.  What makes it visible also builds
 * the table's list of triggers anew: so that is done when somebody looks for them,
 * not for each.
 */
static CommandId made_in = InvalidCommandId;

static Oid
shape_function(SfTriggerKind kind)
{
	const SfDdlObjects *objects = sfi_ddl_objects();

	SF_ASSERT(objects != NULL);
	return *(const Oid *) ((const char *) objects + shapes[kind].function);
}

/* Is this one of the trigger functions, and of which kind? */
static bool
function_kind(Oid function, SfTriggerKind *kind)
{
	for (int i = 0; i < SF_TRIGGER_KINDS; i++)
	{
		if (shape_function(i) == function)
		{
			*kind = i;
			return true;
		}
	}
	return false;
}

void
sfi_ddl_trigger_create(Oid table_oid, AttrNumber attnum, SfTriggerKind kind,
					   Oid segrelid, bool unfinished)
{
	const TriggerShape *shape = &shapes[kind];
	CreateTrigStmt *stmt = makeNode(CreateTrigStmt);
	ObjectAddress trigger;
	ObjectAddress segment;

	SF_ASSERT(kind < SF_TRIGGER_KINDS && attnum > 0);
	/* what goes with a segment does not wait for one; "store" can do without */
	SF_ASSERT(!unfinished || !OidIsValid(segrelid));
	SF_ASSERT(unfinished || kind == SF_TRIGGER_STORE || OidIsValid(segrelid));
	stmt->trigname = psprintf(SF_TRIGGER_PREFIX "%s_%d", shape->verb, attnum);
	stmt->args = list_make1(makeString(psprintf("%d", attnum)));
	if (unfinished)
		stmt->args = lappend(stmt->args, makeString("unfinished"));
	stmt->row = shape->row;
	stmt->timing = shape->timing;
	stmt->events = shape->events;

	trigger = CreateTriggerFiringOn(stmt, NULL, table_oid, InvalidOid,
									InvalidOid, InvalidOid,
									shape_function(kind), InvalidOid, NULL,
									true, false, TRIGGER_FIRES_ALWAYS);
	if (OidIsValid(segrelid))
	{
		ObjectAddressSet(segment, RelationRelationId, segrelid);
		recordDependencyOn(&trigger, &segment, DEPENDENCY_INTERNAL);
	}
	SF_ASSERT(OidIsValid(trigger.objectId));
	made_in = GetCurrentCommandId(true);
}

/* Decode a row of pg_trigger; NULL if it is no internal trigger of a securefile column. */
static SfTableTrigger *
ours(Relation tgrel, HeapTuple tuple)
{
	Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);
	SfTableTrigger *trigger;
	SfTriggerKind kind;
	bool		isnull;
	Datum		args;

	if (!form->tgisinternal || form->tgnargs < 1 || form->tgnargs > 2 ||
		!function_kind(form->tgfoid, &kind))
		return NULL;

	args = fastgetattr(tuple, Anum_pg_trigger_tgargs,
					   RelationGetDescr(tgrel), &isnull);
	SF_ASSERT(!isnull);

	trigger = palloc(sizeof(SfTableTrigger));
	trigger->oid = form->oid;
	trigger->kind = kind;
	trigger->enabled = form->tgenabled;
	trigger->unfinished = form->tgnargs == 2;
	/* the first argument, ended by a zero byte */
	trigger->attnum = pg_strtoint16(VARDATA_ANY(DatumGetByteaPP(args)));
	return trigger;
}

List *
sfi_ddl_triggers_of(Oid table_oid)
{
	Relation	tgrel;
	List	   *triggers = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (made_in == GetCurrentCommandId(false))
		CommandCounterIncrement();
	tgrel = table_open(TriggerRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(table_oid));
	scan = systable_beginscan(tgrel, TriggerRelidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SfTableTrigger *trigger = ours(tgrel, tuple);

		if (trigger != NULL)
			triggers = lappend(triggers, trigger);
	}
	systable_endscan(scan);
	table_close(tgrel, AccessShareLock);
	return triggers;
}

/* The command that has just made or changed the trigger has not made that visible yet. */
Oid
sfi_ddl_trigger_table(Oid trigoid)
{
	Relation	tgrel = table_open(TriggerRelationId, AccessShareLock);
	HeapTuple	tuple = sf_ddl_catalog_row(tgrel, TriggerOidIndexId, Anum_pg_trigger_oid, trigoid,
										   SnapshotSelf);
	Oid			table_oid = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

		if (form->tgisinternal || sfi_ddl_fires_late(form->tgtype, NameStr(form->tgname)))
			table_oid = form->tgrelid;
	}
	table_close(tgrel, AccessShareLock);
	return table_oid;
}

void
sfi_ddl_trigger_enable(Oid table_oid, Oid trigoid)
{
	Relation	tgrel = table_open(TriggerRelationId, RowExclusiveLock);
	HeapTuple	tuple = sf_ddl_catalog_row(tgrel, TriggerOidIndexId, Anum_pg_trigger_oid, trigoid,
										   NULL);
	Form_pg_trigger form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find tuple for trigger %u", trigoid);
	form = (Form_pg_trigger) GETSTRUCT(tuple);
	SF_ASSERT(form->tgrelid == table_oid && form->tgisinternal);
	form->tgenabled = TRIGGER_FIRES_ALWAYS;
	CatalogTupleUpdate(tgrel, &tuple->t_self, tuple);
	table_close(tgrel, RowExclusiveLock);

	CacheInvalidateRelcacheByRelid(table_oid);
	CommandCounterIncrement();
}

void
sfi_ddl_trigger_drop(Oid trigoid)
{
	ObjectAddress trigger;

	ObjectAddressSet(trigger, TriggerRelationId, trigoid);
	performDeletion(&trigger, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	CommandCounterIncrement();
}

void
sfi_ddl_triggers_drop(Oid table_oid, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_triggers_of(table_oid))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (trigger->attnum == attnum)
			sfi_ddl_trigger_drop(trigger->oid);
	}
}

/* Such triggers have an argument more than others. */
bool
sfi_ddl_triggers_unfinished(void)
{
	Oid			function = sfi_ddl_objects()->account_fn;
	Relation	rel = table_open(TriggerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	bool		found = false;
	HeapTuple	tuple;

	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

		found = form->tgfoid == function && form->tgisinternal && form->tgnargs > 1;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Has the table internal triggers, and are all of them triggers of securefile columns?
 * The table is locked.
 */
static bool
only_internal_ones(Oid table_oid)
{
	Relation	rel = table_open(table_oid, NoLock);
	int			ninternal = 0;

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
		ninternal += rel->trigdesc->triggers[i].tgisinternal;
	table_close(rel, NoLock);
	return ninternal > 0 && ninternal == list_length(sfi_ddl_triggers_of(table_oid));
}

PlannedStmt *
sfi_ddl_trigger_without_internal(PlannedStmt *pstmt)
{
	AlterTableStmt *stmt;
	ListCell   *lc;

	if (!IsA(pstmt->utilityStmt, AlterTableStmt) || sfi_ddl_objects() == NULL)
		return pstmt;
	pstmt = copyObject(pstmt);
	stmt = (AlterTableStmt *) pstmt->utilityStmt;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		Oid			table_oid;

		if (cmd->subtype != AT_EnableTrigAll && cmd->subtype != AT_DisableTrigAll)
			continue;
		/* as core does next; asks for the owner, too */
		table_oid = AlterTableLookupRelation(stmt, AlterTableGetLockLevel(stmt->cmds));
		if (OidIsValid(table_oid) && only_internal_ones(table_oid))
			cmd->subtype = cmd->subtype == AT_EnableTrigAll
				? AT_EnableTrigUser : AT_DisableTrigUser;
	}
	return pstmt;
}

/* ERROR if a trigger of the table is an internal trigger of a securefile column. */
static void
refuse_if_ours(RangeVar *table, const char *trigger)
{
	Oid			relid;
	Oid			trigoid;
	ListCell   *lc;

	if (table == NULL || sfi_ddl_objects() == NULL ||
		strncmp(trigger, SF_TRIGGER_PREFIX, strlen(SF_TRIGGER_PREFIX)) != 0)
		return;
	relid = RangeVarGetRelid(table, NoLock, true);
	if (!OidIsValid(relid))
		return;
	trigoid = get_trigger_oid(relid, trigger, true);

	foreach(lc, sfi_ddl_triggers_of(relid))
	{
		if (((SfTableTrigger *) lfirst(lc))->oid == trigoid)
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop or alter trigger \"%s\" of table \"%s\"",
							trigger, get_rel_name(relid)),
					 errdetail("It belongs to a securefile column of the table."),
					 errhint("Drop the column, or change its type to bytea.")));
	}
}

/*
 * DROP TRIGGER, ALTER TRIGGER .. RENAME TO and ALTER TRIGGER .. DEPENDS ON
 * EXTENSION could leave a column without a trigger, or with one that does not
 * fire last.  Triggers of permanent tables are protected from DROP by their
 * dependency as well; this says so in clearer words.
 */
void
sfi_ddl_trigger_guard(Node *stmt)
{
	if (IsA(stmt, RenameStmt))
	{
		RenameStmt *rename = (RenameStmt *) stmt;

		if (rename->renameType == OBJECT_TRIGGER)
			refuse_if_ours(rename->relation, rename->subname);
	}
	else if (IsA(stmt, AlterObjectDependsStmt))
	{
		AlterObjectDependsStmt *depends = (AlterObjectDependsStmt *) stmt;

		if (depends->objectType == OBJECT_TRIGGER)
			refuse_if_ours(depends->relation,
						   strVal(llast(castNode(List, depends->object))));
	}
	else if (IsA(stmt, DropStmt))
	{
		DropStmt   *drop = (DropStmt *) stmt;
		ListCell   *lc;

		if (drop->removeType != OBJECT_TRIGGER)
			return;
		foreach(lc, drop->objects)
		{
			List	   *name = castNode(List, lfirst(lc));
			List	   *table = list_truncate(list_copy(name), list_length(name) - 1);

			if (table != NIL)
				refuse_if_ours(makeRangeVarFromNameList(table),
							   strVal(llast(name)));
		}
	}
}
