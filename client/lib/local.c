/*-------------------------------------------------------------------------
 *
 * local.c
 *	  The local file of pgsf_put_fd and pgsf_get_fd.
 *
 * It may be anything with a descriptor, blocking or not.  A cancel request is seen
 * before each read and write, and while waiting for a pipe or socket.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>

#include <poll.h>
#include <unistd.h>

#include "internal.h"

int
pgsfi_local_start(pgsf *h, LocalFile *file, int fd)
{
	memset(file, 0, sizeof(LocalFile));
	file->fd = fd;
	if (fstat(fd, &file->before) < 0)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not look at local file");
	if (!S_ISREG(file->before.st_mode))
		return 0;
	file->start = file->position = lseek(fd, 0, SEEK_CUR);
	/* some files of /proc cannot seek */
	if (file->start < 0 && errno != ESPIPE)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not seek in local file");
	file->regular = file->start >= 0;
	return 0;
}

int64_t
pgsfi_local_left(const LocalFile *file)
{
	if (!file->regular || file->before.st_size == 0)
		return -1;
	return file->start < file->before.st_size ? file->before.st_size - file->start : 0;
}

/*
 * After a failed system call: wait if it would have blocked; true if it can be tried
 * again, false with errno as the call left it, or with the error set by the wait.
 */
static bool
try_again(pgsf *h, int fd, short events)
{
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return pgsfi_wait_local(h, fd, events) == 0;
	return errno == EINTR;
}

int64_t
pgsfi_local_read(pgsf *h, LocalFile *file, char *buf, int64_t len_bytes)
{
	int64_t		done = 0;

	if (file->position < file->data_end && len_bytes > file->data_end - file->position)
		len_bytes = file->data_end - file->position;
	while (done < len_bytes)
	{
		ssize_t		rc;

		if (pgsfi_wait_local(h, file->fd, POLLIN) < 0)
			return -1;
		rc = read(file->fd, buf + done, len_bytes - done);
		if (rc == 0)
			break;
		if (rc > 0)
			done += rc;
		else if (!try_again(h, file->fd, POLLIN))
			return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not read local file");
	}
	file->position += done;
	return done;
}

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/*
 * May the file have another length than it says?  Files that are made when they are read, as in
 * /proc and /sys, say 0 or the size of a page.  They take no space on a disk.
 */
static bool
length_is_unknown(const LocalFile *file)
{
	return file->before.st_blocks == 0;
}

int
pgsfi_local_unchanged(pgsf *h, LocalFile *file, int64_t read_bytes)
{
	int64_t		left = pgsfi_local_left(file);
	struct stat now;

	if (!file->regular)
		return 0;
	if (fstat(file->fd, &now) < 0)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not look at local file");
	if (now.st_size != file->before.st_size ||
		!same_time(&now.st_mtim, &file->before.st_mtim) ||
		!same_time(&now.st_ctim, &file->before.st_ctim) ||
		(read_bytes != (left < 0 ? 0 : left) && !length_is_unknown(file)))
		return pgsfi_fail(h, PGSF_ERROR_CHANGED, "the local file changed while it was read");
	return 0;
}

int
pgsfi_local_write(pgsf *h, int fd, const char *data, int64_t len_bytes)
{
	while (len_bytes > 0)
	{
		ssize_t		rc;

		if (pgsfi_wait_local(h, fd, POLLOUT) < 0)
			return -1;
		rc = write(fd, data, len_bytes);
		if (rc >= 0)
		{
			data += rc;
			len_bytes -= rc;
		}
		else if (!try_again(h, fd, POLLOUT))
			return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not write local file");
	}
	return 0;
}
