/*-------------------------------------------------------------------------
 *
 * io.c
 *	  Moving blocks: start, wait, reap.
 *
 * io/README.md is the map of this room: all its files, and what each of them is for.
 *
 *		 sf_io_start()					method				sf_io_wait()
 *
 *		 wait while the queue is full
 *		 find the descriptor, pin it
 *		 count it as in flight
 *		 submit			------------->	kernel
 *						<-------------	sfi_io_completed(): result, unpin, count down
 *														short, interrupted: the rest, by hand
 *														failed: ERROR with place and reason
 *
 * A request is idle, in flight (in_flight is set), or finished and not looked
 * at yet.  Only sf_io_start() takes it into flight and only sfi_io_completed()
 * brings it down, so the number in flight and the pins of the descriptors
 * always agree.  An ERROR may leave requests in flight: their memory and the
 * buffers stay, and sf_io_reap_all() waits for them at transaction end, before
 * the space they write to is given back.
 *
 * The errors of a transfer wait for sf_io_wait() because there is nobody else to tell:
 * the process that reaps a request may be about something different, or in the middle of an
 * abort.  For the same reason reaping never throws, and cannot be interrupted.
 *
 * The queue belongs to the process, not to a column or a statement: a transfer that waits
 * for room in it waits for whichever request finishes first, and the limit,
 * securefile.io_concurrency, is for all of them together.  That suits a disk, which has
 * one queue for all, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sys/mman.h>
#include <unistd.h>

#include "io/methods.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"

static const SfIoMethodOps *const method_table[] = {
	[SF_IO_METHOD_SYNC] = &sfi_io_method_sync,
	[SF_IO_METHOD_LIBAIO] = &sfi_io_method_libaio,
	[SF_IO_METHOD_IO_URING] = &sfi_io_method_io_uring,
};

StaticAssertDecl(lengthof(method_table) == SF_IO_METHODS,
				 "every I/O method needs its functions");

/* This process's method and what it has in flight. */
static struct
{
	int			pid;			/* process that made the context */
	const SfIoMethodOps *ops;	/* NULL: none yet */
	int			depth;			/* requests the context has room for */
	int			in_flight;
	bool		refused[SF_IO_METHODS];
}			engine;

/* a direct write looks so often whether the cached ones in its place are over */
#define DIRECT_WAIT_US	50

static bool exit_registered = false;

/* since they were taken last, of all columns: this room knows nothing of columns */
static SfIoCounts counts;

/*
 * The number in flight is what the limit and every wait rely on.  A process that was
 * forked has its parent's: that is told by the pid, and choose_method() begins anew.
 */
static bool
engine_is_valid(void)
{
	return engine.pid == MyProcPid && engine.in_flight >= 0 && engine.in_flight <= engine.depth &&
		(engine.ops != NULL || engine.in_flight == 0);
}

/* ---- method ---- */

/*
 * A process that ends with requests in flight leaves them to the kernel, which would go
 * on writing after other processes have the space.
 */
static void
reap_at_exit(int code, Datum arg)
{
	sf_io_reap_all();
}

/*
 * The best method at or below the one wanted that the kernel has not refused
 * yet: containers often block io_uring but not libaio.
 */
static SfIoMethod
best_not_refused(SfIoMethod method)
{
	while (engine.refused[method])
		method--;
	SF_ASSERT(method >= SF_IO_METHOD_SYNC && method < SF_IO_METHODS);
	return method;
}

/*
 * Start a method, or the next lower one where the kernel refuses.  The synchronous one
 * is never refused, so this ends.  A refusal is remembered for the life of the process:
 * it comes from a limit or from a container, which do not change under it.
 */
static void
start_method(SfIoMethod method)
{
	int			rc;

	if (!exit_registered)
	{
		before_shmem_exit(reap_at_exit, (Datum) 0);
		exit_registered = true;
	}

	while ((rc = method_table[method]->init(sf_io_concurrency)) < 0)
	{
		SF_ASSERT(method != SF_IO_METHOD_SYNC);
		engine.refused[method] = true;
		if (sfi_io_first_notice(SF_IO_NOTICE_METHOD + method))
			ereport(LOG_SERVER_ONLY,
					(errmsg("securefile.io_method \"%s\" is not available: %s",
							method_table[method]->name, strerror(-rc)),
					 errdetail("Falling back to method \"%s\".",
							   method_table[best_not_refused(method)]->name)));
		method = best_not_refused(method);
	}
	engine.ops = method_table[method];
	engine.depth = sf_io_concurrency;
}

/*
 * Make the method in use the one that is set.  A change waits until nothing
 * is in flight; so does a longer queue.
 */
static void
choose_method(void)
{
	SfIoMethod	wanted;

	SF_ASSERT(IsUnderPostmaster || !IsPostmasterEnvironment);

	/*
	 * A context of the parent process is not this one's.  It is forgotten,
	 * not shut down: the parent, if there is one, goes on using it.
	 */
	if (engine.pid != MyProcPid)
	{
		memset(&engine, 0, sizeof(engine));
		engine.pid = MyProcPid;
	}
	if (engine.in_flight > 0)
		return;
	wanted = best_not_refused((SfIoMethod) sf_io_method);
	if (engine.ops == method_table[wanted] && engine.depth >= sf_io_concurrency)
		return;
	SF_ASSERT(engine.in_flight == 0);
	if (engine.ops != NULL)
	{
		const SfIoMethodOps *old = engine.ops;

		/*
		 * Should the start of the next one throw, there is none, and it is
		 * tried again.
		 */
		engine.ops = NULL;
		old->shutdown();
	}
	start_method(wanted);
}

const char *
sfi_io_use_method(void)
{
	choose_method();
	return engine.ops == method_table[sf_io_method] ? engine.ops->name : NULL;
}

/* ---- what is in flight stays as it is ---- */

/*
 * A buffer that changes while it is being written gives the disk a mixture; a file
 * system with checksums of its own may store one that does not fit it.  Builds for
 * tests watch each write.
 */
#ifdef SF_FAULTS
static void
note_bytes(SfIo *io)
{
	if (io->is_write)
		io->sum = sf_format_checksum(io->buf, io->len_bytes, 0);
}

static void
require_same_bytes(const SfIo *io)
{
	if (io->is_write && io->sum != sf_format_checksum(io->buf, io->len_bytes, 0))
		elog(PANIC, "a buffer was changed while it was being written");
}
#else
#define note_bytes(io)			((void) 0)
#define require_same_bytes(io)	((void) 0)
#endif

/* ---- ways to write ---- */

/*
 * Choose the way of a write, and enter the parts of the file that it writes to; returns
 * its descriptor.  It goes direct instead of through the page cache if others do just now,
 * and the other way round it waits.  Where the file system gives no direct descriptor, all
 * writes are cached.  May throw; then nothing was entered.
 */
static SfFd *
begin_write(SfIo *io)
{
	bool		want_direct = sf_direct_io && !io->files->buffered;

	SF_ASSERT(io->is_write && !io->in_flight);
	for (;;)
	{
		SfFd	   *slot = sfi_io_fd_get(sfi_io_file_of(io), want_direct, 0);

		io->inode = slot->inode;

		/* where there is no direct writing, all are of one kind */
		io->counted = slot->direct || !want_direct;
		if (!io->counted || sfi_parts_enter(io, slot->direct))
		{
			io->cached |= !slot->direct;
			return slot;
		}

		/*
		 * Direct writes of others may take long, so this one joins them,
		 * whatever is set.  Cached ones are over soon, but for those of this
		 * process, which have to be reaped.
		 */
		if (slot->direct && !sfi_io_reap_one())
			pg_usleep(DIRECT_WAIT_US);
		want_direct = true;
	}
}

/* Never throws. */
static void
end_write(const SfIo *io, const SfFd *slot)
{
	if (io->is_write && io->counted)
		sfi_parts_leave(io, slot->direct);
}

/* ---- reaping ---- */

/*
 * The only way out of flight.  What went wrong is kept in result.  The pin goes last:
 * with it the descriptor may be closed.
 */

void
sfi_io_completed(SfIo *io, int32 result)
{
	SF_ASSERT(engine_is_valid() && io->in_flight && engine.in_flight > 0);
	SF_ASSERT(io->slot->pins > 0 && result <= (int32) io->len_bytes);
	require_same_bytes(io);
	end_write(io, io->slot);
	sfi_watch_end(io);
	/* its file may give way to another one from here on */
	io->watched = -1;
	io->result = result;
	io->in_flight = false;
	engine.in_flight--;
	sfi_io_fd_unpin(io->slot);
}

/* The wait event of a request. */
static SfIoWait
wait_of(const SfIo *io)
{
	return io->is_write ? SF_IO_WAIT_WRITE : SF_IO_WAIT_READ;
}

/*
 * Around each wait.  Its time is added to what was spent waiting.  Synchronous transfers count
 * too, so the number tells the same of every method: the time in which the process could do
 * nothing else.
 */
static uint64
begin_wait(SfIoWait event)
{
	sfi_io_begin_wait(event);
	return sf_base_now_us();
}

static void
end_wait(SfIoWait event, uint64 start_us)
{
	uint64		us = sf_base_now_us() - start_us;

	sfi_io_end_wait(event, us);
	counts.reap_us += us;
}

/* Wait until at least one request has finished, whichever it is.  Never throws. */
static void
reap_blocking(SfIoWait event)
{
	uint64		start_us = begin_wait(event);

	SF_ASSERT(engine_is_valid() && engine.in_flight > 0);
	engine.ops->reap(true);
	end_wait(event, start_us);
}

bool
sfi_io_reap_one(void)
{
	if (engine.in_flight == 0)
		return false;

	/*
	 * Whose request it will be is not known yet: those that block others are
	 * writes mostly.
	 */
	reap_blocking(SF_IO_WAIT_WRITE);
	return true;
}

void
sf_io_reap_all(void)
{
	/* a forked child must not wait for its parent's */
	if (engine.pid != MyProcPid)
		return;
	while (engine.in_flight > 0)
		reap_blocking(SF_IO_WAIT_WRITE);
}

/* ---- starting ---- */

/* At the start, not at the end: a request that fails has cost the disk something as well. */
static void
count_start(SfIo *io)
{
	SfIoKind	kind = io->is_write ? SF_IO_WRITE : SF_IO_READ;

	io->watched = sfi_watch_count(sfi_io_file_of(io), kind, io->len_bytes);
	io->service_us = 0;
	if (!io->charged)
		sf_io_charge(kind, io->len_bytes);
	if (io->is_write)
	{
		counts.writes++;
		counts.write_bytes += io->len_bytes;
	}
	else
	{
		counts.reads++;
		counts.read_bytes += io->len_bytes;
	}
}

/*
 * How many bytes an armed fault point lets pass, or -errno.  Fewer than were asked for:
 * the method gets a shorter request, as if the kernel had stopped there.
 */
static int32
bytes_after_fault(const SfIo *io)
{
	return io->is_write ? SF_FAULT_BYTES(io_write, io->len_bytes)
		: SF_FAULT_BYTES(io_read, io->len_bytes);
}

/*
 * Asked for at each transfer: the one of the start may have been closed since.  The
 * setting may have changed, too: either kind of descriptor leads to the same bytes.
 */
static SfFd *
descriptor_of(const SfIo *io)
{
	return sfi_io_fd_get(sfi_io_file_of(io), sf_direct_io && !io->files->buffered, 0);
}

/*
 * A write into the page cache is a copy, which no queue makes faster.  A durable one is
 * more than that: it waits for the disk, and others can be in flight meanwhile.
 */
static bool
is_copy(const SfIo *io)
{
	return io->is_write && io->cached && !io->durable;
}

/*
 * Hand a request to the method.  The synchronous one is waited for here.  The others return at
 * once, as a rule; but a request that goes through the page cache may be done meanwhile.  So
 * that is a wait of the statement, too.
 */
static void
submit(SfIo *io, uint32 len_bytes)
{
	SfIoWait	event = wait_of(io);
	uint64		start_us;

	SF_ASSERT(io->in_flight && len_bytes > 0 && len_bytes <= io->len_bytes);
	if (engine.ops != &sfi_io_method_sync && !is_copy(io))
	{
		start_us = io->began_us;
		sfi_io_begin_wait(event);
		engine.ops->submit(io, len_bytes);
		sfi_io_end_wait(event, track_io_timing ? sf_base_now_us() - start_us : 0);
		return;
	}
	start_us = begin_wait(event);
	sfi_io_method_sync.submit(io, len_bytes);
	end_wait(event, start_us);
}

/*
 * Everything that can throw comes before the request counts as in flight: the file may
 * be missing, a wait may be cancelled.  From the pin on, nothing throws, so the number
 * in flight, the pins and in_flight change together.
 */
void
sf_io_start(SfIo *io)
{
	int32		len_bytes;

	SF_ASSERT(io->len_bytes > 0 && io->len_bytes % SF_IO_ALIGN == 0);
	SF_ASSERT(io->segment_offset % SF_IO_ALIGN == 0);
	SF_ASSERT((uintptr_t) io->buf % SF_IO_ALIGN == 0);
	SF_ASSERT(sfi_io_file_offset(io->segment_offset) + io->len_bytes <= SF_FILE_SIZE);

	if (io->in_flight)
		elog(ERROR, "I/O request is already in flight");

	len_bytes = bytes_after_fault(io);
	choose_method();

	/*
	 * depth may be less than the setting, if that was raised with requests in
	 * flight.
	 */
	while (engine.in_flight >= Min(engine.depth, sf_io_concurrency))
		reap_blocking(wait_of(io));

	SF_ASSERT(engine.in_flight < engine.depth && engine.pid == MyProcPid);
	if (io->is_write && io->durable && SF_FAULT_SKIPS(io_durable))
		io->durable = false;
	count_start(io);

	/*
	 * As if it had failed at once: it never was in flight, and sf_io_wait()
	 * reports it.
	 */
	io->cached = false;
	if (len_bytes < 0)
	{
		io->result = len_bytes;
		return;
	}
	io->slot = io->is_write ? begin_write(io) : descriptor_of(io);
	io->fd = io->slot->fd;
	sfi_io_fd_pin(io->slot);
	io->in_flight = true;
	engine.in_flight++;
	SF_ASSERT(engine_is_valid());
	note_bytes(io);
	sfi_watch_begin(io);
	submit(io, (uint32) len_bytes);
}

/* ---- waiting ---- */

/*
 * Report a transfer that failed for good; error 0 is "no progress".  A read that makes no
 * progress is at the end of the file, where nothing that exists points: damage.
 */
static void
report_failure(const SfIo *io, uint32 done_bytes, int error)
{
	char		path[SF_IO_PATH_MAX];
	unsigned long long file_offset = sfi_io_file_offset(io->segment_offset);

	if (error != 0 || io->is_write)
		sfi_io_report_transfer(sfi_io_file_of(io), io->is_write, io->is_write && io->durable,
							   file_offset, io->len_bytes, error);
	sfi_io_file_path(path, sfi_io_file_of(io));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("could not read segment data file \"%s\" at offset %llu: read only %u of %u bytes",
					path, file_offset, done_bytes, io->len_bytes)));
}

/* Transfer what a short or interrupted request left, synchronously. */
static int32
transfer_rest(SfIo *io, uint32 done_bytes)
{
	int32		len_bytes = SF_FAULT_BYTES(io_rest, io->len_bytes - done_bytes);
	uint64		start_us;
	int32		result;
	SfFd	   *slot;

	SF_ASSERT(!io->in_flight && done_bytes < io->len_bytes && done_bytes % SF_IO_ALIGN == 0);
	if (len_bytes < 0)
		return len_bytes;
	slot = io->is_write ? begin_write(io) : descriptor_of(io);
	start_us = begin_wait(wait_of(io));
	sfi_watch_begin(io);
	result = sfi_io_transfer(slot->fd, io->is_write, io->durable, io->buf + done_bytes,
							 len_bytes, sfi_io_file_offset(io->segment_offset) + done_bytes);
	sfi_watch_end(io);
	end_wait(wait_of(io), start_us);
	end_write(io, slot);
	return result;
}

/*
 * A transfer may be short without an error: at the end of the file, by a signal, on a
 * full disk.  The rest is tried once more, synchronously, and only a transfer that
 * makes no progress at all is a failure; its own error then says why.
 */
void
sf_io_wait(SfIo *io)
{
	uint32		done_bytes = 0;
	uint32		repeats = 0;

	while (io->in_flight)
		reap_blocking(wait_of(io));

	/* direct I/O goes on at block boundaries only, so count whole blocks */
	for (;;)
	{
		int32		result = io->result;

		if (result >= 0)
		{
			uint32		progress = TYPEALIGN_DOWN(SF_IO_ALIGN, (uint32) result);

			if (progress == 0)
				report_failure(io, done_bytes + result, 0);
			done_bytes += progress;
			repeats = 0;
			if (done_bytes >= io->len_bytes)
				break;
		}
		else if (!sfi_io_repeat(result, &repeats))
			report_failure(io, done_bytes, -result);
		io->result = transfer_rest(io, done_bytes);
	}
	SF_ASSERT(done_bytes == io->len_bytes);
	io->result = (int32) io->len_bytes;
}

/* ---- cached reads ---- */

/*
 * Without the method: a read from the page cache is a copy, which no queue makes faster,
 * and buffers of a result have any alignment, which direct I/O refuses.
 */
void
sf_io_read_cached(SfIo *io)
{
	uint32		done_bytes = 0;
	uint32		repeats = 0;
	int32		allowed = bytes_after_fault(io);
	uint64		file_offset = sfi_io_file_offset(io->segment_offset);

	SF_ASSERT(!io->in_flight && !io->is_write && io->files->buffered);
	SF_ASSERT(file_offset + io->len_bytes <= SF_FILE_SIZE);

	/* for the pid: a process must not wait for what its parent had in flight */
	choose_method();
	io->slot = descriptor_of(io);
	count_start(io);
	sfi_io_begin_wait(SF_IO_WAIT_READ);
	while (done_bytes < io->len_bytes)
	{
		int32		result = allowed;

		if (allowed > 0)
		{
			sfi_watch_begin(io);
			result = sfi_io_transfer(io->slot->fd, false, false, io->buf + done_bytes,
									 allowed, file_offset + done_bytes);
			sfi_watch_end(io);
		}
		SF_ASSERT(result <= (int32) (io->len_bytes - done_bytes));
		if (result > 0)
			done_bytes += result;
		else if (!sfi_io_repeat(result, &repeats))
			report_failure(io, done_bytes, -result);
		if (done_bytes < io->len_bytes)
			allowed = SF_FAULT_BYTES(io_rest, io->len_bytes - done_bytes);
	}
	sfi_io_end_wait(SF_IO_WAIT_READ, io->service_us);
}

/*
 * Has the page cache that byte?  One page of the file is mapped, which reads nothing, and
 * mincore() tells whether it is there.  (preadv2(RWF_NOWAIT) would also say no where the
 * system's reading ahead has left its mark.)  Some kernels do not tell a process that
 * may not write the file: a server process may.
 */
static bool
is_resident(int fd, uint64 file_offset)
{
	const long	page_size = sysconf(_SC_PAGESIZE);
	unsigned char resident = 0;
	void	   *page;

	SF_ASSERT(fd >= 0 && page_size > 0);
	if (SF_FAULT_FAILS(io_resident))
		return false;
	page = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd,
				(off_t) (file_offset / page_size * page_size));

	if (page == MAP_FAILED)
		return false;
	if (SF_FAULT_FAILS(io_resident) || mincore(page, page_size, &resident) != 0)
		resident = 0;
	munmap(page, page_size);
	return resident & 1;
}

bool
sf_io_is_cached(SfFiles *files, uint64 segment_offset)
{
	SfFd	   *slot = sfi_io_fd_get(sfi_io_file_at(files->storage, segment_offset), false,
									 SF_FD_MISSING_OK);
	uint64		file_offset = sfi_io_file_offset(segment_offset);

	/*
	 * A missing file is no reason to go past the page cache: the read will
	 * report it.
	 */
	SF_ASSERT(files->buffered);
	return slot == NULL || is_resident(slot->fd, file_offset);
}

/* ---- statistics ---- */

/* The caller adds the counts to the column that it has just read or written. */
SfIoCounts
sf_io_take_counts(void)
{
	SfIoCounts	taken = counts;

	memset(&counts, 0, sizeof(counts));
	return taken;
}
