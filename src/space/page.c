/*-------------------------------------------------------------------------
 *
 * page.c
 *	  Pages of the segment relation: read, check, initialise.
 *
 * Every page is checked once, here, where it enters; no other code re-checks.
 *
 * What is asked of a page that is read, in this order, and where:
 *
 *	 the relation has such a page			read_buffer()
 *	 this process has not locked it			read_buffer(): a link leads back to a
 *											page of the same walk, and to wait for
 *											its lock would never end
 *	 magic, version and layout				sfi_page_type()
 *	 the type that was asked for			sfi_page_read()
 *	 the seal, over contents and place		sfi_seal_holds()
 *	 fields are within bounds				sf_format_page_problem()
 *
 * The last one is asked although the seal holds: a page without a seal (0) is believed,
 * and numbers and counts on it must not lead out of the page.
 *
 * There are three ways to a page.  Normal code comes with a relation that is locked,
 * and pages go through shared buffers (sfi_page_read()).  Code that runs after the
 * relation has been dropped, or before there is one, reads files (sfi_page_from_file())
 * or the fork past the buffers (sfi_page_first_of_fork()): rule 4, no process may make
 * buffers of a relation that a drop is removing.  A repair overwrites a page unread
 * (sfi_page_reinit()).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/server.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "storage/fd.h"
#include "storage/lmgr.h"

/*
 * The layout of a page is the server's, so that its tools (checksums, pageinspect, base
 * backups) take it for what it is.  But the server sets aside what lies between pd_lower
 * and pd_upper as a hole, which it leaves out of full-page images: here the contents lie
 * there, so there must be no hole.
 */
void
sfi_page_init(Page page, SfPageType type, const void *content, Size len)
{
	SfPageTrailer *trailer;

	SF_ASSERT(len <= SF_PAGE_CONTENT);
	PageInit(page, BLCKSZ, SF_PAGE_SPECIAL);
	trailer = sfi_page_trailer(page);
	trailer->magic = SF_PAGE_MAGIC;
	trailer->type = type;
	trailer->version = SF_PAGE_VERSION;
	trailer->seal = 0;
	if (len > 0)
		memcpy(PageGetContents(page), content, len);
	/* no hole: all of the contents belongs to full-page images */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;
}

/* ---- what a page may be ---- */

/* What is read from pages without a seal must do no harm either. */
static const char *
content_problem(Page page, SfPageType type)
{
	const char *problem = sf_format_page_problem(type, PageGetContents(page));
	SfPending  *pending = SfPagePending(page);

	if (type != SF_PAGE_PENDING)
		return problem;
	for (int i = 0; problem == NULL && i < pending->nentries; i++)
		problem = sf_format_entry_problem(&pending->entries[i]);
	return problem;
}

bool
sfi_page_is_sound(Page page, uint32 relnumber, BlockNumber n)
{
	SfPageType	type = sfi_page_type(page);

	return type != 0 && sfi_seal_holds(page, relnumber, n) && content_problem(page, type) == NULL;
}

/* The one message of a damaged page; relname NULL: that of storage. */
SF_NORETURN static void
report_damaged_page(const char *relname, SfStorage storage, BlockNumber page, const char *detail)
{
	/* the monitor releases nothing there, until the server starts again */
	sfi_proved_refuse(storage);
	sf_base_report_damage(relname != NULL
						  ? psprintf("page %u of segment relation \"%s\" is damaged", page, relname)
						  : psprintf("page %u of the segment relation with file number %u is damaged",
									 page, SfStorageRel(storage)), detail);
}

void
sfi_page_report_damaged(Relation rel, uint32 page, const char *detail)
{
	report_damaged_page(RelationGetRelationName(rel), SfRelStorage(rel), page, detail);
}

void
sfi_page_report_contents(const char *kind, uint32 page, const char *detail)
{
	sf_base_report_damage(psprintf("%s page %u of a securefile segment is damaged", kind, page),
						  detail);
}

/* ERROR when a later version of the library has written a page, which is no damage; 0: not so. */
static void
refuse_later(uint32 version, Relation rel, BlockNumber n)
{
	if (version != 0)
		sf_base_report_later(psprintf("page %u of segment relation \"%s\"", n,
									  RelationGetRelationName(rel)), version, SF_PAGE_VERSION);
}

/* What is wrong with a page of that type, palloc'd; NULL when it is sound. */
static char *
sealed_page_problem(Page page, uint32 relnumber, BlockNumber n, SfPageType type)
{
	const char *problem;

	if (!sfi_seal_holds(page, relnumber, n))
		return psprintf("Expected checksum " SF_HEX64_FORMAT ", found " SF_HEX64_FORMAT ".",
						sfi_page_trailer(page)->seal, sfi_seal_compute(page, relnumber, n));
	problem = content_problem(page, type);
	return problem == NULL ? NULL : psprintf("The %s.", problem);
}

void
sfi_page_require_sound(Page page, SfStorage storage, uint32 relnumber, BlockNumber n)
{
	SfPageType	type = sfi_page_type(page);
	char	   *problem;

	if (PageIsNew(page))
		return;
	problem = type == 0 ? pstrdup("It is no page of a segment.")
		: sealed_page_problem(page, relnumber, n, type);
	if (problem != NULL)
		report_damaged_page(NULL, storage, n, problem);
}

/* ---- reading ---- */

typedef struct PageRead
{
	Relation	rel;
	uint32		page;
} PageRead;

/* Error context: which page of which segment was being read. */
static void
tell_page(void *arg)
{
	PageRead   *read = arg;

	errcontext("page %u of segment relation \"%s\"",
			   read->page, RelationGetRelationName(read->rel));
}

/*
 * Read a page, and name it in errors: the server's own ones, of page checksums and of
 * failed reads, name a file only.
 */
static Buffer
read_in_context(Relation rel, uint32 page, ReadBufferMode mode)
{
	PageRead	read = {rel, page};
	ErrorContextCallback context = {error_context_stack, tell_page, &read};
	Buffer		buf;

	error_context_stack = &context;
	buf = ReadBufferExtended(rel, MAIN_FORKNUM, page, mode, NULL);
	error_context_stack = context.previous;
	return buf;
}

bool
sfi_page_is_locked(Buffer buf, LWLockMode mode)
{
	return sf_server_holds_buffer_lock_in(buf, mode);
}

SfStorage
sfi_page_storage(Buffer buf)
{
	SfStorage	storage;
	ForkNumber	fork;
	BlockNumber n;

	BufferGetTag(buf, &storage, &fork, &n);
	return storage;
}

bool
sfi_page_lock_is_held(Relation rel, BlockNumber which)
{
	LOCKTAG		tag;

	SF_ASSERT(which <= SF_LOCK_GROWTH);
	SET_LOCKTAG_PAGE(tag, rel->rd_lockInfo.lockRelId.dbId, rel->rd_lockInfo.lockRelId.relId, which);
	return sf_compat_lock_held(&tag, ExclusiveLock);
}

/* The buffer of a page that there is. */
static Buffer
read_buffer(Relation rel, uint32 page)
{
	BlockNumber npages = RelationGetNumberOfBlocks(rel);
	Buffer		buf;

	SF_INVARIANT(rule_4, CheckRelationLockedByMe(rel, AccessShareLock, true));
	if (page >= npages)
		sfi_page_report_damaged(rel, page, psprintf("The relation has %u pages.", npages));
	buf = read_in_context(rel, page, RBM_NORMAL);
	if (sf_server_holds_buffer_lock(buf))
		sfi_page_report_damaged(rel, page, "It is in a list that leads back to itself.");
	return buf;
}

/*
 * An ERROR may leave with the page locked: the server releases LWLocks and pins when a
 * transaction aborts, and nothing has been changed.
 */
Buffer
sfi_page_read(Relation rel, uint32 page, SfPageType type, int mode)
{
	Buffer		buf = read_buffer(rel, page);
	SfPageType	found;
	char	   *problem;

	SF_ASSERT(mode == BUFFER_LOCK_SHARE || mode == BUFFER_LOCK_EXCLUSIVE);
	LockBuffer(buf, mode);
	found = sfi_page_type(BufferGetPage(buf));
	if (found == 0)
		refuse_later(sfi_page_later_version(BufferGetPage(buf)), rel, page);
	problem = found != type
		? psprintf("Expected page type %d, found %d.", type, found)
		: sealed_page_problem(BufferGetPage(buf), SfStorageRel(SfRelStorage(rel)), page, type);
	if (problem != NULL)
		sfi_page_report_damaged(rel, page, problem);
	return buf;
}

/*
 * What the server finds wrong with a page, by its checksum say, is zeros in memory, and a
 * WARNING.
 */
Buffer
sfi_page_pin(Relation rel, uint32 page)
{
	SF_INVARIANT(rule_4, CheckRelationLockedByMe(rel, AccessShareLock, true));
	if (page == 0 || SF_IS_MAP_PAGE(page) || page >= RelationGetNumberOfBlocks(rel))
		return InvalidBuffer;
	return read_in_context(rel, page, RBM_ZERO_ON_ERROR);
}

bool
sfi_page_lock_sound(Relation rel, Buffer buf, SfPageType type, int mode)
{
	Page		page = BufferGetPage(buf);

	SF_ASSERT(mode == BUFFER_LOCK_SHARE || mode == BUFFER_LOCK_EXCLUSIVE);
	if (sf_server_holds_buffer_lock(buf))
		return false;
	LockBuffer(buf, mode);
	if (sfi_page_type(page) == type &&
		sfi_page_is_sound(page, SfStorageRel(SfRelStorage(rel)), BufferGetBlockNumber(buf)))
		return true;
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	return false;
}

/*
 * Is a page as one that was never used must be: empty, or a map page that was cut off?
 * Otherwise the header that calls this page unused is stale, and to take the page would
 * overwrite what somebody owns.
 */
static bool
is_unused_page(Page page, SfPageType type)
{
	return PageIsNew(page) ||
		(type == SF_PAGE_MAP && sfi_page_type(page) == SF_PAGE_MAP &&
		 SfPageMap(page)->used_sectors == 0);
}

void
sfi_page_extend(Relation rel, uint32 page)
{
	BlockNumber npages = RelationGetNumberOfBlocks(rel);

	/*
	 * Pages are taken one after the other, and map pages lie in fixed places,
	 * so a page further behind comes from the number of a damaged header.  To
	 * extend all the way there would fill the disk.
	 */
	if (page >= npages + SF_MAP_STRIDE)
		sfi_page_report_damaged(rel, page, psprintf("The relation has %u pages.", npages));

	/* another process may extend as well: it is asked again under the lock */
	while (RelationGetNumberOfBlocks(rel) <= page)
	{
		LockRelationForExtension(rel, ExclusiveLock);
		SF_FAULT(page_extend);
		if (RelationGetNumberOfBlocks(rel) <= page)
			ReleaseBuffer(ReadBuffer(rel, P_NEW));
		UnlockRelationForExtension(rel, ExclusiveLock);
	}
}

Buffer
sfi_page_new(Relation rel, uint32 page, SfPageType type)
{
	Buffer		buf;

	SF_ASSERT(page != 0 && (type == SF_PAGE_MAP) == SF_IS_MAP_PAGE(page));
	sfi_page_extend(rel, page);
	buf = read_buffer(rel, page);
	LockBuffer(buf, BUFFER_LOCK_EXCLUSIVE);
	if (!is_unused_page(BufferGetPage(buf), type))
		sfi_page_report_damaged(rel, page, "The header takes it for unused.");
	return buf;
}

Buffer
sfi_page_reinit(Relation rel, uint32 page)
{
	SF_ASSERT(page != 0 && CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	sfi_page_extend(rel, page);
	return ReadBufferExtended(rel, MAIN_FORKNUM, page, RBM_ZERO_AND_LOCK, NULL);
}

/* The type does not matter: whatever is there, somebody has put it there. */
bool
sfi_page_is_used(Relation rel, uint32 page)
{
	Buffer		buf;
	bool		is_new;

	if (page >= RelationGetNumberOfBlocks(rel))
		return false;
	buf = read_buffer(rel, page);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	is_new = PageIsNew(BufferGetPage(buf));
	UnlockReleaseBuffer(buf);
	return !is_new;
}

SfPageType
sfi_page_copy(Relation rel, uint32 page, char *content)
{
	Buffer		buf;
	SfPageType	type;
	char	   *problem = NULL;
	uint32		later;

	if (page >= RelationGetNumberOfBlocks(rel))
		return 0;
	SF_INVARIANT(rule_4, CheckRelationLockedByMe(rel, AccessShareLock, true));
	buf = read_in_context(rel, page, RBM_NORMAL);
	LockBuffer(buf, BUFFER_LOCK_SHARE);
	type = sfi_page_type(BufferGetPage(buf));
	later = sfi_page_later_version(BufferGetPage(buf));
	if (type != 0)
		problem = sealed_page_problem(BufferGetPage(buf), SfStorageRel(SfRelStorage(rel)), page,
									  type);

	/*
	 * The copy is made under the lock, and the lock is let go before an
	 * ERROR: a check reads damaged pages by the hundred, each in a
	 * subtransaction.
	 */
	memcpy(content, PageGetContents(BufferGetPage(buf)), SF_PAGE_CONTENT);
	UnlockReleaseBuffer(buf);
	refuse_later(later, rel, page);
	if (problem != NULL)
		sfi_page_report_damaged(rel, page, problem);
	return type;
}

void
sfi_page_read_copy(Relation rel, uint32 page, SfPageType type, void *content)
{
	Buffer		buf = sfi_page_read(rel, page, type, BUFFER_LOCK_SHARE);

	memcpy(content, PageGetContents(BufferGetPage(buf)), SF_PAGE_CONTENT);
	UnlockReleaseBuffer(buf);
}

/*
 * By storage, since the relation may have been given new storage in this transaction.
 * Its lock is held exclusively then, so nobody removes the buffers meanwhile (rule 4).
 */
void
sfi_page_image(SfStorage storage, BlockNumber page, ReadBufferMode mode, char *block)
{
	Buffer		buf = ReadBufferWithoutRelcache(storage, MAIN_FORKNUM, page, mode, NULL, true);

	LockBuffer(buf, BUFFER_LOCK_SHARE);
	memcpy(block, BufferGetPage(buf), BLCKSZ);
	UnlockReleaseBuffer(buf);
}

/*
 * The server's own way to open a file for a short time, which closes it should an ERROR
 * come in between.
 */
bool
sfi_page_from_file(const char *path, uint64 n, char *block, int elevel)
{
	/* a file that is not there is an answer; any other failure is reported */
	int			fd = SF_FAULT_FAILS(io_page_read) ? -1 :
		OpenTransientFile(path, O_RDONLY | O_NONBLOCK | PG_BINARY);
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
sfi_page_first_of_fork(SfStorage storage, char *block)
{
	SMgrRelation smgr = sf_compat_smgropen(storage);
	bool		found = smgrexists(smgr, MAIN_FORKNUM) && smgrnblocks(smgr, MAIN_FORKNUM) > 0;

	if (found)
		smgrread(smgr, MAIN_FORKNUM, 0, block);
	smgrclose(smgr);
	return found;
}
