/*-------------------------------------------------------------------------
 *
 * follow.c
 *	  Symbolic links of a tree that are followed, and never out of it.
 *
 * The system follows links to any place.  So a path is opened part by part, no part being
 * followed by the system, and the text of a link takes the place of the link in the path.
 * The directories above the place are kept open: ".." leads to one of them, also while another
 * program moves directories.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local.h"
#include "text.h"

#define MOST_LINKS		40		/* as many as Linux follows */

/* Where the way has led to. */
typedef struct Way
{
	int		   *fds;			/* directories from the top on */
	int			depth;			/* of them; at least 1 */
	int			links;			/* followed so far */
	char	   *rest;			/* of the path */
} Way;

static void
push(Way *way, int fd)
{
	way->fds = realloc(way->fds, (way->depth + 1) * sizeof(int));
	if (way->fds == NULL)
		abort();
	way->fds[way->depth++] = fd;
}

/* Put the text of a link in front of the rest of the path.  False with errno set. */
static bool
enter_link(Way *way, int link, char *rest)
{
	char		text[PATH_MAX];
	ssize_t		length = readlinkat(link, "", text, sizeof(text) - 1);
	char	   *path;

	if (length < 0)
		return false;
	text[length] = '\0';
	if (text[0] == '/' || ++way->links > MOST_LINKS)
	{
		errno = text[0] == '/' ? EXDEV : ELOOP;
		return false;
	}
	path = text_make("%s%s%s", text, rest != NULL ? "/" : "", rest != NULL ? rest : "");
	free(way->rest);
	way->rest = path;
	return true;
}

/* Go one level up.  False with errno set. */
static bool
go_up(Way *way)
{
	if (way->depth == 1)
	{
		errno = EXDEV;
		return false;
	}
	close(way->fds[--way->depth]);
	return true;
}

/*
 * One part of the path, behind which comes the rest, null at the end.  *file becomes what is no
 * directory.  False with errno set.
 */
static bool
take_part(Way *way, const char *part, char *rest, int *file)
{
	struct stat st;
	int			fd;
	bool		good;

	if (strcmp(part, "..") == 0)
		return go_up(way);
	if (*part == '\0' || strcmp(part, ".") == 0)
		return true;
	fd = openat(way->fds[way->depth - 1], part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	good = fstat(fd, &st) == 0;
	if (good && S_ISDIR(st.st_mode))
	{
		push(way, fd);
		return true;
	}
	if (good && S_ISLNK(st.st_mode))
		good = enter_link(way, fd, rest);
	else if (good && rest != NULL)
	{
		errno = ENOTDIR;
		good = false;
	}
	else if (good)
	{
		*file = fd;
		return true;
	}
	close(fd);
	return good;
}

/* Go the whole way.  The result is open only as a path; -1 with errno set. */
static int
go(Way *way)
{
	int			file = -1;

	while (file < 0 && way->rest != NULL)
	{
		char	   *whole = way->rest;
		char	   *behind = whole;
		char	   *part = strsep(&behind, "/");
		bool		good = take_part(way, part, behind, &file);

		if (!good)
			return -1;
		if (way->rest != whole)
			continue;
		way->rest = behind != NULL ? text_make("%s", behind) : NULL;
		free(whole);
	}
	return file >= 0 ? file : dup(way->fds[way->depth - 1]);
}

/* Open for reading what is open as a path only. */
static int
reopen(int fd, int flags)
{
	char	   *path = text_make("/proc/self/fd/%d", fd);
	int			opened = open(path, flags | O_CLOEXEC);

	free(path);
	return opened;
}

int
local_follow(int top, const char *path, int flags, Failure *failure)
{
	Way			way = {.rest = text_make("%s", path)};
	int			fd;
	int			saved;

	push(&way, dup(top));
	fd = go(&way);
	if (fd >= 0 && (flags & O_PATH) == 0)
	{
		int			opened = reopen(fd, flags);

		saved = errno;
		close(fd);
		errno = saved;
		fd = opened;
	}
	saved = errno;
	while (way.depth > 0)
		close(way.fds[--way.depth]);
	free(way.fds);
	free(way.rest);
	if (fd >= 0)
		return fd;
	errno = saved;
	if (errno == EXDEV)
		failure_say(failure, "a link that leads out of the tree: it is not followed");
	else
		failure_errno(failure, "could not follow the link");
	errno = saved;
	return -1;
}
