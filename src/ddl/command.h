/*-------------------------------------------------------------------------
 *
 * command.h
 *	  Commands: which is being run, which tables it has touched, and the steps
 *	  before, in the course of, and after it.  hooks.c calls most of this.
 *
 * A command is a utility command of any kind.  Commands nest (functions, event
 * triggers); the nesting level of the outermost one is 1.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_COMMAND_H
#define SF_DDL_COMMAND_H

#include "ddl/objects.h"
#include "executor/execdesc.h"
#include "tcop/utility.h"
#include "nodes/params.h"
#include "utils/reltrigger.h"

/* ---- command.c: the command that is being run ---- */

/*
 * Can tables change in this process and at this moment?  False in parallel
 * workers, in recovery, outside transactions, and while pg_upgrade runs: then hooks
 * do nothing.  Never throws.
 */
extern bool sfi_ddl_noting(void);

/* A column whose type ALTER TABLE changes, by its number: functions may rename it. */
typedef struct SfAltered
{
	Oid			table_oid;
	AttrNumber	attnum;
	const char *name;			/* by which the command found it */
	bool		by_using;		/* USING gives it new values */
	SfOptions	before;			/* that it had; of another type: the defaults */
} SfAltered;

/* An ALTER TABLE.  Lives in the memory context that it was analyzed in. */
typedef struct SfAlter
{
	bool		may_bring_values;	/* new column, or change of type */
	bool		drops_cascade;	/* DROP COLUMN .. CASCADE */
	List	   *retyped_names;	/* String nodes: ALTER TYPE */
	List	   *using_names;	/* names with a USING that computes */
	List	   *retyped;		/* SfAltered, one a column and table */
	List	   *converts;		/* SfConvert, or NULL, of each */
	SfRowContext row;			/* the row whose value is being converted */
} SfAlter;

typedef struct SfTakenColumns SfTakenColumns;

/* The current command, which is the innermost one.  hooks.c sets it, and the outer one again. */
typedef struct SfCommand
{
	int			depth;			/* nesting level; 0: there is no command */
	NodeTag		tag;			/* T_Invalid: there is none */
	SfAlter    *alter;			/* if it is an ALTER TABLE, or NULL */
	SfTakenColumns *taken;		/* NULL where no WARNING is wanted */
} SfCommand;

extern SfCommand sfi_ddl_command;

/* Does it copy rows as they are to new files (VACUUM FULL, CLUSTER)?  Never throws. */
extern bool sfi_ddl_only_rewrites(void);

/*
 * The number of the column that the current ALTER TABLE has found under that name
 * and changes the type of; InvalidAttrNumber: none.  Never throws.
 */
extern AttrNumber sfi_ddl_altered_column(Oid table_oid, const char *name);

/* ---- objects_version.c: does the library fit the SQL objects? ---- */

/*
 * After a command that has made or changed an extension: ERROR
 * OBJECT_NOT_IN_PREREQUISITE_STATE when the SQL objects are later than the library.
 */
extern void sfi_ddl_require_version(void);

/* Is it CREATE or ALTER EXTENSION securefile?  Its errors may need the hint below. */
extern bool sfi_ddl_changes_version(Node *stmt);

/* Add to the current error, of such a command, what to do; see sfi_ddl_convert_hint(). */
extern void sfi_ddl_version_hint(void);

/* ---- alter.c ---- */

/*
 * Describe an ALTER TABLE before it runs.  May change the statement: see
 * sfi_ddl_convert(), also for locks and errors.  query: the text, for positions in
 * errors.
 */
extern SfAlter *sfi_ddl_alter_analyze(AlterTableStmt *stmt, const char *query);

/*
 * The object access hook has heard that a column was altered.  If the current
 * ALTER TABLE changes the type of a column of that name, adds the column to
 * sfi_ddl_command.alter->retyped.  ERROR OBJECT_IN_USE: see sfi_ddl_convert_verify().
 */
extern void sfi_ddl_alter_note(Oid table_oid, AttrNumber attnum);

/* ---- taken.c: a WARNING for columns whose values are taken away ---- */

/*
 * Before a command: what sfi_ddl_command.taken is to be while it runs.  The result lives in
 * CurrentMemoryContext.
 */
extern SfTakenColumns *sfi_ddl_taken_begin(const Node *stmt);

/*
 * The object access hook has heard that a column is to be dropped, or that its type may
 * change.  Its definition and its rows are as they were.  The command has locked the
 * table.  Looks at some pages of the table; never fails because of damage.
 */
extern void sfi_ddl_taken_note(Oid table_oid, AttrNumber attnum, bool dropped);

/* The command is done: one WARNING for all columns of type securefile that are not any more. */
extern void sfi_ddl_taken_report(void);

/* ---- convert.c: ALTER COLUMN TYPE ---- */

typedef struct SfConvert SfConvert;

/*
 * If this part of an ALTER TABLE gives a column of another type the type
 * securefile, let its expression store the values: changes cmd.  Returns a
 * description for sfi_ddl_convert_verify(); NULL: cmd is unchanged.  Locks the
 * table as the statement will, with the errors of the statement.
 */
extern SfConvert *sfi_ddl_convert(AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query);

/*
 * Core has found a column under a name and alters it.  ERROR OBJECT_IN_USE if
 * convert was made for that table and name, and now another column has the name, or
 * a column that the expression reads was renamed.  convert may be NULL.
 */
extern void sfi_ddl_convert_verify(const SfConvert *convert, Oid table_oid, AttrNumber attnum,
								   const char *name);

/*
 * If this part of an ALTER TABLE reads a column that is a securefile, let its
 * expression say for each row which row that is (sfi_ddl_command.alter->row).  Result,
 * locks and errors as of sfi_ddl_convert().
 */
extern SfConvert *sfi_ddl_convert_from(AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query);

/* Is the statement an ALTER TABLE that gives a column the type securefile? */
extern bool sfi_ddl_converts(Node *stmt);

/*
 * Such a statement has failed: if that was for an object on the column that a
 * securefile cannot have, add a hint to the error.  Call only in PG_CATCH().
 */
extern void sfi_ddl_convert_hint(void);

/* ---- keep_values.c: values that are used longer than a snapshot shows them ---- */

/*
 * A utility command begins: which kind of reader it is (space/keep.h), or 0.  It ends, also by
 * an error; that never throws.
 */
extern uint32 sfi_ddl_keep_begins(Node *stmt, ProcessUtilityContext context);
extern void sfi_ddl_keep_ends(uint32 reader);

/* A query is about to return rows to its receiver. */
extern void sfi_ddl_keep_results(const QueryDesc *query);

/*
 * Can a row have a stored value?  Built-in types contain none, but for a row whose columns
 * are not known.
 */
extern bool sfi_ddl_may_have_values(TupleDesc desc);

/* ---- noted.c: the tables that commands have touched ---- */

/* A table that was noted, and what a command may have done to it. */
typedef struct SfDirtyTable
{
	Oid			relid;
	int			depth;			/* nesting level of the command */
	bool		by_command;		/* noted: rows may have come without triggers */
	bool		altering;		/* by ALTER TABLE, or the like */
	bool		brings_values;	/* which may have brought values: see SfAlter */
	bool		created;		/* the table is new */
	AttrNumber	first_added;	/* columns from here on are new; 0: none is */
	Oid			relfilenode;	/* when first touched by the command */
	Oid			tablespace;		/* likewise; InvalidOid: not known */
	bool		moved;			/* was in several tablespaces meanwhile */
	int			order;			/* among the notes that are drained together */
} SfDirtyTable;

/* Was the column added by the command? */
static inline bool
sfi_ddl_is_added(const SfDirtyTable *dirty, AttrNumber attnum)
{
	return dirty->first_added != 0 && attnum >= dirty->first_added;
}

/*
 * Note a relation that was created or altered by the current command.  added: the
 * number of the column that was added, or 0.
 */
extern void sfi_ddl_note_table(Oid relid, bool created, AttrNumber added);

/*
 * Before a command, a mark; if the command fails, forget all notes since, for what
 * they say did not happen.  Never throw.
 */
extern int	sfi_ddl_notes_mark(void);
extern void sfi_ddl_notes_fail(int mark);

/*
 * Forget the notes that the current command itself has made since a mark: of one relation,
 * or of all (InvalidOid).  Never throws.
 */
extern void sfi_ddl_notes_forget(int mark, Oid relid);

/*
 * Bring in line all tables that the current command has touched.  Locks them as
 * sfi_ddl_sync_table() does, with its errors.  May run functions of the tables'
 * owners, as the owners.  ERROR OBJECT_IN_USE if the type of a securefile column was
 * changed while a command around the current one alters the table.
 */
extern void sfi_ddl_drain(void);

/* ---- sync.c: bringing one table in line ---- */

/* A table may have become a shell, or have lost the rows that it had before (shell.c). */
extern void sfi_ddl_note_shell(void);

/*
 * Bring a table in line with its columns: validate them, make and drop segments
 * and triggers, store values that came past the triggers.  Does nothing to relations
 * that are gone or have no securefile columns.  Takes AccessShareLock on the table,
 * ShareRowExclusiveLock to make objects or store rows, and keeps them.
 *
 * Returns the columns (list of AttrNumber) that have values where they do not
 * belong after a rewrite by ALTER TABLE; the caller has to rebuild the table
 * (sfi_ddl_rebuild()).  NIL: none.
 */
extern List *sfi_ddl_sync_table(const SfDirtyTable *dirty);

/* The same for a table whose columns no command alters. */
extern void sfi_ddl_resync_table(Oid relid);

/*
 * Is this an ordinary table with securefile columns?  Takes AccessShareLock and
 * keeps it.  Errors of sfi_ddl_validate().
 */
extern bool sfi_ddl_table_has_columns(Oid relid);

/* ---- unkept.c: what a column with a retention does not keep ---- */

/*
 * A table is in line with its columns: NOTICE for each column that has got a retention, or
 * another one, by the command and can have values in rows.
 */
extern void sfi_ddl_tell_unkept(Relation rel, const SfDirtyTable *dirty);

/* ---- defend.c: no row is written past the triggers ---- */

/*
 * ERROR OBJECT_NOT_IN_PREREQUISITE_STATE if a securefile column of an open
 * ordinary table lacks a row trigger in this description of the table's triggers, or
 * the extension one of its objects (sfi_ddl_require_whole()).
 */
extern void sfi_ddl_require_triggers(Relation rel, const TriggerDesc *triggers);

/* The same for tables that the executor writes to (ResultRelInfo nodes). */
extern void sfi_ddl_require_result_triggers(List *result_rels);

/* The table that a COPY FROM writes to; InvalidOid for other statements.  Takes no lock. */
extern Oid	sfi_ddl_copy_target(Node *stmt);

/*
 * The same after a COPY FROM into that table, for it and for each of its
 * partitions that got rows.  InvalidOid: does nothing.
 */
extern void sfi_ddl_require_copy_triggers(Oid relid);

/* ---- defer.c: a value is placed when its row is written ---- */

/* What becomes of rows that the trigger "store" fires for. */
typedef enum SfRowsGo
{
	SF_ROWS_ANYWHERE,			/* nobody knows */
	SF_ROWS_TO_HEAP,			/* they are rejected, or written, and end
								 * there */
	SF_ROWS_TO_QUERY,			/* and are kept until the query ends */
} SfRowsGo;

/* A query that the executor runs, or a command; hooks.c has it on the stack. */
typedef struct SfExecution
{
	struct QueryDesc *query;	/* NULL: a command */
	Oid			copied;			/* the table that it copies into */
	struct SfExecution *outer;	/* what has called the function that runs this */
	const Trigger *trigger;		/* the last one that fired */
	SfRowsGo	rows_go;		/* of its table */
	bool		deferred;		/* a row had a deferred value */
} SfExecution;

/* Around the call of the server, also if that throws.  Never throw. */
extern void sfi_ddl_run_begins(SfExecution *run, struct QueryDesc *query, Oid copied);
extern void sfi_ddl_run_ends(SfExecution *run);

/*
 * The trigger "store" has a value for a row (sf_object_given()): if the row may be rejected yet,
 * makes *deferred, which places the value when the row is written.  borrowed: the memory of the
 * value is not that of the row's tuple, but lives as long.  old: the value that the row
 * had, or 0.  False: the value is to be stored at once.
 */
struct TriggerData;
extern bool sfi_ddl_defer(struct TriggerData *trigdata, const SfColumn *column, Datum value,
						  bool borrowed, Datum old, Datum *deferred);

/* Can a query that begins now get deferred values as parameters?  Never throws. */
extern bool sfi_ddl_any_deferred(void);

/* ---- settle.c: deferred values do not get out of the row that they are for ---- */

/* The receiver for the rows of a query: its own one, or one that gives that placed values. */
extern DestReceiver *sfi_ddl_settle_rows(const QueryDesc *query);

/* Replace deferred values in parameters that a query keeps, such as those of a cursor. */
extern void sfi_ddl_settle_parameters(ParamListInfo params);

/* ---- replaced.c: tables whose rows a command is replacing ---- */

/* The object access hook has heard that a column was added or altered. */
extern void sfi_ddl_columns_altered(Oid table_oid, AttrNumber attnum);

/*
 * The object access hook has heard that core made a relation, which may be the new
 * storage for the rows of a table.
 */
extern void sfi_ddl_storage_made(Oid relid);

/* Is new storage for the rows of any table being filled? */
extern bool sfi_ddl_any_copied(void);

/*
 * The table that the innermost command is rewriting; *transient: the relation
 * that is its new storage.  ERROR INTERNAL_ERROR if there is none.
 */
extern Oid	sfi_ddl_rewritten_table(Oid *transient);

/* ERROR OBJECT_IN_USE if the rows of a table, which is to be written, are being rewritten. */
extern void sfi_ddl_refuse_rewritten(Relation rel);

/*
 * ERROR OBJECT_IN_USE if rows would be read that still have the form of another
 * type, where one of the two is securefile: rows of a table (InvalidOid: of any),
 * of the tables in a plan, by a command.  Take no locks.
 */
extern void sfi_ddl_refuse_misread(Oid table_oid);
extern void sfi_ddl_refuse_misread_rtes(const List *rtable);
extern void sfi_ddl_refuse_misread_by(const Node *stmt);

/*
 * The segments of a table are about to get new storage, the table itself later.
 * The caller holds AccessExclusiveLock on the table.
 */
extern void sfi_ddl_truncate_begins(Relation rel);

/*
 * Is the table still to be truncated?  Forgets a truncation that is over, so call
 * it before each row that is written: an empty file tells only then.
 */
extern bool sfi_ddl_follow_truncation(Relation rel);

/* ERROR OBJECT_IN_USE: a value would be stored in such a table. */
extern void sfi_ddl_refuse_truncated(Relation rel);

/* After a TRUNCATE: the files of the tables that it has truncated are right. */
extern void sfi_ddl_truncated_are_right(void);

/* The current command has replaced all rows that it replaces.  Never throws. */
extern void sfi_ddl_replaced_at_command_end(void);

/* ---- swapped.c: tables that were given the file of another relation ---- */

/* Call once, while preloading. */
extern void sfi_ddl_watch_files(void);

/*
 * A table has that file, or is about to get it, by a command that keeps values in their rows.
 * What was wrong before stays so.
 */
extern void sfi_ddl_file_is_right(Oid table_oid, Oid relfilenode);

/*
 * The tables (list of Oid) that have another file than at the begin of this transaction, or
 * had one meanwhile, and not rightly.  Increments the command counter.
 */
extern List *sfi_ddl_swapped(void);

/* Has this transaction deleted a tuple, or replaced it by another version?  Never throws. */
extern bool sfi_ddl_is_gone_by_us(HeapTuple tuple);

/* Is there such a relation, or was there one before this transaction has dropped it? */
extern bool sfi_ddl_table_was_here(Oid table_oid);

/* A number that is another one when any relation has changed since.  Never throws. */
extern uint64 sfi_ddl_relation_changes(void);

/* ---- uncounted.c: tables that may have got rows which the server does not count ---- */

/*
 * Tables (list of Oid) that this transaction may have written to past the row triggers, where
 * the server counts no rows; NIL where it does.
 */
extern List *sfi_ddl_uncounted(void);

/*
 * Tables (list of Oid) on which this transaction holds AccessExclusiveLock, and where a look at
 * some rows has found a value of another table or column.
 */
extern List *sfi_ddl_filled(void);

/* ---- upgrade_catalog.c: pg_upgrade ---- */

/*
 * After a command that pg_upgrade has run to restore the schema: a new table with
 * securefile columns gets triggers that refuse all use of them until
 * securefile_upgrade_finish().  Takes ShareRowExclusiveLock on the new table.
 */
extern void sfi_ddl_upgrade_guard(Node *stmt);

/* ---- database.c: commands on databases ---- */

/*
 * Before a command: ERROR FEATURE_NOT_SUPPORTED if it would copy or move a
 * database with data files.  Locks that database as the command will.  Returns
 * the database of a DROP DATABASE, else InvalidOid.
 */
extern Oid	sfi_ddl_database_before(Node *stmt);

/* After DROP DATABASE has succeeded: remove its data files.  Failures are WARNINGs. */
extern void sfi_ddl_database_after(Oid dropped_db);

/* ---- vacuum.c ---- */

/* A boolean option of the statement; the last one of that name counts, as for core. */
extern bool sfi_ddl_vacuum_option(const VacuumStmt *stmt, const char *name, bool otherwise);

/*
 * After a VACUUM has succeeded (ANALYZE: does nothing), vacuum the segments of its
 * tables, or of the database.  Commits the current transaction and ends in a new
 * one, as the command does.  Takes ShareUpdateExclusiveLock on one segment at a time.
 */
extern void sfi_ddl_vacuum_segments(const VacuumStmt *stmt, bool top_level);

/* ---- new_owner.c ---- */

/*
 * A relation has been altered, and nobody sees it yet.  ERROR OBJECT_NOT_IN_PREREQUISITE_STATE if
 * it has another owner now, no superuser, and keeps removed values.
 */
extern void sfi_ddl_refuse_new_owner(Oid relid);

#endif							/* SF_DDL_COMMAND_H */
