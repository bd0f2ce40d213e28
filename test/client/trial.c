/*-------------------------------------------------------------------------
 *
 * trial.c
 *	  Trials of the client library: one of them, on a server that is there.
 *
 *	  trial CONNINFO NAME
 *
 * Called by test/t/client/092_client_library.pl, which looks at the server meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

PGconn	   *conn;
pgsf	   *h;

static PGconn *second;
const char *conninfo;

static const struct
{
	const char *name;
	void		(*run) (void);
}			trials[] =

{
	{"whole", trial_whole},
	{"handles", trial_handles},
	{"random", trial_random},
	{"transactions", trial_transactions},
	{"together", trial_together},
	{"arguments", trial_arguments},
	{"lost", trial_lost},
	{"cancel", trial_cancel},
	{"cancel_any", trial_cancel_any},
	{"put_fails", trial_put_fails},
	{"read_only", trial_read_only},
	{"local", trial_local},
	{"changing", trial_changing},
	{"memory", trial_memory},
	{"holes", trial_holes},
	{"unanswered", trial_unanswered},
	{"route", trial_route},
	{"ranges", trial_ranges},
	{"insertions", trial_insertions},
	{"long_insertions", trial_long_insertions},
};

bool
check(bool good, const char *format, ...)
{
	va_list		args;

	printf(good ? "ok - " : "not ok - ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return good;
}

/* The first column of the first row; exits if the statement fails. */
static const char *
first_value(PGconn *on, const char *query)
{
	static char value[1000];
	PGresult   *result = PQexec(on, query);
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
	{
		check(false, "%s: %s", query, PQerrorMessage(on));
		exit(1);
	}
	snprintf(value, sizeof(value), "%s", PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	return value;
}

const char *
own_sql(const char *query)
{
	return first_value(conn, query);
}

const char *
sql(const char *query)
{
	return first_value(second, query);
}

/* As the application left it, and ready for its commands. */
static bool
usable(void)
{
	PGresult   *result;
	bool		good;

	if (PQstatus(conn) != CONNECTION_OK)
		return true;
	if (PQpipelineStatus(conn) != PQ_PIPELINE_OFF || PQisnonblocking(conn))
		return false;
	if (PQtransactionStatus(conn) == PQTRANS_INERROR)
		return true;
	result = PQexec(conn, "SELECT 1");
	good = PQresultStatus(result) == PGRES_TUPLES_OK;
	PQclear(result);
	return good;
}

bool
works(int64_t rc, const char *name)
{
	if (rc < 0)
		return check(false, "%s: %s (%s)", name, pgsf_error(h), pgsf_sqlstate(h));
	return check(pgsf_error(h)[0] == '\0', "%s", name);
}

bool
fails(int64_t rc, const char *sqlstate, const char *name)
{
	if (rc >= 0)
		return check(false, "%s: no error", name);
	if (strcmp(pgsf_sqlstate(h), sqlstate) != 0 || pgsf_error(h)[0] == '\0')
		return check(false, "%s: %s (%s)", name, pgsf_error(h), pgsf_sqlstate(h));
	return check(usable(), "%s: %s", name, pgsf_error(h));
}

static PGconn *
connect_or_exit(void)
{
	PGconn	   *made = PQconnectdb(conninfo);

	if (PQstatus(made) == CONNECTION_OK)
		return made;
	check(false, "%s", PQerrorMessage(made));
	exit(1);
}

void
connect_again(void)
{
	pgsf_free(h);
	PQfinish(conn);
	conn = connect_or_exit();
	h = pgsf_new(conn);
	check(h != NULL, "a handle");
}

const pgsf_params *
id_is(int id)
{
	static char text[20];
	static const char *values[] = {text};
	static const pgsf_params params = {1, NULL, values, NULL, NULL};

	snprintf(text, sizeof(text), "%d", id);
	return &params;
}

char *
bytes(size_t len, unsigned seed)
{
	char	   *data = malloc(len + 1);
	uint64_t	state = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++)
	{
		state = state * 6364136223846793005u + 1442695040888963407u;
		data[i] = (char) (state >> 56);
	}
	return data;
}

bool
value_is(int id, const char *data, size_t len, const char *name)
{
	void	   *found;
	size_t		found_len;
	bool		same;

	if (pgsf_get_memory(h, &found, &found_len, 0, -1, SELECT_ID, id_is(id)) < 0)
		return works(-1, name);
	same = found_len == len && memcmp(found, data, len) == 0;
	pgsf_free_memory(found);
	return check(same, "%s: contents of %d, %zu of %zu bytes", name, id, found_len, len);
}

void
rows_are(int count, const char *name)
{
	int			found = atoi(sql("SELECT count(*) FROM t"));

	check(found == count, "%s: %d rows", name, found);
}

int64_t
put_bytes(int id, const char *data, size_t len)
{
	return pgsf_put_memory(h, data, len, "t", "doc", INSERT_ID, id_is(id), NULL);
}

void
gives(pgsf *handle, int64_t got, int64_t wanted, const char *name)
{
	check(got == wanted, "%s: %lld, %s", name, (long long) got, pgsf_error(handle));
}

void
move(pgsf *handle, int64_t position)
{
	gives(handle, pgsf_seek(handle, position, SEEK_SET), position, "seek");
}

void
open_value_is(pgsf *handle, const char *data, size_t len, const char *name)
{
	char	   *found = malloc(len + 1);
	size_t		at = 0;
	int64_t		got = 0;

	if (pgsf_seek(handle, 0, SEEK_SET) == 0)
		while (at <= len && (got = pgsf_read(handle, found + at,
											 len + 1 - at < 70000 ? len + 1 - at : 70000)) > 0)
			at += got;
	check(got == 0 && at == len && memcmp(found, data, len) == 0, "%s: %zu of %zu bytes, %s", name,
		  at, len, pgsf_error(handle));
	free(found);
}

void
places_are(pgsf *handle, int64_t position, int64_t length, const char *name)
{
	check(pgsf_tell(handle) == position && pgsf_length(handle) == length, "%s: at %lld of %lld",
		  name, (long long) pgsf_tell(handle), (long long) pgsf_length(handle));
}

void
begin_stream(pgsf *handle, const char *data, int64_t offset)
{
	char		buf[1000];
	bool		good = pgsf_seek(handle, offset, SEEK_SET) == offset;

	for (int i = 0; i < 3 && good; i++)
		good = pgsf_read(handle, buf, sizeof(buf)) == (int64_t) sizeof(buf) &&
			memcmp(buf, data + offset + i * sizeof(buf), sizeof(buf)) == 0;
	check(good && PQpipelineStatus(conn) == PQ_PIPELINE_ON, "a stream has begun");
}

int
main(int argc, char **argv)
{
	if (argc == 3)
	{
		conninfo = argv[1];
		for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++)
		{
			if (strcmp(trials[i].name, argv[2]) != 0)
				continue;
			second = connect_or_exit();
			connect_again();
			trials[i].run();
			pgsf_free(h);
			PQfinish(conn);
			PQfinish(second);
			return 0;
		}
	}
	fprintf(stderr, "trial CONNINFO NAME\n");
	return 1;
}
