/*-------------------------------------------------------------------------
 *
 * dumprun.c
 *	  securefile dump DIR: a dump, which is a full restore point.
 *
 * The first connection makes the list of all rows, in a transaction whose snapshot it exports; the
 * others read files with that snapshot.  A row whose SHA-256 the list has, and whose object is
 * there, is written to the manifest at once: nothing of its file is read.  The others go to the
 * threads.  So the order of rows in a manifest is by chance.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "answer.h"
#include "dump.h"
#include "dumpdelta.h"
#include "flow.h"
#include "output.h"
#include "reserved.h"
#include "text.h"

#define BEGIN_READING	"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#define LIST_FIELDS		4		/* in front of the values of the row */

static const char settings[] =
	"SET datestyle = ISO; SET intervalstyle = postgres; SET extra_float_digits = 3;"
	"SET bytea_output = hex; SET statement_timeout = 0; SET lock_timeout = 0;"
	"SET idle_in_transaction_session_timeout = 0; SET row_security = off";

/* A row whose file may have to be read. */
typedef struct Job
{
	FlowItem	item;
	int			column;
	int64_t		length;
	char		sha256[SHA256_HEX_SIZE];	/* "": not known */
	char	   *place[2];		/* tableoid and ctid; null: distributed */
	char	  **keys;			/* values of the key */
	int			nkeys;
	char	   *row;			/* as JSON */
	char	   *name;
} Job;

static void
free_job(FlowItem *item)
{
	Job		   *job = (Job *) item;

	for (int i = 0; i < job->nkeys; i++)
		free(job->keys[i]);
	free(job->keys);
	free(job->place[0]);
	free(job->place[1]);
	free(job->row);
	free(job->name);
	free(job);
}

/* ---- sessions ---- */

/*
 * Texts come as UTF-8, which JSON is.  A database without an encoding (SQL_ASCII) sends bytes as
 * they are.
 */
bool
dump_settings(Session *session, Failure *failure)
{
	const char *encoding = PQparameterStatus(session->conn, "server_encoding");
	bool		bytes = encoding != NULL && strcmp(encoding, "SQL_ASCII") == 0;

	const char *wanted = bytes ? "SQL_ASCII" : "UTF8";
	PGresult   *result;
	bool		good;

	if (strcmp(pg_encoding_to_char(PQclientEncoding(session->conn)), wanted) != 0 &&
		PQsetClientEncoding(session->conn, wanted) != 0)
		return failure_sql(failure, session->conn, NULL);
	result = PQexec(session->conn, settings);
	good = PQresultStatus(result) == PGRES_COMMAND_OK;
	if (!good)
		failure_sql(failure, session->conn, result);
	PQclear(result);
	return good;
}

bool
dump_see(Session *session, const Dump *dump, Failure *failure)
{
	if (PQtransactionStatus(session->conn) != PQTRANS_IDLE)
		return true;
	return dump_settings(session, failure) && session_do(session, failure, BEGIN_READING) &&
		session_do(session, failure, dump->set_snapshot);
}

/* ---- one file ---- */

/* The parameters by which the statements of a column find the row. */
static pgsf_params
place_of(const Job *job)
{
	bool		by_key = job->place[0] == NULL;
	const char *const *values = (const char *const *) (by_key ? job->keys : job->place);

	return (pgsf_params)
	{
		by_key ? job->nkeys : 2, NULL, values, NULL, NULL
	};
}

/* Ask the server for the SHA-256, for which it reads the file; a kept one must be the same. */
static bool
ask_digest(Session *session, const Dump *dump, Job *job, bool *wrong, Failure *failure)
{
	pgsf_params params = place_of(job);
	const DumpColumn *column = &dump->columns.columns[job->column];
	PGresult   *result = session_rows(session, failure, 2, column->digests, params.count,
									  params.values);
	bool		good = PQntuples(result) == 1 && object_name_valid(PQgetvalue(result, 0, 1));

	if (good)
	{
		snprintf(job->sha256, sizeof(job->sha256), "%s", PQgetvalue(result, 0, 1));
		*wrong = !PQgetisnull(result, 0, 0) && strcmp(PQgetvalue(result, 0, 0), job->sha256) != 0;
	}
	else if (result != NULL)
		failure_say(failure, "the row is not there any more, or not the only one of its key");
	PQclear(result);
	return good;
}

/*
 * Write the file to an object of its own hash.  *wrong: that is another one than the list said.
 * *broken: the failure is one of the directory, which no other file will escape.
 */
static bool
fetch(Session *session, Dump *dump, Job *job, Delta *delta, bool *wrong, bool *broken,
	  Failure *failure)
{
	char		sha256[SHA256_HEX_SIZE];
	int64_t		bytes;
	TempFile   *file = object_begin(dump->dir, failure);

	*broken = file == NULL;
	if (file == NULL)
		return false;
	bytes = delta_fill(session, dump, delta, file, job->sha256, sha256, broken, failure);
	if (bytes < 0)
	{
		tempfile_discard(file);
		return false;
	}
	*wrong = *wrong || (job->sha256[0] != '\0' && strcmp(sha256, job->sha256) != 0);
	*broken = !object_finish(dump->dir, file, sha256, failure);
	memcpy(job->sha256, sha256, sizeof(job->sha256));
	job->length = bytes;
	return !*broken;
}

/* Tell of a kept hash that is not that of the file; the dump has the right one. */
static void
say_wrong(const Job *job)
{
	Failure		failure;

	failure_say(&failure, "the kept hash is not that of the file, whose SHA-256 is %s\n"
				"Hint: The dump has the file. Check the table with securefile verify, and store the file anew.",
				job->sha256);
	output_failed(job->name, &failure);
}

/* Find out the SHA-256 if the list has none.  It stays "" if tags are enough, and differ. */
static bool
find_hash(Session *session, Dump *dump, Job *job, Delta *delta, bool *wrong, Failure *failure)
{
	if (job->sha256[0] != '\0')
		return true;
	if (delta_trusts(dump, delta))
		return delta_same(session, dump, delta, job->sha256, failure);
	return ask_digest(session, dump, job, wrong, failure);
}

/* Let the object of the file be there, with its tags. */
static bool
provide_with(Session *session, Dump *dump, Job *job, Delta *delta, bool *broken, Failure *failure)
{
	bool		wrong = false;
	bool		there;
	bool		good;

	*broken = !dump_see(session, dump, failure);
	if (*broken || !find_hash(session, dump, job, delta, &wrong, failure))
		return false;
	if (job->sha256[0] != '\0')
		flight_begin(&dump->flights, job->sha256);
	there = job->sha256[0] != '\0' && object_exists(dump->dir, job->sha256, job->length);
	good = there || fetch(session, dump, job, delta, &wrong, broken, failure);
	flight_end(&dump->flights);
	if (good && (!there || delta_lacks_tags(dump, job->column, job->sha256, job->length)))
		good = delta_keep(session, dump, delta, job->sha256, failure);
	if (!good)
		return false;
	if (wrong)
		say_wrong(job);
	output_file(job->name, there ? ACTION_SAME : ACTION_GOT, job->length);
	return true;
}

static bool
provide(Session *session, Dump *dump, Job *job, bool *broken, Failure *failure)
{
	Delta		delta = {.column = job->column, .length = job->length, .row = job->row,
		.name = job->name, .params = place_of(job)};
	bool		good = provide_with(session, dump, job, &delta, broken, failure);

	delta_end(&delta);
	return good;
}

/* Stop: the dump cannot become one. */
static void
give_up(Dump *dump, const Failure *failure)
{
	if (!atomic_exchange(&dump->broken, true))
		output_message(failure);
	flow_stop(dump->flow);
}

/* A FlowWork: provide the object, and write the row.  A lost connection is tried once more. */
static bool
dump_one(Session *session, void *arg, FlowItem *item)
{
	Dump	   *dump = arg;
	Job		   *job = (Job *) item;
	ManifestFile file = {job->column, job->sha256, job->length, false};
	Failure		failure;
	Failure		ignored;
	bool		broken;
	bool		good = provide(session, dump, job, &broken, &failure);

	if (!good && PQstatus(session->conn) != CONNECTION_OK && session_recover(session, &ignored))
		good = provide(session, dump, job, &broken, &failure);
	file.length = job->length;
	if (!good && (broken || PQstatus(session->conn) != CONNECTION_OK))
	{
		give_up(dump, &failure);
		return false;
	}
	if (!good)
	{
		output_failed(job->name, &failure);
		file.sha256 = NULL;
		file.failed = true;
	}
	if (!manifest_add(dump->writer, &file, job->row, &failure))
		give_up(dump, &failure);
	return good;
}

/* ---- the list ---- */

/* A value of a line of COPY: without its escapes, in place.  NULL: it is null. */
static char *
unescape(char *text, size_t *length)
{
	static const char from[] = "bfnrtv";
	static const char to[] = "\b\f\n\r\t\v";
	char	   *out = strchrnul(text, '\\');

	*length = out - text;
	if (*out == '\0')
		return text;
	if (strcmp(text, "\\N") == 0)
		return NULL;
	for (const char *in = out; *in != '\0'; in++)
	{
		const char *found;

		if (*in != '\\' || in[1] == '\0')
		{
			*out++ = *in;
			continue;
		}
		in++;
		found = strchr(from, *in);
		*out++ = found != NULL ? to[found - from] : *in;
	}
	*out = '\0';
	*length = out - text;
	return text;
}

/* The key as one text, for messages. */
static char *
name_of_row(const DumpColumn *column, char *const *values)
{
	char	   *name = NULL;

	for (int i = 0; i < column->nkeys; i++)
	{
		const char *value = values[column->keys[i]];
		char	   *more = text_make("%s%s%.1000s", name == NULL ? "" : name,
									 name == NULL ? "" : "/", value == NULL ? "" : value);

		free(name);
		name = more;
	}
	return name;
}

static char *
copy_text(const char *text)
{
	return text == NULL ? NULL : text_make("%s", text);
}

/* Hand a row to the threads. */
static bool
push_row(Dump *dump, int number, char *const *fields, int64_t length, const char *row)
{
	const DumpColumn *column = &dump->columns.columns[number];
	Job		   *job = calloc(1, sizeof(Job));

	if (job == NULL || (job->keys = calloc(column->nkeys, sizeof(char *))) == NULL)
		abort();
	job->column = number;
	job->length = length;
	if (fields[3] != NULL)
		snprintf(job->sha256, sizeof(job->sha256), "%s", fields[3]);
	job->place[0] = copy_text(fields[0]);
	job->place[1] = copy_text(fields[1]);
	job->nkeys = column->nkeys;
	job->item.bytes = sizeof(Job) + strlen(row) * 2;
	for (int i = 0; i < column->nkeys; i++)
		job->keys[i] = copy_text(fields[LIST_FIELDS + column->keys[i]]);
	job->row = copy_text(row);
	job->name = name_of_row(column, fields + LIST_FIELDS);
	return flow_push(dump->flow, &job->item);
}

/* A row that needs nothing but its line in the manifest. */
static bool
add_row(Dump *dump, int number, char *const *fields, const ManifestFile *file, const char *row,
		Failure *failure)
{
	const Options *options = dump->options;
	const DumpColumn *column = &dump->columns.columns[number];
	char	   *name = options->verbose || options->json || options->dry_run ?
		name_of_row(column, fields + LIST_FIELDS) : NULL;

	if (file->sha256 != NULL)
		output_file(name == NULL ? "" : name, ACTION_SAME, file->length);
	free(name);
	return manifest_add(dump->writer, file, row, failure);
}

/* Is it a part of a file that is not complete yet? */
static bool
is_reserved(const DumpColumn *column, char *const *values)
{
	bool		reserved = false;

	for (int i = 0; i < column->nkeys; i++)
		reserved = reserved || (values[column->keys[i]] != NULL &&
								reserved_is(values[column->keys[i]]));
	return reserved;
}

/* Are the fields of a row what they should be? */
static bool
check_fields(char *const *fields, int64_t *length, Failure *failure)
{
	char	   *end = NULL;

	*length = 0;
	if (fields[2] == NULL)
		return true;
	errno = 0;
	*length = strtoll(fields[2], &end, 10);
	if (errno == 0 && *end == '\0' && *length >= 0 &&
		(fields[3] == NULL || object_name_valid(fields[3])))
		return true;
	return failure_say(failure, "the server sent a row of another form");
}

/* A line of the list: split it, and make a line of the manifest or an item of it. */
static bool
take_line(Dump *dump, int number, char *line, Text *row, Failure *failure)
{
	const DumpColumn *column = &dump->columns.columns[number];
	int			nfields = LIST_FIELDS + column->nrows;
	char	   *fields[LIST_FIELDS + MOST_COLUMNS];
	ManifestFile file = {number, NULL, 0, false};
	int			n = 0;

	row->length = 0;
	text_add(row, "[", 1);
	while (line != NULL && n < nfields)
	{
		size_t		length;

		fields[n] = unescape(strsep(&line, "\t"), &length);
		if (n > LIST_FIELDS)
			text_add(row, ",", 1);
		if (n >= LIST_FIELDS)
			text_add_json(row, fields[n], length);
		n++;
	}
	text_add(row, "]", 1);
	if (n != nfields || line != NULL)
		return failure_say(failure, "the server sent a row of another form");
	if (!check_fields(fields, &file.length, failure))
		return false;
	if (is_reserved(column, fields + LIST_FIELDS))
		return true;
	if (fields[2] != NULL && fields[3] != NULL &&
		object_exists(dump->dir, fields[3], file.length) &&
		!delta_lacks_tags(dump, number, fields[3], file.length))
		file.sha256 = fields[3];
	if (fields[2] == NULL || file.sha256 != NULL)
		return add_row(dump, number, fields, &file, row->bytes, failure);
	if (push_row(dump, number, fields, file.length, row->bytes))
		return true;
	return failure_say(failure, atomic_load(&dump->broken) ?
					   "the dump is not complete, and was not kept" : "no connection is left");
}

/* All rows of one column. */
static bool
list_rows(Session *session, Dump *dump, int number, Failure *failure)
{
	PGresult   *result = PQexec(session->conn, dump->columns.columns[number].list);
	bool		good = PQresultStatus(result) == PGRES_COPY_OUT;
	Text		row = {0};
	char	   *line;
	int			length = 0;

	if (!good)
		failure_sql(failure, session->conn, result);
	PQclear(result);
	while (good && (length = PQgetCopyData(session->conn, &line, 0)) > 0)
	{
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		good = take_line(dump, number, line, &row, failure);
		PQfreemem(line);
	}
	free(row.bytes);
	if (!good)
		return false;
	result = PQgetResult(session->conn);
	good = length == -1 && PQresultStatus(result) == PGRES_COMMAND_OK;
	if (!good)
		failure_sql(failure, session->conn, result);
	PQclear(result);
	while ((result = PQgetResult(session->conn)) != NULL)
		PQclear(result);
	return good;
}

/* ---- the run ---- */

bool
dump_snapshot(Session *session, Dump *dump, Failure *failure)
{
	PGresult   *result;

	if (!dump_settings(session, failure) || !session_do(session, failure, BEGIN_READING))
		return false;
	result = session_rows(session, failure, 1, "SELECT pg_catalog.pg_export_snapshot()", 0, NULL);
	if (PQntuples(result) == 1)
	{
		dump->snapshot = text_make("%s", PQgetvalue(result, 0, 0));
		dump->set_snapshot = text_make("SET TRANSACTION SNAPSHOT '%s'", dump->snapshot);
	}
	else if (result != NULL)
		failure_say(failure, "the server exported no snapshot");
	PQclear(result);
	return dump->snapshot != NULL;
}

/* A name that sorts by time. */
static char *
make_name(void)
{
	struct timeval now;
	struct tm	utc;
	char		text[32];

	gettimeofday(&now, NULL);
	gmtime_r(&now.tv_sec, &utc);
	strftime(text, sizeof(text), "%Y-%m-%dT%H%M%S", &utc);
	return text_make("%s.%06ldZ", text, (long) now.tv_usec);
}

static json_t *
describe(Session *session, const Dump *dump)
{
	const char *encoding = PQparameterStatus(session->conn, "server_encoding");
	json_t	   *columns = json_array();

	for (int i = 0; i < dump->columns.count; i++)
		json_array_append_new(columns, dumpcolumn_describe(&dump->columns.columns[i]));
	return json_pack("{s:i, s:s, s:s, s:o, s:s, s:o}", "securefile_dump", MANIFEST_VERSION,
					 "started", dump->name, "only", dump->longer >= 0 ? "oversize" : "all",
					 "database", output_json_name(PQdb(session->conn)),
					 "encoding", encoding == NULL ? "" : encoding, "columns", columns);
}

/* All columns, and the end of the manifest. */
static bool
run(Session *session, Dump *dump, ManifestTotals *totals, Failure *failure)
{
	json_t	   *header = describe(session, dump);
	bool		good;

	dump->writer = header == NULL ? NULL : manifest_begin(dump->dir, header, failure);
	json_decref(header);
	if (dump->writer == NULL)
		return header != NULL || failure_say(failure, "a name in the database is not UTF-8");
	flights_begin(&dump->flights);
	pthread_mutex_init(&dump->earlier_lock, NULL);
	dump->earlier = calloc(dump->columns.count, sizeof(Earlier));
	if (dump->earlier == NULL)
		abort();
	dump->flow = flow_begin(dump->options, dump_one, free_job, dump);
	good = true;
	for (int i = 0; good && i < dump->columns.count; i++)
		good = list_rows(session, dump, i, failure);
	if (!good)
		flow_stop(dump->flow);
	if (!flow_end(dump->flow) && good)
		good = failure_say(failure, "the dump is not complete, and was not kept");
	if (good)
		return manifest_end(dump->writer, dump->name, totals, failure);
	manifest_give_up(dump->writer);
	return false;
}

bool
dump_run(Session *session, Dump *dump, ManifestTotals *totals, Failure *failure)
{
	dump->name = make_name();
	return run(session, dump, totals, failure);
}
