/*-------------------------------------------------------------------------
 *
 * pgsecurefile.h
 *	  libpgsecurefile: values of type securefile as streams, over libpq.
 *
 * A value is read and written in pieces, in constant memory on both sides and
 * without a round trip a piece, through a PGconn that the application owns.
 * Everything is plain SQL underneath: what can be done here can be done with
 * securefile_open, securefile_write and so on, too.
 *
 * Handles.  A pgsf is like a FILE: made once for a connection, it has at most one
 * value open at a time and can be used for one after another.  There may be
 * several on one connection.
 *
 * Results.  Functions that return int return 0, and those that return int64_t
 * what they say; all return -1 after an error, which pgsf_error(),
 * pgsf_sqlstate() and pgsf_errno() then tell.  Nothing is printed, nothing exits.
 * A successful call clears the error of the one before.  All lengths, offsets and
 * positions are bytes, counted from 0.
 *
 * Transactions.  A value is open inside a transaction.
 * - If the connection is idle when a value is opened or created, the library
 *	 begins a transaction, and ends it: pgsf_store() commits, pgsf_close() commits
 *	 what was opened with PGSF_READ and rolls back what was open for writing, an
 *	 error rolls back at once.  Statements of yours in between belong to it.  For
 *	 two values open at the same time begin a transaction yourself: the library
 *	 joins what it finds.  If you end the library's transaction and begin another
 *	 (not by ROLLBACK AND CHAIN, which the library does not notice), that one is
 *	 yours.
 * - In a transaction of yours the library begins and ends nothing, keeps no
 *	 savepoint, and what it stored is committed when you commit.  An error of the
 *	 server leaves that transaction failed, as any SQL error does: roll back, or
 *	 roll back to a savepoint of yours; until then calls fail with 25P02.  Ending
 *	 an operation half-way (cancelled, local file, callback) may do so too;
 *	 PQtransactionStatus() tells.  If it did not, you may go on and even commit: of
 *	 the value that failed nothing is kept.
 * Either way an error of the server or of the local side closes the value (the
 * pgsf can open another one), and nothing half-written is ever visible or keeps
 * space.  Only wrong arguments and wrong uses (PGSF_ERROR_ARGUMENT,
 * PGSF_ERROR_STATE) leave the value open as it was.  When you roll back, or roll
 * back to a savepoint, while a value is open, the server may have closed it: the
 * next call that waits for the server then says so (42704).  pgsf_write() need not
 * be that call: it may return 0, and pgsf_flush() or pgsf_store() fail.  This error
 * of the server, too, leaves a transaction of yours failed; pgsf_close() is always
 * right, and does not.
 *
 * The connection.  It must be in blocking mode or not, in pipeline mode or not, but
 * have no command in progress: else PGSF_ERROR_BUSY.  Every call leaves both modes
 * as they were and the connection free for you, with one exception: after
 * pgsf_read() and pgsf_write() it may be in pipeline mode with commands in flight.
 * Call pgsf_flush() before you use it yourself.  (Other calls, also those of
 * another pgsf on the same connection, do so by themselves.)  The unnamed prepared
 * statement is overwritten, and an event procedure (libpq-events.h) registered; no
 * other state of connection and session is touched.  PQfinish()
 * and PQreset() with a value open are allowed: what was open is lost, pgsf_free()
 * remains to be called.
 *
 * Threads.  A connection and all pgsf on it are for one thread at a time.  Only
 * pgsf_cancel() may be called by others, and in signal handlers.  Different
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
#define PGSF_ERROR_CALLBACK		"SF022" /* a source or sink said that it
										 * failed */
#define PGSF_ERROR_CANCELLED	"57014" /* pgsf_cancel, the progress callback,
										 * or a cancel request of somebody
										 * else */
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
 * A handle for that connection, which must be open.  Sends nothing.  NULL if
 * memory or file descriptors (it takes one, for pgsf_cancel) are short, or conn
 * is NULL or not connected.  All functions may be called with that NULL: they fail.
 */
extern pgsf *pgsf_new(PGconn *conn);

/*
 * pgsf_close(), and the memory given back.  NULL is allowed.  The connection may
 * have been closed before.
 */
extern void pgsf_free(pgsf *h);

/*
 * About the last call that failed; empty strings and 0 if the last call did not.
 * The strings belong to h and hold until the next call on it.
 *	- pgsf_error: what went wrong, one line, no newline at its end
 *	- pgsf_error_detail, pgsf_error_hint: what the server added, or empty
 *	- pgsf_sqlstate: five characters
 *	- pgsf_errno: of the local system call that failed, or 0; for
 *	  PGSF_ERROR_CALLBACK what the callback left in errno
 */
extern const char *pgsf_error(const pgsf *h);
extern const char *pgsf_error_detail(const pgsf *h);
extern const char *pgsf_error_hint(const pgsf *h);
extern const char *pgsf_sqlstate(const pgsf *h);
extern int	pgsf_errno(const pgsf *h);

/* ---- opening ---- */

/*
 * Parameters $1 to $count of a statement, as PQexecParams takes them.  types,
 * lengths and formats may be NULL: types inferred, all text.  A NULL pgsf_params
 * means none.  At most 65532.  A statement that uses a parameter beyond $count is a
 * PGSF_ERROR_ARGUMENT.
 */
typedef struct pgsf_params
{
	int			count;
	const Oid  *types;			/* 0: inferred */
	const char *const *values;	/* a NULL among them: null */
	const int  *lengths;		/* of binary values, in bytes */
	const int  *formats;		/* 0 text, 1 binary */
} pgsf_params;

typedef enum pgsf_mode
{
	PGSF_CLOSED = 0,			/* nothing is open */
	PGSF_READ,
	PGSF_READ_WRITE
} pgsf_mode;

/*
 * Open the value that a SELECT yields: one statement, one row, one column of type
 * securefile, without a semicolon at its end.  Position 0.
 *
 * PGSF_READ reads the version that the SELECT saw, whatever happens to the row.
 * PGSF_READ_WRITE makes a new version, which shares with the old one what is not
 * written; it becomes visible when pgsf_store() puts it into the row.  Lock the row
 * (SELECT .. FOR UPDATE) if others may write it as well: else the last one wins.
 * A value that is short enough to lie in its row can grow to 1 GB so, others to
 * any length.
 *
 * Errors: PGSF_ERROR_NOT_FOUND, _MANY, _NULL; 42601 more columns than one;
 * 25006 READ_WRITE in a read-only transaction or on a standby; 42501 no privilege;
 * whatever the SELECT raises.
 * One round trip (and another the first time on a connection).
 */
extern int	pgsf_open(pgsf *h, pgsf_mode mode, const char *sql,
					  const pgsf_params *params);

/*
 * A new, empty value for that column, PGSF_READ_WRITE.  The table is written as in
 * SQL (with schema and quotes if need be), the column as in the catalog.  For
 * a partitioned table name the partition.  The value may be stored elsewhere too,
 * but is then copied.
 *
 * Errors: 42P01, 42703 no such table or column; 42804 not a securefile column;
 * 42809 not a plain table; 42501; 25006.  One round trip.
 */
extern int	pgsf_create(pgsf *h, const char *table, const char *column);

/* ---- reading, writing, moving ---- */

/*
 * Read up to len bytes at the position and move it.  Less only at the end; 0 at or
 * beyond the end.  From the second of calls that follow each other without a gap
 * it reads ahead, up to 4 MB: a round trip is then no more waited for.  A read
 * elsewhere costs one round trip.
 *
 * May leave the connection in use: see pgsf_flush().
 */
extern int64_t pgsf_read(pgsf *h, void *buf, size_t len);

/*
 * Write len bytes at the position and move it.  A gap between the end and the
 * position reads as zeros and takes no space.  Small writes are gathered up to a
 * piece (256 KB); pieces are sent without waiting for the server, up to a bound:
 * an error of the server may be reported by a later call, at the latest by
 * pgsf_flush() or pgsf_store().  Any of these errors closes the value.
 *
 * Errors: PGSF_ERROR_STATE opened with PGSF_READ; 54000 beyond 2^63 - 1;
 * 53100 disk of the server full; ...
 * May leave the connection in use: see pgsf_flush().
 */
extern int	pgsf_write(pgsf *h, const void *buf, size_t len);

/*
 * Send what is gathered, wait for what was sent, forget what was read ahead.
 * After that the connection is the application's, until the next pgsf_read() or
 * pgsf_write().
 */
extern int	pgsf_flush(pgsf *h);

/*
 * Move to offset from SEEK_SET, SEEK_CUR or SEEK_END (of <stdio.h>) and return the
 * new position.  Beyond the end is allowed.  No round trip.
 * Errors: PGSF_ERROR_ARGUMENT whence, or a result below 0 or above 2^63 - 1.
 */
extern int64_t pgsf_seek(pgsf *h, int64_t offset, int whence);

/* The position, without a round trip. */
extern int64_t pgsf_tell(pgsf *h);

/* The length as of now, your writes included, without a round trip. */
extern int64_t pgsf_length(pgsf *h);

/*
 * Make the value that long: cut, or filled up with zeros that take no space.  The
 * position stays.  May leave the connection in use, as pgsf_write() does.
 * Errors: PGSF_ERROR_ARGUMENT length < 0; otherwise those of pgsf_write().
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
 * All about h, without a round trip.  With nothing open it is no error: mode is
 * PGSF_CLOSED and the rest 0.
 */
extern int	pgsf_stat(pgsf *h, pgsf_info *info);

/* ---- storing, closing ---- */

/*
 * What stands for the finished value in the statements of pgsf_store() and
 * pgsf_put_*: write it exactly once.  It becomes securefile_finish(<handle>).
 *
 *	"INSERT INTO docs (name, document) VALUES ($1, " PGSF_VALUE ") RETURNING id"
 *	"UPDATE docs SET document = " PGSF_VALUE " WHERE id = $1"
 */
#define PGSF_VALUE	":pgsf_value"

/*
 * Finish what is open with PGSF_READ_WRITE and execute a statement that stores it:
 * one statement, with PGSF_VALUE in it and parameters $1.. of your own.  Closes the
 * value, and commits if the library began the transaction.
 *
 * The statement is an INSERT, UPDATE or MERGE, one of these in WITH, or a SELECT or
 * CALL of a function or procedure that stores its argument.  PGSF_VALUE stands where
 * an expression may, not in a comment, string or quoted name.  Whether a function
 * stores what it is given the library does not see: SELECT :pgsf_value succeeds, and
 * nothing is stored.
 *
 * If result is not NULL it receives the statement's result, with what RETURNING
 * gave in text form, to be given to PQclear(); NULL after an error.
 *
 * A value from pgsf_create() is stored without copying in a row of that table, one
 * from pgsf_open() by an UPDATE of the row it came from.
 *
 * Errors: PGSF_ERROR_ARGUMENT: PGSF_VALUE not there exactly once, or another kind of
 * statement (the value stays open); PGSF_ERROR_NOT_FOUND: the statement did no row (no WHERE match, ON
 * CONFLICT DO NOTHING): nothing is stored; those of the statement, of COMMIT, and
 * of the writes before.
 */
extern int	pgsf_store(pgsf *h, const char *sql, const pgsf_params *params,
					   PGresult **result);

/*
 * Close what is open and store nothing; what was written goes.  With nothing open
 * it does nothing.  Ends the transaction if the library began it.  The value is
 * closed even if an error (of the connection) is returned.
 */
extern int	pgsf_close(pgsf *h);

/* ---- whole values ---- */

/*
 * Where bytes come from: put up to len (> 0) of them into buf and return how many,
 * 0 at the end, -1 for failure (errno set, if that tells).  Where they go: take all
 * len bytes and return 0, or -1.  Neither may use the connection or a pgsf on it.
 */
typedef int64_t (*pgsf_source) (void *arg, void *buf, size_t len);
typedef int (*pgsf_sink) (void *arg, const void *buf, size_t len);

/*
 * Create a value for table and column (as pgsf_create), write all, store it with
 * sql (as pgsf_store).  Returns how many bytes.  h must have nothing open, and has
 * nothing open after.  The same errors as those functions, and:
 *
 *	- pgsf_put_fd reads from the position of fd to its end: file, pipe, socket
 *	  (non-blocking ones too).  PGSF_ERROR_FILE a read failed.  For a regular file
 *	  PGSF_ERROR_CHANGED if size or time of modification were not the same before
 *	  and after, or size and bytes read differ.
 *	- pgsf_put_callback: total is what progress reports as such, -1 if unknown.
 *	  PGSF_ERROR_CALLBACK the source failed.
 *
 * In each case nothing is stored then.
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

/*
 * Read the value that a SELECT yields (as pgsf_open), or length bytes of it from
 * offset on; length -1 means to the end.  Returns how many bytes, less than asked
 * at the end, 0 beyond it.  h must have nothing open.  On an idle connection it is
 * one statement with its own transaction.
 *
 *	- pgsf_get_fd writes at the position of fd and moves it.  PGSF_ERROR_FILE a
 *	  write failed (disk full: errno ENOSPC).  It does not fsync.
 *	- pgsf_get_memory gives *data, *data_len bytes, to be freed with
 *	  pgsf_free_memory(); a zero byte that does not count follows them.  NULL after
 *	  an error.
 *	- pgsf_get_callback: PGSF_ERROR_CALLBACK the sink failed.
 *
 * After an error fd or sink may have received a part.  PGSF_ERROR_NOT_FOUND, _MANY
 * and _NULL come before the first byte.  PGSF_ERROR_ARGUMENT offset < 0,
 * length < -1.
 */
extern int64_t pgsf_get_fd(pgsf *h, int fd, int64_t offset, int64_t length,
						   const char *sql, const pgsf_params *params);
extern int64_t pgsf_get_memory(pgsf *h, void **data, size_t *data_len,
							   int64_t offset, int64_t length,
							   const char *sql, const pgsf_params *params);
extern int64_t pgsf_get_callback(pgsf *h, pgsf_sink sink, void *arg,
								 int64_t offset, int64_t length,
								 const char *sql, const pgsf_params *params);

/* Free what pgsf_get_memory() gave.  NULL is allowed. */
extern void pgsf_free_memory(void *data);

/* ---- progress and cancelling ---- */

/*
 * Called by pgsf_put_* and pgsf_get_* in the calling thread, once at the start with
 * done 0 and then after each piece: bytes that the server has taken, or that fd or
 * sink have; total is -1 if it is not known.  Not 0 cancels: the call returns
 * PGSF_ERROR_CANCELLED.  It may not use the connection or a pgsf on it, except for
 * pgsf_cancel().
 */
typedef int (*pgsf_progress) (void *arg, int64_t done, int64_t total);

/* Set the callback of h from now on; NULL for none. */
extern void pgsf_set_progress(pgsf *h, pgsf_progress progress, void *arg);

/*
 * Cancel the call that h is in, or, if it is in none, the next one that talks to
 * the server: it returns PGSF_ERROR_CANCELLED, once.  COMMIT and pgsf_close() are
 * not cancelled, and forget the request; a call that has stored its value before
 * the request could stop it succeeds.  The connection stays usable.  In a
 * transaction of yours in which another value is open, the server may report a
 * request that came too late for h to the next call for that value.
 *
 * Safe in signal handlers and in other threads, as long as h is not freed
 * meanwhile.  Returns at once; the cancelled call then asks the server to stop
 * (PQcancel), and again each second until it has.
 */
extern void pgsf_cancel(pgsf *h);

#ifdef __cplusplus
}
#endif

#endif							/* PGSECUREFILE_H */
