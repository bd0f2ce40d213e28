/*-------------------------------------------------------------------------
 *
 * holes.c
 *	  Free space that goes back to the file system where it lies, and is promised again
 *	  before it is used.
 *
 * A data file keeps its length when a hole is punched; what lies in a hole reads as zeros and
 * takes no room.  A write into a hole takes room again, and may find the disk full: in a
 * commit, or worse, when WAL is replayed, and then the server does not start.  So
 *
 *	 - nothing is punched that WAL from the last checkpoint on may write to (space/release.c);
 *	 - before a hole is lent its room is promised, and the promise is durable (sf_io_promise()).
 *
 * Nobody remembers which blocks are holes: the file system is asked.  A file that takes as many
 * blocks as its size has none, and that is a look without a lock.  Of others the map of
 * extents is asked, as a block that was promised and not written yet is no hole.
 *
 * A punch drops pages from the page cache, as a direct write does.  So it is counted as a
 * cached write, in each part of the file (parts.c): no direct write goes on beside it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "access/xlogutils.h"
#include "io/io_internal.h"
#include "miscadmin.h"

#define PROMISED_BYTES		((uint64) 1024 * 1024)	/* at least, in one go */
#define PUNCHED_BYTES		((uint64) 2 * 1024 * 1024)	/* at most: a part */
#define EXTENTS				32
#define WAIT_US				1000	/* for writes of the other kind */

/* The map of extents of a range, as the system fills it. */
typedef union ExtentMap
{
	struct fiemap map;
	char		bytes[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
} ExtentMap;

/* ---- holes ---- */

bool
sf_io_may_have_holes(SfStorage storage, uint64 segment_offset)
{
	SfFileId	file = sfi_io_file_at(storage, segment_offset);
	struct stat st;

	return sfi_io_look_at_file(file, &st) && (uint64) st.st_blocks * 512 < (uint64) st.st_size;
}

/* Ask for the extents of a range; false: the file system does not tell. */
static bool
ask_extents(SfFd *slot, uint64 from, uint64 to, ExtentMap *extents)
{
	SF_ASSERT(from < to);
	memset(extents, 0, sizeof(*extents));
	extents->map.fm_start = from;
	extents->map.fm_length = to - from;
	extents->map.fm_extent_count = EXTENTS;
	return !SF_FAULT_FAILS(io_extents) && ioctl(slot->fd, FS_IOC_FIEMAP, &extents->map) == 0;
}

/*
 * How far from an offset on has a file room, without a gap?  The offset itself: there is a
 * hole, or the file system does not tell.
 */
static uint64
room_ends(SfFd *slot, uint64 from, uint64 to)
{
	ExtentMap	extents;

	if (!ask_extents(slot, from, to, &extents))
		return from;
	for (uint32 i = 0; i < Min(extents.map.fm_mapped_extents, EXTENTS); i++)
	{
		const struct fiemap_extent *extent = &extents.map.fm_extents[i];

		if (extent->fe_logical > from ||
			(extent->fe_flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC)) != 0)
			break;
		from = Max(from, extent->fe_logical + extent->fe_length);
	}
	return from;
}

/* Has all of a range room? */
static bool
is_whole(SfFd *slot, uint64 from, uint64 to)
{
	uint64		end;

	SF_ASSERT(from < to);
	while ((end = room_ends(slot, from, to)) < to)
	{
		if (end == from)
			return false;
		from = end;
	}
	return true;
}

bool
sf_io_has_room(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	SfFd	   *slot = sfi_io_fd_get(sfi_io_file_at(storage, segment_offset), sf_direct_io, 0);
	uint64		from = sfi_io_file_offset(segment_offset);
	ExtentMap	extents;

	return !ask_extents(slot, from, from + len_bytes, &extents) ||
		extents.map.fm_mapped_extents > 0;
}

/*
 * Does the file system tell where a file has room?  Where it does not, nothing is released, and
 * what looks like a hole is something else: ZFS compresses.  In tmpfs promises cost nothing.
 */
static bool
tells_room(SfFd *slot)
{
	ExtentMap	extents;
	struct statfs fs;

	return ask_extents(slot, 0, SF_IO_ALIGN, &extents) ||
		(fstatfs(slot->fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC);
}

/* Bytes of a range that the extents of it have, and how far these go; *to: it is all of them. */
static uint64
mapped_bytes(const ExtentMap *extents, uint64 *from, uint64 to)
{
	uint32		n = Min(extents->map.fm_mapped_extents, EXTENTS);
	uint64		at = *from;
	uint64		sum = 0;

	for (uint32 i = 0; i < n; i++)
	{
		const struct fiemap_extent *extent = &extents->map.fm_extents[i];
		uint64		begin = Max(at, extent->fe_logical);
		uint64		end = Min(extent->fe_logical + extent->fe_length, to);

		if (begin < end)
		{
			sum += end - begin;
			at = end;
		}
	}
	*from = n < EXTENTS || at == *from ? to : at;
	return sum;
}

uint64
sf_io_room_bytes(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	SfFd	   *slot = sfi_io_fd_get(sfi_io_file_at(storage, segment_offset), sf_direct_io,
									 SF_FD_MISSING_OK);
	uint64		from = sfi_io_file_offset(segment_offset);
	uint64		to = from + len_bytes;
	uint64		sum = 0;
	ExtentMap	extents;

	SF_ASSERT(len_bytes > 0 && to <= SF_FILE_SIZE);
	if (slot == NULL || !tells_room(slot))
		return 0;
	while (from < to)
	{
		/* tmpfs does not tell, and its room can be given back all the same */
		if (!ask_extents(slot, from, to, &extents))
			return len_bytes;
		sum += mapped_bytes(&extents, &from, to);
	}
	return sum;
}

/* ---- the calls ---- */

/* fallocate(), made again when it was interrupted; 0 or an error number. */
static int
allocate(SfFd *slot, int mode, uint64 from, uint64 to)
{
	uint64		start_us = sf_base_now_us();
	uint32		repeats = 0;
	int			error;

	sfi_io_begin_wait(SF_IO_WAIT_EXTEND);
	do
		error = SF_FAULT_FAILS(io_hole) ||
			fallocate(slot->fd, mode, (off_t) from, (off_t) (to - from)) != 0 ? errno : 0;
	while (sfi_io_repeat(-error, &repeats));
	sfi_io_end_wait(SF_IO_WAIT_EXTEND, sf_base_now_us() - start_us);
	return error;
}

/* An error of one of them; of a file system that cannot do it, too. */
SF_NORETURN static void
report_hole_failure(SfFileId file, const char *what, int error)
{
	char		path[SF_IO_PATH_MAX];

	sfi_io_file_path(path, file);
	errno = error;
	if (error == EOPNOTSUPP || error == ENOSYS)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("could not %s segment data file \"%s\": %m", what, path),
				 errdetail("Its file system cannot take room back from a file, or does not tell or promise it."),
				 errhint("Use ext4, XFS or btrfs on a local disk.")));
	ereport(ERROR,
			(sfi_io_errcode(error),
			 errmsg("could not %s segment data file \"%s\": %m", what, path),
			 sfi_io_errhint(error)));
}

/* ---- promise ---- */

bool
sf_io_promise(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	SfFileId	file = sfi_io_file_at(storage, segment_offset);
	uint64		from = TYPEALIGN_DOWN(PROMISED_BYTES, sfi_io_file_offset(segment_offset));
	uint64		to = TYPEALIGN64(PROMISED_BYTES, sfi_io_file_offset(segment_offset) + len_bytes);
	SfFd	   *slot = sfi_io_fd_get(file, sf_direct_io, 0);
	int			error;

	SF_ASSERT(len_bytes > 0 && to <= SF_FILE_SIZE);
	to = Min(to, (uint64) Max(sfi_io_file_size(file), 0));
	if (from >= to || is_whole(slot, from, to) || !tells_room(slot))
		return true;
	error = allocate(slot, FALLOC_FL_KEEP_SIZE, from, to);
	if (error == ENOSPC || error == EDQUOT)
		return false;
	if (error != 0)
		report_hole_failure(file, "promise room in", error);
	sfi_io_fd_sync(sfi_io_fd_get(file, sf_direct_io, 0), true);
	return true;
}

/* ---- punch ---- */

/* A promise of room that is there changes nothing, and tells whether there are promises. */
static int
promise_error(SfFileId file, uint64 segment_offset, uint64 len_bytes)
{
	uint64		from = sfi_io_file_offset(segment_offset);
	SfFd	   *slot = sfi_io_fd_get(file, sf_direct_io, 0);
	int			error = tells_room(slot) ?
		allocate(slot, FALLOC_FL_KEEP_SIZE, from, from + len_bytes) : EOPNOTSUPP;

	return error == ENOSPC || error == EDQUOT ? 0 : error;
}

void
sf_io_require_promises(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	SfFileId	file = sfi_io_file_at(storage, segment_offset);
	int			error = promise_error(file, segment_offset, len_bytes);

	if (error != 0)
		report_hole_failure(file, "promise room in", error);
}

bool
sf_io_has_promises(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	int			error = promise_error(sfi_io_file_at(storage, segment_offset), segment_offset,
									  len_bytes);

	return error != EOPNOTSUPP && error != ENOSYS;
}

/* Punch what lies in one part of a file; its direct writes have ended, and none begins. */
static void
punch_part(SfFiles *files, uint64 segment_offset, uint32 len_bytes)
{
	SfIo		io = {.files = files, .segment_offset = segment_offset, .len_bytes = len_bytes,
		.is_write = true};
	SfFileId	file = sfi_io_file_of(&io);
	uint64		from = sfi_io_file_offset(segment_offset);
	SfFd	   *slot = sfi_io_fd_get(file, sf_direct_io, SF_FD_MISSING_OK);
	int			error;

	/* a record further on in WAL removes the file, or cuts it */
	if (slot == NULL)
		return;
	while (!sfi_parts_enter(&io, false))
	{
		if (!InRecovery)
			CHECK_FOR_INTERRUPTS();
		pg_usleep(WAIT_US);
	}
	error = allocate(slot, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, from + len_bytes);
	sfi_parts_leave(&io, false);
	if (error != 0 && !(InRecovery && (error == EOPNOTSUPP || error == ENOSYS)))
		report_hole_failure(file, "punch a hole into", error);
}

uint32
sf_io_punches(uint64 segment_offset, uint64 len_bytes)
{
	SF_ASSERT(len_bytes > 0);
	return (segment_offset + len_bytes - 1) / PUNCHED_BYTES - segment_offset / PUNCHED_BYTES + 1;
}

void
sf_io_punch(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	SfFiles    *files = sf_io_open(storage, false);
	uint64		end = segment_offset + len_bytes;

	SF_ASSERT(segment_offset % SF_IO_ALIGN == 0 && len_bytes % SF_IO_ALIGN == 0);
	while (segment_offset < end)
	{
		uint64		part_end = Min(end, TYPEALIGN_DOWN(PUNCHED_BYTES, segment_offset) +
								   PUNCHED_BYTES);

		punch_part(files, segment_offset, (uint32) (part_end - segment_offset));
		segment_offset = part_end;
	}
}
