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
	int			depth;
	dev_t		device;
	ino_t		inode;
	const struct Level *above;
} Level;

/* Each level has a place on the stack, and an open directory. */
#define MAX_DEPTH	2000

typedef struct Walk
{
	int			top;
	const Options *options;
	FoundList  *list;
	WalkPassed	passed;
	Failure    *failure;		/* not in each level, for the stack */
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
	Meta		meta = meta_of(st);

	meta.link = local_read_link(level->fd, name, failure);
	if (meta.link != NULL)
		walk_add(walk->list, path, 0, &meta);
	free(meta.link);
	return meta.link != NULL;
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

/*
 * A name in a directory: a file to take, a directory to walk, something to skip, or a failure.
 * What another program has removed since the names were read is not there.
 */
static bool
walk_one(const Walk *walk, const Level *level, const char *name, const char *path, Failure *failure)
{
	struct stat st;
	int			below;

	if (fstatat(level->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT || failure_errno(failure, "could not look at it");
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
			return errno == ENOENT || failure_errno(failure, "could not open the directory");
		walk_below(walk, below, path, level);
	}
	else if (walk->options->links == LINKS_ERROR)
		return failure_say(failure, "not a regular file");
	else
		walk->passed(path, NULL);
	return true;
}

/* Find out which directory that is, for is_loop(), and read its names. */
static char **
enter_directory(Level *level, size_t *count, Failure *failure, bool *good)
{
	struct stat st;
	int			error;
	char	  **names = read_names(level->fd, count, &error);

	if (error == 0 && fstat(level->fd, &st) != 0)
		error = errno;
	/* one that was removed after it was opened has no names; but not the top */
	*good = error == 0 || (error == ENOENT && level->above != NULL);
	if (error == 0)
	{
		level->device = st.st_dev;
		level->inode = st.st_ino;
		return names;
	}
	errno = error;
	if (!*good)
		failure_errno(failure, "could not read the directory");
	return names;
}

/* Walk an open directory, and close it; path is its path, null at the top. */
static void
walk_below(const Walk *walk, int directory, const char *path, const Level *above)
{
	Level		level = {.fd = directory, .above = above};
	size_t		count = 0;
	char	  **names = NULL;
	bool		good;

	level.depth = above != NULL ? above->depth + 1 : 0;
	if (level.depth <= MAX_DEPTH)
		names = enter_directory(&level, &count, walk->failure, &good);
	else
		good = failure_say(walk->failure, "more than %d directories above it", MAX_DEPTH);
	if (!good)
		walk->passed(path != NULL ? path : ".", walk->failure);
	for (size_t i = 0; i < count; i++)
	{
		char	   *below = text_make("%s%s%s", path != NULL ? path : "", path != NULL ? "/" : "",
									  names[i]);

		if (!walk_one(walk, &level, names[i], below, walk->failure))
			walk->passed(below, walk->failure);
		free(below);
		free(names[i]);
	}
	free(names);
	close(directory);
}

void
walk_tree(int top, const Options *options, FoundList *list, WalkPassed passed)
{
	Failure		failure;
	Walk		walk = {top, options, list, passed, &failure};

	walk_below(&walk, dup(top), NULL, NULL);
}
