/*-------------------------------------------------------------------------
 *
 * pgdump.c
 *	  pg_dump, run beside a dump and with its snapshot.
 *
 * pg_dump cannot write a file of more than 512 MB.  The server writes a marker in its place to a
 * session that asks for it, and restore fills such rows.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dump.h"
#include "text.h"

#define MARKERS			"-c securefile.dump_oversize=marker"
#define OWN_ARGUMENTS	8

/* The arguments: those of the user, behind ours. */
static char **
arguments_of(const Options *options, const char *snapshot)
{
	char	  **arguments = calloc(options->nargs + OWN_ARGUMENTS, sizeof(char *));
	int			n = 0;

	if (arguments == NULL)
		abort();
	arguments[n++] = options->args[1];
	arguments[n++] = text_make("--snapshot=%s", snapshot);
	if (options->host != NULL)
		arguments[n++] = text_make("--host=%s", options->host);
	if (options->port != NULL)
		arguments[n++] = text_make("--port=%s", options->port);
	if (options->user != NULL)
		arguments[n++] = text_make("--username=%s", options->user);
	if (options->dbname != NULL)
		arguments[n++] = text_make("--dbname=%s", options->dbname);
	if (options->password == PASSWORD_NEVER)
		arguments[n++] = text_make("--no-password");
	for (int i = 2; i < options->nargs; i++)
		arguments[n++] = options->args[i];
	return arguments;
}

/* The environment is that of the command, with what pg_dump needs besides. */
static void
set_environment(const char *password)
{
	const char *before = getenv("PGOPTIONS");
	char	   *options = text_make("%s%s" MARKERS, before == NULL ? "" : before,
									before == NULL ? "" : " ");

	if (setenv("PGOPTIONS", options, 1) != 0 ||
		(password != NULL && setenv("PGPASSWORD", password, 1) != 0))
		abort();
	free(options);
}

/* In the new process: become pg_dump, which ends with the command. */
static void
become(char **arguments, const sigset_t *signals)
{
	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	pthread_sigmask(SIG_SETMASK, signals, NULL);
	execvp(arguments[0], arguments);
	_exit(127);
}

bool
pgdump_begin(const Options *options, const char *snapshot, pid_t *process, Failure *failure)
{
	char	  **arguments = arguments_of(options, snapshot);
	sigset_t	none;

	sigemptyset(&none);
	set_environment(session_password());
	*process = fork();
	if (*process == 0)
		become(arguments, &none);
	free(arguments);
	return *process > 0 || failure_errno(failure, "could not start pg_dump");
}

bool
pgdump_end(pid_t process, bool cancel, Failure *failure)
{
	int			status;
	pid_t		rc;

	if (cancel)
		(void) kill(process, SIGTERM);
	while ((rc = waitpid(process, &status, 0)) < 0 && errno == EINTR)
		;
	if (rc < 0)
		return failure_errno(failure, "could not wait for pg_dump");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return failure_say(failure, "could not execute pg_dump");
	if (WIFEXITED(status))
		return failure_say(failure, "pg_dump ended with status %d", WEXITSTATUS(status));
	return failure_say(failure, "pg_dump was ended by signal %d", WTERMSIG(status));
}
