/*-------------------------------------------------------------------------
 *
 * restored.c
 *	  Has this cluster begun life from a backup since a value was stored?
 *
 * A base backup, a standby and point-in-time recovery rebuild what WAL has, and
 * the data of filesystem_like_logging columns is not in it.  A server that is
 * started on such a copy has a backup_label or a signal file.  Such a start gets
 * a random id, kept in pg_securefile/restored; segments remember the id under
 * which they were written to last, so a value whose data has stayed behind can
 * be told from a damaged one.  Random, because several copies of one cluster
 * may follow each other's WAL.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "io/io_internal.h"

#define RESTORED_FILE		SF_IO_ROOT "/restored"

static uint64 restore_id;		/* set in the postmaster */

static bool
exists(const char *path)
{
	return sf_io_path_size(path, FATAL) >= 0;
}

static uint64
new_id(void)
{
	uint64		id;

	if (!pg_strong_random(&id, sizeof(id)))
		ereport(FATAL, (errcode(ERRCODE_INTERNAL_ERROR),
						errmsg("could not generate a random number")));
	return id;
}

/* The copy may be older than the first segment: it needs its id all the same. */
void
sf_io_note_restored(void)
{
	sfi_io_clean_leftovers();
	(void) sfi_io_number_read(RESTORED_FILE, &restore_id, FATAL);
	if (!exists(BACKUP_LABEL_FILE) && !exists(STANDBY_SIGNAL_FILE) && !exists(RECOVERY_SIGNAL_FILE))
		return;
	sfi_io_make_root();
	restore_id = new_id();
	sfi_io_number_write(RESTORED_FILE, restore_id, FATAL);
}

uint64
sf_io_restore_id(void)
{
	return restore_id;
}
