/*-------------------------------------------------------------------------
 *
 * key_command.c
 *	  Running the command that prints the master keys, and reading what it prints.
 *
 * The command is a session of its own, without a terminal: one that asks for a passphrase
 * fails rather than waits, and all that it has started can be killed with it.  It gets
 * /dev/null as its input, a pipe as its output, the server's log as its standard error,
 * no other file, and signals as a login shell has them.
 *
 * popen() would do none of this, and would keep what it reads in the heap.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keys/keys_internal.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

/* one byte more than allowed, to see that there is more */
#define BUFFER_BYTES	(SF_KEY_OUTPUT_MAX + 1)

/* how long to wait before asking again whether the command has ended, at most */
#define MAX_PAUSE_MS	50

/* ---- waiting ---- */

static int64
now_ms(void)
{
	return (int64) (sf_base_now_us() / 1000);
}

/*
 * Wait until there is something to read (fd -1: for nothing), for most_ms at most; false
 * when the deadline has passed.  May return early.
 */
static bool
wait_some(int fd, int64 deadline_ms, int64 most_ms)
{
	static uint32 wait_event = 0;
	int64		left_ms = Min(deadline_ms - now_ms(), most_ms);

	if (left_ms <= 0)
		return false;
	if (MyProc == NULL)
	{
		/* the postmaster: it has no latch, and its signals are blocked */
		struct pollfd readable = {.fd = fd, .events = POLLIN};

		(void) poll(&readable, 1, (int) left_ms);
		return true;
	}
	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileKeyCommand");
	(void) WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH |
							 (fd >= 0 ? WL_SOCKET_READABLE : 0),
							 fd >= 0 ? fd : PGINVALID_SOCKET, (long) left_ms, wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* ---- starting ---- */

/* What posix_spawn() is told besides the command. */
typedef struct SpawnOptions
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t state;
} SpawnOptions;

/* Say what the files of the command are; an errno. */
static int
set_files(SpawnOptions *options, int output_fd)
{
	int			rc;

	rc = posix_spawn_file_actions_addopen(&options->files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&options->files, output_fd, STDOUT_FILENO);
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 34)
	/* not all files of the server close themselves */
	if (rc == 0)
		rc = posix_spawn_file_actions_addclosefrom_np(&options->files, STDERR_FILENO + 1);
#endif
#endif
	return rc;
}

/* Say in which state its process begins; an errno. */
static int
set_state(SpawnOptions *options)
{
	sigset_t	none;
	sigset_t	all;
	int			rc;

	sigemptyset(&none);
	sigfillset(&all);
	rc = posix_spawnattr_setflags(&options->state, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
								  POSIX_SPAWN_SETSIGDEF);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(&options->state, &none);
	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(&options->state, &all);
	return rc;
}

/* Start the command, its output going to a pipe; an errno. */
static int
spawn(int output_fd, pid_t *pid)
{
	char	   *argv[] = {"sh", "-c", sf_key_command, NULL};
	SpawnOptions options;
	int			rc;

	rc = posix_spawn_file_actions_init(&options.files);
	if (rc != 0)
		return rc;
	rc = posix_spawnattr_init(&options.state);
	if (rc == 0)
	{
		rc = set_files(&options, output_fd);
		if (rc == 0)
			rc = set_state(&options);
		if (rc == 0)
			rc = posix_spawn(pid, "/bin/sh", &options.files, &options.state, argv, environ);
		posix_spawnattr_destroy(&options.state);
	}
	posix_spawn_file_actions_destroy(&options.files);
	return rc;
}

/* Get the buffer and the pipe, and start; an errno. */
static int
start(SfKeyCommand *command)
{
	int			ends[2];
	int			rc;

	SF_ASSERT(command->pid == 0 && command->fd < 0 && command->output == NULL);
	command->output = sodium_malloc(BUFFER_BYTES);
	if (command->output == NULL)
		return ENOMEM;
	if (!AcquireExternalFD())
		return EMFILE;
	if (pipe2(ends, O_CLOEXEC) != 0)
	{
		rc = errno;
		ReleaseExternalFD();
		return rc;
	}
	command->fd = ends[0];
	rc = fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ? errno : spawn(ends[1], &command->pid);
	close(ends[1]);
	if (rc != 0)
		command->pid = 0;
	return rc;
}

/* ---- running ---- */

/* Read until the command, and all that it has given its output to, have closed it. */
static bool
read_output(SfKeyCommand *command, int64 deadline_ms, SfKeyFailure *failure)
{
	for (;;)
	{
		ssize_t		n = read(command->fd, command->output + command->len_bytes,
							 BUFFER_BYTES - command->len_bytes);

		if (n == 0)
			return true;
		if (n > 0)
		{
			command->len_bytes += n;
			if (command->len_bytes > SF_KEY_OUTPUT_MAX)
				return sfi_keys_fail(failure, SF_KEY_TOO_LONG, SF_KEY_OUTPUT_MAX);
		}
		else if (errno != EAGAIN && errno != EINTR)
			return sfi_keys_fail(failure, SF_KEY_NOT_READ, errno);
		else if (!wait_some(command->fd, deadline_ms, PG_INT32_MAX))
			return sfi_keys_fail(failure, SF_KEY_TIMEOUT, sf_key_timeout_s);
	}
}

/*
 * Wait until the command has ended, which most do when they close their output, and see
 * how.  It stays a zombie, so that the number of its process group is not used again
 * before sfi_keys_command_end().
 */
static bool
see_end(const SfKeyCommand *command, int64 deadline_ms, SfKeyFailure *failure)
{
	siginfo_t	info;

	for (int64 pause_ms = 1;; pause_ms = Min(2 * pause_ms, MAX_PAUSE_MS))
	{
		info.si_pid = 0;
		if (waitid(P_PID, command->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno != EINTR)
			return sfi_keys_fail(failure, SF_KEY_NOT_READ, errno);
		if (info.si_pid == command->pid)
			break;
		if (!wait_some(-1, deadline_ms, pause_ms))
			return sfi_keys_fail(failure, SF_KEY_TIMEOUT, sf_key_timeout_s);
	}
	if (info.si_code != CLD_EXITED)
		return sfi_keys_fail(failure, SF_KEY_SIGNAL, info.si_status);
	return info.si_status == 0 || sfi_keys_fail(failure, SF_KEY_EXIT, info.si_status);
}

bool
sfi_keys_command_run(SfKeyCommand *command, SfKeyFailure *failure)
{
	int64		deadline_ms = now_ms() + (int64) sf_key_timeout_s * 1000;
	int			rc;

	if (sf_key_command[0] == '\0')
		return sfi_keys_fail(failure, SF_KEY_NO_COMMAND, 0);
	rc = start(command);
	if (rc != 0)
		return sfi_keys_fail(failure, SF_KEY_NOT_STARTED, rc);
	return read_output(command, deadline_ms, failure) && see_end(command, deadline_ms, failure);
}

/* ---- ending ---- */

/*
 * Kill all processes of the command, and wait for the first one, whose number is theirs.
 * If that has become another user's, it cannot be killed; a session does not wait for it
 * then, and leaves it to the system at its own end.  The postmaster has to wait: it would
 * take the end of an unknown child for a crash.
 */
static void
kill_all(pid_t pid)
{
	(void) kill(-pid, SIGKILL);
	if (kill(pid, SIGKILL) != 0 && errno == EPERM && MyProc != NULL)
		return;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void
sfi_keys_command_end(SfKeyCommand *command)
{
	if (command->pid != 0)
		kill_all(command->pid);
	command->pid = 0;
	if (command->fd >= 0)
	{
		close(command->fd);
		ReleaseExternalFD();
	}
	command->fd = -1;
	/* wipes it, too */
	sodium_free(command->output);
	command->output = NULL;
}
