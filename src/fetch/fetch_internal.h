/*-------------------------------------------------------------------------
 *
 * fetch_internal.h
 *	  What the files of fetch/ share.
 *
 * stored.c			on the other server: what its data files have
 * source.c			the connection to the other server, and questions to it
 * fetch_units.c	units that are missing: asked for, checked
 * fetch_write.c	sectors, written to their places
 * fetch_column.c	the rows of a column, looked through for them
 * by_hand.c		securefile_fetch_left_behind()
 * fetch_worker.c	the same on a standby, again and again, in the background
 * fetch_state.c	shared memory: how far the worker has come with each column
 *
 * Units keep their places.  Both servers come from one, so the map that this server has got by
 * WAL, or by a backup, says where a unit lies on the other one, too; and its checksum tells
 * whether that server still has it.  A snapshot that sees the row keeps the place from being
 * given to another value here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FETCH_INTERNAL_H
#define SF_FETCH_INTERNAL_H

#include "datatype/timestamp.h"
#include "fetch/fetch.h"
#include "format/format.h"
#include "io/io.h"
#include "space/space.h"
#include "storage/block.h"
#include "utils/rel.h"

/* ---- source.c ---- */

typedef struct SfFetchSource SfFetchSource;

/*
 * The connection string that a call gives.  NULL stays NULL, and "" is securefile.fetch_from:
 * OBJECT_NOT_IN_PREREQUISITE_STATE when that is empty.  Another text is for superusers, since
 * the server connects with what its own user has (INSUFFICIENT_PRIVILEGE).
 */
extern const char *sfi_fetch_choose(const char *conninfo);

/*
 * Another server.  In conninfo the database is this one's unless it says another.  patience_ms:
 * for each answer; 0: no limit.  palloc'd, with its connection in the current memory context.
 */
extern SfFetchSource *sfi_fetch_source(const char *conninfo, int patience_ms);

/*
 * Connect, by a replication connection, unless that is done.  ERROR CONNECTION_FAILURE.
 * disconnect never throws.
 */
extern void sfi_fetch_connect(SfFetchSource *source);
extern void sfi_fetch_disconnect(SfFetchSource *source);

/* A part of a segment's data files. */
typedef struct SfFetchPart
{
	uint64		offset;			/* bytes, of whole sectors */
	uint32		length;			/* bytes; at most SF_UNIT_STORED_MAX */
} SfFetchPart;

/*
 * Ask for parts of a segment; calls got(i, bytes, length, arg) for those that the other server
 * has.  Connects if need be.  ERROR CONNECTION_FAILURE; EXTERNAL_ROUTINE_EXCEPTION when the answer
 * is an error, as when the column has other storage there.
 */
typedef void (*SfFetchGot) (int i, const char *bytes, uint32 length, void *arg);
extern void sfi_fetch_ask(SfFetchSource *source, const SfSegment *seg, const SfFetchPart *parts,
						  int nparts, SfFetchGot got, void *arg);

/* ---- fetch_units.c ---- */

/* What was found and done. */
typedef struct SfFetchCounts
{
	uint64		missing_values;
	uint64		missing_bytes;	/* stored bytes of units that were not here */
	uint64		left_values;	/* of these: the other server has not got
								 * them, */
	uint64		left_bytes;		/* or was not asked */
	TransactionId left_xmin;	/* the oldest transaction of rows with these */
} SfFetchCounts;

typedef struct SfFetchBatch SfFetchBatch;

/* source NULL: what is missing is only counted.  palloc'd in the current memory context. */
extern SfFetchBatch *sfi_batch_begin(SfSegment *seg, SfFetchSource *source, SfFetchCounts *counts);

/* A value, of a row of that transaction, whose missing units are added from here on. */
extern void sfi_batch_value(SfFetchBatch *batch, TransactionId xmin);

/* An SfReadMissing; arg is the batch. */
extern void sfi_batch_add(const SfUnit *unit, uint64 seed, void *arg);

/* Get and write what was added so far. */
extern void sfi_batch_finish(SfFetchBatch *batch);

/* ---- fetch_write.c ---- */

/*
 * Move whole blocks between a buffer of sf_io_buffer_alloc() and files, durably if it is a
 * write.  ERROR when that cannot be done.
 */
extern void sfi_fetch_transfer(SfFiles *files, bool is_write, uint64 offset, char *buffer,
							   uint32 length);

/*
 * Write whole sectors to their place, durably.  offset: bytes, in the segment.  Takes a lock of
 * its own for each megabyte, so that it waits for others that fetch, and for nobody else.  ERROR
 * when that cannot be done.
 */
extern void sfi_fetch_write(SfSegment *seg, uint64 offset, const char *bytes, uint32 length);

/* ---- fetch_column.c ---- */

/*
 * Rows of blocks [from, to) of a table, of transactions from since on (invalid: all).  Once
 * most_bytes were fetched (0: no limit), it ends at the next block, and to is that one.
 */
typedef struct SfFetchRange
{
	BlockNumber from;
	BlockNumber to;
	TransactionId since;
	uint64		most_bytes;
} SfFetchRange;

/*
 * Look through rows of a column, and fetch what is missing.  The table and the segment are
 * open and locked, at least AccessShareLock.  Returns the xmin of its snapshot: rows of older
 * transactions were seen.
 */
extern TransactionId sfi_fetch_rows(Relation rel, SfSegment *seg, SfFetchSource *source,
									SfFetchRange *range, SfFetchCounts *counts);

/* ---- fetch_state.c ---- */

/* How far the worker has come with a column.  Ids of transactions are full ones; 0: none. */
typedef struct SfFetchState
{
	SfStorage	storage;		/* that the rest is about: a move of a column
								 * to another tablespace leaves all its data
								 * behind */
	BlockNumber next_block;		/* of the pass that goes on; 0: none does */
	uint64		pass_xmin;		/* of the first snapshot of that pass */
	uint64		since;			/* it looks at rows of this transaction, and
								 * newer ones; 0: all */
	uint64		checked;		/* rows of older transactions need no look, */
	uint64		left_xmin;		/* but for some from this one on, which were
								 * left: they are tried again */
	bool		is_retry;		/* the pass that goes on does so */
	uint64		left_before;	/* values that were left before it */
	TimestampTz retry_at;		/* the next such pass */
	int			retry_ms;		/* and how long it was waited for */
	uint64		left_values;	/* the other server has not got them, either */
	uint64		left_bytes;
	uint64		fetched_values;
	uint64		fetched_bytes;
	uint64		passes;			/* complete ones */
	TimestampTz last_pass;		/* end of the last complete one; 0: none */
	TimestampTz due;			/* the next one does not begin before */
	char		failure[128];	/* of the last try, or empty */
} SfFetchState;

/* State of a column of this database; all zero when there is none.  Never throws. */
extern SfFetchState sfi_fetch_state_get(Oid table_oid, AttrNumber attnum);

/* Keep it; nothing is kept when the table is full (securefile.max_columns). */
extern void sfi_fetch_state_set(Oid table_oid, AttrNumber attnum, const SfFetchState *state);

/*
 * Note whether the other server has answered.  Each time that it has not, the next question has to
 * wait longer: a wait for an answer may be in the way of replay.  may_ask: has it passed?
 * Both never throw.
 */
extern void sfi_fetch_note_answer(bool came);
extern bool sfi_fetch_may_ask(void);

#endif							/* SF_FETCH_INTERNAL_H */
