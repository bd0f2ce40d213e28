/*-------------------------------------------------------------------------
 *
 * internal.h
 *	  The map of libpgsecurefile, and everything that its files share.
 *
 * From the top down; a file calls files below it only, so that there are no circles:
 *
 * put.c, get.c		whole values
 * handle.c		pgsf_new to pgsf_free
 * route.c		distributed tables: routes, connections to nodes
 * open.c		opening and creating
 * read.c, write.c	the stream
 * range.c		copying, erasing, deleting, searching on the server
 * store.c		storing and closing: how a value and its transaction end
 * position.c		position and length
 * take.c		taking the connection, giving it back, giving up after an error
 * piece.c		one piece of a stream as a command
 * wire.c		commands in flight: libpq's pipeline mode, a queue of awaited results
 * answer.c		looking at what the server answers before it is used
 * sql.c		texts of statements; parameters added to those of the application
 * holes.c		holes of local files
 * local.c		the local file of put and get
 * wait.c		waiting for a socket, watching for cancel requests
 * ask.c		asking the server to stop, with a limit of time
 * reason.c		a lost connection: why the server has ended the session
 * link.c		the data that all handles of one connection share; it outlives PQfinish
 * state.c		the data of an open value; how a public function begins
 * cancel.c		cancel requests, progress
 * error.c		the error of a handle
 *
 * The rule that keeps errors simple: an inner function that returns -1 (or NULL) has set
 * the error of the handle, and the first error stands.  The public function that sees the
 * -1 calls pgsfi_give_up(), which puts connection and transaction right.  Functions below
 * keep to that rule where their comment says nothing else.
 *
 * "Has the connection" means: h is the user of its link (pgsfi_take, pgsfi_enter).
 *
 * An assertion is about what the library has done.  What an application or a server does
 * wrong is an error.  Assertions run in builds for tests only (FAULTS=1): they must not end
 * a user's program.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSF_INTERNAL_H
#define PGSF_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <sys/stat.h>

#include "pgsecurefile.h"

#ifdef PGSF_ASSERTIONS
#undef NDEBUG
#include <assert.h>
#define PGSF_ASSERT(condition)	assert(condition)
#else
/* not evaluated, but compiled: what only assertions use is not unused */
#define PGSF_ASSERT(condition)	((void) (true || (condition)))
#endif

/*
 * The bytes that one command carries.  A multiple of the unit of 128 KB that the server
 * checksums, and not much more than a socket takes at once: libpq moves the rest of its
 * buffer after each partial send.
 */
#define PIECE_BYTES		(256 * 1024)
#define UNIT_BYTES		PGSF_UNIT_BYTES

/*
 * A buffer of PIECE_BYTES begins with a page.  With "rep movsb", which libc and the kernel use,
 * AMD Zen 3 and 4 copy 14 times slower if the target begins 1 to 31 bytes further in its page
 * than the source in its own: so it would be from the page cache into what malloc() gives, and
 * from there to libpq.
 */
#define BUFFER_ALIGNMENT	4096

/* Pieces in flight: more than the client, the socket and the server hold at a time. */
#define WINDOW_PIECES	16

/* Commands in flight: pieces, and the other commands between them. */
#define QUEUE_MAX		64

/* Type OIDs, which are fixed (pg_type.dat). */
#define OID_INT8		20
#define OID_INT4		23
#define OID_BYTEA		17

/* Error of a server that closed a handle, and of a transaction that has failed. */
#define STATE_NOT_OPEN	"42704"
#define STATE_FAILED	"25P02"

typedef enum AwaitedKind
{
	AWAITED_NOTHING,			/* the command has to succeed, that is all */
	AWAITED_WRITE,				/* len_bytes are taken by the server then */
	AWAITED_READ,				/* brings len_bytes from object_offset */
	AWAITED_ANSWER,				/* the caller waits for the result */
	AWAITED_SYNC				/* the end of a series */
} AwaitedKind;

/* A command in flight. */
typedef struct Awaited
{
	AwaitedKind kind;
	int64_t		object_offset;
	int64_t		len_bytes;
} Awaited;

/* The statement that is prepared without a name: securefile_read, _write or _insert. */
typedef enum Prepared
{
	PREPARED_NONE,
	PREPARED_READ,
	PREPARED_READ_AT,
	PREPARED_WRITE,
	PREPARED_WRITE_AT,
	PREPARED_INSERT,
	PREPARED_INSERT_AT
} Prepared;

/* A connection, as all its handles see it. */
typedef struct Link
{
	PGconn	   *conn;			/* NULL: PQfinish was called */
	pgsf	   *handles;
	char	   *schema;			/* of the extension, quoted; NULL: not known
								 * yet */

	/* Between pgsfi_take and pgsfi_release: the library has the connection. */
	pgsf	   *user;			/* its commands are in flight; NULL: no handle */
	bool		was_nonblocking;
	bool		was_pipeline;
	bool		was_idle;		/* outside a transaction */
	Prepared	prepared;
	bool		unsynced;		/* commands were sent after the last sync */
	bool		lost;			/* libpq must not be asked for results any
								 * more */
	Awaited		queue[QUEUE_MAX];
	int			queue_head;
	int			queue_len;
} Link;

typedef struct Error
{
	char		sqlstate[6];
	int			errnum;
	char	   *message;
	char	   *detail;
	char	   *hint;
} Error;

struct pgsf
{
	Link	   *link;
	pgsf	   *next;			/* of the same connection */

	Error		error;
	bool		failed_unseen;	/* error arose between two calls: the next one
								 * reports it */

	/* the value */
	pgsf_mode	mode;
	bool		created;
	bool		own_transaction;
	int			fd;				/* the server's handle */
	int64_t		position;
	int64_t		length;
	int64_t		server_position;	/* after all commands in flight */

	/* writing */
	char	   *gathered;		/* PIECE_BYTES, allocated when first needed */
	int64_t		gathered_offset;
	int64_t		gathered_len;
	int64_t		taken;			/* bytes that the server has taken */

	/* reading: a received piece, and pieces in flight behind it without a gap */
	PGresult   *piece;
	int64_t		piece_offset;	/* in the object */
	int64_t		piece_len;
	int64_t		requested_until;
	int64_t		last_end;		/* where the last read ended: sequential or
								 * not */
	int			ahead;			/* pieces to have in flight beyond it */

	pgsf_progress progress;
	void	   *progress_arg;

	/* distributed tables: see route.c */
	pgsf_connect connect;
	void	   *connect_arg;
	struct Node *nodes;
	char	   *shard;			/* of the last route */
	char	   *is_here;
	char	   *is_held;

	/* cancelling */
	atomic_int	cancel_wanted;
	int			cancel_event;	/* eventfd: wakes the waiting call */
	bool		cancel_sent;	/* this call is being cancelled */
	int64_t		asked_ms;		/* when the server was asked last */
	int64_t		unanswered_since_ms;	/* when the first of the requests was
										 * sent that were not answered; 0:
										 * none */
	bool		cancel_masked;	/* the running commands must not be cancelled */
};

/* Is there a connection, as far as libpq knows?  Sends nothing. */
static inline bool
pgsfi_connected(const pgsf *h)
{
	return h->link->conn != NULL && PQstatus(h->link->conn) == CONNECTION_OK;
}

/*
 * Has h the connection, or did a callback of the application, which must not do that, close
 * or reset it meanwhile?  For assertions.
 */
static inline bool
pgsfi_has_connection(const pgsf *h)
{
	return h->link->user == h || h->failed_unseen;
}

/* ---- error.c ---- */

/*
 * Set the error and return -1; if there is an error already, that one stands.  The text
 * is copied.
 *	- pgsfi_fail: a text as of printf
 *	- pgsfi_fail_errno: "what: text of errnum", and pgsf_errno()
 *	- pgsfi_fail_result: the error that the server, or libpq, made a result of
 *	- pgsfi_fail_connection: the connection was closed, or libpq's message about it
 */
extern int	pgsfi_fail(pgsf *h, const char *sqlstate, const char *format, ...)
			__attribute__((format(printf, 3, 4)));
extern int	pgsfi_fail_errno(pgsf *h, const char *sqlstate, int errnum, const char *what);
extern int	pgsfi_fail_result(pgsf *h, const PGresult *result);
extern int	pgsfi_fail_connection(pgsf *h);
extern int	pgsfi_fail_memory(pgsf *h);

/* Forget the error and free its texts. */
extern void pgsfi_error_clear(pgsf *h);

/* ---- cancel.c ---- */

/* Fail if a cancel request is there and the moment allows for it; asked between pieces. */
extern int	pgsfi_check_cancel(pgsf *h);

/* Forget a cancel request.  Never fails. */
extern void pgsfi_forget_cancel(pgsf *h);

/* Tell the progress callback how many bytes of total (-1: not known) are done; it may cancel. */
extern int	pgsfi_report(pgsf *h, int64_t done, int64_t total);

/* ---- state.c ---- */

/* Assert what is true of a handle between two calls of public functions. */
extern void pgsfi_check_state(const pgsf *h);

/*
 * The start of a public function: clear the error of the call before.  Fails if h is
 * NULL, or with an error that came up between two calls and has not been reported.
 *	- pgsfi_start_open: fails if no value is open, or if it is not open for writing
 *	- pgsfi_start_closed: fails if a value is open
 */
extern int	pgsfi_start(pgsf *h);
extern int	pgsfi_start_open(pgsf *h, bool writing);
extern int	pgsfi_start_closed(pgsf *h);

/* The server has opened handle fd for a value of that length: it is the open value now. */
extern void pgsfi_opened(pgsf *h, pgsf_mode mode, bool created, int fd, int64_t length);

/* No value is open any more in h; the server is not told. */
extern void pgsfi_closed(pgsf *h);

/* Drop the received piece, and ignore the results of all reads in flight. */
extern void pgsfi_forget_ahead(pgsf *h);

/* None of the handles has to end the transaction of the connection. */
extern void pgsfi_disown_transaction(Link *link);

/* ---- link.c ---- */

/* The Link of a connection, made if it has none; NULL if there is no memory. */
extern Link *pgsfi_link(PGconn *conn);

/* Take h from its Link, which is freed if neither a handle nor the connection is left. */
extern void pgsfi_link_leave(pgsf *h);

/* ---- reason.c ---- */

/*
 * The connection failed: all commands in flight are lost.  Sets the error, to the
 * server's reason if it sent one, and returns -1.
 */
extern int	pgsfi_lost_in_flight(pgsf *h);

/* ---- ask.c ---- */

/*
 * Send a cancel request; false if the server has not answered within two seconds.  The time in
 * ms is for comparing with other such times only.
 */
extern bool pgsfi_ask(PGconn *conn);
extern int64_t pgsfi_now_ms(void);

/* ---- wait.c ---- */

/*
 * Ask the server to stop the running command of this connection.  Never fails.  A caller that
 * waits for the server then asks again, and gives the connection up if there is no answer.
 */
extern void pgsfi_ask_to_stop(pgsf *h);

/* End the connection, as if the server had done so.  Never fails. */
extern void pgsfi_abandon(pgsf *h);

/* Wait until PQgetResult() does not block. */
extern int	pgsfi_wait_result(pgsf *h);

/* Send everything in libpq's buffer; reads meanwhile. */
extern int	pgsfi_send_all(pgsf *h);

/* Wait until a local descriptor has one of the events of poll(); fails if cancelled. */
extern int	pgsfi_wait_local(pgsf *h, int fd, short events);

/* ---- local.c ---- */

/* A local file that is read. */
typedef struct LocalFile
{
	int			fd;
	bool		regular;
	struct stat before;

	/* regular files only */
	int64_t		start;			/* position at the start */
	int64_t		position;		/* now */
	int64_t		data_end;		/* no hole begins before it, as far as the
								 * value can have holes */
} LocalFile;

/* Note the state of a file before it is read from its position. */
extern int	pgsfi_local_start(pgsf *h, LocalFile *file, int fd);

/* The bytes from there to the end; -1 if that is not known. */
extern int64_t pgsfi_local_left(const LocalFile *file);

/* Read len_bytes; returns how many, fewer only at the end, and where data_end is. */
extern int64_t pgsfi_local_read(pgsf *h, LocalFile *file, char *buf, int64_t len_bytes);

/* Fail if a regular file, of which read_bytes were read, changed since the start. */
extern int	pgsfi_local_unchanged(pgsf *h, LocalFile *file, int64_t read_bytes);

/* Write all len_bytes at the position of fd. */
extern int	pgsfi_local_write(pgsf *h, int fd, const char *data, int64_t len_bytes);

/* ---- holes.c ---- */

/* Zeros. */
#define ZEROS_BYTES		(64 * 1024)
extern const char pgsfi_zeros[ZEROS_BYTES];

/*
 * Move the position of a file that is read behind the hole at it.  Returns the bytes of the hole, 0
 * if there is none.  Never fails.
 */
extern int64_t pgsfi_holes_skip(LocalFile *file);

/* A local file, pipe or device that is written. */
typedef struct LocalSink
{
	int			fd;
	bool		sparse;			/* it can have holes */
	int64_t		hole;			/* in front of what comes: not made yet */
	int64_t		zeros;			/* or so many zeros: a hole, if one follows */
} LocalSink;

/* Begin to write at the position of fd.  Never fails. */
extern void pgsfi_holes_start(LocalSink *sink, int fd);

/* Write bytes, or a hole, which is zeros where there can be none. */
extern int	pgsfi_holes_write(pgsf *h, LocalSink *sink, const char *data, int64_t len_bytes);
extern int	pgsfi_holes_make(pgsf *h, LocalSink *sink, int64_t len_bytes);

/* All is written: the file gets its length, and the position is behind the last byte. */
extern int	pgsfi_holes_finish(pgsf *h, LocalSink *sink);

/* ---- sql.c ---- */

/* Like asprintf(); the caller frees the text.  NULL: out of memory. */
extern char *pgsfi_sql(pgsf *h, const char *format, ...)
			__attribute__((format(printf, 2, 3)));

/*
 * A statement over the one row that a SELECT of the application has to give.  Its columns
 * may use v, the value, which is NULL if there is more than one row, and n, the number of
 * rows (at most 2 are looked at).  It gives no row if the SELECT gives none.  Needs the
 * schema (pgsfi_schema).  The caller frees the text.
 */
extern char *pgsfi_sql_one_row(pgsf *h, const char *columns, const char *select);

/* Fail if a statement that yields a value uses more parameters than it has. */
extern int	pgsfi_check_select(pgsf *h, const char *sql, const pgsf_params *params);

/* The same for a storing statement; sql may be NULL, and PGSF_VALUE has to stand in it once. */
extern int	pgsfi_check_storing(pgsf *h, const char *sql, const pgsf_params *params);

/*
 * A storing statement that was checked, with the finished value of the server's handle,
 * parameter $number, in the place of PGSF_VALUE.  The caller frees the text.
 */
extern char *pgsfi_sql_with_value(pgsf *h, const char *sql, int number);

/* Integers in binary form: 4 or 8 bytes at to. */
extern void pgsfi_put_int4(char *to, int32_t value);
extern void pgsfi_put_int8(char *to, int64_t value);

/*
 * An int4 or int8 of the first row, in binary form; -1 if it is NULL or of another form.  Sets no
 * error.
 */
extern int64_t pgsfi_get_int(const PGresult *result, int column);

/* Parameters of the application, and up to five of the library after them. */
#define OWN_PARAMS	5

typedef struct Params
{
	pgsf_params all;
	int			given;			/* how many are the application's */
	Oid		   *types;
	const char **values;
	int		   *lengths;
	int		   *formats;
	char		own[OWN_PARAMS][8];
} Params;

/* Fail if the protocol cannot count so many parameters. */
extern int	pgsfi_check_params(pgsf *h, const pgsf_params *params);

/*
 * Copy the arrays of the application's parameters (NULL: none), not the values.  To be
 * freed with pgsfi_params_free(), also after an error.
 */
extern int	pgsfi_params_start(pgsf *h, Params *params, const pgsf_params *given);

/* Add a parameter of the library; at most OWN_PARAMS. */
extern void pgsfi_params_int4(Params *params, int32_t value);
extern void pgsfi_params_int8(Params *params, int64_t value);
extern void pgsfi_params_free(Params *params);

/* ---- answer.c ---- */

/* Fail because an answer is not what was asked for. */
extern int	pgsfi_fail_form(pgsf *h);

/* Fail unless a result has rows, of so many columns, all in that form (0 text, 1 binary). */
extern int	pgsfi_check_columns(pgsf *h, const PGresult *result, int columns, int format);

/* Is it a name, perhaps with a schema, with quotes where they are needed, and nothing else? */
extern bool pgsfi_is_name(const char *text);

/* A name out of the first row, which the caller frees; NULL after an error. */
extern char *pgsfi_copy_name(pgsf *h, const PGresult *result, int column);

/* The columns of a route: see route.c. */
enum
{
	ROUTE_SHARD,
	ROUTE_NAME,
	ROUTE_HOST,
	ROUTE_PORT,
	ROUTE_KEY,					/* the distribution column; null: none */
	NUM_ROUTE_COLUMNS
};

/* Fail unless a place has numbers, names and a node that can be such. */
extern int	pgsfi_check_place(pgsf *h, const pgsf_place *place);

/* ---- wire.c: all of these need h to have the connection ---- */

/*
 * Send a statement; sql NULL: out of memory.  The result of an AWAITED_ANSWER is in binary
 * form if binary_result is 1, in text form if it is 0.  May take results to make room.
 */
extern int	pgsfi_send(pgsf *h, AwaitedKind kind, const char *sql,
					   const pgsf_params *params, int binary_result);

/*
 * Let the unnamed prepared statement be the one that which says; nothing is sent if it is
 * that already.  It calls function (h->fd as $1, $2 of type second); for the kinds _AT it
 * seeks to the offset $3 before.
 */
extern int	pgsfi_prepare(pgsf *h, Prepared which, const char *function,
						  Oid second);

/* Execute that statement; its result will be in binary form. */
extern int	pgsfi_send_prepared(pgsf *h, const Awaited *awaited,
								const pgsf_params *params);

/* Ask the server to send the answers it has, without ending the series of commands. */
extern int	pgsfi_request_answers(pgsf *h);

/* End the series of commands with a sync, if any was sent since the last. */
extern int	pgsfi_sync(pgsf *h);

/*
 * Wait for the result of the first command in flight, which the caller clears, and count
 * the bytes that a write wrote.  *result is NULL after an error.
 */
extern int	pgsfi_next(pgsf *h, Awaited *awaited, PGresult **result);

/* The same for a result that nobody needs. */
extern int	pgsfi_drop_next(pgsf *h);

/*
 * The next row of the only command in flight, which is in single-row mode; NULL after the
 * last one and after an error.  The caller clears it.
 */
extern int	pgsfi_next_row(pgsf *h, PGresult **row);

/*
 * Send a sync and take the results of all commands in flight, also after an error.  If
 * answer is not NULL it receives the result of the last AWAITED_ANSWER, which the caller
 * clears; NULL after an error.
 */
extern int	pgsfi_finish(pgsf *h, PGresult **answer);

/* Execute one statement without parameters; the caller clears its result, in text form. */
extern int	pgsfi_execute(pgsf *h, const char *sql, PGresult **answer);

/* ---- piece.c: all of these need h to have the connection ---- */

/* Send len_bytes, at most a piece, that are to be written at object_offset. */
extern int	pgsfi_send_piece(pgsf *h, int64_t object_offset, const char *data,
							 int64_t len_bytes);

/* Send len_bytes, at most as many as a piece, that are to be inserted at object_offset. */
extern int	pgsfi_send_insertion(pgsf *h, int64_t object_offset, const char *data,
								 int64_t len_bytes);

/* Send the gathered bytes.  With none it does nothing, and needs no connection. */
extern int	pgsfi_send_gathered(pgsf *h);

/* Request len_bytes, at most a piece, from requested_until on. */
extern int	pgsfi_request_piece(pgsf *h, int64_t len_bytes);

/* ---- take.c ---- */

/*
 * Take the connection and put it into pipeline mode; nothing to do if h has it.  The
 * stream of another handle ends, whose errors are not those of h.  Fails if the connection
 * is lost, or has a command of the application in progress.
 */
extern int	pgsfi_take(pgsf *h);

/*
 * The same at the start of a public function.  Also fails if the transaction has failed,
 * or if the one that the value was open in has ended.  The value stays open, unless it is
 * gone with the connection or the transaction.
 */
extern int	pgsfi_enter(pgsf *h);

/* Take all results in flight and give the connection back in its modes of before. */
extern int	pgsfi_release(pgsf *h);

/* Execute COMMIT or ROLLBACK for the transaction of the library; h has the connection. */
extern int	pgsfi_end_transaction(pgsf *h, const char *command);

/*
 * Let the server have nothing open for h: end the transaction with command if the library
 * began it, else close the server's handle.  h has the connection, nothing is in flight.
 */
extern int	pgsfi_end_at_server(pgsf *h, const char *command);

/*
 * After an error, which stands: take all results in flight, roll back or close, and give
 * the connection back.  No value is open then, and a cancel request is forgotten.
 * Returns -1.
 */
extern int	pgsfi_give_up(pgsf *h);

/* ---- route.c ---- */

/* Close the connections to nodes. */
extern void pgsfi_forget_nodes(pgsf *h);

/* ---- open.c ---- */

/* Find the schema of the extension, once for a connection; h has the connection. */
extern int	pgsfi_schema(pgsf *h);

/*
 * Check a result, in binary form, of pgsfi_sql_one_row(), with that many columns: column 0 is n,
 * column 1 is the length, NULL for a NULL value.  Fails if the SELECT did not give one row
 * with a value.
 */
extern int	pgsfi_check_row(pgsf *h, const PGresult *result, int columns);

/* Create a value as pgsf_create() does; h has the connection and keeps it. */
extern int	pgsfi_create(pgsf *h, const char *table, const char *column);

/* ---- write.c ---- */

/* Write at the position and move it; h has the connection and keeps it. */
extern int	pgsfi_write(pgsf *h, const char *data, int64_t len_bytes);

/* Send the new length, behind the writes before it; likewise.  The answer is not waited for. */
extern int	pgsfi_truncate(pgsf *h, int64_t length);

/* ---- store.c ---- */

/*
 * Store the open value, and commit if the library began the transaction; then no value is
 * open and the connection is given back.  *result as for pgsf_store().  After an error
 * the value is still open and h has the connection.
 */
extern int	pgsfi_store(pgsf *h, const char *sql, const pgsf_params *params,
						PGresult **result);

#endif							/* PGSF_INTERNAL_H */
