/*-------------------------------------------------------------------------
 *
 * page.c
 *	  Pages of the segment relation: read, check, initialise.
 *
 * Every page is checked once, here, where it enters; no other code re-checks.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "space/space_internal.h"
#include "storage/buf_internals.h"
#include "storage/fd.h"
#include "storage/lmgr.h"

#define PageTrailer(page)	((SfPageTrailer *) PageGetSpecialPointer(page))

/* Type of a page, or 0 when it is none of ours. */
SfPageType
sf_page_type(Page page)
{
	SfPageTrailer *trailer;

	/* a page from a file may hold anything */
	if (PageGetPageSize(page) != BLCKSZ ||
		((PageHeader) page)->pd_special != BLCKSZ - MAXALIGN(SF_PAGE_SPECIAL))
		return 0;
	trailer = PageTrailer(page);
	if (trailer->magic != SF_PAGE_MAGIC || trailer->version != SF_PAGE_VERSION)
		return 0;
	return (SfPageType) trailer->type;
}

/*
 * Initialise a page with contents (zeros behind them).  Used in critical
 * sections and redo: cannot fail.
 */
void
sf_page_init(Page page, SfPageType type, const void *content, Size len)
{
	SfPageTrailer *trailer;

	Assert(len <= SF_PAGE_CONTENT);
	PageInit(page, BLCKSZ, SF_PAGE_SPECIAL);
	trailer = PageTrailer(page);
	trailer->magic = SF_PAGE_MAGIC;
	trailer->type = type;
	trailer->version = SF_PAGE_VERSION;
	trailer->reserved = 0;
	if (len > 0)
		memcpy(PageGetContents(page), content, len);
	/* no hole: all of the contents belongs to full-page images */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;
}

/*
 * Damage may lead to a page that we have locked: to wait for it would be for ever, and
 * could not be interrupted.
 */
static void
check_not_locked(Relation rel, Buffer buf, int mode)
{
	LWLock	   *lock = BufferDescriptorGetContentLock(GetBufferDescriptor(buf - 1));

	if (LWLockHeldByMeInMode(lock, LW_EXCLUSIVE) ||
		(mode == BUFFER_LOCK_EXCLUSIVE && LWLockHeldByMe(lock)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("pages of segment relation \"%s\" lead in a circle",
						RelationGetRelationName(rel)),
				 errdetail("Page %u is met a second time.", BufferGetBlockNumber(buf)),
				 errhint("Run securefile_check() on the column.")));
}

Buffer
sf_page_read(Relation rel, uint32 page, SfPageType type, int mode)
{
	Buffer		buf;
	const char *problem;

	buf = ReadBuffer(rel, page);
	if (!BufferIsLocal(buf))
		check_not_locked(rel, buf, mode);
	LockBuffer(buf, mode);
	if (sf_page_type(BufferGetPage(buf)) != type)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of segment relation \"%s\" is not what it should be",
						page, RelationGetRelationName(rel)),
				 errdetail("Expected page type %d, found %d.",
						   type, sf_page_type(BufferGetPage(buf))),
				 errhint("Run securefile_check() on the column.")));
	problem = sf_format_page_problem(type, PageGetContents(BufferGetPage(buf)));
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of segment relation \"%s\" is damaged",
						page, RelationGetRelationName(rel)),
				 errdetail_internal("The %s.", problem),
				 errhint("Run securefile_check() on the column.")));
	return buf;
}

/* A number beyond the next map page is a damaged header's: not to be extended to. */
static void
check_new_number(Relation rel, uint32 page)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);

	if (page > nblocks && page - nblocks >= SF_MAP_STRIDE)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("segment relation \"%s\" has lost pages, or its header is damaged",
						RelationGetRelationName(rel)),
				 errdetail("It should have %u pages, and has %u.", page, nblocks),
				 errhint("Run securefile_check() on the column.")));
}

Buffer
sf_page_new(Relation rel, uint32 page)
{
	check_new_number(rel, page);
	while (RelationGetNumberOfBlocks(rel) <= page)
	{
		LockRelationForExtension(rel, ExclusiveLock);
		if (RelationGetNumberOfBlocks(rel) <= page)
			ReleaseBuffer(ReadBuffer(rel, P_NEW));
		UnlockRelationForExtension(rel, ExclusiveLock);
	}
	return ReadBufferExtended(rel, MAIN_FORKNUM, page, RBM_ZERO_AND_LOCK, NULL);
}

void
sf_page_image(SfNode node, BlockNumber page, char *block)
{
	Buffer		buf = ReadBufferWithoutRelcache(node, MAIN_FORKNUM, page, RBM_NORMAL, NULL, true);

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(block, BufferGetPage(buf), BLCKSZ);
	UnlockReleaseBuffer(buf);
}

bool
sf_page_from_file(const char *path, uint64 n, char *block, int elevel)
{
	int			fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	ssize_t		len;

	if (fd < 0)
	{
		if (errno != ENOENT)
			sf_io_report_path(elevel, "open file", path);
		return false;
	}
	len = SF_FAULT_FAILS(io_page_read) ? -1 : pg_pread(fd, block, BLCKSZ, (off_t) (n * BLCKSZ));
	if (len < 0)
		sf_io_report_path(elevel, "read file", path);
	CloseTransientFile(fd);
	return len == BLCKSZ;
}

bool
sf_page_first_of_fork(SfNode node, char *block)
{
	SMgrRelation smgr = sf_compat_smgropen(node);
	bool		found = smgrexists(smgr, MAIN_FORKNUM) && smgrnblocks(smgr, MAIN_FORKNUM) > 0;

	if (found)
		smgrread(smgr, MAIN_FORKNUM, 0, block);
	smgrclose(smgr);
	return found;
}

SfPageType
sf_space_read_page(SfSegment *seg, uint32 page, char *content)
{
	Relation	rel;
	SfPageType	type = 0;

	if (seg->kept)
		return sf_kept_page(seg->node, page, content);
	rel = sf_segment_rel(seg);

	if (page < RelationGetNumberOfBlocks(rel))
	{
		Buffer		buf = ReadBuffer(rel, page);

		LockBuffer(buf, BUFFER_LOCK_SHARE);
		type = sf_page_type(BufferGetPage(buf));
		memcpy(content, PageGetContents(BufferGetPage(buf)), SF_PAGE_CONTENT);
		UnlockReleaseBuffer(buf);
	}
	sf_segment_close(rel);
	return type;
}
