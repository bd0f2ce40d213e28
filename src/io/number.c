/*-------------------------------------------------------------------------
 *
 * number.c
 *	  Files of pg_securefile that hold one number.
 *
 * Written anew and renamed, so that there is always an old or a new one.  With
 * elevel WARNING nothing here throws: writing may come after a commit.
 *
 * A number in decimal and a newline: an administrator can read it, and a file that was
 * cut off lacks the newline, which tells it from a shorter number.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "io/io_internal.h"
#include "miscadmin.h"
#include "storage/fd.h"

/* errno says why the call before failed, and the caller is about to report it. */
static void
close_keeping_errno(int fd)
{
	int			error = errno;

	(void) close(fd);
	errno = error;
}

/* O_NONBLOCK is for what is no file: a FIFO in its place must not keep a start waiting. */
bool
sfi_io_number_read(const char *path, uint64 *number, int elevel)
{
	char		text[32] = {0};
	int			fd = SF_FAULT_FAILS(io_number_read) ? -1 :
		BasicOpenFile(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | PG_BINARY);
	ssize_t		len;
	char	   *end;

	if (fd < 0)
	{
		if (errno != ENOENT)
			sf_io_report_path(elevel, "open file", path);
		return false;
	}
	len = SF_FAULT_FAILS(io_number_read) ? -1 : read(fd, text, sizeof(text) - 1);
	close_keeping_errno(fd);
	if (len < 0)
	{
		sf_io_report_path(elevel, "read file", path);
		return false;
	}
	SF_ASSERT(len < (ssize_t) sizeof(text));
	*number = strtoull(text, &end, 10);
	if (len > 0 && end != text && *end == '\n')
		return true;
	ereport(elevel,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" does not hold a number", path)));
	return false;
}

/*
 * Make a durable file; false, and errno, when that fails.  The caller removes a file that
 * is there all the same.
 */
static bool
write_file(const char *path, const char *text, int len)
{
	int			fd = SF_FAULT_FAILS(io_number_write) ? -1 :
		BasicOpenFile(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | PG_BINARY);
	bool		ok;

	if (fd < 0)
		return false;
	errno = ENOSPC;				/* a short write says no reason */
	ok = !SF_FAULT_FAILS(io_number_write) && write(fd, text, len) == len &&
		!SF_FAULT_FAILS(io_number_write) && pg_fsync(fd) == 0;
	close_keeping_errno(fd);
	return ok;
}

/*
 * File first, then its name, each of them flushed: a crash leaves the old number or the new
 * one.  The temporary name has the process id in it.  The next start removes such
 * files if a crash has left any.
 */
void
sfi_io_number_write(const char *path, uint64 number, int elevel)
{
	char		new_path[SF_IO_PATH_MAX];
	char		text[32];
	int			len = snprintf(text, sizeof(text), UINT64_FORMAT "\n", number);
	int			error;

	/* it is this directory that is flushed for the new name */
	SF_ASSERT(strncmp(path, SF_IO_ROOT "/", strlen(SF_IO_ROOT "/")) == 0);
	/* another process may be at the same */
	snprintf(new_path, sizeof(new_path), "%s" SF_IO_NEW_NUMBER "%d", path, MyProcPid);
	if (write_file(new_path, text, len) &&
		!SF_FAULT_FAILS(io_rename) && rename(new_path, path) == 0 &&
		sfi_io_sync_directory(SF_IO_ROOT))
		return;
	/* the old number stands; what was made of the new one is of no use */
	error = errno;
	if (!SF_FAULT_FAILS(io_unlink))
		(void) unlink(new_path);
	errno = error;
	sf_io_report_path(elevel, "write file", path);
}
