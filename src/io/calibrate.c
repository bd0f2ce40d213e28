/*-------------------------------------------------------------------------
 *
 * calibrate.c
 *	  What can the storage of a tablespace do, by the requests of this room?
 *
 * Each process that calibrates has a scratch file of its own in the tablespace, filled with
 * bytes that no disk compresses, and moves its blocks as the engine moves those of data
 * files: by each method, past the page cache and through it, in requests of several sizes,
 * securefile.io_concurrency of them in flight.  A benchmark that issues other I/O than the
 * database would tell the speed of that benchmark.
 *
 * Blocks are visited with a stride, so that they follow each other as if by chance, and
 * none comes twice before all have been there.  Reads through the page cache begin with an
 * empty one, and end before a block comes twice: else memory would be measured.  For the
 * same reason the time of writes includes a flush at their end.
 *
 * The time limit is divided: a quarter at most to fill the file, which stays shorter on a
 * slow disk, and the rest to the measurements.  Each of these makes one request at least.
 *
 * The method and the mode are the settings themselves, changed for the time of a
 * measurement: so each request takes the way through io.c that those of a column take.  A
 * method that the kernel refuses, and direct I/O where the file system has none, are left
 * out, for what io.c would use instead is measured anyway.
 *
 *		 make, fill			a scratch file, durably, 1 MB at a time
 *		 for each mode		direct, then through the page cache
 *			 each method	that the kernel has
 *				 operation	read, write, durable write
 *					 size	4 kB to 1 MB
 *			 sync only		a small write and a flush, again and again
 *		 remove
 *
 * A scratch file is none of a segment: its storage has no database, and so a path of its own
 * (paths.c).  The syncer, the sweeper and the checks never see it.
 *
 * The file goes with a callback, which errors, a cancelled statement and the end of the
 * session all run; that of a process that was killed goes at the next start (scan.c).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "catalog/pg_tablespace_d.h"
#include "common/pg_prng.h"
#include "io/io_internal.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#define MB				((uint64) 1024 * 1024)
#define MOST_BLOCK		MB
#define MOST_DEPTH		64		/* the largest securefile.io_concurrency */
#define MOST_SAMPLES	65536	/* latencies of one measurement */
#define FLUSHED_BYTES	4096	/* written before each flush that is measured */

/* that much is left dirty in the page cache at most, and has to be flushed then */
#define MOST_DIRTY		(16 * MB)

static const uint32 sizes[] = {4 * 1024, 64 * 1024, 512 * 1024, MOST_BLOCK};

typedef struct Operation
{
	const char *name;
	bool		is_write;
	bool		durable;
} Operation;

static const Operation operations[] = {
	{"read", false, false},
	{"write", true, false},
	{"durable write", true, true},
};

/* If nothing is left out: all of both modes, and the flush in each. */
#define MEASUREMENTS	(2 * (1 + SF_IO_METHODS * lengthof(operations) * lengthof(sizes)))

/* One calibration. */
typedef struct Calibration
{
	SfFileId	scratch;
	uint64		max_bytes;
	uint64		file_bytes;
	double		deadline;		/* of the clock of now() */
	int			left;			/* measurements that are still to come */
	uint32	   *samples;		/* service times in us */
	int			saved_method;
	bool		saved_direct;
} Calibration;

/* Requests and their buffers: they stay, as io.h asks for. */
static SfIo requests[MOST_DEPTH];
static char *buffers[MOST_DEPTH];

/* Seconds of a clock that is never set back. */
static double
now(void)
{
	return sf_base_now_us() / 1000000.0;
}

/* ---- the scratch file ---- */

static void
remove_scratch(SfFileId scratch, int elevel)
{
	char		path[SF_IO_PATH_MAX];

	sfi_io_file_path(path, scratch);
	(void) sfi_io_unlink(path, elevel);
}

/*
 * Make the file, and the directories above it: nobody else makes one of temporary files here.
 * Nothing of that need be durable.  A file with the same name, of an earlier process whose
 * removal has failed, is removed.
 */
static void
make_scratch(SfFileId scratch)
{
	char		path[SF_IO_PATH_MAX];

	if (SfStorageSpc(scratch.storage) == DEFAULTTABLESPACE_OID)
	{
		sfi_io_make_root();
		sfi_io_space_path(path, SfStorageSpc(scratch.storage));
		sfi_io_make_one_directory(path);
	}
	sfi_io_scratch_directory(path, SfStorageSpc(scratch.storage));
	sfi_io_make_one_directory(path);
	remove_scratch(scratch, ERROR);
	(void) sfi_io_fd_get(scratch, sf_direct_io, SF_FD_CREATE);
}

/*
 * Whatever the end is: at exit, too, where nothing may throw.  What is in flight is waited
 * for, with the file still there, and its time is not added to that of any column.
 */
static void
end_calibration(int code, Datum arg)
{
	const Calibration *calibration = (const Calibration *) DatumGetPointer(arg);

	sf_io_close(calibration->scratch.storage);
	(void) sf_io_take_counts();
	sf_io_method = calibration->saved_method;
	sf_direct_io = calibration->saved_direct;
	remove_scratch(calibration->scratch, WARNING);
}

/*
 * For error_context_stack: a report of a full disk names a file that the user does not know.
 * What is set here replaces what the report had.
 */
static void
explain_full_disk(void *arg)
{
	const Calibration *calibration = arg;

	if (geterrcode() != ERRCODE_DISK_FULL)
		return;
	errdetail("It is the scratch file of a calibration, of up to %llu bytes.",
			  (unsigned long long) calibration->max_bytes);
	errhint("Free disk space, or use a smaller max_bytes.");
}

/* ---- requests ---- */

/* One for each request in flight, asked for once in the life of the process. */
static void
prepare_buffers(void)
{
	for (int i = 0; i < sf_io_concurrency; i++)
	{
		if (buffers[i] == NULL)
			buffers[i] = sf_io_buffer_alloc(MOST_BLOCK);
	}
}

/* Random bytes: nothing below can compress them, or know them from other ones. */
static void
randomize(char *buffer)
{
	uint64	   *words = (uint64 *) buffer;

	for (int i = 0; i < MOST_BLOCK / sizeof(uint64); i++)
		words[i] = pg_prng_uint64(&pg_global_prng_state);
}

/* Start request n of those in flight, which is idle. */
static void
start(SfFileId scratch, int n, const Operation *operation, uint64 offset, uint32 size_bytes)
{
	SfIo	   *io = &requests[n];

	SF_ASSERT(n >= 0 && n < MOST_DEPTH && buffers[n] != NULL && size_bytes <= MOST_BLOCK);
	io->files = sf_io_open(scratch.storage, false);
	io->segment_offset = offset;
	io->buf = buffers[n];
	io->len_bytes = size_bytes;
	io->is_write = operation->is_write;
	io->durable = operation->durable;
	sf_io_start(io);
}

/*
 * Until the quarter of the time is over, or the file is as long as it may be.  Durably, so
 * that no dirty page is left for the measurements to wait for.  A full disk is met here.
 */
static void
fill_scratch(Calibration *calibration, double until)
{
	static const Operation fill = {"fill", true, true};

	do
	{
		CHECK_FOR_INTERRUPTS();
		randomize(buffers[0]);
		start(calibration->scratch, 0, &fill, calibration->file_bytes, MOST_BLOCK);
		sf_io_wait(&requests[0]);
		calibration->file_bytes += MOST_BLOCK;
		SF_ASSERT(calibration->file_bytes <= calibration->max_bytes);
	} while (calibration->file_bytes + MOST_BLOCK <= calibration->max_bytes && now() < until);
	for (int i = 1; i < sf_io_concurrency; i++)
		randomize(buffers[i]);
}

/* A failure is an ERROR: nothing that matters is in the file. */
static void
flush_scratch(SfFileId scratch)
{
	sfi_io_flush(sfi_io_fd_get(scratch, sf_direct_io, 0)->fd, scratch, false, ERROR);
}

/* Does the file system give direct I/O? */
static bool
direct_is_there(SfFileId scratch)
{
	return sfi_io_fd_get(scratch, true, 0)->direct;
}

/* It is clean, so all of it goes. */
static void
empty_page_cache(SfFileId scratch)
{
	(void) posix_fadvise(sfi_io_fd_get(scratch, false, 0)->fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- one measurement ---- */

static int
compare_samples(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return (x > y) - (x < y);
}

/* Put what the samples say into the result; they are sorted for that. */
static void
evaluate(Calibration *calibration, SfIoMeasured *measured)
{
	const uint32 *samples = calibration->samples;
	uint64		count = measured->operations;
	double		sum = 0;

	SF_ASSERT(count > 0 && count <= MOST_SAMPLES);
	qsort(calibration->samples, count, sizeof(uint32), compare_samples);
	for (uint64 i = 0; i < count; i++)
		sum += samples[i];
	measured->mean_ms = sum / count / 1000;
	measured->median_ms = samples[(count - 1) / 2] / 1000.0;
	measured->p99_ms = samples[(count - 1) * 99 / 100] / 1000.0;
}

static uint64
greatest_common_divisor(uint64 a, uint64 b)
{
	return b == 0 ? a : greatest_common_divisor(b, a % b);
}

/* A number of blocks to go on by: all are visited, each far from the one before. */
static uint64
stride_of(uint64 blocks)
{
	uint64		stride = blocks * 0.618 + 1;

	SF_ASSERT(blocks > 0);
	while (greatest_common_divisor(stride, blocks) != 1)
		stride++;
	return stride;
}

/*
 * The most requests that a measurement makes of a file of so many blocks.  What has no
 * limit by its nature has that of the samples.
 */
static uint64
most_requests(const Operation *operation, const SfIoMeasured *measured, uint64 blocks)
{
	if (measured->direct || operation->durable)
		return MOST_SAMPLES;
	if (!operation->is_write)
		return Min(blocks, MOST_SAMPLES);
	return Min(MOST_DIRTY / measured->size_bytes, MOST_SAMPLES);
}

/*
 * Keep depth requests in flight until the time is over.  They are waited for in the order
 * in which they began, as read/ and write/ do it; so one that has ended before its turn is
 * reaped, and its time taken, when an earlier one is waited for.  The first request is made
 * even if the time is over already.
 */
static void
move_blocks(Calibration *calibration, const Operation *operation, SfIoMeasured *measured,
			double until)
{
	uint64		blocks = calibration->file_bytes / measured->size_bytes;
	uint64		stride = stride_of(blocks);
	uint64		most = most_requests(operation, measured, blocks);
	uint64		started = 0;
	uint64		ended = 0;

	SF_ASSERT(blocks > 0 && measured->depth > 0 && measured->depth <= MOST_DEPTH);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (started < most && (started == 0 || now() < until))
		{
			start(calibration->scratch, started % measured->depth, operation,
				  started * stride % blocks * measured->size_bytes, measured->size_bytes);
			started++;
		}
		else
			most = started;		/* no more, only wait */
		if (ended < started && (started - ended == measured->depth || started == most))
		{
			SfIo	   *io = &requests[ended % measured->depth];

			sf_io_wait(io);
			calibration->samples[ended++] = (uint32) Min(io->service_us, PG_UINT32_MAX);
		}
		if (ended == most)
			break;
	}
	measured->operations = ended;
}

/* Write a little and flush, again and again: only the flush is a sample. */
static void
flush_often(Calibration *calibration, SfIoMeasured *measured, double until)
{
	static const Operation write = {"write", true, false};
	uint64		blocks = calibration->file_bytes / FLUSHED_BYTES;
	uint64		count = 0;

	do
	{
		double		began;

		CHECK_FOR_INTERRUPTS();
		start(calibration->scratch, 0, &write, count % blocks * FLUSHED_BYTES, FLUSHED_BYTES);
		sf_io_wait(&requests[0]);
		began = now();
		flush_scratch(calibration->scratch);
		calibration->samples[count++] = (uint32) ((now() - began) * 1000000);
	} while (count < MOST_SAMPLES && now() < until);
	measured->operations = count;
}

/* When the measurement that comes next has to end: what is left of the time is shared. */
static double
end_of_next(Calibration *calibration, double began)
{
	SF_ASSERT(calibration->left > 0);
	return began + Max(calibration->deadline - began, 0) / calibration->left--;
}

/* All of a result that the caller has not filled in: method, mode and size. */
static void
measure(Calibration *calibration, const Operation *operation, SfIoMeasured *measured)
{
	double		began;

	measured->operation = operation->name;
	measured->depth = sf_io_method == SF_IO_METHOD_SYNC ? 1 :
		(int) Min(sf_io_concurrency, calibration->file_bytes / measured->size_bytes);
	if (!measured->direct && !operation->is_write)
		empty_page_cache(calibration->scratch);
	began = now();
	move_blocks(calibration, operation, measured, end_of_next(calibration, began));
	if (operation->is_write && !operation->durable)
		flush_scratch(calibration->scratch);
	measured->seconds = now() - began;
	evaluate(calibration, measured);
}

/* The same of flushes. */
static void
measure_flush(Calibration *calibration, SfIoMeasured *measured)
{
	double		began = now();

	measured->operation = "flush";
	measured->size_bytes = FLUSHED_BYTES;
	measured->depth = 1;
	flush_often(calibration, measured, end_of_next(calibration, began));
	measured->seconds = now() - began;
	evaluate(calibration, measured);
}

/* ---- all of them ---- */

/* All that is measured by the method, and in the mode, that are set now. */
static void
measure_mode(Calibration *calibration, const char *method, SfIoMeasureFn fn, void *arg)
{
	SfIoMeasured measured = {.method = method, .direct = sf_direct_io};

	for (int op = 0; op < lengthof(operations); op++)
	{
		for (int i = 0; i < lengthof(sizes); i++)
		{
			measured.size_bytes = sizes[i];
			measure(calibration, &operations[op], &measured);
			fn(&measured, arg);
		}
	}
	if (sf_io_method != SF_IO_METHOD_SYNC)
		return;
	measure_flush(calibration, &measured);
	fn(&measured, arg);
}

/* What is not there is left out, and leaves its time to what comes after it. */
static void
measure_all(Calibration *calibration, SfIoMeasureFn fn, void *arg)
{
	const int	of_mode = lengthof(operations) * lengthof(sizes);

	calibration->left = MEASUREMENTS;
	for (int direct = 1; direct >= 0; direct--)
	{
		for (int method = 0; method < SF_IO_METHODS; method++)
		{
			const char *name;

			sf_direct_io = direct;
			sf_io_method = method;
			name = sfi_io_use_method();
			if (name != NULL && (!direct || direct_is_there(calibration->scratch)))
				measure_mode(calibration, name, fn, arg);
			else
				calibration->left -= of_mode + (method == SF_IO_METHOD_SYNC ? 1 : 0);
		}
	}
	SF_ASSERT(calibration->left == 0);
}

/* With the callback in place that ends the calibration. */
static void
calibrate(Calibration *calibration, double seconds, SfIoMeasureFn fn, void *arg)
{
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = explain_full_disk,
		.arg = calibration,
	};
	double		began = now();

	calibration->deadline = began + seconds;
	error_context_stack = &context;
	make_scratch(calibration->scratch);
	fill_scratch(calibration, began + seconds / 4);
	measure_all(calibration, fn, arg);
	error_context_stack = context.previous;
}

/*
 * The settings are changed for the time of the calibration; nothing else runs in this
 * process meanwhile that could see it, or reload them.
 */
void
sf_io_calibrate(Oid spc, uint64 max_bytes, double seconds, SfIoMeasureFn fn, void *arg)
{
	Calibration calibration = {
		.max_bytes = max_bytes,
		.saved_method = sf_io_method,
		.saved_direct = sf_direct_io,
	};

	SF_ASSERT(max_bytes >= SF_IO_SCRATCH_MIN_BYTES && max_bytes <= SF_IO_SCRATCH_MAX_BYTES);
	SF_ASSERT(seconds > 0 && sf_io_concurrency <= MOST_DEPTH);
	SfStorageSpc(calibration.scratch.storage) = spc;
	SfStorageRel(calibration.scratch.storage) = MyProcPid;
	calibration.samples = palloc(MOST_SAMPLES * sizeof(uint32));

	/*
	 * A method can be changed only with nothing in flight.  Its first use
	 * registers a callback, which has to come before ours.
	 */
	sf_io_reap_all();
	(void) sfi_io_use_method();
	prepare_buffers();
	PG_ENSURE_ERROR_CLEANUP(end_calibration, PointerGetDatum(&calibration));
	{
		calibrate(&calibration, seconds, fn, arg);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_calibration, PointerGetDatum(&calibration));
	end_calibration(0, PointerGetDatum(&calibration));
	pfree(calibration.samples);
}
