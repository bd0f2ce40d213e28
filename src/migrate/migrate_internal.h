/*-------------------------------------------------------------------------
 *
 * migrate_internal.h
 *	  Columns that change their type while the table is in use: from bytea and large
 *	  objects to securefile, and back.
 *
 * A new column grows beside the old one, and the two change their names in the end.  What a
 * migration has come to stands in the table itself, so that it outlives the session, the server
 * and a dump:
 *
 *	 trigger ~securefile_migrate_..	that there is a migration, and of which columns
 *	 new value NULL, old one not	the row is still to be brought over
 *	 a note in place of the trigger	the columns are swapped, and what is left to be done
 *
 * migrate.c		securefile_migrate(), its arguments, and the order of the steps
 * state.c			which migration there is of a column, as the catalogs tell; its columns
 * statement.c		statements, as the owner of the table; locks that form no queue
 * contents.c		the bytes of a value of each of the three types; a value made of another one
 * pass.c			a walk over the rows, some in each transaction
 * bring.c			what such a walk does with a row: bring it over, compare, give back
 * helpers.c		the new column, its triggers and constraints
 * follow.c			the trigger that keeps writers in step
 * dependents.c		what depends on a column, and what becomes of it
 * foresee.c		securefile_migrate_report(): that, the values, and the space, before all else
 * rename.c			CHECK constraints and indexes again for the new column
 * fit.c			whether an index can be one of the new type
 * build.c			indexes of the new column, CONCURRENTLY, by a background worker
 * swap.c			the short lock in which the columns change their names
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MIGRATE_INTERNAL_H
#define SF_MIGRATE_INTERNAL_H

#include "base/base.h"

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/rel.h"

/* What the values of a column are. */
typedef enum SfContentKind
{
	SF_CONTENT_OTHER,			/* none of these */
	SF_CONTENT_BYTEA,
	SF_CONTENT_SECUREFILE,
	SF_CONTENT_OBJECT,			/* the number of a large object */
} SfContentKind;

/* Where a migration stands. */
typedef enum SfMigratePhase
{
	SF_MIGRATE_NONE,			/* there is none */
	SF_MIGRATE_MOVING,			/* both columns are there, the trigger follows */
	SF_MIGRATE_SWAPPED,			/* the names are exchanged, the old column is
								 * still there */
} SfMigratePhase;

/* What the caller asks for. */
typedef struct SfMigrateOptions
{
	int64		batch_rows;
	int64		batch_bytes;
	bool		verify;
	bool		unlink;			/* large objects that were brought over */
	bool		keep_old;		/* the old column stays, under its new name */
	bool		missing_null;	/* a number of no object becomes NULL */
	bool		published;		/* a publication may see the new column */
	int			lock_timeout_ms;
	int			lock_tries;
} SfMigrateOptions;

typedef struct SfMigration
{
	Oid			table_oid;
	Oid			owner;
	Oid			type_oid;		/* of securefile */
	Oid			follow_fn;
	const char *table;			/* qualified and quoted */
	const char *column;			/* its name, before and after */
	const char *beside;			/* name of the other one: new or, in
								 * SF_MIGRATE_SWAPPED, old */
	SfMigratePhase phase;
	SfContentKind from;
	SfContentKind to;
	const char *to_sql;			/* the type, qualified, with its options */
	bool		not_null;		/* the old column is */
	SfMigrateOptions options;
	/* large objects, after the swap */
	int64		removed;
	struct HTAB *kept;			/* numbers of those that stay */
} SfMigration;

/*
 * Is the new column filled by the procedure only?  The trigger empties it when the old value
 * changes.  So it is where large objects take part: one that a transaction makes may be filled
 * later than its number gets into the row, and one that the trigger makes would outlive a row
 * that is rejected after all.
 */
static inline bool
sfi_migrate_is_lazy(const SfMigration *m)
{
	return m->from == SF_CONTENT_OBJECT || m->to == SF_CONTENT_OBJECT;
}

/* Does one of both columns, and one only, hold securefiles? */
static inline bool
sfi_migrate_is_pair(SfContentKind from, SfContentKind to)
{
	return from != SF_CONTENT_OTHER && to != SF_CONTENT_OTHER &&
		(from == SF_CONTENT_SECUREFILE) != (to == SF_CONTENT_SECUREFILE);
}

/* Arguments of the triggers: the phase, as in state.c, the column, and the one beside it. */
#define SF_MIGRATE_ARGS			4
#define SF_MIGRATE_ARG_PHASE	0
#define SF_MIGRATE_ARG_COLUMN	1
#define SF_MIGRATE_ARG_BESIDE	2
#define SF_MIGRATE_ARG_THEN		3	/* "unlink", "keep", both, or nothing */

/* What to do when one of both columns is not there. */
#define SF_MIGRATE_RENAMED_HINT \
	"If it was renamed, give it its name back. Else drop the triggers ~securefile_migrate_.. of the table."

/* ---- state.c ---- */

/* Does a word say that numbers of no large object become NULL?  ERROR for another word. */
extern bool sfi_migrate_missing(const char *word);

/* ERROR unless values of the column can be brought to the target. */
extern void sfi_migrate_require_pair(const SfMigration *m);

/* The type securefile of the extension that a function belongs to. */
extern Oid	sfi_migrate_type(Oid fn_oid);

/* The kind of a type, which may be a domain. */
extern SfContentKind sfi_migrate_kind(Oid type_oid, Oid securefile_oid);

/*
 * The migration of a column: the one that there is, or, in SF_MIGRATE_NONE, the one that would be
 * with that target (NULL: securefile).  fn_oid: of a function of the extension, by which its
 * objects are found.  ERROR of a table or column that is not there, not the caller's, or of no
 * fitting type.  Takes no lock that stays.
 */
extern SfMigration *sfi_migrate_find(Oid table_oid, const char *column, const char *to_type,
									 Oid fn_oid);

/* The numbers of the two columns in an open table: where values come from, and go to. */
extern void sfi_migrate_columns(const SfMigration *m, Relation rel, AttrNumber *from,
								AttrNumber *to);

/* Name of an object that belongs to the migration of the column; palloc'd. */
extern char *sfi_migrate_name(const SfMigration *m, const char *what);

/* ---- statement.c ---- */

/*
 * Run a statement as the owner of the table, restricted to its own rights, with nothing but
 * pg_catalog in the search_path; of a SELECT, SPI_tuptable has the result.  as_caller: the same
 * with the rights of the caller.  In SPI.
 */
extern void sfi_migrate_run(const SfMigration *m, const char *format, ...)
			pg_attribute_printf(2, 3);
extern void sfi_migrate_run_as_caller(const char *format, ...) pg_attribute_printf(1, 2);

/* Run a statement that is a tree of the parser, and its text. */
extern void sfi_migrate_run_tree(Oid role, Node *tree, const char *text);

/*
 * Lock the table exclusively: each try waits no longer than lock_timeout_ms, and commits the
 * transaction if it fails.  ERROR LOCK_NOT_AVAILABLE after the last one.
 */
extern void sfi_migrate_lock(const SfMigration *m);

/* Wait, for interrupts, too. */
extern void sfi_migrate_pause(long ms);

/* ---- contents.c ---- */

/* The bytes of a value of any kind. */
typedef struct SfContents SfContents;

/* Open one; large objects: with the rights of the current user.  End with sfi_contents_close(). */
extern SfContents *sfi_contents_open(SfContentKind kind, Datum value);
extern int64 sfi_contents_length(const SfContents *contents);
extern void sfi_contents_close(SfContents *contents);

/* SHA-256 of a value; returns its length. */
extern int64 sfi_contents_digest(SfContentKind kind, Datum value, uint8 *digest);

/*
 * A value of another kind with the same bytes, and their number.  rel, attnum: the column that it
 * is for.  A new large object belongs to the current user.
 */
extern Datum sfi_contents_convert(SfContentKind from, Datum value, SfContentKind to,
								  Relation rel, AttrNumber attnum, int64 *length);

/* Is a large object there, at this moment?  Remove it, with the rights of the current user. */
extern bool sfi_contents_exists(Oid object);
extern void sfi_contents_unlink(Oid object);

/*
 * A large object as the active snapshot sees it, like the row that names it: its owner
 * (InvalidOid: it is not there); may a role read it; may a role remove one of that owner?
 */
extern Oid	sfi_contents_owner(Oid object);
extern bool sfi_contents_readable(Oid object, Oid role);
extern bool sfi_contents_removable(Oid owner, Oid role);

/* ---- helpers.c ---- */

/* Add the new column, the triggers that keep it in step, and its constraints.  Locks the table. */
extern void sfi_migrate_add_helpers(SfMigration *m);

/* When all rows are brought over: see to it that no row is not. */
extern void sfi_migrate_validate_helpers(const SfMigration *m);

/* Take all of them away, but for the column. */
extern void sfi_migrate_drop_helpers(const SfMigration *m);

/* Leave a note that the columns are swapped, and that the migration is not over. */
extern void sfi_migrate_note(const SfMigration *m);

/* Name of one of these constraints; palloc'd. */
extern char *sfi_migrate_check_name(const SfMigration *m, const char *what);

/* ---- pass.c ---- */

typedef struct SfPass SfPass;

/* Which transactions an earlier pass has seen the rows of: a snapshot that holds nothing back. */
typedef struct SfSince
{
	TransactionId xmin;
	TransactionId xmax;
	bool		complete;		/* all that ran then are known; they are */
	int			nrunning;
	TransactionId running[FLEXIBLE_ARRAY_MEMBER];
} SfSince;

/* As of now; palloc'd. */
extern SfSince *sfi_pass_since(void);

/* What a pass does with a row, which is in a slot.  False: it was locked, and passed over. */
typedef bool (*SfPassVisit) (SfPass *pass, TupleTableSlot *slot);

/* A walk over all rows of the table, in one or in many transactions. */
struct SfPass
{
	SfMigration *m;
	SfPassVisit visit;
	const SfSince *since;		/* only row versions that came later; NULL:
								 * all */
	/* in a transaction */
	Relation	rel;
	AttrNumber	from;
	AttrNumber	to;
	struct SfCarrier *carrier;
	/* how far it is */
	uint32		block;
	uint32		offset;
	uint32		end_block;
	int64		batch_rows;
	int64		batch_bytes;
	/* what it has met, in all transactions */
	int64		rows;			/* that were changed */
	int64		bytes;
	int64		compared_bytes; /* that were compared */
	int64		skipped;
};

/* One of all rows, a transaction for each batch. */
extern SfPass sfi_pass_run(SfMigration *m, SfPassVisit visit, const SfSince *since);

/*
 * The same in the present transaction; it ends early, and returns false, when it has changed as
 * many rows or bytes as a batch, or compared as many bytes.
 */
extern bool sfi_pass_run_at_once(SfMigration *m, SfPassVisit visit, const SfSince *since);

/* ---- bring.c: visits ---- */

/* Bring the value over, where that was not done yet. */
extern bool sfi_bring_row(SfPass *pass, TupleTableSlot *slot);

/* Compare both sides; one that differs is brought over again. */
extern bool sfi_bring_compare(SfPass *pass, TupleTableSlot *slot);

/* Remove the large object of the old column if the new one has the same bytes. */
extern bool sfi_bring_unlink_old(SfPass *pass, TupleTableSlot *slot);

/* Remove the large object that was made for the new column. */
extern bool sfi_bring_unlink_new(SfPass *pass, TupleTableSlot *slot);

/* ---- dependents.c ---- */

/* What a line of the report is about, as far as the code asks. */
typedef enum SfDepends
{
	SF_DEPENDS_OTHER,
	SF_DEPENDS_CHECK,			/* a CHECK constraint */
	SF_DEPENDS_INDEX,			/* an index of no constraint */
	SF_DEPENDS_LO_MANAGE,		/* a trigger of the extension lo */
} SfDepends;

/* One line of the report. */
typedef struct SfFinding
{
	SfDepends	what;
	const char *kind;			/* index, constraint, view .. */
	const char *object;
	const char *action;			/* kept, rebuilt, lost, note, refuses */
	const char *detail;			/* a definition, or what to do */
	Oid			oid;
	const char *name;			/* of a constraint, an index, a trigger */
	bool		is_valid;		/* a constraint is */
} SfFinding;

/*
 * All objects that depend on the old column (list of SfFinding), in the current memory context.
 * In SPI.
 */
extern List *sfi_migrate_dependents(SfMigration *m);

extern SfFinding *sfi_migrate_finding(const char *kind, const char *object, const char *action,
									  const char *detail);

#define SF_ACTION_KEPT		"kept"
#define SF_ACTION_REBUILT	"rebuilt"
#define SF_ACTION_LOST		"lost"
#define SF_ACTION_NOTE		"note"
#define SF_ACTION_REFUSES	"refuses"

/* ---- foresee.c ---- */

/* All findings; with_rows: those of the rows, too, which takes a walk over the table. */
extern List *sfi_migrate_report(SfMigration *m, bool with_rows);

/* ERROR that names what is in the way, if something is. */
extern void sfi_migrate_refuse(SfMigration *m, List *findings);

/* ---- rename.c: constraints and indexes of the new column, by those of the old one ---- */

/* Make the CHECK constraints for the new column, too, not validated; and validate them. */
extern void sfi_rename_add_checks(SfMigration *m, List *dependents);
extern void sfi_rename_validate(SfMigration *m, List *dependents);

/* The statement that builds an index, given by its definition, for another column. */
extern Node *sfi_rename_index_statement(const char *definition, const char *from, const char *to,
										const char *name);

/*
 * The index that is such a twin, or InvalidOid; ERROR if another relation has its name.  In SPI.
 */
extern Oid	sfi_rename_twin_index(const SfMigration *m, const SfFinding *finding);

/* Is there a constraint, or an index either, that has no twin yet?  Others may have made it. */
extern bool sfi_rename_lacks_checks(const SfMigration *m, List *dependents);
extern bool sfi_rename_lacks_twins(const SfMigration *m, List *dependents);

/* Before a migration begins: does something have the name of the twin that it would need? */
extern bool sfi_rename_is_taken(const SfMigration *m, const SfFinding *finding);

/* The name that such a twin of a constraint or an index has until the swap; palloc'd. */
extern char *sfi_rename_twin(const char *name);

/* Under the lock: those of the new column take the names of the old ones. */
extern void sfi_rename_swap(SfMigration *m, List *dependents);

/* ---- build.c ---- */

/*
 * Build the indexes of the old column for the new one, too, each in a background worker.  Commits.
 */
extern void sfi_build_indexes(SfMigration *m, List *dependents);

/* ---- fit.c ---- */

/* Why an index of the old column can be none of the new type, or NULL.  In SPI. */
extern char *sfi_fit_problem(SfMigration *m, const SfFinding *finding);

/* ---- swap.c ---- */

/* Under the lock: all that makes the new column the column. */
extern void sfi_swap_columns(SfMigration *m, List *dependents);

#endif							/* SF_MIGRATE_INTERNAL_H */
