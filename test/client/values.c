/*-------------------------------------------------------------------------
 *
 * values.c
 *	  Trials: values are written and read back in all ways; transactions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

/* ---- whole values ---- */

typedef struct Stream
{
	char	   *data;
	size_t		len;
	size_t		at;
} Stream;

/* A source that gives pieces of odd sizes. */
static int64_t
source(void *arg, void *buf, size_t len)
{
	Stream	   *stream = arg;
	size_t		left = stream->len - stream->at;
	size_t		give = stream->at % 70001 + 1;

	if (give > left)
		give = left;
	if (give > len)
		give = len;
	memcpy(buf, stream->data + stream->at, give);
	stream->at += give;
	return (int64_t) give;
}

static int
sink(void *arg, const void *buf, size_t len)
{
	Stream	   *stream = arg;

	if (stream->at + len > stream->len)
		return -1;
	memcpy(stream->data + stream->at, buf, len);
	stream->at += len;
	return 0;
}

/* Read a part of a value and compare it. */
static void
part(int id, const char *data, size_t len, int64_t offset, int64_t length)
{
	size_t		want = (size_t) offset < len ? len - offset : 0;
	Stream		stream = {malloc(len + 1), len, 0};
	int64_t		got;

	if (length >= 0 && (size_t) length < want)
		want = length;
	got = pgsf_get_callback(h, sink, &stream, offset, length, SELECT_ID, id_is(id));
	if (got < 0)
		works(-1, "a part");
	else
		check((size_t) got == want && stream.at == want &&
			  memcmp(stream.data, data + (want > 0 ? offset : 0), want) == 0,
			  "part of %zu bytes: %lld at %lld", len, (long long) length, (long long) offset);
	free(stream.data);
}

void
trial_whole(void)
{
	static const size_t lens[] = {0, 1, 4000, 4001, 131071, 131072, 131073, 262143,
		262144, 262145, 524288, 3000000, 20 * MB + 1};
	int			id = 0;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
	{
		size_t		len = lens[i];
		Stream		stream = {bytes(len, i), len, 0};

		works(put_bytes(++id, stream.data, len), "put of memory");
		value_is(id, stream.data, len, "put of memory");
		works(pgsf_put_callback(h, source, &stream, -1, "public.t", "doc", INSERT_ID,
								id_is(++id), NULL), "put of a callback");
		value_is(id, stream.data, len, "put of a callback");
		part(id, stream.data, len, 0, -1);
		part(id, stream.data, len, 0, 0);
		part(id, stream.data, len, 1, -1);
		part(id, stream.data, len, (int64_t) len / 2, 262144);
		part(id, stream.data, len, (int64_t) len, -1);
		part(id, stream.data, len, INT64_MAX - 1, INT64_MAX);
		free(stream.data);
	}
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
	rows_are(id, "whole");
}

/* ---- handles ---- */

/* Read a few bytes at an offset and compare. */
static void
read_at(const char *data, int64_t offset)
{
	char		found[1000];

	check(pgsf_seek(h, offset, SEEK_SET) == offset &&
		  pgsf_read(h, found, sizeof(found)) == (int64_t) sizeof(found) &&
		  memcmp(found, data + offset, sizeof(found)) == 0,
		  "1000 bytes at %lld", (long long) offset);
}

/* A stream, and then reads here and there in what it has requested. */
static void
read_after_stream(const char *data)
{
	char	   *found = malloc(2 * MB);

	check(pgsf_seek(h, 0, SEEK_SET) == 0, "a stream begins");
	for (int i = 0; i < 8; i++)
		check(pgsf_read(h, found, 300000) == 300000, "a part of a stream");
	free(found);
	read_at(data, 8 * 300000 + 10);
	read_at(data, 8 * 300000 + 300000);
	read_at(data, 8 * 300000 + 700000);
	read_at(data, 8 * 300000 + 500000);
	read_at(data, 5);
}

/* Read all in pieces of a size and compare. */
static void
read_in(const char *data, size_t len, size_t size)
{
	char	   *found = malloc(len + size);
	size_t		at = 0;
	int64_t		got;

	if (pgsf_seek(h, 0, SEEK_SET) < 0)
		works(-1, "seek");
	while ((got = pgsf_read(h, found + at, size)) > 0)
		at += got;
	if (got < 0)
		works(-1, "read");
	else
		check(at == len && memcmp(found, data, len) == 0, "read in pieces of %zu", size);
	free(found);
}

/* Small writes, then a large one. */
static void
write_small_then_large(const char *data, size_t len)
{
	pgsf_info	info;
	PGresult   *result;

	works(pgsf_create(h, "t", "doc"), "create");
	for (size_t at = 0; at < 700001; at += 7)
		if (pgsf_write(h, data + at, 7) < 0)
			works(-1, "small write");
	works(pgsf_write(h, data + 700007, len - 700007), "large write");
	check(pgsf_tell(h) == (int64_t) len && pgsf_length(h) == (int64_t) len, "tell and length");
	works(pgsf_stat(h, &info), "stat");
	check(info.mode == PGSF_READ_WRITE && info.created && info.own_transaction &&
		  info.length == (int64_t) len && info.position == (int64_t) len, "what stat tells");
	works(pgsf_store(h, "INSERT INTO t VALUES (1, " PGSF_VALUE ") RETURNING id + 1",
					 NULL, &result), "store");
	check(result != NULL && strcmp(PQgetvalue(result, 0, 0), "2") == 0, "RETURNING");
	PQclear(result);
	value_is(1, data, len, "stored");
}

/* Reads of several sizes, at the end and beyond it. */
static void
read_all_ways(const char *data, size_t len)
{
	char		buf[100];

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	read_after_stream(data);
	read_in(data, len, 1000);
	read_in(data, len, 65536);
	read_in(data, len, 262144);
	read_in(data, len, 1000003);
	read_in(data, len, len);
	check(pgsf_read(h, buf, 10) == 0, "at the end");
	check(pgsf_seek(h, -10, SEEK_END) == (int64_t) len - 10, "seek from the end");
	check(pgsf_read(h, buf, 100) == 10, "short read at the end");
	check(pgsf_seek(h, 1000, SEEK_CUR) == (int64_t) len + 1000 && pgsf_read(h, buf, 100) == 0,
		  "beyond the end");
	works(pgsf_close(h), "close");
	works(pgsf_close(h), "close once more");
}

/* Bytes that were read ahead and are then written are read as written; data is overwritten. */
static void
write_what_was_read_ahead(char *data, size_t len)
{
	char		buf[20000];

	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open for writing");
	for (int i = 0; i < 20; i++)
		pgsf_read(h, buf, 20000);
	for (size_t at = 400000; at < len - 1000; at += 100000)
	{
		memset(data + at, 'w', 1000);
		if (pgsf_seek(h, (int64_t) at, SEEK_SET) < 0 || pgsf_write(h, data + at, 1000) < 0)
			works(-1, "write");
		if (pgsf_seek(h, (int64_t) at - 10000, SEEK_SET) < 0)
			works(-1, "seek");
		for (int i = 0; i < 6; i++)
			if (pgsf_read(h, buf + i * 2000, 2000) != 2000)
				works(-1, "read");
		if (memcmp(buf, data + at - 10000, 12000) != 0)
			check(false, "read ahead, then written at %zu", at);
	}
	read_in(data, len, 50000);
	works(pgsf_close(h), "close");
}

/* A gap, an end that is cut off, an end of zeros. */
static void
change_length(const char *data, size_t len)
{
	char	   *gap = calloc(1, len + 2 * MB);

	memcpy(gap, data, len);
	memcpy(gap + len + 1 * MB, data, 1000);
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open for writing");
	pgsf_seek(h, (int64_t) len + 1 * MB, SEEK_SET);
	works(pgsf_write(h, data, 1000), "write beyond the end");
	works(pgsf_flush(h), "flush");
	check(strcmp(own_sql("SELECT 'mine'"), "mine") == 0, "the connection after flush");
	read_in(gap, len + 1 * MB + 1000, 100000);
	memset(gap + len, 0, 2 * MB);
	works(pgsf_truncate(h, (int64_t) len + 500), "truncate");
	read_in(gap, len + 500, 300000);
	works(pgsf_truncate(h, (int64_t) len + 2 * MB), "truncate to more");
	read_in(gap, len + 2 * MB, 300000);
	works(pgsf_truncate(h, 3), "truncate to less");
	works(pgsf_store(h, UPDATE_ID, id_is(1), NULL), "store the new version");
	value_is(1, data, 3, "new version");
	free(gap);
}

void
trial_handles(void)
{
	size_t		len = 5 * MB + 77;
	char	   *data = bytes(len, 1);
	pgsf_info	info;

	works(pgsf_stat(h, &info), "stat of nothing");
	check(info.mode == PGSF_CLOSED, "nothing is open");
	write_small_then_large(data, len);
	read_all_ways(data, len);
	write_what_was_read_ahead(data, len);
	free(data);
	data = bytes(len, 1);
	value_is(1, data, len, "not stored");
	change_length(data, len);
	free(data);
}

/* ---- at random, beside a local copy ---- */

/* One read or write at random, sometimes with a flush or a truncation, compared with the copy. */
static void
step(char *copy, size_t len, char *buf)
{
	size_t		offset = (size_t) rand() % len;
	size_t		size = (size_t) rand() % (rand() % 10 == 0 ? 900000 : 3000) + 1;

	if (size > len - offset)
		size = len - offset;
	if (rand() % 4 > 0 && pgsf_seek(h, (int64_t) offset, SEEK_SET) < 0)
		works(-1, "seek");
	offset = (size_t) pgsf_tell(h);
	if (offset + size > len)
		return;
	if (rand() % 2)
	{
		for (size_t i = 0; i < size; i++)
			copy[offset + i] = (char) rand();
		if (pgsf_write(h, copy + offset, size) < 0)
			works(-1, "write");
	}
	else if (pgsf_read(h, buf, size) != (int64_t) size)
		works(-1, "read");
	else if (memcmp(buf, copy + offset, size) != 0)
		check(false, "%zu bytes at %zu", size, offset);
	if (rand() % 40 == 0 && pgsf_flush(h) < 0)
		works(-1, "flush");
	if (rand() % 200 == 0)
	{
		size_t		cut = (size_t) rand() % 100000;

		memset(copy + len - cut, 0, cut);
		if (pgsf_truncate(h, (int64_t) (len - cut)) < 0 || pgsf_truncate(h, (int64_t) len) < 0)
			works(-1, "truncate");
	}
}

void
trial_random(void)
{
	unsigned	seed = getenv("TRIAL_SEED") ? (unsigned) atoi(getenv("TRIAL_SEED")) : 1;
	size_t		len = 4 * MB + 321;
	char	   *copy = bytes(len, seed);
	char	   *buf = malloc(len);

	srand(seed);
	works(put_bytes(1, copy, len), "put");
	for (int round = 0; round < 3; round++)
	{
		works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
		for (int i = 0; i < 600; i++)
			step(copy, len, buf);

		/*
		 * zeros at the end would take no space; the caller compares the space
		 * with the length
		 */
		copy[len - 1] = 'x';
		check(pgsf_seek(h, -1, SEEK_END) == (int64_t) len - 1 && pgsf_write(h, "x", 1) == 0,
			  "the last byte");
		works(pgsf_store(h, UPDATE_ID, id_is(1), NULL), "store");
		value_is(1, copy, len, "after steps at random");
	}
	free(copy);
	free(buf);
}

/* ---- transactions ---- */

static PGTransactionStatusType
status(void)
{
	return PQtransactionStatus(conn);
}

/*
 * The application ends the transaction that the library began and begins another, by
 * these statements.  Its changes there stay, however the value ends.
 */
static void
replace_transaction(const char *statements, bool writing)
{
	int			count = atoi(sql("SELECT count(*) FROM t"));

	if (writing)
		works(pgsf_create(h, "t", "doc"), statements);
	else
		works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(2)), statements);
	own_sql(statements);
	own_sql("INSERT INTO t VALUES (100, '')");
	works(pgsf_close(h), "close in the other transaction");
	check(status() == PQTRANS_INTRANS, "which goes on");
	rows_are(count, "before its COMMIT");
	own_sql("COMMIT");
	rows_are(count + 1, "after its COMMIT");
	sql("DELETE FROM t WHERE id = 100");
}

/* All ways to replace the library's transaction. */
static void
replace_transactions(void)
{
	pgsf	   *other = pgsf_new(conn);

	replace_transaction("COMMIT; BEGIN", true);
	replace_transaction("COMMIT; BEGIN", false);
	replace_transaction("ROLLBACK; START TRANSACTION", true);
	replace_transaction("COMMIT AND CHAIN", true);

	/* a failed one is not ended either */
	works(pgsf_create(h, "t", "doc"), "create");
	own_sql("COMMIT");
	own_sql("BEGIN");
	fails(pgsf_store(h, INSERT_ID, id_is(100), NULL), "42704", "store in the other transaction");
	check(status() == PQTRANS_INERROR, "which has failed and goes on");
	own_sql("ROLLBACK");
	works(pgsf_create(h, "t", "doc"), "create");
	own_sql("ROLLBACK");
	own_sql("BEGIN");
	PQclear(PQexec(conn, "SELECT 1 / 0"));
	works(pgsf_close(h), "close in a failed transaction");
	check(status() == PQTRANS_INERROR, "which goes on");
	own_sql("ROLLBACK");

	/*
	 * the library's is ended, after a savepoint of the application and after
	 * an error
	 */
	works(pgsf_create(h, "t", "doc"), "create");
	own_sql("SAVEPOINT s");
	own_sql("ROLLBACK TO s");
	PQclear(PQexec(conn, "SELECT 1 / 0"));
	works(pgsf_close(h), "close after an error in the library's transaction");
	check(status() == PQTRANS_IDLE, "which is ended");

	/* the transaction of another handle is not */
	works(pgsf_create(h, "t", "doc"), "create");
	own_sql("ROLLBACK");
	check(pgsf_create(other, "t", "doc") == 0, "create with another handle");
	works(pgsf_close(h), "close");
	check(pgsf_store(other, INSERT_ID, id_is(100), NULL) == 0, "store: %s", pgsf_error(other));
	check(status() == PQTRANS_IDLE, "and commit");
	sql("DELETE FROM t WHERE id = 100");
	pgsf_free(other);
}

/* A transaction of the application is not ended by the library. */
static void
join_transaction(const char *data, size_t len)
{
	own_sql("BEGIN");
	works(put_bytes(1, data, len), "put in a transaction");
	check(status() == PQTRANS_INTRANS, "the transaction goes on");
	rows_are(0, "before COMMIT");
	own_sql("ROLLBACK");
	rows_are(0, "after ROLLBACK");
	own_sql("BEGIN");
	works(put_bytes(1, data, len), "put again");
	value_is(1, data, len, "before COMMIT");
	own_sql("COMMIT");
	rows_are(1, "after COMMIT");
}

/* An error leaves it failed, a savepoint saves it. */
static void
fail_in_transaction(const char *data, size_t len)
{
	own_sql("BEGIN");
	own_sql("SAVEPOINT s");
	fails(put_bytes(1, data, len), "23505", "a duplicate");
	check(status() == PQTRANS_INERROR, "the transaction has failed");
	fails(put_bytes(2, data, len), "25P02", "put in a failed transaction");
	own_sql("ROLLBACK TO s");
	works(put_bytes(2, data, len), "put after ROLLBACK TO");
	own_sql("COMMIT");
	value_is(2, data, len, "after ROLLBACK TO");
}

/* A value that is lost with a savepoint. */
static void
lose_by_savepoint(const char *data, size_t len)
{
	own_sql("BEGIN");
	own_sql("SAVEPOINT s");
	works(pgsf_create(h, "t", "doc"), "create after a savepoint");
	works(pgsf_write(h, data, len), "write");
	works(pgsf_flush(h), "flush");
	own_sql("ROLLBACK TO s");
	works(pgsf_close(h), "close after ROLLBACK TO");
	check(status() == PQTRANS_INTRANS, "the transaction is well");
	works(pgsf_create(h, "t", "doc"), "create");
	own_sql("ROLLBACK TO s");
	works(pgsf_write(h, data, 1000), "write to what is gone, gathered");
	fails(pgsf_flush(h), "42704", "write to what is gone, sent");
	own_sql("ROLLBACK");
}

/* A value that is lost with the transaction. */
static void
lose_by_commit(void)
{
	char		buf[10];

	own_sql("BEGIN");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	own_sql("COMMIT");
	fails(pgsf_read(h, buf, 10), "42704", "read after COMMIT");
	own_sql("BEGIN");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	own_sql("COMMIT");
	own_sql("BEGIN");
	fails(pgsf_read(h, buf, 10), "42704", "read in the next transaction");
	own_sql("ROLLBACK");
}

/* The library's own transaction ends with the value. */
static void
own_transaction(const char *data, size_t len)
{
	char		buf[100];

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open, idle before");
	check(status() == PQTRANS_INTRANS, "a transaction was begun");
	check(pgsf_read(h, buf, 100) == 100 && memcmp(buf, data, 100) == 0, "read");
	sql("DELETE FROM t WHERE id = 1");
	check(pgsf_seek(h, 500000, SEEK_SET) == 500000 && pgsf_read(h, buf, 100) == 100 &&
		  memcmp(buf, data + 500000, 100) == 0, "read after the row was deleted");
	works(pgsf_close(h), "close");
	check(status() == PQTRANS_IDLE, "and ended");
	works(pgsf_create(h, "t", "doc"), "create");
	works(pgsf_write(h, data, len), "write");
	works(pgsf_close(h), "close without storing");
	check(status() == PQTRANS_IDLE, "and ended");
}

void
trial_transactions(void)
{
	size_t		len = 1 * MB;
	char	   *data = bytes(len, 1);

	join_transaction(data, len);
	fail_in_transaction(data, len);
	lose_by_savepoint(data, len);
	lose_by_commit();
	own_transaction(data, len);
	replace_transactions();
	rows_are(1, "transactions");
	free(data);
}

/* One handle reads ahead while another one writes the same bytes. */
static void
copy_by_two_handles(pgsf *other, const char *data, size_t len)
{
	char	   *buf = malloc(100000);
	size_t		at = 0;
	int64_t		got;

	own_sql("BEGIN");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	check(pgsf_create(other, "t", "doc") == 0, "create with another handle");
	while ((got = pgsf_read(h, buf, 100000)) > 0)
	{
		if (memcmp(buf, data + at, got) != 0 || pgsf_write(other, buf, got) < 0)
			check(false, "copy at %zu: %s", at, pgsf_error(other));
		at += got;
	}
	check(at == len, "copied: %s", pgsf_error(h));
	got = pgsf_store(other, INSERT_ID, id_is(2), NULL);
	check(got == 0, "store: %s", pgsf_error(other));
	works(pgsf_close(h), "close");
	own_sql("COMMIT");
	value_is(2, data, len, "copy");
	free(buf);
}

/* An error of one handle that another one meets. */
static void
fail_in_other_handle(pgsf *other, const char *data, size_t len)
{
	int64_t		got;

	own_sql("BEGIN");
	own_sql("SAVEPOINT s");
	check(pgsf_create(other, "t", "doc") == 0, "create");
	own_sql("ROLLBACK TO s");
	check(pgsf_write(other, data, 1000) == 0, "write to what is gone");
	fails(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)),
		  "25P02", "open meets the failed transaction");
	got = pgsf_write(other, data, len);
	check(got < 0 && strcmp(pgsf_sqlstate(other), "42704") == 0,
		  "the error goes to whom it belongs: %s", pgsf_error(other));
	own_sql("ROLLBACK");
}

/* While a stream has the connection, it is in pipeline mode. */
static void
connection_in_use(void)
{
	char		buf[1000];

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	for (int i = 0; i < 3; i++)
		pgsf_read(h, buf, 1000);
	PQclear(PQexec(conn, "SELECT 1"));
	check(PQpipelineStatus(conn) != PQ_PIPELINE_OFF, "a stream keeps the connection");
	works(pgsf_flush(h), "flush");
	check(strcmp(own_sql("SELECT 2"), "2") == 0, "and gives it back");
	works(pgsf_close(h), "close");
}

/* The modes of the connection stay what they were. */
static void
keep_modes(const char *data, size_t len)
{
	int64_t		got;

	PQsetnonblocking(conn, 1);
	PQenterPipelineMode(conn);
	got = put_bytes(3, data, len);
	check(got == (int64_t) len, "put: %s", pgsf_error(h));
	check(PQisnonblocking(conn) && PQpipelineStatus(conn) == PQ_PIPELINE_ON,
		  "non-blocking and pipeline mode are back");
	PQsendQueryParams(conn, "SELECT 1", 0, NULL, NULL, NULL, NULL, 0);
	PQpipelineSync(conn);
	got = put_bytes(4, data, len);
	check(got < 0 && strcmp(pgsf_sqlstate(h), PGSF_ERROR_BUSY) == 0,
		  "with a command in progress: %s", pgsf_error(h));
	while (PQflush(conn) > 0)
		;
	for (int i = 0; i < 3; i++)
		PQclear(PQgetResult(conn));
	PQexitPipelineMode(conn);
	PQsetnonblocking(conn, 0);
	value_is(3, data, len, "modes");
}

/* The connection is in a COPY. */
static void
meet_copy(const char *data, size_t len)
{
	int64_t		got;

	PQclear(PQexec(conn, "COPY t TO STDOUT"));
	got = put_bytes(4, data, len);
	check(got < 0 && strcmp(pgsf_sqlstate(h), PGSF_ERROR_BUSY) == 0,
		  "in a COPY: %s", pgsf_error(h));
	connect_again();
}

/* Several handles, and the modes of the connection. */
void
trial_together(void)
{
	size_t		len = 3 * MB;
	char	   *data = bytes(len, 1);
	pgsf	   *other = pgsf_new(conn);

	works(put_bytes(1, data, len), "put");
	copy_by_two_handles(other, data, len);
	fail_in_other_handle(other, data, len);
	connection_in_use();
	keep_modes(data, len);
	meet_copy(data, len);
	rows_are(3, "together");
	pgsf_free(other);
	free(data);
}
