/*-------------------------------------------------------------------------
 *
 * insertions.c
 *	  Trials: bytes that are inserted into a value and deleted from it, beside reads and writes that
 *	  are under way in the library.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "trial.h"

/* What the open value of h has to be. */
static char *copy;
static int64_t len;

/* ---- both the value and its copy ---- */

static void
copy_insert(int64_t at, const char *data, int64_t size)
{
	if (size == 0)
		return;
	if (at > len)
	{
		memset(copy + len, 0, at - len);
		len = at;
	}
	memmove(copy + at + size, copy + at, len - at);
	memcpy(copy + at, data, size);
	len += size;
}

static void
insert_at(int64_t at, const char *data, int64_t size, const char *name)
{
	move(h, at);
	works(pgsf_insert(h, data, size), name);
	copy_insert(at, data, size);
	places_are(h, at + size, len, name);
}

static void
delete_at(int64_t at, int64_t count, const char *name)
{
	int64_t		there = at < len ? len - at : 0;
	int64_t		size = count < there ? count : there;

	move(h, at);
	gives(h, pgsf_delete(h, count), size, name);
	if (size > 0)
		memmove(copy + at, copy + at + size, len - at - size);
	len -= size;
	places_are(h, at, len, name);
}

/* The bytes end in the value. */
static void
write_at(int64_t at, const char *data, int64_t size, const char *name)
{
	move(h, at);
	works(pgsf_write(h, data, size), name);
	memcpy(copy + at, data, size);
	places_are(h, at + size, len, name);
}

static void
is_same(const char *name)
{
	gives(h, pgsf_seek(h, 0, SEEK_END), len, name);
	open_value_is(h, copy, len, name);
}

/* Open the value of a row, which has these bytes. */
static void
open_to_change(int id, const char *data, size_t data_len)
{
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(id)), "open");
	memcpy(copy, data, data_len);
	len = data_len;
}

/* Store the value in its row, and look at it. */
static void
store_changed(int id, const char *name)
{
	works(pgsf_store(h, UPDATE_ID, id_is(id), NULL), "store");
	value_is(id, copy, len, name);
}

/* ---- places ---- */

static void
all_places(const char *data, size_t data_len)
{
	open_to_change(1, data, data_len);
	insert_at(0, "begin", 5, "insert at the begin");
	insert_at(1000003, "middle", 6, "insert in the middle");
	insert_at(131072, data + 7, 131072, "insert a unit");
	insert_at(len, "end", 3, "insert at the end");
	is_same("inserted");
	insert_at(len + 300000, "behind", 6, "insert behind the end");
	insert_at(5, NULL, 0, "insert nothing");
	insert_at(len + 5, NULL, 0, "insert nothing behind the end");
	is_same("inserted, with a gap");
	delete_at(0, 3, "delete at the begin");
	delete_at(1000000, 200001, "delete in the middle");
	delete_at(262144, 131072, "delete a unit");
	delete_at(5, 0, "delete nothing");
	is_same("deleted");
	delete_at(len - 7, INT64_MAX, "delete to the end");
	delete_at(len, 1, "delete at the end");
	delete_at(len + 10, 1, "delete behind the end");
	delete_at(INT64_MAX, INT64_MAX, "delete far behind the end");
	is_same("deleted at the end");
	works(pgsf_close(h), "close");
	value_is(1, data, data_len, "nothing is stored");
	open_to_change(1, data, data_len);
	delete_at(0, INT64_MAX, "delete all");
	is_same("empty");
	insert_at(0, "anew", 4, "insert into nothing");
	is_same("anew");
	works(pgsf_close(h), "close");
}

/* Of a value that lies in its row, and a new one. */
static void
short_values(void)
{
	works(put_bytes(2, "abc", 3), "put");
	open_to_change(2, "abc", 3);
	insert_at(1, "12", 2, "insert into a short value");
	delete_at(2, 2, "delete of it");
	insert_at(7, "z", 1, "insert behind its end");
	is_same("a short value");
	store_changed(2, "a short value");
	works(pgsf_create(h, "t", "doc"), "create");
	len = 0;
	insert_at(0, "world", 5, "insert into a new value");
	insert_at(0, "hello, ", 7, "insert in front of it");
	is_same("a new value");
	works(pgsf_store(h, INSERT_ID, id_is(3), NULL), "store");
	value_is(3, "hello, world", 12, "a new value");
}

/* A new value that is long, and holes that begin anywhere after an insertion. */
static void
long_and_holes(const char *data, size_t data_len)
{
	works(pgsf_create(h, "t", "doc"), "create");
	works(pgsf_write(h, data, data_len), "write");
	memcpy(copy, data, data_len);
	len = data_len;
	insert_at(1000, "inserted", 8, "insert into a new long value");
	works(pgsf_store(h, INSERT_ID, id_is(4), NULL), "store");
	value_is(4, copy, len, "a new long value");
	open_to_change(1, data, data_len);
	move(h, 262144);
	gives(h, pgsf_erase(h, MB), MB, "make a hole");
	memset(copy + 262144, 0, MB);
	store_changed(1, "a hole");
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	insert_at(1, "x", 1, "insert in front of a hole");
	insert_at(600000, "y", 1, "insert into a hole");
	delete_at(100, 3, "delete in front of a hole");
	is_same("holes that have moved");
	store_changed(1, "holes that have moved");
}

/* ---- beside reads and writes ---- */

/* A stream has read ahead what moves then; it goes on behind the change. */
static void
beside_streams(const char *data, size_t data_len)
{
	char		buf[1000];

	open_to_change(1, data, data_len);
	begin_stream(h, copy, 1000);
	insert_at(4000, "inserted", 8, "insert into what a stream has read ahead");
	check(pgsf_read(h, buf, 1000) == 1000 && memcmp(buf, copy + 4008, 1000) == 0, "read on");
	begin_stream(h, copy, 1000);
	insert_at(0, data + 500, 300, "insert in front of it");
	move(h, 4000);
	check(pgsf_read(h, buf, 1000) == 1000 && memcmp(buf, copy + 4000, 1000) == 0, "read what came");
	begin_stream(h, copy, 1000);
	delete_at(4000, 700000, "delete what a stream has read ahead");
	check(pgsf_read(h, buf, 1000) == 1000 && memcmp(buf, copy + 4000, 1000) == 0, "read what came");
	begin_stream(h, copy, len - 3000);
	insert_at(len, "more", 4, "insert behind a stream at the end");
	move(h, len - 4);
	gives(h, pgsf_read(h, buf, 1000), 4, "read to the new end");
	begin_stream(h, copy, len - 4000);
	delete_at(len - 2000, 1500, "delete in front of the end");
	move(h, len - 600);
	check(pgsf_read(h, buf, 1000) == 600 && memcmp(buf, copy + len - 600, 600) == 0,
		  "read to the new end");
	is_same("beside streams");
	store_changed(1, "beside streams");
}

/* Gathered writes are sent before, and those behind go to where the bytes are then. */
static void
beside_writes(const char *data, size_t data_len)
{
	open_to_change(1, data, data_len);
	write_at(300000, "gathered", 8, "write");
	insert_at(300004, "inserted", 8, "insert into gathered bytes");
	write_at(300012, "more", 4, "write behind it");
	delete_at(300002, 4, "delete gathered bytes");
	write_at(300002, "x", 1, "write where they were");
	insert_at(299999, "y", 1, "insert in front of gathered bytes");
	write_at(300004, "z", 1, "write where they have ended");
	insert_at(300005, "zz", 2, "insert where they end");
	write_at(300007, "zzz", 3, "write where the insertion ends");
	check(PQpipelineStatus(conn) == PQ_PIPELINE_ON, "nothing was waited for");
	is_same("between writes");
	delete_at(len - 10, 5, "delete");
	works(pgsf_truncate(h, len - 3), "truncate");
	len -= 3;
	insert_at(len - 1, "last", 4, "insert");
	move(h, 262140);
	gives(h, pgsf_erase(h, 10), 10, "erase");
	memset(copy + 262140, 0, 10);
	insert_at(262145, "in zeros", 8, "insert");
	delete_at(262139, 3, "delete");
	is_same("between other changes");
	store_changed(1, "beside writes");
}

/* More commands than can be in flight, and no word of the application for the server. */
static void
many_small(const char *data, size_t data_len)
{
	bool		good = true;

	open_to_change(1, data, data_len);
	move(h, 500000);
	for (int i = 0; i < 300 && good; i++)
	{
		good = pgsf_insert(h, data + i * 7, 7) == 0;
		copy_insert(500000 + i * 7, data + i * 7, 7);
	}
	works(good ? 0 : -1, "many insertions");
	places_are(h, 502100, len, "many insertions");
	is_same("many insertions");
	for (int i = 0; i < 100; i++)
	{
		insert_at(1000 + i * 501, data + i, 1 + i * 3, "insert");
		delete_at(900000 - i * 77, 3 + i, "delete");
		write_at(1100 + i * 501, data + i * 50, 300, "write");
	}
	check(PQpipelineStatus(conn) == PQ_PIPELINE_ON, "nothing was waited for");
	works(pgsf_flush(h), "flush");
	check(PQpipelineStatus(conn) == PQ_PIPELINE_OFF, "the connection is free");
	is_same("many changes");
	store_changed(1, "many changes");
}

/* Bytes that move or go do not travel. */
static void
moved_does_not_travel(const char *data, size_t data_len)
{
	FILE	   *trace = tmpfile();

	open_to_change(1, data, data_len);
	PQtrace(conn, trace);
	insert_at(5, "x", 1, "insert");
	delete_at(10, 1000000, "delete");
	works(pgsf_flush(h), "flush");
	PQuntrace(conn);
	check(ftell(trace) > 100 && ftell(trace) < 10000, "in few bytes: %ld", ftell(trace));
	fclose(trace);
	is_same("in few bytes");
	works(pgsf_close(h), "close");
}

/* ---- wrong uses, errors ---- */

static void
wrong_uses(const char *data, size_t data_len)
{
	fails(pgsf_insert(h, "x", 1), PGSF_ERROR_STATE, "insert into nothing open");
	fails(pgsf_delete(h, 1), PGSF_ERROR_STATE, "delete from nothing open");
	check(pgsf_insert(NULL, "x", 1) < 0 && pgsf_delete(NULL, 1) < 0, "no handle");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	fails(pgsf_insert(h, "x", 1), PGSF_ERROR_STATE, "insert into what is read");
	fails(pgsf_insert(h, NULL, 0), PGSF_ERROR_STATE, "insert nothing into what is read");
	fails(pgsf_delete(h, 1), PGSF_ERROR_STATE, "delete from what is read");
	open_value_is(h, data, data_len, "what is read");
	works(pgsf_close(h), "close");
	open_to_change(1, data, data_len);
	fails(pgsf_insert(h, NULL, 1), PGSF_ERROR_ARGUMENT, "no buffer");
	fails(pgsf_delete(h, -1), PGSF_ERROR_ARGUMENT, "count -1");
	fails(pgsf_delete(h, INT64_MIN), PGSF_ERROR_ARGUMENT, "count -2^63");
	is_same("still open");
	works(pgsf_close(h), "close");
}

/* All of them close the value. */
static void
errors(const char *data, size_t data_len)
{
	int64_t		rc;

	open_to_change(1, data, data_len);
	works(pgsf_truncate(h, INT64_MAX - 3), "truncate to much");
	move(h, 10);
	works(pgsf_insert(h, "xyz", 3), "insert up to 2^63 - 1");
	gives(h, pgsf_length(h), INT64_MAX, "the length");
	works(pgsf_flush(h), "flush");
	fails(pgsf_insert(h, "x", 1), "54000", "insert beyond 2^63 - 1");
	fails(pgsf_flush(h), PGSF_ERROR_STATE, "and the value is closed");
	open_to_change(1, data, data_len);
	move(h, INT64_MAX);
	fails(pgsf_insert(h, "x", 1), "54000", "insert at 2^63 - 1");
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");

	/* the server says it to a later call */
	own_sql("BEGIN");
	own_sql("SAVEPOINT s");
	open_to_change(1, data, data_len);
	own_sql("ROLLBACK TO s");
	works(pgsf_insert(h, "x", 1), "insert into what is gone");
	fails(pgsf_flush(h), "42704", "which the next call says");
	own_sql("ROLLBACK TO s");
	open_to_change(1, data, data_len);
	own_sql("ROLLBACK TO s");
	gives(h, pgsf_delete(h, 10), 10, "delete from what is gone");
	fails(pgsf_store(h, UPDATE_ID, id_is(1), NULL), "42704", "which the next call says");
	own_sql("ROLLBACK");

	open_to_change(1, data, data_len);
	pgsf_cancel(h);
	fails(pgsf_insert(h, data, MB), PGSF_ERROR_CANCELLED, "insert, cancelled before");
	open_to_change(1, data, data_len);
	pgsf_cancel(h);
	rc = pgsf_delete(h, 10);
	fails(rc < 0 ? rc : pgsf_flush(h), PGSF_ERROR_CANCELLED, "delete, cancelled before");
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
	value_is(1, data, data_len, "as it was");
}

/* Non-blocking and pipeline mode are what they were. */
static void
keep_modes(const char *data, size_t data_len)
{
	open_to_change(1, data, data_len);
	PQsetnonblocking(conn, 1);
	PQenterPipelineMode(conn);
	insert_at(1000, data, 700000, "insert");
	delete_at(500, 1000, "delete");
	works(pgsf_flush(h), "flush");
	check(PQisnonblocking(conn) && PQpipelineStatus(conn) == PQ_PIPELINE_ON, "which are back");
	PQexitPipelineMode(conn);
	PQsetnonblocking(conn, 0);
	is_same("in both modes");
	works(pgsf_close(h), "close");
}

/* Each trial begins with the same value. */
static void
put_anew(const char *data, size_t data_len)
{
	sql("DELETE FROM t WHERE id = 1");
	works(put_bytes(1, data, data_len), "put");
}

void
trial_insertions(void)
{
	size_t		data_len = 3 * MB + 77;
	char	   *data = bytes(data_len, 1);

	copy = malloc(2 * data_len);
	put_anew(data, data_len);
	all_places(data, data_len);
	short_values();
	long_and_holes(data, data_len);
	put_anew(data, data_len);
	wrong_uses(data, data_len);
	errors(data, data_len);
	keep_modes(data, data_len);
	moved_does_not_travel(data, data_len);
	beside_streams(data, data_len);
	put_anew(data, data_len);
	beside_writes(data, data_len);
	put_anew(data, data_len);
	many_small(data, data_len);
	free(copy);
	free(data);
}

/* ---- long values ---- */

/* Does the server know the stored value as pieces? */
static bool
is_pieces(void)
{
	return atoi(sql("SELECT pieces FROM t, securefile_storage(doc) WHERE id = 1")) > 1;
}

/*
 * Insertions that are many commands each; the second time into a value that is stored in pieces
 * already.
 */
void
trial_long_insertions(void)
{
	size_t		data_len = 20 * MB + 77;
	char	   *data = bytes(data_len, 2);

	copy = malloc(3 * data_len);
	put_anew(data, data_len);
	open_to_change(1, data, data_len);
	insert_at(7 * MB + 13, data + 1, 20 * MB, "insert 20 MB");
	write_at(7 * MB + 10, "across the begin", 16, "write");
	insert_at(27 * MB + 13, "at the end of them", 18, "insert");
	insert_at(7 * MB + 13, "at their begin", 14, "insert");
	insert_at(20 * MB, "among them", 10, "insert");
	delete_at(19 * MB, 10 * MB, "delete 10 MB");
	is_same("20 MB inserted");
	store_changed(1, "20 MB inserted");
	check(is_pieces(), "it is stored in pieces");

	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	is_same("pieces");
	begin_stream(h, copy, 6 * MB);
	insert_at(9 * MB + 1, data, 3 * MB + 5, "insert 3 MB");
	insert_at(1, data + 5, 100, "insert");
	delete_at(2, 5 * MB, "delete 5 MB");
	insert_at(len, data + 9, 2 * MB, "insert at the end");
	write_at(4 * MB - 1, data + 11, 9 * MB, "write 9 MB");
	is_same("pieces, changed");
	store_changed(1, "pieces, changed");
	free(copy);
	free(data);
}
