/*-------------------------------------------------------------------------
 *
 * transfer.c
 *	  One synchronous transfer.
 *
 * The synchronous method is made of it, and the rest of a short transfer of any method,
 * cached reads, growth and redo use it.  So it lies below all of them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sys/uio.h>

#include "io/methods.h"
#include "miscadmin.h"

/*
 * RWF_DSYNC makes one write durable as O_DSYNC would.  fsync = off switches
 * it off like every other flush of the server.
 */
int
sfi_io_rw_flags(bool is_write, bool durable)
{
	return (is_write && durable && enableFsync) ? RWF_DSYNC : 0;
}

int32
sfi_io_transfer(int fd, bool is_write, bool durable, char *buf,
				uint32 len_bytes, uint64 file_offset)
{
	struct iovec iov = {.iov_base = buf, .iov_len = len_bytes};
	int			flags = sfi_io_rw_flags(is_write, durable);
	ssize_t		n;

	SF_ASSERT(fd >= 0 && len_bytes > 0 && (is_write || !durable));
	SF_ASSERT(file_offset + len_bytes <= SF_FILE_SIZE);
	if (is_write)
		n = pwritev2(fd, &iov, 1, (off_t) file_offset, flags);
	else
		n = preadv2(fd, &iov, 1, (off_t) file_offset, flags);
	return n < 0 ? -errno : (int32) n;
}
