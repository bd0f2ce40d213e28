/*-------------------------------------------------------------------------
 *
 * files.c
 *	  Life of the data files: create, cut, unlink.
 *
 * Creation is durable when it returns: what is logged next relies on the files.
 * Removal is made durable as far as that goes, and for many segments at once: a file that
 * comes back after a power cut belongs to no segment, and the sweeper finds
 * it.  What runs after a commit (unlink) reports WARNINGs only, and uses
 * nothing of the server that might throw.
 *
 * What a crash can leave, and what deals with it:
 *
 *		 a directory without its first file			creation begins with clearing it
 *		 files of a segment that nobody committed	the sweep (space/storage.c)
 *		 a file longer than the header page says	the next growth writes over its end
 *		 a file shorter than it says				redo of growth fills it up
 *		 names that were removed and came back		the sweep
 *
 * A name is durable when its directory has been flushed, and that of the directory when
 * the one above it has been: so making a segment flushes upward.
 *
 * No function here takes a lock.  The lock of the segment, or its number, which nobody
 * knows yet or any more, keeps others away from its files.  The directories above are
 * shared by all segments of a database; they may come and go at any time, and the
 * functions that make them expect that.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlogutils.h"
#include "catalog/pg_tablespace_d.h"
#include "commands/tablespace.h"
#include "io/io_internal.h"
#include "port/atomics.h"
#include "storage/fd.h"

/* A directory has entries, and an entry may be a directory. */
static bool empty_directory(const char *dir_path);

/* ---- sizes ---- */

/*
 * Look at a data file; false: there is none.  What is no regular file has no size to go by:
 * one of 0 would have a segment cut, or grown, that has its data elsewhere.
 */
bool
sfi_io_look_at_file(SfFileId file, struct stat *st)
{
	char		path[SF_IO_PATH_MAX];

	SF_ASSERT(OidIsValid(SfStorageDb(file.storage)) && OidIsValid(SfStorageRel(file.storage)));
	sfi_io_file_path(path, file);
	if (!sfi_io_find(path, ERROR, st))
		return false;
	if (!S_ISREG(st->st_mode))
		sfi_io_report_irregular(path);
	return true;
}

int64
sfi_io_file_size(SfFileId file)
{
	struct stat st;

	return sfi_io_look_at_file(file, &st) ? (int64) st.st_size : -1;
}

/*
 * True when it cannot be told: a caller that takes files for missing would make new ones over
 * them, or drop their segment without removing them.
 */
bool
sf_io_files_may_exist(SfStorage storage, int elevel)
{
	char		path[SF_IO_PATH_MAX];
	struct stat st;

	sfi_io_dir_path(path, storage);
	if (sfi_io_look(path, &st))
		return true;
	if (errno == ENOENT)
		return false;
	sf_io_report_path(elevel, "stat file", path);
	return true;
}

/* Files have no gaps between them, so the first that is missing is the end. */
uint64
sf_io_files_size(SfStorage storage)
{
	SfFileId	file = {storage, 0};
	uint64		total = 0;
	int64		size;

	for (; (size = sfi_io_file_size(file)) >= 0; file.fileno++)
		total += (uint64) size;
	return total;
}

/* The system counts in units of 512 bytes, whatever the blocks of the file system are. */
uint64
sf_io_files_disk_bytes(SfStorage storage)
{
	SfFileId	file = {storage, 0};
	uint64		total = 0;
	struct stat st;

	for (; sfi_io_look_at_file(file, &st); file.fileno++)
		total += (uint64) st.st_blocks * 512;
	return total;
}

/* After pg_upgrade, where the files were moved by hand: all of them, and whole. */
void
sf_io_files_require(SfStorage storage, uint64 to_bytes)
{
	SfFileId	file = {storage, 0};

	SF_ASSERT(to_bytes % SF_SECTOR_SIZE == 0);
	for (; file.fileno * SF_FILE_SIZE < to_bytes; file.fileno++)
	{
		uint64		want = sfi_io_end_in_file(file, to_bytes);
		int64		have = sfi_io_file_size(file);
		char		path[SF_IO_PATH_MAX];

		if (have >= 0 && (uint64) have >= want)
			continue;
		sfi_io_file_path(path, file);
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 have < 0 ? errmsg("segment data file \"%s\" is missing", path)
				 : errmsg("segment data file \"%s\" is too short", path),
				 errdetail("It should have %llu bytes.", (unsigned long long) want),
				 errhint("Move, link or copy all of \"%s\" from the old data directory, and from tablespaces.", SF_IO_ROOT)));
	}
}

/* By path, not by a descriptor: a file that is removed need not be opened. */
static int
truncate_file(const char *path, uint64 size_bytes)
{
	return SF_FAULT_FAILS(io_truncate) ? -1 : truncate(path, (off_t) size_bytes);
}

/* ---- removing, without throwing ---- */

/* lstat(): a symbolic link is looked at as such, for what it leads to is not the segment's. */
static bool
look_at_entry(const char *path, struct stat *st)
{
	return !SF_FAULT_FAILS(io_stat) && lstat(path, st) == 0;
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

	/*
	 * A file that cannot be shortened is unlinked all the same: space comes
	 * back later.
	 */
	if (look_at_entry(path, &st) && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
		truncate_file(path, 0) != 0)
		sf_io_report_path(WARNING, "truncate segment data file", path);
	if ((SF_FAULT_FAILS(io_unlink) || unlink(path) != 0) && errno != ENOENT)
	{
		sf_io_report_path(WARNING, "remove segment data file", path);
		return false;
	}
	return true;
}

/* Remove a file, or a directory with all that is in it. */
static bool
remove_entry(const char *path)
{
	struct stat st;

	if (!look_at_entry(path, &st) || !S_ISDIR(st.st_mode))
		return remove_file(path);
	if (!empty_directory(path))
		return false;
	if (sfi_io_remove_if_empty(path) == 0 || errno == ENOENT)
		return true;
	sf_io_report_path(WARNING, "remove directory", path);
	return false;
}

/*
 * Remove all there is in a directory.  Not AllocateDir(), which throws when it
 * runs out of its slots.
 */
static bool
empty_directory(const char *dir_path)
{
	DIR		   *dir = SF_FAULT_FAILS(io_opendir) ? NULL : opendir(dir_path);
	struct dirent *entry;
	bool		ok = true;

	if (dir == NULL)
	{
		if (errno == ENOENT)
			return true;
		sf_io_report_path(WARNING, "open directory", dir_path);
		return false;
	}

	/*
	 * readdir() tells the end from a failure by errno only, and does not
	 * clear it.
	 */
	while (errno = 0, (entry = SF_FAULT_FAILS(io_readdir) ? NULL : readdir(dir)) != NULL)
	{
		/* names that others have put there may be longer than the room's own */
		char		path[MAXPGPATH];

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir_path, entry->d_name);

		/*
		 * Go on after a failure: the more is gone, the less has to be swept
		 * later.
		 */
		ok = remove_entry(path) && ok;
	}
	if (errno != 0)
	{
		sf_io_report_path(WARNING, "read directory", dir_path);
		ok = false;
	}
	(void) closedir(dir);
	return ok;
}

/*
 * Remove all there is in the directory of a segment.  A symbolic link in its place is
 * removed as such: its maker may keep other things where it leads.
 */
static bool
empty_segment(const char *path)
{
	struct stat st;

	if (!look_at_entry(path, &st) || !S_ISLNK(st.st_mode))
		return empty_directory(path);
	if (!remove_file(path))
		return false;
	ereport(WARNING,
			(errmsg("removed symbolic link \"%s\", and left what it leads to", path),
			 errhint("If data files are there, remove them by hand.")));
	return true;
}

/*
 * The descriptors of this process come first: a file that is open keeps its space although
 * it has no name.
 */
void
sf_io_files_remove(SfStorage storage)
{
	char		path[SF_IO_PATH_MAX];

	SF_ASSERT(OidIsValid(SfStorageDb(storage)) && OidIsValid(SfStorageRel(storage)));
	sf_io_close(storage);
	sfi_dirty_forget(storage, 0);
	sfi_io_dir_path(path, storage);
	if (empty_segment(path) && sfi_io_remove_if_empty(path) != 0 && errno != ENOENT)
		sf_io_report_path(WARNING, "remove directory", path);
}

/*
 * The last segment of a database in a tablespace takes our directory there
 * along: DROP TABLESPACE wants those of the databases empty.
 */
void
sf_io_sync_removed(Oid spc, Oid db)
{
	char		path[SF_IO_PATH_MAX];

	sfi_io_database_path(path, spc, db);
	if (spc != DEFAULTTABLESPACE_OID && sfi_io_remove_directory(path, true))
		return;
	if (!sfi_io_sync_directory(path) && errno != ENOENT)
		sf_io_report_path(WARNING, "fsync directory", path);
}

void
sf_io_files_unlink(SfStorage storage)
{
	sf_io_files_remove(storage);
	sf_io_sync_removed(SfStorageSpc(storage), SfStorageDb(storage));
}

/* As the server names the files of a relation: the first has no number. */
static void
pages_name(char *buf, uint32 extent)
{
	if (extent == 0)
		strlcpy(buf, "pages", SF_IO_NAME_MAX);
	else
		snprintf(buf, SF_IO_NAME_MAX, "pages.%u", extent);
}

void
sf_io_pages_path(char *buf, SfStorage storage, uint32 extent)
{
	char		name[SF_IO_NAME_MAX];

	pages_name(name, extent);
	sf_io_named_path(buf, storage, name);
}

/* The extents are removed from the first on, and the first that is missing ends it. */
void
sf_io_pages_remove(SfStorage storage)
{
	char		path[SF_IO_PATH_MAX];

	for (uint32 extent = 0;; extent++)
	{
		sf_io_pages_path(path, storage, extent);
		if (SF_FAULT_FAILS(io_unlink) || unlink(path) != 0)
		{
			if (errno != ENOENT)
				sf_io_report_path(WARNING, "remove file", path);
			return;
		}
		if (sfi_io_has_entry_directories(storage))
		{
			get_parent_directory(path);
			(void) sfi_io_remove_directory(path, false);
		}
	}
}

/* ---- creating ---- */

/*
 * Make the names of a directory and of those above it durable, up to top.  Even
 * those that were there already: their maker may not have come to that yet.
 */
static void
sync_names(const char *path, const char *top)
{
	char		parent[SF_IO_PATH_MAX];

	/* else the loop would not stop at top */
	SF_ASSERT(strncmp(path, top, strlen(top)) == 0 && path[strlen(top)] == '/');
	strlcpy(parent, path, sizeof(parent));

	/*
	 * The inner names first: an outer one that is durable leads to what is
	 * there.
	 */
	do
	{
		get_parent_directory(parent);
		sf_io_require_directory_synced(parent);
	} while (strcmp(parent, top) != 0);
}

/*
 * The directory is made when it is needed, not by CREATE EXTENSION: a standby, or a base
 * backup without data files, may lack it at any time.
 */
void
sfi_io_make_root(void)
{
	sfi_io_make_one_directory(SF_IO_ROOT);
	sf_io_require_directory_synced(".");
}

/*
 * Make a directory in one that another process may remove as long as it is
 * empty, see sf_io_sync_removed().  Between the two calls it may be gone again: then both
 * are made once more.  The limit is for a parent that is missing for another reason.
 */
static void
make_two_directories(const char *outer, const char *path)
{
	for (int tries = 0;; tries++)
	{
		sfi_io_make_one_directory(outer);
		if (sfi_io_try_mkdir(path) == 0 || errno == EEXIST)
			return;
		if (errno != ENOENT || tries == 1000)
			sf_io_report_path(ERROR, "create directory", path);
	}
}

/*
 * The directory of a database in pg_default stays as long as the database, to
 * which this process is connected: its name need be made durable once only.
 */
void
sfi_io_make_directory(SfStorage storage)
{
	static Oid	durable_db = InvalidOid;
	bool		stays = !InRecovery && !sfi_io_has_entry_directories(storage);
	bool		durable = stays && SfStorageDb(storage) == durable_db;
	char		space_path[SF_IO_PATH_MAX];
	char		db_path[SF_IO_PATH_MAX];
	char		path[SF_IO_PATH_MAX];

	sfi_io_space_path(space_path, SfStorageSpc(storage));
	sfi_io_database_path(db_path, SfStorageSpc(storage), SfStorageDb(storage));
	sfi_io_dir_path(path, storage);

	if (!durable)
		sfi_io_make_root();
	sf_io_database_claim(SfStorageDb(storage));
	if (sfi_io_has_entry_directories(storage))
	{
		/*
		 * In recovery this also stands in for a tablespace that is dropped
		 * later in WAL.
		 */
		if (SF_FAULT_FAILS(io_mkdir))
			sf_io_report_path(ERROR, "create directory", db_path);
		TablespaceCreateDbspace(SfStorageSpc(storage), SfStorageDb(storage), InRecovery);
	}
	else
		sfi_io_make_one_directory(space_path);
	make_two_directories(db_path, path);

	/*
	 * The segment's own directory is new, and its name stands in that of the
	 * database.
	 */
	SF_ASSERT(!durable || stays);
	if (durable)
		sf_io_require_directory_synced(db_path);
	else
		sync_names(path, sfi_io_has_entry_directories(storage) ? space_path : SF_IO_ROOT);
	if (stays)
		durable_db = SfStorageDb(storage);
}

/*
 * The segment may have no data, and so no directory.  The file itself is its caller's to
 * make and to flush; the names above it are durable when this returns.
 */
void
sf_io_make_entry(SfStorage storage, const char *name)
{
	char		path[SF_IO_PATH_MAX];

	if (!sf_io_files_may_exist(storage, ERROR))
		sfi_io_make_directory(storage);
	if (!sfi_io_has_entry_directories(storage))
		return;
	sfi_io_entry_path(path, storage, name);
	sfi_io_make_one_directory(path);
	sfi_io_dir_path(path, storage);
	sf_io_require_directory_synced(path);
}

void
sf_io_pages_make_entry(SfStorage storage, uint32 extent)
{
	char		name[SF_IO_NAME_MAX];

	pages_name(name, extent);
	sf_io_make_entry(storage, name);
}

/*
 * Where a file has a directory of its own, two names lead to it from the segment's
 * directory; the inner one first, as in sync_names().
 */
void
sfi_io_sync_name(SfFileId file)
{
	char		path[SF_IO_PATH_MAX];

	if (sfi_io_has_entry_directories(file.storage))
	{
		sfi_io_file_entry(path, file);
		sf_io_require_directory_synced(path);
	}
	sfi_io_dir_path(path, file.storage);
	sf_io_require_directory_synced(path);
}

/* First the file, then its name: a name that is durable always has a file. */
void
sf_io_files_add(SfFileId file)
{
	sfi_io_fd_sync(sfi_io_fd_get(file, sf_direct_io, SF_FD_CREATE), true);
	sfi_io_sync_name(file);
}

/*
 * Left-over files may hold data of an earlier segment with this number, which must not
 * show up in the new one: so a failure is an ERROR.
 */
void
sf_io_files_clear(SfStorage storage)
{
	char		path[SF_IO_PATH_MAX];

	if (!sf_io_files_may_exist(storage, ERROR))
		return;

	/*
	 * Nobody has named this storage yet, so there is nothing to wait for. But
	 * this process may have a descriptor of an earlier segment with that
	 * number.
	 */
	sfi_io_fd_close_all(storage);
	sfi_dirty_forget(storage, 0);
	sfi_io_dir_path(path, storage);
	if (!empty_segment(path) || !sfi_io_remove_directory(path, false))
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not remove left-over directory \"%s\"", path),
				 errdetail("Warnings before this message tell the reason.")));
}

/* Empty, not of the size that is wanted: growth has the zeros written and the size logged. */
void
sf_io_files_create(SfStorage storage)
{
	sf_io_files_clear(storage);
	sfi_io_make_directory(storage);
	sf_io_files_add((SfFileId) {storage, 0});
}

/* ---- cutting ---- */

/* How many cuts have begun since the server started. */
static pg_atomic_uint64 *cuts = NULL;

const SfSharedArea sf_io_cuts_area = {
	.name = "securefile cuts of files", .at = (void **) &cuts, .bytes = sizeof(*cuts)
};

uint64
sf_io_cuts(void)
{
	return pg_atomic_read_u64(cuts);
}

/*
 * A file that cannot be looked at: true if it is missing, else reported.  errno is still
 * that of the look.
 */
static bool
is_missing(const char *path, int elevel)
{
	if (errno == ENOENT)
		return true;
	sf_io_report_path(elevel, "stat segment data file", path);
	return false;
}

/*
 * Highest file first: a crash in between then leaves a segment whose files are all full
 * but the last, as it has to be, and that is only longer than it should.  The search for
 * the highest goes by name upward, so a gap would hide what is behind it; there is none
 * for the same reason.
 */
bool
sfi_io_cut_files(SfStorage storage, uint64 size_bytes, int elevel)
{
	char		path[SF_IO_PATH_MAX];
	SfFileId	file = sfi_io_file_at(storage, size_bytes == 0 ? 0 : size_bytes - 1);
	uint64		last_size = size_bytes - file.fileno * SF_FILE_SIZE;
	uint32		keep = ++file.fileno;
	struct stat st;

	/*
	 * The first file stays, also without a byte: an empty segment has its
	 * directory.
	 */
	SF_ASSERT(keep > 0 && last_size <= SF_FILE_SIZE && elevel >= WARNING);
	SF_ASSERT(size_bytes % SF_IO_ALIGN == 0 && (last_size > 0 || size_bytes == 0));

	/* descriptors of files that go would keep them alive without a name */
	sfi_io_fd_close_all(storage);
	sfi_dirty_forget(storage, keep);
	pg_atomic_fetch_add_u64(cuts, 1);

	/* what is kept is not looked at: it may be a long row of full files */
	while (sfi_io_file_path(path, file), sfi_io_look(path, &st))
		file.fileno++;
	if (!is_missing(path, elevel))
		return false;
	while (file.fileno-- > keep)
	{
		sfi_io_file_entry(path, file);
		if (!remove_entry(path))
		{
			if (elevel >= ERROR)
				ereport(elevel,
						(errcode(ERRCODE_IO_ERROR),
						 errmsg("could not cut off segment data file \"%s\"", path)));
			return false;
		}
	}

	/*
	 * In redo of a cut the files may be gone, as the segment was dropped
	 * later in WAL.
	 */
	SF_ASSERT(file.fileno == keep - 1);
	sfi_io_file_path(path, file);
	if (!sfi_io_look(path, &st))
		return is_missing(path, elevel);

	/*
	 * Never longer: a truncate() upward would make a hole, where zeros have
	 * to be written.
	 */
	if ((uint64) st.st_size <= last_size || truncate_file(path, last_size) == 0 || errno == ENOENT)
		return true;
	ereport(elevel,
			(errcode_for_file_access(),
			 errmsg("could not truncate segment data file \"%s\" to %llu bytes: %m",
					path, (unsigned long long) last_size)));
	return false;
}

/* The file that stays is flushed for its size, the directory for the names that went. */
void
sf_io_files_truncate(SfStorage storage, uint64 size_bytes)
{
	char		path[SF_IO_PATH_MAX];
	SfFileId	last = sfi_io_file_at(storage, size_bytes == 0 ? 0 : size_bytes - 1);

	SF_ASSERT(size_bytes % SF_IO_ALIGN == 0 && !InRecovery);
	(void) sfi_io_cut_files(storage, size_bytes, ERROR);
	sfi_io_fd_sync(sfi_io_fd_get(last, sf_direct_io, 0), true);
	sfi_io_dir_path(path, storage);
	sf_io_require_directory_synced(path);
}
