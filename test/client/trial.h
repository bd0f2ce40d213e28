/*-------------------------------------------------------------------------
 *
 * trial.h
 *	  The functions that the trials of the client library share.
 *
 * A trial uses table t (id int PRIMARY KEY, doc securefile) through handle h of
 * connection conn; sql() is a second connection.  Each check prints a line "ok -
 * name" or "not ok - name: why".
 *
 *-------------------------------------------------------------------------
 */
#ifndef TRIAL_H
#define TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pgsecurefile.h>

#define MB	(1024 * 1024)

#define INSERT_ID	"INSERT INTO t (id, doc) VALUES ($1, " PGSF_VALUE ")"
#define UPDATE_ID	"UPDATE t SET doc = " PGSF_VALUE " WHERE id = $1"
#define SELECT_ID	"SELECT doc FROM t WHERE id = $1"

extern PGconn *conn;
extern const char *conninfo;
extern pgsf *h;

extern bool check(bool good, const char *format, ...)
			__attribute__((format(printf, 2, 3)));

/* Check that a call on h succeeded, or failed with that SQLSTATE. */
extern bool works(int64_t rc, const char *name);
extern bool fails(int64_t rc, const char *sqlstate, const char *name);

/*
 * Execute SQL on the connection of h, or on another one.  Returns the first column of the
 * first row, which holds until the next call.
 */
extern const char *own_sql(const char *query);
extern const char *sql(const char *query);

/* A new connection and handle in place of the old ones. */
extern void connect_again(void);

/* Parameters with id as $1; they hold until the next call. */
extern const pgsf_params *id_is(int id);

/* Pseudo-random bytes; the caller frees them. */
extern char *bytes(size_t len, unsigned seed);

/* Check the value of a row, and the number of rows. */
extern bool value_is(int id, const char *data, size_t len, const char *name);
extern void rows_are(int count, const char *name);

/* pgsf_put_memory() into a new row. */
extern int64_t put_bytes(int id, const char *data, size_t len);

/* Check what a call on a handle gave. */
extern void gives(pgsf *handle, int64_t got, int64_t wanted, const char *name);

/* Move a position. */
extern void move(pgsf *handle, int64_t position);

/* Check all bytes of an open value, which a stream reads. */
extern void open_value_is(pgsf *handle, const char *data, size_t len, const char *name);

/* Check positions and length. */
extern void places_are(pgsf *handle, int64_t position, int64_t length, const char *name);

/* A stream has bytes in flight: three reads of the value of handle, from an offset on. */
extern void begin_stream(pgsf *handle, const char *data, int64_t offset);

/* values.c */
extern void trial_whole(void);
extern void trial_handles(void);
extern void trial_random(void);
extern void trial_transactions(void);
extern void trial_together(void);

/* faults.c */
extern void trial_arguments(void);
extern void trial_lost(void);
extern void trial_cancel(void);
extern void trial_cancel_any(void);
extern void trial_put_fails(void);
extern void trial_read_only(void);

/* local.c */
extern void trial_local(void);
extern void trial_changing(void);
extern void trial_memory(void);

/* unanswered.c */
extern void trial_unanswered(void);
extern void trial_route(void);

/* holes.c */
extern void trial_holes(void);

/* ranges.c */
extern void trial_ranges(void);

/* insertions.c */
extern void trial_insertions(void);
extern void trial_long_insertions(void);

#endif							/* TRIAL_H */
