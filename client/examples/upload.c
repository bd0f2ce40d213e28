/*-------------------------------------------------------------------------
 *
 * upload.c
 *	  Stream standard input into a new row, with progress, until its end or Ctrl-C.
 *
 *	  upload CONNINFO NAME
 *
 * Prints the id of the row.  After Ctrl-C nothing is stored; a last query shows that the
 * connection can still be used.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <unistd.h>

#include <pgsecurefile.h>

static pgsf *volatile running;

static void
on_interrupt(int sig)
{
	(void) sig;
	pgsf_cancel(running);
}

static int
show_progress(void *arg, int64_t done, int64_t total)
{
	(void) arg;
	(void) total;
	fprintf(stderr, "\r%lld MB", (long long) (done / 1000000));
	return 0;
}

/* Returns the number of bytes, or -1 with the error in h. */
static int64_t
upload(pgsf *h, const char *name)
{
	const char *values[] = {name};
	pgsf_params params = {1, NULL, values, NULL, NULL};
	PGresult   *result;
	int64_t		len;

	pgsf_set_progress(h, show_progress, NULL);
	len = pgsf_put_fd(h, STDIN_FILENO, "docs", "document",
					  "INSERT INTO docs (name, document) VALUES ($1, " PGSF_VALUE ") RETURNING id",
					  &params, &result);
	fprintf(stderr, "\n");
	if (len >= 0)
		printf("%s\n", PQgetvalue(result, 0, 0));
	PQclear(result);
	return len;
}

int
main(int argc, char **argv)
{
	PGconn	   *conn;
	int64_t		len;

	if (argc != 3)
	{
		fprintf(stderr, "upload CONNINFO NAME\n");
		return 1;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "upload: %s", PQerrorMessage(conn));
		return 1;
	}

	running = pgsf_new(conn);
	signal(SIGINT, on_interrupt);
	len = upload(running, argv[2]);
	if (len < 0)
	{
		PGresult   *result = PQexec(conn, "SELECT count(*) FROM docs");

		fprintf(stderr, "upload: %s (%s)\n", pgsf_error(running), pgsf_sqlstate(running));
		fprintf(stderr, "rows: %s\n", PQgetvalue(result, 0, 0));
		PQclear(result);
	}

	signal(SIGINT, SIG_DFL);
	pgsf_free(running);
	PQfinish(conn);
	return len < 0 ? 1 : 0;
}
