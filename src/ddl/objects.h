/*-------------------------------------------------------------------------
 *
 * objects.h
 *	  The catalog objects of securefile columns: the extension's own objects,
 *	  segments, internal triggers; and the rules which columns can be.
 *
 * Unless a comment says otherwise, these functions run in a transaction, take
 * AccessShareLock on the catalogs that they read, and allocate results in
 * CurrentMemoryContext.  None runs in a critical section or in replay.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_OBJECTS_H
#define SF_DDL_OBJECTS_H

#include "base/base.h"
#include "config/config.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "space/space.h"
#include "tcop/dest.h"

/* ---- catalog.c: the objects of the extension in this database ---- */

typedef struct SfDdlObjects
{
	Oid			am;				/* access method securefile_segment */
	Oid			type;			/* type securefile */
	Oid			store_fn;		/* the three trigger functions */
	Oid			account_fn;
	Oid			truncate_fn;
	Oid			convert_fn;		/* stores values in ALTER COLUMN TYPE */
} SfDdlObjects;

/*
 * The extension's objects, or NULL if the extension is not installed in this
 * database or lacks one of them.  The result is valid until the next call.
 */
extern const SfDdlObjects *sfi_ddl_objects(void);

/*
 * ERROR OBJECT_NOT_IN_PREREQUISITE_STATE if the extension is installed and lacks
 * one of its objects, and the open table has a securefile column.
 */
extern void sfi_ddl_require_whole(Relation rel);

/* Does a function return an edited value, as || does? */
extern bool sfi_ddl_edits(Oid function);

/* OID of the access method; InvalidOid if the extension is not installed. */
extern Oid	sfi_ddl_am_oid(void);

/*
 * Is the type securefile, or a domain over it?  typmod: on entry the modifier of
 * the column; if true is returned, the modifier that holds the options (that of
 * the domain, if there is one).
 */
extern bool sfi_ddl_is_securefile(Oid typid, int32 *typmod);

/*
 * Is the type securefile, or can a value of the type contain one at any depth
 * (domain, array, row, range, multirange)?
 */
extern bool sfi_ddl_contains_securefile(Oid typid);

/* ---- describe_column.c ---- */

/*
 * Describe a column of an open table.  ERROR DATATYPE_MISMATCH if the column is
 * not of type securefile; ERROR INTERNAL_ERROR if there is no such number.
 */
extern SfColumn sfi_ddl_column(Relation rel, AttrNumber attnum);

/* Is this a column of type securefile, domains included, that is not dropped? */
extern bool sfi_ddl_is_column(Relation rel, AttrNumber attnum);

/* The numbers of all such columns of an open table (palloc'd list of int). */
extern List *sfi_ddl_columns_of(Relation rel);

/* The name of a column of an open table; lives as long as that is open. */
extern const char *sfi_ddl_column_name(Relation rel, AttrNumber attnum);

/* Change the type modifier of a column, and nothing else.  The caller has locked the table. */
extern void sfi_ddl_set_typmod(Oid relid, AttrNumber attnum, int32 typmod);

/* ---- dependent_views.c: the type modifier of a column has changed ---- */

/* Views over the column get the same modifier, and so on.  Locks them exclusively. */
extern void sfi_ddl_renew_views(Oid relid, AttrNumber attnum);

/* ---- dependent_expressions.c: the same, of what is stored with the table ---- */

/* Expressions of indexes, policies and so on name the new one.  The table is locked. */
extern void sfi_ddl_renew_expressions(Oid relid, AttrNumber attnum, int32 typmod);

/* ---- writing.c: the table and the column that a function is called with ---- */

/*
 * ERROR unless this is an ordinary or partitioned table that the current user
 * owns, is no temporary table of another session, and has a securefile column of
 * that name: UNDEFINED_TABLE, WRONG_OBJECT_TYPE, and the errors of
 * sf_ddl_require_owner() and sf_ddl_find_column().  Takes no lock, so call it
 * again when the table is locked.
 */
extern void sfi_ddl_require_named_column(Oid table_oid, const char *column);

/* The same, and ERROR if its values lie elsewhere: see sf_base_refuse_remote(). */
extern void sfi_ddl_require_column(Oid table_oid, const char *column);

/*
 * ERROR if a column, which is there, has its options from elsewhere: INVALID_TABLE_DEFINITION
 * from more parents than those that are changed with it, WRONG_OBJECT_TYPE from a domain or from
 * the type of the table.  what: of the column cannot be changed.
 */
extern void sfi_ddl_require_own_options(Oid relid, const char *column, int parents,
										const char *what, const char *function);

/* ---- segment_relation.c, segment_am.c: the segment relation ---- */

/*
 * The storage that is about to be made.  The access method makes storage only
 * while a birth is announced in sfi_ddl_segment_birth.
 */
typedef struct SfSegmentBirth
{
	Oid			table_oid;
	AttrNumber	attnum;
	bool		logged_data;	/* data of values goes into WAL */
	uint64		next_object_id; /* from 1 */
	const SfStorage *adopt;		/* storage that pg_upgrade left; NULL: new */
	Oid			tablespace;		/* as in pg_class: InvalidOid is the
								 * database's */
} SfSegmentBirth;

extern const SfSegmentBirth *sfi_ddl_segment_birth;

/* Before the storage of a segment is dropped or replaced: write what it still is to get. */
extern void sfi_ddl_write_before_drop(void);

/*
 * Make the segment relation of a column under its usual name, and return its OID.
 * Takes ShareRowExclusiveLock on the table and keeps it.  ERROR if the library
 * is not preloaded, if this database waits for securefile_upgrade_finish(), or
 * if the OID of adopted storage is taken.
 */
extern Oid	sfi_ddl_segment_create(const SfSegmentBirth *birth);

/*
 * Make an empty segment for a column that has none.
 * tablespace: as in pg_class.  Locks and errors as of sfi_ddl_segment_create().
 */
extern Oid	sfi_ddl_segment_make(const SfColumn *column, Oid tablespace);

/*
 * Drop a segment and its triggers.  Objects that users have made to depend on
 * it are dropped in DROP COLUMN .. CASCADE; otherwise they are an ERROR
 * DEPENDENT_OBJECTS_STILL_EXIST.  Takes AccessExclusiveLock on the segment.
 */
extern void sfi_ddl_segment_drop(Oid segrelid);

/*
 * Give a segment relation, which is locked exclusively, new storage with a logging mode.  It has
 * nothing but the newest dictionary of the old one; object ids go on.
 */
extern void sfi_ddl_segment_renew(Relation segrel, bool logged_data);

/* A segment and the column that it belongs to. */
typedef struct SfTableSegment
{
	Oid			relid;
	AttrNumber	attnum;
} SfTableSegment;

/*
 * All segments of a table (palloc'd SfTableSegment), those of dropped columns
 * included: they are found by their dependency on the table.
 */
extern List *sfi_ddl_segments_of(Oid table_oid);

/* ---- tablespace.c ---- */

/* The tablespace of a relation: InvalidOid in pg_class means that of the database. */
#define sfi_ddl_tablespace(reltablespace) \
	(OidIsValid(reltablespace) ? (reltablespace) : MyDatabaseTableSpace)

/*
 * Move a segment to a tablespace (a real OID, see sfi_ddl_tablespace), unless it
 * is there already.  The caller holds AccessExclusiveLock on the table; this
 * takes it on the segment.  ERROR OBJECT_IN_USE if this transaction has stored or
 * freed values in the segment.
 */
extern void sfi_ddl_segment_move(Oid segrelid, Oid tablespace);

/* ---- triggers.c: the internal triggers ---- */

#define SF_TRIGGER_PREFIX		"~securefile_"

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
	bool		unfinished;		/* only there to refuse: see upgrade_catalog.c */
} SfTableTrigger;

/*
 * All internal securefile triggers of a table (palloc'd SfTableTrigger).  Makes
 * the triggers visible that this command has created: may increment the command
 * counter.  The extension must be whole (sfi_ddl_objects()).
 */
extern List *sfi_ddl_triggers_of(Oid table_oid);

/*
 * Make one trigger.  segrelid: the segment that the trigger belongs to (the
 * trigger is dropped with it, and not without it); InvalidOid: none.  unfinished:
 * the trigger only refuses (upgrade_catalog.c).  Takes ShareRowExclusiveLock on the table.
 */
extern void sfi_ddl_trigger_create(Oid table_oid, AttrNumber attnum,
								   SfTriggerKind kind, Oid segrelid,
								   bool unfinished);

/*
 * The table of a trigger; InvalidOid if the trigger is gone, or neither internal nor one that
 * sfi_ddl_fires_late() tells.
 */
extern Oid	sfi_ddl_trigger_table(Oid trigoid);

/* Set a trigger back to ENABLE ALWAYS.  The caller has locked the table. */
extern void sfi_ddl_trigger_enable(Oid table_oid, Oid trigoid);

/* Drop a trigger that does not belong to a segment. */
extern void sfi_ddl_trigger_drop(Oid trigoid);

/* Drop all triggers of a column that has no segment. */
extern void sfi_ddl_triggers_drop(Oid table_oid, AttrNumber attnum);

/*
 * Does any table of this database have triggers that only refuse?  Reads all of
 * pg_trigger.
 */
extern bool sfi_ddl_triggers_unfinished(void);

/*
 * If all internal triggers of the table are triggers of securefile columns,
 * replace ALL by USER in ENABLE and DISABLE TRIGGER ALL: an owner who is not a
 * superuser may do that, too.  Returns a changed copy of an ALTER TABLE, any other
 * statement itself.  Locks the table as the statement will, with its errors.
 */
extern PlannedStmt *sfi_ddl_trigger_without_internal(PlannedStmt *pstmt);

/*
 * ERROR DEPENDENT_OBJECTS_STILL_EXIST if the statement drops a trigger of a
 * securefile column, renames it, or lets it depend on an extension.
 */
extern void sfi_ddl_trigger_guard(Node *stmt);

/* ---- context.c: the row that an error is about ---- */

/*
 * The row that a loop is at.  While it is announced, the context of errors names
 * the row, the table and the column.
 */
typedef struct SfRowContext
{
	const char *table;
	const char *column;
	ItemPointerData tid;		/* not valid: the loop is at no row */
	bool		any_row;		/* the row is not known: name the rest, if
								 * that is not NULL */
	ErrorContextCallback callback;
} SfRowContext;

/*
 * Announce a row of a table from now on until sfi_ddl_row_context_end() or an
 * error that is caught outside.  The loop sets tid for each row, and what the caller does not
 * know yet: rel NULL, or attnum 0.  The names, and the context itself, must stay where they are.
 * Calls nest.  Never throw.
 */
extern void sfi_ddl_row_context_begin(SfRowContext *context, Relation rel, AttrNumber attnum);
extern void sfi_ddl_row_context_end(SfRowContext *context);

/* ---- validate.c: which columns can be ---- */

/*
 * Does the open relation have securefile columns?  ERROR FEATURE_NOT_SUPPORTED
 * if one of them, or a column that contains securefile values, cannot work.
 */
extern bool sfi_ddl_validate(Relation rel);

/* ERROR FEATURE_NOT_SUPPORTED: the column contains securefile values. */
extern void sfi_ddl_refuse_nested(Relation rel, Form_pg_attribute att);

/*
 * ERROR FEATURE_NOT_SUPPORTED if a statistics object that was just created has
 * an expression whose values contain securefile values.
 */
extern void sfi_ddl_validate_statistics(Oid statistics_oid);

/*
 * ERROR FEATURE_NOT_SUPPORTED if an open index has an expression whose values
 * contain securefile values, or is an exclusion constraint over a securefile
 * column: its check reads uncommitted rows of other transactions, whose bytes are
 * not on disk yet.
 */
extern void sfi_ddl_validate_index(Relation index);

/*
 * Does an expression over a table take a column, by itself or in a whole row?  taken: as of
 * pull_varattnos().
 */
extern bool sfi_ddl_takes(const Bitmapset *taken, AttrNumber attnum);

/* Is one of the keys of an open index the column, or a securefile computed from it? */
extern bool sfi_ddl_index_has_key(Relation index, AttrNumber attnum);

/*
 * ERROR FEATURE_NOT_SUPPORTED if ALTER TYPE changes an attribute of a composite
 * type to or from a type with securefile values.  Values of the composite type that
 * are kept elsewhere (constants, cursors) are not rewritten, so bytes would be
 * taken for a locator.
 */
extern void sfi_ddl_guard_type(Node *stmt);

/* ---- transforms.c ---- */

/*
 * WARNING if a function of PL/Python that was just made or replaced takes or returns
 * securefile values without a transform.
 */
extern void sfi_ddl_warn_of_text(Oid function_oid);

/* ---- encrypt.c: what columns that encrypt refuse ---- */

/*
 * ERROR if a column has the option encrypt and its table is temporary or unlogged, or has a
 * hash index on the column (FEATURE_NOT_SUPPORTED), or a late trigger
 * (INVALID_OBJECT_DEFINITION); or if the column gets the option and there is no master key
 * (OBJECT_NOT_IN_PREREQUISITE_STATE).
 */
extern void sfi_ddl_require_encryptable(Relation rel, const SfColumn *column);

/* WARNING for each such column of a foreign table, whose values another server stores. */
extern void sfi_ddl_warn_foreign(Relation rel);

/* ERROR FEATURE_NOT_SUPPORTED if a partitioned table has the access method of segments. */
extern void sfi_ddl_refuse_segment_am(Relation partitioned);

/* ERROR FEATURE_NOT_SUPPORTED if the partition key of a table uses such a column. */
extern void sfi_ddl_refuse_partition_key(Relation rel);

/* ERROR FEATURE_NOT_SUPPORTED if an open index is a hash index on such a column. */
extern void sfi_ddl_refuse_hashed(Relation index);

/*
 * Does a trigger, of that tgtype and name, change rows when the internal trigger "store" has
 * fired?  Never throws.
 */
extern bool sfi_ddl_fires_late(int16 type, const char *name);

/*
 * ERROR FEATURE_NOT_SUPPORTED if ADD COLUMN gives rows a plain value of a column that
 * encrypts, or if ALTER COLUMN TYPE does.  The latter is asked only where the command
 * stores no values on the way; computes: USING is more than the column itself.
 */
extern void sfi_ddl_refuse_plain_default(const AlterTableCmd *cmd);
extern void sfi_ddl_refuse_plain_using(const AlterTableStmt *stmt, const AlterTableCmd *cmd,
									   bool computes);

/*
 * Has a value bytes that are not encrypted, outside of a segment?  ERROR DATA_CORRUPTED if it
 * is damaged.
 */
extern bool sfi_ddl_is_plain(Datum value);

/*
 * A receiver that passes rows of a query on to inner.  It throws FEATURE_NOT_SUPPORTED when a
 * row has a plain value for a column that encrypts, and gives a NOTICE where values of such a
 * column may come into one that does not.
 */
extern DestReceiver *sfi_ddl_watch_rows(DestReceiver *inner, PlannedStmt *query);

#endif							/* SF_DDL_OBJECTS_H */
