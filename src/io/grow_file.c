/*-------------------------------------------------------------------------
 *
 * grow_file.c
 *	  Making data files longer; and redo.
 *
 * New blocks read as zeros, and their room is taken: a full disk is met here, not in the
 * middle of a value.  There are two ways to that:
 *
 *	 promised	fallocate(): costs next to nothing, but the first write to a block
 *				costs more, since its flush has to wait for the file system's journal
 *	 written	zeros are written to the disk, half a millisecond a MB; the first write
 *				costs no more than later ones
 *
 * The caller says which way suits the later writers.  Where the file system makes
 * no promises, zeros are written.  They are written synchronously: zeros that a killed
 * process had left in flight could land on somebody's data.
 *
 * The order of one growth, for which the caller holds the growth lock:
 *
 *		 zeros -> flushed -> names flushed -> caller logs the new size
 *
 * A crash before the last step leaves files that are longer than anybody knows; the next
 * growth begins at the old end and makes zeros of that.  A crash after it finds
 * everything there.  Redo of the record, on another machine or after files were lost,
 * brings them to the size without touching bytes that exist: those may be newer than
 * the record.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlogutils.h"
#include "io/methods.h"
#include "miscadmin.h"

#define ZERO_CHUNK			(1024 * 1024)

/* never written to, so it takes no memory but the kernel's zero page */
static char zeros[ZERO_CHUNK] pg_attribute_aligned(SF_IO_ALIGN);

/* ---- zeros ---- */

/* Growth is where a full disk is met: the error says so, with a hint. */
static void
report_extend_failure(SfFileId file, int error)
{
	char		path[SF_IO_PATH_MAX];

	sfi_io_file_path(path, file);
	errno = error;
	ereport(ERROR,
			(sfi_io_errcode(error),
			 errmsg("could not extend segment data file \"%s\": %m", path),
			 sfi_io_errhint(error)));
}

/*
 * Write one chunk of zeros; bytes done, or -errno.  Not durable: one flush at the end of
 * a file costs less than one for each chunk.
 */
static int32
write_chunk(SfFd *slot, uint64 file_offset, uint32 len_bytes)
{
	int32		allowed = SF_FAULT_BYTES(io_extend, len_bytes);
	uint64		start_us;
	int32		result;

	SF_ASSERT(len_bytes > 0 && len_bytes <= ZERO_CHUNK && file_offset % SF_IO_ALIGN == 0);
	if (allowed < 0)
		return allowed;
	start_us = sf_base_now_us();
	sfi_io_begin_wait(SF_IO_WAIT_EXTEND);
	result = sfi_io_transfer(slot->fd, true, false, zeros, allowed, file_offset);
	sfi_io_end_wait(SF_IO_WAIT_EXTEND, sf_base_now_us() - start_us);
	return result;
}

/* Interruptible between chunks, but not in recovery. */
static void
write_zeros(SfFileId file, int flags, uint64 from, uint64 to)
{
	uint32		repeats = 0;

	SF_ASSERT(from % SF_IO_ALIGN == 0 && to % SF_IO_ALIGN == 0 && to <= SF_FILE_SIZE);
	while (from < to)
	{
		int32		result;

		if (!InRecovery)
			CHECK_FOR_INTERRUPTS();
		result = write_chunk(sfi_io_fd_get(file, sf_direct_io, flags), from,
							 (uint32) Min(to - from, ZERO_CHUNK));
		if (sfi_io_repeat(result, &repeats))
			continue;
		if (result < 0)
			report_extend_failure(file, -result);

		/*
		 * A disk takes less than a block only when it is full, and says no
		 * reason then.
		 */
		if (result < SF_IO_ALIGN)
			report_extend_failure(file, ENOSPC);
		from += TYPEALIGN_DOWN(SF_IO_ALIGN, (uint32) result);
		repeats = 0;
	}
}

/*
 * Have the file system promise zeros; false where it does not do that.  What a crash has
 * left there is gone with it.
 */
static bool
promise_zeros(SfFileId file, int flags, uint64 from, uint64 to)
{
	SfFd	   *slot = sfi_io_fd_get(file, sf_direct_io, flags);
	uint64		start_us = sf_base_now_us();
	uint32		repeats = 0;
	int			error;

	SF_ASSERT(from < to && from % SF_IO_ALIGN == 0 && to <= SF_FILE_SIZE);
	sfi_io_begin_wait(SF_IO_WAIT_EXTEND);
	do
		error = SF_FAULT_FAILS(io_promise) ||
			fallocate(slot->fd, FALLOC_FL_ZERO_RANGE, (off_t) from, (off_t) (to - from)) != 0 ?
			errno : 0;
	while (sfi_io_repeat(-error, &repeats));
	sfi_io_end_wait(SF_IO_WAIT_EXTEND, sf_base_now_us() - start_us);
	if (error == EOPNOTSUPP || error == ENOSYS)
		return false;
	if (error != 0)
		report_extend_failure(file, error);
	return true;
}

/*
 * Make zeros of [from, to) of one data file, durably.  Makes the file when from is its start.
 * With nothing to do the file is flushed all the same: its size may not be durable yet.
 */
static void
make_zeros(SfFileId file, uint64 from, uint64 to, bool written)
{
	int			flags = (from == 0) ? SF_FD_CREATE : 0;

	if (written || from >= to || !promise_zeros(file, flags, from, to))
		write_zeros(file, flags, from, to);
	sfi_io_fd_sync(sfi_io_fd_get(file, sf_direct_io, flags), true);
}

/* ---- growth ---- */

/*
 * File by file.  A file is full before the next one is made: so the number of a file and
 * the offset in it follow from the offset in the segment alone.  Its name is durable
 * before the caller logs the new size, so no page ever counts a file that is not there.
 */
static void
grow_files(SfStorage storage, uint64 from_bytes, uint64 to_bytes, bool written)
{
	if (from_bytes == 0)
		sfi_io_make_directory(storage);
	while (from_bytes < to_bytes)
	{
		SfFileId	file = sfi_io_file_at(storage, from_bytes);
		uint64		from = sfi_io_file_offset(from_bytes);
		uint64		to = sfi_io_end_in_file(file, to_bytes);

		SF_ASSERT(from < to && to <= SF_FILE_SIZE);
		make_zeros(file, from, to, written);
		if (from == 0)
			sfi_io_sync_name(file);
		from_bytes += to - from;
	}
}

/*
 * On failure the files get their old size back, as well as that goes: space that no header
 * page counts would be lost until the next growth, and a full disk stay full.  Not with a
 * resource owner or a callback: the error is still being handled here, and the growth
 * lock is still held, so nobody can have grown the files in between.
 */
void
sf_io_files_grow(SfStorage storage, uint64 from_bytes, uint64 to_bytes, bool written)
{
	SF_ASSERT(from_bytes < to_bytes);
	SF_ASSERT(from_bytes % SF_IO_ALIGN == 0 && to_bytes % SF_IO_ALIGN == 0);
	PG_TRY();
	{
		grow_files(storage, from_bytes, to_bytes, written);
	}
	PG_CATCH();
	{
		(void) sfi_io_cut_files(storage, from_bytes, WARNING);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* ---- redo ---- */

/*
 * Bring one data file to a size, leaving what it has alone.  Records of later growths
 * and writes may have reached the disk before a crash, while redo begins at an earlier
 * checkpoint: so the file may be longer, and hold newer bytes, than the record knows.
 */
static void
ensure_file(SfFileId file, uint64 want_bytes)
{
	int64		have = sfi_io_file_size(file);
	uint64		aligned;
	SfFd	   *slot;

	if (have >= 0 && (uint64) have >= want_bytes)
		return;

	sfi_io_redo_note_end(file);
	if (!sf_io_files_may_exist(file.storage, ERROR))
		sfi_io_make_directory(file.storage);
	slot = sfi_io_fd_get(file, sf_direct_io, SF_FD_CREATE);
	if (have < 0)
	{
		sfi_io_fd_sync(slot, true);
		sfi_io_sync_name(file);
		have = 0;
	}

	/* a file torn inside a block: fill that block up without touching it */
	aligned = TYPEALIGN64(SF_IO_ALIGN, (uint64) have);
	SF_ASSERT(aligned <= SF_FILE_SIZE && want_bytes <= SF_FILE_SIZE);
	if (aligned != (uint64) have &&
		(SF_FAULT_FAILS(io_truncate) || ftruncate(slot->fd, (off_t) aligned) != 0))
		report_extend_failure(file, errno);
	make_zeros(file, aligned, want_bytes, false);
}

/* One file and how long it has to be (a step of sfi_io_redo_fits()). */
typedef struct Ensured
{
	SfFileId	file;
	uint64		want_bytes;
} Ensured;

static void
ensure_step(void *arg)
{
	const Ensured *ensured = arg;

	ensure_file(ensured->file, ensured->want_bytes);
}

/*
 * Files grow from the first to the last, so those before one that is full are
 * full too and need no look.  That makes the redo of many growths of a long segment cheap:
 * it looks at the last files only.
 */
void
sf_io_files_ensure(SfStorage storage, uint64 to_bytes)
{
	SfFileId	file = sfi_io_file_at(storage, to_bytes == 0 ? 0 : to_bytes - 1);
	uint32		last = file.fileno;

	SF_ASSERT(to_bytes % SF_IO_ALIGN == 0);
	if (to_bytes > sfi_io_redo_owed_from(storage))
		return;
	while (file.fileno > 0 &&
		   sfi_io_file_size((SfFileId) {storage, file.fileno - 1}) < (int64) SF_FILE_SIZE)
		file.fileno--;
	for (; file.fileno <= last; file.fileno++)
	{
		Ensured		ensured = {file, sfi_io_end_in_file(file, to_bytes)};

		if (!sfi_io_redo_fits(storage, ensure_step, &ensured))
			return;
	}
}

/* Its record was written before the files were cut, so redo may find them cut, or not. */
void
sf_io_redo_truncate(SfStorage storage, uint64 size_bytes)
{
	(void) sfi_io_cut_files(storage, size_bytes, WARNING);
}

/*
 * Write bytes into one data file, through the page cache, durably.  A short write goes on
 * at any byte, since no block boundary matters here.
 */
static void
redo_write_file(SfFd *slot, uint64 file_offset, const char *data, uint32 len_bytes)
{
	uint32		repeats = 0;

	SF_ASSERT(file_offset + len_bytes <= SF_FILE_SIZE && !slot->want_direct);
	while (len_bytes > 0)
	{
		int32		result = SF_FAULT_BYTES(io_redo_write, len_bytes);

		sfi_io_begin_wait(SF_IO_WAIT_WRITE);
		if (result > 0)
			result = sfi_io_transfer(slot->fd, true, true, unconstify(char *, data),
									 result, file_offset);
		sfi_io_end_wait(SF_IO_WAIT_WRITE, 0);
		if (sfi_io_repeat(result, &repeats))
			continue;
		if (result <= 0)
			sfi_io_report_transfer(slot->id, true, true, file_offset, len_bytes, -result);
		file_offset += result;
		data += result;
		len_bytes -= result;
	}
}

/* What comes into one file (a step of sfi_io_redo_fits()). */
typedef struct Written
{
	SfFileId	file;
	uint64		offset;
	const char *data;
	uint32		len_bytes;
} Written;

/*
 * Not direct: records have any alignment, and redo is the only writer.  The
 * kernel keeps direct readers (hot standby) coherent with the page cache.
 */
static void
write_step(void *arg)
{
	const Written *written = arg;
	SfFileId	file = written->file;
	int64		have = sfi_io_file_size(file);
	SfFd	   *slot;

	SF_ASSERT(written->len_bytes > 0 && written->offset + written->len_bytes <= SF_FILE_SIZE);
	if ((int64) (written->offset + written->len_bytes) > have)
		sfi_io_redo_note_end(file);
	slot = sfi_io_fd_get(file, false, SF_FD_CREATE | SF_FD_MISSING_OK);

	/* the directory is gone: a record further on in WAL drops the segment */
	if (slot == NULL)
		return;
	redo_write_file(slot, written->offset, written->data, written->len_bytes);
	if (have < 0)
		sfi_io_sync_name(file);
}

/*
 * What is owed (redo_room.c) is passed over.  A part that does not fit is tried again without
 * that, once.
 */
void
sf_io_redo_write(SfStorage storage, uint64 segment_offset, const char *data, uint32 len_bytes)
{
	uint64		owed_from;

	SF_ASSERT(segment_offset % SF_SECTOR_SIZE == 0 && len_bytes % SF_SECTOR_SIZE == 0);
	while (len_bytes > 0 && segment_offset < (owed_from = sfi_io_redo_owed_from(storage)))
	{
		Written		written = {
			.file = sfi_io_file_at(storage, segment_offset),
			.offset = sfi_io_file_offset(segment_offset), .data = data
		};

		written.len_bytes = (uint32) Min(len_bytes, SF_FILE_SIZE - written.offset);
		written.len_bytes = (uint32) Min(written.len_bytes, owed_from - segment_offset);
		if (!sfi_io_redo_fits(storage, write_step, &written))
			continue;
		segment_offset += written.len_bytes;
		data += written.len_bytes;
		len_bytes -= written.len_bytes;
	}
}
