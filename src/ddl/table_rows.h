/*-------------------------------------------------------------------------
 *
 * table_rows.h
 *	  Values of securefile columns and the rows that hold them: where a value
 *	  belongs, and putting it there, one at a time or for a whole table.
 *
 * Results are in CurrentMemoryContext.  Every function here may read values, and
 * throws DATA_CORRUPTED if a value is damaged.  None runs in a critical section or
 * in replay.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_TABLE_ROWS_H
#define SF_DDL_TABLE_ROWS_H

#include "ddl/objects.h"
#include "fmgr.h"
#include "object/object.h"
#include "rows/rows.h"
#include "stats/stats.h"
#include "write/write.h"

/* ---- values.c: one value of a column ---- */

/*
 * The packed, detoasted form of a value that is not in the datum itself; NULL if it is
 * INLINE or PACKED.  The form is STORED, or TRAINED, or SEALED, or EDITED (if the value does
 * not come from a row), or damaged: the function that decodes it finds that out.  Never
 * detoasts a large INLINE value.
 */
extern struct varlena *sfi_ddl_stored(Datum value);

/*
 * The same, but NULL if the value is TRAINED or SEALED, which takes no space of a segment.  What is
 * damaged, and so of whatever form, may take some: the code that frees it finds that out, and
 * warns.
 */
extern struct varlena *sfi_ddl_located(Datum value);

/*
 * Does such a value belong to the segment of this table and column?  A TRAINED or SEALED one
 * does if that has its dictionary or key.
 */
extern bool sfi_ddl_is_own(struct varlena *stored, Oid table_oid, AttrNumber attnum);

/* Are two values the same stored object or the same datum? */
extern bool sfi_ddl_same_value(Datum a, Datum b);

/* May an INLINE or PACKED value stay in the row as it is, by the options of the column? */
extern bool sfi_ddl_may_stay_inline(const SfColumn *column, Datum value);

/*
 * Is a value, of any form, too long for its row?  When it is stored, it may yet be compressed
 * into the row.
 */
extern bool sfi_ddl_leaves_row(const SfColumn *column, Datum value);

/*
 * Would a value that is in the row be compressed there, or decompressed, if it were stored
 * today?  It may turn out that nothing is gained.  ERROR when the value is damaged.
 */
extern bool sfi_ddl_wants_packing(const SfColumn *column, Datum value);

/*
 * The same of a value that is in the row in any form, but told by its codec only: one that
 * is compressed at another level of the same codec is as it should be, and so is one that
 * is encrypted as it is.
 */
extern bool sfi_ddl_is_coded_otherwise(const SfColumn *column, Datum value);

/*
 * Make the value that the column is to hold: written to the segment (as a new
 * object, or as a new version of old, the value that the row had; 0: none), or
 * INLINE, or PACKED.  A STORED value is copied, unless a handle has made it for this
 * place; anew: byte by byte, as the column asks for it now.  Returns false, and no result,
 * if the value is in the row and stays as it is.
 */
extern bool sfi_ddl_store_value(const SfColumn *column, Datum value, Datum old, bool anew,
								SfValue *result);

/*
 * As sfi_ddl_store_value(), anew, for a new row that no trigger sees and that is
 * certain to be written: a stored result is confirmed at once.
 */
extern bool sfi_ddl_put_value(const SfColumn *column, Datum value, SfValue *result);

/* ---- published.c ---- */

/*
 * ERROR PROGRAM_LIMIT_EXCEEDED if a value that was stored for a row is longer
 * than 1 GB and the column is in a publication.
 */
extern void sfi_ddl_refuse_unpublishable(Relation rel, AttrNumber attnum, const SfValue *value);

/*
 * ERROR OBJECT_NOT_IN_PREREQUISITE_STATE when logical decoding sees the rows of a table: the
 * column is in a publication, or the database has a logical slot.
 */
extern void sfi_ddl_refuse_decoded(Relation rel, AttrNumber attnum);

/* ERROR OBJECT_NOT_IN_PREREQUISITE_STATE when a value is UNFILLED, and published. */
extern void sfi_ddl_refuse_published_unfilled(Relation rel, AttrNumber attnum, Datum value);

/* ---- table_rows.c: all rows of a table ---- */

typedef enum SfRowFilter
{
	SF_ROWS_STORED,				/* any STORED value */
	SF_ROWS_FOREIGN,			/* a STORED value of another table or column */
	SF_ROWS_OWN,				/* a STORED value of this table and column */
	SF_ROWS_UNPROVED,			/* FOREIGN, or made by this transaction for no
								 * row */
	SF_ROWS_MISPLACED,			/* FOREIGN, or an INLINE one that belongs in
								 * the segment */
	SF_ROWS_COMPUTED,			/* the same, or one in the row that would be
								 * compressed */
} SfRowFilter;

/*
 * Does a visible row have such a value in the column?  ERROR OBJECT_IN_USE while
 * something else in this session has the table open: its rows need not have the
 * form that the catalogs describe.
 */
extern bool sfi_ddl_rows_exist(Relation rel, AttrNumber attnum, SfRowFilter filter);

/*
 * Put the values of a column where they belong, in all visible rows, by updates
 * that fire no trigger.  all: also store values again that lie there already.
 * Returns the number of rows changed.  The caller holds at least
 * ShareRowExclusiveLock on the table.  ERROR OBJECT_IN_USE as above.  Runs index
 * expressions as the owner of the table.
 */
extern int64 sfi_ddl_rows_store(Relation rel, const SfColumn *column, bool all);

/* What is needed to replace rows of a table. */
typedef struct SfRowWriter
{
	Relation	rel;
	struct EState *estate;
	struct ResultRelInfo *result_rel;
	TupleTableSlot *new_slot;
	Snapshot	snapshot;
	List	   *columns;		/* attribute numbers: those of type securefile */
	bool		keeps_old;		/* the old value may be another row's: its
								 * space is not freed */
} SfRowWriter;

/*
 * Open what updates of rows need: a slot, the indexes of the table, and a new snapshot, which sees
 * the rows that this transaction has written so far.  The snapshot is active until the end; what
 * was written can be seen then.
 */
extern SfRowWriter sfi_ddl_writer_begin(Relation rel);
extern void sfi_ddl_writer_end(SfRowWriter *writer);

/*
 * Put the value of one row, in a slot, where it belongs, by an update that fires no trigger;
 * true if the row was updated.  Nobody else can change the row meanwhile.  context is
 * announced; it is told the column of a value that comes from elsewhere.
 */
extern bool sfi_ddl_writer_store(SfRowWriter *writer, TupleTableSlot *slot, const SfColumn *column,
								 Datum old, SfRowContext *context);

/*
 * Lock the row in a slot, without waiting.  False if somebody else has locked it, or has
 * changed it since the snapshot was taken.
 */
extern bool sfi_ddl_writer_lock(SfRowWriter *writer, TupleTableSlot *slot);

/*
 * Give a row that is locked another value of a column of any type, by an update that fires no
 * trigger.  A value of a securefile column is put where it belongs; an old one is freed.
 */
extern void sfi_ddl_writer_put(SfRowWriter *writer, TupleTableSlot *slot, AttrNumber attnum,
							   NullableDatum value);

/*
 * Give a row that is locked a value that sfi_ddl_store_value() has stored for it, in place of the
 * old one, as sfi_ddl_writer_store() does.
 */
extern void sfi_ddl_writer_replace(SfRowWriter *writer, TupleTableSlot *slot,
								   const SfColumn *column, Datum old, const SfValue *value);

/* ---- row_passes.c: some rows at a time, while the table is in use ---- */

/* Where the work on a column stands, between two transactions. */
typedef struct SfPosition
{
	uint32		table_oid;
	uint32		attnum;
	uint32		pass;			/* from 1; 0: nothing is left to do */
	uint32		block;			/* behind which row the next batch begins */
	uint32		offset;
	uint32		end_block;		/* of this pass */
	uint64		number;			/* of the caller's */
	uint64		done;			/* values, in this pass */
	uint64		skipped;		/* rows, likewise */
} SfPosition;

/*
 * The work of one transaction.  visit: does what is to be done with a row that the snapshot of
 * the writer sees, and counts it; the memory context of the row is current.
 */
typedef struct SfRowBatch SfRowBatch;
typedef void (*SfRowVisit) (SfRowBatch *batch, SfRowWriter *writer, TupleTableSlot *slot,
							SfRowContext *context);
struct SfRowBatch
{
	SfRowVisit	visit;
	int64		max_bytes;		/* the batch ends when it has so many, */
	uint64		max_us;			/* or after that time; 0: any time */
	struct SfProgress *progress;	/* values and bytes are of all batches */
	SfPosition	at;

	/* of this transaction: */
	Relation	rel;
	SfColumn	column;
	int64		values;
	int64		bytes;
};

/*
 * open: lock the table of a batch, with the errors of sfi_ddl_require_column(), and find its
 * column; what is to be done, for errors.  first_pass: begin at the first row.  run: go on from
 * the position, which moves on; at.pass is 0 when nothing is left to do.  INVALID_PARAMETER_VALUE
 * when that is of another column.  Runs index expressions as the owner of the table.
 */
extern void sfi_ddl_batch_open(SfRowBatch *batch, Oid table_oid, const char *column,
							   const char *what);
extern void sfi_ddl_batch_first_pass(SfRowBatch *batch, uint64 number);
extern void sfi_ddl_batch_run(SfRowBatch *batch);

/* For visit: a value of that length was stored again.  Never throws. */
extern void sfi_ddl_batch_count(SfRowBatch *batch, int64 length);

/* A position as a text, and back; INVALID_PARAMETER_VALUE when the text is none. */
extern char *sfi_ddl_position_text(const SfPosition *at);
extern SfPosition sfi_ddl_position_of(const char *text);
SF_NORETURN extern void sfi_ddl_refuse_position(const char *text);

/*
 * For functions (table, column, ..): what has to be so before anything is looked at; the table
 * has rows of its own; the result (values, bytes, skipped, position, which may be NULL).
 */
extern void sfi_ddl_batch_require(FunctionCallInfo fcinfo, const char *function, int64 max_bytes);
extern void sfi_ddl_batch_refuse_partitioned(Oid table_oid, const char *procedure);
extern Datum sfi_ddl_batch_result(FunctionCallInfo fcinfo, const SfRowBatch *batch,
								  const char *position);

/* ---- seen.c: how many rows the row triggers have seen ---- */

/* Rows of a column in this transaction, what was rolled back to a savepoint left out. */
typedef struct SfSeen
{
	int64		came;			/* rows that were inserted, and new versions */
	int64		went;			/* versions that are gone, whose value was
								 * freed */
} SfSeen;

/*
 * Count rows, also such as a function of this room has written.  A table with several columns
 * has a count for each of them.
 */
extern void sfi_ddl_see(Oid table_oid, AttrNumber attnum, int64 came, int64 went);

/* The table is being truncated: its rows count from 0. */
extern void sfi_ddl_see_truncated(Oid table_oid, AttrNumber attnum);

/*
 * These commands of the transaction, from the first to the last one, have replaced rows to bring
 * them home, and given no space back.  Later ones have higher numbers.
 */
extern void sfi_ddl_note_own_commands(CommandId first, CommandId last);

/* Is a command one of these?  Never throws. */
extern bool sfi_ddl_is_own_command(CommandId command);

/* What was counted so far.  Never throws. */
extern SfSeen sfi_ddl_seen(Oid table_oid, AttrNumber attnum);

/* ---- unseen.c: rows that came past the row triggers ---- */

/*
 * All rows that this transaction has written to an open table so far were looked at for that
 * column, or came before it.
 */
extern void sfi_ddl_see_column(Relation rel, AttrNumber attnum);

/* ---- rebuild.c ---- */

/*
 * Write all rows of a table anew into new storage, with the values of some
 * columns (list of AttrNumber) where they belong, as ALTER TABLE rewrites a table:
 * older snapshots see no rows, logical decoding none of the changes.  Takes
 * AccessExclusiveLock on the table; nothing in this session has it open.
 */
extern void sfi_ddl_rebuild(Oid table_oid, List *attnums);

/* ---- removal.c ---- */

/*
 * How a row of an account trigger, whose flinfo that is, has lost a value; NULL: the column keeps
 * none.  Valid until the next call.
 */
struct TriggerData;
extern const SfRemoval *sfi_ddl_removal(FmgrInfo *flinfo, struct TriggerData *trigdata,
										AttrNumber attnum);

#endif							/* SF_DDL_TABLE_ROWS_H */
