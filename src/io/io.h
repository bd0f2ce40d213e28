/*-------------------------------------------------------------------------
 *
 * io.h
 *	  Moving blocks between memory and data files: direct, asynchronous,
 *	  checked; and the one owner of the durability of data files.
 *
 * A segment's data is a sequence of files of 1 GB,
 *	  pg_securefile/<tablespace>/<database>/<relfilenumber>/seg-00000000.sf
 * (elsewhere in tablespaces: paths.c), addressed by segment_offset, in bytes.
 *
 * Three methods behind one table (methods.h): sync (pread/pwrite, the
 * reference), libaio, io_uring.  Requests live in static memory of this room,
 * and buffers in memory that is never given back, so that an ERROR between
 * start and wait leaves nothing dangling: sf_io_reap_all() at transaction end
 * waits for whatever is still in flight.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IO_H
#define SF_IO_H

#include "base/base.h"
#include "base/shared.h"

/* ---- buffers ---- */

#define SF_IO_ALIGN		4096

/*
 * Memory for direct I/O, aligned to 4 KB (2 MB from 2 MB on), advised to huge
 * pages from 128 KB on; lives until the process ends, but what it holds only to
 * the end of the transaction.  size: bytes, more than 0, rounded up to 4 KB.
 * ERROR when out of memory.  Nobody frees it: callers ask once and keep the pointer.
 */
extern char *sf_io_buffer_alloc(Size size);

/* ---- memory that is kept between transactions ---- */

/* From so many bytes on a value's memory is worth keeping. */
#define SF_IO_LARGE			(64 * 1024)

/*
 * This transaction moves large values: what the process keeps of memory is
 * counted at its end.  Cheap; nothing happens without preload.  The first call of a
 * process registers an exit callback, and throws when there is no room for that.
 */
extern void sf_io_use_memory(void);

/*
 * At the end of each transaction, when nothing is in flight any more: count what
 * is kept, or give it back.  Never throws.  After sf_io_reap_all(): buffers that are
 * given back must have no I/O in flight.
 */
extern void sf_io_memory_at_end(void);

typedef struct SfKeptMemory
{
	uint64		total_bytes;	/* of all processes */
	uint64		own_bytes;		/* of this one */
	uint32		processes;		/* how many keep any */
} SfKeptMemory;

/* All zero without preload.  The numbers are read without a lock.  Never throws. */
extern SfKeptMemory sf_io_kept_memory(void);

/* Shared memory of the room. */
extern const SfSharedArea sf_io_cuts_area;
extern const SfSharedArea sf_io_dirty_area;
extern const SfSharedArea sf_io_parts_area;
extern const SfSharedArea sf_io_watch_area;
extern const SfSharedArea sf_io_memory_area;
extern const SfSharedArea sf_io_notices_area;

/* Called by _PG_init(): have the postmaster start the syncer. */
extern void sf_io_register_syncer(void);

/* ---- data files: which one ---- */

/*
 * One data file: of which segment, and which gigabyte of it.  This is the key by which the
 * room knows a file: its descriptors, its path, what is counted, noted and written of it.
 * One function says which file holds an offset, one compares two files, and one hashes
 * them (io_internal.h).  So where the same bytes lie in several files some day, the number
 * of the copy is one field more here, and no function that takes a file changes.
 */
typedef struct SfFileId
{
	SfStorage	storage;		/* without a database: a scratch file */
	uint32		fileno;			/* from 0 on */
} SfFileId;

/* ---- data files: life ---- */

/*
 * Before storage is made that has no files yet: remove a directory that a crash
 * has left under its number, durably.  ERROR on failure.  The caller has chosen the
 * number, and nobody else knows it yet.
 */
extern void sf_io_files_clear(SfStorage storage);

/*
 * Make the directory of a segment and its first, empty file, durably.  A
 * directory left over from a crash is removed first.  ERROR on failure; what
 * was made goes with the storage, whose removal the caller has noted.
 * Redo uses sf_io_files_ensure() instead, which leaves contents alone.
 */
extern void sf_io_files_create(SfStorage storage);

/*
 * Make one more data file, empty, durably: the one after the last.  The segment has its
 * directory.  ERROR on failure.
 */
extern void sf_io_files_add(SfFileId file);

/*
 * Remove all data files of a segment and its directory: shorten to 0, unlink.
 * Missing ones are fine.  Failures are WARNINGs.  Never throws: called after
 * commit and in redo.  unlink makes that durable; for many segments, remove them
 * all and then make it durable once for each tablespace and database.
 */
extern void sf_io_files_unlink(SfStorage storage);
extern void sf_io_files_remove(SfStorage storage);
extern void sf_io_sync_removed(Oid spc, Oid db);

/*
 * Report that something could not be done to a path: could not <what> "<path>": <errno>.
 * errno is that of the failed call.  Returns if elevel is below ERROR.
 */
extern void sf_io_report_path(int elevel, const char *what, const char *path);

/*
 * Size of a file in bytes; -1 when it is missing.  Other failures are reported at
 * elevel, and -1 then.
 */
extern int64 sf_io_path_size(const char *path, int elevel);

/*
 * fsync a directory.  A failure is what data_sync_elevel(ERROR) says, as for the server's
 * own: PANIC unless data_sync_retry is on.
 */
extern void sf_io_require_directory_synced(const char *path);

/*
 * Path of the pages of the segment relation that are put beside the data files
 * for pg_upgrade; extent: which gigabyte of them.  buf: MAXPGPATH bytes.  Never throws.
 */
extern void sf_io_pages_path(char *buf, SfStorage storage, uint32 extent);

/* Make the directories that such a file needs, durably.  ERROR on failure. */
extern void sf_io_pages_make_entry(SfStorage storage, uint32 extent);

/* Remove them, if they are there.  Failures are WARNINGs.  Never throws. */
extern void sf_io_pages_remove(SfStorage storage);

/* ERROR UNDEFINED_FILE unless the data files are there up to to_bytes, each of them whole. */
extern void sf_io_files_require(SfStorage storage, uint64 to_bytes);

/*
 * Path of a file that lies beside the data files; buf: MAXPGPATH bytes.  Before
 * it is made sf_io_make_entry() makes the directories it needs, durably; ERROR on failure.
 * name: less than 32 characters, without a slash.
 */
extern void sf_io_named_path(char *buf, SfStorage storage, const char *name);
extern void sf_io_make_entry(SfStorage storage, const char *name);

/*
 * Has a segment a directory?  It gets one with its first data, and keeps it.  If
 * that cannot be told, it is reported at elevel, and true.  Never throws with an elevel
 * below ERROR.
 */
extern bool sf_io_files_may_exist(SfStorage storage, int elevel);

/*
 * Sum of the sizes of the data files, in bytes, from the file system.  Without a lock on
 * growth it may be a moment old.  ERROR when a file cannot be looked at.
 */
extern uint64 sf_io_files_size(SfStorage storage);

/*
 * What the data files take of the file system: less than their size where they have holes, or
 * where the file system compresses.  ERROR as sf_io_files_size().
 */
extern uint64 sf_io_files_disk_bytes(SfStorage storage);

/*
 * ---- holes (holes.c): free space that goes back to the file system where it lies ----
 *
 * No range crosses a data file.  FEATURE_NOT_SUPPORTED where the file system cannot do that.
 *
 * may_have_holes: does the file there take less than its length?  A look.
 * promise: have the file system keep room for a range, durably; false: its disk is full.  It does
 * nothing where that does not tell where room is.
 * has_room: does some of a range take room?  True where the file system does not tell.
 * room_bytes: how much room a range takes; 0 where nothing can be given back, or no file is.
 * require_promises, has_promises: an ERROR, or false, if there are none; of a range that has room.
 * punch: give the room of a range back; nothing may be written there meanwhile.  In replay it does
 * nothing where there is no file, or no way to do it.
 * punches: how many holes that makes; writers of the file wait for each.  Never throws.
 */
extern bool sf_io_may_have_holes(SfStorage storage, uint64 segment_offset);
extern bool sf_io_promise(SfStorage storage, uint64 segment_offset, uint64 len_bytes);
extern bool sf_io_has_room(SfStorage storage, uint64 segment_offset, uint64 len_bytes);
extern uint64 sf_io_room_bytes(SfStorage storage, uint64 segment_offset, uint64 len_bytes);
extern bool sf_io_has_promises(SfStorage storage, uint64 segment_offset, uint64 len_bytes);
extern void sf_io_require_promises(SfStorage storage, uint64 segment_offset, uint64 len_bytes);
extern void sf_io_punch(SfStorage storage, uint64 segment_offset, uint64 len_bytes);
extern uint32 sf_io_punches(uint64 segment_offset, uint64 len_bytes);

/*
 * Make files reach from_bytes .. to_bytes with zeros, which are durable when this returns:
 * written, or only promised by the file system, where it does that, so that the first
 * write to each block costs more, and growth next to nothing.  ENOSPC is met here:
 * ERRCODE_DISK_FULL, and what had been added is cut off again.  Synchronous.
 * From 0 on it makes the directory and the first file.  The caller holds the
 * segment's growth lock.  Both ends are multiples of 4096, from_bytes is the present
 * end of the files, or lower where a crash has left them longer.  Not for critical
 * sections; can be cancelled between two chunks of 1 MB that are written.
 */
extern void sf_io_files_grow(SfStorage storage, uint64 from_bytes, uint64 to_bytes,
							 bool written);

/*
 * Redo of growth: make sure the files reach to_bytes; existing bytes are left
 * alone, missing ones become zeros, durably.  Creates the directory and the
 * first file if need be.  Also used where only a part of a file is to be filled up; the
 * caller holds the growth lock then.  to_bytes: a multiple of 4096.  ERROR on failure.
 */
extern void sf_io_files_ensure(SfStorage storage, uint64 to_bytes);

/*
 * A number that is new with every start from a backup or as a standby, for then
 * data that is not in WAL may have stayed behind; 0 before the first.
 * note_restored, in the postmaster at start, looks and chooses; its failures are FATAL.
 * restore_id is what the postmaster has left to its children.  Never throws.
 */
extern void sf_io_note_restored(void);
extern uint64 sf_io_restore_id(void);

/*
 * A number that is greater after any segment was cut than before its files got shorter: a
 * process that remembers the end of a segment looks again then.  Never throws.
 */
extern uint64 sf_io_cuts(void);

/*
 * Redo: cut what lies beyond size_bytes, if the files exist.  Failures are
 * WARNINGs: a file that is longer than it should be does no harm.  Never throws.
 */
extern void sf_io_redo_truncate(SfStorage storage, uint64 size_bytes);

/*
 * Redo on a full disk passes over growths and values behind the end of files (redo_room.c).
 * A record says that the segment ends at size_bytes, or is gone, or its database is: so
 * nothing is needed there.  require_settled, at the end of WAL: FATAL if something is.
 */
extern void sf_io_redo_settle_cut(SfStorage storage, uint64 size_bytes);
extern void sf_io_redo_settle_removed(SfStorage storage);
extern void sf_io_redo_settle_database(Oid db);
extern void sf_io_redo_require_settled(void);

/*
 * Cut the files to size_bytes, a multiple of 4096, unlinking whole ones beyond it,
 * durably.  The caller holds the growth lock.  The header page, and its WAL record, which
 * has been flushed, count no more than that.  ERROR on failure: the files are longer
 * then, which does no harm.  Not in recovery.
 */
extern void sf_io_files_truncate(SfStorage storage, uint64 size_bytes);

/*
 * Remove the files of a database in all tablespaces.  Failures of the file system are
 * WARNINGs, and what is left is found by the next sweep.  No session can be
 * connected to that database.
 */
extern void sf_io_database_unlink(Oid db);

/*
 * Does this cluster's catalog know all segments of a database, so that other
 * data files of it may go?  set_own: from now on it does (after the commit that
 * made it true).  is_own: no, if it cannot be told at all, which is reported at
 * elevel.
 */
extern bool sf_io_database_is_own(Oid db, int elevel);

/*
 * When a segment is made: its database's data files are this cluster's, or
 * become so if there are none.  ERROR else; in recovery they stay what they are.
 */
extern void sf_io_database_claim(Oid db);
extern void sf_io_database_set_own(Oid db, int elevel);

/*
 * Has this database data files in any tablespace?  If it cannot be told, that is
 * reported at elevel, and true.
 */
extern bool sf_io_database_has_files(Oid db, int elevel);

/*
 * Call fn(storage, arg) for each segment directory; db InvalidOid means all
 * databases.  fn may throw, and may remove the directory.
 *
 * Of one database, a directory that this process may not look into is passed over
 * with a WARNING: it is probably that of a dropped segment, and must not keep the
 * others from being maintained.  Of all, it is shown: the preparation of an upgrade
 * has to fail there.
 */
typedef void (*SfIoScanFn) (SfStorage storage, void *arg);
extern void sf_io_scan(Oid db, SfIoScanFn fn, void *arg);

/*
 * Is an open directory one of those that have files of the server (data files of whatever kind,
 * WAL, states of transactions), or below one?  PGDATA itself is none.  ERROR when that cannot be
 * found out.
 */
extern bool sf_io_is_inside(int directory);

/* Path pattern of the data files ("seg-*.sf"), relative to PGDATA, palloc'd. */
extern char *sf_io_files_pattern(SfStorage storage);

/* ---- open files ---- */

/*
 * This process's open files of a segment, made on first use.  A small cache;
 * the pointer is valid until sf_io_close() of the storage.
 */
typedef struct SfFiles SfFiles;

/*
 * buffered: go through the page cache (cache modes) rather than direct.  The
 * two are separate descriptors of the same files.  Opens nothing yet: a file that is
 * missing is noticed by the first request.  ERROR when out of memory.
 */
extern SfFiles *sf_io_open(SfStorage storage, bool buffered);

/*
 * Close what this process has open of a segment (both kinds), if anything,
 * after waiting for I/O in flight to it.  Never throws.
 */
extern void sf_io_close(SfStorage storage);

/* ---- moving blocks ---- */

/*
 * One request.  The caller owns the memory and must keep it (static, or
 * TopMemoryContext) until sf_io_wait() or sf_io_reap_all().  buf,
 * segment_offset and len_bytes are multiples of 4096; no request crosses a
 * data file's end (a multiple of 1 GB).
 */
typedef struct SfIo
{
	/* set by the caller */
	SfFiles    *files;
	uint64		segment_offset;
	char	   *buf;
	uint32		len_bytes;
	bool		is_write;
	bool		durable;		/* write: with RWF_DSYNC; a fault may take it
								 * away */
	bool		charged;		/* its bytes were charged to a statement when
								 * they were gathered */

	/* owned by this room; zero before the first use */
	bool		in_flight;
	bool		cached;			/* write: some of it went through the page
								 * cache */
	bool		counted;		/* write: in the parts of the file (parts.c) */
	int			fd;
	uint64		inode;			/* of the file */
	struct SfFd *slot;			/* descriptor, pinned while in flight */
	int32		result;			/* bytes done, or -errno */
	int			watched;		/* see watch.c; -1: not watched */
	uint64		began_us;
	uint64		service_us;		/* from start to end, as far as this process
								 * knows */
	uint64		method_private[8];	/* iocb and the like */
#ifdef SF_FAULTS
	uint64		sum;			/* of what is being written, see io.c */
#endif
} SfIo;

/*
 * Start a request.  May do it at once (sync), may block when the queue is
 * full.  ERROR when the file cannot be opened; errors of the transfer itself
 * are reported by sf_io_wait().
 */
extern void sf_io_start(SfIo *io);

/*
 * Wait for a request and check it: short transfers are continued, EINTR and
 * EAGAIN repeated, for some time.  ERROR with errcode_for_file_access() for anything else,
 * naming file, offset and length; a read beyond the end is DATA_CORRUPTED.
 * Interruptible only before a repetition; callers CHECK_FOR_INTERRUPTS between
 * requests.
 */
extern void sf_io_wait(SfIo *io);

/*
 * Read through the page cache, at once: for files opened buffered.  Buffer,
 * offset and length may have any alignment, so the bytes go straight to where
 * they are wanted.  Errors as for sf_io_wait().
 */
extern void sf_io_read_cached(SfIo *io);

/*
 * Does the page cache hold the byte at that place?  False where the system does not
 * tell; true where there is no file.  files: opened buffered.  ERROR when the file cannot
 * be opened for another reason than that it is missing.
 */
extern bool sf_io_is_cached(SfFiles *files, uint64 segment_offset);

/*
 * Wait for everything this process has in flight, ignoring results.  Never
 * throws.  Called at transaction end, subtransaction abort and process exit.
 */
extern void sf_io_reap_all(void);

/*
 * fdatasync the file(s) that hold a range.  A failure is PANIC unless
 * data_sync_retry is on (data_sync_elevel), as for PostgreSQL's own files.  Of nothing
 * (len_bytes 0) it flushes nothing.  ERROR when a file cannot be opened.
 */
extern void sf_io_sync(SfStorage storage, uint64 segment_offset, uint64 len_bytes);

/*
 * Writes whose bytes are in WAL need not be durable at commit: the syncer flushes them
 * before the next checkpoint is complete.
 *
 * opening: before the write.  Which opening of that file by the syncer its flush is left to;
 * 0: none, and the syncer is asked to take the file from now on.
 *
 * note: after the write is complete, and before its WAL record is inserted, each time.
 * False: the syncer has not had the file open all the time since then, and the caller has
 * to make it durable itself.  With interrupts held, or not; takes an
 * LWLock, for some milliseconds at most.  Both never throw.
 */
extern uint64 sf_io_syncer_opening(SfStorage storage, uint64 segment_offset);
extern bool sf_io_note_dirty(const SfIo *io, uint64 opening);

/*
 * Redo of a data record: write bytes (any alignment of buf; offset and length
 * are multiples of 512) and make them durable.  A missing directory or a
 * short file is fine (segment dropped later in WAL): skipped silently when the
 * directory is missing, file extended otherwise.
 */
extern void sf_io_redo_write(SfStorage storage, uint64 segment_offset,
							 const char *data, uint32 len_bytes);

/* Wait time and operation counts since the last call, for statistics. */
typedef struct SfIoCounts
{
	uint64		reads;
	uint64		read_bytes;
	uint64		writes;
	uint64		write_bytes;
	uint64		reap_us;
} SfIoCounts;

/* Returns the counts and begins anew with zeros.  Never throws. */
extern SfIoCounts sf_io_take_counts(void);

/* ---- kinds of I/O; charge.c: what the running statement is charged with ---- */

typedef enum SfIoKind
{
	SF_IO_READ,
	SF_IO_WRITE,
	SF_IO_FLUSH,
} SfIoKind;

#define SF_IO_KINDS			3

/*
 * Charge the running statement with bytes of data files that it reads, or writes.  A request does
 * so when it starts, unless it was charged before.  Never throws.
 */
extern void sf_io_charge(SfIoKind kind, uint64 bytes);

/* ---- watching: what each process does, by file ---- */

/* What a process has done to a data file, as long as it is one of those it used last. */
typedef struct SfIoWatched
{
	SfFileId	id;
	uint32		in_flight;		/* requests that have begun and not ended */
	uint64		in_flight_bytes;
	struct
	{
		uint64		count;
		uint64		bytes;
		uint64		us;			/* sum of the times from begin to end */
	}			did[SF_IO_KINDS];
	uint64		longest_us;		/* of one request or flush */
	uint64		last_used;		/* by a clock of the process; 0: no file */
} SfIoWatched;

/*
 * Call fn(pid, role, watched, arg) for each file of each process; role is that of the
 * session, InvalidOid for a background worker.  No locks are held.  Nothing without preload.
 */
typedef void (*SfIoWatchFn) (int pid, Oid role, const SfIoWatched *watched, void *arg);
extern void sf_io_watch(SfIoWatchFn fn, void *arg);

/* ---- calibration: what the storage can do ---- */

/* Limits of the scratch file. */
#define SF_IO_SCRATCH_MIN_BYTES		(1024 * 1024)
#define SF_IO_SCRATCH_MAX_BYTES		(1024 * 1024 * 1024)

/* What one kind of I/O has given. */
typedef struct SfIoMeasured
{
	const char *operation;		/* "read", "write", "durable write", "flush" */
	const char *method;			/* as in securefile.io_method */
	bool		direct;			/* past the page cache */
	uint32		size_bytes;		/* of one request */
	int			depth;			/* requests in flight */
	uint64		operations;
	double		seconds;		/* for all of them, and the flush after writes */
	double		mean_ms;		/* of one */
	double		median_ms;
	double		p99_ms;
} SfIoMeasured;

/*
 * Measure the file system of a tablespace, with a scratch file of up to max_bytes that is
 * removed at the end, whatever that is.  Calls fn(measured, arg) for each kind of I/O that
 * can be had there; fn may throw.  Takes about that many seconds; can be cancelled.  Of
 * max_bytes it uses whole MB, within the limits above.
 */
typedef void (*SfIoMeasureFn) (const SfIoMeasured *measured, void *arg);
extern void sf_io_calibrate(Oid spc, uint64 max_bytes, double seconds,
							SfIoMeasureFn fn, void *arg);

#endif							/* SF_IO_H */
