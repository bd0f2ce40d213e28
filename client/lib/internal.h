/*-------------------------------------------------------------------------
 *
 * internal.h
 *	  What the files of libpgsecurefile share.
 *
 * handle.c		pgsf_new to pgsf_free, errors of a handle, cancel requests
 * link.c		what all handles of one connection share; it outlives PQfinish
 * wait.c		waiting for the socket, watching for cancel requests
 * reason.c		why the server has ended a session
 * wire.c		commands in flight: libpq's pipeline mode, a queue of what is awaited
 * sql.c		the texts of statements, parameters added to those of the application
 * open.c		opening and creating
 * write.c, read.c, position.c	the stream
 * store.c		storing, closing, giving up: how a value and its transaction end
 * put.c, get.c whole values; local.c the local file that they work with
 *
 * The rule that keeps errors simple: an inner function that returns -1 has set the
 * error of the handle; the first error stands.  The public function that sees
 * the -1 gives up (pgsfi_give_up), which puts connection and transaction right.
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

/*
 * What one command carries.  A multiple of the unit of 128 KB that the server
 * checksums, and not much more than a socket takes at once: of what is left over
 * libpq moves the rest for each partial send.
 */
#define PIECE_BYTES		(256 * 1024)

/* Pieces in flight: more than the socket, the server and we hold at a time. */
#define WINDOW_PIECES	16

/* Commands in flight: pieces, and what may stand between them. */
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
	AWAITED_NOTHING,			/* it has to succeed, that is all */
	AWAITED_WRITE,				/* so many bytes are taken then */
	AWAITED_READ,				/* brings bytes of that offset */
	AWAITED_ANSWER,				/* somebody waits for its result */
	AWAITED_SYNC				/* the end of a series */
} AwaitedKind;

/* A command in flight. */
typedef struct Awaited
{
	AwaitedKind kind;
	int64_t		object_offset;
	int64_t		len_bytes;
} Awaited;

/* What the unnamed prepared statement does. */
typedef enum Prepared
{
	PREPARED_NONE,
	PREPARED_READ,
	PREPARED_READ_AT,
	PREPARED_WRITE,
	PREPARED_WRITE_AT
} Prepared;

/* A connection, as all its handles see it. */
typedef struct Link
{
	PGconn	   *conn;			/* NULL: PQfinish was called */
	pgsf	   *handles;
	char	   *schema;			/* of the extension, quoted; NULL: not asked
								 * yet */

	/* Between take and release the connection is ours, in pipeline mode. */
	pgsf	   *user;			/* whose commands are in flight; NULL:
								 * nobody's */
	bool		was_nonblocking;
	bool		was_pipeline;
	bool		was_idle;		/* outside a transaction */
	Prepared	prepared;
	bool		unsynced;		/* commands were sent after the last sync */
	bool		lost;			/* libpq is not to be asked for results any
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
	bool		failed_unseen;	/* error is of something between two calls:
								 * the next one reports it */

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
	int64_t		taken;			/* bytes that the server said it took */

	/* reading: a result, and what is in flight behind it without a gap */
	PGresult   *piece;
	int64_t		piece_offset;	/* in the object */
	int64_t		piece_len;
	int64_t		asked_until;
	int64_t		last_end;		/* where the last read ended: sequential or
								 * not */
	int			ahead;			/* pieces to have in flight beyond it */

	pgsf_progress progress;
	void	   *progress_arg;

	/* cancelling */
	atomic_int	cancel_wanted;
	int			cancel_event;	/* eventfd: wakes what waits */
	bool		cancel_sent;	/* this call is being cancelled */
	bool		cancel_masked;	/* what runs now must not be cancelled */
};

/* handle.c */
extern int	pgsfi_start(pgsf *h);
extern int	pgsfi_start_open(pgsf *h, bool writing);
extern int	pgsfi_start_closed(pgsf *h);
extern int	pgsfi_fail(pgsf *h, const char *sqlstate, const char *format, ...)
			__attribute__((format(printf, 3, 4)));
extern int	pgsfi_fail_errno(pgsf *h, const char *sqlstate, int errnum, const char *what);
extern int	pgsfi_fail_result(pgsf *h, const PGresult *result);
extern int	pgsfi_fail_connection(pgsf *h);
extern int	pgsfi_fail_memory(pgsf *h);
extern void pgsfi_error_clear(pgsf *h);
extern int	pgsfi_check_cancel(pgsf *h);
extern void pgsfi_forget_cancel(pgsf *h);
extern int	pgsfi_report(pgsf *h, int64_t done, int64_t total);

/* link.c */
extern Link *pgsfi_link(PGconn *conn);
extern void pgsfi_link_leave(pgsf *h);
extern void pgsfi_disown_transaction(Link *link);
extern bool pgsfi_connected(const pgsf *h);
extern int	pgsfi_schema(pgsf *h);

/* wait.c */
extern int	pgsfi_wait_result(pgsf *h);
extern int	pgsfi_send_all(pgsf *h);
extern int	pgsfi_wait_local(pgsf *h, int fd, short events);
extern void pgsfi_ask_to_stop(pgsf *h);

/* reason.c */
extern void pgsfi_hear_reason(pgsf *h);

/* wire.c */
extern int	pgsfi_enter(pgsf *h);
extern int	pgsfi_take(pgsf *h);
extern int	pgsfi_release(pgsf *h);
extern int	pgsfi_send(pgsf *h, AwaitedKind kind, const char *sql,
					   const pgsf_params *params, int binary_result);
extern int	pgsfi_prepare(pgsf *h, Prepared which, const char *function,
						  Oid second);
extern int	pgsfi_send_prepared(pgsf *h, const Awaited *awaited,
								const pgsf_params *params);
extern int	pgsfi_request_answers(pgsf *h);
extern int	pgsfi_sync(pgsf *h);
extern int	pgsfi_lost_in_flight(pgsf *h);
extern int	pgsfi_next(pgsf *h, Awaited *awaited, PGresult **result);
extern int	pgsfi_next_row(pgsf *h, PGresult **row);
extern int	pgsfi_finish(pgsf *h, PGresult **answer);
extern int	pgsfi_execute(pgsf *h, const char *sql, PGresult **answer);

/* sql.c */
extern char *pgsfi_sql(pgsf *h, const char *format, ...)
			__attribute__((format(printf, 2, 3)));
extern char *pgsfi_sql_one_row(pgsf *h, const char *columns, const char *select);
extern int	pgsfi_check_select(pgsf *h, const char *sql, const pgsf_params *params);
extern int	pgsfi_check_storing(pgsf *h, const char *sql, const pgsf_params *params);
extern char *pgsfi_sql_with_value(pgsf *h, const char *sql, int number);
extern void pgsfi_put_int4(char *to, int32_t value);
extern void pgsfi_put_int8(char *to, int64_t value);
extern int64_t pgsfi_get_int(const PGresult *result, int column);

/* Parameters of the application and up to three of ours after them. */
#define OWN_PARAMS	3

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

extern int	pgsfi_check_params(pgsf *h, const pgsf_params *params);
extern int	pgsfi_params_start(pgsf *h, Params *params, const pgsf_params *given);
extern void pgsfi_params_int4(Params *params, int32_t value);
extern void pgsfi_params_int8(Params *params, int64_t value);
extern void pgsfi_params_free(Params *params);

/* open.c */
extern int	pgsfi_check_row(pgsf *h, const PGresult *result);
extern int	pgsfi_create(pgsf *h, const char *table, const char *column);

/* write.c */
extern int	pgsfi_write(pgsf *h, const char *data, int64_t len_bytes);
extern int	pgsfi_send_gathered(pgsf *h);

/* read.c */
extern void pgsfi_forget_ahead(pgsf *h);

/* store.c */
extern int	pgsfi_store(pgsf *h, const char *sql, const pgsf_params *params,
						PGresult **result);
extern int	pgsfi_give_up(pgsf *h);
extern void pgsfi_closed(pgsf *h);

/* local.c: a local file */
typedef struct LocalFile
{
	int			fd;
	bool		regular;
	int64_t		start;			/* position at the start; regular files only */
	struct stat before;
} LocalFile;

extern int	pgsfi_local_start(pgsf *h, LocalFile *file, int fd);
extern int64_t pgsfi_local_left(const LocalFile *file);
extern int64_t pgsfi_local_read(pgsf *h, LocalFile *file, char *buf, int64_t len_bytes);
extern int	pgsfi_local_unchanged(pgsf *h, LocalFile *file, int64_t read_bytes);
extern int	pgsfi_local_write(pgsf *h, int fd, const char *data, int64_t len_bytes);

#endif							/* PGSF_INTERNAL_H */
