/*-------------------------------------------------------------------------
 *
 * paths.c
 *	  Where the files of a segment lie, and single steps on a path.
 *
 * In the default tablespace, pg_default:
 *	  pg_securefile/1663/<db>/<relfilenumber>/<name>
 * In any other, below the tablespace and there in the directory of the
 * database, so that DROP TABLESPACE, DROP DATABASE and backups see them:
 *	  pg_tblspc/<spc>/<version directory>/<db>/pg_securefile/<relfilenumber>/<name>/pg_filenode.map
 *
 * There each file has a directory of its own, for its name decides what tools
 * do: pg_basebackup and pg_checksums of 15 and 16 take any file below a
 * tablespace for pages with checksums (pg_checksums --enable writes into them)
 * but for a few names.  Of those pg_filenode.map is the one that is backed up,
 * and copied by pg_rewind, all the same.
 *
 * Paths are relative to PGDATA, the working directory of every server process, and at
 * most SF_IO_PATH_MAX long: they are made in buffers on the stack, also where nothing may
 * throw.  The longest is that of a file in a tablespace other than pg_default.
 *
 * A path is made of three OIDs and a file name, and of nothing that has to be looked up.
 * So redo, which has no catalog, makes the same paths, and scan.c finds the OIDs of a
 * segment in the names of its directories.
 *
 * The steps at the end of this file are those that several files of the room need: one
 * system call each, behind its fault point.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "catalog/pg_tablespace_d.h"
#include "common/file_utils.h"
#include "common/relpath.h"
#include "io/io_internal.h"
#include "storage/fd.h"

#define NAME_IN_TABLESPACE	"pg_filenode.map"

static void append_to_path(char *path, const char *format, ...) pg_attribute_printf(2, 3);

/*
 * Add to a path in a buffer of SF_IO_PATH_MAX bytes.  A path that was cut short would be
 * that of another file; the parts are OIDs and short names, so it cannot happen, and the
 * assertion says so if a longer name comes.
 */

static void
append_to_path(char *path, const char *format, ...)
{
	size_t		len = strlen(path);
	va_list		args;

	va_start(args, format);
	(void) vsnprintf(path + len, SF_IO_PATH_MAX - len, format, args);
	va_end(args);
	SF_ASSERT(strlen(path) > len && strlen(path) < SF_IO_PATH_MAX - 1);
}

/*
 * pg_default lies in base/, but these files do not: they have pg_securefile/ for
 * themselves, where no tool looks for pages with checksums.
 */
bool
sfi_io_has_entry_directories(SfStorage storage)
{
	return SfStorageSpc(storage) != DEFAULTTABLESPACE_OID;
}

/*
 * A tablespace has one directory for each version of the server, so that pg_upgrade can
 * have both of them in it.
 */
void
sfi_io_space_path(char *buf, Oid spc)
{
	/* shared relations have no columns with data files */
	SF_ASSERT(OidIsValid(spc) && spc != GLOBALTABLESPACE_OID);
	if (spc == DEFAULTTABLESPACE_OID)
		snprintf(buf, SF_IO_PATH_MAX, "%s/%u", SF_IO_ROOT, spc);
	else
		snprintf(buf, SF_IO_PATH_MAX, "%s/%u/%s", SF_IO_TABLESPACES, spc,
				 TABLESPACE_VERSION_DIRECTORY);
}

/*
 * Below a tablespace the database's directory is the server's, which removes it with all
 * that is in it when the database is dropped; in it, one directory is securefile's.
 */
void
sfi_io_database_path(char *buf, Oid spc, Oid db)
{
	SF_ASSERT(OidIsValid(db));
	sfi_io_space_path(buf, spc);
	append_to_path(buf, "/%u", db);
	if (spc != DEFAULTTABLESPACE_OID)
		append_to_path(buf, "/%s", SF_IO_ROOT);
}

/* The server makes a directory of that name in tablespaces, too, and empties it at start. */
void
sfi_io_scratch_directory(char *buf, Oid spc)
{
	sfi_io_space_path(buf, spc);
	append_to_path(buf, "/%s", PG_TEMP_FILES_DIR);
}

void
sfi_io_dir_path(char *buf, SfStorage storage)
{
	SF_ASSERT(OidIsValid(SfStorageRel(storage)));
	sfi_io_database_path(buf, SfStorageSpc(storage), SfStorageDb(storage));
	append_to_path(buf, "/%u", SfStorageRel(storage));
}

/* A name with a slash in it would leave the segment's directory. */
void
sfi_io_entry_path(char *buf, SfStorage storage, const char *name)
{
	SF_ASSERT(name[0] != '\0' && strchr(name, '/') == NULL && strlen(name) < SF_IO_NAME_MAX);
	sfi_io_dir_path(buf, storage);
	append_to_path(buf, "/%s", name);
}

void
sf_io_named_path(char *buf, SfStorage storage, const char *name)
{
	sfi_io_entry_path(buf, storage, name);
	if (sfi_io_has_entry_directories(storage))
		append_to_path(buf, "/%s", NAME_IN_TABLESPACE);
}

/* Eight digits, so that a list in the order of names is in the order of the files. */
void
sfi_io_file_entry(char *buf, SfFileId file)
{
	char		name[SF_IO_NAME_MAX];

	SF_ASSERT(file.fileno <= SF_MAX_SECTORS / SF_FILE_SECTORS);
	snprintf(name, sizeof(name), "seg-%08u.sf", file.fileno);
	sfi_io_entry_path(buf, file.storage, name);
}

void
sfi_io_file_path(char *buf, SfFileId file)
{
	if (sfi_io_is_scratch(file.storage))
	{
		sfi_io_scratch_directory(buf, SfStorageSpc(file.storage));
		append_to_path(buf, "/%s%u", SF_IO_SCRATCH, SfStorageRel(file.storage));
		return;
	}
	sfi_io_file_entry(buf, file);
	if (sfi_io_has_entry_directories(file.storage))
		append_to_path(buf, "/%s", NAME_IN_TABLESPACE);
}

char *
sf_io_files_pattern(SfStorage storage)
{
	char	   *path = palloc(SF_IO_PATH_MAX);

	sf_io_named_path(path, storage, "seg-*.sf");
	return path;
}

/* ---- one system call on a path, and what is said when it fails ---- */

/*
 * errno is read first: ereport() evaluates what follows after calls that may change it.
 * A full disk has a SQLSTATE and a hint of its own, whichever call met it.
 */
void
sf_io_report_path(int elevel, const char *what, const char *path)
{
	int			error = errno;

	SF_ASSERT(error != 0 && elevel >= WARNING);
	ereport(elevel,
			(sfi_io_errcode(error),
			 errmsg("could not %s \"%s\": %m", what, path),
			 sfi_io_errhint(error)));
}

void
sfi_io_report_transfer(SfFileId file, bool is_write, bool durable, uint64 file_offset,
					   uint32 len_bytes, int error)
{
	char		path[SF_IO_PATH_MAX];
	unsigned long long at = file_offset;
	bool		unknown = durable && error == EIO && !sfi_io_is_scratch(file.storage);

	SF_ASSERT(error != 0 || is_write);
	sfi_io_file_path(path, file);
	if (error == 0)
		error = ENOSPC;
	errno = error;
	ereport(unknown ? data_sync_elevel(ERROR) : ERROR,
			(sfi_io_errcode(error),
			 is_write
			 ? errmsg("could not write segment data file \"%s\" at offset %llu, length %u: %m",
					  path, at, len_bytes)
			 : errmsg("could not read segment data file \"%s\" at offset %llu, length %u: %m",
					  path, at, len_bytes),
			 error == EINVAL
			 ? errhint("If the file system does not support direct I/O, set securefile.direct_io to off.")
			 : sfi_io_errhint(error)));
	pg_unreachable();
}

/* For what was found in the place of a data file. */
void
sfi_io_report_irregular(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("segment data file \"%s\" is not a regular file", path)));
}

/* stat(), not lstat(): a directory may be a link to another disk, as those of the server may. */
bool
sfi_io_look(const char *path, struct stat *st)
{
	return !SF_FAULT_FAILS(io_stat) && stat(path, st) == 0;
}

/* Only ENOENT is "missing"; of anything else nobody knows what is there. */
bool
sfi_io_find(const char *path, int elevel, struct stat *st)
{
	if (sfi_io_look(path, st))
		return true;
	if (errno != ENOENT)
		sf_io_report_path(elevel, "stat file", path);
	return false;
}

int64
sf_io_path_size(const char *path, int elevel)
{
	struct stat st;

	return sfi_io_find(path, elevel, &st) ? (int64) st.st_size : -1;
}

/*
 * rmdir() itself finds out whether the directory is empty.  A look before it would be of
 * no use, for another process may put something there in between.
 */
int
sfi_io_remove_if_empty(const char *path)
{
	return SF_FAULT_FAILS(io_rmdir) ? -1 : rmdir(path);
}

int
sfi_io_try_mkdir(const char *path)
{
	return SF_FAULT_FAILS(io_mkdir) ? -1 : MakePGDirectory(path);
}

/* Another process may make it at the same time: that is as good. */
void
sfi_io_make_one_directory(const char *path)
{
	if (sfi_io_try_mkdir(path) != 0 && errno != EEXIST)
		sf_io_report_path(ERROR, "create directory", path);
}

bool
sfi_io_unlink(const char *path, int elevel)
{
	if ((!SF_FAULT_FAILS(io_unlink) && unlink(path) == 0) || errno == ENOENT)
		return true;
	sf_io_report_path(elevel, "remove file", path);
	return false;
}

/*
 * By hand, not by the server's fsync_fname(): that throws, and this one is called after
 * a commit and in redo of a drop, where a WARNING is the most that may happen.
 */
bool
sfi_io_sync_directory(const char *path)
{
	int			fd = SF_FAULT_FAILS(io_sync_dir) ? -1 : BasicOpenFile(path, O_RDONLY | O_CLOEXEC);
	bool		ok = fd >= 0 && !SF_FAULT_FAILS(io_sync_dir) && pg_fsync(fd) == 0;
	int			error = errno;

	/*
	 * The caller wants to know why the flush failed; close() may set errno
	 * anew.
	 */
	if (fd >= 0)
		(void) close(fd);
	errno = error;
	return ok;
}

/* The name of a directory stands in its parent: that is what has to be flushed. */
bool
sfi_io_remove_directory(const char *path, bool may_be_used)
{
	char		parent[SF_IO_PATH_MAX];

	SF_ASSERT(strlen(path) < SF_IO_PATH_MAX);
	if (sfi_io_remove_if_empty(path) != 0)
	{
		if (errno == ENOENT)
			return true;
		if (!may_be_used || (errno != ENOTEMPTY && errno != EEXIST))
			sf_io_report_path(WARNING, "remove directory", path);
		return false;
	}
	strlcpy(parent, path, sizeof(parent));
	get_parent_directory(parent);
	/* the parent may be gone by now, too: then there is no name left to flush */
	if (!sfi_io_sync_directory(parent) && errno != ENOENT)
		sf_io_report_path(WARNING, "fsync directory", parent);
	return true;
}

/* The fault has the server's own words: it stands for a failure in fsync_fname(). */
void
sf_io_require_directory_synced(const char *path)
{
	if (SF_FAULT_FAILS(io_sync_dir))
		sf_io_report_path(data_sync_elevel(ERROR), "fsync file", path);
	fsync_fname(path, true);
}

void
sfi_io_make_file_entry(SfFileId file)
{
	char		path[SF_IO_PATH_MAX];

	if (sfi_io_is_scratch(file.storage) || !sfi_io_has_entry_directories(file.storage))
		return;
	sfi_io_file_entry(path, file);

	/*
	 * ENOENT: the open that comes next meets it again, and its caller may
	 * expect it.
	 */
	if (sfi_io_try_mkdir(path) != 0 && errno != EEXIST && errno != ENOENT)
		sf_io_report_path(ERROR, "create directory", path);
}
