/*-------------------------------------------------------------------------
 *
 * tempfile.c
 *	  Temporary files, and the list of them, with which an interrupt can remove them.
 *
 * One lock covers creating a file and adding it to the list, and renaming it and taking
 * it out.  tempfile_remove_all() never releases the lock, so that no thread creates
 * another file.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tempfile.h"

struct TempFile
{
	int			directory;		/* belongs to the caller, who keeps it open */
	int			fd;
	char		name[64];
	TempFile   *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TempFile *files = NULL;
static unsigned number = 0;
static bool leaving = false;

static void
unlink_from_list(TempFile *file)
{
	TempFile  **link = &files;

	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
}

TempFile *
tempfile_open(int directory, mode_t mode, Failure *failure)
{
	TempFile   *file = malloc(sizeof(TempFile));
	int			saved;

	if (file == NULL)
		abort();
	file->directory = directory;
	pthread_mutex_lock(&lock);
	do
	{
		snprintf(file->name, sizeof(file->name), ".securefile-%d-%u.tmp", (int) getpid(), number++);
		file->fd = openat(directory, file->name,
						  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	} while (file->fd < 0 && errno == EEXIST);
	saved = errno;
	if (file->fd >= 0)
	{
		file->next = files;
		files = file;
	}
	pthread_mutex_unlock(&lock);
	if (file->fd >= 0)
		return file;
	free(file);
	errno = saved;
	failure_errno(failure, "could not create a temporary file");
	return NULL;
}

int
tempfile_fd(const TempFile *file)
{
	return file->fd;
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

bool
tempfile_finish(TempFile *file, const char *name, bool replace, Failure *failure)
{
	int			rc = close(file->fd);

	file->fd = -1;
	if (rc != 0)
	{
		failure_errno(failure, "could not write the file");
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
			failure_say(failure, "the file is there already");
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
