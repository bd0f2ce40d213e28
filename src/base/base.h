/*-------------------------------------------------------------------------
 *
 * base.h
 *	  The base of all rooms: the server's own definitions, the one header of
 *	  version differences, assertions, fault points, and small common tools.
 *
 * preload.c	what SQL functions ask first: preload, SQL objects, superusers, writes, nulls
 * later.c		the error of what a later library has written
 * clock.c		a clock that does not jump forward
 * base.c		tables of other sessions, boot id, sleep, result rows, short values
 * shared.c		areas of shared memory (shared.h)
 * remote.c		tables whose values are on other servers
 * array.c		arrays that grow
 * secret.c		memory that is wiped
 * table.c		hash tables
 * undo.c		what a rollback to a savepoint brings back (undo.h)
 * worker.c		background workers (worker.h)
 * transaction.c	how a transaction has ended
 * guard.c		steps that may meet damage and must not end the statement; its error
 * server.c		insides of the server (server.h)
 * assert.c		what happens when an assertion fails
 * fault.c		the table of armed fault points
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_BASE_H
#define SF_BASE_H

#include "postgres.h"

#include "access/attnum.h"
#include "fmgr.h"
#include "portability/instr_time.h"

#include "base/compat.h"
#include "base/assert.h"
#include "base/fault.h"

/* true when the library was loaded through shared_preload_libraries */
extern bool sf_base_preloaded;

/*
 * Raise ERROR unless the library was preloaded: 55000 with the line to add to
 * postgresql.conf as its hint.  So do SQL objects of a version that the library does not work
 * with, where sf_base_set_require_fit() was called.  Call before anything that touches shared
 * memory, WAL or data files.
 */
extern void sf_base_require_preload(void);

/* Have that function asked, too, by which a room above finds out about the SQL objects. */
extern void sf_base_set_require_fit(void (*require_fit) (void));

/*
 * The ERROR FEATURE_NOT_SUPPORTED of something (what) that a later version of the library has
 * written: the version of its format, and the latest that is known.  Is an error this one?
 */
SF_NORETURN extern void sf_base_report_later(const char *what, uint32 version, uint32 known);
extern bool sf_base_is_later(const ErrorData *error);

/*
 * ERROR INSUFFICIENT_PRIVILEGE unless the current user is a superuser.  what: the end of
 * "must be superuser to ..".
 */
extern void sf_base_require_superuser(const char *what);

/*
 * ERROR READ_ONLY_SQL_TRANSACTION where a function, which is named in the message, cannot write:
 * in a read-only transaction, also on a standby; INVALID_TRANSACTION_STATE in parallel mode.
 */
extern void sf_base_require_writes(const char *function);

/*
 * ERROR INVALID_TRANSACTION_TERMINATION where a procedure, which is named in the message, may not
 * commit; hint: what can be done there.
 */
extern void sf_base_require_commits(FunctionCallInfo fcinfo, const char *procedure,
									const char *hint);

/* ERROR NULL_VALUE_NOT_ALLOWED when one of the arguments first to last is null. */
extern void sf_base_refuse_nulls(FunctionCallInfo fcinfo, int first, int last,
								 const char *names);

/*
 * ERROR FEATURE_NOT_SUPPORTED when a relation is a temporary one of another
 * session: its rows are in the memory of that session.
 */
extern void sf_base_refuse_other_temp(Oid relid);

/*
 * Does a table stand for its shards, as a distributed table of Citus does on each node?
 * Shards do not, whatever node they are on.  Takes no lock on the table.
 */
extern bool sf_base_is_shell(Oid table_oid);

/* May there be shells in this database? */
extern bool sf_base_has_shells(void);

/* Until the transaction ends, no node of Citus is added or goes, if there is Citus. */
extern void sf_base_lock_nodes(void);

/*
 * Catalogs of Citus are found by their names, and so are their columns and indexes.  The number
 * of a column, ERROR if there is none; the rows whose column is equal to a key, of which equal is
 * the function.  snapshot NULL: the newest one.
 */
extern AttrNumber sf_base_column_number(struct RelationData *catalog, const char *column);
extern struct SysScanDescData *sf_base_scan_catalog(struct RelationData *catalog,
													const char *index, const char *column,
													RegProcedure equal, Datum key,
													struct SnapshotData *snapshot);

/*
 * ERROR FEATURE_NOT_SUPPORTED when a table is a shell; or when the values of a table, or of
 * a partition of it, are stored on other servers.  They take no lock on it or its partitions.
 */
extern void sf_base_refuse_shell(Oid table_oid);
extern void sf_base_refuse_remote(Oid table_oid);

/* Full id of an xid at or before the next one, at most 2^31 back. */
extern uint64 sf_base_full_xid(TransactionId xid);

/* How a transaction has ended. */
typedef enum SfTransactionEnd
{
	SF_END_RUNNING,				/* not yet, or it is that of the caller */
	SF_END_COMMITTED,
	SF_END_ABORTED,				/* or it was lost in a crash */
	SF_END_UNKNOWN,				/* the commit log goes not so far back */
} SfTransactionEnd;

/*
 * The same, of a full id, also of a subtransaction.  It may be one that a page on disk has.
 * Looks into the commit log: no page is locked.  May be called on a standby.  at: as of a
 * moment at which the next id was that, and the commit log began at oldest.
 */
extern SfTransactionEnd sf_base_transaction_end(uint64 fxid);
extern SfTransactionEnd sf_base_transaction_end_at(uint64 fxid, uint64 next, uint64 oldest);

/* Has this transaction locked a table in just that mode (a LOCKMODE)?  Never throws. */
extern bool sf_base_has_locked(Oid table_oid, int lockmode);

/*
 * Number that is different at every start of shared memory (server start or
 * crash restart).  Zero outside a server with shared memory.
 */
extern uint64 sf_base_boot_id(void);

/*
 * After a crash, wait until no write of a killed process can still land: the
 * kernel may finish the writes that io_uring had in flight shortly after the
 * process is gone.  Call before writing to space that such a process may have
 * held.  Returns at once, except in the first second after a crash.  May throw, for
 * it looks at interrupts.
 */
extern void sf_base_wait_out_old_io(void);

/* Microseconds of a clock that is never set: two readings tell the time between them. */
static inline uint64
sf_base_now_us(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

/*
 * The time, as a TimestampTz.  Within a run of the server it never jumps forward: what has a time
 * to stay goes by it.  begin: the server starts.  Neither throws.
 */
extern void sf_base_clock_begin(void);
extern int64 sf_base_steady_time(void);

/*
 * Sleep until that time of this clock, but 100 ms at most: the caller may have something to look
 * at.  False, at once, when the time has come.  Looks for interrupts.
 */
extern bool sf_base_sleep(uint64 until_us, uint32 wait_event);

/*
 * Run a step inside a subtransaction.  Returns the error (palloc'd) when the step
 * failed because of damage on disk, and NULL when it succeeded.  Errors that say
 * nothing about the disk (cancel, out of memory) are thrown on.
 */
typedef void (*SfBaseStep) (void *arg);
extern ErrorData *sf_base_guarded(SfBaseStep step, void *arg);

/* The same, and returns any error. */
extern ErrorData *sf_base_caught(SfBaseStep step, void *arg);

/* sf_base_guarded() where nobody asks which damage it is: has the step succeeded? */
extern bool sf_base_succeeds(SfBaseStep step, void *arg);

/*
 * sf_base_guarded() without a subtransaction, for a step that reads: it takes no xid, writes
 * nothing, and calls no function of a user.  It may take locks on relations, which stay as they
 * would otherwise.  Works in parallel mode, and where a subtransaction would be seen: Citus
 * tells each of them to all nodes that a transaction is on, which fails during COPY.
 * After an error the caller waits for I/O that the step has left in flight.
 */
extern ErrorData *sf_base_guarded_read(SfBaseStep step, void *arg);

/*
 * The result of a function that returns one row, which has the columns of its declaration; one
 * more row of a function that returns a set (InitMaterializedSRF()).  nulls NULL: there are none.
 */
extern Datum sf_base_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls);
extern void sf_base_put_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls);

/*
 * A value of a column, detoasted (maybe packed), if it has no more bytes than that; else NULL, and
 * it is not fetched.
 */
extern struct varlena *sf_base_detoast_short(Datum value, Size most_bytes);

/*
 * Call before an ERROR about a value that cannot be read.  Logical decoding may send
 * a transaction before its end.  If that transaction was rolled back meanwhile, the
 * space of its values may belong to others by now.  Then this throws the error
 * (40000) at which decoding leaves out the rest of the transaction.
 */
extern void sf_base_refuse_aborted(void);

/*
 * ERROR DATA_CORRUPTED with the hint to check the column.  problem: the message; detail: a
 * sentence.  Both are palloc'd or static.
 */
SF_NORETURN extern void sf_base_report_damage(const char *problem, const char *detail);

/*
 * ERROR UNDEFINED_OBJECT: a value that was kept longer than its row or its storage was there.
 * detail: a sentence that says what has become of it; palloc'd or static.
 */
SF_NORETURN extern void sf_base_report_outlived(const char *detail);

/*
 * Memory in CurrentMemoryContext for bytes that may have been decrypted.  It is wiped when it is
 * given back, and when its context goes, as after an ERROR: the server writes memory that it has
 * not set, as padding, to WAL and temporary files.  NULL is given back, too.
 */
extern char *sf_base_secret_new(Size size);
extern void sf_base_secret_free(char *bytes);

/*
 * Make room for an item behind the first n of an array of *size items: returns
 * the array, which has moved if it was full, and sets *size then.  An array that
 * is NULL (*size 0) is made, in the given context; one that grows stays in its
 * own.  More than 1 GB is allowed.  ERROR when memory is short: the array and
 * *size are as before then.
 */
extern void *sf_base_array_grow(void *array, int64 n, int64 *size, Size item_bytes,
								MemoryContext context);

/*
 * A hash table whose entries begin with their key, of which all bytes are compared.  It lives
 * in the context, and names itself in errors.
 */
extern struct HTAB *sf_base_table(const char *name, Size key_bytes, Size entry_bytes,
								  MemoryContext context);

#endif							/* SF_BASE_H */
