/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  All data files there are, of a database or of all, in all tablespaces.
 *
 * The file system is asked, not the catalog: the answer has to include segments that no
 * catalog row names.  Directories are told by their names, which are OIDs; anything else
 * that lies there is none of this room's business and is left alone.
 *
 * Lists are made before anything is done about their members.  readdir() may or may not
 * show entries that come and go meanwhile, and what is called may remove them.
 *
 *		 pg_tblspc/<spc>, and 1663		->	tablespaces
 *		 each of them, /<db>		->	databases, or the one that is asked for
 *		 each of those, /<rel>		->	storages, one list of all
 *
 * Three readers with different needs: the sweep, which removes segments that nobody
 * knows; the end of a database, which removes all of its segments; and upgrades, which
 * must not miss one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <dirent.h>
#include <limits.h>
#include <unistd.h>

#include "catalog/pg_tablespace_d.h"
#include "io/io_internal.h"
#include "nodes/pg_list.h"
#include "storage/fd.h"

/*
 * Has a directory not been listed in full, since this was last set to false?  Then nothing
 * may be concluded from what is missing in a list: files that are not seen would count
 * as gone, and the note of their owner be removed.
 */
static bool list_failed;

/*
 * readdir(); NULL at the end, and, reported and noted, on failure.  Not the
 * server's ReadDirExtended(), whose NULL does not tell the end from a failure.
 */
static struct dirent *
next_entry(DIR *dir, const char *path, int elevel)
{
	struct dirent *entry;

	errno = 0;
	entry = SF_FAULT_FAILS(io_readdir) ? NULL : readdir(dir);
	if (entry == NULL && errno != 0)
	{
		list_failed = true;
		sf_io_report_path(elevel, "read directory", path);
	}
	return entry;
}

/*
 * Entries of a directory whose names are OIDs; NIL when it is missing.
 * Failures are reported at elevel.  A name is taken only if all of it is a number in the
 * range of OIDs; strtoul() alone would take signs and blanks, too.
 */
static List *
list_oids(const char *path, int elevel)
{
	List	   *oids = NIL;
	DIR		   *dir = SF_FAULT_FAILS(io_opendir) ? NULL : AllocateDir(path);
	struct dirent *entry;

	if (dir == NULL)
	{
		if (errno != ENOENT)
		{
			list_failed = true;
			sf_io_report_path(elevel, "open directory", path);
		}
		return NIL;
	}
	while ((entry = next_entry(dir, path, elevel)) != NULL)
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
	FreeDir(dir);
	return oids;
}

/*
 * All tablespaces that may hold data files.  The links of the server tell them, not
 * pg_tablespace, which neither the startup process nor the postmaster can read.
 */
List *
sfi_io_list_spaces(int elevel)
{
	return lappend_oid(list_oids(SF_IO_TABLESPACES, elevel), DEFAULTTABLESPACE_OID);
}

/*
 * Storage of one database in one tablespace, appended to a list of palloc'd.  An empty
 * segment may have a directory, too: the caller gets to know it by that alone.
 */
static List *
list_storages(List *storages, Oid spc, Oid db, int elevel)
{
	char		path[SF_IO_PATH_MAX];
	List	   *rels;
	ListCell   *lc;

	SF_ASSERT(OidIsValid(spc) && OidIsValid(db));
	sfi_io_database_path(path, spc, db);
	rels = list_oids(path, elevel);
	foreach(lc, rels)
	{
		SfStorage  *storage = palloc0(sizeof(SfStorage));

		SfStorageSpc(*storage) = spc;
		SfStorageDb(*storage) = db;
		SfStorageRel(*storage) = lfirst_oid(lc);
		storages = lappend(storages, storage);
	}
	list_free(rels);
	return storages;
}

/*
 * The owner of the files stays known until all are gone.  Where something could not be
 * removed, or not be seen, the launcher comes back to that database later.
 */
void
sf_io_database_unlink(Oid db)
{
	List	   *spcs;
	ListCell   *lc;
	bool		gone = true;

	SF_ASSERT(OidIsValid(db));
	sfi_dirty_forget_database(db);
	list_failed = false;
	spcs = sfi_io_list_spaces(WARNING);
	foreach(lc, spcs)
	{
		char		path[SF_IO_PATH_MAX];
		List	   *storages = list_storages(NIL, lfirst_oid(lc), db, WARNING);
		ListCell   *nc;

		foreach(nc, storages)
			sf_io_files_unlink(*(SfStorage *) lfirst(nc));
		list_free_deep(storages);

		/* may hold a directory with another name, or a segment that resisted */
		sfi_io_database_path(path, lfirst_oid(lc), db);
		gone = sfi_io_remove_directory(path, false) && gone;
	}
	list_free(spcs);
	if (gone && !list_failed)
		sfi_io_database_forget_own(db);
}

/* Cautious: a directory that cannot be listed may have some. */
bool
sf_io_database_has_files(Oid db, int elevel)
{
	List	   *spcs;
	ListCell   *lc;
	bool		found = false;

	SF_ASSERT(OidIsValid(db) && elevel >= WARNING);
	list_failed = false;
	spcs = sfi_io_list_spaces(elevel);
	foreach(lc, spcs)
	{
		char		path[SF_IO_PATH_MAX];

		sfi_io_database_path(path, lfirst_oid(lc), db);
		found = found || list_oids(path, elevel) != NIL;
	}
	list_free(spcs);
	return found || list_failed;
}

/*
 * May this process look into the directory of a segment?  Reported if not.  One that
 * is gone again may be shown: the drop of a segment removes it.
 */
static bool
is_open_to_us(SfStorage storage)
{
	char		path[SF_IO_PATH_MAX];

	sfi_io_dir_path(path, storage);
	if ((!SF_FAULT_FAILS(io_opendir) && access(path, R_OK | X_OK) == 0) || errno == ENOENT)
		return true;
	sf_io_report_path(WARNING, "open directory", path);
	return false;
}

void
sf_io_scan(Oid db, SfIoScanFn fn, void *arg)
{
	List	   *spcs = sfi_io_list_spaces(ERROR);
	List	   *storages = NIL;
	ListCell   *lc;

	/* first collect, then call: fn may remove what it is shown */
	foreach(lc, spcs)
	{
		char		path[SF_IO_PATH_MAX];
		List	   *dbs;
		ListCell   *dc;

		sfi_io_space_path(path, lfirst_oid(lc));
		dbs = OidIsValid(db) ? list_make1_oid(db) : list_oids(path, ERROR);
		foreach(dc, dbs)
			storages = list_storages(storages, lfirst_oid(lc), lfirst_oid(dc), ERROR);
		list_free(dbs);
	}
	foreach(lc, storages)
	{
		SfStorage	storage = *(SfStorage *) lfirst(lc);

		if (!OidIsValid(db) || is_open_to_us(storage))
			fn(storage, arg);
	}
	list_free_deep(storages);
	list_free(spcs);
}

/* Remove the files of a directory whose names have something in them.  WARNINGs only. */
static void
remove_named(const char *dir_path, const char *mark)
{
	DIR		   *dir = SF_FAULT_FAILS(io_opendir) ? NULL : AllocateDir(dir_path);
	struct dirent *entry;

	if (dir == NULL)
	{
		if (errno != ENOENT)
			sf_io_report_path(WARNING, "open directory", dir_path);
		return;
	}
	while ((entry = next_entry(dir, dir_path, WARNING)) != NULL)
	{
		char		path[MAXPGPATH];

		if (strstr(entry->d_name, mark) == NULL)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir_path, entry->d_name);
		(void) sfi_io_unlink(path, WARNING);
	}
	FreeDir(dir);
}

/* Files that hold one number were to get their names by a rename, which did not happen. */
void
sfi_io_clean_leftovers(void)
{
	List	   *spcs = sfi_io_list_spaces(WARNING);
	ListCell   *lc;

	remove_named(SF_IO_ROOT, SF_IO_NEW_NUMBER);
	foreach(lc, spcs)
	{
		char		path[SF_IO_PATH_MAX];

		sfi_io_scratch_directory(path, lfirst_oid(lc));
		remove_named(path, SF_IO_SCRATCH);
	}
	list_free(spcs);
}
