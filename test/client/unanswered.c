/*-------------------------------------------------------------------------
 *
 * unanswered.c
 *	  Trials: a server that takes cancel requests and never answers them, and one whose
 *	  routes lead elsewhere.
 *
 * Called with a proxy (test/perl/SecurefileProxy.pm) between here and the server.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "trial.h"

static void *
cancel_soon(void *arg)
{
	(void) arg;
	usleep(200000);
	pgsf_cancel(h);
	return NULL;
}

/* Entries of a directory of /proc/self: threads, descriptors. */
static int
count_of(const char *name)
{
	DIR		   *dir = opendir(name);
	int			count = 0;

	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* A call failed in that way; the connection need not be usable. */
static void
failed(int64_t rc, const char *sqlstate, const char *name)
{
	check(rc < 0 && strcmp(pgsf_sqlstate(h), sqlstate) == 0, "%s: %s", name, pgsf_error(h));
}

static void
nothing_is_left(int threads, int descriptors, const char *name)
{
	check(count_of("/proc/self/task") == threads, "%s: no thread is left", name);
	check(count_of("/proc/self/fd") <= descriptors, "%s: no descriptor is left", name);
}

/* A get that fails on this side in the middle: the rest of the value is not wanted any more. */
static void
get_fails(int full)
{
	int			threads = count_of("/proc/self/task");
	int			descriptors = count_of("/proc/self/fd");

	for (int own = 1; own >= 0; own--)
	{
		if (!own)
			own_sql("BEGIN");
		failed(pgsf_get_fd(h, full, 0, -1, SELECT_ID, id_is(1)), PGSF_ERROR_FILE,
			   "get to a full disk");
		nothing_is_left(threads, descriptors, "get to a full disk");
		connect_again();
	}
}

/* A call that waits for the server, and is cancelled. */
static void
wait_is_cancelled(void)
{
	int			threads = count_of("/proc/self/task");
	int			descriptors = count_of("/proc/self/fd");
	pthread_t	thread;

	sql("BEGIN");
	sql("LOCK TABLE t");
	pthread_create(&thread, NULL, cancel_soon, NULL);
	failed(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), PGSF_ERROR_CANCELLED,
		   "a wait for a lock");
	pthread_join(thread, NULL);
	check(PQstatus(conn) == CONNECTION_BAD, "the connection is given up");
	nothing_is_left(threads, descriptors, "a wait for a lock");
	failed(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), PGSF_ERROR_CONNECTION, "and says so");
	sql("ROLLBACK");
	PQreset(conn);
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(1)), "open after PQreset");
	works(pgsf_close(h), "close");
}

void
trial_unanswered(void)
{
	size_t		len = 20 * MB;
	char	   *data = bytes(len, 1);
	int			full = open("/dev/full", O_WRONLY);

	works(put_bytes(1, data, len), "put");
	get_fails(full);
	if (getenv("TRIAL_WAITS"))
		wait_is_cancelled();
	close(full);
	free(data);
}

/* The proxy answers for a coordinator. */
void
trial_route(void)
{
	pgsf_route	route;
	int64_t		rc = pgsf_find_route(h, "t", "1", &route);

	check(rc < 0 && (strcmp(pgsf_sqlstate(h), PGSF_ERROR_PROTOCOL) == 0 ||
					 strcmp(pgsf_sqlstate(h), PGSF_ERROR_CONNECTION) == 0),
		  "a route is refused: %s", pgsf_error(h));
}
