/*-------------------------------------------------------------------------
 *
 * io_internal.h
 *	  What the files of this room share: paths, descriptors, wait events.
 *
 * Functions that make a path fill the caller's buffer, allocate nothing and never throw,
 * so they serve after a commit and in error messages, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IO_INTERNAL_H
#define SF_IO_INTERNAL_H

#include <sys/stat.h>

#include "common/hashfn.h"
#include "config/config.h"
#include "format/segment_pages.h"
#include "io/io.h"

/* ---- data files, as keys ---- */

/* The data file that holds an offset, and the offset within it; the file of a request. */
#define sfi_io_file_at(storage, segment_offset) \
	((SfFileId) {(storage), (uint32) ((segment_offset) / SF_FILE_SIZE)})
#define sfi_io_file_offset(segment_offset)	((segment_offset) % SF_FILE_SIZE)
#define sfi_io_file_of(io)	sfi_io_file_at((io)->files->storage, (io)->segment_offset)

#define sfi_io_same_file(a, b) \
	((a).fileno == (b).fileno && SfStorageEquals((a).storage, (b).storage))

/* All of its bytes: no field needs padding. */
static inline uint32
sfi_io_file_hash(SfFileId file)
{
	return hash_bytes((const unsigned char *) &file, sizeof(file));
}

/* ---- paths (paths.c); buf has SF_IO_PATH_MAX ---- */

#define SF_IO_ROOT			"pg_securefile"
#define SF_IO_TABLESPACES	"pg_tblspc"

/* three OIDs, the names between them, a file name: at most 110 */
#define SF_IO_PATH_MAX		128
#define SF_IO_NAME_MAX		32

/* Directory whose entries are the databases with files in a tablespace. */
extern void sfi_io_space_path(char *buf, Oid spc);

/* Directory whose entries are the segments of a database in a tablespace. */
extern void sfi_io_database_path(char *buf, Oid spc, Oid db);

/*
 * Directory of a segment, and the path of a data file.  entry: what stands for the file in
 * that directory, as sfi_io_entry_path() has it.
 */
extern void sfi_io_dir_path(char *buf, SfStorage storage);
extern void sfi_io_file_path(char *buf, SfFileId file);
extern void sfi_io_file_entry(char *buf, SfFileId file);

/*
 * What stands for a name in a segment's directory: the file itself, or where
 * files have directories of their own, that.
 */
extern bool sfi_io_has_entry_directories(SfStorage storage);
extern void sfi_io_entry_path(char *buf, SfStorage storage, const char *name);

/*
 * stat(), rmdir(), mkdir() with the modes of initdb, each behind its fault point.  look
 * returns whether there is something; the others return 0, or -1.  Errors are in errno.
 * Never throw.
 */
extern bool sfi_io_look(const char *path, struct stat *st);
extern int	sfi_io_remove_if_empty(const char *path);
extern int	sfi_io_try_mkdir(const char *path);

/* Make one directory, which may be there already.  ERROR on failure. */
extern void sfi_io_make_one_directory(const char *path);

/*
 * Unlink a file; true: there is none of that name now.  Failures are reported at elevel.  Never
 * throws with an elevel below ERROR.
 */
extern bool sfi_io_unlink(const char *path, int elevel);

/* As look; but what is not "missing" is reported at elevel, and false then. */
extern bool sfi_io_find(const char *path, int elevel, struct stat *st);

/* ERROR WRONG_OBJECT_TYPE: what is there is no regular file. */
SF_NORETURN extern void sfi_io_report_irregular(const char *path);

/*
 * Before a data file is made: its directory, if it has one.  Leaves it to the
 * caller to find out that the segment's directory is missing.  ERROR when it cannot be
 * made for any other reason.
 */
extern void sfi_io_make_file_entry(SfFileId file);

/*
 * Remove an empty directory and make that durable; WARNINGs only, and none when
 * it is not empty but may be so.  Returns whether it is gone now.  Never throws.
 */
extern bool sfi_io_remove_directory(const char *path, bool may_be_used);

/* Make the entries of a directory durable; false, and errno, when that fails.  Never throws. */
extern bool sfi_io_sync_directory(const char *path);

/*
 * Make the name of a data file durable, and that of the directory it may have of its
 * own.  Fails as sf_io_require_directory_synced() does.
 */
extern void sfi_io_sync_name(SfFileId file);

/*
 * The scratch file of a process in a tablespace (calibrate.c): storage that belongs to no
 * database, with the process in the place of the relation.  It lies in a directory of
 * temporary files, and has the name of one: no backup, and no pg_rewind, copies those.
 */
#define sfi_io_is_scratch(storage)	(!OidIsValid(SfStorageDb(storage)))
extern void sfi_io_scratch_directory(char *buf, Oid spc);

/* What the names of such files begin with. */
#define SF_IO_SCRATCH		"pgsql_tmp_securefile_"

/* End of the part of [.., to_bytes) that lies in a data file, in that file. */
#define sfi_io_end_in_file(file, to_bytes) \
	Min((to_bytes) - (file).fileno * SF_FILE_SIZE, SF_FILE_SIZE)

/* lstat() of a data file; false: there is none.  ERROR when that cannot be told. */
extern bool sfi_io_look_at_file(SfFileId file, struct stat *st);

/* Size of a data file in bytes; -1 when it is missing.  ERROR when that cannot be told. */
extern int64 sfi_io_file_size(SfFileId file);

/*
 * A file that holds one number.  read: false when it is missing.  Other failures
 * are reported at elevel, and false then.  write: durable when it returns, without
 * leaving a moment in which the file has neither the old nor the new number.  path
 * lies in SF_IO_ROOT.  Never throw with an elevel below ERROR.
 */
extern bool sfi_io_number_read(const char *path, uint64 *number, int elevel);
extern void sfi_io_number_write(const char *path, uint64 number, int elevel);

/* What the name of such a file has in it while it is being written. */
#define SF_IO_NEW_NUMBER	".new."

/*
 * Remove those that a crash has left, and scratch files.  Only at start, in the postmaster:
 * no other process may be writing one.  Failures of the file system are WARNINGs.
 */
extern void sfi_io_clean_leftovers(void);

/* All files of a database are gone; failures are WARNINGs.  SF_IO_ROOT exists. */
extern void sfi_io_database_forget_own(Oid db);

/*
 * Make the directory of all data files, or that of a segment with those above it, and
 * all these names durable.  One that is there is fine.  ERROR on failure.
 */
extern void sfi_io_make_root(void);
extern void sfi_io_make_directory(SfStorage storage);

/*
 * Cut a segment's files to size_bytes, highest first.  Not durable.  Reports
 * failures at elevel; false if there were any.  Closes this process's descriptors of the
 * segment.  The caller sees to it that nobody writes behind the cut.  Never throws with
 * an elevel of WARNING.
 */
extern bool sfi_io_cut_files(SfStorage storage, uint64 size_bytes, int elevel);

/*
 * Redo on a full disk (redo_room.c).  fits: run a step that may make files of a segment longer;
 * false: the disk is full, and the files are as they were when redo began.
 */
extern void sfi_io_redo_note_end(SfFileId file);
extern bool sfi_io_redo_fits(SfStorage storage, void (*step) (void *arg), void *arg);
extern uint64 sfi_io_redo_owed_from(SfStorage storage);

/* ---- all there are (scan.c) ---- */

/* OIDs of the tablespaces that may have data files.  Failures are reported at elevel. */
extern List *sfi_io_list_spaces(int elevel);

/* ---- descriptors (open.c) ---- */

struct SfFiles
{
	/* hash key; no padding inside, SfStorage is three OIDs */
	SfStorage	storage;
	uint32		buffered;		/* 0 or 1 */
};

/* One open data file. */
typedef struct SfFd
{
	SfFileId	id;
	bool		want_direct;	/* what was asked for: part of the key */
	bool		direct;			/* what the file system gave */
	uint64		inode;
	bool		stale;			/* file was unlinked: serves nobody any more */
	int			fd;				/* -1: slot is free */
	int			pins;			/* requests in flight */
	uint64		last_used;
} SfFd;

#define SF_FD_CREATE		0x01	/* make the file if it is missing */
#define SF_FD_MISSING_OK	0x02	/* NULL instead of ERROR on ENOENT */

/*
 * Descriptor of a data file, from the cache or fresh.  Stays open while
 * pinned, and until the next call of this function at least.  flags: SF_FD_..  May
 * wait for a request of this process when all descriptors are pinned.  ERROR when the
 * file cannot be opened or is no regular file; NULL only with SF_FD_MISSING_OK.
 */
extern SfFd *sfi_io_fd_get(SfFileId file, bool want_direct, int flags);

/* Keep a descriptor open for one request more, or less.  Never throw. */
extern void sfi_io_fd_pin(SfFd *slot);
extern void sfi_io_fd_unpin(SfFd *slot);

/* Has an open file still a name?  Asks the system, cheaply.  Never throws. */
extern bool sfi_io_is_linked(int fd);

/* Close all descriptors of a segment, waiting for their I/O.  Never throws. */
extern void sfi_io_fd_close_all(SfStorage storage);

/*
 * fdatasync (or fsync, for a new file) a descriptor.  A failure is PANIC, or ERROR where
 * data_sync_retry is on; of the second form: elevel.  start: let the system begin with
 * that, without waiting for anything.
 */
extern void sfi_io_fd_sync(SfFd *slot, bool is_new);
extern void sfi_io_flush(int fd, SfFileId file, bool is_new, int elevel);
extern void sfi_io_start_flush(int fd);

/* ---- files that the syncer flushes (dirty.c) ---- */

/*
 * Before files of a segment are unlinked, from this one on, or when those of a database go:
 * they are the syncer's no more.  Never throw.
 */
extern void sfi_dirty_forget(SfStorage storage, uint32 from_fileno);
extern void sfi_dirty_forget_database(Oid db);

/* ---- direct and cached writes side by side (parts.c) ---- */

/*
 * A write begins: true if it may go that way now, and then leave is called when it is
 * over.  While there are direct writes to a part of a file, none to the same part may go
 * through the page cache, and the other way round.  Never throw.
 */
extern bool sfi_parts_enter(const SfIo *io, bool direct);
extern void sfi_parts_leave(const SfIo *io, bool direct);

/* ---- watching (watch.c) ---- */

/*
 * An operation is to come: which file of this process's that is; -1: it is not watched.
 * The first call of a process registers an exit callback, and throws when there is no room
 * for that.
 */
extern int	sfi_watch_count(SfFileId id, SfIoKind kind, uint64 bytes);

/*
 * Between the two the request counts as in flight.  took: a flush has ended.  Never throw.
 */
extern void sfi_watch_begin(SfIo *io);
extern void sfi_watch_end(SfIo *io);
extern void sfi_watch_took(int watched, SfIoKind kind, uint64 began_us);

/* ---- buffers (buffer.c) ---- */

/*
 * Give the memory of all buffers back to the system; they stay where they are, and
 * what they held is gone.  Nothing is in flight.  Never throws.
 */
extern void sfi_io_buffers_release(void);

/* ---- dispatch (io.c) ---- */

/*
 * Is a call that ended with this (-errno) to be made again?  Not for ever: counts
 * in *repeats, which begins as 0.  Waits a little where that is needed, and may be
 * interrupted.
 */
extern bool sfi_io_repeat(int32 result, uint32 *repeats);

/*
 * Make the method that is set the one in use; its name.  NULL: the kernel refuses it, or
 * something is in flight by another one.
 */
extern const char *sfi_io_use_method(void);

/*
 * Wait until at least one request of this process has finished, whichever; false if none
 * is in flight.  Cannot be interrupted.  Never throws.
 */
extern bool sfi_io_reap_one(void);

/* Wait events. */
typedef enum SfIoWait
{
	SF_IO_WAIT_READ,
	SF_IO_WAIT_WRITE,
	SF_IO_WAIT_SYNC,
	SF_IO_WAIT_EXTEND,
} SfIoWait;

#define SF_IO_WAITS			4

/*
 * Around each wait: it is shown as such, and its time, in microseconds, is charged to the running
 * statement.  That is the time of the whole wait, or 0 if track_io_timing is off.  Never throw,
 * but for the first call with that wait, where names can be registered.
 */
extern void sfi_io_begin_wait(SfIoWait which);
extern void sfi_io_end_wait(SfIoWait which, uint64 us);

/* charge.c: add to the time that the running statement has waited.  Never throws. */
extern void sfi_io_charge_time(SfIoWait which, uint64 us);

/* Does that errno mean that there is no space, or no more for us? */
#define sfi_io_is_full(error)	((error) == ENOSPC || (error) == EDQUOT)

/* Is a file not allowed to become that long (ulimit -f)? */
#define sfi_io_is_limited(error)	((error) == EFBIG)

/* A socket, or a symbolic link that leads to itself, in the place of a file. */
#define sfi_io_is_irregular(error)	((error) == ENXIO || (error) == ELOOP)

/* For ereport(), of an errno kept from before: SQLSTATE, and a hint where that is it. */
#define sfi_io_errcode(error) \
	(sfi_io_is_full(error) ? errcode(ERRCODE_DISK_FULL) : \
	 sfi_io_is_limited(error) ? errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED) : \
	 sfi_io_is_irregular(error) ? errcode(ERRCODE_WRONG_OBJECT_TYPE) : errcode_for_file_access())
#define sfi_io_errhint(error) \
	(sfi_io_is_full(error) ? errhint("Check free disk space.") : \
	 sfi_io_is_limited(error) ? \
	 errhint("Start the server without a limit of the size of files (ulimit -f): data files have up to 1 GB.") : 0)

/*
 * Report a transfer of a data file that failed for good.  A durable write that failed with EIO
 * leaves the disk's contents unknown, as any fsync: PANIC, or ERROR where data_sync_retry is
 * on.  error 0: a write that stops for no reason given, which is taken for a full disk.
 */
SF_NORETURN extern void sfi_io_report_transfer(SfFileId file, bool is_write, bool durable,
											   uint64 file_offset, uint32 len_bytes, int error);

/* Things that are reported once in the life of a server, not per process. */
#define SF_IO_NOTICE_DIRECT	0	/* the file system refuses direct I/O */
#define SF_IO_NOTICE_METHOD	1	/* + method: the kernel refuses it */
#define SF_IO_NOTICES		(1 + SF_IO_METHODS)

/*
 * true for the first process that asks since the server's start, and once only.  which:
 * SF_IO_NOTICE_..
 */
extern bool sfi_io_first_notice(int which);

#endif							/* SF_IO_INTERNAL_H */
