/*-------------------------------------------------------------------------
 *
 * quick.c
 *	  --quick: files that have the same length and time of modification on both sides.
 *
 * The server is asked for thousands of names at a time, and no file is opened.  Files that cannot
 * be told so, and all that fails here, are left to import and export.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "look.h"
#include "meta.h"
#include "output.h"
#include "quick.h"
#include "text.h"

/* Names in one question. */
#define NAMES_AT_ONCE	10000

static FoundList *
make_rest(size_t count)
{
	FoundList  *rest = calloc(1, sizeof(FoundList));

	if (rest == NULL)
		abort();
	rest->space = count + 1;
	rest->files = calloc(rest->space, sizeof(Found));
	if (rest->files == NULL)
		abort();
	return rest;
}

static void
leave(FoundList *rest, const Found *found)
{
	rest->files[rest->count++] = *found;
	rest->bytes += found->length > 0 ? found->length : 0;
}

static void
tell(const char *name, bool same, int64_t length)
{
	progress_bytes(length);
	progress_files(1);
	output_file(name, same ? ACTION_SAME : ACTION_TOUCHED, length);
}

/* ---- import ---- */

static bool
is_stored(const Found *found, const Stored *stored)
{
	if (stored->many || !stored->file || stored->length != found->length ||
		stored->meta.mtime != found->meta.mtime ||
		(stored->meta.link == NULL) != (found->meta.link == NULL))
		return false;
	return found->meta.link == NULL || strcmp(found->meta.link, stored->meta.link) == 0;
}

/* A file that is stored: tell the user; false if its mode could not be brought up to date. */
static bool
take_stored(Session *session, const Options *options, const Found *found, const Stored *stored)
{
	char	   *name = text_make("%s%s", options->prefix, found->path);
	bool		same = meta_same(&found->meta, &stored->meta);
	Failure		ignored;
	bool		good = same || options->dry_run ||
		meta_update(session, name, &found->meta, &ignored);

	if (good)
		tell(name, same, found->length);
	else
		(void) session_recover(session, &ignored);
	free(name);
	return good;
}

static void
import_some(Session *session, const Options *options, const Found *files, size_t count,
			FoundList *rest)
{
	const Found **found = calloc(count, sizeof(Found *));
	Stored	   *stored = calloc(count, sizeof(Stored));
	Failure		ignored;
	bool		good;

	if (found == NULL || stored == NULL)
		abort();
	for (size_t i = 0; i < count; i++)
		found[i] = &files[i];
	good = look_many(session, options->prefix, found, count, stored, &ignored);
	if (!good)
		(void) session_recover(session, &ignored);
	for (size_t i = 0; i < count; i++)
		if (!good || !is_stored(&files[i], &stored[i]) ||
			!take_stored(session, options, &files[i], &stored[i]))
			leave(rest, &files[i]);
	look_free(stored, count);
	free(stored);
	free(found);
}

FoundList *
quick_import(Session *session, const Options *options, const FoundList *list)
{
	FoundList  *rest = make_rest(list->count);

	for (size_t first = 0; first < list->count; first += NAMES_AT_ONCE)
	{
		size_t		left = list->count - first;

		import_some(session, options, list->files + first,
					left < NAMES_AT_ONCE ? left : NAMES_AT_ONCE, rest);
	}
	return rest;
}

/* ---- export ---- */

/* The directory that was looked into last. */
typedef struct Directory
{
	char	   *path;			/* null: none; "" is the top */
	int			fd;
} Directory;

/* The directory of a path, which need not be there; consecutive files often share one. */
static int
enter(Directory *directory, int top, const char *path, const char **last)
{
	const char *slash = strrchr(path, '/');
	size_t		length = slash == NULL ? 0 : slash - path;
	Failure		ignored;

	*last = slash == NULL ? path : slash + 1;
	if (directory->path != NULL && strlen(directory->path) == length &&
		strncmp(directory->path, path, length) == 0)
		return directory->fd;
	if (directory->fd >= 0)
		close(directory->fd);
	free(directory->path);
	directory->path = strndup(path, length);
	if (directory->path == NULL)
		abort();
	directory->fd = local_open_parent(top, path, false, last, &ignored);
	return directory->fd;
}

/* Is the file here, with its length, time and mode? */
static bool
is_here(const Options *options, int top, const Found *found, Directory *directory)
{
	const char *path = found->path + strlen(options->prefix);
	const char *last;
	struct stat st;
	Failure		ignored;
	int			fd;

	if (found->meta.link != NULL || found->meta.mtime == NO_MTIME ||
		!local_check_path(path, &ignored))
		return false;
	fd = enter(directory, top, path, &last);
	return fd >= 0 && fstatat(fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		st.st_size == found->length && !meta_differs(options, &st, &found->meta);
}

FoundList *
quick_export(const Options *options, int top, const FoundList *list)
{
	FoundList  *rest = make_rest(list->count);
	Directory	directory = {NULL, -1};

	for (size_t i = 0; i < list->count; i++)
	{
		const Found *found = &list->files[i];

		if (top >= 0 && is_here(options, top, found, &directory))
			tell(found->path, true, found->length);
		else
			leave(rest, found);
	}
	if (directory.fd >= 0)
		close(directory.fd);
	free(directory.path);
	return rest;
}
