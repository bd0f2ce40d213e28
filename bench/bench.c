/*-------------------------------------------------------------------------
 *
 * bench.c
 *	  A securefile column against a bytea column, STORAGE EXTERNAL.
 *
 * Both are driven in the same way: one connection, libpq, prepared statements,
 * binary parameters and results.  A case is a size, a number of objects and how many of
 * them make a transaction.  In each repetition every column takes its turn, so that other
 * work of the machine slows all of them; medians are compared.
 *
 * A write begins with an empty table that has its space already: one untimed round
 * before was deleted, vacuumed and resolved, and nothing was cut off.  A read comes
 * after one untimed round of reads.  Between the columns the server makes a checkpoint,
 * so that no column pays for the dirty pages of another.
 *
 * "connection only" sends the same parameters and commits a row for each, but keeps only
 * the length: the cost that every storage has.
 *
 *	  bench [--quick] [--repeat N] [CONNINFO]
 *
 * --quick: a tenth of the data, three repetitions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "common.h"

#define BINARY			1
#define OID_INT4		23
#define OID_BYTEA		17

/* The columns to compare; the first one is the yardstick. */
typedef struct Column
{
	const char *name;
	const char *type;
	const char *value;			/* expression to insert; $2 is the parameter */
	const char *storage;		/* further ALTER TABLE, or NULL */
} Column;

static const Column columns[] = {
	{"bytea external", "bytea", "$2", "ALTER TABLE %s ALTER doc SET STORAGE EXTERNAL, "
	"SET (vacuum_truncate = off, toast.vacuum_truncate = off)"},
	{"logging", "securefile(logging)", "$2", NULL},
	{"filesystem_like", "securefile(filesystem_like_logging)", "$2", NULL},
	{"connection only", "int", "octet_length($2)", NULL},
};

#define COLUMNS			((int) (sizeof(columns) / sizeof(columns[0])))
#define STORING			(COLUMNS - 1)	/* the last one has nothing to be read */

typedef struct Case
{
	const char *name;
	int			size_bytes;
	int			objects;
	int			per_commit;
	double		want_write[COLUMNS];	/* least ratio asked for; 0: none */
	double		want_read[COLUMNS];
} Case;

static const Case cases[] = {
	{"10 KB, 100 a commit", 10 * 1024, 6000, 100, {0, 1.2, 1.2}, {0, 0.9, 0.9}},
	{"100 KB, 10 a commit", 100 * 1024, 1500, 10, {0}, {0}},
	{"1 MB, commit each", 1024 * 1024, 200, 1, {0, 1.2, 2.5}, {0, 1.0, 1.0}},
	{"10 MB, commit each", 10 * 1024 * 1024, 24, 1, {0}, {0}},
};

#define CASES			((int) (sizeof(cases) / sizeof(cases[0])))

/* Seconds of each repetition of one case. */
typedef struct Times
{
	double		write[COLUMNS][MAX_REPEAT];
	double		read[COLUMNS][MAX_REPEAT];
} Times;

/* Run a statement with a table's name in it. */
static void
run_on(const char *format, const char *table)
{
	char		sql[512];

	snprintf(sql, sizeof(sql), format, table);
	run(sql);
}

static void
table_name(char *buf, size_t size, int column)
{
	snprintf(buf, size, "bench_%d", column);
}

/* Make the tables of all columns anew, with their prepared statements. */
static void
make_tables(void)
{
	char		table[32];
	char		sql[512];

	for (int c = 0; c < COLUMNS; c++)
	{
		table_name(table, sizeof(table), c);
		run_on("DROP TABLE IF EXISTS %s", table);
		snprintf(sql, sizeof(sql), "CREATE TABLE %s (id int PRIMARY KEY, doc %s)",
				 table, columns[c].type);
		run(sql);
		if (columns[c].storage)
			run_on(columns[c].storage, table);
	}
	run("DEALLOCATE ALL");
	for (int c = 0; c < COLUMNS; c++)
	{
		static const Oid types[] = {OID_INT4, OID_BYTEA};
		char		name[16];

		table_name(table, sizeof(table), c);
		snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES ($1, %s)", table, columns[c].value);
		snprintf(name, sizeof(name), "w%d", c);
		PQclear(PQprepare(conn, name, sql, 2, types));
		if (c >= STORING)
			continue;
		snprintf(sql, sizeof(sql), "SELECT doc::bytea FROM %s WHERE id = $1", table);
		snprintf(name, sizeof(name), "r%d", c);
		PQclear(PQprepare(conn, name, sql, 1, types));
	}
}

/* Insert an object with the prepared statement of its column. */
static void
insert_one(int column, int id, const char *data, int size)
{
	uint32_t	wire_id = htonl((uint32_t) id);
	const char *values[] = {(const char *) &wire_id, data};
	const int	lengths[] = {sizeof(wire_id), size};
	const int	formats[] = {BINARY, BINARY};
	char		name[16];
	PGresult   *res;

	snprintf(name, sizeof(name), "w%d", column);
	res = PQexecPrepared(conn, name, 2, values, lengths, formats, BINARY);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die("insert");
	PQclear(res);
}

/* Read an object and check its length and, unless expected is NULL, its bytes. */
static void
read_one(int column, int id, const char *expected, int size)
{
	uint32_t	wire_id = htonl((uint32_t) id);
	const char *values[] = {(const char *) &wire_id};
	const int	lengths[] = {sizeof(wire_id)};
	const int	formats[] = {BINARY};
	char		name[16];
	PGresult   *res;

	snprintf(name, sizeof(name), "r%d", column);
	res = PQexecPrepared(conn, name, 1, values, lengths, formats, BINARY);
	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
		die("select");
	if (PQgetlength(res, 0, 0) != size ||
		(expected && memcmp(PQgetvalue(res, 0, 0), expected, (size_t) size) != 0))
	{
		fprintf(stderr, "bench: object %d of %s came back changed\n", id, columns[column].name);
		exit(1);
	}
	PQclear(res);
}

/* Write all objects of a case; seconds. */
static double
write_round(const Case *cs, int column, int objects, char *data)
{
	char		table[32];
	double		start;

	table_name(table, sizeof(table), column);
	run_on("DELETE FROM %s", table);
	run_on("VACUUM %s", table);
	if (strncmp(columns[column].type, "securefile", 10) == 0)
		wait_for_space(table, "doc");
	run("CHECKPOINT");

	start = now();
	for (int i = 0; i < objects; i++)
	{
		if (cs->per_commit > 1 && i % cs->per_commit == 0)
			run("BEGIN");
		memcpy(data, &i, sizeof(i));
		insert_one(column, i, data, cs->size_bytes);
		if (cs->per_commit > 1 && (i + 1) % cs->per_commit == 0)
			run("COMMIT");
	}
	return now() - start;
}

/* Read all objects of a case; check compares the bytes and is not timed. */
static double
read_round(const Case *cs, int column, int objects, char *data, bool check)
{
	double		start = now();

	for (int i = 0; i < objects; i++)
	{
		memcpy(data, &i, sizeof(i));
		read_one(column, i, check ? data : NULL, cs->size_bytes);
	}
	return now() - start;
}

/* Print one line of the table; returns false when a ratio is below its goal. */
static bool
report(const Case *cs, int objects, int column, const char *what,
	   double times[COLUMNS][MAX_REPEAT], int repeat, double want)
{
	double		seconds = median(times[column], repeat);
	double		base = median(times[0], repeat);
	double		mb = (double) cs->size_bytes * objects / 1e6;
	double		ratio = base / seconds;
	bool		reached = want == 0 || ratio >= want;

	printf("%-20s %-6s %-16s %9.0f %9.0f %9.2f", cs->name, what, columns[column].name,
		   mb / seconds, objects / seconds, ratio);
	if (want > 0)
		printf("   %.1f %s", want, reached ? "reached" : "NOT REACHED");
	printf("\n");
	return reached;
}

/* Measure all columns in one case and print the lines.  False if a goal was missed. */
static bool
run_case(const Case *cs, int objects, int repeat)
{
	static Times times;
	char	   *data = malloc((size_t) cs->size_bytes);
	bool		reached = true;

	fill(data, cs->size_bytes, 1);
	make_tables();
	for (int c = 0; c < COLUMNS; c++)
		(void) write_round(cs, c, objects, data);
	for (int r = 0; r < repeat; r++)
	{
		for (int c = 0; c < COLUMNS; c++)
			times.write[c][r] = write_round(cs, c, objects, data);
	}
	for (int c = 0; c < STORING; c++)
		(void) read_round(cs, c, objects, data, true);
	for (int r = 0; r < repeat; r++)
	{
		for (int c = 0; c < STORING; c++)
			times.read[c][r] = read_round(cs, c, objects, data, false);
	}
	for (int c = 0; c < COLUMNS; c++)
		reached &= report(cs, objects, c, "write", times.write, repeat, cs->want_write[c]);
	for (int c = 0; c < STORING; c++)
		reached &= report(cs, objects, c, "read", times.read, repeat, cs->want_read[c]);
	fflush(stdout);
	free(data);
	return reached;
}

int
main(int argc, char **argv)
{
	const char *conninfo = "";
	int			repeat = 5;
	bool		quick = false;
	bool		reached = true;

	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
			quick = true;
		else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
			repeat = atoi(argv[++i]);
		else
			conninfo = argv[i];
	}
	if (quick)
		repeat = 3;
	check_repeat(repeat);
	open_connection(conninfo);

	printf("%-20s %-6s %-16s %9s %9s %9s   %s\n", "case", "", "column", "MB/s", "objects/s",
		   "ratio", "asked for");
	for (int i = 0; i < CASES; i++)
	{
		int			objects = quick ? cases[i].objects / 10 : cases[i].objects;

		objects -= objects % cases[i].per_commit;
		reached &= run_case(&cases[i], objects, repeat);
	}
	for (int c = 0; c < COLUMNS; c++)
	{
		char		table[32];

		table_name(table, sizeof(table), c);
		run_on("DROP TABLE %s", table);
	}
	PQfinish(conn);
	return reached ? 0 : 1;
}
