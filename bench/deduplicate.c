/*-------------------------------------------------------------------------
 *
 * deduplicate.c
 *	  What deduplication costs for new contents, and saves for those that come again;
 *	  copies without bytes.
 *
 * In each repetition a column that keeps duplicates stores new contents; one that
 * deduplicates stores new ones, and then the same ones again: first they are read from the
 * disk for the comparison, the second time from the page cache.  So other work of the machine
 * slows all of these.  MB/s by the medians; a ratio is the median of what each repetition gave.
 *
 *	  deduplicate [--quick] [--repeat N] DIRECTORY [CONNINFO]
 *
 * DIRECTORY: with the data that bench/corpus has put there.
 * --quick: a tenth of the data and of the time, three repetitions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "transforms.h"

#define KB				1024
#define MB				(1024 * 1024)

enum
{
	KEEP,
	ONCE,
	COLUMNS,
};

typedef struct Case
{
	const char *name;
	int			size_bytes;
	int			objects;
	const char *mode;			/* further options */

	/* Goals; 0: none. */
	double		new_at_most;	/* time of new contents, to that without */
	double		again_at_least; /* how many times as fast as new ones */
} Case;

static const Case cases[] = {
	{"100 KB, logging", 100 * KB, 500, "logging", 0, 0},
	{"1 MB, logging", MB, 100, "logging", 1.08, 1.7},
	{"10 MB, logging", 10 * MB, 20, "logging", 0, 2},
	{"1 MB, filesystem_like", MB, 100, "filesystem_like_logging", 1.08, 1.1},
	{"10 MB, filesystem_like", 10 * MB, 20, "filesystem_like_logging", 0, 1.1},
	{"1 MB, compress_high", MB, 30, "logging, compress_high", 0, 8},
	{"1 MB, compress_low, encrypt", MB, 100, "logging, compress_low, encrypt", 0, 0},
};

#define CASES			((int) (sizeof(cases) / sizeof(cases[0])))

/* Objects that are new in each round: parts of a corpus, with the round in each unit. */
typedef struct Fresh
{
	char	   *buffer;
	int			round;
} Fresh;

static const char *
fresh_bytes(const Load *load, int i)
{
	Fresh	   *fresh = load->source;
	const		Corpus *corpus = &corpora[JSON];
	size_t		at = (size_t) i * 7919 % (corpus->size - 1);

	for (int done = 0; done < load->size_bytes;)
	{
		size_t		n = corpus->size - at;

		if (n > (size_t) (load->size_bytes - done))
			n = (size_t) (load->size_bytes - done);
		memcpy(fresh->buffer + done, corpus->bytes + at, n);
		done += (int) n;
		at = 0;
	}
	for (int done = 0; done + 32 <= load->size_bytes; done += UNIT_SIZE)
		snprintf(fresh->buffer + done, 32, "%020d%010d", fresh->round, i);
	return fresh->buffer;
}

/* ---- whole values ---- */

typedef struct Times
{
	double		keep[MAX_REPEAT];
	double		fresh[MAX_REPEAT];
	double		again[MAX_REPEAT];
	double		cached[MAX_REPEAT];
} Times;

static void
round_of(const Column *columns, const Load *load, Times *times, int r)
{
	for (int c = 0; c < COLUMNS; c++)
		empty_column(columns, c);
	((Fresh *) load->source)->round++;
	times->keep[r] = write_column(KEEP, load);
	times->fresh[r] = write_column(ONCE, load);
	run("UPDATE bench_1 SET id = -1 - id");
	times->again[r] = write_column(ONCE, load);
	run("UPDATE bench_1 SET id = -1000000 - id WHERE id >= 0");
	times->cached[r] = write_column(ONCE, load);
}

/* What one more duplicate adds to the WAL and to the data, once its pages are in memory. */
static void
measure_one(const char *name)
{
	double		live = get_number("SELECT live_bytes FROM securefile_usage('bench_1', 'doc')");
	double		wal;

	run("INSERT INTO bench_1 SELECT 2000000, doc::bytea FROM bench_1 WHERE id = 0");
	wal = run_and_count_wal("INSERT INTO bench_1 SELECT 2000001, doc::bytea"
							" FROM bench_1 WHERE id = 1");
	note_goal(wal, AT_MOST, 1024, "%s: bytes of WAL of a duplicate", name);
	note_goal(get_number("SELECT live_bytes FROM securefile_usage('bench_1', 'doc')") - live,
			  AT_MOST, 0, "%s: bytes of data that two duplicates write", name);
}

static void
run_case(const Case *cs, int objects, int repeat)
{
	char		types[COLUMNS][100];
	Fresh		fresh = {malloc((size_t) cs->size_bytes), getpid() * 1000};
	Load		load = {cs->size_bytes, objects, 1, fresh_bytes, &fresh};
	Column		columns[COLUMNS] = {
		{"keep_duplicates", types[KEEP], "$2", NULL},
		{"deduplicate", types[ONCE], "$2", NULL},
	};
	double		mb = (double) cs->size_bytes * objects / 1e6;
	Times		times;

	if (fresh.buffer == NULL)
		die("memory");
	snprintf(types[KEEP], sizeof(types[KEEP]), "securefile(%s)", cs->mode);
	snprintf(types[ONCE], sizeof(types[ONCE]), "securefile(%s, deduplicate)", cs->mode);
	make_columns(columns, COLUMNS);
	round_of(columns, &load, &times, 0);
	for (int r = 0; r < repeat; r++)
		round_of(columns, &load, &times, r);
	print_speed(cs->name, "keep_duplicates, new", mb, times.keep, NULL, repeat);
	print_speed(cs->name, "deduplicate, new", mb, times.fresh, times.keep, repeat);
	print_speed(cs->name, "deduplicate, again", mb, times.again, times.keep, repeat);
	print_speed(cs->name, "the same, from the page cache", mb, times.cached, times.keep, repeat);
	if (cs->new_at_most > 0)
		note_goal(median_ratio(times.fresh, times.keep, repeat), AT_MOST, cs->new_at_most,
				  "%s: time of new contents, to keep_duplicates", cs->name);
	if (cs->again_at_least > 0)
		note_goal(median_ratio(times.fresh, times.again, repeat), AT_LEAST, cs->again_at_least,
				  "%s: how many times as fast when they come again", cs->name);
	measure_one(cs->name);
	fflush(stdout);
	drop_columns(COLUMNS);
	free(fresh.buffer);
}

/* ---- many clients ---- */

#define CLIENTS			90
#define CLIENT_BYTES	(100 * KB)

/* One client: values for so many seconds, all the same or all different; how many. */
static int
client(const char *conninfo, int number, bool same, double seconds)
{
	char	   *buffer = malloc(CLIENT_BYTES);
	Fresh		fresh = {buffer, same ? 1 : 1000 + number};
	Load		load = {CLIENT_BYTES, 1, 1, fresh_bytes, &fresh};
	const int	lengths[] = {CLIENT_BYTES};
	const int	formats[] = {1};
	static const Oid types[] = {17};
	PGconn	   *own = PQconnectdb(conninfo);
	double		end = now() + seconds;
	int			done = 0;

	while (now() < end)
	{
		const char *values[] = {fresh_bytes(&load, same ? 0 : done)};
		PGresult   *res = PQexecParams(own, "INSERT INTO many VALUES ($1)", 1, types, values,
									   lengths, formats, 1);

		if (PQresultStatus(res) != PGRES_COMMAND_OK)
		{
			fprintf(stderr, "bench: %s", PQerrorMessage(own));
			_exit(1);
		}
		PQclear(res);
		done++;
	}
	PQfinish(own);
	free(buffer);
	return done;
}

/* Values a second of all clients. */
static double
clients(const char *conninfo, bool same, double seconds)
{
	int			pipes[2];
	int			sum = 0;

	run("DROP TABLE IF EXISTS many");
	run("CREATE TABLE many (doc securefile(deduplicate))");
	run("CHECKPOINT");
	if (pipe(pipes) != 0)
		die("pipe");
	fflush(stdout);
	for (int i = 0; i < CLIENTS; i++)
		if (fork() == 0)
		{
			int			done = client(conninfo, i, same, seconds);

			_exit(write(pipes[1], &done, sizeof(done)) == sizeof(done) ? 0 : 1);
		}
	for (int i = 0; i < CLIENTS; i++)
	{
		int			status;
		int			done;

		if (wait(&status) < 0 || status != 0 || read(pipes[0], &done, sizeof(done)) != sizeof(done))
			die("client");
		sum += done;
	}
	close(pipes[0]);
	close(pipes[1]);
	run("DROP TABLE many");
	return sum / seconds;
}

static void
bench_clients(const char *conninfo, double seconds, int repeat)
{
	double		same[MAX_REPEAT];
	double		other[MAX_REPEAT];

	for (int r = 0; r < repeat; r++)
	{
		other[r] = clients(conninfo, false, seconds);
		same[r] = clients(conninfo, true, seconds);
	}
	printf("%d clients, 100 KB: %.0f values a second when all differ, %.0f when all are the same\n",
		   CLIENTS, median(other, repeat), median(same, repeat));
	note_goal(median_ratio(same, other, repeat), AT_LEAST, 1,
			  "%d clients: the same 100 KB, to different ones", CLIENTS);
}

/* ---- copies ---- */

/* A value of that size, in pieces of 16 MB; copies of it; one of them is changed. */
static void
bench_copy(int64_t size, int repeat)
{
	char		sql[600];
	double		times[MAX_REPEAT];
	double		sorted[MAX_REPEAT];
	double		wal;

	run("DROP TABLE IF EXISTS large");
	run("CREATE TABLE large (id int, doc securefile(filesystem_like_logging))");
	snprintf(sql, sizeof(sql),
			 "DO $$ DECLARE fd int := securefile_create('large', 'doc');"
			 " part bytea := (SELECT string_agg(sha512(i::text::bytea), '') FROM generate_series(1, 262144) i);"
			 " BEGIN FOR i IN 1 .. %lld LOOP PERFORM securefile_write(fd, part); END LOOP;"
			 " INSERT INTO large VALUES (1, securefile_finish(fd)); END $$",
			 (long long) (size / (16 * MB)));
	run(sql);
	run("INSERT INTO large SELECT 2, doc FROM large WHERE id = 1");
	for (int r = 0; r < repeat; r++)
	{
		double		start = now();

		run("INSERT INTO large SELECT 3, doc FROM large WHERE id = 1");
		times[r] = now() - start;
	}
	wal = run_and_count_wal("INSERT INTO large SELECT 4, doc FROM large WHERE id = 1");
	sort_times(sorted, times, repeat);
	printf("copy of %lld MB: %.2f ms (%.2f to %.2f), %.0f bytes of WAL\n",
		   (long long) (size / MB), median(times, repeat) * 1e3, sorted[0] * 1e3,
		   sorted[repeat - 1] * 1e3, wal);
	note_goal(median(times, repeat) * 1e3, AT_MOST, 10, "copy of a large value: ms");
	note_goal(wal, AT_MOST, 4096, "copy of a large value: bytes of WAL");
	run("DROP TABLE large");
}

int
main(int argc, char **argv)
{
	const		Arguments arguments = begin_transforms("deduplicate", argc, argv);
	int			repeat = arguments.repeat;
	int			part = arguments.quick ? 10 : 1;

	for (int i = 0; i < CASES; i++)
		run_case(&cases[i], cases[i].objects / part, repeat);
	bench_clients(arguments.conninfo, 10.0 / part, repeat);
	bench_copy((int64_t) 10 * 1024 * MB / part, repeat);
	PQfinish(conn);
	return print_goals() ? 0 : 1;
}
