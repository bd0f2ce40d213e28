/*-------------------------------------------------------------------------
 *
 * place.c
 *	  Where a file that comes from the database is written to.
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
#include "place.h"

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

bool
place_find(const Options *options, const char *name, const char *path, Place *place,
		   Failure *failure)
{
	bool		said = path != NULL;
	struct stat st;
	bool		exists;

	memset(place, 0, sizeof(*place));
	place->fd = place->directory = -1;
	if (!said)
		path = last_part(name, failure);
	if (path == NULL)
		return false;
	if (said && strcmp(path, "-") == 0)
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
