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
 *	 shell of a distributed table: the same; a segment goes once no row has stored values;
 *	 partitioned table: nothing, its leaves have theirs;
 *	 foreign table, view: nothing, they ship contents.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "space/upgrade.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

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

			/*
			 * these have no rows of their own, but their row types may be
			 * used
			 */
		case RELKIND_VIEW:
		case RELKIND_FOREIGN_TABLE:
			return true;
		default:
			return false;
	}
}

/* A column that waits for the end of pg_upgrade can be dropped, and no more. */
static void
refuse_unfinished(Relation rel)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_triggers_of(RelationGetRelid(rel)))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (trigger->unfinished && sfi_ddl_is_column(rel, trigger->attnum))
			sf_space_refuse_unfinished(RelationGetRelid(rel), trigger->attnum, true);
	}
}

static bool
permanent(Relation rel)
{
	return rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
}

/*
 * Is a segment of this column to stay?  A shell has its values in its shards, and keeps
 * the segment only for rows that were there before.
 */
static bool
keeps_segment(Relation rel, AttrNumber attnum)
{
	return permanent(rel) && (!sf_base_is_shell(RelationGetRelid(rel)) ||
							  sfi_ddl_rows_exist(rel, attnum, SF_ROWS_STORED));
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

	foreach(lc, sfi_ddl_segments_of(table_oid))
	{
		SfTableSegment *segment = lfirst(lc);
		bool		wanted = sfi_ddl_is_column(rel, segment->attnum);

		if (wanted && keeps_segment(rel, segment->attnum))
			continue;
		if (wanted && sfi_ddl_rows_exist(rel, segment->attnum, SF_ROWS_STORED))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot make table \"%s\" unlogged while column \"%s\" has stored values",
							RelationGetRelationName(rel),
							sfi_ddl_column_name(rel, segment->attnum)),
					 errdetail("Values in rows that are encrypted, or compressed with a dictionary, count, since they need the segment."),
					 errhint("Change the type of the column to bytea first, and back afterwards.")));
		sfi_ddl_segment_drop(segment->relid);
	}

	foreach(lc, sfi_ddl_triggers_of(table_oid))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (!sfi_ddl_is_column(rel, trigger->attnum))
			sfi_ddl_trigger_drop(trigger->oid);
	}
}

static char *
qualified_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
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
	SfSegment  *seg = sf_space_open(column->table_oid, column->attnum, AccessShareLock, false);
	SfHeader	header = sf_space_read_header(seg);
	Relation	segrel;

	if (seg->logged_data == want_logged)
		return;

	/* values in rows may need a key, or a dictionary, which the segment has */
	if ((header.next_object_id > 1 || header.key_page != 0 || header.dictionary != 0) &&
		sfi_ddl_rows_exist(rel, column->attnum, SF_ROWS_STORED))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the logging mode of column \"%s\" of table \"%s\" while values are stored",
						sfi_ddl_column_name(rel, column->attnum),
						RelationGetRelationName(rel)),
				 errdetail("Values in rows that are encrypted, or compressed with a dictionary, count, since they need the segment."),
				 errhint("Use securefile_rewrite('%s', '%s', logging => '%s').",
						 qualified_name(rel), sfi_ddl_column_name(rel, column->attnum),
						 want_logged ? "logging" : "filesystem_like_logging")));
	segrel = relation_open(segrelid, AccessExclusiveLock);
	sfi_ddl_segment_renew(segrel, want_logged);
	relation_close(segrel, NoLock);
}

/* Make the segment of a column if there is none; returns true if it was made now. */
static bool
sync_segment(Relation rel, const SfColumn *column, Oid *segrelid)
{
	SF_ASSERT(column->permanent && column->table_oid == RelationGetRelid(rel));
	if (OidIsValid(*segrelid))
	{
		sync_logging(rel, column, *segrelid);
		return false;
	}

	/* a table that was unlogged has a store trigger of its own */
	sfi_ddl_triggers_drop(column->table_oid, column->attnum);

	*segrelid = sfi_ddl_segment_make(column, rel->rd_rel->reltablespace);
	return true;
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

	foreach(lc, sfi_ddl_triggers_of(table_oid))
	{
		SfTableTrigger *trigger = lfirst(lc);

		if (trigger->attnum != attnum)
			continue;
		have[trigger->kind] = true;
		if (trigger->enabled == TRIGGER_FIRES_ALWAYS)
			continue;
		sfi_ddl_trigger_enable(table_oid, trigger->oid);
		was_open = true;
	}

	for (SfTriggerKind kind = 0; kind < SF_TRIGGER_KINDS; kind++)
	{
		if (have[kind] || (kind != SF_TRIGGER_STORE && !OidIsValid(segrelid)))
			continue;
		sfi_ddl_trigger_create(table_oid, attnum, kind, segrelid, false);
		was_open = true;
	}
	return was_open;
}

/* ERROR: an expression of ALTER TABLE has given a stored value to the column. */
static void
refuse_expression(Relation rel, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the new values of column \"%s\" of table \"%s\" must not be stored securefile values",
					sfi_ddl_column_name(rel, attnum), RelationGetRelationName(rel)),
			 errdetail("ALTER TABLE cannot copy a value that belongs to another row or column."),
			 errhint("Cast the expression to bytea, or add the column and fill it with UPDATE.")));
}

/*
 * A default that is constant within the command is kept once, in the catalog, for
 * all old rows.  Nothing of it is in the table, so there is nothing to move.
 */
static void
refuse_stored_default(Relation rel, AttrNumber attnum)
{
	SfColumn	column = sfi_ddl_column(rel, attnum);
	bool		isnull;
	Datum		value;

	if (!TupleDescAttr(RelationGetDescr(rel), attnum - 1)->atthasmissing)
		return;
	value = getmissingattr(RelationGetDescr(rel), attnum, &isnull);
	if (isnull)
		return;
	if (sfi_ddl_stored(value) != NULL)
		refuse_expression(rel, attnum);
	if (!sfi_ddl_may_stay_inline(&column, value) && RelationGetNumberOfBlocks(rel) > 0)
		ereport(NOTICE,
				(errmsg("the default of column \"%s\" is not stored in the existing rows of table \"%s\"",
						sfi_ddl_column_name(rel, attnum), RelationGetRelationName(rel)),
				 errdetail("PostgreSQL keeps it once, in the catalog, for all of these rows. An UPDATE of a row stores it."),
				 errhint("Use securefile_rewrite('%s', '%s') to store it in all of them.",
						 qualified_name(rel), sfi_ddl_column_name(rel, attnum))));
}

/* Does ALTER TYPE .. USING give the column new values? */
static bool
is_replaced(Relation rel, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_command.alter == NULL ? NIL : sfi_ddl_command.alter->retyped)
	{
		const SfAltered *altered = lfirst(lc);

		if (altered->table_oid == RelationGetRelid(rel) && altered->attnum == attnum &&
			altered->by_using)
			return true;
	}
	return false;
}

/*
 * An expression must not yield a locator, which would name a value that
 * belongs to another row.  Where there was no securefile column before, any stored
 * value came by an expression, also one that lies in the place of the column.
 *
 * If USING made new values for a column that had stored ones, nothing points
 * at those any more and the segment is emptied; returns true.
 */
static bool
settle_expression(Relation rel, AttrNumber attnum, Oid segrelid, bool had_none)
{
	bool		replaced = OidIsValid(segrelid) && is_replaced(rel, attnum);
	Relation	segrel;

	if (sfi_ddl_rows_exist(rel, attnum,
						   replaced || had_none ? SF_ROWS_STORED : SF_ROWS_UNPROVED))
		refuse_expression(rel, attnum);
	if (!replaced)
		return false;
	segrel = relation_open(segrelid, AccessExclusiveLock);
	sfi_ddl_segment_renew(segrel, sf_space_open_rel(segrel)->logged_data);
	relation_close(segrel, NoLock);
	return true;
}

/* Has an ALTER TABLE given the table, which was there before, a new file? */
static bool
has_new_file(Relation rel, const SfDirtyTable *dirty)
{
	return dirty->altering && OidIsValid(dirty->relfilenode) &&
		dirty->relfilenode != rel->rd_rel->relfilenode;
}

/*
 * ALTER TABLE can write rows without triggers: ALTER TYPE, a default of a new
 * column, SET LOGGED.  convert.c stores the values of a column that becomes a
 * securefile.  All others may be INLINE only.
 *
 * segrelid: the segment the column had before the command, if any.  had_none:
 * before the command there was no securefile column, or it had no segment.
 * Returns true when there may be INLINE values that belong in the segment.
 */
static bool
settle_rewritten(Relation rel, AttrNumber attnum, Oid segrelid,
				 bool had_none, const SfDirtyTable *dirty)
{
	bool		replaced = false;

	if (dirty->created || sfi_ddl_is_added(dirty, attnum))
		refuse_stored_default(rel, attnum);
	if (dirty->created || !has_new_file(rel, dirty))
		return false;
	if (dirty->brings_values)
		replaced = settle_expression(rel, attnum, segrelid, had_none);
	return had_none || replaced;
}

/*
 * A table that was moved takes its segments along.  One that was not leaves them
 * where they are: a segment may have been moved by itself.
 */
static void
follow_table(Relation rel, Oid segrelid, const SfDirtyTable *dirty)
{
	Oid			tablespace = sfi_ddl_tablespace(rel->rd_rel->reltablespace);
	bool		moved = dirty->moved ||
		(OidIsValid(dirty->tablespace) && dirty->tablespace != tablespace);

	if (moved && OidIsValid(segrelid))
		sfi_ddl_segment_move(segrelid, tablespace);
}

/*
 * A table that is being filled gets its segment when that is over (noted.c, N3).
 * If it has one all the same, a value in it may be that of several rows.
 */
static void
refuse_own(Relation rel, AttrNumber attnum)
{
	if (sfi_ddl_rows_exist(rel, attnum, SF_ROWS_OWN))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("column \"%s\" of table \"%s\" has stored securefile values that were made before its rows",
						sfi_ddl_column_name(rel, attnum), RelationGetRelationName(rel)),
				 errdetail("A command that ran while the table was made or filled has made the column's segment, and it cannot be told which row such a value belongs to."),
				 errhint("Alter the table when it is filled, not in a function that is called meanwhile; in an event trigger under a name that sorts after \"securefile_ddl\".")));
}

/*
 * Bring one column in line: segment, triggers, tablespace, rows.  Returns true if rows
 * that ALTER TABLE has written have to be written anew.  The order matters: segment and
 * triggers first, so that a row that is stored below is the segment's; rows last.
 */
static bool
sync_column(Relation rel, AttrNumber attnum, const SfDirtyTable *dirty)
{
	SfColumn	column = sfi_ddl_column(rel, attnum);
	Oid			segrelid = InvalidOid;
	bool		made = false;
	bool		was_open;
	bool		came_inline;
	bool		computed;

	SF_ASSERT(rel->rd_rel->relkind == RELKIND_RELATION);
	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	sfi_ddl_require_encryptable(rel, &column);
	segrelid = sf_space_segment_relid(column.table_oid, attnum);
	if (permanent(rel) &&
		(OidIsValid(segrelid) || !sf_base_is_shell(column.table_oid)))
		made = sync_segment(rel, &column, &segrelid);
	SF_ASSERT(permanent(rel) || !OidIsValid(segrelid));
	was_open = sync_triggers(column.table_oid, attnum, segrelid) &&
		dirty->by_command && !sfi_ddl_is_added(dirty, attnum);
	came_inline = settle_rewritten(rel, attnum, made ? InvalidOid : segrelid,
								   made || sfi_ddl_is_added(dirty, attnum), dirty);
	follow_table(rel, segrelid, dirty);
	if (RelationGetNumberOfBlocks(rel) == 0)
		return false;

	/*
	 * Rows that came without row triggers: by CREATE TABLE AS and the like,
	 * by a function that ran while this command had the triggers off, or into
	 * a table that never had them.  What there was before the segment is none
	 * of its values, whatever it says.
	 */
	if (dirty->created ||
		(was_open && sfi_ddl_rows_exist(rel, attnum, made ? SF_ROWS_STORED : SF_ROWS_FOREIGN)))
	{
		LockRelationOid(column.table_oid, ShareRowExclusiveLock);
		if (dirty->created && column.permanent && !made)
			refuse_own(rel, attnum);
		sfi_ddl_rows_store(rel, &column, made);
	}

	/*
	 * no triggers have seen what the transaction wrote before; it was looked
	 * at, or came before the column
	 */
	if (dirty->created || was_open || sfi_ddl_is_added(dirty, attnum))
		sfi_ddl_see_column(rel, attnum);
	/* what an expression of the command has computed is in its row as it came */
	computed = sfi_ddl_is_added(dirty, attnum) || is_replaced(rel, attnum);
	return came_inline && column.permanent &&
		sfi_ddl_rows_exist(rel, attnum, computed ? SF_ROWS_COMPUTED : SF_ROWS_MISPLACED);
}

/*
 * An ordinary table: all its columns, and whatever hangs on it without one.
 * Returns the columns that have values where they do not belong.
 */
static List *
sync_rows_table(Relation rel, const SfDirtyTable *dirty)
{
	List	   *misplaced = NIL;

	SF_ASSERT(dirty->relid == RelationGetRelid(rel));
	refuse_unfinished(rel);
	drop_surplus(rel);
	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		if (sfi_ddl_is_column(rel, attnum) && sync_column(rel, attnum, dirty))
			misplaced = lappend_int(misplaced, attnum);
	}
	/* a file that ALTER TABLE has made was looked at */
	if (has_new_file(rel, dirty))
		sfi_ddl_file_is_right(dirty->relid, rel->rd_rel->relfilenode);
	return misplaced;
}

List *
sfi_ddl_sync_table(const SfDirtyTable *dirty)
{
	Relation	rel;
	bool		has_columns = false;
	bool		mend = false;
	List	   *misplaced = NIL;

	/* a table is not brought in line while a segment is being made */
	SF_ASSERT(sfi_ddl_segment_birth == NULL);
	if (dirty->relid < FirstNormalObjectId)
		return NIL;
	rel = try_relation_open(dirty->relid, AccessShareLock);
	if (rel == NULL)
		return NIL;
	/* of others; or about to give its storage to the table it is to replace */
	if (RELATION_IS_OTHER_TEMP(rel) || OidIsValid(rel->rd_rel->relrewrite))
	{
		relation_close(rel, AccessShareLock);
		return NIL;
	}
	if (of_concern(rel))
		has_columns = sfi_ddl_validate(rel);
	if (rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE)
		sfi_ddl_warn_foreign(rel);
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		sfi_ddl_refuse_partition_key(rel);
		sfi_ddl_refuse_segment_am(rel);
	}
	if (rel->rd_rel->relkind == RELKIND_INDEX ||
		rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX)
	{
		sfi_ddl_validate_index(rel);
		sfi_ddl_refuse_hashed(rel);
	}
	if (rel->rd_rel->relkind == RELKIND_RELATION)
		mend = has_columns || sfi_ddl_segments_of(dirty->relid) != NIL ||
			sfi_ddl_triggers_of(dirty->relid) != NIL;
	if (mend)
		misplaced = sync_rows_table(rel, dirty);
	if (has_columns)
		sfi_ddl_tell_unkept(rel, dirty);
	relation_close(rel, mend ? NoLock : AccessShareLock);
	return misplaced;
}

void
sfi_ddl_resync_table(Oid relid)
{
	SfDirtyTable table = {.relid = relid};
	List	   *misplaced = sfi_ddl_sync_table(&table);

	/* only rows that an ALTER TABLE has written can be */
	if (misplaced != NIL)
		elog(ERROR, "values of table %u are not where they belong", relid);
}

bool
sfi_ddl_table_has_columns(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		found = false;

	if (rel == NULL)
		return false;
	if (of_concern(rel))
		found = sfi_ddl_validate(rel) &&
			rel->rd_rel->relkind == RELKIND_RELATION;
	relation_close(rel, NoLock);
	return found;
}
