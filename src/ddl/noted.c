/*-------------------------------------------------------------------------
 *
 * noted.c
 *	  The tables that commands have touched, until they are brought in line.
 *
 * The object access hook notes every relation that is created or altered, by
 * whatever command.  When the command is through, at its own nesting level,
 * the noted tables are brought in line (sfi_ddl_drain).  Not earlier: a nested
 * command (in an event trigger, say) may end while the outer one has changed
 * the catalogs but not yet rewritten the rows, and a segment dropped then
 * could not be read any more.
 *
 * Bringing a table in line may run functions of its owner (index expressions
 * of rows that are stored), and these may run commands.  So notes are taken at
 * any time, a nested command drains what it has noted itself, and the drain
 * goes on until nothing is left.  A note leaves the list only when its table
 * is in line, or when the command that made it failed.
 *
 * One kind of note a nested command does not drain: of a table that a command
 * around it is making, filling or rewriting (RENAME is possible even then).
 * With a segment and triggers in the middle of that, some rows would have come
 * with triggers and others without, and nobody could tell which; and the rows
 * may not be of the form that the catalogs say.  Such a note is handed to the
 * command around (put_off).
 *
 * N1	Notes stand in the order in which they were made, so those of a nested
 *		command stand behind those of the commands around it.
 * N2	No transaction commits while a noted table lacks what it should have
 *		(sf_ddl_require_followed).
 * N3	Nobody looks at the rows of a table, or makes a segment or triggers for it,
 *		while a command around the current one has it in work (is_in_work).
 *
 * N1 and N3 are asserted.  N2 needs no assertion: every build looks, and throws.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "ddl/ddl.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* how far back a note of the same table is looked for; the drain finds the others */
#define RECENT_NOTES	8

static SfDirtyTable *notes = NULL;
static int	nnotes = 0;
static int64 capacity = 0;

/* ---- commands ---- */

int
sfi_ddl_notes_mark(void)
{
	return nnotes;
}

void
sfi_ddl_notes_fail(int mark)
{
	SF_ASSERT(mark >= 0);
	nnotes = Min(nnotes, mark);
}

void
sfi_ddl_notes_forget(int mark, Oid relid)
{
	int			kept = mark;

	SF_ASSERT(mark >= 0 && mark <= nnotes);
	for (int i = mark; i < nnotes; i++)
	{
		if (notes[i].depth != sfi_ddl_command.depth ||
			(OidIsValid(relid) && notes[i].relid != relid))
			notes[kept++] = notes[i];
	}
	nnotes = kept;
}

/* ---- noting ---- */

/* The lower one of two numbers of columns that were added; 0: none. */
static AttrNumber
first_added(AttrNumber a, AttrNumber b)
{
	SF_ASSERT(a >= 0 && b >= 0);
	return a == 0 || b == 0 ? Max(a, b) : Min(a, b);
}

/* What ALTER TABLE may do, if the current command is one. */
static void
note_alter(SfDirtyTable *note)
{
	if (sfi_ddl_command.alter == NULL)
		return;
	note->altering = true;
	note->brings_values |= sfi_ddl_command.alter->may_bring_values;
}

/* A note of this relation at this level, among the last ones, or NULL. */
static SfDirtyTable *
find_recent(Oid relid)
{
	for (int i = nnotes - 1; i >= 0 && i >= nnotes - RECENT_NOTES; i--)
	{
		if (notes[i].relid == relid && notes[i].depth == sfi_ddl_command.depth)
			return &notes[i];
	}
	return NULL;
}

static SfDirtyTable *
add_table_note(Oid relid)
{
	SfDirtyTable *note;

	notes = sf_base_array_grow(notes, nnotes, &capacity, sizeof(SfDirtyTable), TopMemoryContext);
	SF_INVARIANT(N1, nnotes == 0 || notes[nnotes - 1].depth <= sfi_ddl_command.depth);
	note = &notes[nnotes++];
	memset(note, 0, sizeof(SfDirtyTable));
	note->relid = relid;
	note->depth = sfi_ddl_command.depth + (SF_BREAKS(n1) ? 1 : 0);
	note->by_command = true;
	return note;
}

/*
 * File number and tablespace are taken at the first touch, which in ALTER TABLE
 * comes before the rows are rewritten or moved: a later difference tells of that.
 */
void
sfi_ddl_note_table(Oid relid, bool created, AttrNumber added)
{
	SfDirtyTable *note;
	HeapTuple	tuple;

	SF_ASSERT(OidIsValid(relid) && (!created || added == 0));
	/* a segment, which is made while a table is brought in line */
	if (sfi_ddl_segment_birth != NULL)
		return;
	note = find_recent(relid);
	if (note != NULL)
	{
		note->first_added = first_added(note->first_added, added);
		note_alter(note);
		return;
	}

	note = add_table_note(relid);
	note->created = created;
	note->first_added = added;
	note_alter(note);
	tuple = created ? NULL : SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		note->relfilenode = form->relfilenode;
		note->tablespace = sfi_ddl_tablespace(form->reltablespace);
		ReleaseSysCache(tuple);
	}
}

/* ---- acting ---- */

/*
 * Is this a note of the current command, or of one inside it?  A command of the
 * outermost level also has what was noted outside of any (by a function that
 * makes tables in its own way).
 */
static bool
is_current(const SfDirtyTable *note)
{
	return note->depth >= sfi_ddl_command.depth || sfi_ddl_command.depth == 1;
}

/*
 * A note of the table by a command around the current one; the one that made it,
 * if there is one.  They stand before all current ones (N1).
 */
static SfDirtyTable *
find_outer(Oid relid)
{
	SfDirtyTable *outer = NULL;

	for (int i = 0; i < nnotes && !is_current(&notes[i]); i++)
	{
		if (notes[i].relid == relid && (outer == NULL || notes[i].created))
			outer = &notes[i];
	}
	return outer;
}

/* Does anybody else in this session have the relation open? */
static bool
is_open(Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		open;

	if (rel == NULL)
		return false;
	open = rel->rd_refcnt > 1;
	relation_close(rel, NoLock);
	return open;
}

/*
 * Is the command that made the note in the middle of its work on the table?
 * ALTER TABLE changes the catalogs of all its tables first, then rewrites one
 * after the other, and closes them in between.  A table that is being filled is
 * open (CREATE TABLE AS).
 */
static bool
is_in_work(const SfDirtyTable *outer)
{
	return outer->altering || is_open(outer->relid);
}

/* Has the current ALTER TABLE made securefile columns of others, or such again? */
static bool
changed_type(Oid relid)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_command.alter == NULL ? NIL : sfi_ddl_command.alter->retyped)
	{
		const SfAltered *altered = lfirst(lc);
		int32		typmod = -1;

		if (altered->table_oid == relid &&
			sfi_ddl_is_securefile(get_atttype(relid, altered->attnum), &typmod))
			return true;
	}
	return false;
}

/*
 * Hand a note to the command around, whose drain knows that columns were added,
 * but cannot tell values that a USING has put into rows from those that were there.
 */
static void
put_off(SfDirtyTable *note, const SfDirtyTable *outer)
{
	if (changed_type(note->relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot change the type of a securefile column of table \"%s\" inside another command that alters the table",
						get_rel_name(note->relid)),
				 errhint("Change it before or after that command, not in a function that it calls; in an event trigger under a name that sorts after \"securefile_ddl\".")));
	SF_ASSERT(outer->depth < note->depth);
	note->depth = outer->depth;
}

static void
put_off_notes(void)
{
	for (int i = 0; i < nnotes; i++)
	{
		const SfDirtyTable *outer = is_current(&notes[i]) ? find_outer(notes[i].relid) : NULL;

		if (outer != NULL && is_in_work(outer) && !SF_BREAKS(n3))
			put_off(&notes[i], outer);
	}
}

static int
compare_notes(const void *a, const void *b)
{
	Oid			x = ((const SfDirtyTable *) a)->relid;
	Oid			y = ((const SfDirtyTable *) b)->relid;

	return x != y ? (x > y) - (x < y)
		: ((const SfDirtyTable *) a)->order - ((const SfDirtyTable *) b)->order;
}

/* Several notes of one table become one; returns how many are left. */
static int
merge_notes(SfDirtyTable *list, int count)
{
	int			unique = 0;

	qsort(list, count, sizeof(SfDirtyTable), compare_notes);
	for (int i = 0; i < count; i++)
	{
		SfDirtyTable *last = unique > 0 ? &list[unique - 1] : NULL;

		if (last == NULL || last->relid != list[i].relid)
		{
			list[unique++] = list[i];
			continue;
		}
		last->created |= list[i].created;
		last->brings_values |= list[i].brings_values;
		last->first_added = first_added(last->first_added, list[i].first_added);
		/* any difference between first and last file number is a rewrite */
		if (!OidIsValid(last->relfilenode))
			last->relfilenode = list[i].relfilenode;
		if (!OidIsValid(last->tablespace))
			last->tablespace = list[i].tablespace;
		last->moved |= OidIsValid(list[i].tablespace) &&
			list[i].tablespace != last->tablespace;
	}
	return unique;
}

/*
 * The current notes, one a table, palloc'd; they stay in the list.  A table that
 * a command around has made is new here, too, if it was not brought in line since.
 */
static SfDirtyTable *
current_notes(int *count)
{
	SfDirtyTable *current = palloc(nnotes * sizeof(SfDirtyTable));
	int			n = 0;

	for (int i = 0; i < nnotes; i++)
	{
		const SfDirtyTable *outer;

		if (!is_current(&notes[i]))
			continue;
		outer = find_outer(notes[i].relid);
		current[n] = notes[i];
		current[n].order = n;
		current[n].created |= outer != NULL && outer->created;
		n++;
	}
	*count = merge_notes(current, n);
	return current;
}

/*
 * These are in line, so those that a command around has made are new no more.  One
 * that is open may still be filled: all its rows are looked at in the end.
 */
static void
settle_outer(const SfDirtyTable *tables, int count)
{
	for (int i = 0; i < count; i++)
	{
		SfDirtyTable *outer = find_outer(tables[i].relid);

		if (outer != NULL && outer->created && !is_open(outer->relid))
			outer->created = false;
	}
}

/*
 * Take the current ones of the first notes off the list.  These have kept
 * their places: whatever nested commands have added since is behind them (N1).
 */
static void
forget_current(int end)
{
	int			kept = 0;

	SF_ASSERT(end <= nnotes);
	for (int i = 0; i < nnotes; i++)
	{
		if (i >= end || !is_current(&notes[i]))
			notes[kept++] = notes[i];
	}
	nnotes = kept;
}

/* Has a command around the current one the table in work? */
static bool
is_in_outer_work(Oid relid)
{
	const SfDirtyTable *outer = find_outer(relid);

	return outer != NULL && is_in_work(outer);
}

/*
 * Write the rows of a table anew.  That makes and drops relations as ALTER TABLE
 * does, which notes the table once more; nothing has changed that sync looks at.
 */
static void
rebuild(Oid relid, List *attnums)
{
	int			mark = nnotes;

	sfi_ddl_rebuild(relid, attnums);
	sfi_ddl_notes_forget(mark, relid);
}

/* COMMIT comes without an active snapshot, which changes of catalogs want. */
static void
sync_tables(const SfDirtyTable *tables, int count)
{
	bool		lacks_snapshot = !ActiveSnapshotSet();

	if (lacks_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < count; i++)
	{
		List	   *misplaced;

		SF_INVARIANT(N3, !is_in_outer_work(tables[i].relid));
		misplaced = sfi_ddl_sync_table(&tables[i]);
		if (misplaced != NIL)
			rebuild(tables[i].relid, misplaced);
	}
	if (lacks_snapshot)
		PopActiveSnapshot();
}

/* ERROR if a noted table lacks a trigger, or the extension an object that the table needs. */
static void
require_noted_triggers(void)
{
	for (int i = 0; i < nnotes; i++)
	{
		Relation	rel = notes[i].relid < FirstNormalObjectId ? NULL
			: try_relation_open(notes[i].relid, AccessShareLock);

		if (rel == NULL)
			continue;
		sfi_ddl_require_triggers(rel, rel->trigdesc);
		relation_close(rel, NoLock);
	}
}

void
sfi_ddl_drain(void)
{
	for (;;)
	{
		int			end = nnotes;
		SfDirtyTable *current;
		int			count;

		if (end == 0 || !sfi_ddl_noting())
			return;
		CommandCounterIncrement();
		if (sfi_ddl_objects() != NULL)
			put_off_notes();
		else if (OidIsValid(sfi_ddl_am_oid()))
			require_noted_triggers();
		current = current_notes(&count);
		if (count > 0 && sfi_ddl_objects() != NULL)
			sync_tables(current, count);
		settle_outer(current, count);
		pfree(current);
		forget_current(end);
		if (count == 0)
			return;
	}
}

/* ---- end of the transaction ---- */

void
sf_ddl_require_followed(void)
{
	if (nnotes > 0 && sfi_ddl_noting() && sfi_ddl_objects() != NULL)
		require_noted_triggers();
}

/* What was noted outside of any command goes with its transaction. */
void
sf_ddl_notes_at_end(void)
{
	if (sfi_ddl_command.depth == 0)
		nnotes = 0;
}
