/*-------------------------------------------------------------------------
 *
 * rotation.c
 *	  New keys for old values.
 *
 * securefile_rewrite_online() of a table, beside a copy of it by INSERT .. SELECT into
 * another one; both have their space already.  securefile_rewrap() of many columns, each of
 * a table of its own, from one master key to another and back.
 *
 *-------------------------------------------------------------------------
 */
#include "common.h"
#include "transforms.h"

#define KB				1024
#define MB				(1024 * 1024)

/* Tables of two columns with the same options. */
enum
{
	STORED,
	COPY,
	TABLES,
};

/* ---- values ---- */

static double
timed(const char *sql)
{
	double		start;

	run("CHECKPOINT");
	start = now();
	run(sql);
	return now() - start;
}

/* The table's old row versions and values are gone, and their space can be used again. */
static void
settle(int column)
{
	char		sql[128];

	snprintf(sql, sizeof(sql), "VACUUM %s", table_of(column));
	run(sql);
	wait_for_space(table_of(column), "doc");
}

static void
bench_rewrite(const Column *column, int size_bytes, int objects, int repeat)
{
	const Column columns[TABLES] = {*column, *column};
	Load		load = {size_bytes, objects, objects, part_of_corpus, &corpora[JSON]};
	double		mb = (double) size_bytes * objects / 1e6;
	double		rewrite[MAX_REPEAT];
	double		copy[MAX_REPEAT];
	char		name[64];

	make_columns(columns, TABLES);
	(void) write_column(STORED, &load);
	for (int r = -1; r < repeat; r++)
	{
		empty_column(columns, COPY);
		copy[r < 0 ? 0 : r] = timed("INSERT INTO bench_1 SELECT * FROM bench_0");
		run("SELECT securefile_new_key('bench_0', 'doc')");
		rewrite[r < 0 ? 0 : r] =
			timed("CALL securefile_rewrite_online('bench_0', 'doc', only_keys => true)");
		settle(STORED);
	}
	drop_columns(TABLES);
	snprintf(name, sizeof(name), "%d values of %d KB", objects, size_bytes / KB);
	print_speed(name, "INSERT .. SELECT", mb, copy, NULL, repeat);
	print_speed(name, "securefile_rewrite_online()", mb, rewrite, copy, repeat);
	note_goal(median_ratio(copy, rewrite, repeat), AT_LEAST, 0.7,
			  "%s: speed of securefile_rewrite_online() to INSERT .. SELECT", name);
}

/* ---- keys ---- */

static void
set_master_key(const char *name)
{
	char		sql[256];

	snprintf(sql, sizeof(sql), "ALTER SYSTEM SET securefile.master_key = '%s'", name);
	run(sql);
	run("SELECT pg_reload_conf()");
	snprintf(sql, sizeof(sql),
			 "SELECT count(*) FROM securefile_master_keys() WHERE is_current AND name = '%s'", name);
	while (get_number(sql) == 0)
		run("SELECT pg_sleep(0.01)");
}

/* Tables with a value each; a hundred in a transaction, since each of them is locked. */
static void
make_tables(int n)
{
	char		sql[512];

	snprintf(sql, sizeof(sql),
			 "DO $$ BEGIN FOR i IN 1 .. %d LOOP"
			 " EXECUTE format('CREATE TABLE rewrap_%%s (doc securefile(encrypt))', i);"
			 " EXECUTE format('INSERT INTO rewrap_%%s VALUES (''a value''::bytea)', i);"
			 " IF i %% 100 = 0 THEN COMMIT; END IF; END LOOP; END $$", n);
	run(sql);
}

static void
bench_rewrap(int ncolumns, int repeat)
{
	double		seconds[MAX_REPEAT];
	double		sorted[MAX_REPEAT];

	make_tables(ncolumns);
	for (int r = 0; r < repeat; r++)
	{
		double		start;

		set_master_key(r % 2 == 0 ? "two" : "one");
		run("CHECKPOINT");
		start = now();
		if (get_number("SELECT securefile_rewrap()") != ncolumns)
			die("securefile_rewrap() has not wrapped all keys");
		seconds[r] = now() - start;
	}
	sort_times(sorted, seconds, repeat);
	printf("securefile_rewrap() of %d columns: %.2f s   (%.2f to %.2f)\n", ncolumns,
		   sorted[repeat / 2], sorted[0], sorted[repeat - 1]);
	note_goal(sorted[repeat / 2], AT_MOST, 10, "securefile_rewrap() of %d columns: seconds",
			  ncolumns);
	set_master_key("one");
}

void
bench_rotation(const Column *column, int ncolumns, int objects, int repeat)
{
	bench_rewrite(column, 10 * KB, 40 * objects, repeat);
	bench_rewrite(column, MB, objects, repeat);
	bench_rewrap(ncolumns, repeat);
	fflush(stdout);
}
