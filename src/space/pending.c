/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  The queue of pending pages: what a transaction will have set free
 *	  (uncommitted free space of the SecureFiles paper), and what it took and
 *	  will give back should it fail.
 *
 * Writers append at the tail page; only the resolver takes entries out.
 *
 *	 header: pending_head ------------+			  pending_tail ---+
 *									  v							  v
 *								 page 5 -> page 12 -> page 3 -> page 7 -> none
 *								 entries,  full		  full		room: new
 *								 fewer							entries
 *
 * An entry says before the commit what is to happen after it.  If the transaction
 * fails, or the server does, the entry is there, and the commit log says how the
 * transaction ended.  So nothing has to be written at the end of a transaction, and an
 * abort writes nothing at all.
 *
 * Entries of one kind for one segment go into as few records as possible: a record has
 * the tail page and up to SF_CHANGE_MAX - 1 map pages, in ascending order.  Where runs
 * come in another order, or the page is full, a new record begins.
 *
 * To append, the tail page alone is locked: the header is read for its number first and
 * let go again after the tail is locked.  In between the tail cannot leave the queue,
 * since only a page that is not the last one does.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/pending.h"
#include "storage/lmgr.h"

/*
 * Pages of the free list come first, so that the relation grows as little as can be.
 * Numbers of map pages are skipped: they have fixed places among the others.
 */
Buffer
sfi_pending_take_page(Relation rel, SfHeader *h)
{
	Buffer		buf;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	SF_ASSERT(h->next_page >= 2);
	if (h->free_head != SF_NO_PAGE)
	{
		buf = sfi_page_read(rel, h->free_head, SF_PAGE_FREE, BUFFER_LOCK_EXCLUSIVE);
		h->free_head = SfPageFree(BufferGetPage(buf))->next;
		h->free_pages -= h->free_pages > 0;
		return buf;
	}
	if (SF_IS_MAP_PAGE(h->next_page))
		h->next_page++;
	return sfi_page_new(rel, h->next_page++, SF_PAGE_PENDING);
}

Buffer
sfi_pending_read_tail(Relation rel, uint32 tail)
{
	Buffer		buf = sfi_page_read(rel, tail, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);

	if (SfPagePending(BufferGetPage(buf))->next != SF_NO_PAGE)
		sfi_page_report_damaged(rel, tail,
								"It is not the last page of its list, as the header has it.");
	return buf;
}

/* Append an empty page to the queue, unless another did since seen_tail. */
static void
add_tail(Relation rel, uint32 seen_tail)
{
	SfPending	empty = {.next = SF_NO_PAGE};
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);
	Buffer		oldbuf = InvalidBuffer;
	Buffer		newbuf;
	uint32		newpage;

	/* many writers find a page full at once: one of them adds the next */
	if (h.pending_tail != seen_tail)
	{
		UnlockReleaseBuffer(hbuf);
		return;
	}
	if (seen_tail != SF_NO_PAGE)
		oldbuf = sfi_pending_read_tail(rel, seen_tail);
	newbuf = sfi_pending_take_page(rel, &h);
	newpage = BufferGetBlockNumber(newbuf);
	SF_ASSERT(newpage != 0 && newpage != seen_tail && !SF_IS_MAP_PAGE(newpage));
	h.pending_tail = newpage;
	if (h.pending_head == SF_NO_PAGE)
		h.pending_head = newpage;

	sfi_change_begin_header(hbuf, &h);
	if (BufferIsValid(oldbuf))
		sfi_change_op(sfi_change_add(oldbuf), SF_OP_PEND_NEXT, &newpage, sizeof(newpage));
	sfi_change_init(sfi_change_add(newbuf), SF_PAGE_PENDING, &empty, sizeof(empty));
	sfi_change_finish_pages(SF_PAGES_QUEUE, 0, 0);
}

/*
 * The lock of the header is let go before a page is added, which takes it exclusively:
 * LWLocks cannot be raised from one mode to another.  So the look begins anew after
 * that, and others may have filled the new page meanwhile.
 */
Buffer
sfi_pending_lock_tail(Relation rel, int n, int hmode, Buffer *hbuf)
{
	SF_ASSERT(n > 0 && n <= SF_PENDING_MAX && (hmode == BUFFER_LOCK_EXCLUSIVE) == (hbuf != NULL));
	for (;;)
	{
		Buffer		header = sfi_page_read(rel, 0, SF_PAGE_HEADER, hmode);
		uint32		tail = SfPageHeader(BufferGetPage(header))->pending_tail;
		Buffer		buf = InvalidBuffer;

		if (tail != SF_NO_PAGE)
		{
			buf = sfi_pending_read_tail(rel, tail);
			if (SfPagePending(BufferGetPage(buf))->nentries + n <= SF_PENDING_MAX)
			{
				if (hmode == BUFFER_LOCK_SHARE)
					UnlockReleaseBuffer(header);
				else
					*hbuf = header;
				return buf;
			}
			UnlockReleaseBuffer(buf);
		}
		UnlockReleaseBuffer(header);
		add_tail(rel, tail);
	}
}

/*
 * Lock the last page of the queue while the page of an earlier part of it is locked.
 * InvalidBuffer: that page is the last one itself, or was taken for one that is not it
 * any more, in which case *is_tail is false.
 */
static Buffer
lock_tail_behind(Relation rel, Buffer buf, uint32 tail, bool *is_tail)
{
	Buffer		tailbuf;

	SF_ASSERT(sfi_page_is_locked(buf, LW_EXCLUSIVE));
	*is_tail = true;
	if (SfPagePending(BufferGetPage(buf))->next == SF_NO_PAGE)
		return InvalidBuffer;
	*is_tail = false;
	if (tail == BufferGetBlockNumber(buf))
		return InvalidBuffer;
	tailbuf = sfi_page_read(rel, tail, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	*is_tail = SfPagePending(BufferGetPage(tailbuf))->next == SF_NO_PAGE;
	return tailbuf;
}

/*
 * In the order of the queue: a walk locks a page while the one before it is locked.  The
 * header is not locked meanwhile, so the last page may have got a successor since it was
 * asked for.
 */
Buffer
sfi_pending_lock_both(Relation rel, uint32 page, Buffer *buf, int *n)
{
	SF_ASSERT(page != SF_NO_PAGE && *n >= 0);
	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	for (;;)
	{
		uint32		tail = sfi_header(rel).pending_tail;
		bool		is_tail;
		Buffer		tailbuf;
		int			room;

		*buf = sfi_page_read(rel, page, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
		tailbuf = lock_tail_behind(rel, *buf, tail, &is_tail);
		room = SF_PENDING_MAX -
			SfPagePending(BufferGetPage(BufferIsValid(tailbuf) ? tailbuf : *buf))->nentries;
		if (is_tail && (room > 0 || *n == 0))
		{
			*n = Min(*n, room);
			return BufferIsValid(tailbuf) ? tailbuf : *buf;
		}
		if (BufferIsValid(tailbuf))
			UnlockReleaseBuffer(tailbuf);
		UnlockReleaseBuffer(*buf);
		if (is_tail)
			add_tail(rel, tail);
	}
}

/*
 * Rule 3.  fxid is not above the one of the record: after a crash a higher one, which
 * stands in no record then, might be given out again, to a transaction that commits.
 */
SfPendEntry
sfi_pending_entry(SfPendKind kind, uint64 fxid, uint64 start, uint32 count)
{
	SfPendEntry entry = {0};

	SF_ASSERT(count > 0);
	SF_ASSERT(sf_format_pend_kind(kind)->name != NULL);
	SF_ASSERT(!sf_pend_is_run(kind) || sf_format_is_possible_run(start, count));
	SF_ASSERT(!sf_format_pend_kind(kind)->is_page || count == 1);
	(void) GetCurrentTransactionId();	/* so that the record carries an xid */
	entry.fxid = fxid;
	entry.start = start;
	entry.count = count;
	entry.kind = kind;
	return entry;
}

/*
 * Add the operation that marks a run used to the change; false when the map
 * page cannot be part of this record (order of locks, number of pages).
 *
 * The bits must be clear.  If one is set, two values would own the sector, and the free
 * of one of them would destroy the other.  So that is an ERROR while the transaction can
 * still fail, and no matter how it came about: a stale map page, for instance.
 */
static bool
add_map_set(Relation rel, SfRun run, uint32 *last_map, int *map_at)
{
	uint32		map = sf_map_of(run.start);
	SfMapRange	range = sfi_map_range(run.start, run.nsectors);
	Buffer		buf;

	if (*map_at < 0 || map != *last_map)
	{
		if (*map_at >= SF_CHANGE_MAX - 2 || (*map_at >= 0 && map < *last_map))
			return false;
		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);
		*map_at = sfi_change_add(buf);
		*last_map = map;
	}
	else
		buf = sfi_change_buffer(*map_at);
	if (!sf_format_map_none_used(SfPageMap(BufferGetPage(buf)), range))
		sf_base_report_damage(psprintf("space of a new value is in use already in segment \"%s\"",
									   RelationGetRelationName(rel)),
							  psprintf("Sectors " UINT64_FORMAT " to " UINT64_FORMAT ".",
									   run.start, run.start + run.nsectors - 1));
	sfi_change_op(*map_at, SF_OP_MAP_SET, &range, sizeof(range));
	return true;
}

/* One record of as many entries as fit; returns how many. */
static int
log_one_record(Relation rel, SfPendKind kind, uint64 fxid, const SfRun *runs, int nruns)
{
	SfPendEntry entries[SF_PENDING_MAX];
	Buffer		tail = sfi_pending_lock_tail(rel, 1, BUFFER_LOCK_SHARE, NULL);
	int			room = SF_PENDING_MAX - SfPagePending(BufferGetPage(tail))->nentries;
	uint32		last_map = 0;
	int			map_at = -1;
	int			tail_at;
	int			n = 0;

	SF_ASSERT(nruns > 0 && room > 0);
	sfi_change_begin();
	tail_at = sfi_change_add(tail);
	while (n < nruns && n < room)
	{
		if (kind == SF_PEND_ALLOC && !add_map_set(rel, runs[n], &last_map, &map_at))
			break;
		entries[n] = sfi_pending_entry(kind, fxid, runs[n].start, runs[n].nsectors);
		n++;
	}
	/* the first run always fits, or its caller would never come to an end */
	SF_ASSERT(n > 0);
	if (SF_BREAKS(s4))
		SfPagePending(BufferGetPage(tail))->next = 0;
	if (!SF_BREAKS(s1))
		sfi_change_op(tail_at, SF_OP_PEND_ADD, entries, n * sizeof(SfPendEntry));
	sfi_change_finish_pages(SF_PAGES_ENTRIES, kind, n);
	return n;
}

/*
 * Are runs inside the segment?  Those of ALLOC entries are lent to this transaction, so the
 * segment cannot become shorter than they are.
 */
static bool
are_inside(Relation rel, const SfRun *runs, int nruns)
{
	uint64		total = sfi_header(rel).total_sectors;

	for (int i = 0; i < nruns; i++)
		if (runs[i].nsectors == 0 || runs[i].start + runs[i].nsectors > total)
			return false;
	return true;
}

int
sf_space_log_some(SfSegment *seg, SfPendKind kind, uint64 fxid, const SfRun *runs, int nruns)
{
	Relation	rel = sfi_segment_rel(seg);
	int			n;

	SF_ASSERT(!seg->retained && nruns > 0);
	if (fxid > U64FromFullTransactionId(GetCurrentFullTransactionId()))
		elog(ERROR, "xid of pending entries is above that of their record");
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	SF_INVARIANT(S3, kind != SF_PEND_ALLOC || are_inside(rel, runs, nruns));
	n = log_one_record(rel, kind, fxid, runs, nruns);
	sfi_segment_close(rel);
	return n;
}

/* ---- taking entries out ---- */

/*
 * Remember the newest xid whose freeing a standby's snapshots must outlive.  What an
 * aborted transaction took was never seen by any snapshot, so ALLOC entries conflict
 * with none.
 */
void
sfi_pending_note_freeing(TransactionId *newest, const SfPendEntry *entry)
{
	TransactionId xid = XidFromFullTransactionId(FullTransactionIdFromU64(entry->fxid));

	if (sf_format_pend_kind(entry->kind)->is_alloc)
		return;
	if (!TransactionIdIsValid(*newest) || TransactionIdFollows(xid, *newest))
		*newest = xid;
}

void
sfi_pending_forget(SfPageWork *work, const uint16 *indexes, int n)
{
	int			to = 0;
	int			skip = 0;

	for (int from = 0; from < work->n; from++)
	{
		if (skip < n && indexes[skip] == from)
			skip++;
		else
			work->entries[to++] = work->entries[from];
	}
	SF_ASSERT(skip == n && to == work->n - n);
	work->n = to;
}
