/*-------------------------------------------------------------------------
 *
 * change.c
 *	  The one way in which pages of a segment relation change.
 *
 * A change is a set of locked buffers with a list of small operations for
 * each.  sf_change_finish() applies the operations in a critical section and
 * writes one WAL record whose block data *are* the operations; redo applies
 * the same operations with the same function.  So a forward path that works
 * has a redo that works, and the opcodes only say what the change was for.
 *
 * Block data: operations one after the other, each
 *	 0	2	code (SfOpCode)
 *	 2	2	length of the payload
 *	 4	n	payload
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "space/space_internal.h"
#include "utils/memutils.h"

typedef struct SfOpHeader
{
	uint16		code;
	uint16		len;
} SfOpHeader;

/* One page of the change under construction. */
typedef struct SfChangePage
{
	Buffer		buf;
	bool		init;			/* first operation initialises the page */
	bool		clears;			/* has a MAP_CLEAR */
	StringInfoData ops;
} SfChangePage;

static SfChangePage pages[SF_CHANGE_MAX];
static int	npages;

void
sf_change_begin(void)
{
	npages = 0;
	/* one more than the highest block id; main data and a data per block */
	XLogEnsureRecordSpace(SF_CHANGE_MAX, SF_CHANGE_MAX + 4);
}

/* Add a buffer, locked exclusively; returns its place in the change. */
int
sf_change_add(Buffer buf)
{
	SfChangePage *page;

	if (npages == SF_CHANGE_MAX)
		elog(ERROR, "too many pages in one change");
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

/* Place of a buffer that was added, or -1. */
int
sf_change_find(Buffer buf)
{
	for (int i = 0; i < npages; i++)
		if (pages[i].buf == buf)
			return i;
	return -1;
}

/* Buffer at a place of the change. */
Buffer
sf_change_buffer(int i)
{
	Assert(i >= 0 && i < npages);
	return pages[i].buf;
}

void
sf_change_op(int i, SfOpCode code, const void *payload, Size len)
{
	SfOpHeader	head = {code, (uint16) len};

	Assert(i >= 0 && i < npages && len <= PG_UINT16_MAX);
	appendBinaryStringInfo(&pages[i].ops, (char *) &head, sizeof(head));
	appendBinaryStringInfo(&pages[i].ops, payload, len);
	if (code == SF_OP_MAP_CLEAR)
		pages[i].clears = true;
}

/* Operation that makes the page new; must be the page's first. */
void
sf_change_init(int i, SfPageType type, const void *content, Size len)
{
	uint32		type32 = type;
	SfOpHeader	head = {SF_OP_INIT, (uint16) (sizeof(type32) + len)};
	StringInfo	ops = &pages[i].ops;

	Assert(ops->len == 0);
	appendBinaryStringInfo(ops, (char *) &head, sizeof(head));
	appendBinaryStringInfo(ops, (char *) &type32, sizeof(type32));
	if (len > 0)
		appendBinaryStringInfo(ops, content, len);
	pages[i].init = true;
}

/* Remove entries by ascending index, keeping the order of the others. */
static void
pend_remove(SfPending *pending, const uint16 *indexes, int n)
{
	int			to = 0;
	int			skip = 0;

	for (int from = 0; from < pending->nentries; from++)
	{
		if (skip < n && indexes[skip] == from)
			skip++;
		else
			pending->entries[to++] = pending->entries[from];
	}
	Assert(skip == n);
	pending->nentries = to;
}

/*
 * Apply one operation to a page.  Runs in critical sections and in redo: no
 * allocation, no error.  The payload may be unaligned.
 */
static void
apply_op(Page page, SfOpCode code, const char *payload, Size len)
{
	SfMapRange	range;
	uint16		indexes[SF_PENDING_MAX];

	switch (code)
	{
		case SF_OP_INIT:
			{
				uint32		type;

				memcpy(&type, payload, sizeof(type));
				sf_page_init(page, type, payload + sizeof(type), len - sizeof(type));
				break;
			}
		case SF_OP_HEADER:
			memcpy(SfPageHeader(page), payload, sizeof(SfHeader));
			break;
		case SF_OP_MAP_SET:
			memcpy(&range, payload, sizeof(range));
			sf_map_set(SfPageMap(page), range);
			break;
		case SF_OP_MAP_CLEAR:
			memcpy(&range, payload, sizeof(range));
			sf_map_clear(SfPageMap(page), range);
			break;
		case SF_OP_PEND_ADD:
			memcpy(&SfPagePending(page)->entries[SfPagePending(page)->nentries], payload, len);
			SfPagePending(page)->nentries += len / sizeof(SfPendEntry);
			Assert(SfPagePending(page)->nentries <= SF_PENDING_MAX);
			break;
		case SF_OP_PEND_REMOVE:
			memcpy(indexes, payload, len);
			pend_remove(SfPagePending(page), indexes, len / sizeof(uint16));
			break;
		case SF_OP_PEND_COMMITTED:
			memcpy(indexes, payload, len);
			for (int i = 0; i < len / sizeof(uint16); i++)
				SfPagePending(page)->entries[indexes[i]].outcome = SF_OUTCOME_COMMITTED;
			break;
		case SF_OP_PEND_NEXT:
			memcpy(&SfPagePending(page)->next, payload, sizeof(uint32));
			break;
	}
}

/* Apply a page's list of operations. */
static void
apply_ops(Page page, const char *ops, Size len)
{
	const char *end = ops + len;

	while (ops < end)
	{
		SfOpHeader	head;

		memcpy(&head, ops, sizeof(head));
		ops += sizeof(head);
		apply_op(page, head.code, ops, head.len);
		ops += head.len;
	}
}

/*
 * Change a page and seal it again.  Redo may meet one that is damaged: that
 * stays to be seen.
 */
static void
apply_and_seal(Buffer buf, const char *ops, Size len, bool init)
{
	Page		page = BufferGetPage(buf);
	SfNode		node;
	ForkNumber	fork;
	BlockNumber n;
	bool		sound;

	BufferGetTag(buf, &node, &fork, &n);
	sound = init || sf_seal_holds(page, SfNodeRel(node), n);
	apply_ops(page, ops, len);
	if (sound)
		sf_seal_put(page, SfNodeRel(node), n);
}

XLogRecPtr
sf_change_finish(uint8 info, const void *data, Size len)
{
	XLogRecPtr	lsn;

	START_CRIT_SECTION();
	XLogBeginInsert();
	XLogRegisterData((char *) data, len);
	for (int i = 0; i < npages; i++)
	{
		apply_and_seal(pages[i].buf, pages[i].ops.data, pages[i].ops.len, pages[i].init);
		MarkBufferDirty(pages[i].buf);
		XLogRegisterBuffer(i, pages[i].buf,
						   pages[i].init ? REGBUF_WILL_INIT : REGBUF_STANDARD);
		XLogRegisterBufData(i, pages[i].ops.data, pages[i].ops.len);
	}
	lsn = XLogInsert(SF_RMGR_ID, info);
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
sf_change_finish_plain(uint8 info)
{
	xl_sf_plain rec = {SF_WAL_VERSION};

	return sf_change_finish(info, &rec, sizeof(rec));
}

/*
 * Redo of all pages of a record.  All are locked until the last is done, as
 * on the primary, for readers on a hot standby.
 */
void
sf_change_redo(XLogReaderState *record)
{
	Buffer		bufs[SF_CHANGE_MAX];
	int			n = XLogRecMaxBlockId(record) + 1;

	if (n > SF_CHANGE_MAX)
		elog(PANIC, "securefile record with %d pages", n);
	for (int i = 0; i < n; i++)
	{
		XLogRedoAction action = BLK_NEEDS_REDO;
		bool		init = (XLogRecGetBlock(record, i)->flags & BKPBLOCK_WILL_INIT) != 0;
		Size		len;
		char	   *ops;

		if (init)
			bufs[i] = XLogInitBufferForRedo(record, i);
		else
			action = XLogReadBufferForRedo(record, i, &bufs[i]);
		if (action != BLK_NEEDS_REDO)
			continue;
		ops = XLogRecGetBlockData(record, i, &len);
		apply_and_seal(bufs[i], ops, len, init);
		PageSetLSN(BufferGetPage(bufs[i]), record->EndRecPtr);
		MarkBufferDirty(bufs[i]);
	}
	for (int i = 0; i < n; i++)
		if (BufferIsValid(bufs[i]))
			UnlockReleaseBuffer(bufs[i]);
}
