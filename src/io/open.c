/*-------------------------------------------------------------------------
 *
 * open.c
 *	  This process's open data files: a small cache of descriptors.
 *
 * Asynchronous I/O needs raw descriptors that stay open while a request is in
 * flight, which PostgreSQL's virtual ones do not promise; so we keep our own
 * few, announced with AcquireExternalFD, and close the least recently used
 * one that is not pinned by a request.
 *
 * Files are unlinked by other processes (drop; a tail cut off and grown
 * again), and a relfilenumber may come back.  A cached descriptor would then
 * lead into a file that no longer has a name, and a write to it be lost.  So
 * every hit is checked with statx(): a file without links is never used.
 *
 * A descriptor is pinned as long as a request uses it.  A file that was unlinked meanwhile
 * makes its descriptor stale: the request may finish, it harms nobody, but no new one
 * gets the descriptor, and the last unpin closes it.
 *
 *		 free --open--> in use --no links, no pins, or evicted--> free
 *						   |
 *						   +--no links, but pins--> stale --last unpin--> free
 *
 * The cache is small, so it is searched from its beginning each time: 32 comparisons are
 * nothing beside a transfer.  A process reads and writes a few files at a time; those of
 * a long value follow one another, 1 GB each.
 *
 * SfFiles, which the other rooms hold, is only a name: storage, and whether the page
 * cache is wanted.  So it stays good whatever happens to descriptors.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io_internal.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define FD_CACHE_SIZE		32

static SfFd cache[FD_CACHE_SIZE];
static bool cache_ready = false;

/* counts the uses; the smallest last_used is the least recent one */
static uint64 fd_clock = 0;

static HTAB *open_segments = NULL;

/* ---- segments ---- */

/*
 * The key is all there is in an entry: the pointer to it stands for the pair.  The table
 * never moves an entry, so the pointer stays good until sf_io_close().
 */
SfFiles *
sf_io_open(SfStorage storage, bool buffered)
{
	SfFiles		key;
	bool		found;

	SF_ASSERT(OidIsValid(SfStorageRel(storage)));
	if (open_segments == NULL)
		open_segments = sf_base_table("securefile open segments", sizeof(SfFiles), sizeof(SfFiles),
									  TopMemoryContext);
	key.storage = storage;
	key.buffered = buffered ? 1 : 0;
	return (SfFiles *) hash_search(open_segments, &key, HASH_ENTER, &found);
}

/* ---- descriptors ---- */

/*
 * A slot with a descriptor.  A stale one is kept only for the requests that pin it: the
 * last unpin closes it.
 */
static bool
fd_slot_is_valid(const SfFd *slot)
{
	return slot >= cache && slot < cache + FD_CACHE_SIZE && slot->fd >= 0 && slot->pins >= 0 &&
		(!slot->stale || slot->pins > 0) && (slot->want_direct || !slot->direct);
}

/* Never throws.  An error of close() tells nothing: durable writes have been flushed before. */
static void
close_slot(SfFd *slot)
{
	SF_ASSERT(slot->fd >= 0 && slot->pins == 0);
	(void) close(slot->fd);
	ReleaseExternalFD();
	slot->fd = -1;
	slot->stale = false;
}

void
sfi_io_fd_pin(SfFd *slot)
{
	SF_ASSERT(fd_slot_is_valid(slot) && !slot->stale);
	slot->pins++;
}

void
sfi_io_fd_unpin(SfFd *slot)
{
	SF_ASSERT(fd_slot_is_valid(slot) && slot->pins > 0);
	if (--slot->pins == 0 && slot->stale)
		close_slot(slot);
}

/* Whatever is in flight to the segment is waited for: a number may come back at once. */
void
sfi_io_fd_close_all(SfStorage storage)
{
	for (int i = 0; cache_ready && i < FD_CACHE_SIZE; i++)
	{
		SfFd	   *slot = &cache[i];

		if (slot->fd < 0 || !SfStorageEquals(slot->id.storage, storage))
			continue;
		SF_ASSERT(fd_slot_is_valid(slot));

		/*
		 * A request that is reaped may be another's; a stale one is closed by
		 * its last unpin.
		 */
		while (slot->fd >= 0 && slot->pins > 0)
			(void) sfi_io_reap_one();
		if (slot->fd >= 0)
			close_slot(slot);
	}
}

/* Descriptors first: a request in flight still has a pointer to the entry. */
void
sf_io_close(SfStorage storage)
{
	SfFiles		key;

	sfi_io_fd_close_all(storage);
	if (open_segments == NULL)
		return;
	key.storage = storage;
	for (key.buffered = 0; key.buffered <= 1; key.buffered++)
		(void) hash_search(open_segments, &key, HASH_REMOVE, NULL);
}

/* At the first use, for zero is a descriptor, too. */
static void
prepare_cache(void)
{
	/* children would inherit what the postmaster opens */
	SF_ASSERT(IsUnderPostmaster || !IsPostmasterEnvironment);

	if (cache_ready)
		return;
	for (int i = 0; i < FD_CACHE_SIZE; i++)
		cache[i].fd = -1;
	cache_ready = true;
}

/*
 * Does the file still have a name?  One that cannot be asked counts as without: opening it
 * again finds out.
 *
 * Not fstat(), which asks for the time of the last change, too: since 6.13 Linux then gives
 * the next write a finer time, later than that of any write before, and so each write to
 * any file a new time.  The inode of the current WAL file would be dirty at every flush.
 */
bool
sfi_io_is_linked(int fd)
{
#ifdef STATX_NLINK
	struct statx stx;

	return !SF_FAULT_FAILS(io_fstat) && statx(fd, "", AT_EMPTY_PATH, STATX_NLINK, &stx) == 0 &&
		stx.stx_nlink > 0;
#else
	struct stat st;

	return !SF_FAULT_FAILS(io_fstat) && fstat(fd, &st) == 0 && st.st_nlink > 0;
#endif
}

/*
 * The descriptor that is open for a file, or NULL.  One whose file was unlinked serves
 * nobody any more: it is closed, or, while requests pin it, marked stale.  A file has at
 * most one descriptor of a kind that is not stale, so the search ends here either way.
 */
static SfFd *
find_open_slot(SfFileId file, bool want_direct)
{
	for (int i = 0; i < FD_CACHE_SIZE; i++)
	{
		SfFd	   *slot = &cache[i];

		if (slot->fd < 0 || slot->stale || slot->want_direct != want_direct ||
			!sfi_io_same_file(slot->id, file))
			continue;
		if (sfi_io_is_linked(slot->fd))
			return slot;
		if (slot->pins == 0)
			close_slot(slot);
		else
			slot->stale = true;
		return NULL;
	}
	return NULL;
}

/*
 * Close the least recently used descriptor; false when all are pinned.  Stale ones are
 * pinned, too: they go by themselves.
 */
static bool
evict_slot(void)
{
	SfFd	   *victim = NULL;

	for (int i = 0; i < FD_CACHE_SIZE; i++)
	{
		SfFd	   *slot = &cache[i];

		if (slot->fd >= 0 && slot->pins == 0 &&
			(victim == NULL || slot->last_used < victim->last_used))
			victim = slot;
	}
	if (victim == NULL)
		return false;
	SF_ASSERT(fd_slot_is_valid(victim));
	close_slot(victim);
	return true;
}

/*
 * A slot without a descriptor.  When all are pinned, a request has to finish first.  That
 * ends: what is pinned is in flight, and reaping brings at least one down each time.
 */
static SfFd *
free_slot(void)
{
	for (;;)
	{
		for (int i = 0; i < FD_CACHE_SIZE; i++)
		{
			if (cache[i].fd < 0)
				return &cache[i];
		}
		if (!evict_slot())
			(void) sfi_io_reap_one();
	}
}

/*
 * Count one more descriptor.  The server allows a process only so many that are not its
 * own; if there are too many, one of this cache is given up, and if all of these are
 * pinned, a request is waited for.
 */
static void
acquire_fd(void)
{
	while (!AcquireExternalFD())
	{
		if (!evict_slot() && !sfi_io_reap_one())
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
					 errmsg("too many open files"),
					 errhint("Raise the server's max_files_per_process setting.")));
	}
}

/*
 * Is a block of 4 KB good enough for direct I/O to this file?  A device may want more:
 * then every transfer would fail with EINVAL.  Kernels that do not tell (before 6.1) get
 * the benefit of the doubt.  An offset alignment of 0 means that there is no direct I/O.
 */
static bool
alignment_suits(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (!SF_FAULT_FAILS(io_stat) && statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
		(stx.stx_mask & STATX_DIOALIGN) != 0)
		return stx.stx_dio_offset_align > 0 &&
			stx.stx_dio_offset_align <= SF_IO_ALIGN &&
			stx.stx_dio_mem_align <= SF_IO_ALIGN;
#endif
	return true;
}

/*
 * Open for direct I/O; -1 and EINVAL when the file system refuses: that is the errno that
 * open() itself has for it, so the caller need not tell the two reasons apart.
 */
static int
open_direct(const char *path, int flags)
{
	int			fd;

	if (SF_FAULT_FAILS(io_direct))
	{
		errno = EINVAL;
		return -1;
	}
	fd = BasicOpenFile(path, flags | O_DIRECT);
	if (fd >= 0 && !alignment_suits(fd))
	{
		(void) close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

/*
 * Open a data file, through the page cache where direct I/O is refused.
 * Durability does not depend on it: writes and sync say what they need.  The choice is
 * made for each file anew, since tablespaces may lie on different file systems.
 */
static int
open_file(const char *path, int flags, bool want_direct, bool *direct)
{
	*direct = false;
	if (SF_FAULT_FAILS(io_open))
		return -1;
	if (want_direct)
	{
		int			fd = open_direct(path, flags);

		if (fd >= 0 || errno != EINVAL)
		{
			*direct = (fd >= 0);
			return fd;
		}
		if (sfi_io_first_notice(SF_IO_NOTICE_DIRECT))
			ereport(LOG_SERVER_ONLY,
					(errmsg("file system of \"%s\" does not support direct I/O", path),
					 errdetail("Data files are read and written through the page cache.")));
	}
	return BasicOpenFile(path, flags);
}

/*
 * A FIFO or a device in the place of a data file would take transfers that never
 * end, and a wait for those cannot be interrupted.  Opening a FIFO for reading and
 * writing does not wait.  Returns the inode.
 */
static uint64
require_regular(int fd, const char *path)
{
	struct stat st;
	bool		known = !SF_FAULT_FAILS(io_fstat) && fstat(fd, &st) == 0;
	int			error = errno;

	if (known && S_ISREG(st.st_mode))
		return st.st_ino;
	(void) close(fd);
	ReleaseExternalFD();
	errno = error;
	if (!known)
		sf_io_report_path(ERROR, "stat segment data file", path);
	sfi_io_report_irregular(path);
}

/*
 * Open a data file into a free slot.  NULL if missing and that is fine.  The slot is
 * filled at the end: whatever throws before leaves it free, and the count of external
 * descriptors as it was.
 */
static SfFd *
open_slot(SfFileId file, bool want_direct, int flags)
{
	char		path[SF_IO_PATH_MAX];
	SfFd	   *slot = free_slot();
	int			open_flags = O_RDWR | O_CLOEXEC | PG_BINARY;
	int			fd;

	if (flags & SF_FD_CREATE)
	{
		sfi_io_make_file_entry(file);
		open_flags |= O_CREAT;
	}
	sfi_io_file_path(path, file);
	acquire_fd();
	fd = open_file(path, open_flags, want_direct, &slot->direct);
	if (fd < 0)
	{
		int			save_errno = errno;

		ReleaseExternalFD();
		errno = save_errno;
		if (errno == ENOENT && (flags & SF_FD_MISSING_OK))
			return NULL;
		ereport(ERROR,
				(sfi_io_errcode(save_errno),
				 errmsg("could not open segment data file \"%s\": %m", path)));
	}
	slot->inode = require_regular(fd, path);
	SF_ASSERT(slot->fd < 0 && (want_direct || !slot->direct));
	slot->id = file;
	slot->want_direct = want_direct;
	slot->stale = false;
	slot->pins = 0;
	/* from here on the slot is in use */
	slot->fd = fd;
	SF_ASSERT(fd_slot_is_valid(slot));
	return slot;
}

/*
 * The key has what was asked for, not what the file system gave: else a file without
 * direct I/O would be opened again each time it is asked for.
 */
SfFd *
sfi_io_fd_get(SfFileId file, bool want_direct, int flags)
{
	SfFd	   *slot;

	prepare_cache();
	slot = find_open_slot(file, want_direct);
	if (slot == NULL)
		slot = open_slot(file, want_direct, flags);
	SF_ASSERT(slot != NULL || (flags & SF_FD_MISSING_OK));
	if (slot == NULL)
		return NULL;
	SF_ASSERT(fd_slot_is_valid(slot) && !slot->stale);
	SF_ASSERT(sfi_io_same_file(slot->id, file) && slot->want_direct == want_direct);
	slot->last_used = ++fd_clock;
	return slot;
}

/* ---- durability ---- */

/*
 * fsync() for a new file, whose size has to be durable too; else fdatasync(), which
 * saves the write of the inode's times.  A failure is final: the kernel may have thrown
 * the pages away, so a second flush that succeeds would prove nothing.
 */
void
sfi_io_flush(int fd, SfFileId file, bool is_new, int elevel)
{
	int			rc = -1;

	SF_ASSERT(fd >= 0);
	if (!SF_FAULT_FAILS(io_sync))
	{
		int			watched = sfi_watch_count(file, SF_IO_FLUSH, 0);
		uint64		began_us = sf_base_now_us();

		sfi_io_begin_wait(SF_IO_WAIT_SYNC);
		rc = is_new ? pg_fsync(fd) : pg_fdatasync(fd);
		sfi_io_end_wait(SF_IO_WAIT_SYNC, sf_base_now_us() - began_us);
		sfi_watch_took(watched, SF_IO_FLUSH, began_us);
	}
	if (rc != 0)
	{
		char		path[SF_IO_PATH_MAX];
		int			save_errno = errno;

		sfi_io_file_path(path, file);
		errno = save_errno;
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not fsync segment data file \"%s\": %m", path)));
	}
}

void
sfi_io_fd_sync(SfFd *slot, bool is_new)
{
	SF_ASSERT(fd_slot_is_valid(slot) && !slot->stale);
	sfi_io_flush(slot->fd, slot->id, is_new, data_sync_elevel(ERROR));
}

/* Its result tells nothing that the flush does not tell, too. */
void
sfi_io_start_flush(int fd)
{
	SF_ASSERT(fd >= 0);
	if (enableFsync)
		(void) sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* A range may lie in several files, each of which has its own flush. */
void
sf_io_sync(SfStorage storage, uint64 segment_offset, uint64 len_bytes)
{
	const uint64 end = segment_offset + len_bytes;

	SF_ASSERT(end >= segment_offset);
	for (SfFileId file = sfi_io_file_at(storage, segment_offset);
		 len_bytes > 0 && file.fileno * SF_FILE_SIZE < end; file.fileno++)
		sfi_io_fd_sync(sfi_io_fd_get(file, sf_direct_io, 0), false);
}
