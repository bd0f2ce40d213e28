/*-------------------------------------------------------------------------
 *
 * compress.c
 *	  What compression saves and costs.
 *
 * Columns that compress at each level, beside one that does not, beside bytea with both
 * of its methods, and beside zstd without a database.  One connection; values whole, as
 * binary parameters and results, and long ones through libpgsecurefile.  In each
 * repetition every column takes its turn, so that other work of the machine slows all
 * of them; medians are compared.  MB/s are those of plain bytes: what the
 * client sends and gets.
 *
 * The tables are emptied before each repetition, all of them before the first column
 * writes, so that no column writes while the space of another one is set free.
 *
 *	  compress [--quick] [--repeat N] DIRECTORY [CONNINFO]
 *
 * DIRECTORY: with the data that bench/corpus has put there.  It has to be on the disk of
 * the server, since zstd without a database writes its files there.
 * --quick: a fifth of the data, long values of a quarter, three repetitions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "transforms.h"

#define KB				1024
#define MB				(1024 * 1024)
#define LONG_SIZE		((int64_t) 1024 * MB)

typedef enum Level
{
	NOCOMPRESS,
	COMPRESS_LOW,
	COMPRESS_MEDIUM,
	COMPRESS_HIGH,
	LEVELS,
} Level;

static const char *const level_words[LEVELS] = {
	"nocompress", "compress_low", "compress_medium", "compress_high"
};

/* MB, for writing and reading, and 0.3 for what else belongs to a column */
static const double memory_goals[LEVELS] = {
	0, 0.148 + 0.352 + 0.3, 0.55 + 0.352 + 0.3, 1.3 + 0.352 + 0.3
};

#define KEEP_SPACE		"ALTER TABLE %s SET (vacuum_truncate = off, toast.vacuum_truncate = off)"
#define LOGGED(word)	{"logging, " word, "securefile(logging, " word ")", "$2", NULL}
#define LIKE_FILES(word) \
	{"filesystem_like, " word, "securefile(filesystem_like_logging, " word ")", "$2", NULL}

static const Column columns[] = {
	{"bytea lz4", "bytea COMPRESSION lz4", "$2", KEEP_SPACE},
	{"bytea pglz", "bytea COMPRESSION pglz", "$2", KEEP_SPACE},
	LOGGED("nocompress"),
	LOGGED("compress_low"),
	LOGGED("compress_medium"),
	LOGGED("compress_high"),
	LIKE_FILES("nocompress"),
	LIKE_FILES("compress_low"),
	LIKE_FILES("compress_medium"),
	LIKE_FILES("compress_high"),
};

/* What takes its turn: columns, and zstd without a database. */
enum
{
	BYTEA_LZ4,
	BYTEA_PGLZ,
	IN_WAL,						/* + Level */
	LIKE_FILE = IN_WAL + LEVELS,	/* + Level */
	COLUMNS = LIKE_FILE + LEVELS,
	ZSTD_FILES = COLUMNS,
	WAYS,
};

/* What was measured of a case. */
typedef struct Result
{
	double		write[WAYS][MAX_REPEAT];	/* seconds */
	double		read[WAYS][MAX_REPEAT];
	double		stored[WAYS];	/* of a plain byte */
	int			repeat;
} Result;

typedef struct Case
{
	const char *name;
	Kind		kind;
	int			size_bytes;
	int			objects;
	int			per_commit;
	bool		like_files;		/* also the columns that are not in WAL */
	bool		zstd_files;		/* also zstd without a database */
	void		(*goals) (const Result *result);
} Case;

static const char *directory;

/* How many times as fast one way is as another, by the medians. */
static double
speed(const Result *result, const double (*times)[MAX_REPEAT], int way, int other)
{
	return median(times[other], result->repeat) / median(times[way], result->repeat);
}

/* The goals of 1 MB of prose. */
static void
prose_goals(const Result *r)
{
	const int	low = IN_WAL + COMPRESS_LOW;
	const int	medium = IN_WAL + COMPRESS_MEDIUM;
	const int	fs_medium = LIKE_FILE + COMPRESS_MEDIUM;

	note_goal(speed(r, r->write, low, BYTEA_LZ4), AT_LEAST, 1.0,
			  "1 MB prose: write compress_low to bytea lz4");
	note_goal(speed(r, r->write, low, IN_WAL), AT_LEAST, 0.8,
			  "1 MB prose: write compress_low to nocompress");
	note_goal(speed(r, r->read, low, BYTEA_LZ4), AT_LEAST, 0.95,
			  "1 MB prose: read compress_low to bytea lz4");
	note_goal(r->stored[low], AT_MOST, 0.35, "1 MB prose: stored by compress_low");
	note_goal(speed(r, r->write, medium, BYTEA_PGLZ), AT_LEAST, 5,
			  "1 MB prose: write compress_medium to bytea pglz");
	note_goal(speed(r, r->read, medium, BYTEA_PGLZ), AT_LEAST, 1.1,
			  "1 MB prose: read compress_medium to bytea pglz");
	note_goal(speed(r, r->write, medium, ZSTD_FILES), AT_LEAST, 0.75,
			  "1 MB prose: write compress_medium to zstd 1 and a file");
	note_goal(speed(r, r->write, fs_medium, ZSTD_FILES), AT_LEAST, 0.75,
			  "1 MB prose: the same, filesystem_like_logging");
	note_goal(r->stored[medium], AT_MOST, 0.25, "1 MB prose: stored by compress_medium");
	note_goal(r->stored[medium] / r->stored[ZSTD_FILES], AT_MOST, 1.01,
			  "1 MB prose: stored by compress_medium to zstd 1 alone");
}

/* The goals of 1 MB of random bytes. */
static void
random_goals(const Result *r)
{
	for (int level = COMPRESS_LOW; level < LEVELS; level++)
	{
		const char *word = level_words[level];

		note_goal(speed(r, r->write, IN_WAL + level, IN_WAL), AT_LEAST, 0.95,
				  "1 MB random: write %s to nocompress", word);
		note_goal(speed(r, r->write, LIKE_FILE + level, LIKE_FILE), AT_LEAST, 0.95,
				  "1 MB random: the same, filesystem_like_logging");
		note_goal(r->stored[IN_WAL + level], AT_MOST, 1, "1 MB random: stored by %s", word);
	}
}

static const Case cases[] = {
	{"1 MB prose", PROSE, MB, 60, 1, true, true, prose_goals},
	{"1 MB JSON lines", JSON, MB, 60, 1, false, false, NULL},
	{"1 MB C headers", HEADERS, MB, 60, 1, false, false, NULL},
	{"1 MB programs", PROGRAMS, MB, 60, 1, false, false, NULL},
	{"1 MB random", RANDOM, MB, 60, 1, true, false, random_goals},
	{"4 KB JSON, 100 a commit", JSON, 4 * KB, 5000, 100, false, false, NULL},
	{"10 KB JSON, 100 a commit", JSON, 10 * KB, 3000, 100, false, false, NULL},
	{"32 KB JSON, 100 a commit", JSON, 32 * KB, 1500, 100, false, false, NULL},
};

#define CASES			((int) (sizeof(cases) / sizeof(cases[0])))

/* Does a way take part in a case? */
static bool
takes_part(const Case *cs, int way)
{
	if (way == ZSTD_FILES)
		return cs->zstd_files;
	return way < LIKE_FILE || cs->like_files;
}

/* Write all objects in each way; times[r] of each is set. */
static void
write_round(const Case *cs, const Load *load, double (*times)[MAX_REPEAT], int r)
{
	for (int way = 0; way < COLUMNS; way++)
		if (takes_part(cs, way))
			empty_column(columns, way);
	for (int way = 0; way < COLUMNS; way++)
		if (takes_part(cs, way))
			times[way][r] = write_column(way, load);
	if (cs->zstd_files)
		times[ZSTD_FILES][r] = write_files(directory, load);
}

static void
read_round(const Case *cs, const Load *load, double (*times)[MAX_REPEAT], int r, bool check)
{
	for (int way = 0; way < COLUMNS; way++)
		if (takes_part(cs, way))
			times[way][r] = read_column(columns, way, load, check);
}

/* What is stored of the objects of a column, as a part of their bytes. */
static double
stored_share(int way, const Load *load)
{
	const char *bytes = way < IN_WAL ? "pg_column_size(doc)" :
		"(securefile_storage(doc)).stored_bytes";
	char		sql[256];

	snprintf(sql, sizeof(sql), "SELECT sum(%s) FROM %s", bytes, table_of(way));
	return get_number(sql) / ((double) load->size_bytes * load->objects);
}

/* Print a line of the table for each way. */
static void
report(const Case *cs, const Load *load, const Result *result)
{
	double		mb = (double) load->size_bytes * load->objects / 1e6;

	for (int way = 0; way < WAYS; way++)
	{
		if (!takes_part(cs, way))
			continue;
		printf("%-25s %-32s %9.0f", cs->name, way < COLUMNS ? columns[way].name : "zstd 1 and a file",
			   mb / median(result->write[way], result->repeat));
		if (way < COLUMNS)
			printf(" %9.0f", mb / median(result->read[way], result->repeat));
		else
			printf(" %9s", "");
		printf(" %9.3f\n", result->stored[way]);
	}
	fflush(stdout);
}

static void
run_case(const Case *cs, int objects, int repeat)
{
	static Result result;
	Load		load = {
		cs->size_bytes, objects, cs->per_commit, part_of_corpus, &corpora[cs->kind]
	};

	result.repeat = repeat;
	make_columns(columns, COLUMNS);
	write_round(cs, &load, result.write, 0);
	for (int r = 0; r < repeat; r++)
		write_round(cs, &load, result.write, r);
	read_round(cs, &load, result.read, 0, true);
	for (int r = 0; r < repeat; r++)
		read_round(cs, &load, result.read, r, false);
	for (int way = 0; way < COLUMNS; way++)
		if (takes_part(cs, way))
			result.stored[way] = stored_share(way, &load);
	if (cs->zstd_files)
		result.stored[ZSTD_FILES] = stored_in_files();
	report(cs, &load, &result);
	if (cs->goals)
		cs->goals(&result);
	drop_columns(COLUMNS);
}

int
main(int argc, char **argv)
{
	const		Arguments arguments = begin_transforms("compress", argc, argv);
	int			repeat = arguments.repeat;
	bool		quick = arguments.quick;
	const		LongCase long_values = {
		.columns = &columns[LIKE_FILE],
		.ncolumns = quick ? COMPRESS_HIGH : LEVELS,
		.size = quick ? LONG_SIZE / 4 : LONG_SIZE,
		.repeat = repeat,
		.read_goal = 1000,
		.pieces = true,
	};

	directory = arguments.directory;
	printf("%-25s %-32s %9s %9s %9s\n", "case", "column", "write", "read", "stored");
	for (int i = 0; i < CASES; i++)
		run_case(&cases[i], quick ? cases[i].objects / 5 : cases[i].objects, repeat);
	bench_long(&long_values);
	PQfinish(conn);
	bench_memory(arguments.conninfo, &columns[LIKE_FILE], memory_goals, LEVELS,
				 quick ? LONG_SIZE / 16 : LONG_SIZE / 4);
	return print_goals() ? 0 : 1;
}
