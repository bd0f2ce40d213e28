/*-------------------------------------------------------------------------
 *
 * interrupt.c
 *	  Signals, taken by a thread of their own.
 *
 * The others need not notice: what a transaction has done goes when its
 * connection does, and what is half-written here has a temporary name.  So the
 * thread removes the temporary files, asks the servers to stop what they do (one
 * that computes looks at its connection late) and ends the process.  Who holds the
 * locks meanwhile cannot make new files, nor half a line of output.
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct
{
	PGconn	   *conn;
	PGcancel   *cancel;
}			watched[MAX_WATCHED];

static struct termios terminal;
static bool terminal_changed = false;

/* End the process; what is being written here goes. */
void
interrupt_leave(int status)
{
	tempfile_remove_all();
	if (terminal_changed)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
	_exit(status);
}

static void
cancel_all(void)
{
	char		reason[256];

	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_WATCHED; i++)
		if (watched[i].cancel != NULL)
			PQcancel(watched[i].cancel, reason, sizeof(reason));
	pthread_mutex_unlock(&lock);
}

static void *
wait_for_signals(void *arg)
{
	const sigset_t *signals = arg;
	int			number;

	while (sigwait(signals, &number) != 0)
		;
	/* whoever is impatient kills us while we talk to a server that is silent */
	output_stop("interrupted");
	tempfile_remove_all();
	pthread_sigmask(SIG_UNBLOCK, signals, NULL);
	cancel_all();
	interrupt_leave(128 + number);
}

/* To be called before there are other threads. */
void
interrupt_begin(void)
{
	static sigset_t signals;
	sigset_t	pipe;
	pthread_t	thread;

	/* a write to a closed pipe gives EPIPE */
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

/* What this connection does is to be cancelled by an interrupt. */
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

/* Settings of the terminal to be put back by an interrupt; null: no more. */
void
interrupt_keep_terminal(const struct termios *settings)
{
	if (settings != NULL)
		terminal = *settings;
	terminal_changed = settings != NULL;
}
