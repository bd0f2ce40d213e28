/*-------------------------------------------------------------------------
 *
 * replaced.c
 *	  Tables whose rows a command of this session is about to replace.
 *
 * While such a command runs, functions of users may run too and write to the
 * table.  Three states of a table make that wrong:
 *
 *	 ALTERED	ALTER TABLE has added or changed columns, and has neither rewritten
 *				the rows yet nor made the triggers: the old rows would be read by a
 *				description that is not theirs, and new ones could come past the
 *				triggers.  Ends when the table has another file, or with the command.
 *				If a column becomes a securefile, or something else of one, the rows
 *				are not read either: locators would be given out as bytes, and bytes
 *				be taken for locators.
 *	 COPIED		the rows are copied to new storage: what is deleted now is
 *				kept, without its securefile values.  Core makes a relation for the
 *				new storage, of whatever command, and says in it whose it is
 *				(relrewrite); it drops that when storage was exchanged.
 *	 TRUNCATED	the segments have new storage, the table has not: what is stored
 *				now stays, without its row.  Ends when the table has another file, or,
 *				if it is truncated in place, when that is empty.
 *
 * Nothing is asked about statements, names or locks, so it does not matter by
 * which command or through which tree a table came into its state.  States are
 * of this session, and end with the command or the (sub)transaction that
 * failed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "ddl/ddl.h"
#include "ddl/command.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

typedef enum ReplacedState
{
	ALTERED,
	COPIED,
	TRUNCATED,
} ReplacedState;

typedef struct Replaced
{
	ReplacedState state;
	Oid			table_oid;
	Oid			transient;		/* COPIED: the relation for the new storage */
	Oid			relfilenode;	/* the others: file of the rows */
	AttrNumber	attnum;			/* ALTERED: the column, and the type that it
								 * had; */
	Oid			old_type;		/* InvalidOid: it is new */
	bool		in_place;		/* TRUNCATED: that will be truncated, not
								 * replaced */
	int			depth;			/* nesting level of the command */
	int			level;			/* and of the subtransaction */
} Replaced;

static List *all_replaced = NIL;	/* in TopTransactionContext */

static Replaced *
add_state(ReplacedState state, Oid table_oid)
{
	MemoryContext context = MemoryContextSwitchTo(TopTransactionContext);
	Replaced   *replaced = palloc0(sizeof(Replaced));

	SF_ASSERT(IsTransactionState() && OidIsValid(table_oid));
	replaced->state = state;
	replaced->table_oid = table_oid;
	replaced->depth = sfi_ddl_command.depth;
	replaced->level = GetCurrentTransactionNestLevel();
	all_replaced = lappend(all_replaced, replaced);
	MemoryContextSwitchTo(context);
	return replaced;
}

/* The first state for which fits() says so of a table; NULL: none. */
static Replaced *
find_state(bool (*fits) (const Replaced *replaced, Oid table_oid), Oid table_oid)
{
	ListCell   *lc;

	foreach(lc, all_replaced)
	{
		if (fits(lfirst(lc), table_oid))
			return lfirst(lc);
	}
	return NULL;
}

/* ---- rewriting ---- */

/* The file number of a table, as the catalog has it now; InvalidOid: it is gone. */
static Oid
file_of(Oid table_oid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table_oid));
	Oid			relfilenode = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		relfilenode = ((Form_pg_class) GETSTRUCT(tuple))->relfilenode;
		ReleaseSysCache(tuple);
	}
	return relfilenode;
}

/* Core has not made its change visible yet: the catalog has the old type. */
void
sfi_ddl_columns_altered(Oid table_oid, AttrNumber attnum)
{
	Replaced   *replaced;

	if (sfi_ddl_command.alter == NULL || !sfi_ddl_command.alter->may_bring_values)
		return;
	SF_ASSERT(attnum > 0);
	replaced = add_state(ALTERED, table_oid);
	replaced->relfilenode = file_of(table_oid);
	replaced->attnum = attnum;
	replaced->old_type = get_atttype(table_oid, attnum);
}

/* Core has it open; the catalogs do not show it before the next command. */
void
sfi_ddl_storage_made(Oid relid)
{
	Relation	rel = RelationIdGetRelation(relid);
	Oid			table_oid;
	Oid			relfilenode;

	if (rel == NULL)
		return;
	table_oid = rel->rd_rel->relrewrite;
	relfilenode = rel->rd_rel->relfilenode;
	RelationClose(rel);
	if (!OidIsValid(table_oid))
		return;
	add_state(COPIED, table_oid)->transient = relid;
	if (sfi_ddl_only_rewrites())
		sfi_ddl_file_is_right(table_oid, relfilenode);
}

/*
 * What kind of relation the new storage is, since TOAST tables get some, too; '\0' when
 * there is none.  Core drops it when storage was exchanged.  A report of that is not
 * believed: a drop may fail, or be rolled back to a savepoint.
 */
static char
copied_to(const Replaced *replaced)
{
	return replaced->state == COPIED ? get_rel_relkind(replaced->transient) : '\0';
}

static bool
is_copied(const Replaced *replaced, Oid any_table)
{
	return copied_to(replaced) != '\0';
}

bool
sfi_ddl_any_copied(void)
{
	return find_state(is_copied, InvalidOid) != NULL;
}

/* What was copied is dropped, so the last one is that of the innermost command. */
Oid
sfi_ddl_rewritten_table(Oid *transient)
{
	for (int i = list_length(all_replaced) - 1; i >= 0; i--)
	{
		const Replaced *replaced = list_nth(all_replaced, i);

		if (copied_to(replaced) == RELKIND_RELATION)
		{
			*transient = replaced->transient;
			return replaced->table_oid;
		}
	}
	elog(ERROR, "no table is being rewritten by this command");
}

static bool
is_rewritten(const Replaced *replaced, Oid table_oid)
{
	return replaced->table_oid == table_oid &&
		(copied_to(replaced) != '\0' ||
		 (replaced->state == ALTERED && replaced->relfilenode == file_of(table_oid)));
}

void
sfi_ddl_refuse_rewritten(Relation rel)
{
	if (find_state(is_rewritten, RelationGetRelid(rel)) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot write to table \"%s\" while a command of this session may rewrite it",
						RelationGetRelationName(rel)),
				 errdetail("The command would keep the old rows, whose securefile values would be freed."),
				 errhint("Write to the table before or after the command, not in a function that it calls; in an event trigger under a name that sorts after \"securefile_ddl\".")));
}

/* ---- reading rows that have the form of other types ---- */

/*
 * Have the rows of the table (InvalidOid: of any) still the form of another type, where
 * one of the two is securefile?
 */
static bool
is_misread(const Replaced *replaced, Oid table_oid)
{
	Oid			type;

	if (OidIsValid(table_oid) && table_oid != replaced->table_oid)
		return false;
	if (replaced->state != ALTERED || !OidIsValid(replaced->old_type) ||
		!OidIsValid(replaced->relfilenode))
		return false;
	type = get_atttype(replaced->table_oid, replaced->attnum);
	return OidIsValid(type) && getBaseType(type) != getBaseType(replaced->old_type) &&
		(sfi_ddl_contains_securefile(type) || sfi_ddl_contains_securefile(replaced->old_type)) &&
		file_of(replaced->table_oid) == replaced->relfilenode;
}

void
sfi_ddl_refuse_misread(Oid table_oid)
{
	const Replaced *replaced = find_state(is_misread, table_oid);

	if (replaced != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot read table \"%s\" while a command of this session changes the type of its column \"%s\"",
						get_rel_name(replaced->table_oid),
						get_attname(replaced->table_oid, replaced->attnum, false)),
				 errdetail("The rows still have the form of the old type."),
				 errhint("Read the table before or after the command, not in a function that it calls.")));
}

/* Of a table, and of all that is read with it. */
static void
refuse_misread_tree(Oid table_oid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(table_oid, NoLock, NULL))
		sfi_ddl_refuse_misread(lfirst_oid(lc));
}

void
sfi_ddl_refuse_misread_rtes(const List *rtable)
{
	ListCell   *lc;

	foreach(lc, all_replaced == NIL ? NIL : rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind != RTE_RELATION)
			continue;
		/* rows may be routed to leaves that the plan does not name */
		if (rte->relkind == RELKIND_PARTITIONED_TABLE)
			refuse_misread_tree(rte->relid);
		else
			sfi_ddl_refuse_misread(rte->relid);
	}
}

static void
refuse_misread_name(const RangeVar *name)
{
	Oid			relid = name == NULL ? InvalidOid : RangeVarGetRelid(name, NoLock, true);

	if (OidIsValid(relid))
		refuse_misread_tree(relid);
}

static void
refuse_misread_attached(const AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		const AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AttachPartition)
			refuse_misread_name(castNode(PartitionCmd, cmd->def)->name);
	}
}

/* Does a command read rows of tables, or replace their files, that it does not name? */
static bool
reads_unnamed(const Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_VacuumStmt:		/* ANALYZE keeps samples */
		case T_ReindexStmt:
		case T_AlterDomainStmt:
		case T_AlterTableMoveAllStmt:
			return true;
		default:
			return false;
	}
}

/* The relation that a command reads past the executor, if it is such a command. */
static const RangeVar *
read_by(const Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_AlterTableStmt:
			return ((const AlterTableStmt *) stmt)->relation;
		case T_CopyStmt:
			return ((const CopyStmt *) stmt)->relation;
		case T_IndexStmt:
			return ((const IndexStmt *) stmt)->relation;
		case T_ClusterStmt:
			return ((const ClusterStmt *) stmt)->relation;
		default:
			return NULL;
	}
}

void
sfi_ddl_refuse_misread_by(const Node *stmt)
{
	if (all_replaced == NIL)
		return;
	if (reads_unnamed(stmt))
		sfi_ddl_refuse_misread(InvalidOid);
	refuse_misread_name(read_by(stmt));
	if (IsA(stmt, AlterTableStmt))
		refuse_misread_attached((const AlterTableStmt *) stmt);
}

/* ---- TRUNCATE ---- */

static bool
is_truncated(const Replaced *replaced, Oid table_oid)
{
	return replaced->state == TRUNCATED && replaced->table_oid == table_oid;
}

/* Core truncates in place what goes anyway if this (sub)transaction fails. */
static bool
is_truncated_in_place(Relation rel)
{
	SubTransactionId mine = GetCurrentSubTransactionId();

	return rel->rd_createSubid == mine || SfNewStorageSubid(rel) == mine;
}

/*
 * So that an empty file tells of the truncation.  A block of zeros is what a
 * crash can leave in a heap, too.
 */
static void
add_empty_block(Relation rel)
{
	if (rel->rd_tableam == GetHeapamTableAmRoutine() && RelationGetNumberOfBlocks(rel) == 0)
		ReleaseBuffer(ReadBuffer(rel, P_NEW));
}

void
sfi_ddl_truncate_begins(Relation rel)
{
	Replaced   *replaced = find_state(is_truncated, RelationGetRelid(rel));

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessExclusiveLock, true));
	/* there may be one from another column, or from an earlier command */
	if (replaced != NULL)
		all_replaced = list_delete_ptr(all_replaced, replaced);
	replaced = add_state(TRUNCATED, RelationGetRelid(rel));
	replaced->relfilenode = rel->rd_rel->relfilenode;
	replaced->in_place = is_truncated_in_place(rel);
	if (replaced->in_place)
		add_empty_block(rel);
}

bool
sfi_ddl_follow_truncation(Relation rel)
{
	Replaced   *replaced = find_state(is_truncated, RelationGetRelid(rel));

	if (replaced == NULL)
		return false;
	if (replaced->relfilenode == rel->rd_rel->relfilenode &&
		(!replaced->in_place || RelationGetNumberOfBlocks(rel) > 0))
		return true;
	all_replaced = list_delete_ptr(all_replaced, replaced);
	return false;
}

void
sfi_ddl_refuse_truncated(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot store a value in table \"%s\" while it is being truncated",
					RelationGetRelationName(rel)),
			 errdetail("The row would be truncated with the others, and the space of its value would stay taken."),
			 errhint("Write to the table in an AFTER TRUNCATE trigger, or after the command.")));
}

void
sfi_ddl_truncated_are_right(void)
{
	ListCell   *lc;

	foreach(lc, all_replaced)
	{
		const Replaced *replaced = lfirst(lc);

		if (replaced->state == TRUNCATED && replaced->depth >= sfi_ddl_command.depth)
			sfi_ddl_file_is_right(replaced->table_oid, file_of(replaced->table_oid));
	}
}

/* ---- ends ---- */

/* Forget the states of commands from a nesting level on, and of subtransactions likewise. */
static void
forget_states(int from_depth, int from_level)
{
	ListCell   *lc;

	foreach(lc, all_replaced)
	{
		Replaced   *replaced = lfirst(lc);

		if (replaced->depth >= from_depth || replaced->level >= from_level)
			all_replaced = foreach_delete_current(all_replaced, lc);
	}
}

void
sfi_ddl_replaced_at_command_end(void)
{
	forget_states(sfi_ddl_command.depth, INT_MAX);
}

void
sf_ddl_at_subcommit(int level)
{
	ListCell   *lc;

	SF_ASSERT(level > 1);
	foreach(lc, all_replaced)
	{
		Replaced   *replaced = lfirst(lc);

		/* states of deeper levels ended with them, or came here */
		SF_ASSERT(replaced->level <= level);
		replaced->level = Min(replaced->level, level - 1);
	}
}

void
sf_ddl_at_subabort(int level)
{
	SF_ASSERT(level > 1);
	forget_states(INT_MAX, level);
}

void
sf_ddl_replaced_at_end(void)
{
	all_replaced = NIL;
}
