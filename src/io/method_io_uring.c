/*-------------------------------------------------------------------------
 *
 * method_io_uring.c
 *	  io_uring: one ring per process, one submission per request.
 *
 * Often refused in containers (EPERM, ENOSYS): init() then says so and io.c
 * falls back.
 *
 * One submission a request, since requests are large: a system call for 1 MB costs nothing
 * beside the transfer, and a request is on its way when start returns.
 *
 * Buffers and files are not registered with the ring.  Registered buffers are locked in
 * memory and count against a limit that is often small, and descriptors come and go with
 * the cache of open.c.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <liburing.h>

#include "io/methods.h"
#include "storage/fd.h"

static struct io_uring ring;

/* Are the two operations we use known (Linux 5.6)? */
static bool
ring_is_modern(void)
{
	struct io_uring_probe *probe = SF_FAULT_FAILS(io_setup) ? NULL : io_uring_get_probe_ring(&ring);
	bool		modern;

	if (probe == NULL)
		return false;
	modern = io_uring_opcode_supported(probe, IORING_OP_READ) &&
		io_uring_opcode_supported(probe, IORING_OP_WRITE);
	io_uring_free_probe(probe);
	return modern;
}

/*
 * The ring's descriptor counts as one of the process's, like those of data files.  The
 * completion queue has twice the room of the submission queue, so with at most depth
 * requests in flight it never overflows.
 */
static int
io_uring_method_init(int depth)
{
	int			rc;

	if (!AcquireExternalFD())
		return -EMFILE;
	rc = SF_FAULT_FAILS(io_setup) ? -errno : io_uring_queue_init(depth, &ring, 0);
	if (rc == 0 && !ring_is_modern())
	{
		io_uring_queue_exit(&ring);
		rc = -ENOSYS;
	}
	if (rc < 0)
		ReleaseExternalFD();
	return rc;
}

static void
io_uring_method_shutdown(void)
{
	io_uring_queue_exit(&ring);
	ReleaseExternalFD();
}

/*
 * An entry the kernel does not take stays in the submission queue and would
 * go with the next one: make it harmless before the request is given up.
 */
static void
io_uring_method_submit(SfIo *io, uint32 len_bytes)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	uint64		file_offset = sfi_io_file_offset(io->segment_offset);
	int			rc;

	SF_ASSERT(io->in_flight && len_bytes <= io->len_bytes);
	if (sqe == NULL)
	{
		sfi_io_completed(io, -EAGAIN);
		return;
	}
	if (io->is_write)
		io_uring_prep_write(sqe, io->fd, io->buf, len_bytes, file_offset);
	else
		io_uring_prep_read(sqe, io->fd, io->buf, len_bytes, file_offset);
	sqe->rw_flags = sfi_io_rw_flags(io->is_write, io->durable);
	io_uring_sqe_set_data(sqe, io);

	while ((rc = SF_FAULT_FAILS(io_submit) ? -errno : io_uring_submit(&ring)) == -EINTR)
		;
	if (rc <= 0)
	{
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, NULL);
		sfi_io_completed(io, rc < 0 ? rc : -EAGAIN);
	}
}

/*
 * First wait for one, if that is wanted, then take all that are there without another
 * system call.  Entries without data are those of requests that were given up.
 */
static void
io_uring_method_reap(bool block)
{
	struct io_uring_cqe *cqe;
	int			rc = 0;

	if (block)
	{
		do
			rc = SF_FAULT_FAILS(io_collect) ? -errno : io_uring_wait_cqe(&ring, &cqe);
		while (rc == -EINTR);

		/* buffers in flight whose end cannot be learnt: nothing sane is left */
		if (rc < 0)
			elog(PANIC, "could not collect asynchronous I/O: %s", strerror(-rc));
	}

	while (io_uring_peek_cqe(&ring, &cqe) == 0)
	{
		SfIo	   *io = (SfIo *) io_uring_cqe_get_data(cqe);
		int32		result = cqe->res;

		io_uring_cqe_seen(&ring, cqe);
		SF_ASSERT(io == NULL || io->in_flight);
		if (io != NULL)
			sfi_io_completed(io, result);
	}
}

const SfIoMethodOps sfi_io_method_io_uring = {
	.name = "io_uring",
	.init = io_uring_method_init,
	.shutdown = io_uring_method_shutdown,
	.submit = io_uring_method_submit,
	.reap = io_uring_method_reap,
};
