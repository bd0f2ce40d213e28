/*-------------------------------------------------------------------------
 *
 * ddl.h
 *	  Keeping tables with securefile columns in order: the segment and the
 *	  row triggers of every column follow whatever DDL does to the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_H
#define SF_DDL_H

#include "access/htup.h"
#include "executor/tuptable.h"
#include "space/space.h"
#include "utils/snapshot.h"

/*
 * Install the hooks of this room.  Call from _PG_init while preloading; the
 * hooks chain to those that were there before.
 */
extern void sf_ddl_install_hooks(void);

/*
 * Have sf_base_require_preload() refuse SQL objects of a version that the library does not
 * work with: OBJECT_NOT_IN_PREREQUISITE_STATE.  Call from _PG_init while preloading.
 */
extern void sf_ddl_watch_version(void);

/* The version of the extension in this database, palloc'd, or NULL: it is not installed. */
extern char *sf_ddl_objects_version(void);

/*
 * What the catalog says of a column that has a segment.  space/ asks for those
 * that only have a value or a segment at hand (see SfSpaceAbove).
 */
extern SfColumn sf_ddl_describe(Oid table_oid, AttrNumber attnum);

/*
 * Before a commit: ERROR OBJECT_NOT_IN_PREREQUISITE_STATE when a table that this
 * transaction made or altered lacks the triggers of a securefile column.
 */
extern void sf_ddl_require_followed(void);

/*
 * See to it that all rows that this transaction has written have their own values, also those
 * that came past the row triggers: copy what belongs to other rows, columns or tables, with a
 * NOTICE.  Does nothing, quickly, when the triggers have seen all rows.  No statement that
 * writes rows is being executed.  ERROR, of the functions that read or write values, when that
 * cannot be done.
 */
extern void sf_ddl_bring_home(void);

/* The same, and look at all rows of tables that were given other files.  Before a commit. */
extern void sf_ddl_bring_home_at_end(void);

/* At the end of the transaction, whichever. */
extern void sf_ddl_seen_at_end(void);
extern void sf_ddl_swapped_at_end(void);
extern void sf_ddl_notes_at_end(void);
extern void sf_ddl_replaced_at_end(void);

/* A subtransaction ends. */
extern void sf_ddl_at_subcommit(int level);
extern void sf_ddl_at_subabort(int level);

/*
 * The segment of a column that the current user means to write a value for;
 * the table stays locked as INSERT locks it.  NULL: the table is temporary or
 * unlogged, and has none.  ERROR UNDEFINED_TABLE, WRONG_OBJECT_TYPE (a partitioned
 * table: the detail names the partitions), UNDEFINED_COLUMN, DATATYPE_MISMATCH,
 * INSUFFICIENT_PRIVILEGE without INSERT or UPDATE on the column.
 */
extern SfSegment *sf_ddl_column_to_write(Oid table_oid, const char *column);

/*
 * Drop the segments of a table if it is the empty shell of a distributed table.  Returns
 * whether to try again, since somebody uses it now.  Never waits; the locks that it takes stay
 * until the end of the transaction.
 */
extern bool sf_ddl_tidy_shell(Oid table_oid);

/* At the end of the transaction: may it have made shells, which the monitor has to look for? */
extern bool sf_ddl_shells_at_end(void);

/*
 * The built-in type whose text and binary form a type has: bytea for securefile and
 * domains over it, bytea[] for arrays of these; any other type itself.
 */
extern Oid	sf_ddl_described_type(Oid typid);

/*
 * A palloc'd copy of the row of an open catalog that has this OID, or NULL; for
 * catalogs without a cache.  index: over the OID alone, whose column is oid_attnum.
 * snapshot: NULL, or SnapshotSelf for a row that this command has made.
 */
extern HeapTuple sf_ddl_catalog_row(Relation catalog, Oid index, AttrNumber oid_attnum,
									Oid oid, Snapshot snapshot);

/* ERROR INSUFFICIENT_PRIVILEGE unless the current user owns the table.  Takes no lock. */
extern void sf_ddl_require_owner(Oid table_oid);

/*
 * The number of the securefile column of that name.  ERROR UNDEFINED_COLUMN or
 * DATATYPE_MISMATCH if the table has none.  Takes no lock.
 */
extern AttrNumber sf_ddl_find_column(Oid table_oid, const char *column);

/* ERROR INSUFFICIENT_PRIVILEGE without any of those privileges (ACL_*) on a column. */
extern void sf_ddl_require_privilege(Oid table_oid, AttrNumber attnum, uint64 any_of);

/* ---- move_values.c: values are moved to the front of a segment ---- */

#define SF_MOVE_BATCH_BYTES		(INT64CONST(64) * 1024 * 1024)

/* What a call asks for. */
typedef struct SfMoveRequest
{
	int64		batch_bytes;	/* of values, as stored, in a transaction */
	uint64		bytes_per_second;	/* 0: no limit */
	bool		allow_decoding;
	bool		force;
} SfMoveRequest;

/*
 * Move values of the column of one table, in transactions of their own, with SPI_commit(), and
 * tell by NOTICEs what was not moved.  Cuts no tail.  Does nothing when the table is gone.
 * Errors: FEATURE_NOT_SUPPORTED, OBJECT_NOT_IN_PREREQUISITE_STATE when moving is refused; those
 * of reading and writing values.  Returns how long the segment could be then, in sectors; 0:
 * nothing was moved.
 */
extern uint64 sf_ddl_move(Oid table_oid, const char *column, const SfMoveRequest *request);

/* After the tail was cut: a NOTICE, if the segment is much longer than that, and why. */
extern void sf_ddl_note_uncut(SfSegment *seg, uint64 after_sectors, const char *table,
							  const char *column);

/* INVALID_PARAMETER_VALUE unless a batch of so many bytes has any. */
extern void sf_ddl_require_batch(int64 bytes);

/*
 * Shrink a segment as the only session: until the transaction ends, or, in a session, until the
 * unlock or the abort of a transaction.  ERROR OBJECT_IN_USE; never waits.
 */
extern void sf_ddl_shrink_lock(Oid segment_relid, bool session);
extern void sf_ddl_shrink_unlock(Oid segment_relid);

/* ---- carry.c: values that are brought into a column of rows, for other rooms ---- */

typedef struct SfCarrier SfCarrier;

/*
 * Begin to bring values into a column, of any type, of rows of a table, which is locked
 * (RowExclusiveLock or more).  From here to the end a new snapshot is active, by which the rows
 * are to be found; what was written is seen after the end.  The caller is in sf_rows_as_owner().
 */
extern SfCarrier *sf_ddl_carrier_begin(Relation rel, AttrNumber attnum);
extern Snapshot sf_ddl_carrier_snapshot(const SfCarrier *carrier);
extern void sf_ddl_carrier_end(SfCarrier *carrier);

/*
 * Lock a row, without waiting: false if somebody else has locked it, or has changed it since the
 * snapshot was taken.  Then give it a value of the column, by an update that fires no trigger.  A
 * value of a securefile column is put where it belongs, and the old one is freed.
 */
extern bool sf_ddl_carrier_lock(SfCarrier *carrier, TupleTableSlot *slot);
extern void sf_ddl_carrier_put(SfCarrier *carrier, TupleTableSlot *slot,
							   NullableDatum value);

#endif							/* SF_DDL_H */
