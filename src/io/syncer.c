/*-------------------------------------------------------------------------
 *
 * syncer.c
 *	  The syncer: a background worker that flushes the data files which writers of logging
 *	  columns have left to it, and keeps checkpoints from completing before.
 *
 * A checkpoint lists, once, the processes that have DELAY_CHKPT_COMPLETE set, each with the
 * id of its transaction (lxid), and waits until none of them has that id any more.  The
 * syncer has the flag set as long as notes are taken, and changes the id only in a pass:
 * with the gate closed, when nothing is dirty.  README.md has the proof.
 *
 *		pre-flush	with the gate open, each second or 64 MB: most of the work
 *		pass		gate closed: flush the rest, new id, gate open; each two seconds, and
 *					more often while a checkpoint is on its way
 *		pause		nothing was noted for a while: a last pass, files closed, no flag;
 *					an idle server has no wake-ups, and its checkpoints do not wait
 *
 * It runs no transaction.  Its id is a number that nobody waits for: it takes no lock
 * under it, and has no xid, no xmin and no snapshot.
 *
 * How often it does what is a matter of speed only.  A pass begins with a pre-flush, so
 * little is left for the time in which writers wait.  A checkpoint waits for one pass, so the
 * first ones after it has begun come soon: CREATE DATABASE and base backups wait for a
 * checkpoint.  One that is spread over minutes has no need of that, so the next ones
 * come each 100 ms.
 *
 * A file that the syncer has open is flushed by nobody else.  So it must not leave with
 * notes: whatever makes it leave, an ERROR or a signal, ends in leave(), or in a PANIC.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "base/server.h"
#include "base/worker.h"
#include "catalog/pg_control.h"
#include "config/config.h"
#include "io/dirty.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/procsignal.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#define RESTART_SECONDS		1

/*
 * Looks so often while it is active: a checkpoint that begins meanwhile waits so long
 * before anything is done for it.
 */
#define TICK_MS				20
#define PRE_FLUSH_MS	1000

/*
 * A pass now and then, although nobody can be seen to wait for one: should a checkpoint ever
 * not be noticed, it waits no longer than this.
 */
#define PASS_MS				2000

/* passes while a checkpoint is on its way: the first ones soon, for it may be a short one */
#define CHECKPOINT_PASS_MS	100

/* pauses when nothing was noted for so long */
#define PAUSE_MS			5000

/* closes a file that was not dirty for so many passes, when there are many */
#define KEPT_PASSES			10

/* a pre-flush goes over the files again while this much comes in meanwhile */
#define PRE_FLUSH_ROUNDS	4
#define PRE_FLUSH_BYTES		(8 * 1024 * 1024)

SF_NORETURN PGDLLEXPORT void securefile_syncer(Datum arg);

PG_FUNCTION_INFO_V1(securefile_syncer_state);

/* This process: its descriptors, by slot, and when it last did what. */
static struct
{
	int			fds[SF_DIRTY_FILES];
	int			control;		/* descriptor of the control file; -1: none */
	int64		pre_flush;		/* of a clock that is never set back, in ms */
	int64		pass;
	int64		noted;			/* when it last saw new notes */
	uint64		noted_bytes;	/* as of then */
	XLogRecPtr	settled;		/* the redo pointer of a checkpoint that is
								 * complete */
	int			checkpoint_passes;	/* since one is on its way */
}			own;

void
sf_io_register_syncer(void)
{
	static const SfWorker syncer = {
		"securefile syncer", "securefile_syncer", BgWorkerStart_RecoveryFinished, RESTART_SECONDS
	};

	sf_base_worker_register(&syncer);
}

/* ---- files ---- */

/*
 * Commits are slower where files cannot be opened, and nothing else shows why.  Once in a
 * process is enough to say so.  A file that is gone has been dropped meanwhile.
 */
static void
report_not_open(const char *path, int error)
{
	static bool reported = false;

	SF_ASSERT(error != 0 && !LWLockHeldByMe(&sfi_dirty->gate));
	if (error == ENOENT || reported)
		return;
	reported = true;
	errno = error;
	ereport(LOG,
			(sfi_io_errcode(error),
			 errmsg("securefile syncer could not open file \"%s\": %m", path),
			 errdetail("Commits that write to a file that the syncer does not have open flush it themselves."),
			 error != EMFILE ? 0 :
			 errhint("Consider increasing the configuration parameter \"max_files_per_process\", or the limit of open files of the operating system.")));
}

/* Open a file for flushing; -1 if that is not possible now. */
static int
open_to_flush(SfFileId id, uint64 *inode)
{
	char		path[SF_IO_PATH_MAX];
	struct stat st;
	int			fd;
	int			error;

	sfi_io_file_path(path, id);
	if (!AcquireExternalFD())
	{
		report_not_open(path, EMFILE);
		return -1;
	}
	fd = SF_FAULT_FAILS(io_open) ? -1 : open(path, O_RDWR | O_CLOEXEC | PG_BINARY | O_NONBLOCK);
	if (fd >= 0 && !SF_FAULT_FAILS(io_fstat) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
	{
		*inode = st.st_ino;
		return fd;
	}
	error = errno;
	if (fd >= 0)
		(void) close(fd);
	ReleaseExternalFD();
	report_not_open(path, error);
	return -1;
}

/* An error of close() tells nothing: what is closed was flushed, or has no name any more. */
static void
close_file(int slot)
{
	SF_ASSERT(own.fds[slot] >= 0);
	if (SF_BREAKS(y3))
		return;
	(void) close(own.fds[slot]);
	ReleaseExternalFD();
	own.fds[slot] = -1;
}

/*
 * Open a file that writers want.  Until it is marked they flush it themselves, so all that
 * is left to this process is written after the descriptor was made: an error of the
 * system's own writing back is not missed.
 */
static void
open_wanted(int slot)
{
	SfDirtyFile *file = &sfi_dirty->files[slot];
	SfFileId	id;
	uint64		inode = 0;
	bool		opened;

	SF_ASSERT(own.fds[slot] < 0 && sfi_dirty->active);
	LWLockAcquire(&sfi_dirty->gate, LW_SHARED);
	id = file->id;
	LWLockRelease(&sfi_dirty->gate);
	own.fds[slot] = open_to_flush(id, &inode);
	SF_FAULT(syncer_opened);
	LWLockAcquire(&sfi_dirty->gate, LW_EXCLUSIVE);

	/*
	 * it may have been unlinked meanwhile, and the slot have been taken for
	 * another file
	 */
	opened = own.fds[slot] >= 0 && sfi_io_is_linked(own.fds[slot]) &&
		file->state == SF_DIRTY_WANTED && sfi_io_same_file(file->id, id);
	if (opened)
	{
		file->inode = inode;
		file->opening = ++sfi_dirty->openings;
		file->noted_in_pass = sfi_dirty->counts.passes;
		file->state = SF_DIRTY_OPEN;
	}
	else if (file->state == SF_DIRTY_WANTED)
	{
		/* nobody is to ask again at once */
		file->state = SF_DIRTY_FREE;
		sfi_dirty->crowded = true;
	}
	LWLockRelease(&sfi_dirty->gate);
	if (!opened && own.fds[slot] >= 0)
		close_file(slot);
}

/* Until then the space of the file is taken, although it has no name. */
static void
close_gone(int slot)
{
	SF_ASSERT(!LWLockHeldByMe(&sfi_dirty->gate));
	close_file(slot);
	LWLockAcquire(&sfi_dirty->gate, LW_EXCLUSIVE);
	sfi_dirty->files[slot].state = SF_DIRTY_FREE;
	LWLockRelease(&sfi_dirty->gate);
}

/*
 * Y1 to Y3, between two steps of this process.  With the gate shared: notes may be made
 * meanwhile, which keep to Y1, and no state changes.  Only in builds with assertions, as it
 * looks at all slots.
 */
static void
check_slots(void)
{
#ifdef SF_ASSERTIONS
	LWLockAcquire(&sfi_dirty->gate, LW_SHARED);
	SF_INVARIANT(Y2, sf_server_holds_checkpoints() == sfi_dirty->active ||
				 SF_FAULT_SKIPS(wrong_hold));
	for (int i = 0; i < SF_DIRTY_FILES; i++)
	{
		SfDirtyFile *file = &sfi_dirty->files[i];
		bool		open = (file->state == SF_DIRTY_OPEN);

		SF_INVARIANT(Y1, pg_atomic_read_u32(&file->dirty) == 0 || (open && sfi_dirty->active));
		SF_INVARIANT(Y3, (own.fds[i] >= 0) == (open || file->state == SF_DIRTY_GONE));
	}
	LWLockRelease(&sfi_dirty->gate);
#endif
}

/*
 * Only this process takes a file out of WANTED or GONE into OPEN or FREE.  What is wanted
 * while no notes are taken waits for activate(): its latch is set after its slot.
 */
static void
serve_files(void)
{
	for (int i = 0; i < SF_DIRTY_FILES; i++)
	{
		if (sfi_dirty->files[i].state == SF_DIRTY_GONE)
			close_gone(i);
		if (sfi_dirty->files[i].state == SF_DIRTY_WANTED && sfi_dirty->active)
			open_wanted(i);
	}
}

/* ---- flushing ---- */

/*
 * The bit is cleared first: what is noted while the flush is under way may not be in it,
 * and leaves the bit set for the next one.  A flush that failed is never repeated, for
 * the system may have thrown the pages away; recovery writes them anew.
 */
static void
flush_file(int slot)
{
	SfDirtyFile *file = &sfi_dirty->files[slot];

	if (own.fds[slot] < 0 || pg_atomic_exchange_u32(&file->dirty, 0) == 0)
		return;
	SF_ASSERT(file->state == SF_DIRTY_OPEN || file->state == SF_DIRTY_GONE);
	SF_FAULT(syncer_cleared);
	file->noted_in_pass = sfi_dirty->counts.passes;
	if (SF_FAULT_SKIPS(wrong_flush))
		return;
	sfi_io_flush(own.fds[slot], file->id, false, PANIC);
	SF_FAULT(syncer_file_done);
	if (SF_FAULT_SKIPS(wrong_bit))
		pg_atomic_write_u32(&file->dirty, 0);
	sfi_dirty->counts.flushes++;
}

/*
 * Flush all files that are dirty.  A slot whose file is unlinked meanwhile keeps its
 * descriptor, as only this process closes it.
 */
static void
flush_files(void)
{
	SF_FAULT(syncer_flush);
	/* all at once, then wait for one after the other */
	for (int i = 0; i < SF_DIRTY_FILES; i++)
		if (own.fds[i] >= 0 && pg_atomic_read_u32(&sfi_dirty->files[i].dirty) != 0 &&
			!SF_FAULT_SKIPS(wrong_flush))
			sfi_io_start_flush(own.fds[i]);
	for (int i = 0; i < SF_DIRTY_FILES; i++)
		flush_file(i);
}

/* It only grows, so two readings tell what was noted in between. */
static uint64
noted_bytes(void)
{
	return pg_atomic_read_u64(&sfi_dirty->noted_bytes);
}

/* Milliseconds of a clock that nobody sets: checkpoints wait for what is done by it. */
static int64
now_ms(void)
{
	return (int64) (sf_base_now_us() / 1000);
}

/* Most of the flushing, while writers go on. */
static void
pre_flush(void)
{
	SF_ASSERT(sfi_dirty->active && !LWLockHeldByMe(&sfi_dirty->gate));
	for (int round = 0; round < PRE_FLUSH_ROUNDS; round++)
	{
		uint64		before = noted_bytes();

		pg_atomic_write_u64(&sfi_dirty->flushed_bytes, before);
		flush_files();
		if (noted_bytes() - before < PRE_FLUSH_BYTES)
			break;
	}
	own.pre_flush = now_ms();
}

/* ---- passes ---- */

/*
 * While the gate is closed no note is made: a writer is before its note, and so before
 * its record, or behind it.
 */
static void
close_gate(void)
{
	SF_ASSERT(!LWLockHeldByMe(&sfi_dirty->gate));
	LWLockAcquire(&sfi_dirty->gate, LW_EXCLUSIVE);
}

static void
open_gate(void)
{
	SF_ASSERT(LWLockHeldByMeInMode(&sfi_dirty->gate, LW_EXCLUSIVE));
	LWLockRelease(&sfi_dirty->gate);
}

/* Close files that were not written for long; the gate is closed, nothing is dirty. */
static void
close_old(uint64 kept_passes)
{
	SF_ASSERT(LWLockHeldByMeInMode(&sfi_dirty->gate, LW_EXCLUSIVE));
	for (int i = 0; i < SF_DIRTY_FILES; i++)
	{
		SfDirtyFile *file = &sfi_dirty->files[i];

		if (file->state != SF_DIRTY_OPEN ||
			sfi_dirty->counts.passes - file->noted_in_pass < kept_passes)
			continue;
		SF_ASSERT(pg_atomic_read_u32(&file->dirty) == 0);
		close_file(i);
		file->state = SF_DIRTY_FREE;
	}
	sfi_dirty->crowded = false;
}

/*
 * Everything that was noted before is durable when the id changes, and what is noted
 * later comes after the change: a checkpoint that has listed the old id needs the former
 * only.
 */
static void
pass(void)
{
	uint64		start_us;
	SfDirtyCounts *counts = &sfi_dirty->counts;

	SF_ASSERT(sf_server_holds_checkpoints() || SF_FAULT_SKIPS(wrong_hold));
	pre_flush();
	SF_FAULT(syncer_pre_flushed);
	if (!SF_FAULT_SKIPS(wrong_gate))
		close_gate();
	start_us = sf_base_now_us();
	SF_FAULT(syncer_closed);
	if (SF_FAULT_SKIPS(wrong_renew))
		sf_server_hold_checkpoints_anew();
	flush_files();
	SF_FAULT(syncer_flushed);
	sf_server_hold_checkpoints_anew();
	SF_FAULT(syncer_renewed);
	if (SF_BREAKS(y2))
		sf_server_release_checkpoints();
	counts->passes++;
	if (sfi_dirty->crowded && LWLockHeldByMe(&sfi_dirty->gate))
		close_old(KEPT_PASSES);
	counts->longest_pass_us = Max(counts->longest_pass_us, sf_base_now_us() - start_us);
	if (LWLockHeldByMe(&sfi_dirty->gate))
		open_gate();
	own.pass = now_ms();
}

/*
 * Notes are taken from here on.  A checkpoint that has listed its processes already does
 * not wait for this one; nor need it, for all notes are younger than its list.
 */
static void
activate(void)
{
	SF_ASSERT(!sfi_dirty->active && !sf_server_holds_checkpoints());
	close_gate();
	sf_server_hold_checkpoints_anew();
	sfi_dirty->active = true;
	open_gate();
	own.noted = own.pass = own.pre_flush = now_ms();
	own.noted_bytes = noted_bytes();
}

/*
 * Flush everything, and take no more notes.  When the flag goes nothing is dirty, so a
 * checkpoint that has waited may be complete.
 */
static void
drain(void)
{
	if (!sfi_dirty->active)
		return;
	pre_flush();
	close_gate();
	flush_files();
	sfi_dirty->active = false;
	close_old(0);
	sf_server_release_checkpoints();
	open_gate();
	SF_ASSERT(!sf_server_holds_checkpoints());
}

/*
 * The redo pointer of the last complete checkpoint, or 0 if that cannot be told now.  By
 * hand, since get_controlfile() throws when there are no descriptors, and an ERROR would
 * be a PANIC here.  The file may be read while it is written: then its checksum is wrong.
 */
static XLogRecPtr
complete_redo(void)
{
	ControlFileData control;
	pg_crc32c	crc;

	if (own.control < 0)
		own.control = SF_FAULT_FAILS(io_open) ? -1 :
			open(XLOG_CONTROL_FILE, O_RDONLY | O_CLOEXEC | PG_BINARY);
	if (own.control < 0 || SF_FAULT_FAILS(io_number_read) ||
		pread(own.control, &control, sizeof(control), 0) != sizeof(control))
		return InvalidXLogRecPtr;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &control, offsetof(ControlFileData, crc));
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, control.crc) ? control.checkPointCopy.redo : InvalidXLogRecPtr;
}

/*
 * Is a checkpoint on its way?  Its redo pointer is in shared memory from its beginning on,
 * and in the control file when it is complete.  One that failed looks the same until the
 * next one; passes are more frequent then, and that is all.
 */
static bool
checkpoint_is_under_way(void)
{
	XLogRecPtr	redo = GetRedoRecPtr();

	if (redo != own.settled && complete_redo() == redo)
		own.settled = redo;
	return redo != own.settled;
}

/*
 * How long an id may be used.  A checkpoint that is under way may be waiting for the id of
 * now, or may be about to list it: nobody can see which.
 */
static int
pass_interval_ms(void)
{
	if (!checkpoint_is_under_way())
	{
		own.checkpoint_passes = 0;
		return PASS_MS;
	}
	return Min(own.checkpoint_passes * TICK_MS, CHECKPOINT_PASS_MS);
}

/*
 * What is due while notes are taken: to pause, or a pass, or else a pre-flush.  At most one
 * of them, as each takes its time, and what is due then may be another.
 */
static void
work(void)
{
	int64		now = now_ms();
	uint64		noted = noted_bytes();

	SF_ASSERT(sfi_dirty->active && sfi_dirty->syncer == MyProc);
	if (noted != own.noted_bytes)
	{
		own.noted = now;
		own.noted_bytes = noted;
	}
	if (now - own.noted >= PAUSE_MS)
		drain();
	else if (now - own.pass >= pass_interval_ms())
	{
		pass();
		own.checkpoint_passes++;
	}
	else if (noted - pg_atomic_read_u64(&sfi_dirty->flushed_bytes) >= SF_DIRTY_LIMIT_BYTES ||
			 (noted != pg_atomic_read_u64(&sfi_dirty->flushed_bytes) &&
			  now - own.pre_flush >= PRE_FLUSH_MS))
		pre_flush();
}

/* ---- the process ---- */

/* Does any writer want a file to be left to this process? */
static bool
is_wanted(void)
{
	for (int i = 0; i < SF_DIRTY_FILES; i++)
		if (sfi_dirty->files[i].state == SF_DIRTY_WANTED)
			return true;
	return false;
}

/* From now on writers may ask for files, or may not; what they have asked for is forgotten. */
static void
set_available(bool available)
{
	close_gate();
	sfi_dirty->syncer = available ? MyProc : NULL;
	sfi_dirty->crowded = false;
	for (int i = 0; i < SF_DIRTY_FILES && !available; i++)
		if (sfi_dirty->files[i].state == SF_DIRTY_WANTED)
			sfi_dirty->files[i].state = SF_DIRTY_FREE;
	open_gate();
}

/*
 * First nobody asks any more, then nothing is dirty, then the process ends.  With exit
 * code 1, so that the postmaster starts another one unless the server stops.
 */
static void
leave(void)
{
	set_available(false);
	SF_FAULT(syncer_leaves);
	drain();
	serve_files();
	SF_ASSERT(!sfi_dirty->active);
	proc_exit(1);
}

/* Gone with notes that nobody will flush: recovery has to. */
static void
require_drained(int code, Datum arg)
{
	if (sfi_dirty->active)
		elog(PANIC, "securefile syncer ends before it has flushed what is left to it");
	sfi_dirty->syncer = NULL;
}

/*
 * Not CHECK_FOR_INTERRUPTS(), which would end the process at once.  A barrier has to be
 * absorbed, or DROP DATABASE waits for ever.  Where the postmaster is gone this process
 * flushes, too: a checkpoint may still be on its way.
 */
static void
serve_interrupts(void)
{
	if (ShutdownRequestPending || !PostmasterIsAlive())
		leave();
	if (ProcSignalBarrierPending)
		ProcessProcSignalBarrier();
	if (LogMemoryContextPending)
		ProcessLogMemoryContextInterrupt();
	if (!sf_base_worker_reloads())
		return;
	set_available(sf_syncer);
	if (!sf_syncer)
		drain();
}

/* The process before this one has left nothing but requests; zero is a descriptor, too. */
static void
begin(void)
{
	own.control = -1;
	for (int i = 0; i < SF_DIRTY_FILES; i++)
	{
		own.fds[i] = -1;
		SF_ASSERT(sfi_dirty->files[i].state != SF_DIRTY_OPEN);
		sfi_dirty->files[i].state = SF_DIRTY_FREE;
	}
}

void
securefile_syncer(Datum arg)
{
	static uint32 wait_event = 0;

	/* not die(): it must not leave before it has flushed */
	pqsignal(SIGINT, SIG_IGN);
	sf_base_worker_begin(InvalidOid, SignalHandlerForShutdownRequest);

	begin();
	before_shmem_exit(require_drained, (Datum) 0);
	set_available(sf_syncer);
	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileSyncer");
	for (;;)
	{
		ResetLatch(MyLatch);
		serve_interrupts();
		if (!sfi_dirty->active && is_wanted())
			activate();
		serve_files();
		check_slots();
		if (sfi_dirty->active)
			work();
		check_slots();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_POSTMASTER_DEATH |
						 (sfi_dirty->active ? WL_TIMEOUT : 0),
						 sfi_dirty->active ? TICK_MS : -1, wait_event);
	}
}

/* ---- seeing it ---- */

/*
 * securefile_syncer_state() -> record: the columns of view securefile_syncer.
 */
Datum
securefile_syncer_state(PG_FUNCTION_ARGS)
{
	Datum		values[8] = {0};
	bool		nulls[8] = {0};
	SfDirtyCounts counts;
	int			files = 0;
	PGPROC	   *syncer;

	sf_base_require_preload();
	LWLockAcquire(&sfi_dirty->gate, LW_SHARED);
	syncer = sfi_dirty->syncer;
	counts = sfi_dirty->counts;
	for (int i = 0; i < SF_DIRTY_FILES; i++)
		files += sfi_dirty->files[i].state == SF_DIRTY_OPEN;
	values[1] = BoolGetDatum(sfi_dirty->active);
	LWLockRelease(&sfi_dirty->gate);
	nulls[0] = (syncer == NULL);
	if (syncer != NULL)
		values[0] = Int32GetDatum(syncer->pid);
	values[2] = Int32GetDatum(files);
	values[3] = Int64GetDatum(noted_bytes());
	values[4] = Int64GetDatum(counts.flushes);
	values[5] = Int64GetDatum(counts.passes);
	values[6] = Float8GetDatum(counts.longest_pass_us / 1000.0);
	values[7] = Float8GetDatum(pg_atomic_read_u64(&sfi_dirty->longest_wait_us) / 1000.0);
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
