/*-------------------------------------------------------------------------
 *
 * encrypt.c
 *	  What encryption costs.
 *
 * Columns that encrypt, with either cipher and after compression, beside one that does
 * not.  One connection; values whole, as binary parameters and results, and long ones
 * through libpgsecurefile.  In each repetition every column takes its turn, so that other
 * work of the machine slows all of them.  MB/s are those of plain bytes, by the medians;
 * a ratio is the median of what each repetition gave.
 *
 * Values are read from the page cache, and then past it (option nocache).
 *
 *	  encrypt [--quick] [--repeat N] DIRECTORY [CONNINFO]
 *
 * DIRECTORY: with the data that bench/corpus has put there.  The server needs the master
 * keys "one", which is the current one, and "two".
 * --quick: a tenth of the data, long values of a tenth, three repetitions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "transforms.h"

#define KB				1024
#define MB				(1024 * 1024)

#define NEW_KEY(cipher) \
	"SET securefile.cipher = '" cipher "'; SELECT securefile_new_key('%s', 'doc')"
#define COLUMN(name, mode, words, setup) \
	{name ", " words, "securefile(" mode ", " words ")", "$2", setup}
#define CHACHA(name, mode) \
	{name ", encrypt, chacha20", "securefile(" mode ", encrypt)", "$2", NEW_KEY("chacha20")}
#define COLUMNS_OF(name, mode) \
	COLUMN(name, mode, "decrypt", NULL), \
	COLUMN(name, mode, "encrypt", NEW_KEY("aes")), \
	CHACHA(name, mode), \
	COLUMN(name, mode, "compress_low, encrypt", NEW_KEY("aes")), \
	COLUMN(name, mode, "compress_medium, encrypt", NEW_KEY("aes"))

/* The columns of one logging mode; the first one is the yardstick. */
enum
{
	PLAIN,
	AES,
	CHACHA20,
	AES_LOW,
	AES_MEDIUM,
	WAYS,
};

static const Column columns[] = {
	COLUMNS_OF("logging", "logging"),
	COLUMNS_OF("filesystem_like", "filesystem_like_logging"),
};

#define COLUMNS			((int) (sizeof(columns) / sizeof(columns[0])))

static const Column *const like_files = &columns[WAYS];

typedef struct Case
{
	const char *name;
	int			size_bytes;
	int			objects;
	int			per_commit;
	bool		chacha20;		/* this cipher, too */

	/*
	 * How much longer it may take with AES than plain; 0: nothing is asked
	 * for.
	 */
	double		write_logging;
	double		write_like_files;
	double		read;
	double		read_disk;
} Case;

static const Case cases[] = {
	{"1 KB, 100 a commit", KB, 20000, 100, false, 1.1, 1.1, 1.1, 0},
	{"10 KB, 100 a commit", 10 * KB, 6000, 100, false, 0, 0, 0, 0},
	{"100 KB, 10 a commit", 100 * KB, 1500, 10, false, 0, 0, 0, 0},
	{"1 MB, commit each", MB, 100, 1, true, 1.1, 1.15, 1.3, 1.1},
	{"10 MB, commit each", 10 * MB, 20, 1, false, 0, 0, 0, 0},
};

#define CASES			((int) (sizeof(cases) / sizeof(cases[0])))

typedef double Times[COLUMNS][MAX_REPEAT];

static bool
takes_part(const Case *cs, int column)
{
	return cs->chacha20 || column % WAYS != CHACHA20;
}

/* Write all objects to each column; times[r] of each is set. */
static void
write_round(const Case *cs, const Load *load, Times times, int r)
{
	for (int c = 0; c < COLUMNS; c++)
		if (takes_part(cs, c))
			empty_column(columns, c);
	for (int c = 0; c < COLUMNS; c++)
		if (takes_part(cs, c))
			times[c][r] = write_column(c, load);
}

/* Read all of them in each repetition, after an untimed round that compares. */
static void
read_rounds(const Case *cs, const Load *load, Times times, int repeat)
{
	for (int r = -1; r < repeat; r++)
		for (int c = 0; c < COLUMNS; c++)
			if (takes_part(cs, c))
				times[c][r < 0 ? 0 : r] = read_column(columns, c, load, r < 0);
}

/* From now on reads bypass the page cache. */
static void
leave_cache(void)
{
	for (int c = 0; c < COLUMNS; c++)
	{
		const char *type = columns[c].type;
		char		sql[256];

		snprintf(sql, sizeof(sql), "ALTER TABLE %s ALTER doc TYPE %.*s, nocache)", table_of(c),
				 (int) strlen(type) - 1, type);
		run(sql);
	}
}

/* Print a line of the table for each column, and note what was asked for. */
static void
report(const Case *cs, int objects, const char *what, Times times, int repeat,
	   double goal_logging, double goal_like_files)
{
	for (int c = 0; c < COLUMNS; c++)
	{
		const double *plain = times[c / WAYS * WAYS];
		double		goal = c < WAYS ? goal_logging : goal_like_files;
		char		name[64];

		if (!takes_part(cs, c))
			continue;
		snprintf(name, sizeof(name), "%s, %s", what, cs->name);
		print_speed(name, columns[c].name, (double) cs->size_bytes * objects / 1e6, times[c],
					c % WAYS == PLAIN ? NULL : plain, repeat);
		if (c % WAYS == AES && goal > 0)
			note_goal(median_ratio(times[c], plain, repeat), AT_MOST, goal,
					  "%s: time of %s to decrypt", name, columns[c].name);
	}
}

static void
run_case(const Case *cs, int objects, int repeat)
{
	static Times times;
	Load		load = {
		cs->size_bytes, objects, cs->per_commit, part_of_corpus, &corpora[JSON]
	};

	make_columns(columns, COLUMNS);
	write_round(cs, &load, times, 0);
	for (int r = 0; r < repeat; r++)
		write_round(cs, &load, times, r);
	report(cs, objects, "write", times, repeat, cs->write_logging, cs->write_like_files);
	read_rounds(cs, &load, times, repeat);
	report(cs, objects, "read", times, repeat, cs->read, cs->read);
	if (cs->size_bytes >= 10 * KB)
	{
		leave_cache();
		read_rounds(cs, &load, times, repeat);
		report(cs, objects, "disk", times, repeat, cs->read_disk, cs->read_disk);
	}
	fflush(stdout);
	drop_columns(COLUMNS);
}

static void
bench_streams(int64_t size, int repeat, bool pieces)
{
	const		LongCase what = {
		.columns = like_files, .ncolumns = WAYS, .size = size, .repeat = repeat,
		.writes = true, .pieces = pieces
	};

	bench_long(&what);
}

static void
bench_sessions(const char *conninfo, int64_t size)
{
	static const Column low[] = {
		COLUMN("filesystem_like", "filesystem_like_logging", "compress_low", NULL),
		COLUMN("filesystem_like", "filesystem_like_logging", "compress_low, encrypt", NEW_KEY("aes")),
	};
	static const double goals[] = {0, 0.3, 0.3};

	bench_memory(conninfo, like_files, goals, CHACHA20 + 1, size);
	bench_memory(conninfo, low, goals, 2, size);
}

int
main(int argc, char **argv)
{
	const		Arguments arguments = begin_transforms("encrypt", argc, argv);
	int			repeat = arguments.repeat;
	int			part = arguments.quick ? 10 : 1;

	for (int i = 0; i < CASES; i++)
		run_case(&cases[i], cases[i].objects / part, repeat);
	bench_streams(100 * (int64_t) MB / part, repeat, false);
	bench_streams(1024 * (int64_t) MB / part, repeat, true);
	bench_rotation(&columns[AES], 1000 / part, 400 / part, repeat);
	PQfinish(conn);
	bench_sessions(arguments.conninfo, (int64_t) 256 * MB / part);
	return print_goals() ? 0 : 1;
}
