/*-------------------------------------------------------------------------
 *
 * ask.c
 *	  Asking the server to stop, within a limit of time.
 *
 * PQcancel() waits for the server without limit: until it has accepted a connection, and until it
 * has closed that.  libpq has had another way since version 17 only.  So PQcancel() runs in a
 * thread, which is cancelled at the limit: all that it waits in are cancellation points.  The
 * thread has a table of descriptors of its own, with nothing but the socket of PQcancel(): that is
 * closed with the thread.  It takes no signals, and is gone when the call returns.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define ANSWER_SECONDS	2

typedef struct Asking
{
	PGcancel   *cancel;
	bool		answered;
} Asking;

int64_t
pgsfi_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * The thread.  Where the system lets it have no table of its own, a request that is not
 * answered leaves one descriptor open.
 */
static void *
ask(void *arg)
{
	Asking	   *asking = arg;
	char		text[256];

	if (close_range(3, ~0U, CLOSE_RANGE_UNSHARE) != 0)
		(void) unshare(CLONE_FILES);
	asking->answered = PQcancel(asking->cancel, text, sizeof(text));
	return NULL;
}

/* Run the thread, for so long at most. */
static void
ask_in_thread(Asking *asking)
{
	struct timespec limit;
	sigset_t	all;
	sigset_t	before;
	pthread_t	thread;
	int			rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, ask, asking);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += ANSWER_SECONDS;
	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &limit) == 0)
		return;
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

bool
pgsfi_ask(PGconn *conn)
{
	Asking		asking = {PQgetCancel(conn), false};

	if (asking.cancel == NULL)
		return false;
	ask_in_thread(&asking);
	PQfreeCancel(asking.cancel);
	return asking.answered;
}
