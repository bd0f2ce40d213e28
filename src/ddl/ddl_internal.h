/*-------------------------------------------------------------------------
 *
 * ddl_internal.h
 *	  What the files of the ddl room share.  README.md has the map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_INTERNAL_H
#define SF_DDL_INTERNAL_H

#include "base/base.h"
#include "config/config.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "space/space.h"
#include "utils/reltrigger.h"

#define SF_TRIGGER_PREFIX		"~securefile_"

/* ---- catalog.c: what the extension consists of in this database ---- */

typedef struct SfDdlObjects
{
	Oid			am;				/* access method securefile_segment */
	Oid			type;			/* type securefile */
	Oid			store_fn;		/* the three trigger functions */
	Oid			account_fn;
	Oid			truncate_fn;
	Oid			convert_fn;		/* what ALTER COLUMN TYPE puts values in place
								 * with */
} SfDdlObjects;

/*
 * The extension's objects, or NULL when it is not installed (or not whole) in
 * this database.  The pointer is valid until the next call.
 */
extern const SfDdlObjects *sfi_ddl_objects(void);

/*
 * ERROR OBJECT_NOT_IN_PREREQUISITE_STATE for a table with securefile columns when the
 * extension is there, and something that it consists of is not.
 */
extern void sfi_ddl_require_whole(Relation rel);

/* OID of the access method, or InvalidOid. */
extern Oid	sfi_ddl_am_oid(void);

/*
 * Is this type securefile or a domain over it?  *typmod: in, the column's; out,
 * the one that counts.
 */
extern bool sfi_ddl_is_securefile(Oid typid, int32 *typmod);

/* Does a value of this type have a securefile value anywhere inside? */
extern bool sfi_ddl_contains_securefile(Oid typid);

/* ---- column.c: what the catalog says of a column ---- */

/* Describe a column of an open table; ERROR when it is not securefile. */
extern SfColumn sfi_ddl_column(Relation rel, AttrNumber attnum);

/* ---- segment_am.c, segment.c: the segment relation ---- */

/*
 * Identity of the storage that is about to be made.  The access method makes
 * storage only while one is announced here, or for an existing segment.
 */
typedef struct SfSegmentBirth
{
	Oid			table_oid;
	AttrNumber	attnum;
	bool		logged_data;
	uint64		next_object_id;
	const SfStorage *adopt;		/* left by pg_upgrade; else new storage */
	Oid			tablespace;		/* as in pg_class: InvalidOid, the database's */
} SfSegmentBirth;

extern const SfSegmentBirth *sfi_ddl_segment_birth;

/*
 * Make the segment relation of a column, under the given name, and return its
 * OID.  Takes ShareRowExclusiveLock on the table.
 */
extern Oid	sfi_ddl_segment_create(const char *name, const SfSegmentBirth *birth);

/* The same for a column that has none, empty, under the name that it is found by. */
extern Oid	sfi_ddl_segment_make(const SfColumn *column, Oid tablespace);

/*
 * Drop a segment, and its triggers with it.  What others have made that depends
 * on it goes along in DROP COLUMN .. CASCADE; else ERROR.
 */
extern void sfi_ddl_segment_drop(Oid segrelid);

/* Give a segment new, empty storage, with the logging mode given. */
extern void sfi_ddl_segment_reset(Oid segrelid, bool logged_data);

/* ---- tablespace.c: moving a segment ---- */

/*
 * Move a segment to a tablespace, unless it lies there.  The table is locked
 * exclusively.
 */
extern void sfi_ddl_segment_move(Oid segrelid, Oid tablespace);

/* Logging mode of a segment, from its header. */
extern bool sfi_ddl_segment_logged(const SfHeader *header);

/* A segment that hangs on a table. */
typedef struct SfTableSegment
{
	Oid			relid;
	AttrNumber	attnum;
} SfTableSegment;

/* All segments of a table (palloc'd SfTableSegment); found by dependency. */
extern List *sfi_ddl_segments_of(Oid table_oid);

/* ---- triggers.c: the internal triggers ---- */

typedef enum SfTriggerKind
{
	SF_TRIGGER_STORE,
	SF_TRIGGER_ACCOUNT,
	SF_TRIGGER_TRUNCATE,
} SfTriggerKind;

#define SF_TRIGGER_KINDS		3

typedef struct SfTableTrigger
{
	Oid			oid;
	SfTriggerKind kind;
	AttrNumber	attnum;
	char		enabled;		/* pg_trigger.tgenabled */
	bool		unfinished;		/* only there to refuse: see upgrade.c */
} SfTableTrigger;

/* All of our triggers on a table (palloc'd SfTableTrigger). */
extern List *sfi_ddl_triggers_of(Oid table_oid);

/*
 * Make one.  With a segment, the trigger belongs to that: it goes away with
 * it and cannot be dropped alone.  unfinished: all it does is to refuse.
 */
extern void sfi_ddl_trigger_create(Oid table_oid, AttrNumber attnum,
								   SfTriggerKind kind, Oid segrelid,
								   bool unfinished);

/* The table of an internal trigger, whoever's; InvalidOid for other triggers. */
extern Oid	sfi_ddl_trigger_table(Oid trigoid);

/* Set one back to ENABLE ALWAYS. */
extern void sfi_ddl_trigger_enable(Oid table_oid, Oid trigoid);

/* Drop one that does not belong to a segment. */
extern void sfi_ddl_trigger_drop(Oid trigoid);

/* Drop all of a column without a segment. */
extern void sfi_ddl_triggers_drop(Oid table_oid, AttrNumber attnum);

/*
 * ENABLE and DISABLE TRIGGER ALL where no internal trigger but ours is: the
 * statement with USER in place of ALL, which an owner may who is no superuser,
 * too.  Else the statement itself.  Locks the table as the statement will.
 */
extern PlannedStmt *sfi_ddl_trigger_without_internal(PlannedStmt *pstmt);

/*
 * ERROR when ALTER TYPE makes an attribute of a composite type a securefile, or
 * something else of one: values of the type that are kept somewhere (constants,
 * cursors) are not rewritten, so bytes would be taken for a locator.
 */
extern void sfi_ddl_guard_type(Node *stmt);

/* ERROR when a statement drops, renames or reties one of our triggers. */
extern void sfi_ddl_trigger_guard(Node *stmt);

/* ---- values.c: one value of a column ---- */

/*
 * If a datum is not INLINE, its packed, detoasted form, else NULL: STORED,
 * EDITED (if it does not come from a row), or damaged, which whoever decodes it
 * finds out.  Never detoasts a large INLINE value.
 */
extern struct varlena *sfi_ddl_stored(Datum value);

/* Is a value that is not INLINE STORED in this table and column? */
extern bool sfi_ddl_is_own(struct varlena *stored, Oid table_oid, AttrNumber attnum);

/* Are two values the same stored object or the same datum? */
extern bool sfi_ddl_same_value(Datum a, Datum b);

/* May an INLINE value stay in the row, by the column's options? */
extern bool sfi_ddl_may_stay_inline(const SfColumn *column, Datum value);

/*
 * The value as the column is to hold it: written to the segment as a new
 * object, or as a new version of old, which is what the row had (0: nothing);
 * or INLINE.  Copies whatever is STORED, but for what a handle made for this
 * place.  Returns false, and no result, when the value is INLINE and may stay so.
 */
extern bool sfi_ddl_store_value(const SfColumn *column, Datum value, Datum old, Datum *result);

/*
 * The same for a new row that no trigger sees, and that is certain to be
 * written: what is stored is confirmed at once.
 */
extern bool sfi_ddl_put_value(const SfColumn *column, Datum value, Datum *result);

/* ---- published.c ---- */

/*
 * ERROR PROGRAM_LIMIT_EXCEEDED when a value that is about to be stored is too
 * long for a publication that the column is in.
 */
extern void sfi_ddl_refuse_unpublishable(Relation rel, AttrNumber attnum, Datum value);

/* ---- rows.c: the rows of a table ---- */

typedef enum SfRowFilter
{
	SF_ROWS_STORED,				/* any STORED value */
	SF_ROWS_FOREIGN,			/* a STORED value of another table or column */
	SF_ROWS_OWN,				/* a STORED value of this table and column */
	SF_ROWS_UNPROVED,			/* FOREIGN, or made by this transaction for no
								 * row */
	SF_ROWS_MISPLACED,			/* FOREIGN, or an INLINE one that belongs in
								 * the segment */
} SfRowFilter;

/*
 * Is there a visible row with such a value in the column?  ERROR while somebody
 * else in this session has the table open: the rows need not be of the form that
 * the catalogs say.
 */
extern bool sfi_ddl_rows_exist(Relation rel, AttrNumber attnum, SfRowFilter filter);

/*
 * Put the values of a column of all visible rows where they belong, updating
 * the rows without firing any trigger.  all: also those that lie well already.
 * Returns the number of rows changed.  The caller holds a lock that keeps
 * writers out.  ERROR as above.
 */
extern int64 sfi_ddl_rows_store(Relation rel, const SfColumn *column, bool all);

/* ---- rebuild.c ---- */

/*
 * Write all rows of a table anew into new storage, with the values of some
 * columns (AttrNumber) where they belong, as ALTER TABLE rewrites a table: snapshots
 * that are older see no rows, logical decoding none of the changes.  The table
 * is locked exclusively, and nobody in this session uses it.
 */
extern void sfi_ddl_rebuild(Oid table_oid, List *attnums);

/* ---- convert.c: ALTER COLUMN TYPE from another type ---- */

/*
 * Have ALTER COLUMN TYPE store what its expression yields, if the column becomes
 * a securefile by it and that can be done: changes the command.
 */
typedef struct SfConvert SfConvert;
extern SfConvert *sfi_ddl_convert(AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query);

/*
 * The command alters a column under that name.  ERROR OBJECT_IN_USE when it is the one
 * of convert (which may be NULL), and what the expression takes is not there any more.
 */
extern void sfi_ddl_convert_verify(const SfConvert *convert, Oid table_oid, AttrNumber attnum,
								   const char *name);

/* Is it an ALTER TABLE that gives a column the type securefile? */
extern bool sfi_ddl_converts(Node *stmt);

/*
 * Such a command has failed: if by something on the column that a securefile cannot
 * have, give the error a hint.  To be called in PG_CATCH().
 */
extern void sfi_ddl_convert_hint(void);

/* ---- noted.c: which tables commands have touched ---- */

/* Is this a session and a moment in which tables can change?  Else hooks do nothing. */
extern bool sfi_ddl_noting(void);

/*
 * A utility command begins, ends, fails.  begin returns a mark for fail, which
 * forgets what was noted since: it did not happen.
 */
extern int	sfi_ddl_notes_begin(void);
extern void sfi_ddl_notes_end(void);
extern void sfi_ddl_notes_fail(int mark);

/* Nesting level of utility commands. */
extern int	sfi_ddl_depth(void);

/* Forget what the current command itself has noted. */
extern void sfi_ddl_notes_forget(void);

/* Note a relation that was made or altered; added: the column that was added, or 0. */
extern void sfi_ddl_note_table(Oid relid, bool created, AttrNumber added);

/* Forget what the current command has noted of a table since a mark. */
extern int	sfi_ddl_notes_mark(void);
extern void sfi_ddl_notes_forget_table(int mark, Oid relid);

/*
 * Bring in line all tables touched by the current command.  May run functions
 * of the tables' owners, as these.
 */
extern void sfi_ddl_drain(void);

/* ---- defend.c: no row is written past the triggers ---- */

/*
 * ERROR OBJECT_NOT_IN_PREREQUISITE_STATE when a securefile column of an ordinary
 * table lacks a row trigger in this description of the table's triggers.
 */
extern void sfi_ddl_require_triggers(Relation rel, const TriggerDesc *triggers);

/* The same for tables that the executor writes to (ResultRelInfo nodes). */
extern void sfi_ddl_require_result_triggers(List *result_rels);

/* The table that a COPY FROM writes to; InvalidOid for other statements. */
extern Oid	sfi_ddl_copy_target(Node *stmt);

/* As above, after a COPY FROM into that table. */
extern void sfi_ddl_require_copy_triggers(Oid relid);

/* ---- replaced.c: tables whose rows a command is replacing ---- */

/*
 * The object access hook has heard that a column was added or altered; that core made a
 * relation, which may be new storage for the rows of a table.
 */
extern void sfi_ddl_columns_altered(Oid table_oid, AttrNumber attnum);
extern void sfi_ddl_storage_made(Oid relid);

/* Is storage for the rows of any table being filled? */
extern bool sfi_ddl_any_copied(void);

/* The table that the innermost command is rewriting, and its new storage; else ERROR. */
extern Oid	sfi_ddl_rewritten_table(Oid *transient);

/* ERROR OBJECT_IN_USE when writing to a table while its rows are rewritten. */
extern void sfi_ddl_refuse_rewritten(Relation rel);

/*
 * ERROR OBJECT_IN_USE when rows would be read that have the form of another type,
 * by the locators or as locators: of a table (InvalidOid: any); of those in a plan;
 * by a command.
 */
extern void sfi_ddl_refuse_misread(Oid table_oid);
extern void sfi_ddl_refuse_misread_rtes(const List *rtable);
extern void sfi_ddl_refuse_misread_by(const Node *stmt);

/* The segments of a table are about to get new storage, the table itself later. */
extern void sfi_ddl_truncate_begins(Relation rel);

/* Is the table still to get it?  To be asked for each row that is written. */
extern bool sfi_ddl_is_being_truncated(Relation rel);

/* ERROR OBJECT_IN_USE: a value would be stored in such a table. */
extern void sfi_ddl_refuse_truncated(Relation rel);

/* The current command has replaced what it replaces. */
extern void sfi_ddl_replaced_at_command_end(void);

/* ---- sync.c: bringing one table in line ---- */

/* What a command may have done to a table. */
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

/* Where a relation lies: what pg_class has for InvalidOid is the database's. */
#define sfi_ddl_tablespace(reltablespace) \
	(OidIsValid(reltablespace) ? (reltablespace) : MyDatabaseTableSpace)

/* What is known of the ALTER TABLE being run. */
typedef struct SfAlter
{
	bool		may_bring_values;	/* new column, or change of type */
	bool		drops_cascade;	/* DROP COLUMN .. CASCADE */
	List	   *retyped_names;	/* String nodes: ALTER TYPE */
	List	   *using_names;	/* of these: with USING something */
	List	   *retyped;		/* SfAltered: what these were in each table */
	List	   *converts;		/* SfConvert, or NULL, of each */
} SfAlter;

/* A column that gets a type, by its number: functions may rename it meanwhile. */
typedef struct SfAltered
{
	Oid			table_oid;
	AttrNumber	attnum;
	const char *name;			/* by which the command found it */
	bool		by_using;
} SfAltered;

/* ---- alter.c ---- */

/* The ALTER TABLE in progress, or NULL. */
extern SfAlter *sfi_ddl_alter;

/* The object access hook has heard that it has altered a column. */
extern void sfi_ddl_alter_note(Oid table_oid, AttrNumber attnum);

/* The number of the column that it has altered under that name; 0: none. */
extern AttrNumber sfi_ddl_altered_column(Oid table_oid, const char *name);

/* May change the statement: see sfi_ddl_convert(). */
extern SfAlter *sfi_ddl_alter_analyze(AlterTableStmt *stmt, const char *query);

/* ---- sync.c ---- */

/*
 * Bring a table in line with its columns: validate, segments, triggers, rows.
 * Does nothing to relations that are gone or of no concern.
 */
extern void sfi_ddl_sync_table(const SfDirtyTable *dirty);

/* Would sync have anything to make for this table?  Changes nothing. */
extern bool sfi_ddl_table_has_columns(Oid relid);

/* ---- validate.c: what cannot be ---- */

/*
 * ERROR when a column of the relation holds securefile values in a way that
 * cannot work.  Returns whether it has securefile columns.
 */
extern bool sfi_ddl_validate(Relation rel);

/* ERROR: the column has securefile values inside its own. */
extern void sfi_ddl_refuse_nested(Relation rel, Form_pg_attribute att);

/* ERROR when a new statistics object would keep securefile values inside others. */
extern void sfi_ddl_validate_statistics(Oid statistics_oid);

/*
 * Refuse an exclusion constraint over a securefile column: its check reads
 * rows of others that are not committed, whose bytes are not on disk yet.
 */
extern void sfi_ddl_validate_index(Relation index);

/* ---- upgrade.c: pg_upgrade ---- */

/*
 * After a command that pg_upgrade has run to make the schema: a new table with
 * securefile columns gets triggers that refuse all use of them until
 * securefile_upgrade_finish().
 */
extern void sfi_ddl_upgrade_guard(Node *stmt);

/*
 * Before the first segment of a database: ERROR while it waits for that.  Else
 * this cluster would own the data files, and what is brought later be removed.
 */
extern void sfi_ddl_upgrade_require_finished(void);

/* ---- database.c: commands on databases ---- */

/* Before the command: ERROR when refused.  Returns the database to clean up after. */
extern Oid	sfi_ddl_database_before(Node *stmt);

/* After it succeeded. */
extern void sfi_ddl_database_after(Oid dropped_db);

/* ---- vacuum.c ---- */

/*
 * After a VACUUM (or ANALYZE, of which nothing follows) that went through:
 * vacuum the segments of its tables, or of the database.
 */
extern void sfi_ddl_vacuum_segments(const VacuumStmt *stmt, bool top_level);

/* ---- rewrite.c: arguments of functions ---- */

/* ERROR unless the caller owns the table. */
extern void sfi_ddl_require_owner(Oid table_oid);

/*
 * ERROR unless it is an ordinary or partitioned table of the caller's, and not a
 * temporary one of another session, with a securefile column of that name.
 */
extern void sfi_ddl_require_column(Oid table_oid, const char *column);

/* The number of a table's securefile column; ERROR when it has none of that name. */
extern AttrNumber sfi_ddl_find_column(Oid table_oid, const char *column);

#endif							/* SF_DDL_INTERNAL_H */
