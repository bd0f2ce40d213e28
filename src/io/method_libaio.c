/*-------------------------------------------------------------------------
 *
 * method_libaio.c
 *	  Linux native AIO.  Asynchronous for direct I/O to blocks that exist;
 *	  for anything else io_submit() does the work itself, which is right but
 *	  not faster.
 *
 * Each request has its control block in its own memory (method_private), and the kernel
 * copies that at submission.  An event leads back to the request by its data pointer.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <libaio.h>

#include "io/methods.h"

#define REAP_BATCH		32

static io_context_t aio_context;

StaticAssertDecl(sizeof(struct iocb) <= sizeof(((SfIo *) NULL)->method_private),
				 "iocb must fit in SfIo");

/* A new context has to be zero, or io_setup() refuses it.  The limit is fs.aio-max-nr. */
static int
libaio_init(int depth)
{
	aio_context = NULL;
	return SF_FAULT_FAILS(io_setup) ? -errno : io_setup(depth, &aio_context);
}

static void
libaio_shutdown(void)
{
	(void) io_destroy(aio_context);
	aio_context = NULL;
}

/*
 * The kernel refuses with EAGAIN when the context is full of events nobody
 * has collected; collecting makes room.  The request counts as finished with that error,
 * and sf_io_wait() transfers it synchronously.
 */
static void
libaio_submit(SfIo *io, uint32 len_bytes)
{
	struct iocb *cb = (struct iocb *) io->method_private;
	long long	file_offset = (long long) sfi_io_file_offset(io->segment_offset);
	int			rc;

	SF_ASSERT(aio_context != NULL && io->in_flight && len_bytes <= io->len_bytes);
	if (io->is_write)
		io_prep_pwrite(cb, io->fd, io->buf, len_bytes, file_offset);
	else
		io_prep_pread(cb, io->fd, io->buf, len_bytes, file_offset);
	cb->aio_rw_flags = sfi_io_rw_flags(io->is_write, io->durable);
	cb->data = io;

	while ((rc = SF_FAULT_FAILS(io_submit) ? -errno : io_submit(aio_context, 1, &cb)) == -EINTR)
		;
	if (rc != 1)
		sfi_io_completed(io, rc < 0 ? rc : -EAGAIN);
}

/* A batch at most: a caller that wants more asks again, and looks at its own request in between. */
static void
libaio_reap(bool block)
{
	struct io_event events[REAP_BATCH];
	struct timespec zero = {0, 0};
	int			n;

	do
	{
		n = SF_FAULT_FAILS(io_collect) ? -errno :
			io_getevents(aio_context, block ? 1 : 0, REAP_BATCH, events, block ? NULL : &zero);
	} while (n == -EINTR);

	/* buffers in flight whose end cannot be learnt: nothing sane is left */
	if (n < 0)
		elog(PANIC, "could not collect asynchronous I/O: %s", strerror(-n));
	SF_ASSERT(n <= REAP_BATCH && (n > 0 || !block));

	for (int i = 0; i < n; i++)
		sfi_io_completed((SfIo *) events[i].data, (int32) (long) events[i].res);
}

const SfIoMethodOps sfi_io_method_libaio = {
	.name = "libaio",
	.init = libaio_init,
	.shutdown = libaio_shutdown,
	.submit = libaio_submit,
	.reap = libaio_reap,
};
