/*-------------------------------------------------------------------------
 *
 * pgsecurefile.h
 *	  libpgsecurefile: values of type securefile as streams, over libpq.
 *
 * A value is read and written in pieces, through a PGconn that the application owns.
 * Both sides need constant memory, and a piece needs no round trip of its own.  The
 * library sends plain SQL: the functions securefile_open(), securefile_write() and so on
 * can do everything that it does.
 *
 * Handles.  A pgsf is like a FILE.  It is made once for a connection, has at most one
 * value open at a time, and can open one value after the other.  A connection may have
 * several handles.
 *
 * Results.  A function that returns int returns 0 for success; a function that returns
 * int64_t returns the number that its comment names.  Both return -1 after an error, which
 * pgsf_error(), pgsf_sqlstate() and pgsf_errno() then describe.  The library prints
 * nothing and never ends the process.  A successful call clears the error of the call
 * before.  All lengths, offsets and positions are in bytes; offsets count from 0.  A value
 * has at most 2^63 - 1 bytes.
 *
 * Errors.  Each call that works with the server can fail with PGSF_ERROR_BUSY,
 * _CANCELLED, _CONNECTION, _CLOSED, _PROTOCOL and _MEMORY, with PGSF_ERROR_EXTENSION if it
 * is the first on a connection, and with 25P02 and 42704 (see Transactions).  The comments
 * of the functions name the other errors.
 *
 * Transactions.  A value is open inside a transaction.
 * - If the connection is idle when a value is opened or created, the library begins a
 *	 transaction and ends it.  pgsf_store() commits.  pgsf_close() commits after PGSF_READ
 *	 and rolls back after writing.  An error rolls back at once.  Statements that you
 *	 execute in between belong to that transaction.  If you end it and begin another one
 *	 (not by ROLLBACK AND CHAIN, which the library does not notice), that one is yours.  To
 *	 have two values open at the same time begin a transaction yourself.
 * - In a transaction of yours the library begins and ends nothing and keeps no savepoint.
 *	 A stored value is committed when you commit.  An error of the server leaves the
 *	 transaction failed, as any SQL error does: roll back, or roll back to a savepoint of
 *	 yours; until then calls fail with 25P02.  An operation that ends half-way (cancelled,
 *	 local file, callback) may leave it failed too; PQtransactionStatus() tells.  If it did
 *	 not, you may continue and even commit: nothing is kept of the value that failed.
 * Either way an error of the server or of the local side closes the value; the handle can
 * open another one.  A half-written value is never visible and keeps no space.  Only wrong
 * arguments and wrong uses (PGSF_ERROR_ARGUMENT, PGSF_ERROR_STATE) leave the value open as
 * it was.
 *
 * When you roll back, or roll back to a savepoint, while a value is open, the server may
 * have closed it.  The next call that waits for the server then fails with 42704.
 * pgsf_write() may not wait and return 0, and so may pgsf_insert(), pgsf_truncate(),
 * pgsf_erase() and pgsf_delete(); pgsf_flush() or pgsf_store() fails then.  This
 * error, too, leaves a transaction of yours failed.  pgsf_close() never meets it.
 *
 * The connection.  It may be in blocking mode or not and in pipeline mode or not, but must
 * have no command in progress: else PGSF_ERROR_BUSY.  Each call leaves both modes as they
 * were and the connection free for you, with one exception: after pgsf_read(),
 * pgsf_write(), pgsf_insert(), pgsf_truncate(), pgsf_erase() and pgsf_delete() it may be in
 * pipeline mode with commands in flight.  Call pgsf_flush() before you use the connection
 * yourself.  (All other calls, also those on another handle of the connection, do that by
 * themselves.)  The library overwrites the unnamed prepared statement and registers an
 * event procedure (libpq-events.h); it changes no other state of connection and session.
 * PQfinish() and PQreset() are allowed while a value is open: the value is lost, and
 * pgsf_free() has still to be called.
 *
 * Threads.  One thread at a time may use a connection and all its handles.  Only
 * pgsf_cancel() may be called by other threads, and in signal handlers.  Different
 * connections are independent; the library has no global state.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSECUREFILE_H
#define PGSECUREFILE_H

#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* ---- version ---- */

#define PGSF_VERSION		"1.0.0"
#define PGSF_VERSION_NUM	10000	/* major * 10000 + minor * 100 + patch */

/* The version of the library that runs, as PGSF_VERSION_NUM.  Never fails. */
extern int	pgsf_version(void);

/* ---- errors ---- */

/*
 * SQLSTATEs of errors found on this side of the connection.  All others are the
 * server's; those of the securefile functions are in doc/reference.md.
 */
#define PGSF_ERROR_ARGUMENT		"SF001" /* an argument is wrong */
#define PGSF_ERROR_STATE		"SF002" /* nothing is open; a value is open
										 * already; open for reading only */
#define PGSF_ERROR_BUSY			"SF003" /* a command or COPY of the
										 * application is in progress on the
										 * connection */
#define PGSF_ERROR_EXTENSION	"SF004" /* no extension securefile in this
										 * database */
#define PGSF_ERROR_NOT_FOUND	"SF010" /* the SELECT gave no row; the storing
										 * statement stored none */
#define PGSF_ERROR_MANY			"SF011" /* the SELECT gave more than one row */
#define PGSF_ERROR_NULL			"SF012" /* the value is NULL */
#define PGSF_ERROR_FILE			"SF020" /* local file; pgsf_errno() tells why */
#define PGSF_ERROR_CHANGED		"SF021" /* the file changed while it was put */
#define PGSF_ERROR_CALLBACK		"SF022" /* a source or sink failed */
#define PGSF_ERROR_CANCELLED	"57014" /* by pgsf_cancel, the progress
										 * callback, or another session */
#define PGSF_ERROR_CONNECTION	"08006" /* connection lost; may be 57P01 and
										 * the like if the server said why */
#define PGSF_ERROR_UNKNOWN		"08007" /* lost during COMMIT: look whether it
										 * is stored */
#define PGSF_ERROR_CLOSED		"08003" /* PQfinish() or PQreset() was called */
#define PGSF_ERROR_PROTOCOL		"08P01" /* an answer that was not understood */
#define PGSF_ERROR_MEMORY		"53200" /* out of memory, here or there */

/* ---- life of a handle ---- */

typedef struct pgsf pgsf;

/*
 * Make a handle for a connection, to be freed with pgsf_free().  Sends nothing.  Returns
 * NULL if memory or file descriptors are short (a handle takes one, for pgsf_cancel), or
 * if conn is NULL or not connected.  All functions may be called with that NULL: they fail.
 */
extern pgsf *pgsf_new(PGconn *conn);

/*
 * Close the value, if one is open, as pgsf_close() does, and free the handle.  NULL is
 * allowed.  The connection may have been closed before.  Reports no error.
 */
extern void pgsf_free(pgsf *h);

/*
 * The error of the last call; empty strings and 0 if it succeeded.  The strings belong to
 * h and hold until the next call on it.
 *	- pgsf_error: the message, one line without a newline
 *	- pgsf_error_detail, pgsf_error_hint: the server's detail and hint, or empty
 *	- pgsf_sqlstate: five characters
 *	- pgsf_errno: errno of the local system call that failed, or 0; for
 *	  PGSF_ERROR_CALLBACK the errno that the callback left
 */
extern const char *pgsf_error(const pgsf *h);
extern const char *pgsf_error_detail(const pgsf *h);
extern const char *pgsf_error_hint(const pgsf *h);
extern const char *pgsf_sqlstate(const pgsf *h);
extern int	pgsf_errno(const pgsf *h);

/* ---- opening ---- */

/*
 * Parameters $1 to $count of a statement, in the form of PQexecParams().  types, lengths
 * and formats may be NULL: the server infers the types, and all values are text.  A NULL
 * pgsf_params means no parameters.  PGSF_ERROR_ARGUMENT: count is not between 0 and 65530,
 * or the statement uses a parameter beyond $count.
 */
typedef struct pgsf_params
{
	int			count;
	const Oid  *types;			/* 0: inferred */
	const char *const *values;	/* a NULL among them: null */
	const int  *lengths;		/* in bytes, of binary values */
	const int  *formats;		/* 0 text, 1 binary */
} pgsf_params;

typedef enum pgsf_mode
{
	PGSF_CLOSED = 0,			/* nothing is open */
	PGSF_READ,
	PGSF_READ_WRITE
} pgsf_mode;

/*
 * Open the value that a SELECT yields, at position 0.  sql is one statement without a
 * semicolon at its end, which gives one row with one column of type securefile.
 *
 * PGSF_READ reads the version that the SELECT saw, whatever happens to the row later.
 * PGSF_READ_WRITE makes a new version, which shares the unwritten bytes with the old one.
 * It becomes visible when pgsf_store() puts it into the row.  Lock the row (SELECT .. FOR
 * UPDATE) if others may write it too: otherwise the last writer wins.  A value that is
 * short enough to lie in its row can grow to 1 GB that way, other values to any length.
 *
 * Errors: PGSF_ERROR_NOT_FOUND, _MANY, _NULL for the row; PGSF_ERROR_STATE a value is
 * open; PGSF_ERROR_ARGUMENT mode, sql or params; 42601 not one column; 42804 another type;
 * 25006 PGSF_READ_WRITE in a read-only transaction or on a standby; 42501 no privilege;
 * all errors of the SELECT.  One round trip, and another the first time on a connection.
 */
extern int	pgsf_open(pgsf *h, pgsf_mode mode, const char *sql,
					  const pgsf_params *params);

/*
 * Create an empty value for a column and open it with PGSF_READ_WRITE, at position 0.  The
 * table is written as in SQL (with schema and quotes if needed), the column as in the
 * catalog, without quotes.  Of a partitioned table name the partition.  The value may be
 * stored in another column too; the server copies it then.
 *
 * Errors: PGSF_ERROR_STATE a value is open; PGSF_ERROR_ARGUMENT table or column is NULL;
 * 42P01, 42703 no such table or column; 42804 not a securefile column; 42809 not a plain
 * table; 42501 no privilege; 25006 a read-only transaction or a standby.  One round trip,
 * and another the first time on a connection.
 */
extern int	pgsf_create(pgsf *h, const char *table, const char *column);

/* ---- reading, writing, moving ---- */

/*
 * Read up to len bytes at the position into buf and move the position.  Returns the number
 * of bytes: fewer than len only at the end, 0 at or beyond it.  The second of two reads
 * without a gap between them begins to read ahead, up to 4 MB, so that the following reads
 * wait for no round trip.  A read at another place costs one round trip.
 *
 * Errors: PGSF_ERROR_STATE no value is open; PGSF_ERROR_ARGUMENT buf is NULL and len is
 * not 0; XX001 the stored bytes are damaged.
 * May leave the connection in use: see pgsf_flush().
 */
extern int64_t pgsf_read(pgsf *h, void *buf, size_t len);

/*
 * Write len bytes at the position and move the position.  A gap between the end of the
 * value and the position reads as zeros and takes no space.  Small writes are gathered up
 * to a piece (256 KB).  Up to 16 pieces are in flight without an answer: a later call may
 * report an error of the server, pgsf_flush() or pgsf_store() at the latest.  All errors
 * but the first two close the value.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT buf is NULL
 * and len is not 0; 54000 the value would be longer than 2^63 - 1; 53100 the disk of the
 * server is full.
 * May leave the connection in use: see pgsf_flush().
 */
extern int	pgsf_write(pgsf *h, const void *buf, size_t len);

/*
 * Insert len bytes at the position and move the position behind them.  The bytes from the
 * position on move back, and the value becomes longer by len; they do not travel.  At the
 * end and beyond it this is pgsf_write(), gap included.  In front of the end nothing is
 * gathered: each call sends its bytes, in pieces of up to 256 KB, so one long insertion is
 * faster than many short ones.  Up to 16 pieces are in flight without an answer: a later
 * call may report an error of the server, pgsf_flush() or pgsf_store() at the latest.  All
 * errors but the first two close the value.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT buf is NULL
 * and len is not 0; 54000 the value would be longer than 2^63 - 1; 53100 the disk of the
 * server is full.
 * May leave the connection in use: see pgsf_flush().
 */
extern int	pgsf_insert(pgsf *h, const void *buf, size_t len);

/*
 * Send the gathered bytes, wait until the server has taken all of them, and drop the bytes
 * that were read ahead.  After that the connection is free for the application, until the
 * next pgsf_read(), pgsf_write(), pgsf_insert(), pgsf_truncate(), pgsf_erase() or pgsf_delete().
 * Errors: PGSF_ERROR_STATE no value is open; those of earlier writes.
 */
extern int	pgsf_flush(pgsf *h);

/*
 * Move the position to offset from SEEK_SET, SEEK_CUR or SEEK_END (of <stdio.h>) and return
 * the new position, which may lie beyond the end.  Sends nothing.
 * Errors: PGSF_ERROR_STATE no value is open; PGSF_ERROR_ARGUMENT whence is none of these,
 * or the result would be below 0 or above 2^63 - 1.
 */
extern int64_t pgsf_seek(pgsf *h, int64_t offset, int whence);

/* The position.  Sends nothing.  PGSF_ERROR_STATE: no value is open. */
extern int64_t pgsf_tell(pgsf *h);

/* The length, with the writes so far.  Sends nothing.  PGSF_ERROR_STATE: no value is open. */
extern int64_t pgsf_length(pgsf *h);

/*
 * Set the length, in bytes: cut the value, or fill it up with zeros that take no space.
 * The position stays.
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT length is
 * negative; those of the server as for pgsf_write().
 * May leave the connection in use: see pgsf_flush().
 */
extern int	pgsf_truncate(pgsf *h, int64_t length);

typedef struct pgsf_info
{
	pgsf_mode	mode;
	int64_t		length;			/* as pgsf_length() */
	int64_t		position;		/* as pgsf_tell() */
	int			created;		/* 1: by pgsf_create(), 0: by pgsf_open() */
	int			own_transaction;	/* 1: the library began it and will end it */
} pgsf_info;

/*
 * The state of h.  Sends nothing.  If no value is open mode is PGSF_CLOSED and the rest 0,
 * which is no error.  PGSF_ERROR_ARGUMENT: info is NULL.
 */
extern int	pgsf_stat(pgsf *h, pgsf_info *info);

/* ---- ranges, on the server: their bytes do not travel ---- */

/*
 * Copy up to count bytes, -1: all, from the position of source to that of target, and move both
 * positions.  Returns the number of bytes: fewer than count only at the end of source, 0 at or
 * beyond it.  What was written to either before, also if it is not stored yet, is seen.  Gaps of
 * source become gaps of target; a gap between the end of target and its position is one, too.
 * Other bytes of target are overwritten.  The handles are of one connection; both values are open,
 * so their transaction is one, too (see Transactions).
 *
 * The error is that of target, whose value is closed; that of source stays open at its position,
 * unless it has failed itself: its next call says so again.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing in target, or none in source;
 * PGSF_ERROR_ARGUMENT source is NULL, of another connection, or target itself, or count is below
 * -1; 54000 and 53100 as for pgsf_write(); XX001 the stored bytes are damaged.  One round trip.
 */
extern int64_t pgsf_copy_range(pgsf *target, pgsf *source, int64_t count);

/*
 * Copy length bytes, -1: all, from offset on, of the value that a SELECT yields (as for
 * pgsf_open), to the position of h, and move it.  Returns the number of bytes: fewer than length
 * at the end, 0 beyond it.  Gaps stay gaps.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT as for pgsf_get_fd();
 * those of the SELECT as for pgsf_open(); 54000, 53100 and XX001.  All but the first two close the
 * value.  One round trip.
 */
extern int64_t pgsf_copy_value(pgsf *h, int64_t offset, int64_t length,
							   const char *sql, const pgsf_params *params);

/*
 * Make up to count bytes from the position on zeros.  Units of PGSF_UNIT_BYTES that they cover
 * whole take no space any more.  The length and the position stay.  Returns the number of bytes:
 * fewer than count only at the end, 0 at or beyond it.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT count is negative;
 * those of the server as for pgsf_write(), which a later call may report.
 * May leave the connection in use: see pgsf_flush().
 */
extern int64_t pgsf_erase(pgsf *h, int64_t count);

/*
 * Take up to count bytes from the position on out of the value.  The bytes behind them move to the
 * front, and the value becomes shorter; the position stays.  Returns the number of bytes: fewer
 * than count only at the end, 0 at or beyond it.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT count is negative;
 * those of the server as for pgsf_write(), which a later call may report.
 * May leave the connection in use: see pgsf_flush().
 */
extern int64_t pgsf_delete(pgsf *h, int64_t count);

/*
 * Set *found to the offset of the first place, at the position or behind it, where the value has
 * the len bytes of pattern, -1: there is none.  What was written before is seen.  The position
 * stays.  A pattern of no bytes is found at the position, up to the end of the value.
 *
 * Errors: PGSF_ERROR_STATE no value is open; PGSF_ERROR_ARGUMENT found is NULL, or pattern is and
 * len is not 0, or the pattern is longer than 2^30 - 2^16 bytes; XX001 the stored bytes in front
 * of the place are damaged.  One round trip.
 */
extern int	pgsf_search(pgsf *h, const void *pattern, size_t len, int64_t *found);

/* ---- storing, closing ---- */

/*
 * This text stands for the finished value in the statements of pgsf_store() and
 * pgsf_put_*: write it exactly once.  It becomes securefile_finish(<handle>).
 *
 *	"INSERT INTO docs (name, document) VALUES ($1, " PGSF_VALUE ") RETURNING id"
 *	"UPDATE docs SET document = " PGSF_VALUE " WHERE id = $1"
 */
#define PGSF_VALUE	":pgsf_value"

/*
 * Finish the value that is open with PGSF_READ_WRITE and execute a statement that stores
 * it: one statement, with PGSF_VALUE in it and parameters $1.. of your own.  Closes the
 * value, and commits if the library began the transaction.
 *
 * The statement is an INSERT, UPDATE or MERGE, one of these in WITH, or a SELECT or CALL of
 * a function or procedure that stores its argument.  PGSF_VALUE stands in the place of an
 * expression, not in a comment, string or quoted name.  The library cannot see whether a
 * function stores its argument: SELECT :pgsf_value succeeds, and nothing is stored.
 *
 * If result is not NULL it receives the statement's result, with the rows of RETURNING in
 * text form, which the caller gives to PQclear(); NULL after an error.
 *
 * The server stores a value from pgsf_create() without copying in a row of that table, and
 * a value from pgsf_open() by an UPDATE of the row that it came from.
 *
 * Errors: PGSF_ERROR_STATE no value is open for writing; PGSF_ERROR_ARGUMENT PGSF_VALUE
 * does not stand there exactly once, or another kind of statement (the value stays open);
 * PGSF_ERROR_NOT_FOUND the statement stored no row (WHERE finds none, ON CONFLICT DO
 * NOTHING); PGSF_ERROR_UNKNOWN the connection was lost during COMMIT; those of the
 * statement, of COMMIT, and of the writes before.  Two round trips if it commits, else one.
 */
extern int	pgsf_store(pgsf *h, const char *sql, const pgsf_params *params,
					   PGresult **result);

/*
 * Close the value and store nothing; the server discards its writes.  If no value is open
 * it does nothing.  Ends the transaction if the library began it.  Not cancelled by
 * pgsf_cancel().
 * Errors: PGSF_ERROR_BUSY (the value stays open); those of a lost connection (the value is
 * closed).
 */
extern int	pgsf_close(pgsf *h);

/* ---- whole values ---- */

/*
 * A source gives bytes: it puts up to len (> 0) of them into buf and returns their number,
 * 0 at the end, -1 for failure.  A sink takes all len bytes and returns 0, or -1 for
 * failure.  pgsf_errno() gives the errno that a failure left.  Neither may use the
 * connection or a pgsf on it, except for pgsf_cancel().
 */
typedef int64_t (*pgsf_source) (void *arg, void *buf, size_t len);
typedef int (*pgsf_sink) (void *arg, const void *buf, size_t len);

/*
 * A sparse source gives bytes likewise, or a hole: it sets *hole, which is 0 at first, to the
 * number of zeros that come next, and returns 0.
 */
typedef int64_t (*pgsf_sparse_source) (void *arg, void *buf, size_t len, int64_t *hole);

/* A hole takes no space in the segment as far as it covers units, of so many bytes, whole. */
#define PGSF_UNIT_BYTES		(128 * 1024)

/*
 * Create a value for table and column (as pgsf_create), write all bytes, and store it with
 * sql (as pgsf_store).  Returns the number of bytes.  No value may be open in h, and none
 * is afterwards.  The errors are those of these functions, and the following; nothing is
 * stored after an error.
 *
 *	- pgsf_put_fd reads from the position of fd to its end: of a file, pipe or socket, also
 *	  a non-blocking one.  Holes of a regular file are not read, and become holes of the
 *	  value.  PGSF_ERROR_FILE: a read failed.  PGSF_ERROR_CHANGED: size, time of modification
 *	  or time of change of a regular file changed meanwhile, or fewer or more bytes were read
 *	  than it has.  The number of bytes does not matter for files that are made when they are
 *	  read, as in /proc; these take no space on a disk (st_blocks is 0).
 *	- pgsf_put_memory: PGSF_ERROR_ARGUMENT data is NULL and len is not 0.
 *	- pgsf_put_callback: total is the number of bytes, for progress only; -1 if it is not
 *	  known.  PGSF_ERROR_CALLBACK: the source failed.  PGSF_ERROR_ARGUMENT: it is NULL.
 *	- pgsf_put_sparse: the same with a sparse source.
 */
extern int64_t pgsf_put_fd(pgsf *h, int fd,
						   const char *table, const char *column,
						   const char *sql, const pgsf_params *params,
						   PGresult **result);
extern int64_t pgsf_put_memory(pgsf *h, const void *data, size_t len,
							   const char *table, const char *column,
							   const char *sql, const pgsf_params *params,
							   PGresult **result);
extern int64_t pgsf_put_callback(pgsf *h, pgsf_source source, void *arg,
								 int64_t total,
								 const char *table, const char *column,
								 const char *sql, const pgsf_params *params,
								 PGresult **result);
extern int64_t pgsf_put_sparse(pgsf *h, pgsf_sparse_source source, void *arg,
							   int64_t total,
							   const char *table, const char *column,
							   const char *sql, const pgsf_params *params,
							   PGresult **result);

/*
 * Read length bytes from offset on of the value that a SELECT yields (as for pgsf_open);
 * length -1 means to the end.  Returns the number of bytes: fewer than length at the end, 0
 * beyond it.  No value may be open in h.  On an idle connection the call is one statement
 * with its own transaction; it works on a standby.
 *
 *	- pgsf_get_fd writes at the position of fd and moves it.  In a regular file that is not
 *	  opened with O_APPEND, holes of the value become holes, and make the file longer if
 *	  need be; elsewhere they are written as zeros.  PGSF_ERROR_FILE: a write failed (disk
 *	  full: errno ENOSPC).  It does not fsync.
 *	- pgsf_get_memory allocates *data, with *data_len bytes and a zero byte behind them,
 *	  which the caller frees with pgsf_free_memory(); NULL after an error.
 *	- pgsf_get_callback: PGSF_ERROR_CALLBACK the sink failed.
 *
 * After an error fd or sink may have received a part.  Errors as for pgsf_open(), where
 * PGSF_ERROR_NOT_FOUND, _MANY and _NULL come before the first byte; PGSF_ERROR_ARGUMENT
 * offset is not between 0 and 2^63 - 2, length is below -1, or a pointer is NULL; XX001
 * the stored bytes are damaged.  One round trip, and another the first time on a
 * connection.
 */
extern int64_t pgsf_get_fd(pgsf *h, int fd, int64_t offset, int64_t length,
						   const char *sql, const pgsf_params *params);
extern int64_t pgsf_get_memory(pgsf *h, void **data, size_t *data_len,
							   int64_t offset, int64_t length,
							   const char *sql, const pgsf_params *params);
extern int64_t pgsf_get_callback(pgsf *h, pgsf_sink sink, void *arg,
								 int64_t offset, int64_t length,
								 const char *sql, const pgsf_params *params);

/* Free memory of pgsf_get_memory().  NULL is allowed. */
extern void pgsf_free_memory(void *data);

/* ---- distributed tables ---- */

/*
 * Make a connection to a node of Citus, as PQconnectdb() does; a failed one is reported
 * and finished by the library.  NULL: there is no memory, or no such connection.
 */
typedef PGconn *(*pgsf_connect) (void *arg, const char *host, int port);

/*
 * Set the function of h that connects to nodes, for pgsf_find_route(), and its first
 * argument.  NULL, as at the start: connect with the parameters of h's own connection, but
 * for host and port.  Never fails.
 */
extern void pgsf_set_connect(pgsf *h, pgsf_connect connect, void *arg);

typedef struct pgsf_route
{
	PGconn	   *conn;			/* to the node that has the shard */
	pgsf	   *handle;			/* for that connection */
	const char *shard;			/* name of the shard there, with schema and
								 * quotes */
	const char *is_here;		/* SQL condition of reads: the shard is on
								 * that node */
	const char *is_held;		/* of writes: and stays there until the end of
								 * the transaction, and the row belongs to it */
} pgsf_route;

/*
 * Find the node that has the row of a distributed table of Citus, and connect to it.  h is a
 * handle of a connection to the coordinator (reads: to any node that knows the table).  table is
 * written as in SQL; key is the value of the distribution column, as text (NULL for a
 * table without one).  The connections belong to h, which keeps one to each node; texts hold
 * until the next call.
 *
 * Shards move, and leave all their rows behind for a while.  So a read has is_here in its
 * condition, and is tried again with another route if it finds no row.  A write has is_held in
 * its condition: that takes the lock by which a move of the shard waits.  Without it the value
 * may go to rows that were left behind, and is lost.  is_held reads the distribution column,
 * so an INSERT gives it a value, of its type, in a subquery:
 *
 *	pgsf_put_fd(route.handle, fd, route.shard, "document",
 *				"INSERT INTO <route.shard> (id, document) SELECT id, " PGSF_VALUE
 *				" FROM (VALUES ($1::bigint)) new (id) WHERE <route.is_held>", ...)
 *	pgsf_put_fd(route.handle, fd, route.shard, "document",
 *				"UPDATE <route.shard> SET document = " PGSF_VALUE
 *				" WHERE id = $1 AND <route.is_held>", ...)
 *
 * PGSF_ERROR_NOT_FOUND: the shard has moved (or no row has that key); find the route again.  A
 * shard does not have the defaults that are sequences: such a row is inserted through the
 * distributed table, on route.conn, with an empty value that is then replaced.
 *
 * On the coordinator a transaction with securefile_dist_hold() keeps Citus from making the
 * table anew, without the value, meanwhile; one is enough for many values.  See that it is still
 * there before each COMMIT.
 *
 * A node is a name or an address.  The directory of a socket is refused, unless the connection
 * of h is in the same directory.
 *
 * Errors: PGSF_ERROR_STATE a value is open in h; PGSF_ERROR_ARGUMENT table or route is NULL;
 * PGSF_ERROR_EXTENSION no extension securefile_citus; PGSF_ERROR_CONNECTION no connection to
 * the node, or it cannot be one; 42809 not a distributed table; 0A000 a reference table; 22P02
 * and the like for the key.  Two round trips.  Errors of is_held: 25000 the transaction is not
 * READ COMMITTED; 23514 the row belongs to another shard; 42501 no privilege to write.
 */
extern int	pgsf_find_route(pgsf *h, const char *table, const char *key, pgsf_route *route);

/* Where the coordinator has said that a row is: a row of securefile_dist_routes(). */
typedef struct pgsf_place
{
	const char *schema;			/* of extension securefile_citus, quoted */
	const char *column;			/* the distribution column, quoted; NULL: none */
	const char *shardid;		/* decimal digits */
	const char *shard;			/* shard_name */
	const char *host;			/* nodename */
	int			port;			/* nodeport */
} pgsf_place;

/*
 * Make a route of what was asked before, for many keys at once, and connect: nothing is sent
 * to the coordinator.  What was said may be old, as after pgsf_find_route(): find the route
 * again when no row is there.
 *
 * Errors: PGSF_ERROR_STATE a value is open in h; PGSF_ERROR_ARGUMENT place, one of its texts
 * but column, or route is NULL; PGSF_ERROR_PROTOCOL shardid is no number, or a name none;
 * PGSF_ERROR_CONNECTION host and port cannot be a node, or there is no connection to it.
 */
extern int	pgsf_use_route(pgsf *h, const pgsf_place *place, pgsf_route *route);

/* ---- progress and cancelling ---- */

/*
 * pgsf_put_* and pgsf_get_* call it in their own thread, once at the start with done 0 and
 * then after each piece.  done is the number of bytes that the server has taken, or fd or
 * sink, holes among them; total is the number of all bytes, -1 if it is not known.  A result
 * other than 0 cancels: the call fails with PGSF_ERROR_CANCELLED.  The callback may not use the
 * connection or a pgsf on it, except for pgsf_cancel().
 */
typedef int (*pgsf_progress) (void *arg, int64_t done, int64_t total);

/* Set the callback of h, and its first argument; NULL: none.  Never fails. */
extern void pgsf_set_progress(pgsf *h, pgsf_progress progress, void *arg);

/*
 * Cancel the running call on h or, if none is running, the next one that talks to the
 * server: it fails with PGSF_ERROR_CANCELLED, once.  COMMIT and pgsf_close() are not
 * cancelled, and forget the request.  A call that has stored its value before the request
 * could stop it succeeds.  The connection stays usable.  In a transaction of yours in
 * which another value is open, the server may report a request that came too late for h to
 * the next call for that value.
 *
 * Safe in signal handlers and in other threads, as long as h is not freed meanwhile.
 * Returns at once and never fails; NULL is allowed.  The cancelled call asks the server to
 * stop (PQcancel, in a thread that ends with the request), and again each second until it has
 * stopped.  If the server answers no request for six seconds, or the network does not, the call
 * gives the connection up: PQstatus() is CONNECTION_BAD then.  The same holds after an error of
 * this side in the middle of a get.
 */
extern void pgsf_cancel(pgsf *h);

#ifdef __cplusplus
}
#endif

#endif							/* PGSECUREFILE_H */
