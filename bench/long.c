/*-------------------------------------------------------------------------
 *
 * long.c
 *	  Long values: streams of plain bytes, and a few bytes out of the middle.
 *
 * Streams are read past the system's page cache, as they were written, and then from the
 * page cache.  An untimed turn comes before each timed one: otherwise the memory that a
 * process happens to have left decides.
 *
 * The few bytes come from places at random, the same ones for each level, with the value
 * in the page cache.  No place reaches over the end of a unit.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "common.h"
#include "compress.h"
#include "streams.h"

#define BINARY			1
#define OID_INT8		20
#define PIECE			20
#define PIECES			200		/* read in a round */
#define SAMPLES			50		/* whose read bytes are looked at */

static pgsf *handle;
static int64_t long_size;

/* ---- one value of each level ---- */

static const char *
table_for(Level level)
{
	static char name[32];

	snprintf(name, sizeof(name), "bench_%s", level_words[level]);
	return name;
}

static const char *
select_for(Level level)
{
	static char sql[64];

	snprintf(sql, sizeof(sql), "SELECT f FROM %s", table_for(level));
	return sql;
}

/* Store the value in a table of its own, and prepare the statement for pieces of it. */
static void
make_value(Level level)
{
	static const Oid types[] = {OID_INT8};
	const char *table = table_for(level);
	LongValue	value = {0, long_size};
	char		sql[256];
	PGresult   *res;

	snprintf(sql, sizeof(sql), "DROP TABLE IF EXISTS %s", table);
	run(sql);
	snprintf(sql, sizeof(sql), "CREATE TABLE %s (f securefile(filesystem_like_logging, %s))",
			 table, level_words[level]);
	run(sql);
	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (" PGSF_VALUE ")", table);
	check_pgsf(handle, pgsf_put_callback(handle, give_long_value, &value, long_size, table, "f",
										 sql, NULL, NULL), "put");
	snprintf(sql, sizeof(sql), "SELECT substring(f, $1, %d) FROM %s", PIECE, table);
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
read_by_library(Level level)
{
	check_pgsf(handle, pgsf_get_callback(handle, throw_away, NULL, 0, -1, select_for(level), NULL),
			   "get");
}

static void
read_by_copy(Level level)
{
	char		sql[128];

	snprintf(sql, sizeof(sql),
			 "COPY (SELECT securefile_chunks(f) FROM %s) TO STDOUT (FORMAT binary)",
			 table_for(level));
	copy_out(sql);
}

static void
compare_value(Level level)
{
	LongValue	value = {0, long_size};

	check_pgsf(handle, pgsf_get_callback(handle, compare, &value, 0, -1, select_for(level), NULL),
			   "get");
}

static double
timed_settled(void (*read) (Level), Level level)
{
	double		start;

	read(level);
	start = now();
	read(level);
	return now() - start;
}

static void
report_stream(const char *from, const char *name, Level level, const double *times, int repeat)
{
	double		mb = (double) long_size / 1e6;

	print_speed(from, name, mb, times, repeat);
	if (level != NOCOMPRESS)
		note_goal(mb / median(times, repeat), AT_LEAST, 1000, "stream %s, %s: MB/s", from, name);
}

/* Streams of all levels, by the library and by COPY. */
static void
bench_streams(Level highest, int repeat, const char *from)
{
	double		library[LEVELS][MAX_REPEAT];
	double		copy[LEVELS][MAX_REPEAT];

	for (int r = 0; r < repeat; r++)
		for (Level level = NOCOMPRESS; level <= highest; level++)
		{
			library[level][r] = timed_settled(read_by_library, level);
			copy[level][r] = timed_settled(read_by_copy, level);
		}
	for (Level level = NOCOMPRESS; level <= highest; level++)
	{
		char		name[64];

		snprintf(name, sizeof(name), "library, %s", level_words[level]);
		report_stream(from, name, level, library[level], repeat);
		snprintf(name, sizeof(name), "COPY, %s", level_words[level]);
		report_stream(from, name, level, copy[level], repeat);
	}
}

/* Parts read one by one go through the page cache. */
static void
bring_into_cache(Level level)
{
	char		sql[256];

	snprintf(sql, sizeof(sql), "SELECT sum(length(substring(f, n::bigint, 16777216))) FROM %s,"
			 " generate_series(1, length(f), 16777216) n", table_for(level));
	run(sql);
}

/* ---- pieces ---- */

/* The nth place of a round: not two of them in one unit one after the other. */
static int64_t
place(int round, int n)
{
	uint64_t	x = ((uint64_t) round * PIECES + (uint64_t) n + 1) * 0x9E3779B97F4A7C15u;
	uint64_t	units = (uint64_t) (long_size / UNIT_SIZE);

	return (int64_t) ((x >> 32) % units * UNIT_SIZE + (x >> 8) % (UNIT_SIZE - PIECE));
}

/* Read a piece, and compare it. */
static void
read_piece(Level level, int64_t at)
{
	uint64_t	from = (uint64_t) at + 1;
	uint32_t	wire[] = {htonl((uint32_t) (from >> 32)), htonl((uint32_t) from)};
	const char *values[] = {(const char *) wire};
	const int	lengths[] = {sizeof(wire)};
	const int	formats[] = {BINARY};
	LongValue	expected = {at, long_size};
	char		bytes[PIECE];
	PGresult   *res = PQexecPrepared(conn, table_for(level), 1, values, lengths, formats, BINARY);

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
most_read(Level level)
{
	char		sql[128];
	double		most = 0;

	snprintf(sql, sizeof(sql), "SELECT direct_read_bytes FROM securefile_stat WHERE relname = '%s'",
			 table_for(level));
	for (int n = 0; n < SAMPLES; n++)
	{
		double		before = get_number(sql);
		double		bytes;

		read_piece(level, place(MAX_REPEAT, n));
		bytes = get_number(sql) - before;
		most = bytes > most ? bytes : most;
	}
	return most;
}

static double
timed_pieces(Level level, int round)
{
	double		start = now();

	for (int n = 0; n < PIECES; n++)
		read_piece(level, place(round, n));
	return now() - start;
}

static void
bench_pieces(Level highest, int repeat)
{
	double		times[LEVELS][MAX_REPEAT];

	for (int r = 0; r < repeat; r++)
		for (Level level = NOCOMPRESS; level <= highest; level++)
			times[level][r] = timed_pieces(level, r);
	for (Level level = NOCOMPRESS; level <= highest; level++)
	{
		double		kb = most_read(level) / 1024;
		double		seconds = median(times[level], repeat);

		printf("substring of %d bytes, %-16s %6.0f us, %4.0f KB read\n", PIECE, level_words[level],
			   seconds / PIECES * 1e6, kb);
		if (level == NOCOMPRESS)
			continue;
		note_goal(kb, AT_MOST, 140, "substring, %s: KB read", level_words[level]);
		note_goal(seconds / median(times[NOCOMPRESS], repeat), AT_MOST, 1.5,
				  "substring, %s: time to nocompress", level_words[level]);
	}
}

/* ---- all of it ---- */

void
bench_long(int64_t size, Level highest, int repeat)
{
	handle = pgsf_new(conn);
	long_size = size;
	printf("values of %lld MB\n", (long long) (size / (1024 * 1024)));
	for (Level level = NOCOMPRESS; level <= highest; level++)
	{
		make_value(level);
		compare_value(level);
	}
	run("CHECKPOINT");
	bench_streams(highest, repeat, "from the disk");
	for (Level level = NOCOMPRESS; level <= highest; level++)
		bring_into_cache(level);
	bench_streams(highest, repeat, "from the cache");
	bench_pieces(highest, repeat);
	fflush(stdout);
	for (Level level = NOCOMPRESS; level <= highest; level++)
	{
		char		sql[64];

		snprintf(sql, sizeof(sql), "DROP TABLE %s", table_for(level));
		run(sql);
	}
	pgsf_free(handle);
}
