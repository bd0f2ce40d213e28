/*-------------------------------------------------------------------------
 *
 * inside.c
 *	  Which directories hold files of the server, so that no file of a user gets there.
 *
 * A path says little about where it leads: symbolic links, "..", and mounts of a directory at a
 * second place give the same directory many names.  So it is the directory itself that is looked
 * at, when it is open, and what is above it: by the numbers of device and inode.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "io/io_internal.h"
#include "miscadmin.h"

/* Besides the tablespaces; relative to PGDATA.  Some may be links to elsewhere, as pg_wal. */
static const char *const of_the_server[] = {
	SF_IO_ROOT, "base", "global", "pg_commit_ts", "pg_dynshmem", "pg_logical", "pg_multixact",
	"pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat", "pg_stat_tmp",
	"pg_subtrans", "pg_tblspc", "pg_twophase", "pg_wal", "pg_xact"
};

typedef struct Place
{
	dev_t		device;
	ino_t		inode;
} Place;

static bool
is_same(Place a, Place b)
{
	return a.device == b.device && a.inode == b.inode;
}

/* What a path leads to, from an open directory on; false: to nothing. */
static bool
look_at(int directory, const char *path, Place *place)
{
	struct stat st;

	if (SF_FAULT_FAILS(io_stat) || fstatat(directory, path, &st, 0) != 0)
	{
		if (errno != ENOENT)
			sf_io_report_path(ERROR, "stat directory", path);
		return false;
	}
	*place = (Place) {st.st_dev, st.st_ino};
	return true;
}

/* Those that are there; palloc'd. */
static int
list_places(Place **places)
{
	List	   *spaces = sfi_io_list_spaces(ERROR);
	ListCell   *lc;
	char		path[SF_IO_PATH_MAX];
	int			n = 0;

	*places = palloc((lengthof(of_the_server) + list_length(spaces)) * sizeof(Place));
	for (int i = 0; i < lengthof(of_the_server); i++)
		n += look_at(AT_FDCWD, of_the_server[i], &(*places)[n]);
	foreach(lc, spaces)
	{
		sfi_io_space_path(path, lfirst_oid(lc));
		n += look_at(AT_FDCWD, path, &(*places)[n]);
	}
	return n;
}

/* The root is the directory that is its own parent. */
bool
sf_io_is_inside(int directory)
{
	char		path[MAXPGPATH] = ".";
	Place	   *places;
	int			nplaces = list_places(&places);
	Place		at;
	Place		above;

	SF_ASSERT(directory >= 0 && nplaces > 0);
	if (!look_at(directory, path, &at))
		return false;
	for (;;)
	{
		for (int i = 0; i < nplaces; i++)
			if (is_same(at, places[i]))
				return true;
		if (strlcat(path, "/..", sizeof(path)) >= sizeof(path))
			ereport(ERROR,
					(errcode(ERRCODE_NAME_TOO_LONG),
					 errmsg("directory lies too deep in its file system")));
		if (!look_at(directory, path, &above) || is_same(at, above))
			return false;
		at = above;
	}
}
