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
 * "connection only" sends the same parameters and commits a row for each, but keeps only
 * the length: the cost that every storage has.
 *
 *	  bench [--quick] [--repeat N] [CONNINFO]
 *
 * --quick: a tenth of the data, three repetitions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "common.h"

/* The first one is the yardstick. */
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

/* The same bytes for every object, with its number in front. */
static const char *
numbered(const Load *load, int i)
{
	memcpy(load->source, &i, sizeof(i));
	return load->source;
}

/* Write all objects of a case to a table that was emptied just before; seconds. */
static double
write_round(int column, const Load *load)
{
	empty_column(columns, column);
	return write_column(column, load);
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
	Load		load = {cs->size_bytes, objects, cs->per_commit, numbered, data};
	bool		reached = true;

	fill(data, (size_t) cs->size_bytes, 1);
	make_columns(columns, COLUMNS);
	for (int c = 0; c < COLUMNS; c++)
		(void) write_round(c, &load);
	for (int r = 0; r < repeat; r++)
		for (int c = 0; c < COLUMNS; c++)
			times.write[c][r] = write_round(c, &load);
	for (int c = 0; c < STORING; c++)
		(void) read_column(columns, c, &load, true);
	for (int r = 0; r < repeat; r++)
		for (int c = 0; c < STORING; c++)
			times.read[c][r] = read_column(columns, c, &load, false);
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
	drop_columns(COLUMNS);
	PQfinish(conn);
	return reached ? 0 : 1;
}
