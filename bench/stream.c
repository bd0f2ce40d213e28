/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  Large values in pieces, beside large objects and bytea.
 *
 * One connection, one object after the other.  securefile goes through
 * libpgsecurefile (handles in libpq's pipeline mode, securefile_chunks() in
 * single-row mode); large objects through lo_write() and lo_read(), with pieces of
 * 8 KB, as libpq's own lo_import() and lo_export() do, and of 1 MB; bytea in one
 * piece, as a binary parameter and result.  One untimed round compares the bytes that it
 * reads; the timed ones throw them away.
 *
 * The wire: 1 GB in rows of 256 KB from the server's memory, in binary COPY.
 * "memory" takes them from 16 MB, which is more than the processor's own cache
 * holds, as real data is; "one row" sends the same row over and over.
 *
 * The value of 1 GB is read past the system's page cache, as it was written, and then
 * from the page cache, which is filled before each turn.  An untimed turn comes before
 * each timed one: otherwise the memory that a process happens to have left decides.
 *
 * In each repetition every way takes its turn; medians are compared, and for the wire
 * the median of each repetition's own ratio.  Writes use the space of deleted objects,
 * after a checkpoint.
 *
 *	  stream [--quick] [--repeat N] [CONNINFO]
 *
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <libpq/libpq-fs.h>
#include "common.h"
#include "streams.h"

#define SMALL_PIECE		8192
#define LARGE_PIECE		(1024 * 1024)
#define OBJECT_SIZE		((size_t) 100 * 1024 * 1024)
#define LARGE_SIZE		((int64_t) 1024 * 1024 * 1024)

static pgsf *handle;
static char *data;
static Oid	lo_oid;

/* ---- securefile ---- */

static void
write_securefile(void)
{
	check_pgsf(handle, pgsf_put_memory(handle, data, OBJECT_SIZE, "stream_s", "f",
									   "INSERT INTO stream_s VALUES (1, " PGSF_VALUE ")", NULL, NULL),
			   "put");
}

static void
remove_securefile(void)
{
	run("DELETE FROM stream_s WHERE id = 1");
	wait_for_space("stream_s", "f");
}

/* The destination of reads: the next expected bytes, or NULL to throw them away. */
typedef struct Expected
{
	const char *next;
} Expected;

/* Compare bytes with the expected ones behind those before; exits if they differ. */
static void
compare(Expected *expected, const void *bytes, size_t len)
{
	if (expected->next == NULL)
		return;
	if (memcmp(expected->next, bytes, len) != 0)
	{
		fprintf(stderr, "bench: an object came back changed\n");
		exit(1);
	}
	expected->next += len;
}

static int
take(void *arg, const void *bytes, size_t len)
{
	compare(arg, bytes, len);
	return 0;
}

static void
read_securefile(const char *expected)
{
	Expected	what = {expected};

	check_pgsf(handle, pgsf_get_callback(handle, take, &what, 0, -1,
										 "SELECT f FROM stream_s WHERE id = 1", NULL), "get");
}

/* The 1 GB value: a thousand times the same megabyte. */
static int64_t
make_large(void *arg, void *buf, size_t len)
{
	int64_t    *left = arg;
	size_t		n = *left < (int64_t) len ? (size_t) *left : len;

	memcpy(buf, data, n < OBJECT_SIZE ? n : OBJECT_SIZE);
	*left -= (int64_t) n;
	return (int64_t) n;
}

static void
write_large(void)
{
	int64_t		left = LARGE_SIZE;

	check_pgsf(handle, pgsf_put_callback(handle, make_large, &left, LARGE_SIZE, "stream_s", "f",
										 "INSERT INTO stream_s VALUES (2, " PGSF_VALUE ")", NULL, NULL),
			   "put");
}

static void
read_large(void)
{
	Expected	nothing = {NULL};

	check_pgsf(handle, pgsf_get_callback(handle, take, &nothing, 0, -1,
										 "SELECT f FROM stream_s WHERE id = 2", NULL), "get");
}

/* ---- large objects ---- */

/* Write the object in pieces of that size, in one transaction. */
static void
write_lo(int piece)
{
	int			fd;

	run("BEGIN");
	lo_oid = lo_creat(conn, INV_WRITE);
	fd = lo_open(conn, lo_oid, INV_WRITE);
	for (size_t done = 0; done < OBJECT_SIZE; done += (size_t) piece)
		if (lo_write(conn, fd, data + done, (size_t) piece) != piece)
			die("lo_write");
	run("COMMIT");
}

static void
write_lo_small(void)
{
	write_lo(SMALL_PIECE);
}

static void
write_lo_large(void)
{
	write_lo(LARGE_PIECE);
}

static void
remove_lo(void)
{
	run("SELECT lo_unlink(loid) FROM (SELECT DISTINCT loid FROM pg_largeobject) l");
	run("VACUUM pg_largeobject");
}

/* Read the object in pieces of that size; expected: NULL, or its contents. */
static void
read_lo(const char *expected, int piece)
{
	static char buf[LARGE_PIECE];
	Expected	what = {expected};
	int			fd;

	run("BEGIN");
	fd = lo_open(conn, lo_oid, INV_READ);
	for (size_t done = 0; done < OBJECT_SIZE; done += (size_t) piece)
	{
		if (lo_read(conn, fd, buf, (size_t) piece) != piece)
			die("lo_read");
		compare(&what, buf, (size_t) piece);
	}
	run("COMMIT");
}

static void
read_lo_small(const char *expected)
{
	read_lo(expected, SMALL_PIECE);
}

static void
read_lo_large(const char *expected)
{
	read_lo(expected, LARGE_PIECE);
}

/* ---- bytea ---- */

/* Insert the object as one binary parameter. */
static void
write_bytea(void)
{
	const char *values[] = {data};
	const int	lengths[] = {(int) OBJECT_SIZE};
	const int	formats[] = {1};
	PGresult   *res = PQexecParams(conn, "INSERT INTO stream_b VALUES (1, $1::bytea)", 1, NULL,
								   values, lengths, formats, 1);

	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die("insert");
	PQclear(res);
}

static void
remove_bytea(void)
{
	run("DELETE FROM stream_b");
	run("VACUUM stream_b");
}

static void
read_bytea(const char *expected)
{
	PGresult   *res = PQexecParams(conn, "SELECT f FROM stream_b", 0, NULL, NULL, NULL, NULL, 1);
	Expected	what = {expected};

	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQgetlength(res, 0, 0) != (int) OBJECT_SIZE)
		die("select");
	compare(&what, PQgetvalue(res, 0, 0), OBJECT_SIZE);
	PQclear(res);
}

/* ---- COPY ---- */

static void
read_memory(void)
{
	copy_out("COPY (SELECT unnest(a) FROM"
			 " (SELECT array_agg(decode(repeat('5a', 262144), 'hex')) AS a"
			 "  FROM generate_series(1, 64) OFFSET 0) s, generate_series(1, 64))"
			 " TO STDOUT (FORMAT binary)");
}

static void
read_one_row(void)
{
	copy_out("COPY (SELECT c FROM (SELECT decode(repeat('5a', 262144), 'hex') AS c OFFSET 0) s,"
			 " generate_series(1, 4096)) TO STDOUT (FORMAT binary)");
}

static void
copy_large(void)
{
	copy_out("COPY (SELECT securefile_chunks(f) FROM stream_s WHERE id = 2)"
			 " TO STDOUT (FORMAT binary)");
}

/* Parts read one by one go through the page cache. */
static void
bring_into_cache(void)
{
	run("SELECT sum(length(substring(f, n::bigint, 16777216))) FROM stream_s,"
		" generate_series(1, 1073741824, 16777216) n WHERE id = 2");
}

/* ---- rounds ---- */

typedef enum What
{
	SECUREFILE,
	LO_SMALL,
	LO_LARGE,
	BYTEA,
	WAYS,
} What;

static const char *const names[] = {
	"securefile", "large object, 8 KB", "large object, 1 MB", "bytea"
};
static void (*const write_one[]) (void) =
{
	write_securefile, write_lo_small, write_lo_large, write_bytea
};
static void (*const remove_one[]) (void) =
{
	remove_securefile, remove_lo, remove_lo, remove_bytea
};
static void (*const read_one[]) (const char *) =
{
	read_securefile, read_lo_small, read_lo_large, read_bytea
};

static double
timed_write(int way)
{
	double		start;

	remove_one[way] ();
	run("CHECKPOINT");
	start = now();
	write_one[way] ();
	return now() - start;
}

static double
timed_read(int way)
{
	double		start = now();

	read_one[way] (NULL);
	return now() - start;
}

static double
timed(void (*what) (void))
{
	double		start = now();

	what();
	return now() - start;
}

static double
timed_settled(void (*what) (void))
{
	what();
	return timed(what);
}

static bool
print_ratio(const char *what, double ratio, double want)
{
	printf("%-56s %6.2f", what, ratio);
	if (want > 0)
		printf("   at least %.1f: %s", want, ratio >= want ? "reached" : "NOT REACHED");
	printf("\n");
	return ratio >= want;
}

/* Is the first that many times (0: no matter) as fast as the second? */
static bool
compare_medians(const char *what, const double *times, const double *other, int repeat, double want)
{
	return print_ratio(what, median(other, repeat) / median(times, repeat), want);
}

/* The same in each repetition, beside which others were. */
static bool
compare_pairs(const char *what, const double *times, const double *other, int repeat, double want)
{
	double		ratios[MAX_REPEAT];

	for (int r = 0; r < repeat; r++)
		ratios[r] = other[r] / times[r];
	return print_ratio(what, median(ratios, repeat), want);
}

/* Objects of 100 MB: write and read each way, in turns.  False if a goal was missed. */
static bool
bench_objects(int repeat)
{
	static double writes[WAYS][MAX_REPEAT];
	static double reads[WAYS][MAX_REPEAT];
	bool		reached = true;

	for (int way = 0; way < WAYS; way++)
		write_one[way] ();
	for (int r = 0; r < repeat; r++)
		for (int way = 0; way < WAYS; way++)
			writes[way][r] = timed_write(way);
	for (int way = 0; way < WAYS; way++)
		read_one[way] (data);
	for (int r = 0; r < repeat; r++)
		for (int way = 0; way < WAYS; way++)
			reads[way][r] = timed_read(way);
	for (int way = 0; way < WAYS; way++)
		print_speed("write 100 MB", names[way], OBJECT_SIZE / 1e6, writes[way], NULL, repeat);
	for (int way = 0; way < WAYS; way++)
		print_speed("read 100 MB", names[way], OBJECT_SIZE / 1e6, reads[way], NULL, repeat);
	reached &= compare_medians("write: securefile to lo_write, 8 KB",
							   writes[SECUREFILE], writes[LO_SMALL], repeat, 4);
	reached &= compare_medians("write: securefile to lo_write, 1 MB",
							   writes[SECUREFILE], writes[LO_LARGE], repeat, 4);
	reached &= compare_medians("write: securefile to bytea",
							   writes[SECUREFILE], writes[BYTEA], repeat, 1.5);
	reached &= compare_medians("read: securefile to lo_read, 8 KB",
							   reads[SECUREFILE], reads[LO_SMALL], repeat, 2.5);
	(void) compare_medians("read: securefile to lo_read, 1 MB",
						   reads[SECUREFILE], reads[LO_LARGE], repeat, 0);
	return reached;
}

/*
 * Streams of 1 GB, and the wire.  Cached: from the page cache; else from a disk,
 * which may be slower than the wire.
 */
static bool
bench_wire(int repeat, bool cached)
{
	const char *what = cached ? "1 GB, cached" : "1 GB";
	double		memory[MAX_REPEAT];
	double		one_row[MAX_REPEAT];
	double		copy[MAX_REPEAT];
	double		get[MAX_REPEAT];
	bool		reached = true;

	for (int r = 0; r < repeat; r++)
	{
		if (cached)
			bring_into_cache();
		memory[r] = timed_settled(read_memory);
		copy[r] = timed_settled(copy_large);
		get[r] = timed_settled(read_large);
		one_row[r] = timed_settled(read_one_row);
	}
	print_speed(what, "wire, memory", LARGE_SIZE / 1e6, memory, NULL, repeat);
	print_speed(what, "wire, one row", LARGE_SIZE / 1e6, one_row, NULL, repeat);
	print_speed(what, "securefile, COPY", LARGE_SIZE / 1e6, copy, NULL, repeat);
	print_speed(what, "securefile, library", LARGE_SIZE / 1e6, get, NULL, repeat);
	reached &= compare_pairs("COPY of securefile_chunks() to memory", copy, memory, repeat, 0.8);
	reached &= compare_pairs("the library to memory", get, memory, repeat, 0.8);
	(void) compare_pairs("COPY of securefile_chunks() to one row", copy, one_row, repeat, 0);
	return reached;
}

static void
make_tables(void)
{
	run("DROP TABLE IF EXISTS stream_s, stream_b");
	run("CREATE TABLE stream_s (id int PRIMARY KEY, f securefile(filesystem_like_logging))");
	run("CREATE TABLE stream_b (id int PRIMARY KEY, f bytea)");
	run("ALTER TABLE stream_b ALTER f SET STORAGE EXTERNAL,"
		" SET (vacuum_truncate = off, toast.vacuum_truncate = off)");
}

int
main(int argc, char **argv)
{
	const char *conninfo = "";
	int			repeat = 7;
	bool		reached;

	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
			repeat = 3;
		else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
			repeat = atoi(argv[++i]);
		else
			conninfo = argv[i];
	}
	check_repeat(repeat);
	open_connection(conninfo);
	handle = pgsf_new(conn);
	data = malloc(OBJECT_SIZE);
	fill(data, OBJECT_SIZE, 1);
	make_tables();
	reached = bench_objects(repeat);
	write_large();
	reached &= bench_wire(repeat, false);
	reached &= bench_wire(repeat, true);
	remove_lo();
	run("DROP TABLE stream_s, stream_b");
	free(data);
	pgsf_free(handle);
	PQfinish(conn);
	return reached ? 0 : 1;
}
