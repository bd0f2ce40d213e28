/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  The regular files of a tree, in the order of their names.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filter.h"
#include "local.h"
#include "sum.h"
#include "text.h"

void
walk_add(FoundList *list, const char *path, int64_t length, const Meta *meta)
{
	Found	   *found;

	if (list->count == list->space)
	{
		list->space = list->space > 0 ? list->space * 2 : 1024;
		list->files = realloc(list->files, list->space * sizeof(Found));
		if (list->files == NULL)
			abort();
	}
	found = &list->files[list->count++];
	found->path = strdup(path);
	if (found->path == NULL)
		abort();
	found->length = length;
	found->meta = *meta;
	if (meta->link != NULL)
		found->meta.link = text_make("%s", meta->link);
	list->bytes = sum_of(list->bytes, length < 0 ? 0 : length);
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/*
 * The sorted names in a directory; *error is errno if reading them failed, with the names
 * before that.
 */
static char **
read_names(int directory, size_t *count, int *error)
{
	int			other = dup(directory);
	DIR		   *dir = fdopendir(other);
	char	  **names = NULL;
	size_t		space = 0;
	struct dirent *entry;

	*count = 0;
	*error = dir == NULL ? errno : 0;
	while (dir != NULL && (errno = 0, entry = readdir(dir)) != NULL)
	{
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (*count == space)
		{
			space = space > 0 ? space * 2 : 64;
			names = realloc(names, space * sizeof(char *));
			if (names == NULL)
				abort();
		}
		names[*count] = strdup(entry->d_name);
		if (names[(*count)++] == NULL)
			abort();
	}
	if (dir != NULL)
	{
		*error = errno;
		closedir(dir);
	}
	else if (other >= 0)
		close(other);
	if (*count > 0)
		qsort(names, *count, sizeof(char *), compare_names);
	return names;
}

/* A directory that is being walked, and those above it. */
typedef struct Level
{
	int			fd;
	dev_t		device;
	ino_t		inode;
	const struct Level *above;
} Level;

typedef struct Walk
{
	int			top;
	const Options *options;
	FoundList  *list;
	WalkPassed	passed;
} Walk;

static void walk_below(const Walk *walk, int directory, const char *path, const Level *above);

static void
take_file(const Walk *walk, const char *path, const struct stat *st)
{
	Meta		meta = meta_of(st);

	walk_add(walk->list, path, st->st_size, &meta);
}

/* Does a followed link lead to a directory that it is in? */
static bool
is_loop(const Level *level, const struct stat *st)
{
	for (; level != NULL; level = level->above)
		if (level->device == st->st_dev && level->inode == st->st_ino)
			return true;
	return false;
}

/* Take what a link leads to, which has been opened to look at it. */
static bool
take_target(const Walk *walk, const Level *level, int target, const char *path, Failure *failure)
{
	struct stat st;
	int			below;

	if (fstat(target, &st) != 0)
		return failure_errno(failure, "could not look at it");
	if (S_ISREG(st.st_mode) && !filter_excludes(walk->options->filter, path, false))
		take_file(walk, path, &st);
	else if (S_ISDIR(st.st_mode) && !filter_excludes(walk->options->filter, path, true))
	{
		if (is_loop(level, &st))
			return failure_say(failure, "a link to a directory that it is in: it is not followed");
		below = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below < 0)
			return failure_errno(failure, "could not open the directory");
		walk_below(walk, below, path, level);
	}
	else if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		walk->passed(path, NULL);
	return true;
}

/* Take a link as a link. */
static bool
keep_link(const Walk *walk, const Level *level, const char *name, const char *path,
		  const struct stat *st, Failure *failure)
{
	char		target[PATH_MAX];
	ssize_t		length = readlinkat(level->fd, name, target, sizeof(target));
	Meta		meta = meta_of(st);

	if (length < 0 || length == sizeof(target))
		return failure_errno(failure, "could not read the link");
	target[length] = '\0';
	meta.link = target;
	walk_add(walk->list, path, 0, &meta);
	return true;
}

/* A symbolic link that no pattern leaves out. */
static bool
walk_link(const Walk *walk, const Level *level, const char *path, Failure *failure)
{
	int			target;
	bool		good;

	if (walk->options->links == LINKS_ERROR)
		return failure_say(failure, "a symbolic link, not a regular file");
	if (walk->options->links != LINKS_FOLLOW)
	{
		walk->passed(path, NULL);
		return true;
	}
	target = local_follow(walk->top, path, O_PATH, failure);
	if (target < 0)
		return false;
	good = take_target(walk, level, target, path, failure);
	close(target);
	return good;
}

/* A name in a directory: a file to take, a directory to walk, something to skip, or a failure. */
static bool
walk_one(const Walk *walk, const Level *level, const char *name, const char *path, Failure *failure)
{
	struct stat st;
	int			below;

	if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return failure_errno(failure, "could not look at it");
	if (filter_excludes(walk->options->filter, path, S_ISDIR(st.st_mode)))
		return true;
	if (S_ISLNK(st.st_mode) && walk->options->links == LINKS_KEEP)
		return keep_link(walk, level, name, path, &st, failure);
	if (S_ISLNK(st.st_mode))
		return walk_link(walk, level, path, failure);
	if (S_ISREG(st.st_mode))
		take_file(walk, path, &st);
	else if (S_ISDIR(st.st_mode))
	{
		below = openat(level->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0)
			return failure_errno(failure, "could not open the directory");
		walk_below(walk, below, path, level);
	}
	else if (walk->options->links == LINKS_ERROR)
		return failure_say(failure, "not a regular file");
	else
		walk->passed(path, NULL);
	return true;
}

/* Walk an open directory, and close it; path is its path, null at the top. */
static void
walk_below(const Walk *walk, int directory, const char *path, const Level *above)
{
	Level		level = {.fd = directory, .above = above};
	struct stat st;
	size_t		count;
	int			error;
	char	  **names = read_names(directory, &count, &error);
	Failure		failure;

	if (error == 0 && fstat(directory, &st) != 0)
		error = errno;
	if (error != 0)
	{
		errno = error;
		failure_errno(&failure, "could not read the directory");
		walk->passed(path != NULL ? path : ".", &failure);
	}
	else
	{
		level.device = st.st_dev;
		level.inode = st.st_ino;
	}
	for (size_t i = 0; i < count; i++)
	{
		char	   *below = text_make("%s%s%s", path != NULL ? path : "", path != NULL ? "/" : "",
									  names[i]);

		if (!walk_one(walk, &level, names[i], below, &failure))
			walk->passed(below, &failure);
		free(below);
		free(names[i]);
	}
	free(names);
	close(directory);
}

void
walk_tree(int top, const Options *options, FoundList *list, WalkPassed passed)
{
	Walk		walk = {top, options, list, passed};

	walk_below(&walk, dup(top), NULL, NULL);
}
