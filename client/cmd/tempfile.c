/*-------------------------------------------------------------------------
 *
 * tempfile.c
 *	  Temporary files, and the list of them, with which an interrupt can remove them.
 *
 * One lock covers creating a file and adding it to the list, and renaming it and taking
 * it out.  tempfile_remove_all() never releases the lock, so that no thread creates
 * another file.
 *
 * The names are random.  Names of files come out of a table, too, and a name that somebody could
 * tell beforehand would let him put his file in the place of one that is being written, before
 * that gets its name.  The file is looked at, once more, before it is renamed.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tempfile.h"

struct TempFile
{
	int			directory;		/* belongs to the caller, which keeps it open */
	int			fd;				/* -1: a symbolic link, or closed */
	struct stat link;			/* that link */
	char		name[64];
	TempFile   *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TempFile *files = NULL;
static bool leaving = false;

static void
unlink_from_list(TempFile *file)
{
	TempFile  **link = &files;

	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
}

/* A name that nobody can tell beforehand; false with errno set. */
static bool
make_name(char *name, size_t size)
{
	uint64_t	random[2];
	ssize_t		got;

	do
		got = getrandom(random, sizeof(random), 0);
	while (got < 0 && errno == EINTR);
	if (got != sizeof(random))
		return false;
	snprintf(name, size, ".securefile-%016" PRIx64 "%016" PRIx64 ".tmp", random[0], random[1]);
	return true;
}

/* Create a file with that mode, or a link if it has a target.  False with errno set. */
static bool
create(TempFile *file, const char *target, mode_t mode)
{
	if (!make_name(file->name, sizeof(file->name)))
		return false;
	if (target == NULL)
	{
		file->fd = openat(file->directory, file->name,
						  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		return file->fd >= 0;
	}
	return symlinkat(target, file->directory, file->name) == 0 &&
		fstatat(file->directory, file->name, &file->link, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Create it, and add it to the list; NULL after a failure. */
static TempFile *
begin(int directory, const char *target, mode_t mode, Failure *failure)
{
	TempFile   *file = calloc(1, sizeof(TempFile));
	int			saved;
	bool		good;

	if (file == NULL)
		abort();
	file->directory = directory;
	file->fd = -1;
	pthread_mutex_lock(&lock);
	good = create(file, target, mode);
	saved = errno;
	if (good)
	{
		file->next = files;
		files = file;
	}
	pthread_mutex_unlock(&lock);
	if (good)
		return file;
	free(file);
	errno = saved;
	failure_errno(failure, "could not create a temporary file");
	return NULL;
}

TempFile *
tempfile_open(int directory, mode_t mode, Failure *failure)
{
	return begin(directory, NULL, mode, failure);
}

TempFile *
tempfile_link(int directory, const char *target, Failure *failure)
{
	return begin(directory, target, 0, failure);
}

int
tempfile_fd(const TempFile *file)
{
	return file->fd;
}

FILE *
tempfile_stream(const TempFile *file)
{
	int			fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
	FILE	   *stream = fd < 0 ? NULL : fdopen(fd, "w");

	if (stream == NULL)
		abort();
	return stream;
}

const char *
tempfile_name(const TempFile *file)
{
	return file->name;
}

/* Rename, or fail with EEXIST if there is something of that name already. */
static int
rename_new(int directory, const char *from, const char *to)
{
	if (renameat2(directory, from, directory, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* a file system that does not know RENAME_NOREPLACE */
	if (linkat(directory, from, directory, to, 0) != 0)
		return -1;
	return unlinkat(directory, from, 0);
}

/* Has the temporary name the file that was written? */
static bool
is_ours(const TempFile *file, const struct stat *written)
{
	struct stat found;

	return fstatat(file->directory, file->name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
		found.st_dev == written->st_dev && found.st_ino == written->st_ino;
}

bool
tempfile_finish(TempFile *file, const char *name, bool replace, Failure *failure)
{
	struct stat written = file->link;
	bool		known = file->fd < 0 || fstat(file->fd, &written) == 0;
	int			rc = file->fd < 0 ? 0 : close(file->fd);

	file->fd = -1;
	if (!known || rc != 0)
	{
		failure_errno(failure, "could not write the file");
		tempfile_discard(file);
		return false;
	}
	if (!is_ours(file, &written))
	{
		failure_say(failure, "another program has changed the temporary file \"%s\"", file->name);
		tempfile_discard(file);
		return false;
	}
	pthread_mutex_lock(&lock);
	rc = replace ? renameat(file->directory, file->name, file->directory, name)
		: rename_new(file->directory, file->name, name);
	if (rc == 0)
		unlink_from_list(file);
	pthread_mutex_unlock(&lock);
	if (rc != 0)
	{
		if (errno == EEXIST)
			failure_say(failure, "could not write \"%s\": it exists already", name);
		else
			failure_errno(failure, "could not rename the file");
		tempfile_discard(file);
		return false;
	}
	free(file);
	return true;
}

void
tempfile_discard(TempFile *file)
{
	if (file->fd >= 0)
		close(file->fd);
	pthread_mutex_lock(&lock);
	unlinkat(file->directory, file->name, 0);
	unlink_from_list(file);
	pthread_mutex_unlock(&lock);
	free(file);
}

void
tempfile_remove_all(void)
{
	if (leaving)
		return;
	pthread_mutex_lock(&lock);
	leaving = true;
	for (TempFile *file = files; file != NULL; file = file->next)
		unlinkat(file->directory, file->name, 0);
}
