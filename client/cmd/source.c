/*-------------------------------------------------------------------------
 *
 * source.c
 *	  The bytes of a file that is stored, and whether it changed while they were read.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>
#include <time.h>

#include "local.h"
#include "output.h"
#include "source.h"

/*
 * A file whose times are younger than this is waited for.  A stamp may be older than the write()
 * that made it by a tick of the clock (10 ms at most), so the rest is what a write() may take.
 */
#define SETTLE_NS		(20 * 1000 * 1000)
#define SETTLE_WAITS	5

static bool
same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool
say_changed(Source *source)
{
	return failure_say(source->failure, "the file changed while it was read");
}

/* How long until that time is old; 0: it is, or it lies far in the future. */
static int64_t
ns_until_old(const struct timespec *now, const struct timespec *stamp)
{
	int64_t		age = now->tv_nsec - stamp->tv_nsec;

	if (stamp->tv_sec < now->tv_sec - 1 || stamp->tv_sec > now->tv_sec + 1)
		return 0;
	age += (now->tv_sec - stamp->tv_sec) * INT64_C(1000000000);
	return age >= SETTLE_NS || age < -SETTLE_NS ? 0 : SETTLE_NS - age;
}

/*
 * A write() of another process stamps the file when it begins, and copies its bytes afterwards.
 * So the times of a file that has just changed may stay the same while its bytes still change,
 * which source_check_unchanged() would not see.
 */
bool
source_settle(Source *source)
{
	struct stat *before = &source->file.before;

	for (int waits = 0; S_ISREG(before->st_mode) && !sparse_length_is_unknown(before); waits++)
	{
		struct timespec now;
		struct timespec rest = {0, 0};
		int64_t		modified;
		int64_t		changed;

		clock_gettime(CLOCK_REALTIME, &now);
		modified = ns_until_old(&now, &before->st_mtim);
		changed = ns_until_old(&now, &before->st_ctim);
		if (modified == 0 && changed == 0)
			break;
		if (waits == SETTLE_WAITS)
			return say_changed(source);
		rest.tv_nsec = modified > changed ? modified : changed;
		(void) nanosleep(&rest, NULL);
		if (fstat(source->file.fd, before) != 0)
			return failure_errno(source->failure, "could not look at the file");
	}
	return true;
}

bool
source_is_same(Source *source)
{
	const struct stat *before = &source->file.before;
	struct stat after;

	if (!S_ISREG(before->st_mode))
		return true;
	if (fstat(source->file.fd, &after) != 0)
		return failure_errno(source->failure, "could not look at the file");
	if (after.st_size == before->st_size &&
		same_time(&after.st_mtim, &before->st_mtim) &&
		same_time(&after.st_ctim, &before->st_ctim))
		return true;
	return say_changed(source);
}

bool
source_check_unchanged(Source *source)
{
	const struct stat *before = &source->file.before;
	int64_t		expected = source->total < 0 ? 0 : source->total;

	if (!source_is_same(source))
		return false;
	return !S_ISREG(before->st_mode) || source->done == expected ||
		sparse_length_is_unknown(before) || say_changed(source);
}

bool
source_begin(Source *source, int fd, Failure *failure)
{
	*source = (Source) {.failure = failure};
	if (!sparse_begin(&source->file, fd))
		return failure_errno(failure, "could not look at the file");
	if (!source_settle(source))
		return false;
	source->total = sparse_left(&source->file);
	return true;
}

int64_t
source_next(void *arg, void *buffer, size_t size)
{
	Source	   *source = arg;
	int64_t		got;

	if (source->ahead_bytes > 0)
	{
		got = source->ahead_bytes < size ? source->ahead_bytes : size;
		memcpy(buffer, source->ahead, got);
		source->ahead += got;
		source->ahead_bytes -= got;
	}
	else
	{
		got = sparse_read(&source->file, buffer, size);
		if (got < 0)
			failure_errno(source->failure, "could not read the file");
	}
	if (got > 0)
	{
		source->done += got;
		progress_bytes(got);
	}
	source->failed = got < 0 || (got == 0 && !source_check_unchanged(source));
	return source->failed ? -1 : got;
}

int64_t
source_next_sparse(void *arg, void *buffer, size_t size, int64_t *hole)
{
	Source	   *source = arg;

	if (source->ahead_bytes == 0)
		*hole = sparse_hole(&source->file);
	if (*hole == 0)
		return source_next(source, buffer, size);
	source->done += *hole;
	progress_bytes(*hole);
	return 0;
}

int64_t
source_read_short(int fd, void *buffer, size_t size, bool *fits, Failure *failure)
{
	Source		source = {.failure = failure};

	if (!sparse_begin(&source.file, fd))
	{
		failure_errno(failure, "could not look at the file");
		return -1;
	}
	if (!source_settle(&source))
		return -1;
	source.total = sparse_left(&source.file);
	*fits = source.total < (int64_t) size && !sparse_has_holes(&source.file);
	if (!*fits)
		return 0;
	source.done = local_read(fd, buffer, size);
	*fits = source.done < (int64_t) size;
	if (source.done < 0)
		failure_errno(failure, "could not read the file");
	else if (*fits && !source_check_unchanged(&source))
		return -1;
	return source.done;
}
