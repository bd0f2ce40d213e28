/*-------------------------------------------------------------------------
 *
 * dirty.c
 *	  Writes whose flush is left to the syncer, as everybody but the syncer sees it.
 *
 * The bytes of a logging column are in WAL, so a commit need not wait until they are
 * durable in the data file, too.  Only a checkpoint must: recovery would begin behind
 * their record.  The syncer keeps checkpoints from completing as long as there is a note
 * that it has not flushed.  For that, each piece is noted
 *
 *		after its write is complete, and before its record is inserted,
 *
 * with the gate shared, whether or not the file is dirty already (README.md says why).
 * A note is refused where the syncer does not have the file open: then the writer flushes
 * by itself, before its commit record.
 *
 * A note costs an LWLock in shared mode and a store.  A writer waits only while a pass
 * flushes what the pre-flushes have left, which is some milliseconds in a second;
 * securefile_syncer shows the longest of these waits.
 *
 * A file is noted by its inode, too: a file that was unlinked, and made anew under the
 * same name, is another one than the syncer has open.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "io/dirty.h"
#include "storage/latch.h"

SfDirtyShared *sfi_dirty = NULL;

const SfSharedArea sf_io_dirty_area = {
	.name = "securefile dirty files", .at = (void **) &sfi_dirty,
	.bytes = sizeof(SfDirtyShared), .lock = "securefile_syncer"
};

/* ---- finding ---- */

/* Does a slot stand for that file?  One that is gone stands for none. */
static bool
is_file(const SfDirtyFile *file, SfFileId id)
{
	return file->state != SF_DIRTY_FREE && file->state != SF_DIRTY_GONE &&
		sfi_io_same_file(file->id, id);
}

/*
 * The slot of a file, or NULL.  The one that this process found last is looked at first:
 * a writer goes on in the same file, as a rule.
 */
static SfDirtyFile *
find_file(SfFileId id)
{
	static int	last = 0;

	SF_ASSERT(sfi_dirty != NULL && last >= 0 && last < SF_DIRTY_FILES);
	if (is_file(&sfi_dirty->files[last], id))
		return &sfi_dirty->files[last];
	for (int i = 0; i < SF_DIRTY_FILES; i++)
	{
		if (!is_file(&sfi_dirty->files[i], id))
			continue;
		last = i;
		return &sfi_dirty->files[i];
	}
	return NULL;
}

/* ---- asking for a file ---- */

void
sfi_dirty_wake(void)
{
	PGPROC	   *syncer = sfi_dirty->syncer;

	/*
	 * should it have left, another process finds its latch set: that is
	 * harmless
	 */
	if (syncer != NULL)
		SetLatch(&syncer->procLatch);
}

/*
 * Have the syncer open a file; there may be no room, or no syncer any more.  Once for each
 * file and activity, so the gate may be taken exclusively.
 */
static void
want_file(SfFileId id)
{
	SfDirtyFile *free_file = NULL;

	SF_ASSERT(!LWLockHeldByMe(&sfi_dirty->gate));
	LWLockAcquire(&sfi_dirty->gate, LW_EXCLUSIVE);
	for (int i = 0; i < SF_DIRTY_FILES && free_file == NULL; i++)
		if (sfi_dirty->files[i].state == SF_DIRTY_FREE)
			free_file = &sfi_dirty->files[i];
	if (sfi_dirty->syncer != NULL && find_file(id) == NULL)
	{
		if (free_file != NULL)
		{
			SF_ASSERT(pg_atomic_read_u32(&free_file->dirty) == 0);
			free_file->id = id;
			free_file->inode = 0;
			free_file->state = SF_DIRTY_WANTED;
		}
		else
			sfi_dirty->crowded = true;
	}
	LWLockRelease(&sfi_dirty->gate);
	sfi_dirty_wake();
}

/*
 * Without the gate: the answer is good only for choosing a way to write, and it is the note
 * that decides.
 */
uint64
sf_io_syncer_opening(SfStorage storage, uint64 segment_offset)
{
	SfFileId	id = sfi_io_file_at(storage, segment_offset);
	SfDirtyFile *file;

	SF_ASSERT(OidIsValid(SfStorageRel(storage)) && OidIsValid(SfStorageDb(storage)));
	if (sfi_dirty == NULL || sfi_dirty->syncer == NULL)
		return 0;
	file = find_file(id);
	if (file == NULL && !sfi_dirty->crowded)
		want_file(id);
	if (file == NULL || file->state != SF_DIRTY_OPEN || !sfi_dirty->active)
		return 0;
	return file->opening;
}

/* ---- noting ---- */

/* Take the gate shared, and count how long that took if it was closed. */
static void
enter_gate(void)
{
	uint64		start_us;
	uint64		longest;
	uint64		waited_us;

	SF_ASSERT(!LWLockHeldByMe(&sfi_dirty->gate));
	if (LWLockConditionalAcquire(&sfi_dirty->gate, LW_SHARED))
		return;
	start_us = sf_base_now_us();
	LWLockAcquire(&sfi_dirty->gate, LW_SHARED);
	waited_us = sf_base_now_us() - start_us;
	longest = pg_atomic_read_u64(&sfi_dirty->longest_wait_us);
	while (waited_us > longest &&
		   !pg_atomic_compare_exchange_u64(&sfi_dirty->longest_wait_us, &longest, waited_us))
		;
}

/* Count bytes that were noted; does that make a flush due? */
static bool
count_noted(uint32 len_bytes)
{
	uint64		before = pg_atomic_fetch_add_u64(&sfi_dirty->noted_bytes, len_bytes);
	uint64		due = pg_atomic_read_u64(&sfi_dirty->flushed_bytes) + SF_DIRTY_LIMIT_BYTES;

	SF_ASSERT(len_bytes > 0 && LWLockHeldByMeInMode(&sfi_dirty->gate, LW_SHARED));
	return before < due && before + len_bytes >= due;
}

/*
 * With the opening of before the write: had the syncer closed the file meanwhile, and opened
 * it again, an error of the system's own writing back in between would be seen by nobody.
 */
bool
sf_io_note_dirty(const SfIo *io, uint64 opening)
{
	SfDirtyFile *file;
	bool		noted = false;
	bool		due = false;

	SF_ASSERT(io->is_write && !io->in_flight && io->result == (int32) io->len_bytes);
	SF_ASSERT(io->inode != 0 && !io->durable);
	if (sfi_dirty == NULL)
		return false;
	if (SF_FAULT_SKIPS(wrong_note))
		return true;
	enter_gate();
	file = sfi_dirty->active ? find_file(sfi_io_file_of(io)) : NULL;
	if (file != NULL && file->state == SF_DIRTY_OPEN && file->opening == opening &&
		file->inode == io->inode)
	{
		/* a process that sees the bit sees the complete write */
		pg_write_barrier();
		pg_atomic_write_u32(&file->dirty, 1);
		due = count_noted(io->len_bytes);
		noted = true;
	}
	LWLockRelease(&sfi_dirty->gate);
	if (due)
		sfi_dirty_wake();
	return noted;
}

/* ---- files that go ---- */

/*
 * Forget a file; does the syncer have to close it?  What was noted of it need not be
 * flushed any more: it is dropped, or cut off, and WAL says so.
 */
static bool
forget_file(SfDirtyFile *file)
{
	bool		open = (file->state == SF_DIRTY_OPEN);

	SF_ASSERT(LWLockHeldByMeInMode(&sfi_dirty->gate, LW_EXCLUSIVE));
	SF_ASSERT(open || pg_atomic_read_u32(&file->dirty) == 0);
	if (!SF_BREAKS(y1))
		pg_atomic_write_u32(&file->dirty, 0);
	file->state = open ? SF_DIRTY_GONE : SF_DIRTY_FREE;
	return open;
}

/* Forget the files of a segment from one on; without a segment, all of a database. */
static void
forget_files(const SfStorage *storage, uint32 from_fileno, Oid db)
{
	bool		any = false;

	if (sfi_dirty == NULL)
		return;
	SF_ASSERT(!LWLockHeldByMe(&sfi_dirty->gate));
	LWLockAcquire(&sfi_dirty->gate, LW_EXCLUSIVE);
	for (int i = 0; i < SF_DIRTY_FILES; i++)
	{
		SfDirtyFile *file = &sfi_dirty->files[i];

		if (file->state != SF_DIRTY_WANTED && file->state != SF_DIRTY_OPEN)
			continue;
		if (storage != NULL
			? file->id.fileno >= from_fileno && SfStorageEquals(file->id.storage, *storage)
			: SfStorageDb(file->id.storage) == db)
			any = forget_file(file) || any;
	}
	LWLockRelease(&sfi_dirty->gate);
	if (any)
		sfi_dirty_wake();
}

/*
 * Before the unlink: afterwards the name may come back, and a note would be for the file
 * that is open no longer.
 */
void
sfi_dirty_forget(SfStorage storage, uint32 from_fileno)
{
	forget_files(&storage, from_fileno, InvalidOid);
}

/* Files in tablespaces may have been removed by the server, with the database's directory. */
void
sfi_dirty_forget_database(Oid db)
{
	SF_ASSERT(OidIsValid(db));
	forget_files(NULL, 0, db);
}
