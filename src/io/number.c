/*-------------------------------------------------------------------------
 *
 * number.c
 *	  Files of pg_securefile that hold one number.
 *
 * Written anew and renamed, so that there is always an old or a new one.  With
 * elevel WARNING nothing here throws: writing may come after a commit.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "io/io_internal.h"
#include "miscadmin.h"
#include "storage/fd.h"

bool
sf_io_number_read(const char *path, uint64 *number, int elevel)
{
	char		text[32] = {0};
	int			fd = SF_FAULT_FAILS(io_number_read) ? -1 :
		BasicOpenFile(path, O_RDONLY | O_CLOEXEC | PG_BINARY);
	ssize_t		len;
	char	   *end;

	if (fd < 0)
	{
		if (errno != ENOENT)
			sf_io_report_path(elevel, "open file", path);
		return false;
	}
	len = read(fd, text, sizeof(text) - 1);
	(void) close(fd);
	*number = strtoull(text, &end, 10);
	if (len > 0 && end != text && *end == '\n')
		return true;
	ereport(elevel,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("file \"%s\" does not hold a number", path)));
	return false;
}

void
sf_io_number_write(const char *path, uint64 number, int elevel)
{
	char		new_path[SF_IO_PATH_MAX];
	char		text[32];
	int			len = snprintf(text, sizeof(text), UINT64_FORMAT "\n", number);
	int			fd;
	bool		ok;

	/* another process may be at the same */
	snprintf(new_path, sizeof(new_path), "%s.new.%d", path, MyProcPid);
	fd = BasicOpenFile(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | PG_BINARY);
	ok = fd >= 0 && !SF_FAULT_FAILS(io_number_write) &&
		write(fd, text, len) == len && pg_fsync(fd) == 0;
	if (fd >= 0)
		ok = close(fd) == 0 && ok;
	if (!ok || SF_FAULT_FAILS(io_rename) || rename(new_path, path) != 0 ||
		!sf_io_sync_directory(SF_IO_ROOT))
		sf_io_report_path(elevel, "write file", path);
}
