/*-------------------------------------------------------------------------
 *
 * save_file.c
 *	  securefile_save(): a value into a file of the server (PostgreSQL: lo_export).
 *
 * The file is made without a name, so that nothing of it is left if the server is killed.  When its
 * data is on the disk, it gets a name that nobody can foresee, and its own name when all of it is:
 *
 *		 (no name)	--write-->	--link-->	.securefile-<random>	--fsync-->	--rename-->	name
 *
 * After that comes the fsync of the directory.  So the name leads to the whole value or to what was
 * there before, whatever fails and whenever the server stops; and no link or FIFO that somebody has
 * put there is written through.  The link comes before the fsync: of a file without a name btrfs
 * flushes the data only.  A file system that has no files without names (NFS) gets the hidden name
 * first.
 *
 * All steps are relative to the directory that was opened and looked at.  A symbolic link cannot
 * lead them elsewhere in between.
 *
 * Zeros that the value does not store are left out, so that the file has holes there.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "io/io.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "sql/server_file.h"
#include "sql/walker.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_save);

/* So much is handed to the disk at a time; so much of it may be on its way. */
#define FLUSH_BYTES			(8 * 1024 * 1024)
#define IN_FLIGHT_BYTES		(4 * FLUSH_BYTES)

typedef struct Save
{
	const char *path;			/* of which the last part is: */
	const char *name;
	bool		overwrite;
	int			directory;		/* -1: it is not open */
	int			fd;				/* -1: it is not open */
	char		hidden[32];		/* the name that nobody can foresee */
	const char *made;			/* its name, which goes when this fails; NULL:
								 * it has none */
	int64		at;				/* place in the file */
	int64		written;		/* end of what was written to it */
	int64		flushed;		/* up to there the disk was told to begin */
} Save;

static Save *active = NULL;		/* in this session; NULL: none */

static void
report_exists(const Save *save)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("server file \"%s\" already exists", save->path),
			 errhint("Use another name, or overwrite => true.")));
}

/* Never throws. */
static void
remove_made(Save *save)
{
	if (save->made != NULL && (SF_FAULT_FAILS(io_file_remove) ||
							   unlinkat(save->directory, save->made, 0) != 0))
		ereport(WARNING,
				(errcode_for_file_access(),
				 errmsg("could not remove \"%s\", which was made for server file \"%s\": %m",
						save->made, save->path)));
	save->made = NULL;
}

/* At the end, at an ERROR, and at the end of the session.  Never throws. */
static void
end_save(Save *save)
{
	active = NULL;
	if (save->fd >= 0)
		(void) close(save->fd);
	remove_made(save);
	if (save->directory >= 0)
		(void) close(save->directory);
	save->fd = save->directory = -1;
	ReleaseExternalFD();
	ReleaseExternalFD();
}

/* The session ends in the middle: no ERROR comes then. */
static void
end_active(int code, Datum arg)
{
	if (active != NULL)
		end_save(active);
}

/*
 * One callback for the process: those of PG_ENSURE_ERROR_CLEANUP() must not have others registered
 * after them, and reading a value may register some.
 */
static void
begin_save(Save *save)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(end_active, (Datum) 0);
	registered = true;
	SF_ASSERT(active == NULL);
	ReserveExternalFD();
	ReserveExternalFD();
	active = save;
}

/* ---- the directory, the name ---- */

/* Split the path, which is absolute: a relative one would mean the server's own directory. */
static char *
directory_of(Save *save)
{
	if (!is_absolute_path(save->path))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("relative path not allowed for securefile_save()")));
	save->name = strrchr(save->path, '/') + 1;
	if (*save->name == '\0' || strcmp(save->name, ".") == 0 || strcmp(save->name, "..") == 0)
		sfi_sql_report_irregular(save->path);
	return pnstrdup(save->path, save->name - save->path);
}

static void
open_directory(Save *save)
{
	char	   *directory = directory_of(save);

	save->directory = SF_FAULT_FAILS(io_file_open) ? -1 :
		openat(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	if (save->directory < 0)
		sfi_sql_report_file("open directory of", save->path, errno);
	if (sf_io_is_inside(save->directory))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is in a directory of the server's own files", save->path)));
}

/* Only a regular file is overwritten, neither a symbolic link nor what it leads to. */
static void
require_name(const Save *save)
{
	struct stat st;

	if (SF_FAULT_FAILS(io_file_stat) ||
		fstatat(save->directory, save->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
	{
		if (errno != ENOENT)
			sfi_sql_report_file("stat", save->path, errno);
		return;
	}
	if (!S_ISREG(st.st_mode))
		sfi_sql_report_irregular(save->path);
	if (!save->overwrite)
		report_exists(save);
}

/* ---- the file ---- */

static void
choose_name(Save *save)
{
	uint64		random;

	CHECK_FOR_INTERRUPTS();
	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	snprintf(save->hidden, sizeof(save->hidden), ".securefile-%016llx",
			 (unsigned long long) random);
}

/* The path by which a file without a name is named: good while it is open. */
static char *
own_path(const Save *save)
{
	return psprintf("/proc/self/fd/%d", save->fd);
}

/* False: the file system has no such files, or (without /proc) none could be named later. */
static bool
make_without_name(Save *save)
{
	save->fd = SF_FAULT_FAILS(io_file_open) ? -1 :
		openat(save->directory, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC | PG_BINARY,
			   S_IRUSR | S_IWUSR);
	if (save->fd < 0)
		return false;
	if (!SF_FAULT_FAILS(io_file_stat) && access(own_path(save), F_OK) == 0)
		return true;
	(void) close(save->fd);
	save->fd = -1;
	return false;
}

/* Only the server may read it, whatever umask says. */
static void
make_file(Save *save)
{
	SF_ASSERT(save->directory >= 0 && save->fd < 0 && save->made == NULL);
	if (make_without_name(save))
		return;
	do
	{
		choose_name(save);
		save->fd = SF_FAULT_FAILS(io_file_open) ? -1 :
			openat(save->directory, save->hidden,
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | PG_BINARY,
				   S_IRUSR | S_IWUSR);
	} while (save->fd < 0 && errno == EEXIST);
	if (save->fd < 0)
		sfi_sql_report_file("create", save->path, errno);
	save->made = save->hidden;
}

/* An error that waiting meets must be reported: no later fsync has it again. */
static void
flush_range(Save *save, int64 from, int64 len, unsigned int how)
{
	if (SF_FAULT_FAILS(io_file_sync) ||
		(enableFsync && sync_file_range(save->fd, from, len, how) != 0 && errno != ENOSYS))
		sfi_sql_report_file("flush", save->path, errno);
}

/*
 * Let the disk begin with what was written, and wait for what it began with some time ago: so the
 * flush at the end, which cannot be cancelled, has little to do.
 */
static void
start_flush(Save *save)
{
	int64		old = save->flushed - IN_FLIGHT_BYTES;

	if (save->written - save->flushed < FLUSH_BYTES)
		return;
	flush_range(save, save->flushed, save->written - save->flushed, SYNC_FILE_RANGE_WRITE);
	if (old > 0)
		flush_range(save, 0, old, SYNC_FILE_RANGE_WAIT_BEFORE);
	save->flushed = save->written;
}

/* How many bytes were written, or an errno that is negative. */
static int32
write_some(Save *save, const char *bytes, int32 len)
{
	len = SF_FAULT_BYTES(io_file_write, len);
	if (len <= 0)
		return len;
	pgstat_report_wait_start(WAIT_EVENT_COPY_FILE_WRITE);
	len = pg_pwrite(save->fd, bytes, len, save->at);
	pgstat_report_wait_end();
	return len < 0 ? -errno : len;
}

static void
write_bytes(Save *save, const char *bytes, int32 len)
{
	SF_ASSERT(save->written <= save->at && save->flushed <= save->written);
	while (len > 0)
	{
		int32		n = write_some(save, bytes, len);

		CHECK_FOR_INTERRUPTS();
		if (n == -EINTR || n == -EAGAIN)
			continue;
		/* a write that stops for no reason given is taken for a full disk */
		if (n <= 0)
			sfi_sql_report_file("write", save->path, n == 0 ? ENOSPC : -n);
		save->at = save->written = save->at + n;
		bytes += n;
		len -= n;
	}
	start_flush(save);
}

/* Zeros at the end have nothing behind them that would make the file as long. */
static void
write_value(Save *save, Datum value)
{
	SfSqlWalk	walk;
	SfSqlPart	part;

	sfi_sql_walk_begin(&walk, value);
	walk.bytes_are = SF_SQL_RETURNED;
	while (sfi_sql_walk_next(&walk, &part))
	{
		if (part.bytes == NULL)
			save->at += part.length;
		else
			write_bytes(save, part.bytes, part.length);
	}
	sfi_sql_walk_end(&walk);
	if (save->at > save->written &&
		(SF_FAULT_FAILS(io_file_write) || ftruncate(save->fd, save->at) != 0))
		sfi_sql_report_file("set the length of", save->path, errno);
}

/* ---- its name ---- */

/* The hidden one, unless it has it. */
static void
name_file(Save *save)
{
	bool		named = save->made != NULL;

	while (!named)
	{
		choose_name(save);
		named = !SF_FAULT_FAILS(io_file_place) &&
			linkat(AT_FDCWD, own_path(save), save->directory, save->hidden, AT_SYMLINK_FOLLOW) == 0;
		if (!named && errno != EEXIST)
			sfi_sql_report_file("name", save->path, errno);
	}
	save->made = save->hidden;
}

/* All of it is on the disk after this.  The data goes there while the file has no name. */
static void
flush_file(Save *save)
{
	flush_range(save, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				SYNC_FILE_RANGE_WAIT_AFTER);
	name_file(save);
	if (SF_FAULT_FAILS(io_file_sync) || pg_fsync(save->fd) != 0)
		sfi_sql_report_file("fsync", save->path, errno);
}

/* A second name, and the first one goes. */
static bool
link_file(Save *save)
{
	if (SF_FAULT_FAILS(io_file_place) ||
		linkat(save->directory, save->hidden, save->directory, save->name, 0) != 0)
		return false;
	remove_made(save);
	return true;
}

/* False with errno: it was not done.  Some file systems cannot rename without replacing. */
static bool
rename_file(Save *save)
{
	if (!SF_FAULT_FAILS(io_file_place) &&
		renameat2(save->directory, save->hidden, save->directory, save->name,
				  save->overwrite ? 0 : RENAME_NOREPLACE) == 0)
		return true;
	return !save->overwrite && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) &&
		link_file(save);
}

/* What has replaced another file stays, even if nobody knows whether it would outlive a crash. */
static void
place_file(Save *save)
{
	SF_ASSERT(save->made == save->hidden && save->at >= save->written);
	if (!rename_file(save))
	{
		if (errno == EEXIST)
			report_exists(save);
		sfi_sql_report_file("rename", save->path, errno);
	}
	save->made = save->overwrite ? NULL : save->name;
	if (SF_FAULT_FAILS(io_file_sync) ||
		(pg_fsync(save->directory) != 0 && errno != EINVAL && errno != EBADF))
		sfi_sql_report_file("fsync directory of", save->path, errno);
	save->made = NULL;
}

static void
save_value(Save *save, Datum value)
{
	open_directory(save);
	require_name(save);
	make_file(save);
	write_value(save, value);
	flush_file(save);
	place_file(save);
}

Datum
securefile_save(PG_FUNCTION_ARGS)
{
	Save		save = {.directory = -1, .fd = -1};

	sfi_sql_require_server_role(ROLE_PG_WRITE_SERVER_FILES, "pg_write_server_files",
								"securefile_save()");
	save.path = text_to_cstring(PG_GETARG_TEXT_PP(1));
	save.overwrite = PG_GETARG_BOOL(2);
	begin_save(&save);
	PG_TRY();
	{
		save_value(&save, PG_GETARG_DATUM(0));
	}
	PG_FINALLY();
	{
		end_save(&save);
	}
	PG_END_TRY();
	PG_RETURN_INT64(save.at);
}
