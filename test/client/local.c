/*-------------------------------------------------------------------------
 *
 * local.c
 *	  Trials: local files that fail, are slow, or change.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "trial.h"

/* A file with these bytes, positioned at its start; its name is removed. */
static int
file_of(const char *data, size_t len)
{
	char		name[] = "/tmp/securefile-trial-XXXXXX";
	int			fd = mkstemp(name);

	unlink(name);
	if (write(fd, data, len) != (ssize_t) len)
		check(false, "could not write a local file");
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static bool
file_is(int fd, const char *data, size_t len, const char *name)
{
	char	   *found = malloc(len + 1);
	ssize_t		got = pread(fd, found, len + 1, 0);
	bool		same = got == (ssize_t) len && memcmp(found, data, len) == 0;

	free(found);
	return check(same, "%s: contents of the file, %zd of %zu bytes", name, got, len);
}

static int64_t
put_fd(int id, int fd)
{
	return pgsf_put_fd(h, fd, "t", "doc", INSERT_ID, id_is(id), NULL);
}

static int64_t
get_fd(int id, int fd)
{
	return pgsf_get_fd(h, fd, 0, -1, SELECT_ID, id_is(id));
}

/* ---- pipes, with a slow program at the other end, and interrupts all the time ---- */

typedef struct Other
{
	int			fd;
	char	   *data;
	size_t		len;
	size_t		at;
} Other;

/* The thread at the writing end: gives small pieces with pauses. */
static void *
slow_writer(void *arg)
{
	Other	   *other = arg;

	while (other->at < other->len)
	{
		size_t		len = other->at % 30011 + 1;

		if (len > other->len - other->at)
			len = other->len - other->at;
		if (write(other->fd, other->data + other->at, len) != (ssize_t) len)
			break;
		other->at += len;
		usleep(100);
	}
	close(other->fd);
	return NULL;
}

/* The thread at the reading end: takes small pieces with pauses. */
static void *
slow_reader(void *arg)
{
	Other	   *other = arg;
	ssize_t		got;

	while ((got = read(other->fd, other->data + other->at, other->at % 30011 + 1)) > 0)
	{
		other->at += got;
		usleep(100);
	}
	close(other->fd);
	return NULL;
}

static void
on_alarm(int sig)
{
	(void) sig;
}

/* Signals that interrupt system calls, in the thread that runs the trial. */
static void
interrupt_often(bool on)
{
	struct sigaction action;
	struct itimerval timer = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* The other end runs with SIGALRM blocked, so that the signals hit the library. */
static pthread_t
start_other(void *(*run) (void *), Other *other)
{
	sigset_t	alarm;
	pthread_t	thread;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	pthread_create(&thread, NULL, run, other);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	return thread;
}

/* Put from a pipe and get to a pipe, both slow, with a non-blocking end or not. */
static void
pipes(bool nonblocking)
{
	size_t		len = 3 * MB + 5;
	Other		other = {-1, bytes(len, 2), len, 0};
	Other		back = {-1, malloc(len + 40000), 0, 0};
	int			ends[2];
	pthread_t	thread;
	int			id = nonblocking ? 12 : 11;

	if (pipe(ends) < 0)
		return;
	if (nonblocking)
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
	other.fd = ends[1];
	interrupt_often(true);
	thread = start_other(slow_writer, &other);
	works(put_fd(id, ends[0]), "put from a slow pipe");
	pthread_join(thread, NULL);
	close(ends[0]);
	value_is(id, other.data, len, "put from a slow pipe");

	if (pipe(ends) < 0)
		return;
	if (nonblocking)
		fcntl(ends[1], F_SETFL, O_NONBLOCK);
	back.fd = ends[0];
	thread = start_other(slow_reader, &back);
	works(get_fd(id, ends[1]), "get to a slow pipe");
	close(ends[1]);
	pthread_join(thread, NULL);
	interrupt_often(false);
	check(back.at == len && memcmp(back.data, other.data, len) == 0,
		  "all came through%s", nonblocking ? ", non-blocking" : "");
	free(other.data);
	free(back.data);
}

/* ---- memory ---- */

static int64_t
much(void *arg, void *buf, size_t len)
{
	int64_t    *left = arg;

	memset(buf, 'x', len);
	if (*left < (int64_t) len)
		len = *left;
	*left -= len;
	return (int64_t) len;
}

static int
drop(void *arg, const void *buf, size_t len)
{
	(void) buf;
	*(int64_t *) arg += len;
	return 0;
}

static long
peak_kb(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* The memory that the client needs for a value does not depend on its length. */
void
trial_memory(void)
{
	int64_t		len = 200 * MB;
	int64_t		left = len;
	int64_t		got = 0;
	long		before;

	works(put_bytes(1, "", 0), "put");
	before = peak_kb();
	works(pgsf_put_callback(h, much, &left, len, "t", "doc", INSERT_ID, id_is(2), NULL), "put");
	works(pgsf_get_callback(h, drop, &got, 0, -1, SELECT_ID, id_is(2)), "get");
	check(got == len, "got all");
	works(pgsf_open(h, PGSF_READ, SELECT_ID, id_is(2)), "open");
	for (char buf[8192]; (got = pgsf_read(h, buf, sizeof(buf))) > 0;)
		;
	works(got, "read");
	works(pgsf_close(h), "close");
	check(peak_kb() - before < 16 * 1024, "%ld KB more", peak_kb() - before);
}

/* ---- files ---- */

static void *
cancel_soon(void *arg)
{
	(void) arg;
	usleep(100000);
	pgsf_cancel(h);
	return NULL;
}

static int64_t
failing_source(void *arg, void *buf, size_t len)
{
	(void) arg;
	memset(buf, 0, len);
	errno = EIO;
	return -1;
}

static int
failing_sink(void *arg, const void *buf, size_t len)
{
	(void) arg;
	(void) buf;
	(void) len;
	errno = EIO;
	return -1;
}

static void
fails_errno(int64_t rc, const char *sqlstate, int errnum, const char *name)
{
	fails(rc, sqlstate, name);
	check(pgsf_errno(h) == errnum, "%s: errno is %d", name, pgsf_errno(h));
}

void
trial_local(void)
{
	size_t		len = 9 * MB + 17;
	char	   *data = bytes(len, 1);
	int			fd = file_of(data, len);
	int			to = file_of("", 0);
	int			full = open("/dev/full", O_WRONLY);
	int			directory = open("/tmp", O_RDONLY);
	int			ends[2];
	pthread_t	thread;

	works(put_fd(1, fd), "put of a file");
	value_is(1, data, len, "put of a file");
	works(get_fd(1, to), "get to a file");
	file_is(to, data, len, "get to a file");
	lseek(fd, 5000, SEEK_SET);
	works(put_fd(2, fd), "put of the rest of a file");
	value_is(2, data + 5000, len - 5000, "put of the rest of a file");
	works(put_fd(3, fd), "put from the end of a file");
	value_is(3, "", 0, "put from the end of a file");

	fails_errno(get_fd(1, full), PGSF_ERROR_FILE, ENOSPC, "get to a full disk");
	own_sql("BEGIN");
	fails_errno(get_fd(1, full), PGSF_ERROR_FILE, ENOSPC, "get to a full disk in a transaction");
	own_sql("ROLLBACK");
	fails_errno(get_fd(1, -1), PGSF_ERROR_FILE, EBADF, "get to no file");
	fails_errno(put_fd(4, -1), PGSF_ERROR_FILE, EBADF, "put of no file");
	fails_errno(put_fd(4, directory), PGSF_ERROR_FILE, EISDIR, "put of a directory");
	fails_errno(put_fd(4, full), PGSF_ERROR_FILE, EBADF, "put of a file not open for reading");
	fails_errno(pgsf_put_callback(h, failing_source, NULL, -1, "t", "doc", INSERT_ID, id_is(4),
								  NULL), PGSF_ERROR_CALLBACK, EIO, "put of a source that fails");
	fails_errno(pgsf_get_callback(h, failing_sink, NULL, 0, -1, SELECT_ID, id_is(1)),
				PGSF_ERROR_CALLBACK, EIO, "get to a sink that fails");

	/* the rest of a long value is not waited for */
	own_sql("BEGIN");
	works(pgsf_create(h, "t", "doc"), "create");
	check(pgsf_seek(h, (int64_t) MB * MB, SEEK_SET) > 0 && pgsf_write(h, "x", 1) == 0,
		  "1 TB of nothing");
	works(pgsf_store(h, INSERT_ID, id_is(9), NULL), "store");
	fails_errno(get_fd(9, full), PGSF_ERROR_FILE, ENOSPC, "get of 1 TB to a full disk");
	own_sql("ROLLBACK");

	/*
	 * a pipe without a writer, and one without a reader: cancelled while the
	 * call waits
	 */
	if (pipe(ends) == 0)
	{
		thread = start_other(cancel_soon, NULL);
		fails(put_fd(4, ends[0]), PGSF_ERROR_CANCELLED, "put from a silent pipe, cancelled");
		pthread_join(thread, NULL);
		fcntl(ends[1], F_SETFL, O_NONBLOCK);
		thread = start_other(cancel_soon, NULL);
		fails(get_fd(1, ends[1]), PGSF_ERROR_CANCELLED, "get to a full pipe, cancelled");
		pthread_join(thread, NULL);
		close(ends[0]);
		close(ends[1]);
	}
	pipes(false);
	pipes(true);
	rows_are(5, "local");
	close(fd);
	close(to);
	close(full);
	close(directory);
	free(data);
}

/* ---- a file that changes while it is put ---- */

typedef struct Change
{
	int			fd;
	int64_t		at;
	const char *how;
	size_t		len;
} Change;

/* A progress callback: changes the file when so many bytes are done. */
static int
change(void *arg, int64_t done, int64_t total)
{
	Change	   *todo = arg;
	int			rc = 0;

	(void) total;
	if (done < todo->at)
		return 0;
	todo->at = INT64_MAX;

	/*
	 * longer than one tick of the clock that the file system takes its times
	 * from
	 */
	usleep(20000);
	if (strcmp(todo->how, "grows") == 0)
		rc = pwrite(todo->fd, "x", 1, (off_t) todo->len) - 1;
	else if (strcmp(todo->how, "shrinks") == 0)
		rc = ftruncate(todo->fd, (off_t) todo->len - 1);
	else if (strcmp(todo->how, "shrinks to nothing") == 0)
		rc = ftruncate(todo->fd, 0);
	else
		rc = pwrite(todo->fd, "x", 1, 7) - 1;
	return rc;
}

void
trial_changing(void)
{
	static const char *const how[] = {"grows", "shrinks", "shrinks to nothing", "is overwritten"};
	size_t		len = 9 * MB;
	char	   *data = bytes(len, 1);

	for (int i = 0; i < 4; i++)
	{
		for (int at = 0; at <= 9; at += 3)
		{
			Change		todo = {file_of(data, len), at * MB, how[i], len};

			/*
			 * at the end of the file no more progress is reported before the
			 * check
			 */
			if (at == 9)
				todo.at = len - 3 * MB;
			pgsf_set_progress(h, change, &todo);
			fails(put_fd(1, todo.fd), PGSF_ERROR_CHANGED, how[i]);
			close(todo.fd);
		}
	}
	pgsf_set_progress(h, NULL, NULL);
	check(PQtransactionStatus(conn) == PQTRANS_IDLE, "no transaction is left");
	rows_are(0, "changing");
	works(put_bytes(1, data, len), "put");
	free(data);
}
