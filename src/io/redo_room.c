/*-------------------------------------------------------------------------
 *
 * redo_room.c
 *	  Redo, on a full disk, of files that have been cut or removed since.
 *
 * After a crash redo begins at a checkpoint.  It meets growths and values of files that a later
 * record cuts or removes, and whose room may be somebody else's by now.  Without that room the
 * server would not start.
 *
 * What lies behind the end that the files had when redo began is needed only if no record cuts
 * it off: growth is durable before its record, and files are cut after theirs has been
 * flushed.  So where the disk is full, what redo has added to the files goes back to the file
 * system, and what lies behind their old end is *owed*: growths and values there are passed over.
 * A record that cuts the files to their old end or below it, or removes them, settles that.
 * What is owed at the end of WAL is the full disk that was met, and ends recovery.  Nothing is
 * lost by that: the next start begins at the same checkpoint.
 *
 * Not in archive recovery: its restartpoints would begin after what was passed over.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog_internal.h"
#include "access/xlogutils.h"
#include "io/methods.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* The files of a segment that redo has made longer. */
typedef struct SfGrown
{
	SfStorage	storage;		/* key */
	uint64		end_bytes;		/* where they ended when redo began */
	bool		owed;
} SfGrown;

/* NULL: there are none */
static HTAB *grown = NULL;

static SfGrown *
grown_of(SfStorage storage)
{
	return grown == NULL ? NULL : hash_search(grown, &storage, HASH_FIND, NULL);
}

/* A file that is torn inside a block ends with that block. */
static uint64
end_of_files(SfFileId file)
{
	int64		have = sfi_io_file_size(file);

	while (file.fileno > 0 && have <= 0)
	{
		file.fileno--;
		have = sfi_io_file_size(file);
	}
	SF_ASSERT(have <= (int64) SF_FILE_SIZE);
	return file.fileno * SF_FILE_SIZE + TYPEALIGN64(SF_IO_ALIGN, (uint64) Max(have, 0));
}

/*
 * A file is about to get longer than it is, or to be made: note where the files of its segment
 * end, unless that was noted before.
 */
void
sfi_io_redo_note_end(SfFileId file)
{
	SfGrown    *entry;
	bool		found;

	if (!InRecovery || ArchiveRecoveryRequested)
		return;
	if (grown == NULL)
		grown = sf_base_table("securefile files that redo made longer", sizeof(SfStorage),
							  sizeof(SfGrown), TopMemoryContext);
	entry = hash_search(grown, &file.storage, HASH_ENTER, &found);
	if (found)
		return;
	entry->end_bytes = end_of_files(file);
	entry->owed = false;
}

/*
 * In a PG_CATCH(): may redo go on without what it was about to add?  If so, the error is
 * forgotten, and what it has added before is cut off again.  Not where that was done already:
 * what the files had needs the room.
 */
static bool
owes(SfStorage storage, MemoryContext context)
{
	SfGrown    *entry = grown_of(storage);

	if (entry == NULL || entry->owed || geterrcode() != ERRCODE_DISK_FULL)
		return false;
	SF_ASSERT(InRecovery && entry->end_bytes % SF_IO_ALIGN == 0);
	MemoryContextSwitchTo(context);
	FlushErrorState();
	(void) sfi_io_cut_files(storage, entry->end_bytes, WARNING);
	entry->owed = true;
	ereport(LOG,
			(errmsg("disk is full: recovery passes over what segment %u/%u/%u had beyond %llu bytes",
					SfStorageSpc(storage), SfStorageDb(storage), SfStorageRel(storage),
					(unsigned long long) entry->end_bytes)));
	return true;
}

bool
sfi_io_redo_fits(SfStorage storage, void (*step) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool fits = true;

	PG_TRY();
	{
		step(arg);
	}
	PG_CATCH();
	{
		if (!owes(storage, context))
			PG_RE_THROW();
		fits = false;
	}
	PG_END_TRY();
	SF_ASSERT(fits || sfi_io_redo_owed_from(storage) < PG_UINT64_MAX);
	return fits;
}

/* Where in the segment begins what is passed over. */
uint64
sfi_io_redo_owed_from(SfStorage storage)
{
	const SfGrown *entry = grown_of(storage);

	return entry != NULL && entry->owed ? entry->end_bytes : PG_UINT64_MAX;
}

void
sf_io_redo_settle_cut(SfStorage storage, uint64 size_bytes)
{
	SfGrown    *entry = grown_of(storage);

	SF_ASSERT(InRecovery && size_bytes % SF_IO_ALIGN == 0);
	if (entry != NULL && size_bytes <= entry->end_bytes)
		entry->owed = false;
}

void
sf_io_redo_settle_removed(SfStorage storage)
{
	SF_ASSERT(InRecovery);
	if (grown != NULL)
		(void) hash_search(grown, &storage, HASH_REMOVE, NULL);
}

void
sf_io_redo_settle_database(Oid db)
{
	HASH_SEQ_STATUS scan;
	SfGrown    *entry;

	SF_ASSERT(InRecovery && OidIsValid(db));
	if (grown == NULL)
		return;
	hash_seq_init(&scan, grown);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (SfStorageDb(entry->storage) == db)
			(void) hash_search(grown, &entry->storage, HASH_REMOVE, NULL);
	}
}

void
sf_io_redo_require_settled(void)
{
	HASH_SEQ_STATUS scan;
	const SfGrown *entry;

	SF_ASSERT(InRecovery);
	if (grown == NULL)
		return;
	hash_seq_init(&scan, grown);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->owed)
			ereport(FATAL,
					(errcode(ERRCODE_DISK_FULL),
					 errmsg("could not extend the data files of segment %u/%u/%u: the disk is full",
							SfStorageSpc(entry->storage), SfStorageDb(entry->storage),
							SfStorageRel(entry->storage)),
					 errdetail("Values lie beyond %llu bytes, where the files end.",
							   (unsigned long long) entry->end_bytes),
					 errhint("Free disk space, and start the server again.")));
	}
	hash_destroy(grown);
	grown = NULL;
}
