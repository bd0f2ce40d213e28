/*-------------------------------------------------------------------------
 *
 * page_change.c
 *	  The one way in which pages of a segment relation change.
 *
 * A change is a set of locked buffers with a list of small operations for
 * each.  sfi_change_finish() applies the operations in a critical section and
 * writes one WAL record whose block data *are* the operations; redo applies
 * the same operations with the same function.  So a forward path that works
 * has a redo that works.
 *
 * What an operation is, and how it is applied, is in format/change.c.
 *
 *	 forward									redo
 *	 lock pages, read them, decide				lock the pages of the record
 *	 sfi_change_begin, _add, _op				ops = data of the block
 *	 require_applicable: all can be applied		require_applicable
 *	 ---- critical section ----					(redo is one as a whole)
 *	 apply_ops, seal, mark dirty				apply_ops, seal, mark dirty
 *	 XLogInsert, set the LSN					set the LSN
 *	 ---- end ----
 *	 unlock										unlock
 *
 * Nothing is modified before all of the change has been found possible.  So an ERROR
 * while a change is being put together needs no clean-up: the buffers are released by
 * the server, and the lists of operations are forgotten with the next begin.
 *
 * The operations are kept in memory of this file that is never given back (a few
 * kilobytes): nothing may be allocated in the critical section, and a change is made
 * for every commit that has values.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "space/pages.h"
#include "utils/memutils.h"

/* One page of the change under construction. */
typedef struct SfChangePage
{
	Buffer		buf;
	bool		init;			/* first operation initialises the page */
	bool		clears;			/* has a MAP_CLEAR */
	int			miscount;		/* of its used bits, before; in assertions
								 * only */
	StringInfoData ops;
} SfChangePage;

static SfChangePage pages[SF_CHANGE_MAX];
static int	npages;

void
sfi_change_begin(void)
{
	/* a list in the middle of a critical section would be half applied */
	SF_ASSERT(CritSectionCount == 0);
	npages = 0;
	/* one more than the highest block id; main data and a data per block */
	XLogEnsureRecordSpace(SF_CHANGE_MAX, SF_CHANGE_MAX + 4);
}

/*
 * The limit is a matter of the code, and not of what is on disk: each caller counts its
 * pages (SF_CHANGE_MAX).  It is an ERROR all the same, since nothing is lost by it.
 */
int
sfi_change_add(Buffer buf)
{
	SfChangePage *page;

	SF_ASSERT(sfi_page_is_locked(buf, LW_EXCLUSIVE) && sfi_change_find(buf) < 0);
	if (npages == SF_CHANGE_MAX)
		elog(ERROR, "too many pages in one change");
	SF_ASSERT(npages == 0 ||
			  SfStorageEquals(sfi_page_storage(pages[0].buf), sfi_page_storage(buf)));
	page = &pages[npages];
	page->buf = buf;
	page->init = page->clears = false;
	if (page->ops.data == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		initStringInfo(&page->ops);
		MemoryContextSwitchTo(old);
	}
	resetStringInfo(&page->ops);
	return npages++;
}

int
sfi_change_find(Buffer buf)
{
	for (int i = 0; i < npages; i++)
		if (pages[i].buf == buf)
			return i;
	return -1;
}

Buffer
sfi_change_buffer(int i)
{
	SF_ASSERT(i >= 0 && i < npages);
	return pages[i].buf;
}

void
sfi_change_op(int i, SfOpCode code, const void *payload, Size len)
{
	SfOpHeader	head = {code, (uint16) len};

	SF_ASSERT(i >= 0 && i < npages && len <= PG_UINT16_MAX);
	SF_ASSERT(code != SF_OP_INIT && !pages[i].init);
	appendBinaryStringInfo(&pages[i].ops, (char *) &head, sizeof(head));
	appendBinaryStringInfo(&pages[i].ops, payload, len);
	if (code == SF_OP_MAP_CLEAR)
		pages[i].clears = true;
}

void
sfi_change_header(int i, const SfHeader *header)
{
	SF_ASSERT(BufferGetBlockNumber(sfi_change_buffer(i)) == 0);
	sfi_change_op(i, SF_OP_HEADER, header, sizeof(*header));
}

void
sfi_change_begin_header(Buffer hbuf, const SfHeader *header)
{
	sfi_change_begin();
	sfi_change_header(sfi_change_add(hbuf), header);
}

void
sfi_change_init(int i, SfPageType type, const void *content, Size len)
{
	uint32		type32 = type;
	SfOpHeader	head = {SF_OP_INIT, (uint16) (sizeof(type32) + len)};
	StringInfo	ops = &pages[i].ops;

	SF_ASSERT(i >= 0 && i < npages && ops->len == 0);
	SF_ASSERT(len <= SF_PAGE_CONTENT && type >= SF_PAGE_HEADER && type <= SF_PAGE_REMOVED);
	SF_ASSERT((type == SF_PAGE_HEADER) == (BufferGetBlockNumber(pages[i].buf) == 0));
	SF_ASSERT((type == SF_PAGE_MAP) == SF_IS_MAP_PAGE(BufferGetBlockNumber(pages[i].buf)));
	appendBinaryStringInfo(ops, (char *) &head, sizeof(head));
	appendBinaryStringInfo(ops, (char *) &type32, sizeof(type32));
	if (len > 0)
		appendBinaryStringInfo(ops, content, len);
	pages[i].init = true;
}

/*
 * Apply a page's list of operations, which was checked.  Runs in critical sections
 * and in redo: no allocation, no error.
 */
static void
apply_ops(Page page, const char *ops, Size len)
{
	const uint8 *next = (const uint8 *) ops;

	while (next < (const uint8 *) ops + len)
	{
		SfOp		op = sf_format_op_next(&next);
		uint32		type;

		if (op.code == SF_OP_INIT)
		{
			memcpy(&type, op.payload, sizeof(type));
			sfi_page_init(page, type, op.payload + sizeof(type), op.len - sizeof(type));
		}
		else
			sf_format_op_apply(PageGetContents(page), op);
	}
}

/*
 * Change a page and seal it again.  Redo comes here only with a page whose seal held,
 * or that is made new: to seal a damaged page again would hide the damage for good.
 */
static void
apply_and_seal(Buffer buf, const char *ops, Size len)
{
	Page		page = BufferGetPage(buf);

	SF_ASSERT(sfi_page_is_locked(buf, LW_EXCLUSIVE) && (CritSectionCount > 0 || InRecovery));
	apply_ops(page, ops, len);
	if (sfi_page_type(page) == SF_PAGE_MAP && SF_BREAKS(s6))
		SfPageMap(page)->used_sectors--;
	sfi_seal_put(page, SfStorageRel(sfi_page_storage(buf)), BufferGetBlockNumber(buf));
}

/*
 * Redo of a page that is damaged already: it stays so, and to be seen as such;
 * the server must start.
 */
static bool
is_damaged(Buffer buf)
{
	SfStorage	storage = sfi_page_storage(buf);
	BlockNumber n = BufferGetBlockNumber(buf);

	if (sfi_page_is_sound(BufferGetPage(buf), SfStorageRel(storage), n))
		return false;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("page %u of the segment relation with file number %u is damaged",
					n, SfStorageRel(storage)),
			 errdetail("A change of it is left out.")));
	return true;
}

/*
 * ERROR when a page is such that a list of operations cannot be applied to it: it
 * or they are damaged.  The contents of a page that is made new do not matter.  Asked
 * before the record is written, too: a record that redo refuses would otherwise be met
 * at the next start only.
 */
static void
require_applicable(Buffer buf, const char *ops, Size len, bool init)
{
	Page		page = BufferGetPage(buf);
	SfPageType	type = init ? 0 : sfi_page_type(page);
	const char *problem = sf_format_ops_problem(type, PageGetContents(page),
												(const uint8 *) ops, len);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of a securefile segment cannot be changed", BufferGetBlockNumber(buf)),
				 errdetail_internal("%s.", problem)));
}

/*
 * S6: how many used bits of a page its count leaves out.  It is 0; only damage makes it
 * another number, and a change leaves that as it is.
 */
static int
miscount(Buffer buf)
{
	Page		page = BufferGetPage(buf);
	const SfMap *map = SfPageMap(page);

	if (sfi_page_type(page) != SF_PAGE_MAP)
		return 0;
	return (int) pg_popcount((const char *) map->used, sizeof(map->used)) -
		(int) map->used_sectors;
}

#ifdef SF_ASSERTIONS
/* What the operations of a change do to space. */
typedef struct Effects
{
	uint64		set;			/* sectors that become used */
	uint64		allocated;		/* sectors in ALLOC entries */
	int			nclears;
	int			nremoved;		/* entries */
	bool		adds;			/* entries of a transaction that goes on */
	bool		fills;			/* a new map page has used sectors */
} Effects;

/* Entries that are added, and the sectors that those of kind ALLOC name. */
static void
note_entries(Effects *effects, SfOp op)
{
	SfPendEntry entry;

	for (Size at = 0; at < op.len; at += sizeof(entry))
	{
		memcpy(&entry, op.payload + at, sizeof(entry));
		effects->adds |= entry.outcome == SF_OUTCOME_UNKNOWN;
		if (entry.kind == SF_PEND_ALLOC)
			effects->allocated += entry.count;
	}
}

/* A page that is made new: only a repair makes map pages that are not empty. */
static void
note_init(Effects *effects, SfOp op)
{
	uint32		type;
	SfMap		map = {0};

	memcpy(&type, op.payload, sizeof(type));
	if (type != SF_PAGE_MAP)
		return;
	memcpy(&map, op.payload + sizeof(type), Min(op.len - sizeof(type), sizeof(map)));
	effects->fills |= map.used_sectors > 0;
}

/* Add up what one operation does. */
static void
note_effect(Effects *effects, SfOp op)
{
	SfMapRange	range;

	switch (op.code)
	{
		case SF_OP_INIT:
			note_init(effects, op);
			break;
		case SF_OP_MAP_SET:
			memcpy(&range, op.payload, sizeof(range));
			effects->set += range.count_minus_1 + 1;
			break;
		case SF_OP_MAP_CLEAR:
			effects->nclears++;
			break;
		case SF_OP_PEND_ADD:
			note_entries(effects, op);
			break;
		case SF_OP_PEND_REMOVE:
			effects->nremoved += op.len / sizeof(uint16);
			break;
		default:
			break;
	}
}

/* S4: nobody has changed the page since its last change was sealed. */
static void
check_changed_page(const SfChangePage *page)
{
	SF_ASSERT(sfi_page_is_locked(page->buf, LW_EXCLUSIVE));
	SF_INVARIANT(S4, page->init ||
				 sfi_seal_holds(BufferGetPage(page->buf), SfStorageRel(sfi_page_storage(page->buf)),
								BufferGetBlockNumber(page->buf)));
}

/* The change is whole and has been found possible: does it keep to the rules of space? */
static void
check_change(uint8 info, const void *data)
{
	Effects		effects = {0};
	bool		repairs = info == XLOG_SF_PAGES &&
		((const xl_sf_pages *) data)->reason == SF_PAGES_REPAIR;

	SF_ASSERT(npages > 0);
	for (int i = 0; i < npages; i++)
	{
		const uint8 *next = (const uint8 *) pages[i].ops.data;
		const uint8 *end = next + pages[i].ops.len;

		check_changed_page(&pages[i]);
		pages[i].miscount = pages[i].init ? 0 : miscount(pages[i].buf);
		while (next < end)
			note_effect(&effects, sf_format_op_next(&next));
	}
	SF_INVARIANT(S1, effects.set == effects.allocated);
	SF_INVARIANT(S1, effects.set == 0 || info == XLOG_SF_PAGES);
	SF_INVARIANT(S1, effects.nclears <= effects.nremoved);
	SF_INVARIANT(S1, effects.nclears == 0 || info == XLOG_SF_RESOLVE);
	SF_INVARIANT(S1, !effects.fills || repairs);
	SF_INVARIANT(rule_3, !effects.adds || TransactionIdIsValid(GetCurrentTransactionIdIfAny()));
}
#else
#define check_change(info, data)	((void) 0)
#endif

/* The header as this change leaves it, if it has the whole header; NULL if not. */
static const SfHeader *
header_of_change(SfHeader *header)
{
	const uint8 *ops = (const uint8 *) pages[0].ops.data;
	SfOp		op;

	SF_ASSERT(npages > 0);
	if (BufferGetBlockNumber(pages[0].buf) != 0 || pages[0].ops.len == 0)
		return NULL;
	op = sf_format_op_next(&ops);
	if (op.code != SF_OP_HEADER && op.code != SF_OP_INIT)
		return NULL;
	memcpy(header, op.payload + (op.code == SF_OP_INIT ? sizeof(uint32) : 0), sizeof(*header));
	return header;
}

/* ERROR when redo would refuse a page that the change makes new. */
static void
require_new_page(BlockNumber page)
{
	SfHeader	header;
	const char *problem = sfi_record_new_page_problem(page, header_of_change(&header));

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of a securefile segment cannot be made new", page),
				 errdetail("Of the record: %s.", problem)));
}

/*
 * The record has a block for each page, with its operations as data.  A page that is made
 * new is registered without a full-page image: redo does not read what was there.
 *
 * Buffers are unlocked in reverse.  Readers that follow a link from the header lock pages
 * in the order in which they were added, and so find the first of them free last.
 */
XLogRecPtr
sfi_change_finish(uint8 info, const void *data, Size len)
{
	XLogRecPtr	lsn;

	for (int i = 0; i < npages; i++)
	{
		require_applicable(pages[i].buf, pages[i].ops.data, pages[i].ops.len, pages[i].init);
		if (pages[i].init)
			require_new_page(BufferGetBlockNumber(pages[i].buf));
	}
	check_change(info, data);

	/*
	 * From here to the end nothing may fail: the pages in shared buffers are
	 * ahead of WAL, and another backend's checkpoint waits for their locks.
	 */
	START_CRIT_SECTION();
	XLogBeginInsert();
	XLogRegisterData((char *) data, len);
	for (int i = 0; i < npages; i++)
	{
		apply_and_seal(pages[i].buf, pages[i].ops.data, pages[i].ops.len);
		SF_INVARIANT(S6, miscount(pages[i].buf) == pages[i].miscount);
		MarkBufferDirty(pages[i].buf);
		XLogRegisterBuffer(i, pages[i].buf,
						   pages[i].init ? REGBUF_WILL_INIT : REGBUF_STANDARD);
		XLogRegisterBufData(i, pages[i].ops.data, pages[i].ops.len);
	}
	lsn = XLogInsert(SF_RMGR_ID, info);

	/*
	 * cleared_lsn is the record's own end, which the operations cannot know.
	 * It is not logged and not sealed: a standby flushes in redo instead.
	 */
	for (int i = 0; i < npages; i++)
	{
		PageSetLSN(BufferGetPage(pages[i].buf), lsn);
		if (pages[i].clears)
			SfPageMap(BufferGetPage(pages[i].buf))->cleared_lsn = lsn;
	}
	END_CRIT_SECTION();

	for (int i = npages - 1; i >= 0; i--)
		UnlockReleaseBuffer(pages[i].buf);
	npages = 0;
	return lsn;
}

XLogRecPtr
sfi_change_finish_pages(SfPagesReason reason, uint8 kind, uint16 nentries)
{
	xl_sf_pages rec = {SF_WAL_VERSION, reason, kind, 0, nentries};

	SF_ASSERT(reason >= SF_PAGES_ENTRIES && reason <= SF_LAST_REASON);
	SF_ASSERT((nentries == 0) == (kind == 0));
	return sfi_change_finish(XLOG_SF_PAGES, &rec, sizeof(rec));
}

/*
 * Redo of all pages of a record.  All are locked until the last is done, as
 * on the primary, for readers on a hot standby.
 */
void
sfi_change_redo(XLogReaderState *record)
{
	Buffer		bufs[SF_CHANGE_MAX];
	int			n = XLogRecMaxBlockId(record) + 1;

	SF_ASSERT(InRecovery && n <= SF_CHANGE_MAX);
	for (int i = 0; i < n; i++)
	{
		XLogRedoAction action = BLK_NEEDS_REDO;
		bool		init = (XLogRecGetBlock(record, i)->flags & BKPBLOCK_WILL_INIT) != 0;
		Size		len;
		char	   *ops;

		/*
		 * A full-page image, or a page that is newer than the record, needs
		 * nothing applied.  A page that is made new is not read at all: on
		 * disk may be anything.
		 */
		if (init)
			bufs[i] = XLogInitBufferForRedo(record, i);
		else
			action = XLogReadBufferForRedo(record, i, &bufs[i]);
		if (action != BLK_NEEDS_REDO || (!init && is_damaged(bufs[i])))
			continue;
		ops = XLogRecGetBlockData(record, i, &len);
		require_applicable(bufs[i], ops, len, init);
		apply_and_seal(bufs[i], ops, len);
		PageSetLSN(BufferGetPage(bufs[i]), record->EndRecPtr);
		MarkBufferDirty(bufs[i]);
	}
	for (int i = 0; i < n; i++)
		if (BufferIsValid(bufs[i]))
			UnlockReleaseBuffer(bufs[i]);
}
