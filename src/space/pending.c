/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  The queue of pending pages: what a transaction will have set free
 *	  (uncommitted free space of the SecureFiles paper), and what it took and
 *	  will give back should it fail.
 *
 * Writers append at the tail page; only the resolver takes entries out.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "space/pages.h"
#include "space/pending.h"
#include "storage/lmgr.h"

/*
 * Take a dynamic page: off the free list, else one never used.  The header is
 * locked exclusively and h is the caller's copy of it, to be logged.  The
 * page comes back locked, to be initialised.
 */
Buffer
sfi_pending_take_page(Relation rel, SfHeader *h)
{
	Buffer		buf;

	SF_ASSERT(h->next_page >= 2);
	if (h->free_head != SF_NO_PAGE)
	{
		buf = sfi_page_read(rel, h->free_head, SF_PAGE_FREE, BUFFER_LOCK_EXCLUSIVE);
		h->free_head = SfPageFree(BufferGetPage(buf))->next;
		return buf;
	}
	if (SF_IS_MAP_PAGE(h->next_page))
		h->next_page++;
	return sfi_page_new(rel, h->next_page++, SF_PAGE_PENDING);
}

/*
 * Lock the last page of the queue.  One that leads on to another shows that the
 * header is an old one: what is added here could get lost.
 */
static Buffer
read_tail(Relation rel, uint32 tail)
{
	Buffer		buf = sfi_page_read(rel, tail, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);

	if (SfPagePending(BufferGetPage(buf))->next != SF_NO_PAGE)
		sfi_page_report_damaged(rel, tail, "It is not the last pending page, as the header has it.");
	return buf;
}

/* Append an empty page to the queue, unless another did since seen_tail. */
static void
add_tail(Relation rel, uint32 seen_tail)
{
	SfPending	empty = {.next = SF_NO_PAGE};
	Buffer		hbuf = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_EXCLUSIVE);
	Buffer		oldbuf = InvalidBuffer;
	Buffer		newbuf;
	SfHeader	h = *SfPageHeader(BufferGetPage(hbuf));
	uint32		newpage;

	if (h.pending_tail != seen_tail)
	{
		UnlockReleaseBuffer(hbuf);
		return;
	}
	if (seen_tail != SF_NO_PAGE)
		oldbuf = read_tail(rel, seen_tail);
	newbuf = sfi_pending_take_page(rel, &h);
	newpage = BufferGetBlockNumber(newbuf);
	h.pending_tail = newpage;
	if (h.pending_head == SF_NO_PAGE)
		h.pending_head = newpage;

	sfi_change_begin();
	sfi_change_op(sfi_change_add(hbuf), SF_OP_HEADER, &h, sizeof(h));
	if (BufferIsValid(oldbuf))
		sfi_change_op(sfi_change_add(oldbuf), SF_OP_PEND_NEXT, &newpage, sizeof(newpage));
	sfi_change_init(sfi_change_add(newbuf), SF_PAGE_PENDING, &empty, sizeof(empty));
	sfi_change_finish_pages(SF_PAGES_QUEUE, 0, 0);
}

/*
 * Lock the tail page with room for n entries.  With hmode exclusive the
 * header stays locked and is returned in *hbuf; with share it is released.
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
			buf = read_tail(rel, tail);
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
 * An entry of this transaction, which has its xid (rule 3).  fxid is not above
 * the one of the record: after a crash a higher one might be given out again.
 */
SfPendEntry
sfi_pending_entry(SfPendKind kind, uint64 fxid, uint64 start, uint32 count)
{
	SfPendEntry entry = {0};

	SF_ASSERT(count > 0 && count <= SF_MAP_SECTORS);
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
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("space of a new value is in use already in segment \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Sectors " UINT64_FORMAT " to " UINT64_FORMAT ".",
						   run.start, run.start + run.nsectors - 1),
				 errhint("Run securefile_check() on the column.")));
	sfi_change_op(*map_at, SF_OP_MAP_SET, &range, sizeof(range));
	return true;
}

/* One record of as many entries as fit; returns how many. */
static int
log_some(Relation rel, SfPendKind kind, uint64 fxid, const SfRun *runs, int nruns)
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
	SF_ASSERT(n > 0);
	if (SF_BREAKS(s4))
		SfPagePending(BufferGetPage(tail))->next = 0;
	if (!SF_BREAKS(s1))
		sfi_change_op(tail_at, SF_OP_PEND_ADD, entries, n * sizeof(SfPendEntry));
	sfi_change_finish_pages(SF_PAGES_ENTRIES, kind, n);
	return n;
}

#ifdef SF_ASSERTIONS
/* S3, and each run is on one map page; ALLOC: what is lent to this transaction, which grows no more. */
static void
check_runs(Relation rel, SfPendKind kind, const SfRun *runs, int nruns)
{
	uint64		total = sf_space_header(rel).total_sectors;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	for (int i = 0; i < nruns && kind == SF_PEND_ALLOC; i++)
		SF_INVARIANT(S3, runs[i].nsectors > 0 && runs[i].start + runs[i].nsectors <= total);
}
#else
#define check_runs(rel, kind, runs, nruns)	((void) 0)
#endif

int
sf_space_log_some(SfSegment *seg, SfPendKind kind, uint64 fxid, const SfRun *runs, int nruns)
{
	Relation	rel = sfi_segment_rel(seg);
	int			n;

	if (fxid > U64FromFullTransactionId(GetCurrentFullTransactionId()))
		elog(ERROR, "xid of pending entries is above that of their record");
	check_runs(rel, kind, runs, nruns);
	n = log_some(rel, kind, fxid, runs, nruns);
	sfi_segment_close(rel);
	return n;
}

void
sf_space_log_entries(SfSegment *seg, SfPendKind kind, const SfRun *runs, int nruns)
{
	uint64		fxid = U64FromFullTransactionId(GetTopFullTransactionId());
	int			n;

	for (; nruns > 0; runs += n, nruns -= n)
		n = sf_space_log_some(seg, kind, fxid, runs, nruns);
}
