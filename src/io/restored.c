/*-------------------------------------------------------------------------
 *
 * restored.c
 *	  How often has this cluster begun life from a backup?
 *
 * A base backup, a standby and point-in-time recovery rebuild what WAL has, and
 * the data of filesystem_like_logging columns is not in it.  A server that is
 * started on such a copy has a backup_label or a signal file.  The number of
 * such starts is kept in pg_securefile/restored; segments remember the number
 * under which they were written to last, so a value whose data has stayed
 * behind can be told from a damaged one.
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

static uint64 times_restored;	/* set in the postmaster */

static bool
exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

static void
fail(const char *what, const char *path)
{
	ereport(FATAL,
			(errcode_for_file_access(),
			 errmsg("could not %s file \"%s\": %m", what, path)));
}

static uint64
read_number(void)
{
	unsigned long long number = 0;
	FILE	   *file = AllocateFile(RESTORED_FILE, "r");

	if (file == NULL)
	{
		if (errno != ENOENT)
			fail("open", RESTORED_FILE);
		return 0;
	}
	if (fscanf(file, "%llu", &number) != 1)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" does not hold a number", RESTORED_FILE)));
	FreeFile(file);
	return number;
}

static void
write_number(uint64 number)
{
	const char *path = RESTORED_FILE ".new";
	FILE	   *file = AllocateFile(path, "w");

	if (file == NULL || fprintf(file, UINT64_FORMAT "\n", number) < 0)
		fail("write", path);
	if (FreeFile(file) != 0)
		fail("write", path);
	(void) durable_rename(path, RESTORED_FILE, FATAL);
}

void
sf_io_note_restored(void)
{
	if (!exists(SF_IO_ROOT))
		return;
	times_restored = read_number();
	if (exists(BACKUP_LABEL_FILE) || exists(STANDBY_SIGNAL_FILE) || exists(RECOVERY_SIGNAL_FILE))
		write_number(++times_restored);
}

uint64
sf_io_times_restored(void)
{
	return times_restored;
}
