/*-------------------------------------------------------------------------
 *
 * faults.c
 *	  Trials: wrong uses, lost connections, cancelling, errors of the server.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include "trial.h"

/* ---- wrong arguments and wrong uses ---- */

static const pgsf_params bad = {-1, NULL, NULL, NULL, NULL};

/* Calls without a handle, and without an open value. */
static void
nothing_open(void)
{
	char		buf[10];

	check(pgsf_new(NULL) == NULL, "no connection");
	check(pgsf_open(NULL, PGSF_READ, "SELECT 1", NULL) < 0 && pgsf_error(NULL)[0] != '\0',
		  "no handle: %s", pgsf_error(NULL));
	check(pgsf_version() == PGSF_VERSION_NUM, "version");

	fails(pgsf_read(h, buf, 10), PGSF_ERROR_STATE, "read");
	fails(pgsf_write(h, buf, 10), PGSF_ERROR_STATE, "write");
	fails(pgsf_seek(h, 0, SEEK_SET), PGSF_ERROR_STATE, "seek");
	fails(pgsf_store(h, INSERT_ID, id_is(1), NULL), PGSF_ERROR_STATE, "store");
	fails(pgsf_flush(h), PGSF_ERROR_STATE, "flush");
}

/* A SELECT that does not give one row with one value cannot be opened. */
static void
selects(void)
{
	fails(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(4)), PGSF_ERROR_NOT_FOUND, "no row");
	fails(pgsf_open(h, PGSF_READ, "SELECT doc FROM t", NULL), PGSF_ERROR_MANY, "three rows");
	fails(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(2)), PGSF_ERROR_NULL, "NULL");
	fails(pgsf_open(h, PGSF_READ, "SELECT doc FROM nowhere", NULL), "42P01", "no table");
	fails(pgsf_open(h, PGSF_READ, "SELECT id FROM t WHERE id = 1", NULL), "42804", "no file");
	fails(pgsf_open(h, PGSF_READ, "SELECT doc FROM t;", NULL), "42601", "a semicolon");
	fails(pgsf_open(h, PGSF_READ, NULL, NULL), PGSF_ERROR_ARGUMENT, "no statement");
	fails(pgsf_open(h, PGSF_CLOSED, SELECT_ID, id_is(1)), PGSF_ERROR_ARGUMENT, "no mode");
	fails(pgsf_open(h, PGSF_READ, SELECT_ID, &bad), PGSF_ERROR_ARGUMENT, "a bad count");
}

/* Nor can it be read as a whole; arguments that are out of range. */
static void
gets(void)
{
	void	   *memory;
	size_t		memory_len;
	char		buf[10];

	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, SELECT_ID, &bad),
		  PGSF_ERROR_ARGUMENT, "a bad count");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, SELECT_ID, id_is(4)),
		  PGSF_ERROR_NOT_FOUND, "get of no row");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, "SELECT doc FROM t", NULL),
		  PGSF_ERROR_MANY, "get of three rows");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, "SELECT doc FROM nowhere", NULL),
		  "42P01", "get from no table");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1,
						  "SELECT doc FROM t WHERE 1 / (id - 1) = 0", NULL),
		  "22012", "get of what cannot be calculated");
	check(memory == NULL && memory_len == 0, "no memory after an error");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, SELECT_ID, id_is(2)),
		  PGSF_ERROR_NULL, "get of NULL");
	fails(pgsf_get_memory(h, &memory, &memory_len, -1, -1, SELECT_ID, id_is(1)),
		  PGSF_ERROR_ARGUMENT, "get from before the start");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -2, SELECT_ID, id_is(1)),
		  PGSF_ERROR_ARGUMENT, "get of a negative length");
	works(pgsf_open(h, PGSF_READ, SELECT_ID " -- a comment", id_is(3)), "open of an empty value");
	check(pgsf_read(h, buf, 10) == 0, "which is empty");
	works(pgsf_close(h), "close");
}

/* The SELECT has to give one column, whatever its name is; it may lock the row. */
static void
columns(void)
{
	void	   *memory;
	size_t		memory_len;

	fails(pgsf_open(h, PGSF_READ, "SELECT doc, id FROM t WHERE id = 1", NULL),
		  "42601", "two columns");
	fails(pgsf_open(h, PGSF_READ, "SELECT FROM t WHERE id = 1", NULL), "42601", "no column");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1,
						  "SELECT doc, id FROM t WHERE id = 1", NULL),
		  "42601", "get of two columns");
	works(pgsf_open(h, PGSF_READ, "SELECT doc AS q FROM t q WHERE id = 1", NULL),
		  "a column like ours");
	works(pgsf_close(h), "close");
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID " FOR UPDATE", id_is(1)), "open and lock");
	works(pgsf_close(h), "close");
}

/* A statement that uses a parameter the application does not give. */
static void
missing_parameters(const char *data)
{
	void	   *memory;
	size_t		memory_len;

	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1,
						  "SELECT doc FROM t WHERE id = 1 AND $1 = 1", NULL),
		  PGSF_ERROR_ARGUMENT, "get without a parameter");
	fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, SELECT_ID " AND $2 = 0", id_is(1)),
		  PGSF_ERROR_ARGUMENT, "get with one of two parameters");
	fails(pgsf_open(h, PGSF_READ, SELECT_ID, NULL),
		  PGSF_ERROR_ARGUMENT, "open without a parameter");
	fails(pgsf_put_memory(h, data, MB, "t", "doc", INSERT_ID, NULL, NULL), PGSF_ERROR_ARGUMENT,
		  "put without a parameter");
	works(pgsf_open(h, PGSF_READ, "SELECT doc AS a$7 FROM t WHERE id = $1 /* $2 /* $3 */ $4 */"
					" AND '$5''$6' <> $q$ $8 $$ $9 $q$ AND E'\\'$10' <> '' AND \"doc\" IS NOT NULL -- $11",
					id_is(1)), "what is no parameter");
	works(pgsf_close(h), "close");
}

/* Wrong uses of a value that is open for reading: it stays open. */
static void
open_for_reading(const char *data)
{
	char		buf[10];

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	fails(pgsf_write(h, buf, 10), PGSF_ERROR_STATE, "write to what is read");
	fails(pgsf_truncate(h, 10), PGSF_ERROR_STATE, "truncate what is read");
	fails(pgsf_store(h, UPDATE_ID, id_is(1), NULL), PGSF_ERROR_STATE, "store what is read");
	fails(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), PGSF_ERROR_STATE, "open twice");
	fails(put_bytes(5, data, MB), PGSF_ERROR_STATE, "put while open");
	fails(pgsf_seek(h, -1, SEEK_SET), PGSF_ERROR_ARGUMENT, "seek before the start");
	fails(pgsf_seek(h, INT64_MAX, SEEK_END), PGSF_ERROR_ARGUMENT, "seek beyond 2^63");
	fails(pgsf_seek(h, 0, 7), PGSF_ERROR_ARGUMENT, "seek from nowhere");
	check(pgsf_read(h, buf, 10) == 10 && memcmp(buf, data, 10) == 0, "it is still open");
	works(pgsf_close(h), "close");
}

/* Wrong arguments of pgsf_create(). */
static void
creates(void)
{
	fails(pgsf_create(h, "nowhere", "doc"), "42P01", "create in no table");
	fails(pgsf_create(h, "t", "nothing"), "42703", "create in no column");
	fails(pgsf_create(h, "t", "id"), "42804", "create in another column");
	fails(pgsf_create(h, "parts", "doc"), "42809", "create in a partitioned table");
	check(pgsf_error_detail(h)[0] != '\0' || pgsf_error_hint(h)[0] != '\0',
		  "which says more: %s %s", pgsf_error_detail(h), pgsf_error_hint(h));
	fails(pgsf_create(h, "t", NULL), PGSF_ERROR_ARGUMENT, "create in NULL");
}

/* Statements that cannot store leave the value open: one that can then stores it. */
static void
refused_stores(const char *data)
{
	static const char *const not_storing[] = {
		"INSERT INTO t (id) VALUES (5) -- " PGSF_VALUE,
		"INSERT INTO t (id) VALUES (5) /* /* */ " PGSF_VALUE " */",
		"INSERT INTO t VALUES (5, '" PGSF_VALUE "')",
		"INSERT INTO t VALUES (5, $a$" PGSF_VALUE "$a$)",
		"INSERT INTO t AS \"" PGSF_VALUE "\" VALUES (5, '')",
		"ROLLBACK /* " PGSF_VALUE " */",
		"COMMIT " PGSF_VALUE,
		"VALUES (" PGSF_VALUE ")",
		"DELETE FROM t WHERE doc = " PGSF_VALUE,
		"EXPLAIN INSERT INTO t VALUES (5, " PGSF_VALUE ")",
		NULL
	};

	works(pgsf_create(h, "t", "doc"), "create");
	works(pgsf_write(h, data, MB), "write");
	works(pgsf_flush(h), "flush");
	fails(pgsf_truncate(h, -1), PGSF_ERROR_ARGUMENT, "truncate to less than nothing");
	fails(pgsf_store(h, "INSERT INTO t VALUES (5, '')", NULL, NULL),
		  PGSF_ERROR_ARGUMENT, "store without the value");
	fails(pgsf_store(h, "INSERT INTO t VALUES (5, " PGSF_VALUE "), (6, " PGSF_VALUE ")",
					 NULL, NULL), PGSF_ERROR_ARGUMENT, "store the value twice");
	fails(pgsf_store(h, INSERT_ID, NULL, NULL), PGSF_ERROR_ARGUMENT, "store without a parameter");
	fails(pgsf_store(h, INSERT_ID, &bad, NULL), PGSF_ERROR_ARGUMENT, "store, a bad count");
	for (int i = 0; not_storing[i] != NULL; i++)
		fails(pgsf_store(h, not_storing[i], NULL, NULL), PGSF_ERROR_ARGUMENT, not_storing[i]);
	works(pgsf_store(h, INSERT_ID, id_is(5), NULL), "store");
	value_is(5, data, MB, "stored after errors");
}

/* Statements that may store, and errors of the server. */
static void
stores(const char *data)
{
	char		buf[10];

	works(pgsf_put_memory(h, data, MB, "t", "doc",
						  "/* with */ WITH d (d) AS (SELECT " PGSF_VALUE ")"
						  " INSERT INTO t SELECT $1, d FROM d", id_is(6), NULL), "store by WITH");
	value_is(6, data, MB, "stored by WITH");
	sql("DELETE FROM t WHERE id = 6");
	fails(pgsf_put_memory(h, data, MB, "t", "doc", UPDATE_ID, id_is(77), NULL),
		  PGSF_ERROR_NOT_FOUND, "store in no row");
	fails(pgsf_put_memory(h, data, MB, "t", "doc", INSERT_ID " ON CONFLICT DO NOTHING",
						  id_is(5), NULL), PGSF_ERROR_NOT_FOUND, "store in a conflict");
	fails(put_bytes(5, data, MB), "23505", "store a duplicate");
	works(pgsf_create(h, "t", "doc"), "create");
	fails(pgsf_seek(h, INT64_MAX, SEEK_SET) < 0 ? -1 : pgsf_write(h, buf, 1), "54000",
		  "write beyond 2^63");
}

void
trial_arguments(void)
{
	char	   *data = bytes(MB, 1);

	nothing_open();
	works(put_bytes(1, data, MB), "put");
	sql("INSERT INTO t VALUES (2, NULL), (3, '')");
	selects();
	gets();
	columns();
	missing_parameters(data);
	open_for_reading(data);
	creates();
	refused_stores(data);
	stores(data);
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
	rows_are(4, "arguments");
	free(data);
}

/* ---- lost connections ---- */

/*
 * Ends the session and, if told so, waits until it is gone.  Nobody may wait for a session
 * that has sent what the client did not read: its last message may not fit into the socket.
 */
static void
terminate(bool wait)
{
	char		query[100];

	snprintf(query, sizeof(query), "SELECT pg_terminate_backend(%d, %d)", PQbackendPID(conn),
			 wait ? 60000 : 0);
	sql(query);
}

/* A call failed because the connection was lost: the value is closed; connects again. */
static void
is_lost(int64_t rc, const char *name)
{
	check(rc < 0 && (strcmp(pgsf_sqlstate(h), "57P01") == 0 ||
					 strcmp(pgsf_sqlstate(h), PGSF_ERROR_CONNECTION) == 0),
		  "%s: %s (%s)", name, pgsf_error(h), pgsf_sqlstate(h));
	rc = pgsf_read(h, NULL, 0);
	check(rc < 0 && strcmp(pgsf_sqlstate(h), PGSF_ERROR_STATE) == 0,
		  "the value is closed: %s", pgsf_error(h));
	check(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)) < 0, "nothing can be opened");
	check(pgsf_close(h) == 0, "close");
	connect_again();
}

/* A progress callback: ends the session when *arg bytes are done, once. */
static int
terminate_at(void *arg, int64_t done, int64_t total)
{
	(void) total;
	if (done >= *(int64_t *) arg)
	{
		terminate(false);
		*(int64_t *) arg = INT64_MAX;
	}
	return 0;
}

/* PQreset() and PQfinish() with an open value. */
static void
close_by_application(const char *data)
{
	char		buf[1000];
	int64_t		rc;

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	check(pgsf_read(h, buf, 1000) == 1000 && pgsf_read(h, buf, 1000) == 1000, "read");
	PQreset(conn);
	fails(pgsf_read(h, buf, 10), PGSF_ERROR_CLOSED, "read after PQreset");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open after PQreset");
	check(pgsf_read(h, buf, 1000) == 1000 && memcmp(buf, data, 1000) == 0, "read");
	PQfinish(conn);
	rc = pgsf_read(h, buf, 10);
	check(rc < 0 && strcmp(pgsf_sqlstate(h), PGSF_ERROR_CLOSED) == 0,
		  "read after PQfinish: %s", pgsf_error(h));
	check(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)) < 0 &&
		  strcmp(pgsf_sqlstate(h), PGSF_ERROR_CLOSED) == 0, "open after PQfinish");
	conn = NULL;
	connect_again();
}

void
trial_lost(void)
{
	size_t		len = 20 * MB;
	char	   *data = bytes(len, 1);
	char	   *buf = malloc(len);
	int64_t		at = 5 * MB;
	int64_t		rc;
	void	   *memory;
	size_t		memory_len;

	works(put_bytes(1, data, len), "put");

	works(pgsf_create(h, "t", "doc"), "create");
	works(pgsf_write(h, data, 3 * MB), "write");
	terminate(true);
	rc = 0;
	for (int i = 0; i < 100 && rc >= 0; i++)
		rc = pgsf_write(h, data, MB);
	is_lost(rc, "lost while writing");

	works(pgsf_create(h, "t", "doc"), "create");
	works(pgsf_write(h, data, 3 * MB), "write");
	terminate(true);
	is_lost(pgsf_store(h, INSERT_ID, id_is(2), NULL), "lost before storing");

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	check(pgsf_read(h, buf, 1000) == 1000 && pgsf_read(h, buf, 1000) == 1000, "read");
	terminate(false);
	rc = 0;
	for (int i = 0; i < 100 && rc >= 0; i++)
		rc = pgsf_read(h, buf, MB);
	is_lost(rc, "lost while reading");

	works(pgsf_create(h, "t", "doc"), "create");
	terminate(true);
	is_lost(pgsf_flush(h) < 0 ? -1 : pgsf_store(h, INSERT_ID, id_is(2), NULL), "lost while idle");

	pgsf_set_progress(h, terminate_at, &at);
	is_lost(put_bytes(2, data, len), "lost in a put");
	at = 5 * MB;
	pgsf_set_progress(h, terminate_at, &at);
	is_lost(pgsf_get_memory(h, &memory, &memory_len, 0, -1, SELECT_ID, id_is(1)), "lost in a get");

	close_by_application(data);
	value_is(1, data, len, "nothing else was lost");
	rows_are(1, "lost");
	free(data);
	free(buf);
}

/* ---- cancelling ---- */

static int
stop_at(void *arg, int64_t done, int64_t total)
{
	(void) total;
	return done >= *(int64_t *) arg;
}

static void *
cancel_soon(void *arg)
{
	usleep(*(int *) arg);
	pgsf_cancel(h);
	return NULL;
}

/* Cancel as soon as another session sees the statement of the stream sleep. */
static void *
cancel_in_sleep(void *arg)
{
	PGconn	   *other = PQconnectdb(conninfo);
	char		query[200];
	bool		sleeps = false;

	snprintf(query, sizeof(query),
			 "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event = 'PgSleep'",
			 *(int *) arg);
	for (int i = 0; i < 6000 && !sleeps && PQstatus(other) == CONNECTION_OK; i++)
	{
		PGresult   *result = PQexec(other, query);

		sleeps = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "1") == 0;
		PQclear(result);
		usleep(10000);
	}
	PQfinish(other);
	pgsf_cancel(h);
	return NULL;
}

static void
on_alarm(int sig)
{
	(void) sig;
	pgsf_cancel(h);
}

static void
alarm_soon(int us)
{
	struct itimerval timer = {{0, 0}, {0, us}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* A source that never ends. */
static int64_t
endless(void *arg, void *buf, size_t len)
{
	(void) arg;
	memset(buf, 'x', len);
	return (int64_t) len;
}

static int
slow_sink(void *arg, const void *buf, size_t len)
{
	(void) arg;
	(void) buf;
	(void) len;
	usleep(20000);
	return 0;
}

static int64_t
put_endless(void)
{
	return pgsf_put_callback(h, endless, NULL, -1, "t", "doc", INSERT_ID, id_is(9), NULL);
}

/* Cancelled by the progress callback, in the library's transaction and in the application's. */
static void
cancel_by_progress(const char *data, size_t len)
{
	int64_t		at = 3 * MB;
	void	   *memory;
	size_t		memory_len;

	for (int own = 1; own >= 0; own--)
	{
		pgsf_set_progress(h, stop_at, &at);
		if (!own)
			own_sql("BEGIN");
		fails(put_bytes(2, data, len), PGSF_ERROR_CANCELLED, "callback stops a put");
		check(PQtransactionStatus(conn) == (own ? PQTRANS_IDLE : PQTRANS_INTRANS),
			  "and leaves the transaction alone");
		fails(pgsf_get_memory(h, &memory, &memory_len, 0, -1, SELECT_ID, id_is(1)),
			  PGSF_ERROR_CANCELLED, "callback stops a get");
		if (!own)
			own_sql("ROLLBACK");
		pgsf_set_progress(h, NULL, NULL);
		value_is(1, data, len, "after cancelling");
	}
}

/* Cancelled by another thread, and by a signal handler. */
static void
cancel_by_others(const char *data, size_t len)
{
	int			us = 100000;
	pthread_t	thread;

	pthread_create(&thread, NULL, cancel_soon, &us);
	fails(put_endless(), PGSF_ERROR_CANCELLED, "thread stops a put");
	pthread_join(thread, NULL);
	signal(SIGALRM, on_alarm);
	alarm_soon(us);
	fails(put_endless(), PGSF_ERROR_CANCELLED, "signal stops a put");
	alarm_soon(us);
	fails(pgsf_get_callback(h, slow_sink, NULL, 0, -1, SELECT_ID, id_is(1)),
		  PGSF_ERROR_CANCELLED, "signal stops a get");
	value_is(1, data, len, "after cancelling");
}

/* Cancelled while the server waits for a lock. */
static void
cancel_lock_wait(const char *data, size_t len)
{
	int			us = 100000;
	pthread_t	thread;

	sql("BEGIN");
	sql("UPDATE t SET id = 1 WHERE id = 1");
	alarm_soon(us);
	fails(pgsf_put_memory(h, data, len, "t", "doc", UPDATE_ID, id_is(1), NULL),
		  PGSF_ERROR_CANCELLED, "signal stops a wait for a lock");
	pthread_create(&thread, NULL, cancel_soon, &us);
	fails(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID " FOR UPDATE", id_is(1)),
		  PGSF_ERROR_CANCELLED, "thread stops a wait for a lock");
	pthread_join(thread, NULL);
	sql("ROLLBACK");
}

/* A statement that swallows the first request needs another one. */
static void
cancel_again(const char *data)
{
	int			pid = PQbackendPID(conn);
	pthread_t	thread;

	sql("CREATE OR REPLACE FUNCTION slow(id int, doc securefile, again int) RETURNS void"
		" LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (id, doc);"
		" BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN END;"
		" PERFORM pg_sleep(again); END $$");
	pthread_create(&thread, NULL, cancel_in_sleep, &pid);
	fails(pgsf_put_memory(h, data, MB, "t", "doc", "SELECT slow($1, " PGSF_VALUE ", 60)",
						  id_is(5), NULL), PGSF_ERROR_CANCELLED, "the server is asked again");
	pthread_join(thread, NULL);
}

/*
 * A statement that does not stop has stored.  The library can still roll its own
 * transaction back, but not the application's.
 */
static void
cancel_too_late(const char *data)
{
	int			pid = PQbackendPID(conn);
	pthread_t	thread;

	pthread_create(&thread, NULL, cancel_in_sleep, &pid);
	fails(pgsf_put_memory(h, data, MB, "t", "doc", "SELECT slow($1, " PGSF_VALUE ", 0)",
						  id_is(5), NULL), PGSF_ERROR_CANCELLED, "a statement that does not stop");
	pthread_join(thread, NULL);
	rows_are(1, "a statement that does not stop");
	own_sql("BEGIN");
	pthread_create(&thread, NULL, cancel_in_sleep, &pid);
	works(pgsf_put_memory(h, data, MB, "t", "doc", "SELECT slow($1, " PGSF_VALUE ", 0)",
						  id_is(5), NULL), "the same in a transaction of the application");
	pthread_join(thread, NULL);
	check(strcmp(own_sql("SELECT count(*) FROM t"), "2") == 0, "is stored");
	own_sql("ROLLBACK");
}

/* Cancelled before the call, and when it is too late. */
static void
cancel_between_calls(const char *data, size_t len)
{
	pgsf_cancel(h);
	fails(put_bytes(2, data, len), PGSF_ERROR_CANCELLED, "cancelled before");
	works(put_bytes(2, data, len), "once only");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(2)), "open");
	pgsf_cancel(h);
	works(pgsf_close(h), "close is not cancelled");
	value_is(2, data, len, "and forgets the request");
}

void
trial_cancel(void)
{
	size_t		len = 20 * MB;
	char	   *data = bytes(len, 1);

	works(put_bytes(1, data, len), "put");
	cancel_by_progress(data, len);
	cancel_by_others(data, len);
	cancel_lock_wait(data, len);
	cancel_again(data);
	cancel_too_late(data);
	cancel_between_calls(data, len);
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
	rows_are(2, "cancel");
	free(data);
}

/*
 * One put that is cancelled after some time, or too late.  If it fails nothing may be
 * stored, if it succeeds the value must be.
 */
static bool
cancelled_put(const char *data, size_t len, int us, bool own)
{
	bool		stored;
	const char *found;

	if (!own)
		own_sql("BEGIN");
	alarm_soon(us);
	stored = put_bytes(1, data, len) >= 0;
	alarm_soon(0);
	if (!stored && strcmp(pgsf_sqlstate(h), PGSF_ERROR_CANCELLED) != 0)
		return check(false, "cancelled after %d us: %s (%s)", us, pgsf_error(h), pgsf_sqlstate(h));
	/* the signal may have come after the put: forget its request */
	(void) pgsf_close(h);
	if (!own && !stored && PQtransactionStatus(conn) == PQTRANS_INERROR)
		found = "0";
	else
		found = own_sql("SELECT count(*) FROM t");
	if (atoi(found) != stored)
		return check(false, "cancelled after %d us: %s rows, stored: %d", us, found, stored);
	own_sql(own ? "DELETE FROM t" : "ROLLBACK");
	return true;
}

/* Cancelled at any moment: an error means that nothing is stored, success that it is. */
void
trial_cancel_any(void)
{
	size_t		len = 3 * MB;
	char	   *data = bytes(len, 1);
	bool		good = true;

	signal(SIGALRM, on_alarm);
	srand(getenv("TRIAL_SEED") ? (unsigned) atoi(getenv("TRIAL_SEED")) : 1);
	for (int i = 0; i < 200 && good; i++)
		good = cancelled_put(data, len, rand() % 30000 + 1, i % 2);
	check(good, "200 puts, cancelled at any moment");
	rows_are(0, "cancelled at any moment");
	free(data);
}

/* ---- errors of the server ---- */

/* The caller has made puts fail, with the error TRIAL_SQLSTATE. */
void
trial_put_fails(void)
{
	size_t		len = 20 * MB;
	char	   *data = bytes(len, 1);
	int64_t		rc = 0;

	fails(put_bytes(100, data, len), getenv("TRIAL_SQLSTATE"), "put");
	works(pgsf_create(h, "t", "doc"), "create");
	for (int i = 0; i < 20 && rc == 0; i++)
		rc = pgsf_write(h, data, len / 7);
	fails(rc < 0 ? -1 : pgsf_flush(h), getenv("TRIAL_SQLSTATE"), "write");
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
	free(data);
}

void
trial_read_only(void)
{
	works(put_bytes(1, "abc", 3), "put");
	own_sql("SET default_transaction_read_only = on");
	fails(pgsf_create(h, "t", "doc"), "25006", "create");
	fails(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "25006", "open for writing");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open for reading");
	works(pgsf_close(h), "close");
}
