/*-------------------------------------------------------------------------
 *
 * interrupt.c
 *	  Signals, taken by a thread of their own.
 *
 * The other threads need not notice: the server rolls a transaction back when its
 * connection ends, and an incomplete file here has a temporary name.  So this thread
 * removes the temporary files, cancels the running statements (a server that computes
 * looks at its connection late) and ends the process.  It keeps the locks of output and
 * of temporary files, so that no other thread prints half a line or makes a new file.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "output.h"
#include "tempfile.h"

#define MAX_WATCHED		80		/* more than connections there can be */
#define CANCEL_SECONDS	3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct
{
	PGconn	   *conn;
	PGcancel   *cancel;
}			watched[MAX_WATCHED];

/* Threads that cancel, at the end. */
static pthread_mutex_t cancel_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cancelled = PTHREAD_COND_INITIALIZER;
static int	cancelling = 0;

static struct termios terminal;
static bool terminal_changed = false;

void
interrupt_leave(int status)
{
	tempfile_remove_all();
	if (terminal_changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
	_exit(status);
}

/* A thread: cancels the running statement of a connection. */
static void *
cancel_one(void *arg)
{
	char		reason[256];

	PQcancel(arg, reason, sizeof(reason));
	pthread_mutex_lock(&cancel_lock);
	cancelling--;
	pthread_cond_signal(&cancelled);
	pthread_mutex_unlock(&cancel_lock);
	return NULL;
}

/*
 * Cancel the running statements of all connections at the same time.  PQcancel() may wait for its
 * server for ever; this waits for some seconds.  Threads that are left go with the process.
 */
static void
cancel_all(void)
{
	struct timespec limit;
	int			rc = 0;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += CANCEL_SECONDS;
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&cancel_lock);
	for (int i = 0; i < MAX_WATCHED; i++)
	{
		pthread_t	thread;

		if (watched[i].cancel == NULL ||
			pthread_create(&thread, NULL, cancel_one, watched[i].cancel) != 0)
			continue;
		pthread_detach(thread);
		cancelling++;
	}
	while (cancelling > 0 && rc == 0)
		rc = pthread_cond_timedwait(&cancelled, &cancel_lock, &limit);
	pthread_mutex_unlock(&cancel_lock);
}

/* Say why the process ends, and let no other thread print anything behind that. */
static void
say_interrupted(void)
{
	/* a thread whose reader does not read may hold the lock for ever */
	if (!output_lock_within(1))
		return;
	output_interrupted();
}

/* The thread: waits for the first signal, and ends the process. */
static void *
wait_for_signals(void *arg)
{
	const sigset_t *signals = arg;
	int			number;

	while (sigwait(signals, &number) != 0)
		;
	say_interrupted();
	tempfile_remove_all();
	/* a second signal ends the process at once */
	pthread_sigmask(SIG_UNBLOCK, signals, NULL);
	cancel_all();
	interrupt_leave(128 + number);
}

void
interrupt_begin(void)
{
	static sigset_t signals;
	sigset_t	pipe;
	pthread_t	thread;

	/* a write to a closed pipe shall give EPIPE, see output_broken() */
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, NULL);

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (pthread_create(&thread, NULL, wait_for_signals, &signals) != 0)
	{
		fprintf(stderr, "securefile: could not start a thread\n");
		exit(EXIT_SETUP);
	}
	pthread_detach(thread);
}

void
interrupt_watch(PGconn *conn)
{
	PGcancel   *cancel = PQgetCancel(conn);

	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_WATCHED; i++)
	{
		if (watched[i].conn != NULL)
			continue;
		watched[i].conn = conn;
		watched[i].cancel = cancel;
		break;
	}
	pthread_mutex_unlock(&lock);
}

void
interrupt_unwatch(PGconn *conn)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_WATCHED; i++)
	{
		if (watched[i].conn != conn)
			continue;
		PQfreeCancel(watched[i].cancel);
		watched[i].conn = NULL;
		watched[i].cancel = NULL;
	}
	pthread_mutex_unlock(&lock);
}

void
interrupt_keep_terminal(const struct termios *settings)
{
	if (settings != NULL)
		terminal = *settings;
	terminal_changed = settings != NULL;
}
