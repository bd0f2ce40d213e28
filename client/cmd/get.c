/*-------------------------------------------------------------------------
 *
 * get.c
 *	  securefile get NAME [FILE]
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local.h"
#include "meta.h"
#include "output.h"
#include "tempfile.h"
#include "transfer.h"
#include "verbs.h"

/* The destination of the file. */
typedef struct Place
{
	int			fd;				/* standard output or a device; -1: a file */
	int			directory;		/* of that file */
	char	   *name;			/* its name there */
} Place;

/* The last part of a path; NULL if that cannot be the name of a file. */
static const char *
last_part(const char *path, Failure *failure)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash != NULL ? slash + 1 : path;

	return local_check_path(last, failure) ? last : NULL;
}

/*
 * The directory and the name of the file that path means.  If path is a directory itself,
 * the file goes into it, under the last part of the stored name.
 */
static bool
find_file(const char *path, const char *name, const struct stat *st, Place *place, Failure *failure)
{
	const char *file;

	if (st == NULL || !S_ISDIR(st->st_mode))
		place->directory = local_open_above(path, &file, failure);
	else
	{
		file = last_part(name, failure);
		place->directory = file != NULL ? local_open_top(path, failure) : -1;
	}
	if (place->directory < 0)
		return false;
	place->name = strdup(file);
	return true;
}

/* Find out where the user wants the file; fails if a file is there and is to stay. */
static bool
find_place(const Options *options, Place *place, Failure *failure)
{
	const char *name = options->args[0];
	const char *path = options->nargs > 1 ? options->args[1] : last_part(name, failure);
	struct stat st;
	bool		exists;

	memset(place, 0, sizeof(*place));
	place->fd = place->directory = -1;
	if (path == NULL)
		return false;
	if (options->nargs > 1 && strcmp(path, "-") == 0)
	{
		place->fd = STDOUT_FILENO;
		return true;
	}
	exists = stat(path, &st) == 0;
	if (exists && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
	{
		place->fd = open(path, O_WRONLY | O_CLOEXEC);
		return place->fd >= 0 ||
			failure_say(failure, "could not open \"%s\": %s", path, strerror(errno));
	}
	if (!find_file(path, name, exists ? &st : NULL, place, failure))
		return false;
	if (!options->replace &&
		faccessat(place->directory, place->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return failure_say(failure,
						   "could not write \"%s\": it exists already\nHint: --replace replaces it.",
						   exists && S_ISDIR(st.st_mode) ? place->name : path);
	return true;
}

/* Write the file, under a temporary name until it is complete.  Returns its length, or -1. */
static int64_t
get_one(Session *session, const Options *options, const Place *place, const Meta *meta,
		Failure *failure)
{
	const char *name = options->args[0];
	TempFile   *file;
	int64_t		bytes;

	if (place->fd >= 0)
		return transfer_get(session, name, place->fd, failure);
	if (meta->link != NULL)
		file = tempfile_link(place->directory, meta->link, failure);
	else
		file = tempfile_open(place->directory, 0666, failure);
	if (file == NULL)
		return -1;
	bytes = meta->link != NULL ? 0 : transfer_get(session, name, tempfile_fd(file), failure);
	if (bytes >= 0 && meta->link == NULL && options->meta &&
		!meta_apply(options, tempfile_fd(file), meta, failure))
		bytes = -1;
	if (bytes < 0)
		tempfile_discard(file);
	else if (!tempfile_finish(file, place->name, options->replace, failure))
		bytes = -1;
	return bytes;
}

int
verb_get(const Options *options)
{
	const char *name = options->args[0];
	Target		target;
	Session    *session;
	Place		place;
	Failure		failure;
	Stored		stored;
	Meta		meta = meta_unknown;
	int64_t		bytes = -1;

	if (!find_place(options, &place, &failure))
	{
		output_failed(name, &failure);
		return EXIT_SOME;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	if (transfer_look(session, name, &stored, &failure) &&
		(!options->meta || meta_look(session, name, &meta, &failure)))
	{
		/*
		 * the progress line and the contents of the file would mix on a
		 * terminal
		 */
		if (!options->quiet && place.fd < 0)
			progress_begin(0, stored.length);
		bytes = get_one(session, options, &place, &meta, &failure);
		progress_end();
	}
	if (bytes < 0)
		output_failed(name, &failure);
	else if (place.fd != STDOUT_FILENO)
		output_file(name, ACTION_GOT, bytes);
	return session_leave(session, bytes >= 0);
}
