/*-------------------------------------------------------------------------
 *
 * methods.h
 *	  The ways of moving blocks, behind one table.
 *
 * A method has at most one context per process (a ring, an aio context), made
 * by init() and released by shutdown(), both only while nothing is in flight.
 * io.c does everything that is the same for all: counting, the limit, errors,
 * the rest of a short transfer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IO_METHODS_H
#define SF_IO_METHODS_H

#include "io/io_internal.h"

typedef struct SfIoMethodOps
{
	const char *name;

	/*
	 * Get ready for that many requests at once.  0, or -errno: nothing is
	 * left of the attempt then.  shutdown: the kernel forgets the context.
	 * Never throw.
	 */
	int			(*init) (int depth);
	void		(*shutdown) (void);

	/*
	 * Start the first len_bytes of a request whose fd is set.  Calls
	 * sfi_io_completed() for it, at once or from reap().  Never throws.
	 */
	void		(*submit) (SfIo *io, uint32 len_bytes);

	/*
	 * Call sfi_io_completed() for what has finished; with block, wait until
	 * at least one has.  Something is in flight.  Never throws.
	 */
	void		(*reap) (bool block);
} SfIoMethodOps;

/* In the order in which one takes the place of another that the kernel refuses: upward. */
extern const SfIoMethodOps sfi_io_method_sync;
extern const SfIoMethodOps sfi_io_method_libaio;
extern const SfIoMethodOps sfi_io_method_io_uring;

/*
 * A request has finished: result is bytes done, or -errno.  Called by a method, once for
 * each request that was submitted.  Errors are kept for sf_io_wait().  Never throws.
 */
extern void sfi_io_completed(SfIo *io, int32 result);

/*
 * Transfer synchronously; bytes done, or -errno.  The reference, and what
 * finishes a short transfer of any method.  The range lies in one data file (up to 1 GB).
 * The caller sets the wait event, and the alignment that the descriptor needs.  Never
 * throws.
 */
extern int32 sfi_io_transfer(int fd, bool is_write, bool durable, char *buf,
							 uint32 len_bytes, uint64 file_offset);

/* Flags of preadv2/pwritev2 for a request: RWF_DSYNC, or 0.  Never throws. */
extern int	sfi_io_rw_flags(bool is_write, bool durable);

#endif							/* SF_IO_METHODS_H */
