/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  What compression and encryption add to the memory of a session.
 *
 * A session of its own for each column writes and reads a value of 1 MB whole, a piece of
 * it, and a long value as a stream.  What it has more than a session that did the same
 * with the first column is what the options of its column need.
 *
 * I/O buffers are looked at apart from the rest.  They are in huge pages, so what is
 * used of them counts in steps of 2 MB, and which of them a stream happens to use would
 * hide what the codecs take.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "transforms.h"
#include "streams.h"

#define OBJECT_SIZE		(1024 * 1024)

/* MB of anonymous memory. */
typedef struct Memory
{
	double		buffers;		/* in huge pages, as the server asks for them */
	double		others;
} Memory;

/* What this session has for itself, by the list of its mappings (proc(5)). */
static Memory
own_memory(void)
{
	PGresult   *res = PQexec(conn, "SELECT pg_read_file('/proc/self/smaps')");
	double		mb = 0;
	Memory		memory = {0, 0};

	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		die("smaps");
	for (char *line = strtok(PQgetvalue(res, 0, 0), "\n"); line; line = strtok(NULL, "\n"))
	{
		if (strncmp(line, "Anonymous:", 10) == 0)
			mb = atof(line + 10) / 1024;
		else if (strncmp(line, "VmFlags:", 8) == 0)
			*(strstr(line, " hg") ? &memory.buffers : &memory.others) += mb;
	}
	PQclear(res);
	return memory;
}

/* A query of one value. */
static void
read_binary(const char *expression, const char *table, int expected)
{
	char		sql[128];
	PGresult   *res;

	snprintf(sql, sizeof(sql), "SELECT %s FROM %s", expression, table);
	res = PQexecParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1);
	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQgetlength(res, 0, 0) != expected)
		die(sql);
	PQclear(res);
}

/*
 * A value whole, written and read, and pieces of two of its units.  All of it twice: what
 * malloc has left from the first time is no growth.
 */
static void
use_whole(const char *table)
{
	const char *values[] = {corpora[PROSE].bytes};
	const int	lengths[] = {OBJECT_SIZE};
	const int	formats[] = {1};
	char		sql[128];

	for (int i = 0; i < 2; i++)
	{
		PGresult   *res;

		snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (1, $1::bytea)", table);
		res = PQexecParams(conn, sql, 1, NULL, values, lengths, formats, 1);
		if (PQresultStatus(res) != PGRES_COMMAND_OK)
			die(sql);
		PQclear(res);
		read_binary("substring(doc, 200000, 20)", table, 20);
		read_binary("substring(doc, 700000, 20)", table, 20);
		read_binary("doc::bytea", table, OBJECT_SIZE);
		snprintf(sql, sizeof(sql), "DELETE FROM %s", table);
		run(sql);
	}
}

/* A long value as a stream. */
static void
use_stream(pgsf *handle, const char *table, int64_t size)
{
	LongValue	value = {0, size};
	char		sql[128];

	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (1, " PGSF_VALUE ")", table);
	check_pgsf(handle, pgsf_put_callback(handle, give_long_value, &value, size, table, "doc",
										 sql, NULL, NULL), "put");
	snprintf(sql, sizeof(sql), "SELECT doc FROM %s", table);
	check_pgsf(handle, pgsf_get_callback(handle, throw_away, NULL, 0, -1, sql, NULL), "get");
	snprintf(sql, sizeof(sql), "DELETE FROM %s", table);
	run(sql);
}

/* What a session has. */
typedef struct Session
{
	Memory		short_values;	/* after a value of 1 MB .. */
	Memory		long_values;	/* .. and a long one */
} Session;

static Session
session_of(const char *conninfo, const Column *column, int64_t size)
{
	const char *table = table_of(0);
	pgsf	   *handle;
	Session		session;

	open_connection(conninfo);
	handle = pgsf_new(conn);
	make_columns(column, 1);
	use_whole(table);
	session.short_values = own_memory();
	use_stream(handle, table, size);
	session.long_values = own_memory();
	drop_columns(1);
	pgsf_free(handle);
	PQfinish(conn);
	return session;
}

static void
report(const Column *column, const Session *session, int size_mb)
{
	printf("memory of a session after %d MB, %-40s %5.1f MB of buffers, %5.2f MB\n", size_mb,
		   column->name, session->long_values.buffers, session->long_values.others);
}

void
bench_memory(const char *conninfo, const Column *columns, const double *goals, int n,
			 int64_t size)
{
	int			size_mb = (int) (size / OBJECT_SIZE);
	Session		plain = session_of(conninfo, &columns[0], size);

	report(&columns[0], &plain, size_mb);
	for (int c = 1; c < n; c++)
	{
		Session		session = session_of(conninfo, &columns[c], size);
		double		first = session.short_values.others - plain.short_values.others;
		double		more = session.long_values.others - plain.long_values.others;

		report(&columns[c], &session, size_mb);
		note_goal(more, AT_MOST, goals[c], "memory without I/O buffers, %s: MB more",
				  columns[c].name);
		note_goal(more - first, AT_MOST, 0.1,
				  "memory, the same: MB more after %d MB than after 1 MB", size_mb);
	}
}
