/*-------------------------------------------------------------------------
 *
 * node_pages.c
 *	  New inode pages: taken, filled and noted as pending in one record.
 *
 * One record, so that a crash finds either no page taken, or pages that an ALLOC_PAGE
 * entry names: should the transaction fail, the resolver gives them back.
 *
 * A parent holds numbers and stamps of its children, and children may be made in the
 * same call.  So the numbers of all pages are known before the contents of the first
 * are asked for.  A stamp is unique in its segment, and a page that has been given to
 * another object has another one: a pointer with an old stamp is noticed.
 *
 * Between two calls some numbers are left out, by chance.  Where an older copy of the segment
 * was put back, numbers of objects and pages are given out again, but the stamps are others: a
 * row of later meets no map of another value.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

#define MAX_AT_ONCE		16

/* Stamps that are left out at most: 2^41 calls, and more, take none that is keyed. */
#define STAMPS_LEFT_OUT	(1 << 20)

static uint32
stamps_left_out(void)
{
	uint32		random = 0;

	/* without chance the stamps are good ones, too */
	(void) pg_strong_random(&random, sizeof(random));
	return random % STAMPS_LEFT_OUT;
}

void
sf_space_new_inode_pages(SfSegment *seg, int n, SfPageFill fill, void *arg,
						 uint32 *pages, uint64 *first_stamp)
{
	Relation	rel = sfi_segment_rel(seg);
	SfPendEntry entries[MAX_AT_ONCE];
	Buffer		bufs[MAX_AT_ONCE];
	char	   *content = palloc0(SF_PAGE_CONTENT);
	Buffer		hbuf;
	Buffer		tail;
	SfHeader	h;
	uint64		fxid;
	uint32		left_out = stamps_left_out();

	SF_ASSERT(n > 0 && n <= MAX_AT_ONCE);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	(void) GetCurrentTransactionId();
	fxid = U64FromFullTransactionId(GetTopFullTransactionId());

	/*
	 * Pre-commit must be able to give them back, also when a rollback to a
	 * savepoint has taken back what they are of, and the locks.
	 */
	(void) sf_space_hold(seg, RowExclusiveLock);
	sfi_grow_first(seg, rel);
	if (!sfi_quota_has_pages(seg, rel, n))
		sfi_full_refuse(seg, 1, false);
	tail = sfi_pending_lock_tail(rel, n, BUFFER_LOCK_EXCLUSIVE, &hbuf);
	h = *SfPageHeader(BufferGetPage(hbuf));
	*first_stamp = h.next_stamp + left_out;
	h.next_stamp = *first_stamp + n;
	for (int i = 0; i < n; i++)
	{
		bufs[i] = sfi_pending_take_page(rel, &h);
		pages[i] = BufferGetBlockNumber(bufs[i]);
		SF_ASSERT(pages[i] != 0 && !SF_IS_MAP_PAGE(pages[i]));
		entries[i] = sfi_pending_entry(SF_PEND_ALLOC_PAGE, fxid, pages[i], 1);
	}

	SF_ASSERT(h.next_stamp == *first_stamp + n);
	SF_ASSERT(h.next_stamp < SF_KEYED_STAMP);

	sfi_change_begin_header(hbuf, &h);
	sfi_change_op(sfi_change_add(tail), SF_OP_PEND_ADD, entries, n * sizeof(SfPendEntry));
	for (int i = 0; i < n; i++)
	{
		uint32		len = fill(i, pages, *first_stamp, content, arg);

		SF_ASSERT(len >= SF_INODE_HEADER && len <= SF_PAGE_CONTENT);
		sfi_change_init(sfi_change_add(bufs[i]), SF_PAGE_INODE, content, len);
	}
	sfi_change_finish_pages(SF_PAGES_INODE, SF_PEND_ALLOC_PAGE, n);
	pfree(content);
	sfi_segment_close(rel);
}
