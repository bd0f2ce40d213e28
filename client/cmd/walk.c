/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  All regular files of a tree, in the order of their names.
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

static void walk_below(int directory, const char *path, FoundList *list, WalkFailed failed);

/* A name in a directory: a file to take, a directory to walk, or a failure. */
static void
walk_one(int directory, const char *name, const char *path, FoundList *list, WalkFailed failed)
{
	struct stat st;
	Meta		meta;
	Failure		failure;
	int			below;

	if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		failure_errno(&failure, "could not look at it");
	else if (S_ISREG(st.st_mode))
	{
		meta = meta_of(&st);
		walk_add(list, path, st.st_size, &meta);
		return;
	}
	else if (S_ISLNK(st.st_mode))
		failure_say(&failure, "a symbolic link, not a regular file");
	else if (!S_ISDIR(st.st_mode))
		failure_say(&failure, "not a regular file");
	else
	{
		below = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
		{
			walk_below(below, path, list, failed);
			return;
		}
		failure_errno(&failure, "could not open the directory");
	}
	failed(path, &failure);
}

/* Walk an open directory, and close it; path is its path, null at the top. */
static void
walk_below(int directory, const char *path, FoundList *list, WalkFailed failed)
{
	size_t		count;
	int			error;
	char	  **names = read_names(directory, &count, &error);

	if (error != 0)
	{
		Failure		failure;

		errno = error;
		failure_errno(&failure, "could not read the directory");
		failed(path != NULL ? path : ".", &failure);
	}
	for (size_t i = 0; i < count; i++)
	{
		char	   *below = text_make("%s%s%s", path != NULL ? path : "", path != NULL ? "/" : "",
									  names[i]);

		walk_one(directory, names[i], below, list, failed);
		free(below);
		free(names[i]);
	}
	free(names);
	close(directory);
}

void
walk_tree(int top, FoundList *list, WalkFailed failed)
{
	walk_below(top, NULL, list, failed);
}
