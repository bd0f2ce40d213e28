/*-------------------------------------------------------------------------
 *
 * sync.c
 *	  Bringing one table in line with its columns.
 *
 * Sync looks at what the catalogs say now, not at the command that ran: which
 * securefile columns the table has, which segments and triggers hang on it,
 * and what differs.  So it does not matter by which of the many ways a table
 * changed, and doing it twice does nothing.  Only where rows must be looked
 * at does it help to know what the command may have done (SfDirtyTable,
 * SfAlter).
 *
 * Wanted, for each securefile column (domains included):
 *	 permanent table or leaf partition: a segment of the column's logging mode,
 *		and three triggers, ENABLE ALWAYS;
 *	 temporary or unlogged table: the store trigger, which makes values INLINE;
 *	 partitioned table: nothing, its leaves have theirs;
 *	 foreign table, view: nothing, they ship contents.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "ddl/ddl_internal.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "nodes/value.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

const SfAlter *sf_ddl_alter = NULL;

static bool of_concern(Relation rel);
static void refuse_unfinished(Relation rel);
static void sync_rows_table(Relation rel, const SfDirtyTable *dirty);
static bool is_column(Relation rel, AttrNumber attnum);
static bool permanent(Relation rel);
static void drop_surplus(Relation rel);
static void sync_column(Relation rel, AttrNumber attnum, const SfDirtyTable *dirty);
static bool sync_segment(Relation rel, const SfColumn *column, Oid *segrelid);
static void follow_table(Relation rel, Oid segrelid, const SfDirtyTable *dirty);
static void sync_logging(Relation rel, const SfColumn *column, Oid segrelid);
static bool sync_triggers(Oid table_oid, AttrNumber attnum, Oid segrelid);
static void check_rewritten(Relation rel, AttrNumber attnum, Oid segrelid,
							bool had_none, const SfDirtyTable *dirty);
static bool missing_is_stored(Relation rel, AttrNumber attnum);
static void refuse_expression(Relation rel, AttrNumber attnum);

static const char *
column_name(Relation rel, AttrNumber attnum)
{
	return NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname);
}

void
sf_ddl_sync_table(const SfDirtyTable *dirty)
{
	Relation	rel;
	bool		has_columns = false;
	bool		mend = false;

	if (dirty->relid < FirstNormalObjectId)
		return;
	rel = try_relation_open(dirty->relid, AccessShareLock);
	if (rel == NULL)
		return;
	if (RELATION_IS_OTHER_TEMP(rel))
	{
		relation_close(rel, AccessShareLock);
		return;
	}
	if (of_concern(rel))
		has_columns = sf_ddl_validate(rel);
	if (rel->rd_rel->relkind == RELKIND_INDEX ||
		rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX)
		sf_ddl_validate_index(rel);
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		mend = has_columns || sf_ddl_segments_of(dirty->relid) != NIL ||
			sf_ddl_triggers_of(dirty->relid) != NIL;
	if (mend)
		sync_rows_table(rel, dirty);
	relation_close(rel, mend ? NoLock : AccessShareLock);
}

bool
sf_ddl_table_has_columns(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		found = false;

	if (rel == NULL)
		return false;
	if (of_concern(rel))
		found = sf_ddl_validate(rel) &&
			rel->rd_rel->relkind == RELKIND_RELATION;
	relation_close(rel, NoLock);
	return found;
}

/* Kinds of relations that can hold securefile values. */
static bool
of_concern(Relation rel)
{
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_MATVIEW:
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_COMPOSITE_TYPE:
			/* these have no rows of their own, but their row types may be used */
		case RELKIND_VIEW:
		case RELKIND_FOREIGN_TABLE:
			return true;
		default:
			return false;
	}
}

static bool
permanent(Relation rel)
{
	return rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
}

static bool
is_column(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute att;
	int32		typmod;

	if (attnum <= 0 || attnum > RelationGetNumberOfAttributes(rel))
		return false;
	att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	typmod = att->atttypmod;
	return !att->attisdropped && sf_ddl_is_securefile(att->atttypid, &typmod);
}

/* A column that waits for the end of pg_upgrade can be dropped, and no more. */
static void
refuse_unfinished(Relation rel)
{
	ListCell   *lc;

	foreach(lc, sf_ddl_triggers_of(RelationGetRelid(rel)))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (trigger->unfinished && is_column(rel, trigger->attnum))
			sf_space_report_unfinished(RelationGetRelid(rel), trigger->attnum);
	}
}

/* An ordinary table: all its columns, and whatever hangs on it without one. */
static void
sync_rows_table(Relation rel, const SfDirtyTable *dirty)
{
	refuse_unfinished(rel);
	drop_surplus(rel);
	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		if (is_column(rel, attnum))
			sync_column(rel, attnum, dirty);
	}
}

/*
 * Drop segments of columns that are gone, of another type now, or of a table
 * that became unlogged; their triggers go along.  Then triggers of columns
 * that are gone, which had no segment.
 */
static void
drop_surplus(Relation rel)
{
	Oid			table_oid = RelationGetRelid(rel);
	ListCell   *lc;

	foreach(lc, sf_ddl_segments_of(table_oid))
	{
		SfTableSegment *segment = lfirst(lc);
		bool		wanted = is_column(rel, segment->attnum);

		if (wanted && permanent(rel))
			continue;
		if (wanted && sf_ddl_rows_exist(rel, segment->attnum, SF_ROWS_STORED))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot make table \"%s\" unlogged while column \"%s\" has stored values",
							RelationGetRelationName(rel),
							column_name(rel, segment->attnum)),
					 errhint("Change the type of the column to bytea first, and back afterwards.")));
		sf_ddl_segment_drop(segment->relid);
	}

	foreach(lc, sf_ddl_triggers_of(table_oid))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (!is_column(rel, trigger->attnum))
			sf_ddl_trigger_drop(trigger->oid);
	}
}

/* Was the column added by the command? */
static bool
is_new(const SfDirtyTable *dirty, AttrNumber attnum)
{
	return dirty->first_added != 0 && attnum >= dirty->first_added;
}

static void
sync_column(Relation rel, AttrNumber attnum, const SfDirtyTable *dirty)
{
	SfColumn	column = sf_ddl_column(rel, attnum);
	Oid			segrelid = InvalidOid;
	bool		made = false;
	bool		was_open;

	if (permanent(rel))
		made = sync_segment(rel, &column, &segrelid);
	was_open = sync_triggers(column.table_oid, attnum, segrelid) &&
		dirty->by_command && !is_new(dirty, attnum);
	check_rewritten(rel, attnum, made ? InvalidOid : segrelid, made || is_new(dirty, attnum), dirty);
	follow_table(rel, segrelid, dirty);
	if (RelationGetNumberOfBlocks(rel) == 0)
		return;

	/*
	 * Rows that came without row triggers: by CREATE TABLE AS and the like, by
	 * a function that ran while this command had the triggers off, or into a
	 * table that never had them.
	 */
	if (dirty->created ||
		(was_open && sf_ddl_rows_exist(rel, attnum, SF_ROWS_FOREIGN)))
	{
		LockRelationOid(column.table_oid, ShareRowExclusiveLock);
		sf_ddl_rows_store(rel, &column, false);
	}
}

/* Returns true when the segment was made now. */
static bool
sync_segment(Relation rel, const SfColumn *column, Oid *segrelid)
{
	SfSegmentBirth birth = {0};
	char		name[NAMEDATALEN];

	*segrelid = sf_space_segment_relid(column->table_oid, column->attnum);
	if (OidIsValid(*segrelid))
	{
		sync_logging(rel, column, *segrelid);
		return false;
	}

	/* a table that was unlogged has a store trigger of its own */
	sf_ddl_triggers_drop(column->table_oid, column->attnum);

	birth.table_oid = column->table_oid;
	birth.attnum = column->attnum;
	birth.logged_data = !column->options.fs_like_logging;
	birth.next_object_id = 1;
	birth.tablespace = rel->rd_rel->reltablespace;
	sf_space_segment_name(name, column->table_oid, column->attnum);
	*segrelid = sf_ddl_segment_create(name, &birth);
	return true;
}

/*
 * A table that was moved takes its segments along.  One that was not leaves them
 * where they are: a segment may have been moved by itself.
 */
static void
follow_table(Relation rel, Oid segrelid, const SfDirtyTable *dirty)
{
	Oid			tablespace = sf_ddl_tablespace(rel->rd_rel->reltablespace);
	bool		moved = dirty->moved ||
		(OidIsValid(dirty->tablespace) && dirty->tablespace != tablespace);

	if (moved && OidIsValid(segrelid))
		sf_ddl_segment_move(segrelid, tablespace);
}

/*
 * A segment has one logging mode for all it holds (redo of an old data record
 * must never hit a block that unlogged data has since taken).  So the mode
 * follows the column's option only while nothing is stored.
 */
static void
sync_logging(Relation rel, const SfColumn *column, Oid segrelid)
{
	bool		want_logged = !column->options.fs_like_logging;
	Relation	segrel = relation_open(segrelid, AccessShareLock);
	SfHeader	header = sf_space_header(segrel);

	relation_close(segrel, NoLock);
	if (sf_ddl_segment_logged(&header) == want_logged)
		return;

	if (header.next_object_id > 1 &&
		sf_ddl_rows_exist(rel, column->attnum, SF_ROWS_STORED))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the logging mode of column \"%s\" of table \"%s\" while values are stored",
						column_name(rel, column->attnum),
						RelationGetRelationName(rel)),
				 errhint("Use securefile_rewrite('%s', '%s', logging => '%s').",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
													RelationGetRelationName(rel)),
						 column_name(rel, column->attnum),
						 want_logged ? "logging" : "filesystem_like_logging")));
	sf_ddl_segment_reset(segrelid, want_logged);
}

/*
 * Make missing triggers, set those that were switched off or over back, and
 * tell whether there was anything to do.
 */
static bool
sync_triggers(Oid table_oid, AttrNumber attnum, Oid segrelid)
{
	bool		have[SF_TRIGGER_KINDS] = {false};
	bool		was_open = false;
	ListCell   *lc;

	foreach(lc, sf_ddl_triggers_of(table_oid))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (trigger->attnum != attnum)
			continue;
		have[trigger->kind] = true;
		if (trigger->enabled == TRIGGER_FIRES_ALWAYS)
			continue;
		sf_ddl_trigger_enable(table_oid, trigger->oid);
		was_open = true;
	}

	for (SfTriggerKind kind = 0; kind < SF_TRIGGER_KINDS; kind++)
	{
		if (have[kind] || (kind != SF_TRIGGER_STORE && !OidIsValid(segrelid)))
			continue;
		sf_ddl_trigger_create(table_oid, attnum, kind, segrelid, false);
		was_open = true;
	}
	return was_open;
}

/*
 * ALTER TABLE can write rows without triggers: ALTER TYPE .. USING, a default
 * of a new column, a cast of somebody's.  Such rows may hold INLINE values
 * only; a locator would name a value that belongs to another row.
 *
 * If USING made new values for a column that had stored ones, nothing points
 * at those any more and the segment is emptied.  segrelid: the segment the
 * column had before the command, if any.  had_none: before the command there
 * was no securefile column, so that any stored value came by an expression, also
 * one that lies in the place of the column.
 */
static void
check_rewritten(Relation rel, AttrNumber attnum, Oid segrelid,
				bool had_none, const SfDirtyTable *dirty)
{
	bool		rewritten = OidIsValid(dirty->relfilenode) &&
		dirty->relfilenode != rel->rd_rel->relfilenode;
	bool		replaced = false;
	ListCell   *lc;

	if (sf_ddl_alter == NULL || !sf_ddl_alter->may_bring_values || dirty->created)
		return;
	if (dirty->first_added != 0 && missing_is_stored(rel, attnum))
		refuse_expression(rel, attnum);
	if (!rewritten)
		return;

	foreach(lc, sf_ddl_alter->using_columns)
		replaced |= strcmp(strVal(lfirst(lc)), column_name(rel, attnum)) == 0;
	replaced &= OidIsValid(segrelid);

	if (sf_ddl_rows_exist(rel, attnum,
						  replaced || had_none ? SF_ROWS_STORED : SF_ROWS_FOREIGN))
		refuse_expression(rel, attnum);
	if (replaced)
	{
		Relation	segrel = relation_open(segrelid, AccessExclusiveLock);
		SfHeader	header = sf_space_header(segrel);

		relation_close(segrel, NoLock);
		sf_ddl_segment_reset(segrelid, sf_ddl_segment_logged(&header));
	}
}

/* A default that is constant within the command is kept once for all old rows. */
static bool
missing_is_stored(Relation rel, AttrNumber attnum)
{
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atthasmissing)
		value = getmissingattr(RelationGetDescr(rel), attnum, &isnull);
	return !isnull && sf_ddl_stored(value) != NULL;
}

static void
refuse_expression(Relation rel, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the new values of column \"%s\" of table \"%s\" must not be stored securefile values",
					column_name(rel, attnum), RelationGetRelationName(rel)),
			 errdetail("ALTER TABLE cannot copy a value that belongs to another row or column."),
			 errhint("Cast the expression to bytea, or add the column and fill it with UPDATE.")));
}

/* ---- what an ALTER TABLE statement may do ---- */

/* Is the expression a bare reference to the column itself? */
static bool
is_self_reference(Node *expr, const char *column)
{
	ColumnRef  *ref = (ColumnRef *) expr;

	return IsA(expr, ColumnRef) && list_length(ref->fields) == 1 &&
		IsA(linitial(ref->fields), String) &&
		strcmp(strVal(linitial(ref->fields)), column) == 0;
}

SfAlter *
sf_ddl_alter_analyze(AlterTableStmt *stmt)
{
	SfAlter    *alter = palloc0(sizeof(SfAlter));
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = castNode(AlterTableCmd, lfirst(lc));

		if (cmd->subtype == AT_DropColumn && cmd->behavior == DROP_CASCADE)
			alter->drops_cascade = true;
		if (cmd->subtype == AT_AddColumn || cmd->subtype == AT_AlterColumnType)
			alter->may_bring_values = true;
		if (cmd->subtype == AT_AlterColumnType)
		{
			ColumnDef  *def = castNode(ColumnDef, cmd->def);

			if (def->raw_default != NULL &&
				!is_self_reference(def->raw_default, cmd->name))
				alter->using_columns = lappend(alter->using_columns,
											   makeString(pstrdup(cmd->name)));
		}
	}
	return alter;
}
