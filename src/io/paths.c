/*-------------------------------------------------------------------------
 *
 * paths.c
 *	  Where the files of a segment lie.
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
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "io/io_internal.h"

#define NAME_IN_TABLESPACE	"pg_filenode.map"

static void append(char *path, const char *format, ...) pg_attribute_printf(2, 3);

static void
append(char *path, const char *format, ...)
{
	size_t		len = strlen(path);
	va_list		args;

	va_start(args, format);
	(void) vsnprintf(path + len, SF_IO_PATH_MAX - len, format, args);
	va_end(args);
}

bool
sfi_io_has_entry_directories(SfStorage storage)
{
	return SfStorageSpc(storage) != DEFAULTTABLESPACE_OID;
}

void
sfi_io_space_path(char *buf, Oid spc)
{
	if (spc == DEFAULTTABLESPACE_OID)
		snprintf(buf, SF_IO_PATH_MAX, "%s/%u", SF_IO_ROOT, spc);
	else
		snprintf(buf, SF_IO_PATH_MAX, "%s/%u/%s", SF_IO_TABLESPACES, spc,
				 TABLESPACE_VERSION_DIRECTORY);
}

void
sfi_io_database_path(char *buf, Oid spc, Oid db)
{
	sfi_io_space_path(buf, spc);
	append(buf, "/%u", db);
	if (spc != DEFAULTTABLESPACE_OID)
		append(buf, "/%s", SF_IO_ROOT);
}

void
sfi_io_dir_path(char *buf, SfStorage storage)
{
	sfi_io_database_path(buf, SfStorageSpc(storage), SfStorageDb(storage));
	append(buf, "/%u", SfStorageRel(storage));
}

void
sfi_io_entry_path(char *buf, SfStorage storage, const char *name)
{
	sfi_io_dir_path(buf, storage);
	append(buf, "/%s", name);
}

void
sf_io_named_path(char *buf, SfStorage storage, const char *name)
{
	sfi_io_entry_path(buf, storage, name);
	if (sfi_io_has_entry_directories(storage))
		append(buf, "/%s", NAME_IN_TABLESPACE);
}

void
sfi_io_file_name(char *buf, uint32 fileno)
{
	snprintf(buf, SF_IO_NAME_MAX, "seg-%08u.sf", fileno);
}

void
sfi_io_file_path(char *buf, SfStorage storage, uint32 fileno)
{
	char		name[SF_IO_NAME_MAX];

	sfi_io_file_name(name, fileno);
	sf_io_named_path(buf, storage, name);
}

char *
sf_io_files_pattern(SfStorage storage)
{
	char	   *path = palloc(SF_IO_PATH_MAX);

	sf_io_named_path(path, storage, "seg-*.sf");
	return path;
}
