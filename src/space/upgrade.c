/*-------------------------------------------------------------------------
 *
 * upgrade.c
 *	  pg_upgrade: pages of segment relations, beside the data files and back.
 *
 * pg_upgrade moves tables, and keeps the OIDs of databases and tables and the
 * numbers of columns; of segments it knows nothing.  So:
 *
 *	before	when pg_upgrade starts the old server, the main fork of each segment
 *		relation gets a second name beside the data files, "pages" (further
 *		gigabytes "pages.1", ...): a hard link, so that it takes no time;
 *	then	the administrator moves, links or copies the directory of data files;
 *	after	securefile_upgrade_finish() makes the segment relations again, under
 *		the file number they had, and fills them from there.  Data files stay
 *		where they are.  Until this has committed nobody removes or changes
 *		anything of them (io/own.c), so it can be tried as often as need be.
 *
 * Pending entries carry over: pg_upgrade keeps transaction ids, their epoch and
 * the commit log.
 *
 * Why the pages need a second name: pg_upgrade starts the old server once more to dump
 * its schema, which is the last moment at which something of ours runs there.  The new
 * cluster gets only what pg_upgrade knows, so what it does not know has to lie where
 * the administrator takes it along: beside the data files.
 *
 * A link is made with the server running in binary-upgrade mode, in which nobody else
 * is connected; and the shutdown checkpoint that follows writes the same file.
 *
 * In the old cluster a failure is FATAL: the server does not start, and pg_upgrade stops
 * before anything is lost.  In the new one it is an ERROR, and the function can be
 * called again.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <unistd.h>

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/storage.h"
#include "space/upgrade.h"
#include "storage/copydir.h"
#include "storage/fd.h"
#include "utils/syscache.h"

#define PagesPerExtent		((BlockNumber) RELSEG_SIZE)

/* ---- before: in the old cluster ---- */

/* The server's names of the gigabytes of a fork. */
static void
extent_path(char *buf, const char *base, uint32 extent)
{
	if (extent == 0)
		strlcpy(buf, base, MAXPGPATH);
	else
		snprintf(buf, MAXPGPATH, "%s.%u", base, extent);
}

/* The number may be another relation's by now, if the segment was dropped. */
static bool
is_segment_fork(const char *path)
{
	SfIoBlock	block;

	return sfi_page_from_file(path, 0, block.data, FATAL) &&
		sfi_page_type(block.data) == SF_PAGE_HEADER;
}

/* Give a file a second name; where that cannot be, copy it. */
static void
link_or_copy(const char *path, const char *name)
{
	if ((SF_FAULT_FAILS(io_unlink) || unlink(name) != 0) && errno != ENOENT)
		sf_io_report_path(FATAL, "remove file", name);
	if (!SF_FAULT_FAILS(io_link) && link(path, name) == 0)
		return;
	if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != ENOTSUP)
		sf_io_report_path(FATAL, "link segment relation to", name);
	if (SF_FAULT_FAILS(io_page_write))
		sf_io_report_path(FATAL, "copy segment relation to", name);
	copy_file(unconstify(char *, path), unconstify(char *, name));
	if (SF_FAULT_FAILS(io_sync))
		sf_io_report_path(FATAL, "fsync file", name);
	fsync_fname(name, false);
}

/*
 * Give the main fork of one segment relation its second name, gigabyte by gigabyte.
 * What an earlier attempt has left goes first: it may be of an older moment.
 */
static void
put_pages_beside(SfStorage storage, void *arg)
{
	char	   *base = pstrdup(sf_compat_rel_path(storage));
	char		path[MAXPGPATH];
	char		name[MAXPGPATH];

	/*
	 * Where securefile_upgrade_finish() has yet to run after an earlier
	 * upgrade, the pages are there, and a fork is what a failed attempt has
	 * left.
	 */
	if (!sf_io_database_is_own(SfStorageDb(storage), FATAL) || !is_segment_fork(base))
		return;
	sf_io_pages_remove(storage);
	for (uint32 extent = 0; extent_path(path, base, extent), sf_io_path_size(path, FATAL) >= 0;
		 extent++)
	{
		sf_io_pages_make_entry(storage, extent);
		sf_io_pages_path(name, storage, extent);
		link_or_copy(path, name);
		get_parent_directory(name);
		sf_io_require_directory_synced(name);
	}
}

void
sf_space_upgrade_prepare(void)
{
	sf_io_scan(InvalidOid, put_pages_beside, NULL);
}

/* ---- after: in the new cluster ---- */

/* A page from beside the data files; false at their end. */
static bool
read_beside(SfStorage storage, BlockNumber page, char *block)
{
	char		path[MAXPGPATH];

	SF_ASSERT(page != InvalidBlockNumber);
	sf_io_pages_path(path, storage, page / PagesPerExtent);
	if (!sfi_page_from_file(path, page % PagesPerExtent, block, ERROR))
		return false;
	if (!sf_compat_page_is_verified(block, page))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of a segment relation is damaged in file \"%s\"", page, path)));
	return true;
}

/* Pages in all the files beside the data files. */
static BlockNumber
count_beside(SfStorage storage)
{
	char		path[MAXPGPATH];
	int64		size;
	uint64		npages = 0;

	for (uint32 extent = 0; sf_io_pages_path(path, storage, extent),
		 (size = sf_io_path_size(path, ERROR)) >= 0; extent++)
		npages += (uint64) size / BLCKSZ;
	SF_ASSERT(npages < InvalidBlockNumber);
	return (BlockNumber) npages;
}

/* The directory may have been given another number: page 0 says which it was. */
static void
source_beside(BlockNumber page, char *block, void *arg)
{
	SfStorage	storage = *(SfStorage *) arg;
	static uint32 sealed_for;

	/* page 0 comes first, and the others go by what it said */
	if (!read_beside(storage, page, block))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of a segment relation is missing beside its data files", page)));
	if (page == 0)
		sealed_for = sfi_seal_relnumber(block);
	sfi_page_require_sound(block, storage, sealed_for, page);
}

/* Add the storage of one directory to the list, unless an aborted transaction made it. */
static void
note_left(SfStorage storage, void *arg)
{
	List	  **list = arg;
	SfOrphanedStorage *left = palloc0(sizeof(SfOrphanedStorage));
	SfIoBlock	block;

	left->storage = storage;
	left->has_pages = read_beside(storage, 0, block.data) &&
		sfi_page_type(block.data) == SF_PAGE_HEADER;
	if (left->has_pages)
		left->header = *SfPageHeader(block.data);
	/* storage that a crash has left half-made is nobody's, as it was before */
	if (left->has_pages && sfi_pending_transaction_aborted(left->header.creator_fxid))
		return;
	*list = lappend(*list, left);
}

/* Directories are all that is left of segments, so they are what is listed. */
List *
sf_space_upgrade_orphaned(void)
{
	List	   *list = NIL;

	sf_io_scan(MyDatabaseId, note_left, &list);
	return list;
}

SF_NORETURN static void
report_number_taken(SfStorage storage)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("file number %u is in use by another relation", SfStorageRel(storage)),
			 errhint("Rename the directory of \"%s\" to a number that is free, and try again.",
					 sf_io_files_pattern(storage))));
}

/*
 * A fork that a crash in an earlier attempt has left goes at once; one that is
 * somebody else's does not.
 */
static void
clear_fork(SfStorage storage, uint64 incarnation)
{
	SMgrRelation smgr = sf_compat_smgropen(storage);
	SfIoBlock	block;
	bool		ours;

	if (!smgrexists(smgr, MAIN_FORKNUM))
		return;
	ours = !sfi_page_first_of_fork(storage, block.data) || PageIsNew(block.data) ||
		(sfi_page_type(block.data) == SF_PAGE_HEADER &&
		 SfPageHeader(block.data)->incarnation == incarnation);
	if (!ours || sfi_space_is_named(storage) ||
		OidIsValid(sf_compat_relid_of_storage(SfStorageSpc(storage), SfStorageRel(storage))))
		report_number_taken(storage);
	smgr = sf_compat_smgropen(storage);
	smgrdounlinkall(&smgr, 1, true);
}

/*
 * ERROR unless all pages are there that the header knows of: dynamic pages up to the next
 * one, and a map page for each 16 MB.  Without them values would be unreadable, and worse,
 * space in use be taken for free.
 */
static void
require_pages(SfStorage storage, const SfHeader *header)
{
	uint64		nmaps = sf_maps_of(header->total_sectors);
	uint32		used = header->next_page > 2 ? header->next_page : 1;
	uint32		want = nmaps == 0 ? used : Max(used, SF_MAP_PAGE(nmaps - 1) + 1);
	char		path[MAXPGPATH];

	SF_ASSERT(want > 0);
	if (count_beside(storage) >= want)
		return;
	sf_io_pages_path(path, storage, 0);
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("file \"%s\" is too short", path),
			 errdetail("It and those that follow it should have %u pages.", want),
			 errhint("Link or copy it again from the old data directory, with \"pages.1\" and so on if they are there.")));
}

/* All that can be missing is asked for before anything is made or removed. */
void
sf_space_adopt_begin(SfStorage storage)
{
	SfIoBlock	block;
	const SfHeader *header;

	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(SfStorageRel(storage))))
		report_number_taken(storage);
	source_beside(0, block.data, &storage);
	header = SfPageHeader(block.data);
	require_pages(storage, header);
	sf_io_files_require(storage, sf_sectors_to_bytes(header->total_sectors));
	clear_fork(storage, header->incarnation);
}

void
sf_space_adopt_storage(SfStorage storage)
{
	SF_ASSERT(GetCurrentTransactionNestLevel() >= 1 && SfStorageDb(storage) == MyDatabaseId);
	smgrclose(RelationCreateStorage(storage, RELPERSISTENCE_PERMANENT, true));
	sfi_copy_pages(storage, count_beside(storage), source_beside, &storage);
	SF_FAULT(upgrade_after_pages);
}
