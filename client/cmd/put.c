/*-------------------------------------------------------------------------
 *
 * put.c
 *	  securefile put FILE [NAME]
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local.h"
#include "meta.h"
#include "output.h"
#include "resume.h"
#include "transfer.h"
#include "verbs.h"

/* Open the file to store, or take standard input; -1 after a failure. */
static int
open_source(const char *path, Failure *failure)
{
	int			fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		failure_say(failure, "could not open \"%s\": %s", path, strerror(errno));
	else if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
	{
		failure_say(failure,
					"\"%s\" is a directory\nHint: \"securefile import\" stores what is in it.", path);
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Store the open file; without --replace a stored file of that name is a failure. */
static bool
put_one(Session *session, const Options *options, const char *name, int fd,
		Action *action, int64_t *bytes, Failure *failure)
{
	struct stat st;
	Stored		stored;
	Meta		meta = meta_unknown;
	MetaSets	sets;
	const Options *with;

	if (!local_check_name(name, session->target->names_are_utf8, failure) ||
		!transfer_look(session, name, &stored, failure))
		return false;
	if (stored.file && !options->replace)
		return failure_say(failure,
						   "a file of that name is stored already\nHint: --replace replaces it.");
	*action = stored.file ? ACTION_REPLACED : ACTION_PUT;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		meta = meta_of(&st);
	else
		st.st_size = -1;
	if (!options->quiet)
		progress_begin(0, st.st_size);
	with = meta_add(options, &meta, &sets);
	*bytes = options->resume ? resume_put(session, with, name, &stored, fd, failure) :
		transfer_put(session, with, name, stored.row, fd, failure);
	meta_free(with, &sets);
	progress_end();
	return *bytes >= 0;
}

int
verb_put(const Options *options)
{
	const char *path = options->args[0];
	const char *slash = strrchr(path, '/');
	const char *name = options->nargs > 1 ? options->args[1] : slash != NULL ? slash + 1 : path;
	Target		target;
	Session    *session;
	Failure		failure;
	Action		action = ACTION_PUT;
	int64_t		bytes = 0;
	bool		good;
	int			fd = open_source(path, &failure);

	if (fd < 0)
	{
		output_failed(name, &failure);
		return EXIT_SOME;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	good = put_one(session, options, name, fd, &action, &bytes, &failure);
	if (good)
		output_file(name, action, bytes);
	else
		output_failed(name, &failure);
	return session_leave(session, good);
}
