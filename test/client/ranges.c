/*-------------------------------------------------------------------------
 *
 * ranges.c
 *	  Trials: ranges that the server copies, erases and searches, beside reads and writes that are
 *	  under way in the library.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE				/* memmem() */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <unistd.h>

#include "trial.h"

/* A second handle of the connection. */
static pgsf *other;

/* Check that a call on the second handle succeeded, or failed with that SQLSTATE. */
static void
other_works(int64_t rc, const char *name)
{
	check(rc >= 0, "%s: %s", name, pgsf_error(other));
}

static void
other_fails(int64_t rc, const char *sqlstate, const char *name)
{
	check(rc < 0 && strcmp(pgsf_sqlstate(other), sqlstate) == 0, "%s: %s", name, pgsf_error(other));
}

/* ---- copying ---- */

/* A copy moves the server's handle of the source away from where the last read has left it. */
static void
read_behind_copy(const char *data)
{
	char		buf[1000];

	move(h, 100);
	check(pgsf_read(h, buf, sizeof(buf)) == 1000, "a read");
	gives(other, pgsf_copy_range(other, h, 5000), 5000, "a copy behind it");
	move(h, 1100);
	check(pgsf_read(h, buf, sizeof(buf)) == 1000 && memcmp(buf, data + 1100, 1000) == 0,
		  "what follows the read");
}

/* While the source has a stream in flight, and the target bytes that are gathered. */
static void
copy_beside_streams(const char *data, size_t len)
{
	char	   *copy = calloc(1, len + 3 * MB);

	own_sql("BEGIN");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open the source");
	other_works(pgsf_create(other, "t", "doc"), "create the target");
	other_works(pgsf_write(other, "head", 4), "gathered");
	begin_stream(h, data, 5);
	gives(other, pgsf_copy_range(other, h, 1000000), 1000000, "copy");
	check(PQpipelineStatus(conn) == PQ_PIPELINE_OFF, "the connection is free");
	places_are(other, 1000004, 1000004, "the target");
	places_are(h, 1003005, (int64_t) len, "the source");
	memcpy(copy, "head", 4);
	memcpy(copy + 4, data + 3005, 1000000);
	begin_stream(h, data, 1003005);
	open_value_is(other, copy, 1000004, "copied");

	move(other, 2 * MB);
	move(h, 7);
	gives(other, pgsf_copy_range(other, h, -1), (int64_t) len - 7, "all, behind a gap");
	memcpy(copy + 2 * MB, data + 7, len - 7);
	places_are(h, (int64_t) len, (int64_t) len, "at the end");
	gives(other, pgsf_copy_range(other, h, 10), 0, "nothing is left");
	move(h, (int64_t) len + 100);
	gives(other, pgsf_copy_range(other, h, -1), 0, "beyond the end");
	move(h, (int64_t) len - 10);
	move(other, 2);
	other_works(pgsf_write(other, "3", 1), "gathered");
	gives(other, pgsf_copy_range(other, h, INT64_MAX), 10, "fewer than asked for");
	copy[2] = '3';
	memcpy(copy + 3, data + len - 10, 10);
	other_works(pgsf_write(other, "tail", 4), "a write behind it");
	memcpy(copy + 13, "tail", 4);
	open_value_is(other, copy, len - 7 + 2 * MB, "all of it");
	read_behind_copy(data);
	gives(other, pgsf_truncate(other, (int64_t) len - 7 + 2 * MB), 0, "truncate");
	works(pgsf_close(h), "close");
	other_works(pgsf_store(other, INSERT_ID, id_is(2), NULL), "store");
	own_sql("COMMIT");
	value_is(2, copy, len - 7 + 2 * MB, "copied");
	free(copy);
}

/* What was written to the source and is neither sent nor stored. */
static void
copy_unsent(const char *data, size_t len)
{
	char	   *copy = malloc(len);

	memcpy(copy, data, len);
	memcpy(copy + 300000, "unsent", 6);
	other_works(pgsf_create(other, "t", "doc"), "create the target");
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open the source");
	move(h, 300000);
	works(pgsf_write(h, "unsent", 6), "gathered");
	move(h, 0);
	gives(other, pgsf_copy_range(other, h, -1), (int64_t) len, "copy");
	open_value_is(other, copy, len, "with what was not sent");
	open_value_is(h, copy, len, "the source");
	works(pgsf_close(h), "close");
	other_works(pgsf_store(other, INSERT_ID, id_is(3), NULL), "store");
	value_is(3, copy, len, "stored");
	value_is(1, data, len, "the source is not stored");
	free(copy);
}

/* The bytes do not travel: what libpq traces of the messages has their contents. */
static void
copy_does_not_travel(const char *data, size_t len)
{
	FILE	   *trace = tmpfile();
	char	   *found;

	other_works(pgsf_create(other, "t", "doc"), "create the target");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open the source");
	PQtrace(conn, trace);
	gives(other, pgsf_copy_range(other, h, -1), (int64_t) len, "copy");
	gives(other, pgsf_copy_value(other, 5, 1000000, SELECT_ID, id_is(1)), 1000000, "copy of a row");
	PQuntrace(conn);
	check(ftell(trace) > 100 && ftell(trace) < 10000, "in few bytes: %ld", ftell(trace));
	fclose(trace);
	found = malloc(len + 1000000);
	memcpy(found, data, len);
	memcpy(found + len, data + 5, 1000000);
	open_value_is(other, found, len + 1000000, "two copies");
	works(pgsf_close(h), "close");
	other_works(pgsf_close(other), "close");
	free(found);
}

/* ---- copying from a row ---- */

static void
copy_of_row(const char *data, size_t len)
{
	static const char *const values[] = {"x", "1"};
	static const pgsf_params two = {2, NULL, values, NULL, NULL};
	char	   *copy = calloc(1, 2 * len + 2 * MB);

	works(pgsf_create(h, "t", "doc"), "create");
	works(pgsf_write(h, "head", 4), "gathered");
	gives(h, pgsf_copy_value(h, 10, 300000, "SELECT doc FROM t WHERE $1 = 'x' AND id = $2::int",
							 &two), 300000, "a part of a row");
	memcpy(copy, "head", 4);
	memcpy(copy + 4, data + 10, 300000);
	places_are(h, 300004, 300004, "behind it");
	gives(h, pgsf_copy_value(h, (int64_t) len, 10, SELECT_ID, id_is(1)), 0, "at the end");
	gives(h, pgsf_copy_value(h, INT64_MAX - 1, INT64_MAX, SELECT_ID, id_is(1)), 0, "far behind it");
	gives(h, pgsf_copy_value(h, 5, 0, SELECT_ID, id_is(1)), 0, "nothing");
	gives(h, pgsf_copy_value(h, (int64_t) len - 3, 10, SELECT_ID, id_is(1)), 3, "fewer at the end");
	memcpy(copy + 300004, data + len - 3, 3);
	begin_stream(h, copy, 0);
	move(h, MB);
	gives(h, pgsf_copy_value(h, 0, -1, SELECT_ID, id_is(1)), (int64_t) len, "all, behind a gap");
	memcpy(copy + MB, data, len);
	open_value_is(h, copy, len + MB, "made of ranges");
	works(pgsf_store(h, INSERT_ID, id_is(4), NULL), "store");
	value_is(4, copy, len + MB, "made of ranges");
	free(copy);
}

/* A SELECT that yields no value closes the value; a wrong argument does not. */
static void
rows_that_are_none(void)
{
	sql("INSERT INTO t VALUES (50, NULL)");
	works(pgsf_create(h, "t", "doc"), "create");
	fails(pgsf_copy_value(h, 0, -1, NULL, NULL), PGSF_ERROR_ARGUMENT, "no statement");
	fails(pgsf_copy_value(h, -1, -1, SELECT_ID, id_is(1)), PGSF_ERROR_ARGUMENT, "offset -1");
	fails(pgsf_copy_value(h, INT64_MAX, 1, SELECT_ID, id_is(1)), PGSF_ERROR_ARGUMENT,
		  "offset 2^63 - 1");
	fails(pgsf_copy_value(h, 0, -2, SELECT_ID, id_is(1)), PGSF_ERROR_ARGUMENT, "length -2");
	fails(pgsf_copy_value(h, 0, -1, SELECT_ID, NULL), PGSF_ERROR_ARGUMENT,
		  "a parameter is missing");
	fails(pgsf_copy_value(h, 0, -1, SELECT_ID, id_is(99)), PGSF_ERROR_NOT_FOUND, "no row");
	fails(pgsf_copy_value(h, 0, -1, SELECT_ID, id_is(1)), PGSF_ERROR_STATE,
		  "and the value is closed");
	works(pgsf_create(h, "t", "doc"), "create");
	fails(pgsf_copy_value(h, 0, -1, "SELECT doc FROM t", NULL), PGSF_ERROR_MANY, "several rows");
	works(pgsf_create(h, "t", "doc"), "create");
	fails(pgsf_copy_value(h, 0, -1, SELECT_ID, id_is(50)), PGSF_ERROR_NULL, "NULL");
	works(pgsf_create(h, "t", "doc"), "create");
	fails(pgsf_copy_value(h, 0, -1, "SELECT id FROM t WHERE id = 1", NULL), "42804",
		  "another type");
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
}

/* ---- wrong uses ---- */

/* All of them leave the values open as they were. */
static void
wrong_uses(const char *data, size_t len)
{
	PGconn	   *elsewhere = PQconnectdb(conninfo);
	pgsf	   *foreign = pgsf_new(elsewhere);
	int64_t		found;

	fails(pgsf_copy_range(h, other, 1), PGSF_ERROR_STATE, "copy to nothing");
	fails(pgsf_erase(h, 1), PGSF_ERROR_STATE, "erase nothing");
	fails(pgsf_search(h, "x", 1, &found), PGSF_ERROR_STATE, "search nothing");
	check(pgsf_copy_range(NULL, h, 1) < 0 && pgsf_erase(NULL, 1) < 0 &&
		  pgsf_search(NULL, "x", 1, &found) < 0 &&
		  pgsf_copy_value(NULL, 0, -1, "SELECT 1", NULL) < 0, "no handle");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_create(other, "t", "doc"), "create");
	fails(pgsf_copy_range(h, other, 1), PGSF_ERROR_STATE, "copy to what is read");
	fails(pgsf_copy_value(h, 0, -1, SELECT_ID, id_is(1)), PGSF_ERROR_STATE,
		  "copy a row to what is read");
	fails(pgsf_erase(h, 1), PGSF_ERROR_STATE, "erase what is read");
	fails(pgsf_search(h, "x", 1, NULL), PGSF_ERROR_ARGUMENT, "no place for the result");
	fails(pgsf_search(h, NULL, 1, &found), PGSF_ERROR_ARGUMENT, "no pattern");
	fails(pgsf_search(h, data, (size_t) 1 << 30, &found), PGSF_ERROR_ARGUMENT, "a pattern of 1 GB");
	other_fails(pgsf_copy_range(other, NULL, 1), PGSF_ERROR_ARGUMENT, "no source");
	other_fails(pgsf_copy_range(other, other, 1), PGSF_ERROR_ARGUMENT, "the source is the target");
	other_fails(pgsf_copy_range(other, foreign, 1), PGSF_ERROR_ARGUMENT,
				"a source of another connection");
	other_fails(pgsf_copy_range(other, h, -2), PGSF_ERROR_ARGUMENT, "count -2");
	other_fails(pgsf_erase(other, -1), PGSF_ERROR_ARGUMENT, "count -1");
	gives(other, pgsf_copy_range(other, h, -1), (int64_t) len, "both are open");
	open_value_is(other, data, len, "copied");
	other_works(pgsf_close(other), "close");
	other_works(pgsf_open(other, PGSF_READ, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_close(other), "close");
	works(pgsf_close(h), "close");
	other_works(pgsf_create(other, "t", "doc"), "create");
	other_fails(pgsf_copy_range(other, h, 1), PGSF_ERROR_STATE, "a source that is closed");
	other_works(pgsf_close(other), "close");
	pgsf_free(foreign);
	PQfinish(elsewhere);
}

/* Errors close the target, and are said by the handle whose error it is. */
static void
errors(const char *data)
{
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_create(other, "t", "doc"), "create");
	move(other, INT64_MAX - 3);
	other_fails(pgsf_copy_range(other, h, -1), "54000", "copy beyond 2^63");
	other_fails(pgsf_flush(other), PGSF_ERROR_STATE, "and the target is closed");
	begin_stream(h, data, 0);
	works(pgsf_close(h), "the source is not");

	/*
	 * the source is gone with a savepoint, which only shows when its bytes
	 * are sent
	 */
	own_sql("BEGIN");
	other_works(pgsf_create(other, "t", "doc"), "create the target");
	own_sql("SAVEPOINT s");
	works(pgsf_create(h, "t", "doc"), "create the source");
	own_sql("ROLLBACK TO s");
	works(pgsf_write(h, data, 1000), "write to what is gone");
	works(pgsf_seek(h, 0, SEEK_SET), "seek");
	other_fails(pgsf_copy_range(other, h, -1), "42704", "copy from what is gone");
	other_fails(pgsf_flush(other), PGSF_ERROR_STATE, "the target is closed");
	fails(pgsf_flush(h), "42704", "the source says it, too");
	own_sql("ROLLBACK");
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
}

/* ---- erasing ---- */

static void
erase(const char *data, size_t len)
{
	char	   *copy = malloc(len);

	memcpy(copy, data, len);
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	begin_stream(h, copy, 1000);
	gives(h, pgsf_erase(h, 500000), 500000, "what a stream has read ahead");
	memset(copy + 4000, 0, 500000);
	places_are(h, 4000, (int64_t) len, "erased");
	open_value_is(h, copy, len, "erased");
	move(h, 2000000);
	works(pgsf_write(h, "gathered", 8), "write");
	move(h, 2000004);
	gives(h, pgsf_erase(h, 100), 100, "behind a write");
	works(pgsf_write(h, "b", 1), "write");
	move(h, 2000015);
	gives(h, pgsf_erase(h, 1), 1, "behind another one");
	memcpy(copy + 2000000, "gath", 4);
	memset(copy + 2000004, 0, 100);
	copy[2000004] = 'b';
	copy[2000015] = 0;
	open_value_is(h, copy, len, "erased between writes");
	move(h, (int64_t) len - 5);
	gives(h, pgsf_erase(h, 0), 0, "no byte");
	gives(h, pgsf_erase(h, INT64_MAX), 5, "not beyond the end");
	memset(copy + len - 5, 0, 5);
	move(h, (int64_t) len + 7);
	gives(h, pgsf_erase(h, 7), 0, "beyond the end");
	places_are(h, (int64_t) len + 7, (int64_t) len, "the length");
	move(h, 0);
	check(pgsf_read(h, copy, 10) == 10 && memcmp(copy, data, 10) == 0, "a read at another place");
	works(pgsf_store(h, UPDATE_ID, id_is(1), NULL), "store");
	value_is(1, copy, len, "erased");
	free(copy);
	sql("DELETE FROM t WHERE id = 1");
	works(put_bytes(1, data, len), "put again");
}

/* ---- where gathered bytes end ---- */

/* One of the calls for a range of 10 bytes, at the position of h, and the same for its copy. */
static void
any_range(int which, char *at, char *end, const char *data)
{
	int64_t		found;

	switch (which)
	{
		case 0:
			gives(h, pgsf_erase(h, 10), 10, "erase");
			memset(at, 0, 10);
			break;
		case 1:
			move(other, 0);
			gives(h, pgsf_copy_range(h, other, 10), 10, "copy");
			memcpy(at, data, 10);
			break;
		case 2:
			gives(h, pgsf_copy_value(h, 0, 10, SELECT_ID, id_is(1)), 10, "copy of a row");
			memcpy(at, data, 10);
			break;
		case 3:
			gives(h, pgsf_delete(h, 10), 10, "delete");
			memmove(at, at + 10, end - at - 10);
			break;
		case 4:
			works(pgsf_insert(h, data, 10), "insert");
			memmove(at + 10, at, end - at);
			memcpy(at, data, 10);
			break;
		default:
			works(pgsf_search(h, "nowhere, nowhere", 16, &found), "search");
			break;
	}
}

/*
 * The bytes gathered before a range leave the server's handle at their end, and the range moves it
 * away: what goes on at that end has to seek.
 */
static void
go_on_behind_gathered(const char *data, size_t len)
{
	char	   *copy = malloc(len + 10);
	char		buf[8];

	memcpy(copy, data, len);
	own_sql("BEGIN");
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_open(other, PGSF_READ, SELECT_ID, id_is(1)), "open the source");
	for (int i = 0; i < 2 * 6; i++)
	{
		int64_t		at = 10000 * (i + 1);

		move(h, at);
		works(pgsf_write(h, "gathered", 8), "write");
		memcpy(copy + at, "gathered", 8);
		move(h, at + 5000);
		any_range(i / 2, copy + at + 5000, copy + len, data);
		len = pgsf_length(h);
		move(h, at + 8);
		if (i % 2 == 0)
			check(pgsf_read(h, buf, 8) == 8 && memcmp(buf, copy + at + 8, 8) == 0, "read on");
		else
		{
			works(pgsf_write(h, "went on.", 8), "write on");
			memcpy(copy + at + 8, "went on.", 8);
		}
	}
	open_value_is(h, copy, len, "gone on behind gathered bytes");
	works(pgsf_close(h), "close");
	other_works(pgsf_close(other), "close");
	own_sql("COMMIT");
	free(copy);
}

/* ---- searching ---- */

static void
found_at(int64_t from, const char *pattern, size_t len, int64_t wanted)
{
	int64_t		found = -2;
	int			rc;

	(void) pgsf_seek(h, from, SEEK_SET);
	rc = pgsf_search(h, pattern, len, &found);
	check(rc == 0 && found == wanted && pgsf_tell(h) == from,
		  "%zu bytes from %lld: %lld, not %lld: %s", len, (long long) from, (long long) found,
		  (long long) wanted, pgsf_error(h));
}

static void
search(const char *data, size_t len)
{
	int64_t		end = (int64_t) len;
	char	   *zeros = calloc(1, 100000);
	int64_t		zero = end;

	while (data[zero - 1] == 0)
		zero--;
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	begin_stream(h, data, 0);
	found_at(3000, data + 262140, 20, 262140);
	begin_stream(h, data, 3000);
	found_at(262140, data + 262140, 20, 262140);
	found_at(262141, data + 262140, 20, -1);
	found_at(0, data + 1000, 600000, 1000);
	found_at(0, data, len, 0);
	found_at(0, data + len - 9, 9, end - 9);
	found_at(end - 8, data + len - 9, 9, -1);
	found_at(17, NULL, 0, 17);
	found_at(end, "", 0, end);
	found_at(end + 1, "x", 1, -1);
	found_at(INT64_MAX, "x", 1, -1);
	found_at(0, zeros, 100000, -1);
	move(h, end + 200000);
	works(pgsf_write(h, "a marker that nobody has sent", 29), "gathered, behind a gap");
	found_at(100, "marker that nobody", 18, end + 200002);
	found_at(100, zeros, 100000, zero);
	move(h, end + 200002);
	works(pgsf_write(h, "M", 1), "gathered");
	found_at(100, "marker that nobody", 18, -1);
	move(h, 0);
	gives(h, pgsf_erase(h, 300000), 300000, "erase");
	found_at(0, data + 262140, 20, -1);
	found_at(0, zeros, 100000, 0);
	works(pgsf_close(h), "close");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open for reading");
	found_at(0, data + 262140, 20, 262140);
	works(pgsf_close(h), "close");
	free(zeros);
}

/* ---- at random, two handles beside local copies ---- */

/* A local copy of an open value. */
typedef struct Copy
{
	pgsf	   *handle;
	char	   *data;
	int64_t		len;
	int64_t		at;
} Copy;

#define ROOM	(6 * MB)

/* What a copy has from its position on. */
static int64_t
left_of(const Copy *copy, int64_t count)
{
	int64_t		left = copy->len > copy->at ? copy->len - copy->at : 0;

	return count < left ? count : left;
}

/* The bytes at the position of a copy are others now. */
static void
put_into(Copy *copy, const char *bytes, int64_t len)
{
	if (len == 0)
		return;
	memmove(copy->data + copy->at, bytes, len);
	copy->at += len;
	if (copy->len < copy->at)
		copy->len = copy->at;
}

static int64_t
any_size(void)
{
	return rand() % (rand() % 10 == 0 ? 700000 : 3000);
}

static bool
read_step(Copy *copy, int64_t size, char *buf)
{
	int64_t		want = left_of(copy, size);
	bool		good = pgsf_read(copy->handle, buf, size) == want &&
		memcmp(buf, copy->data + copy->at, want) == 0;

	copy->at += want;
	return good;
}

static bool
erase_step(Copy *copy, int64_t size)
{
	int64_t		want = left_of(copy, size);

	memset(copy->data + copy->at, 0, want);
	return pgsf_erase(copy->handle, size) == want;
}

static bool
delete_step(Copy *copy, int64_t size)
{
	int64_t		want = left_of(copy, size);
	char	   *at = copy->data + copy->at;

	if (want > 0)
	{
		memmove(at, at + want, copy->len - copy->at - want);
		copy->len -= want;
		memset(copy->data + copy->len, 0, want);
	}
	return pgsf_delete(copy->handle, size) == want;
}

static bool
insert_step(Copy *copy, int64_t size, const char *buf)
{
	char	   *at = copy->data + copy->at;

	if (copy->at < copy->len && copy->len + size > ROOM)
		return true;
	if (copy->at < copy->len)
	{
		memmove(at + size, at, copy->len - copy->at);
		copy->len += size;
	}
	put_into(copy, buf, size);
	return pgsf_insert(copy->handle, buf, size) == 0;
}

static bool
search_step(Copy *copy, int64_t size)
{
	int64_t		from = copy->len > 0 ? rand() % copy->len : 0;
	int64_t		len = size < copy->len - from ? size : copy->len - from;
	char	   *place = copy->at > copy->len ? NULL :
		memmem(copy->data + copy->at, copy->len - copy->at, copy->data + from, len);
	int64_t		found;

	return pgsf_search(copy->handle, copy->data + from, len, &found) == 0 &&
		found == (place == NULL ? -1 : place - copy->data);
}

static bool
copy_step(Copy *copy, Copy *source, int64_t size)
{
	int64_t		want = left_of(source, rand() % 20 == 0 ? INT64_MAX : size);

	if (copy->at + want > ROOM)
		return true;
	size = want < left_of(source, INT64_MAX) ? want : -1;
	put_into(copy, source->data + source->at, want);
	source->at += want;
	return pgsf_copy_range(copy->handle, source->handle, size) == want;
}

/* One step at random. */
static bool
any_step(Copy *copy, Copy *source, char *buf)
{
	int64_t		size = any_size();

	if (rand() % 3 == 0)
	{
		copy->at = rand() % (copy->len + 300000);
		if (pgsf_seek(copy->handle, copy->at, SEEK_SET) != copy->at)
			return false;
	}
	if (copy->at + size > ROOM)
		copy->at = pgsf_seek(copy->handle, 0, SEEK_SET);
	for (int64_t i = 0; i < size; i++)
		buf[i] = (char) rand();
	switch (rand() % 10)
	{
		case 0:
			return erase_step(copy, size);
		case 1:
			return search_step(copy, size);
		case 2:
			return copy_step(copy, source, size);
		case 3:
		case 4:
			return read_step(copy, size, buf);
		case 5:
			if (rand() % 10 > 0)
				return pgsf_flush(copy->handle) == 0;
			size = rand() % (copy->len + 1);
			memset(copy->data + size, 0, ROOM - size);
			copy->len = size;
			return pgsf_truncate(copy->handle, size) == 0;
		case 6:
			return insert_step(copy, size, buf);
		case 7:
			return delete_step(copy, size);
		default:
			put_into(copy, buf, size);
			return pgsf_write(copy->handle, buf, size) == 0;
	}
}

static void
at_random(const char *data, size_t len)
{
	unsigned	seed = getenv("TRIAL_SEED") ? (unsigned) atoi(getenv("TRIAL_SEED")) : 1;
	Copy		copies[2] = {{h, calloc(1, ROOM), (int64_t) len, 0},
	{other, calloc(1, ROOM), 0, 0}};
	char	   *buf = malloc(ROOM);
	bool		good = true;

	srand(seed);
	memcpy(copies[0].data, data, len);
	own_sql("BEGIN");
	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_create(other, "t", "doc"), "create");
	for (int i = 0; i < 1500 && good; i++)
	{
		int			which = rand() % 2;

		good = any_step(&copies[which], &copies[1 - which], buf) &&
			pgsf_tell(h) == copies[0].at && pgsf_tell(other) == copies[1].at &&
			pgsf_length(h) == copies[0].len && pgsf_length(other) == copies[1].len;
		if (!good)
			check(false, "step %d of seed %u: %s, %s", i, seed, pgsf_error(h), pgsf_error(other));
	}
	open_value_is(h, copies[0].data, copies[0].len, "one");
	open_value_is(other, copies[1].data, copies[1].len, "the other");
	works(pgsf_store(h, UPDATE_ID, id_is(1), NULL), "store");
	other_works(pgsf_store(other, INSERT_ID, id_is(5), NULL), "store");
	own_sql("COMMIT");
	value_is(1, copies[0].data, copies[0].len, "after steps at random");
	value_is(5, copies[1].data, copies[1].len, "after steps at random");
	for (int i = 0; i < 2; i++)
		free(copies[i].data);
	free(buf);
}

/* ---- the connection ---- */

/* Non-blocking and pipeline mode are what they were. */
static void
keep_modes(const char *data, size_t len)
{
	int64_t		found;

	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_create(other, "t", "doc"), "create");
	PQsetnonblocking(conn, 1);
	PQenterPipelineMode(conn);
	gives(other, pgsf_copy_range(other, h, 1000), 1000, "copy");
	gives(h, pgsf_erase(h, 10), 10, "erase");
	works(pgsf_search(h, data + 2000, 100, &found), "search");
	check(found == 2000, "found");
	gives(other, pgsf_copy_value(other, 0, 10, SELECT_ID, id_is(1)), 10, "copy of a row");
	check(PQisnonblocking(conn) && PQpipelineStatus(conn) == PQ_PIPELINE_ON, "which are back");
	PQsendQueryParams(conn, "SELECT 1", 0, NULL, NULL, NULL, NULL, 0);
	PQpipelineSync(conn);
	other_fails(pgsf_copy_range(other, h, 1000), PGSF_ERROR_BUSY, "a command is in progress");
	while (PQflush(conn) > 0)
		;
	for (int i = 0; i < 3; i++)
		PQclear(PQgetResult(conn));
	gives(other, pgsf_copy_range(other, h, 1000), 1000, "and is not any more");
	PQexitPipelineMode(conn);
	PQsetnonblocking(conn, 0);
	other_works(pgsf_close(other), "close");
	works(pgsf_close(h), "close");
	value_is(1, data, len, "as it was");
}

static void *
cancel_soon(void *arg)
{
	usleep(100000);
	pgsf_cancel(arg);
	return NULL;
}

/* Cancelled before, and while the server works. */
static void
cancelled(void)
{
	pthread_t	thread;
	int64_t		found;

	works(pgsf_open(h, PGSF_READ_WRITE, SELECT_ID, id_is(1)), "open");
	pgsf_cancel(h);
	fails(pgsf_search(h, "x", 1, &found), PGSF_ERROR_CANCELLED, "search, cancelled before");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_create(other, "t", "doc"), "create");
	pgsf_cancel(other);
	other_fails(pgsf_copy_range(other, h, -1), PGSF_ERROR_CANCELLED, "copy, cancelled before");
	(void) pgsf_close(h);
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "the transaction of the source is ended");
	works(pgsf_create(h, "t", "doc"), "create");
	pthread_create(&thread, NULL, cancel_soon, h);
	fails(pgsf_copy_value(h, 0, -1, "SELECT doc FROM t, pg_sleep(600) WHERE id = 1", NULL),
		  PGSF_ERROR_CANCELLED, "copy of a row that is waited for");
	pthread_join(thread, NULL);
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
}

/* The session ends. */
static void
lost(void)
{
	char		query[100];
	int64_t		rc;

	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open");
	other_works(pgsf_create(other, "t", "doc"), "create");
	snprintf(query, sizeof(query), "SELECT pg_terminate_backend(%d, 60000)", PQbackendPID(conn));
	sql(query);
	rc = pgsf_copy_range(other, h, -1);
	check(rc < 0 && (strcmp(pgsf_sqlstate(other), "57P01") == 0 ||
					 strcmp(pgsf_sqlstate(other), PGSF_ERROR_CONNECTION) == 0),
		  "copy in a session that has ended: %s", pgsf_error(other));
	other_fails(pgsf_flush(other), PGSF_ERROR_STATE, "the target is closed");
	pgsf_free(other);
	other = NULL;
	connect_again();
}

void
trial_ranges(void)
{
	size_t		len = 3 * MB + 77;
	char	   *data = bytes(len, 1);

	works(put_bytes(1, data, len), "put");
	other = pgsf_new(conn);
	copy_beside_streams(data, len);
	copy_unsent(data, len);
	copy_does_not_travel(data, len);
	copy_of_row(data, len);
	rows_that_are_none();
	wrong_uses(data, len);
	errors(data);
	erase(data, len);
	go_on_behind_gathered(data, len);
	search(data, len);
	keep_modes(data, len);
	cancelled();
	lost();
	other = pgsf_new(conn);
	at_random(data, len);
	pgsf_free(other);
	free(data);
}
