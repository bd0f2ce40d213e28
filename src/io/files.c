/*-------------------------------------------------------------------------
 *
 * files.c
 *	  Life of the data files: paths, create, cut, unlink, scan.
 *
 * Creation is durable when it returns, removal when it can be: a file that
 * comes back after a power cut belongs to no segment, and the sweeper finds
 * it.  What runs after a commit (unlink) reports WARNINGs only, and uses
 * nothing of the server that might throw.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io_internal.h"
#include "nodes/pg_list.h"
#include "storage/fd.h"

/* ---- paths ---- */

void
sf_io_dir_path(char *buf, SfNode node)
{
	snprintf(buf, SF_IO_PATH_MAX, "%s/%u/%u/%u", SF_IO_ROOT,
			 SfNodeSpc(node), SfNodeDb(node), SfNodeRel(node));
}

void
sf_io_file_path(char *buf, SfNode node, uint32 fileno)
{
	snprintf(buf, SF_IO_PATH_MAX, "%s/%u/%u/%u/seg-%08u.sf", SF_IO_ROOT,
			 SfNodeSpc(node), SfNodeDb(node), SfNodeRel(node), fileno);
}

char *
sf_io_files_pattern(SfNode node)
{
	return psprintf("%s/%u/%u/%u/seg-*.sf", SF_IO_ROOT,
					SfNodeSpc(node), SfNodeDb(node), SfNodeRel(node));
}

/* ---- sizes ---- */

int64
sf_io_file_size(SfNode node, uint32 fileno)
{
	char		path[SF_IO_PATH_MAX];
	struct stat st;

	sf_io_file_path(path, node, fileno);
	if (stat(path, &st) == 0)
		return (int64) st.st_size;
	if (errno != ENOENT)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat segment data file \"%s\": %m", path)));
	return -1;
}

bool
sf_io_files_exist(SfNode node)
{
	char		path[SF_IO_PATH_MAX];
	struct stat st;

	sf_io_dir_path(path, node);
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

uint64
sf_io_files_size(SfNode node)
{
	uint64		total = 0;
	int64		size;

	for (uint32 n = 0; (size = sf_io_file_size(node, n)) >= 0; n++)
		total += (uint64) size;
	return total;
}

void
sf_io_files_require(SfNode node, uint64 to_bytes)
{
	for (uint32 n = 0; (uint64) n * SF_FILE_SIZE < to_bytes; n++)
	{
		uint64		want = Min(to_bytes - (uint64) n * SF_FILE_SIZE, SF_FILE_SIZE);
		int64		have = sf_io_file_size(node, n);
		char		path[SF_IO_PATH_MAX];

		if (have >= 0 && (uint64) have >= want)
			continue;
		sf_io_file_path(path, node, n);
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 have < 0 ? errmsg("segment data file \"%s\" is missing", path)
				 : errmsg("segment data file \"%s\" is too short", path),
				 errdetail("It should have %llu bytes.", (unsigned long long) want),
				 errhint("Move, link or copy all of \"%s\" from the old data directory.", SF_IO_ROOT)));
	}
}

/* ---- removing, without throwing ---- */

void
sf_io_report_path(int elevel, const char *what, const char *path)
{
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not %s \"%s\": %m", what, path)));
}

/*
 * Shorten a file to nothing, then unlink it: space comes back at once even
 * while another process has it open.  Not one with another name: that may be in
 * a cluster which pg_upgrade has made this one from.  Missing is fine.
 */
static bool
remove_file(const char *path)
{
	struct stat st;

	if (SF_FAULT_IO(io_unlink) != SF_FAULT_NONE)
	{
		errno = EIO;
		sf_io_report_path(WARNING, "remove segment data file", path);
		return false;
	}
	if (stat(path, &st) == 0 && st.st_nlink == 1 && truncate(path, 0) != 0)
		sf_io_report_path(WARNING, "truncate segment data file", path);
	if (unlink(path) != 0 && errno != ENOENT)
	{
		sf_io_report_path(WARNING, "remove segment data file", path);
		return false;
	}
	return true;
}

/*
 * Remove all files in a directory.  Not AllocateDir(), which throws when it
 * runs out of its slots.
 */
static bool
empty_directory(const char *dir_path)
{
	DIR		   *dir = opendir(dir_path);
	struct dirent *entry;
	bool		ok = true;

	if (dir == NULL)
	{
		if (errno == ENOENT)
			return true;
		sf_io_report_path(WARNING, "open directory", dir_path);
		return false;
	}
	while (errno = 0, (entry = readdir(dir)) != NULL)
	{
		char		path[MAXPGPATH];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir_path, entry->d_name);
		ok = remove_file(path) && ok;
	}
	if (errno != 0)
	{
		sf_io_report_path(WARNING, "read directory", dir_path);
		ok = false;
	}
	(void) closedir(dir);
	return ok;
}

/* Remove an empty directory and make that durable; WARNINGs only. */
static void
remove_directory(const char *path, const char *parent)
{
	int			fd;

	if (rmdir(path) != 0)
	{
		if (errno != ENOENT)
			sf_io_report_path(WARNING, "remove directory", path);
		return;
	}
	fd = BasicOpenFile(parent, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pg_fsync(fd) != 0)
		sf_io_report_path(WARNING, "fsync directory", parent);
	if (fd >= 0)
		(void) close(fd);
}

void
sf_io_files_unlink(SfNode node)
{
	char		path[SF_IO_PATH_MAX];
	char		parent[SF_IO_PATH_MAX];

	sf_io_close(node);
	sf_io_dir_path(path, node);
	snprintf(parent, sizeof(parent), "%s/%u/%u", SF_IO_ROOT,
			 SfNodeSpc(node), SfNodeDb(node));
	if (empty_directory(path))
		remove_directory(path, parent);
}

void
sf_io_kept_path(char *buf, SfNode node)
{
	char		dir[SF_IO_PATH_MAX];

	sf_io_dir_path(dir, node);
	snprintf(buf, MAXPGPATH, "%s/kept", dir);
}

void
sf_io_pages_path(char *buf, SfNode node, uint32 extent)
{
	char		dir[SF_IO_PATH_MAX];

	sf_io_dir_path(dir, node);
	if (extent == 0)
		snprintf(buf, MAXPGPATH, "%s/pages", dir);
	else
		snprintf(buf, MAXPGPATH, "%s/pages.%u", dir, extent);
}

void
sf_io_pages_remove(SfNode node)
{
	char		path[MAXPGPATH];
	struct stat st;

	for (uint32 extent = 0; sf_io_pages_path(path, node, extent), stat(path, &st) == 0; extent++)
	{
		if (unlink(path) != 0)
			sf_io_report_path(WARNING, "remove file", path);
	}
}

/* ---- creating ---- */

/*
 * Make one directory, and make its name durable even if it is there already:
 * who made it may not have come to that yet.
 */
static void
make_one_directory(const char *path, const char *parent)
{
	if (MakePGDirectory(path) != 0 && errno != EEXIST)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", path)));
	fsync_fname(parent, true);
}

void
sf_io_make_root(void)
{
	make_one_directory(SF_IO_ROOT, ".");
}

void
sf_io_make_directory(SfNode node)
{
	char		spc_path[SF_IO_PATH_MAX];
	char		db_path[SF_IO_PATH_MAX];
	char		path[SF_IO_PATH_MAX];

	snprintf(spc_path, sizeof(spc_path), "%s/%u", SF_IO_ROOT, SfNodeSpc(node));
	snprintf(db_path, sizeof(db_path), "%s/%u/%u", SF_IO_ROOT,
			 SfNodeSpc(node), SfNodeDb(node));
	sf_io_dir_path(path, node);

	sf_io_make_root();
	sf_io_database_require_own(SfNodeDb(node));
	make_one_directory(spc_path, SF_IO_ROOT);
	make_one_directory(db_path, spc_path);
	make_one_directory(path, db_path);
}

void
sf_io_files_create(SfNode node)
{
	char		path[SF_IO_PATH_MAX];

	sf_io_fd_close_all(node);
	sf_io_dir_path(path, node);
	if (!empty_directory(path))
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not empty left-over directory \"%s\"", path),
				 errdetail("Warnings before this message tell the reason.")));
	sf_io_make_directory(node);
	sf_io_fd_sync(sf_io_fd_get(node, 0, sf_direct_io, SF_FD_CREATE), true);
	fsync_fname(path, true);
}

/* ---- cutting ---- */

/* errno of an armed fault point, or the result of truncate(). */
static int
truncate_file(const char *path, uint64 size_bytes)
{
	if (SF_FAULT_IO(io_truncate) != SF_FAULT_NONE)
	{
		errno = EIO;
		return -1;
	}
	return truncate(path, (off_t) size_bytes);
}

bool
sf_io_cut_files(SfNode node, uint64 size_bytes, int elevel)
{
	char		path[SF_IO_PATH_MAX];
	uint32		keep = (size_bytes == 0) ? 1 : sf_io_fileno(size_bytes - 1) + 1;
	uint64		last_size = size_bytes - (uint64) (keep - 1) * SF_FILE_SIZE;
	uint32		nfiles = keep;
	struct stat st;

	/* descriptors of files that go would keep them alive without a name */
	sf_io_fd_close_all(node);

	while (sf_io_file_path(path, node, nfiles), stat(path, &st) == 0)
		nfiles++;
	while (nfiles > keep)
	{
		sf_io_file_path(path, node, --nfiles);
		if (!remove_file(path))
		{
			if (elevel >= ERROR)
				ereport(elevel,
						(errcode(ERRCODE_IO_ERROR),
						 errmsg("could not cut off segment data file \"%s\"", path)));
			return false;
		}
	}

	sf_io_file_path(path, node, keep - 1);
	if (stat(path, &st) == 0 && (uint64) st.st_size <= last_size)
		return true;
	if (truncate_file(path, last_size) == 0 || errno == ENOENT)
		return true;
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not truncate segment data file \"%s\" to %llu bytes: %m",
					path, (unsigned long long) last_size)));
	return false;
}

void
sf_io_files_truncate(SfNode node, uint64 size_bytes)
{
	char		path[SF_IO_PATH_MAX];
	uint32		last = (size_bytes == 0) ? 0 : sf_io_fileno(size_bytes - 1);

	(void) sf_io_cut_files(node, size_bytes, ERROR);
	sf_io_fd_sync(sf_io_fd_get(node, last, sf_direct_io, 0), true);
	sf_io_dir_path(path, node);
	fsync_fname(path, true);
}

/* ---- all files of a database ---- */

/*
 * Entries of a directory whose names are OIDs; NIL when it is missing.
 * Failures are reported at elevel.
 */
static List *
list_oids(const char *path, int elevel)
{
	List	   *oids = NIL;
	DIR		   *dir = AllocateDir(path);
	struct dirent *entry;

	if (dir == NULL && errno == ENOENT)
		return NIL;
	while ((entry = ReadDirExtended(dir, path, elevel)) != NULL)
	{
		unsigned long value;
		char	   *end;

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		errno = 0;
		value = strtoul(entry->d_name, &end, 10);
		if (*end == '\0' && errno == 0 && value > 0 && value <= OID_MAX)
			oids = lappend_oid(oids, (Oid) value);
	}
	if (dir != NULL)
		FreeDir(dir);
	return oids;
}

/* Nodes of one database in one tablespace, appended to a list of palloc'd. */
static List *
list_nodes(List *nodes, Oid spc, Oid db, int elevel)
{
	char		path[SF_IO_PATH_MAX];
	List	   *rels;
	ListCell   *lc;

	snprintf(path, sizeof(path), "%s/%u/%u", SF_IO_ROOT, spc, db);
	rels = list_oids(path, elevel);
	foreach(lc, rels)
	{
		SfNode	   *node = palloc0(sizeof(SfNode));

		SfNodeSpc(*node) = spc;
		SfNodeDb(*node) = db;
		SfNodeRel(*node) = lfirst_oid(lc);
		nodes = lappend(nodes, node);
	}
	list_free(rels);
	return nodes;
}

void
sf_io_database_unlink(Oid db)
{
	List	   *spcs = list_oids(SF_IO_ROOT, WARNING);
	ListCell   *lc;

	foreach(lc, spcs)
	{
		char		spc_path[SF_IO_PATH_MAX];
		char		path[SF_IO_PATH_MAX];
		List	   *nodes = list_nodes(NIL, lfirst_oid(lc), db, WARNING);
		ListCell   *nc;

		foreach(nc, nodes)
			sf_io_files_unlink(*(SfNode *) lfirst(nc));
		list_free_deep(nodes);

		snprintf(spc_path, sizeof(spc_path), "%s/%u", SF_IO_ROOT, lfirst_oid(lc));
		snprintf(path, sizeof(path), "%s/%u/%u", SF_IO_ROOT, lfirst_oid(lc), db);
		remove_directory(path, spc_path);
	}
	list_free(spcs);
	sf_io_database_forget_own(db);
}

bool
sf_io_database_has_files(Oid db)
{
	List	   *spcs = list_oids(SF_IO_ROOT, ERROR);
	ListCell   *lc;
	bool		found = false;

	foreach(lc, spcs)
	{
		char		path[SF_IO_PATH_MAX];

		snprintf(path, sizeof(path), "%s/%u/%u", SF_IO_ROOT, lfirst_oid(lc), db);
		found = found || list_oids(path, ERROR) != NIL;
	}
	list_free(spcs);
	return found;
}

void
sf_io_scan(Oid db, SfIoScanFn fn, void *arg)
{
	List	   *spcs = list_oids(SF_IO_ROOT, ERROR);
	List	   *nodes = NIL;
	ListCell   *lc;

	/* first collect, then call: fn may remove what it is shown */
	foreach(lc, spcs)
	{
		char		path[SF_IO_PATH_MAX];
		List	   *dbs;
		ListCell   *dc;

		snprintf(path, sizeof(path), "%s/%u", SF_IO_ROOT, lfirst_oid(lc));
		dbs = OidIsValid(db) ? list_make1_oid(db) : list_oids(path, ERROR);
		foreach(dc, dbs)
			nodes = list_nodes(nodes, lfirst_oid(lc), lfirst_oid(dc), ERROR);
		list_free(dbs);
	}
	foreach(lc, nodes)
		fn(*(SfNode *) lfirst(lc), arg);
	list_free_deep(nodes);
	list_free(spcs);
}
