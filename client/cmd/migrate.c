/*-------------------------------------------------------------------------
 *
 * migrate.c
 *	  securefile migrate --from COLUMN
 *
 * The files that rows name by a path of this machine or by a URL become values of the same rows.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate.h"
#include "output.h"
#include "pool.h"
#include "verbs.h"

#define BATCH_ROWS		100
#define PARTS_EACH		8		/* for each connection, at least, of rows that
								 * are enough */

/* ---- the report of a dry run ---- */

/* What looking at the files of all rows has shown. */
typedef struct Survey
{
	const Migrate *migrate;
	atomic_llong files;
	atomic_llong bytes;
	atomic_llong urls;
	atomic_llong missing;
	atomic_llong refused;
} Survey;

/* A PoolWork: looks at the file of a row, and asks no web server. */
static bool
survey_one(Session *session, void *arg, size_t number)
{
	Survey	   *survey = arg;
	const MigrateRow *row = &survey->migrate->rows[number];
	Failure		failure;
	int64_t		length;
	int			fd;

	(void) session;
	errno = 0;
	if (url_is_one(row->from) && url_check(row->from, &failure))
	{
		atomic_fetch_add(&survey->urls, 1);
		return true;
	}
	fd = url_is_one(row->from) ? -1 : migrate_open(survey->migrate, row->from, &length, &failure);
	if (fd >= 0)
	{
		close(fd);
		atomic_fetch_add(&survey->files, 1);
		atomic_fetch_add(&survey->bytes, length);
		progress_bytes(length);
		return true;
	}
	atomic_fetch_add(errno == ENOENT ? &survey->missing : &survey->refused, 1);
	output_failed(row->key != NULL ? row->key : "", &failure);
	return true;
}

/* The report, as an object or as lines. */
static void
tell_survey(const Survey *survey, const MigrateCounts *counts)
{
	const Options *options = survey->migrate->options;
	char		size[32];

	if (options->json)
	{
		output_record(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
								"report", "migrate",
								"rows", (json_int_t) counts->rows,
								"done", (json_int_t) counts->done,
								"empty", (json_int_t) counts->empty,
								"files", (json_int_t) survey->files,
								"bytes", (json_int_t) survey->bytes,
								"urls", (json_int_t) survey->urls,
								"missing", (json_int_t) survey->missing,
								"refused", (json_int_t) survey->refused,
								"repeated", (json_int_t) counts->repeated));
		return;
	}
	output_line("%12lld rows", (long long) counts->rows);
	output_line("%12lld done: %s is not null", (long long) counts->done,
				survey->migrate->target->column);
	output_line("%12lld without a path or URL", (long long) counts->empty);
	output_line("%12lld files to store, %s", (long long) survey->files,
				progress_size(survey->bytes, size, sizeof(size)));
	output_line("%12lld URLs to fetch, which have not been asked", (long long) survey->urls);
	output_line("%12lld missing", (long long) survey->missing);
	output_line("%12lld refused", (long long) survey->refused);
	output_line("%12lld with the path or URL of another row", (long long) counts->repeated);
}

/* ---- storing ---- */

/* A PoolWork: a batch of rows. */
static bool
store_part(Session *session, void *arg, size_t number)
{
	const Migrate *migrate = arg;
	size_t		first = number * migrate->batch_rows;
	size_t		left = migrate->count - first;

	return migrate_store(session, migrate, first,
						 left < migrate->batch_rows ? left : migrate->batch_rows);
}

/* ---- comparing ---- */

/* Has the file of a row the same bytes as its value?  The server reads the value. */
static bool
compare(Session *session, const Migrate *migrate, const char *key, MigrateLook *look,
		int64_t *length, Failure *failure)
{
	char		sha256[SHA256_HEX_SIZE];
	int			fd;
	bool		good;

	if (!migrate_look(session, migrate, key, migrate->target->read_digest, look, failure))
		return false;
	if (look->from == NULL || !look->done)
		return true;
	fd = migrate_open(migrate, look->from, length, failure);
	good = fd >= 0 && local_sha256(fd, sha256, failure);
	if (fd >= 0)
		close(fd);
	if (good && strcmp(sha256, look->sha256) != 0)
		good = failure_say(failure, "the file and the stored one differ");
	return good;
}

/* A PoolWork: compares the file of a row with its value. */
static bool
compare_one(Session *session, void *arg, size_t number)
{
	const Migrate *migrate = arg;
	const char *key = migrate->rows[number].key;
	MigrateLook look = {0};
	int64_t		length = 0;
	Failure		failure;
	bool		good = key == NULL ? failure_say(&failure, "the row has no name") :
		compare(session, migrate, key, &look, &length, &failure);

	progress_bytes(length);
	if (good)
		output_file(key, look.done && look.from != NULL ? ACTION_SAME : ACTION_SKIPPED, length);
	else
		output_failed(key != NULL ? key : "", &failure);
	free(look.from);
	return good || PQstatus(session->conn) == CONNECTION_OK;
}

/* ---- the verb ---- */

/* So many rows in a transaction that no connection is left without work for long. */
static size_t
rows_in_batch(const Migrate *migrate)
{
	size_t		rows = migrate->count / ((size_t) migrate->options->jobs * PARTS_EACH);

	return rows < 1 ? 1 : rows > BATCH_ROWS ? BATCH_ROWS : rows;
}

/*
 * Do the work with the rows of a list, which are done or not, in batches or one after the other;
 * false: not all were tried.
 */
static bool
run_list(Session *session, Migrate *migrate, bool done, bool batches, PoolWork work, void *arg)
{
	Failure		failure;

	if (!migrate_list(session, migrate, done, &failure))
	{
		output_message(&failure);
		return false;
	}
	migrate->batch_rows = batches ? rows_in_batch(migrate) : 1;
	if (!migrate->options->quiet)
		progress_begin((int64_t) migrate->count, -1);
	return pool_run_parts(migrate->options, migrate->target, session, migrate->count,
						  migrate->batch_rows, work, arg);
}

static int
report(Session *session, Migrate *migrate)
{
	Survey		survey = {.migrate = migrate};
	MigrateCounts counts;
	Failure		failure;
	bool		all;

	if (!migrate_count(session, migrate, &counts, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	all = run_list(session, migrate, false, false, survey_one, &survey);
	progress_end();
	if (all)
		tell_survey(&survey, &counts);
	return output_status(all ? EXIT_DONE : EXIT_SETUP);
}

static int
store_all(Session *session, Migrate *migrate)
{
	bool		all = run_list(session, migrate, false, true, store_part, migrate);

	if (all && migrate->options->verify && !output_stopped())
		all = run_list(session, migrate, true, false, compare_one, migrate);
	/* a batch that was begun is not always done to its end */
	return output_end(all && !output_stopped() ? EXIT_DONE : EXIT_SETUP);
}

/* Open --root and find what belongs to the table; false with the reason. */
static bool
prepare(Session *session, Migrate *migrate, Failure *failure)
{
	const Target *target = migrate->target;

	if (target->distributed)
		return failure_say(failure,
						   "%s is a distributed table of Citus, where migrate does not work\n"
						   "Hint: Store the files with securefile put or import; or migrate the table, and distribute it then.",
						   target->table);
	return migrate_find_from(session, migrate, failure);
}

int
verb_migrate(const Options *options)
{
	Target		target;
	Migrate		migrate = {.options = options, .target = &target, .top = -1,
		.limits = {options->max_size, options->timeout, options->retries}};
	Session    *session;
	Failure		failure;
	int			status = EXIT_SETUP;

	if (options->root != NULL && (migrate.top = local_open_top(options->root, &failure)) < 0)
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	url_begin();
	if (!prepare(session, &migrate, &failure))
		output_message(&failure);
	else
		status = options->dry_run ? report(session, &migrate) : store_all(session, &migrate);
	url_end();
	session_end(session);
	return status;
}
