/*-------------------------------------------------------------------------
 *
 * local.c
 *	  Files of this machine: reading and writing them, hashing them, and opening them
 *	  below a directory without ever leaving it.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "local.h"
#include "sparse.h"
#include "text.h"
#include "utf8.h"

/*
 * After a system call that failed: may it be tried again?  Another program may have made
 * the descriptor non-blocking; this waits then.
 */
static bool
wait_if_not_ready(int fd, short events)
{
	struct pollfd wait = {.fd = fd, .events = events};

	if (errno == EINTR)
		return true;
	if (errno != EAGAIN)
		return false;
	return poll(&wait, 1, -1) >= 0 || errno == EINTR;
}

char *
local_buffer(size_t size)
{
	char	   *buffer = aligned_alloc(4096, size);

	if (buffer == NULL)
		abort();
	return buffer;
}

int64_t
local_read(int fd, void *buffer, size_t size)
{
	size_t		got = 0;

	while (got < size)
	{
		ssize_t		rc = read(fd, (char *) buffer + got, size - got);

		if (rc == 0)
			break;
		if (rc > 0)
			got += rc;
		else if (!wait_if_not_ready(fd, POLLIN))
			return -1;
	}
	return got;
}

bool
local_write(int fd, const void *buffer, size_t size)
{
	while (size > 0)
	{
		ssize_t		rc = write(fd, buffer, size);

		if (rc > 0)
		{
			buffer = (const char *) buffer + rc;
			size -= rc;
		}
		else if (rc == 0 || !wait_if_not_ready(fd, POLLOUT))
			return false;
	}
	return true;
}

/* A SparseTake. */
static bool
add_to_hash(void *arg, const void *bytes, size_t size)
{
	XXH3_64bits_update(arg, bytes, size);
	return true;
}

bool
local_hash(int fd, uint64_t *hash, Failure *failure)
{
	XXH3_state_t *state = XXH3_createState();
	bool		good;

	if (state == NULL)
		abort();
	XXH3_64bits_reset(state);
	good = lseek(fd, 0, SEEK_SET) == 0 && sparse_each(fd, add_to_hash, state) >= 0;
	if (!good)
		failure_errno(failure, "could not read the file");
	*hash = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return good;
}

/* The beginning of a file that is hashed. */
typedef struct HashedStart
{
	XXH3_state_t *state;
	int64_t		left;
} HashedStart;

/* A SparseTake; false at the end of the beginning. */
static bool
add_start_to_hash(void *arg, const void *bytes, size_t size)
{
	HashedStart *start = arg;
	size_t		taken = (int64_t) size < start->left ? size : (size_t) start->left;

	XXH3_64bits_update(start->state, bytes, taken);
	start->left -= (int64_t) taken;
	return start->left > 0;
}

bool
local_hash_start(int fd, int64_t length, uint64_t *hash, Failure *failure)
{
	HashedStart start = {XXH3_createState(), length};
	bool		good;

	if (start.state == NULL)
		abort();
	XXH3_64bits_reset(start.state);
	good = lseek(fd, 0, SEEK_SET) == 0 &&
		(sparse_each(fd, add_start_to_hash, &start) >= 0 || errno == 0);
	if (!good)
		failure_errno(failure, "could not read the file");
	*hash = XXH3_64bits_digest(start.state);
	XXH3_freeState(start.state);
	return good;
}

/* A SparseTake that only has the bytes counted. */
static bool
count_only(void *arg, const void *bytes, size_t size)
{
	(void) arg;
	(void) bytes;
	(void) size;
	return true;
}

/* The number of bytes of a regular file that is at its beginning; -1 with errno set. */
static int64_t
find_length(int fd, const struct stat *st)
{
	int64_t		length;

	if (!sparse_length_is_unknown(st))
		return st->st_size;
	length = sparse_each(fd, count_only, NULL);
	return lseek(fd, 0, SEEK_SET) == 0 ? length : -1;
}

/* The open file if it is a regular one; else it is closed. */
static int
take_regular(int fd, int64_t *length, Failure *failure)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		failure_errno(failure, "could not look at the file");
	else if (!S_ISREG(st.st_mode))
		failure_say(failure, "not a regular file");
	else if ((*length = find_length(fd, &st)) < 0)
		failure_errno(failure, "could not read the file");
	else
		return fd;
	close(fd);
	errno = EISDIR;
	return -1;
}

int
local_open_file(int directory, const char *path, int64_t *length, Failure *failure)
{
	/* O_NONBLOCK: the open of a pipe would wait for its writer */
	int			fd = openat(directory, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int			saved = errno;

	if (fd >= 0)
		return take_regular(fd, length, failure);
	if (errno == ELOOP)
		failure_say(failure, "a symbolic link, not a regular file");
	else
		failure_errno(failure, "could not open the file");
	errno = saved;
	return -1;
}

int
local_open_below(int top, const char *path, bool follow, int64_t *length, Failure *failure)
{
	const char *last;
	int			directory;
	int			fd;
	int			saved;

	if (follow)
	{
		fd = local_follow(top, path, O_RDONLY | O_NONBLOCK, failure);
		return fd < 0 ? fd : take_regular(fd, length, failure);
	}
	directory = local_open_parent(top, path, false, &last, failure);
	if (directory < 0)
		return -1;
	fd = local_open_file(directory, last, length, failure);
	saved = errno;
	close(directory);
	errno = saved;
	return fd;
}

char *
local_read_link(int directory, const char *name, Failure *failure)
{
	char		target[PATH_MAX];
	ssize_t		length = readlinkat(directory, name, target, sizeof(target));
	int			saved = errno;

	if (length >= 0 && length < (ssize_t) sizeof(target))
		return text_make("%.*s", (int) length, target);
	if (length < 0)
		failure_errno(failure, "could not read the link");
	else
		failure_say(failure, "the target of the link is too long");
	errno = saved;
	return NULL;
}

int
local_open_top(const char *path, Failure *failure)
{
	int			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		failure_say(failure, "could not open directory \"%s\": %s", path, strerror(errno));
	return fd;
}

int
local_open_above(const char *path, const char **last, Failure *failure)
{
	const char *slash = strrchr(path, '/');
	char	   *directory;
	int			fd;

	/* of "/x" the directory is "/" */
	directory = slash == NULL ? strdup(".") : strndup(path, slash > path ? slash - path : 1);
	if (directory == NULL)
		abort();
	*last = slash == NULL ? path : slash + 1;
	fd = local_open_top(directory, failure);
	free(directory);
	return fd;
}

bool
local_check_path(const char *path, Failure *failure)
{
	const char *part = path;

	if (*path == '/')
		return failure_say(failure, "the name is an absolute path: refused");
	while (true)
	{
		size_t		length = strcspn(part, "/");

		if (length == 0)
			return failure_say(failure, "the name has an empty part: it is no path");
		if ((length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
			return failure_say(failure, "the name has a part \"%.*s\": refused",
							   (int) length, part);
		if (part[length] == '\0')
			return true;
		part += length + 1;
	}
}

bool
local_check_name(const char *name, bool utf8, Failure *failure)
{
	if (utf8 && !utf8_valid(name))
		return failure_say(failure, "the name is not valid UTF-8");
	return local_check_path(name, failure);
}

/* Open a directory in a directory; make: create it if it is not there. */
static int
open_down(int directory, const char *name, bool make)
{
	const int	flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int			fd = openat(directory, name, flags);

	if (fd >= 0 || errno != ENOENT || !make)
		return fd;
	/* another thread may have made it */
	if (mkdirat(directory, name, 0777) != 0 && errno != EEXIST)
		return -1;
	return openat(directory, name, flags);
}

int
local_open_parent(int top, const char *path, bool make, const char **last,
				  Failure *failure)
{
	int			directory = dup(top);
	const char *slash;

	while (directory >= 0 && (slash = strchr(path, '/')) != NULL)
	{
		char	   *name = strndup(path, slash - path);
		int			below;
		int			saved;

		if (name == NULL)
			abort();
		below = open_down(directory, name, make);
		saved = errno;
		if (below < 0)
			failure_say(failure, "could not open directory \"%s\": %s%s", name, strerror(errno),
						errno == ENOTDIR || errno == ELOOP ? " (links are not followed)" : "");
		free(name);
		close(directory);
		errno = saved;
		directory = below;
		path = slash + 1;
	}
	*last = path;
	return directory;
}
