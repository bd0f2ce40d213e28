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

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "io/io_internal.h"
#include "storage/fd.h"

#define RESTORED_FILE		SF_IO_ROOT "/restored"

static uint64 restore_id;		/* set in the postmaster */

static bool
exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

static uint64
read_id(void)
{
	unsigned long long id = 0;
	FILE	   *file = AllocateFile(RESTORED_FILE, "r");

	if (file == NULL)
	{
		if (errno != ENOENT)
			sf_io_report_path(FATAL, "open file", RESTORED_FILE);
		return 0;
	}
	if (fscanf(file, "%llu", &id) != 1)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" does not hold a number", RESTORED_FILE)));
	FreeFile(file);
	return id;
}

static void
write_id(uint64 id)
{
	const char *path = RESTORED_FILE ".new";
	FILE	   *file = AllocateFile(path, "w");

	if (file == NULL || fprintf(file, UINT64_FORMAT "\n", id) < 0)
		sf_io_report_path(FATAL, "write file", path);
	if (FreeFile(file) != 0)
		sf_io_report_path(FATAL, "write file", path);
	(void) durable_rename(path, RESTORED_FILE, FATAL);
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
	restore_id = read_id();
	if (!exists(BACKUP_LABEL_FILE) && !exists(STANDBY_SIGNAL_FILE) && !exists(RECOVERY_SIGNAL_FILE))
		return;
	sf_io_make_root();
	restore_id = new_id();
	write_id(restore_id);
}

uint64
sf_io_restore_id(void)
{
	return restore_id;
}
