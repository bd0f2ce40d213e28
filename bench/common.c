/*-------------------------------------------------------------------------
 *
 * common.c
 *	  The parts that the benchmarks share.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common.h"

PGconn	   *conn;

double
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec + (double) ts.tv_nsec / 1e9;
}

void
die(const char *what)
{
	fprintf(stderr, "bench: %s: %s", what, conn ? PQerrorMessage(conn) : "\n");
	exit(1);
}

void
run(const char *sql)
{
	PGresult   *res = PQexec(conn, sql);
	ExecStatusType status = PQresultStatus(res);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		die(sql);
	PQclear(res);
}

double
get_number(const char *sql)
{
	PGresult   *res = PQexec(conn, sql);
	double		number;

	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
		die(sql);
	number = atof(PQgetvalue(res, 0, 0));
	PQclear(res);
	return number;
}

double
run_and_count_wal(const char *sql)
{
	double		before = get_number("SELECT pg_current_wal_insert_lsn() - '0/0'");

	run(sql);
	return get_number("SELECT pg_current_wal_insert_lsn() - '0/0'") - before;
}

void
fill(char *buf, size_t size, uint64_t seed)
{
	uint64_t	x = seed * 2654435761u + 88172645463325252u;

	for (size_t i = 0; i + 8 <= size; i += 8)
	{
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(buf + i, &x, 8);
	}
}

void
wait_for_space(const char *table, const char *column)
{
	char		sql[512];

	snprintf(sql, sizeof(sql), "SELECT 1 FROM securefile_usage('%s', '%s') WHERE pending_bytes > 0",
			 table, column);
	for (;;)
	{
		PGresult   *res = PQexec(conn, sql);
		int			pending = PQntuples(res);

		if (PQresultStatus(res) != PGRES_TUPLES_OK)
			die(sql);
		PQclear(res);
		if (pending == 0)
			return;
		run("SELECT pg_sleep(0.1)");
	}
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

void
sort_times(double *sorted, const double *times, int n)
{
	memcpy(sorted, times, (size_t) n * sizeof(double));
	qsort(sorted, (size_t) n, sizeof(double), compare_doubles);
}

double
median(const double *values, int n)
{
	double		sorted[MAX_REPEAT];

	sort_times(sorted, values, n);
	return sorted[n / 2];
}

double
median_ratio(const double *times, const double *others, int n)
{
	double		ratios[MAX_REPEAT];

	for (int i = 0; i < n; i++)
		ratios[i] = times[i] / others[i];
	return median(ratios, n);
}

void
print_speed(const char *what, const char *name, double mb, const double *times,
			const double *others, int n)
{
	double		sorted[MAX_REPEAT];

	sort_times(sorted, times, n);
	printf("%-26s %-40s %8.0f MB/s   (%.0f to %.0f)", what, name, mb / sorted[n / 2],
		   mb / sorted[n - 1], mb / sorted[0]);
	if (others != NULL)
		printf("   %.2f", median_ratio(others, times, n));
	printf("\n");
}

void
open_connection(const char *conninfo)
{
	conn = PQconnectdb(conninfo);
	if (PQstatus(conn) != CONNECTION_OK)
		die("connect");
	run("SET client_min_messages = warning");
	run("CREATE EXTENSION IF NOT EXISTS securefile");
}

void
check_repeat(int repeat)
{
	if (repeat >= 1 && repeat <= MAX_REPEAT)
		return;
	fprintf(stderr, "bench: --repeat takes 1 to %d\n", MAX_REPEAT);
	exit(2);
}
