/*-------------------------------------------------------------------------
 *
 * dumppatch.c
 *	  Making an object out of an earlier one and the parts that differ.
 *
 * Where the file system can, the new object first is a clone of the earlier one, and what stays
 * takes no space.  Else that is copied.  In both cases all of it is read once, in order, for the
 * SHA-256.  Holes stay holes.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "dumppatch.h"
#include "sparse.h"

/* How a range of the new object comes about. */
typedef enum Way
{
	WAY_KEEP,
	WAY_FETCH,
	WAY_ZEROS
} Way;

/* A patch that is being made. */
typedef struct Making
{
	Patch	   *patch;
	Sha256	   *sum;
	bool		cloned;
	Extent		before;			/* the part of the earlier object that was
								 * read last */
	Way			way;			/* of the range that is put together: .. */
	int64_t		start;
	int64_t		end;
	PatchResult result;
	bool	   *broken;
	Failure    *failure;
} Making;

/* ---- the ranges ---- */

static bool
is_broken(Making *making)
{
	failure_errno(making->failure, "could not write the object");
	*making->broken = true;
	making->result = PATCH_FAILED;
	return false;
}

/* Can parts of a file be made holes?  It does not have that byte. */
static bool
can_punch(int fd, int64_t length)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, length, 1) == 0;
}

/* Let the new object be a clone, if the file system has that. */
static bool
begin(Making *making)
{
	const Patch *patch = making->patch;

	making->cloned = ioctl(patch->to, FICLONE, patch->earlier) == 0 &&
		can_punch(patch->to, patch->earlier_length);
	return making->cloned || ftruncate(patch->to, 0) == 0 || is_broken(making);
}

/* A range that has no bytes of the earlier object any more. */
static bool
clear(Making *making)
{
	return !making->cloned ||
		fallocate(making->patch->to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, making->start,
				  making->end - making->start) == 0 || is_broken(making);
}

static bool
keep_bytes(Making *making, const char *bytes, size_t size)
{
	if (!sha256_add(making->sum, bytes, size))
		return false;
	return making->cloned || local_write(making->patch->to, bytes, size) || is_broken(making);
}

static bool
keep_hole(Making *making, int64_t size)
{
	return sha256_add_zeros(making->sum, size) &&
		(lseek(making->patch->to, size, SEEK_CUR) >= 0 || is_broken(making));
}

/* Take a range from the earlier object. */
static bool
keep(Making *making)
{
	Patch	   *patch = making->patch;
	int64_t		left = making->end - making->start;
	SparseFile	file;
	bool		good = lseek(patch->earlier, making->start, SEEK_SET) >= 0 &&
		sparse_begin(&file, patch->earlier);

	patch->kept += left;
	while (good && left > 0)
	{
		int64_t		got = sparse_hole(&file);
		bool		hole = got > 0;

		if (!hole)
			got = sparse_read(&file, patch->session->buffer,
							  left < BUFFER_SIZE ? (size_t) left : BUFFER_SIZE);
		if (got > left)
			got = left;
		good = got > 0 && (hole ? keep_hole(making, got) :
						   keep_bytes(making, patch->session->buffer, got));
		left -= got;
	}
	return good;
}

/* Fetch a range from the server. */
static bool
fetch(Making *making)
{
	const Patch *patch = making->patch;
	int64_t		length = making->end - making->start;
	int64_t		got;

	if (!clear(making))
		return false;
	got = object_fill_part(patch->session, patch->to, making->sum, making->start, length,
						   patch->sql, patch->params, making->broken, making->failure);
	if (got < 0)
		making->result = PATCH_FAILED;
	return got == length;
}

/* Do the range that was put together. */
static bool
do_range(Making *making)
{
	if (making->start == making->end)
		return true;
	if (lseek(making->patch->to, making->start, SEEK_SET) < 0)
		return is_broken(making);
	switch (making->way)
	{
		case WAY_KEEP:
			return keep(making);
		case WAY_FETCH:
			return fetch(making);
		case WAY_ZEROS:
			return clear(making) && keep_hole(making, making->end - making->start);
	}
	return false;
}

/* ---- the parts ---- */

/* So many more bytes: more of the range, or a new one. */
static bool
add(Making *making, Way way, int64_t length)
{
	if (length == 0)
		return true;
	if (way != making->way)
	{
		if (!do_range(making))
			return false;
		making->start = making->end;
		making->way = way;
	}
	making->end += length;
	return true;
}

/* Has the earlier object the bytes of a part?  Asked of one part after the other. */
static bool
is_kept(Making *making, const Extent *now)
{
	Extent	   *before = &making->before;

	while (before->start < now->start || before->length == 0)
		if (!tags_next(&making->patch->before, before))
		{
			before->start = INT64_MAX;
			before->length = 1;
		}
	return extent_same(now, before);
}

static bool
make(Making *making)
{
	Patch	   *patch = making->patch;
	Extent		now;

	if (!begin(making))
		return false;
	while (tags_next(&patch->now, &now))
		if (!add(making, WAY_ZEROS, now.start - making->end) ||
			!add(making, is_kept(making, &now) ? WAY_KEEP : WAY_FETCH, now.length))
			return false;
	return add(making, WAY_ZEROS, patch->length - making->end) && do_range(making) &&
		(ftruncate(patch->to, patch->length) == 0 || is_broken(making));
}

PatchResult
patch_make(Patch *patch, char *sha256, bool *broken, Failure *failure)
{
	Making		making = {.patch = patch, .sum = sha256_begin(), .way = WAY_ZEROS,
		.result = PATCH_UNFIT, .broken = broken, .failure = failure};

	if (!make(&making))
	{
		sha256_free(making.sum);
		return making.result;
	}
	return sha256_end(making.sum, sha256) ? PATCH_MADE : PATCH_UNFIT;
}
