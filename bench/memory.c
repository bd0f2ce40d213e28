/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  What compression adds to the memory of a session.
 *
 * A session writes and reads a value of 1 MB whole, a piece of it, and a long value as a
 * stream: first in a column that does not compress, until nothing of that is new to it,
 * then in one that does.  What its anonymous memory grows by is what compression needs.
 *
 * Two sessions for each level, since compressed bytes are read by way of the I/O buffers
 * of the session, which plain ones from the page cache need not.  In the first session
 * these buffers are part of the growth.  In the second one the column that does not
 * compress is nocache, which needs the same buffers.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "common.h"
#include "compress.h"
#include "streams.h"

#define OBJECT_SIZE		(1024 * 1024)

/* MB, for writing and reading, and 0.3 for what else belongs to a column */
static const double memory_goals[LEVELS] = {
	0, 0.148 + 0.352 + 0.3, 0.55 + 0.352 + 0.3, 1.3 + 0.352 + 0.3
};

/* MB that this session has for itself. */
static double
own_memory(void)
{
	return get_number("SELECT substring(pg_read_file('/proc/self/status')"
					  " FROM 'RssAnon:\\s+(\\d+) kB')") / 1024;
}

static void
make_table(const char *table, const char *options)
{
	char		sql[128];

	snprintf(sql, sizeof(sql), "DROP TABLE IF EXISTS %s", table);
	run(sql);
	snprintf(sql, sizeof(sql), "CREATE TABLE %s (f securefile(filesystem_like_logging, %s))",
			 table, options);
	run(sql);
}

/* A value whole, written and read, and a piece of it. */
static void
use_whole(const char *table)
{
	const char *values[] = {corpora[PROSE].bytes};
	const int	lengths[] = {OBJECT_SIZE};
	const int	formats[] = {1};
	char		sql[128];
	PGresult   *res;

	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES ($1::bytea)", table);
	res = PQexecParams(conn, sql, 1, NULL, values, lengths, formats, 1);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die(sql);
	PQclear(res);
	snprintf(sql, sizeof(sql), "SELECT f::bytea, substring(f, 200000, 20) FROM %s", table);
	res = PQexecParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1);
	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQgetlength(res, 0, 0) != OBJECT_SIZE)
		die(sql);
	PQclear(res);
	snprintf(sql, sizeof(sql), "DELETE FROM %s", table);
	run(sql);
}

/* A long value as a stream. */
static void
use_stream(pgsf *handle, const char *table, int64_t size)
{
	LongValue	value = {0, size};
	char		sql[128];

	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (" PGSF_VALUE ")", table);
	check_pgsf(handle, pgsf_put_callback(handle, give_long_value, &value, size, table, "f",
										 sql, NULL, NULL), "put");
	snprintf(sql, sizeof(sql), "SELECT f FROM %s", table);
	check_pgsf(handle, pgsf_get_callback(handle, throw_away, NULL, 0, -1, sql, NULL), "get");
	snprintf(sql, sizeof(sql), "DELETE FROM %s", table);
	run(sql);
}

/* What a session grows by. */
typedef struct Growth
{
	double		short_values;	/* MB, after a value of 1 MB .. */
	double		long_values;	/* .. and after a long one, too */
} Growth;

/* A new session, with columns of those options and of that level. */
static Growth
growth_of(const char *conninfo, const char *options, Level level, int64_t size)
{
	const char *first = "bench_first";
	const char *second = "bench_second";
	pgsf	   *handle;
	double		before;
	Growth		growth;

	open_connection(conninfo);
	handle = pgsf_new(conn);
	make_table(first, options);
	make_table(second, level_words[level]);
	for (int i = 0; i < 2; i++)
	{
		use_whole(first);
		use_stream(handle, first, size);
	}
	before = own_memory();
	use_whole(second);
	growth.short_values = own_memory() - before;
	use_stream(handle, second, size);
	growth.long_values = own_memory() - before;
	run("DROP TABLE bench_first, bench_second");
	pgsf_free(handle);
	PQfinish(conn);
	return growth;
}

void
bench_memory(const char *conninfo, int64_t size)
{
	for (Level level = NOCOMPRESS; level < LEVELS; level++)
	{
		const char *word = level_words[level];
		Growth		all = growth_of(conninfo, "nocompress", level, size);
		Growth		codec = growth_of(conninfo, "nocompress, nocache", level, size);

		printf("memory of a session, %-16s %5.2f MB after 1 MB, %5.2f MB after %lld MB; "
			   "without I/O buffers %5.2f MB, %5.2f MB\n", word, all.short_values,
			   all.long_values, (long long) (size / OBJECT_SIZE),
			   codec.short_values, codec.long_values);
		if (level == NOCOMPRESS)
			continue;
		note_goal(codec.long_values, AT_MOST, memory_goals[level],
				  "memory of a session without I/O buffers, %s: MB", word);
		note_goal(codec.long_values - codec.short_values, AT_MOST, 0.1,
				  "memory of a session, %s: MB more for a long value", word);
	}
}
