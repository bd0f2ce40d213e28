/*-------------------------------------------------------------------------
 *
 * long.c
 *	  Long values: streams of plain bytes, and a few bytes out of the middle.
 *
 * Streams are written to space that is there already.  They are read past the system's
 * page cache, as they were written, and then from the page cache.  An untimed turn comes
 * before each timed one: otherwise the memory that a process happens to have left decides.
 *
 * The few bytes come from places at random, the same ones for each column, with the value
 * in the page cache.  No place reaches over the end of a unit.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "common.h"
#include "transforms.h"
#include "streams.h"

#define BINARY			1
#define OID_INT8		20
#define PIECE			20
#define PIECES			200		/* read in a round */
#define SAMPLES			50		/* whose read bytes are looked at */

static pgsf *handle;
static const LongCase *this;

/* Times of each column. */
typedef double Times[COLUMNS_MAX][MAX_REPEAT];

/* ---- one value in each column ---- */

static const char *
select_for(int column)
{
	static char sql[64];

	snprintf(sql, sizeof(sql), "SELECT doc FROM %s", table_of(column));
	return sql;
}

/* Store the value in the table of a column; seconds. */
static double
write_value(int column)
{
	const char *table = table_of(column);
	LongValue	value = {0, this->size};
	char		sql[256];
	double		start;

	run("CHECKPOINT");
	start = now();
	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (1, " PGSF_VALUE ")", table);
	check_pgsf(handle, pgsf_put_callback(handle, give_long_value, &value, this->size, table, "doc",
										 sql, NULL, NULL), "put");
	return now() - start;
}

/* Prepare the statement for pieces of a value. */
static void
prepare_pieces(int column)
{
	static const Oid types[] = {OID_INT8};
	const char *table = table_of(column);
	char		sql[256];
	PGresult   *res;

	snprintf(sql, sizeof(sql), "SELECT substring(doc, $1, %d) FROM %s", PIECE, table);
	res = PQprepare(conn, table, sql, 1, types);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die(sql);
	PQclear(res);
}

/* ---- streams ---- */

/* Compare bytes with those that were given. */
static int
compare(void *arg, const void *bytes, size_t len)
{
	static char expected[UNIT_SIZE];
	const char *next = bytes;

	while (len > 0)
	{
		int64_t		n = give_long_value(arg, expected, len < UNIT_SIZE ? len : UNIT_SIZE);

		if (n == 0 || memcmp(expected, next, (size_t) n) != 0)
		{
			fprintf(stderr, "bench: a long value came back changed\n");
			exit(1);
		}
		next += n;
		len -= (size_t) n;
	}
	return 0;
}

static void
read_by_library(int column)
{
	check_pgsf(handle, pgsf_get_callback(handle, throw_away, NULL, 0, -1, select_for(column), NULL),
			   "get");
}

static void
read_by_copy(int column)
{
	char		sql[128];

	snprintf(sql, sizeof(sql),
			 "COPY (SELECT securefile_chunks(doc) FROM %s) TO STDOUT (FORMAT binary)",
			 table_of(column));
	copy_out(sql);
}

static void
compare_value(int column)
{
	LongValue	value = {0, this->size};

	check_pgsf(handle, pgsf_get_callback(handle, compare, &value, 0, -1, select_for(column), NULL),
			   "get");
}

static double
timed_settled(void (*read) (int), int column)
{
	double		start;

	read(column);
	start = now();
	read(column);
	return now() - start;
}

/* Print a line for each column. */
static void
report_streams(const char *what, const char *by, Times times)
{
	double		mb = (double) this->size / 1e6;

	for (int c = 0; c < this->ncolumns; c++)
	{
		char		name[64];

		snprintf(name, sizeof(name), "%s, %s", by, this->columns[c].name);
		print_speed(what, name, mb, times[c], c == 0 ? NULL : times[0], this->repeat);
	}
}

static void
bench_writes(void)
{
	Times		times;

	for (int r = 0; r < this->repeat; r++)
	{
		for (int c = 0; c < this->ncolumns; c++)
			empty_column(this->columns, c);
		for (int c = 0; c < this->ncolumns; c++)
			times[c][r] = write_value(c);
	}
	report_streams("written", "library", times);
}

/* Streams of all columns, by the library and by COPY. */
static void
bench_reads(const char *from)
{
	Times		library;
	Times		copy;

	for (int r = 0; r < this->repeat; r++)
		for (int c = 0; c < this->ncolumns; c++)
		{
			library[c][r] = timed_settled(read_by_library, c);
			copy[c][r] = timed_settled(read_by_copy, c);
		}
	report_streams(from, "library", library);
	report_streams(from, "COPY", copy);
	for (int c = 1; c < this->ncolumns && this->read_goal > 0; c++)
	{
		double		mb = (double) this->size / 1e6;
		const char *name = this->columns[c].name;

		note_goal(mb / median(library[c], this->repeat), AT_LEAST, this->read_goal,
				  "stream %s, library, %s: MB/s", from, name);
		note_goal(mb / median(copy[c], this->repeat), AT_LEAST, this->read_goal,
				  "stream %s, COPY, %s: MB/s", from, name);
	}
}

/* Parts read one by one go through the page cache. */
static void
bring_into_cache(int column)
{
	char		sql[256];

	snprintf(sql, sizeof(sql), "SELECT sum(length(substring(doc, n::bigint, 16777216))) FROM %s,"
			 " generate_series(1, length(doc), 16777216) n", table_of(column));
	run(sql);
}

/* ---- pieces ---- */

/* The nth place of a round: not two of them in one unit one after the other. */
static int64_t
place(int round, int n)
{
	uint64_t	x = ((uint64_t) round * PIECES + (uint64_t) n + 1) * 0x9E3779B97F4A7C15u;
	uint64_t	units = (uint64_t) (this->size / UNIT_SIZE);

	return (int64_t) ((x >> 32) % units * UNIT_SIZE + (x >> 8) % (UNIT_SIZE - PIECE));
}

/* Read a piece, and compare it. */
static void
read_piece(int column, int64_t at)
{
	uint64_t	from = (uint64_t) at + 1;
	uint32_t	wire[] = {htonl((uint32_t) (from >> 32)), htonl((uint32_t) from)};
	const char *values[] = {(const char *) wire};
	const int	lengths[] = {sizeof(wire)};
	const int	formats[] = {BINARY};
	LongValue	expected = {at, this->size};
	char		bytes[PIECE];
	PGresult   *res = PQexecPrepared(conn, table_of(column), 1, values, lengths, formats, BINARY);

	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQgetlength(res, 0, 0) != PIECE)
		die("substring");
	(void) give_long_value(&expected, bytes, PIECE);
	if (memcmp(bytes, PQgetvalue(res, 0, 0), PIECE) != 0)
	{
		fprintf(stderr, "bench: a piece of a long value came back changed\n");
		exit(1);
	}
	PQclear(res);
}

/* The most bytes that the server reads from data files for a piece. */
static double
most_read(int column)
{
	char		sql[128];
	double		most = 0;

	snprintf(sql, sizeof(sql), "SELECT direct_read_bytes FROM securefile_stat WHERE relname = '%s'",
			 table_of(column));
	for (int n = 0; n < SAMPLES; n++)
	{
		double		before = get_number(sql);
		double		bytes;

		read_piece(column, place(MAX_REPEAT, n));
		bytes = get_number(sql) - before;
		most = bytes > most ? bytes : most;
	}
	return most;
}

static double
timed_pieces(int column, int round)
{
	double		start = now();

	for (int n = 0; n < PIECES; n++)
		read_piece(column, place(round, n));
	return now() - start;
}

static void
bench_pieces(void)
{
	Times		times;

	for (int c = 0; c < this->ncolumns; c++)
		prepare_pieces(c);
	for (int r = 0; r < this->repeat; r++)
		for (int c = 0; c < this->ncolumns; c++)
			times[c][r] = timed_pieces(c, r);
	for (int c = 0; c < this->ncolumns; c++)
	{
		double		kb = most_read(c) / 1024;
		const char *name = this->columns[c].name;

		printf("substring of %d bytes, %-40s %6.0f us, %4.0f KB read\n", PIECE, name,
			   median(times[c], this->repeat) / PIECES * 1e6, kb);
		if (c == 0)
			continue;
		note_goal(kb, AT_MOST, 140, "substring, %s: KB read", name);
		note_goal(median_ratio(times[c], times[0], this->repeat), AT_MOST, 1.5,
				  "substring, %s: time to %s", name, this->columns[0].name);
	}
}

/* ---- all of it ---- */

static void
for_all(void (*step) (int))
{
	for (int c = 0; c < this->ncolumns; c++)
		step(c);
}

void
bench_long(const LongCase * what)
{
	this = what;
	handle = pgsf_new(conn);
	printf("values of %lld MB\n", (long long) (this->size / (1024 * 1024)));
	make_columns(this->columns, this->ncolumns);
	for (int c = 0; c < this->ncolumns; c++)
		(void) write_value(c);
	for_all(compare_value);
	if (this->writes)
		bench_writes();
	run("CHECKPOINT");
	bench_reads("from the disk");
	for_all(bring_into_cache);
	bench_reads("from the cache");
	if (this->pieces)
		bench_pieces();
	fflush(stdout);
	drop_columns(this->ncolumns);
	pgsf_free(handle);
}
