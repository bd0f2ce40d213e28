/*-------------------------------------------------------------------------
 *
 * method_sync.c
 *	  The reference method: pread and pwrite, done when start returns.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "io/methods.h"

static int
sync_init(int depth)
{
	return 0;
}

static void
sync_shutdown(void)
{
}

/* Finished before the caller goes on, so there is never anything to reap. */
static void
sync_submit(SfIo *io, uint32 len_bytes)
{
	sfi_io_completed(io, sfi_io_transfer(io->fd, io->is_write, io->durable, io->buf,
										 len_bytes, sfi_io_file_offset(io->segment_offset)));
}

/* Nothing is ever in flight. */
static void
sync_reap(bool block)
{
	SF_ASSERT(false);
}

const SfIoMethodOps sfi_io_method_sync = {
	.name = "sync",
	.init = sync_init,
	.shutdown = sync_shutdown,
	.submit = sync_submit,
	.reap = sync_reap,
};
