/*-------------------------------------------------------------------------
 *
 * history.c
 *	  Space of removed values that is kept for a time (retention).
 *
 * A second list of pending pages.  An entry that could be set free goes there instead, and is set
 * free when its page has come to its end:
 *
 *	 header: history_head --------+			 history_tail ----+
 *								  v							  v
 *							  page 9 -----> page 4 -----> page 17 -----> none
 *							  oldest					  entries come here
 *
 *	 queue	 --keep-->	last page	... time ...	first page	 --expire-->	queue, and free
 *
 * A page takes entries for a part of the retention, and up to a part of what may be kept.  So
 * what is kept ends in steps, which are small against the whole.  To end a page is one record: it
 * becomes the first page of the queue, where the resolver meets entries that say of themselves
 * that they have been kept.
 *
 *	 H1	an entry comes here only when it could be set free: its transaction has
 *		committed, and nobody's snapshot, slot or prepared transaction needs its space;
 *	 H2	the sectors that the header counts are the sum of those of the pages, but for shared
 *		objects: of them it counts no less than is kept;
 *	 H3	an entry that was here is set free without coming here again.
 *
 * The order matters.  Two versions of a value share units.  What a row loses with the older one
 * is what the newer one does not share; so the older one can be read until both have ended.
 * So all that a version has goes this way, also where nobody can list that version: an older one
 * may need it.  Only what cannot have an older version is set free at once (FREE_NOW): values
 * that a move has stored elsewhere, or that were stored and removed in one transaction.
 *
 * Space of a shared object stays as long as its references do.  It is kept when all of them are
 * (kept_sectors.c).  The pages of the history and the records of removed values count, too: of many
 * small values they may be more than the values.
 *
 * Idea: SecureFiles paper, "uncommitted free space", which is kept here beyond the commit; Oracle's
 * RETENTION.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "space/history_internal.h"
#include "space/pages.h"
#include "space/share_records.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"

/* A page takes entries for that part of the retention, and of what may be kept. */
#define PARTS			32

/* But as much as makes it worth its own page. */
#define LEAST_PART		(8 * PAGE_SECTORS)

/* ---- what is to be kept ---- */

/*
 * The time of what is to be kept now: not before that of the records of removed values that are
 * there, since a page that ends takes along all records of before.  Records of transactions that
 * have committed are there.
 */
static int64
stamp(Relation rel, const SfHeader *h)
{
	Buffer		buf;
	int64		time_us;

	if (h->removed_tail == 0)
		return sfi_removed_time(h, NULL);
	buf = sfi_page_read(rel, h->removed_tail, SF_PAGE_REMOVED, BUFFER_LOCK_SHARE);
	time_us = sfi_removed_time(h, SfPageRemoved(BufferGetPage(buf)));
	UnlockReleaseBuffer(buf);
	return time_us;
}

/*
 * May this transaction have changed the column?  ALTER TABLE and securefile_set_max_size() hold
 * one of these locks.  Then its options are as it sees them, and may be rolled back: nothing is
 * to end by them, and what comes is kept.
 */
static bool
is_being_altered(const SfSegment *seg)
{
	return sf_base_has_locked(seg->table_oid, AccessExclusiveLock) ||
		sf_base_has_locked(seg->table_oid, ShareUpdateExclusiveLock) ||
		sf_base_has_locked(seg->table_oid, ShareRowExclusiveLock);
}

void
sfi_history_begin(SfPageWork *work, SfSegment *seg)
{
	const SfOptions *options = &sf_space_column(seg)->options;
	SfHeader	h = sfi_header(work->rel);

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	work->keeping = (SfKeeping) {.retention_us = options->retention_us};
	if (options->retention_us == 0 && h.history_head == 0 && h.removed_head == 0)
		return;
	work->keeping.now_us = sfi_history_time(&h);
	work->keeping.stays = is_being_altered(seg);
	if (options->retention_us == 0 && !work->keeping.stays)
	{
		sfi_history_end(work, work->keeping.now_us, true);
		return;
	}
	work->keeping.stamp_us = stamp(work->rel, &h);
	work->keeping.keeps = true;
	work->keeping.most_sectors = options->max_bytes / 2 / SF_SECTOR_SIZE;
	work->keeping.ended_fxid = h.ended_fxid;
}

/* ---- entries come ---- */

/*
 * Entries of a pending page that are to be kept: their places there, which ascend, and how much
 * each of them keeps.
 */
typedef struct Keeping
{
	int			n;
	uint16		indexes[SF_PENDING_MAX];
	uint64		sectors[SF_PENDING_MAX];	/* what each of them keeps, */
	uint64		parts[SF_PENDING_MAX];	/* its part of a shared object, */
	uint64		wholes[SF_PENDING_MAX]; /* and all of that */
} Keeping;

/*
 * The part that an entry has of the space of a shared object; *whole: all of the object.  Pages are
 * closed by the parts, so that what ends together is a small part of what is kept.
 */
static uint64
part_of(Relation rel, SfSegment *seg, const SfPendEntry *entry, uint64 *whole)
{
	SfShareCopy copy;

	*whole = 0;
	if (!sf_format_pend_kind(entry->kind)->is_share ||
		!sfi_kept_find_share(seg, entry->start, &copy))
		return 0;
	*whole = sfi_kept_object_sectors(rel, &copy.record);
	return *whole * Min(entry->count, copy.record.references) / copy.record.references;
}

/*
 * Collect them, before anything is locked: for a verdict the commit log may have to be read.  The
 * indexes stay right, as those of resolve.c do: others only add entries behind.
 */
static void
collect_kept(SfPageWork *work, SfSegment *seg, Keeping *keeping)
{
	keeping->n = 0;
	for (int i = 0; i < work->n; i++)
	{
		const SfPendEntry *entry = &work->entries[i];

		if (sf_format_entry_problem(entry) != NULL || !sfi_pending_is_to_keep(work, entry) ||
			sfi_pending_verdict(entry, work->horizon) != SF_VERDICT_FREE)
			continue;
		SF_INVARIANT(H1, sfi_pending_has_ended(entry, true) &&
					 entry->fxid < work->horizon.removable);
		keeping->sectors[keeping->n] = sfi_kept_sectors_of(work->rel, entry);
		keeping->parts[keeping->n] = part_of(work->rel, seg, entry,
											 &keeping->wholes[keeping->n]);
		keeping->indexes[keeping->n++] = i;
	}
}

/* A page is closed when its entries keep that much.  What ends with it should be a small part. */
static uint64
page_limit(const SfKeeping *keeping)
{
	return Max(keeping->most_sectors / PARTS, LEAST_PART);
}

/*
 * How much the entries of a history page keep: of shared objects their parts, so that the
 * references to one object, which may be many, do not close a page each.
 */
static uint64
page_sectors(const SfPending *page)
{
	SF_ASSERT(page->nentries > 0 && page->history.sectors >= PAGE_SECTORS);
	return page->history.sectors - PAGE_SECTORS + page->history.shared_sectors;
}

/*
 * Does a history page take entries still?  One that has got much is closed, or is long open: what
 * ends with it should be of much the same age.
 */
static bool
is_open(const SfPending *page, const SfKeeping *keeping)
{
	SF_ASSERT(page->nentries > 0 && page->history.first_us <= page->history.last_us);
	return page->nentries < SF_PENDING_MAX &&
		keeping->stamp_us - page->history.first_us < keeping->retention_us / PARTS &&
		(keeping->stays || page_sectors(page) < page_limit(keeping));
}

/* What comes to a history page in one record: the payload of the operation that adds it there. */
typedef struct Coming
{
	SfPendKept	kept;
	SfPendEntry entries[SF_PENDING_MAX];
} Coming;

/*
 * The entries are copied as they are, with the transaction that has set them free: when they end, a
 * standby asks by that whether a reader there may still need them.
 */
static void
fill_coming(Coming *coming, const SfPageWork *work, const Keeping *keeping, int from, int n)
{
	SF_ASSERT(from >= 0 && n > 0 && from + n <= keeping->n);
	coming->kept = (SfPendKept) {.time_us = work->keeping.stamp_us};
	for (int i = 0; i < n; i++)
	{
		coming->entries[i] = work->entries[keeping->indexes[from + i]];
		coming->entries[i].outcome = SF_OUTCOME_KEPT;
		coming->kept.sectors += keeping->sectors[from + i];
		coming->kept.shared_sectors += keeping->parts[from + i];
	}
}

/*
 * Add to the change a new last history page with these entries.  The operation that makes it is its
 * only one, so the entries come with it.
 */
static void
add_page(Buffer tail, Buffer buf, SfHeader *h, const Coming *coming, int n)
{
	Size		size = offsetof(SfPending, entries) + n * sizeof(SfPendEntry);
	SfPending  *content = palloc0(size);
	uint32		page = BufferGetBlockNumber(buf);

	SF_ASSERT(n > 0 && BufferIsValid(tail) == (h->history_head != 0));
	content->next = SF_NO_PAGE;
	content->nentries = n;
	content->history.first_us = content->history.last_us = coming->kept.time_us;
	content->history.sectors = coming->kept.sectors + PAGE_SECTORS;
	content->history.shared_sectors = coming->kept.shared_sectors;
	memcpy(content->entries, coming->entries, n * sizeof(SfPendEntry));
	if (BufferIsValid(tail))
		sfi_change_op(sfi_change_add(tail), SF_OP_PEND_NEXT, &page, sizeof(page));
	else
		h->history_head = page;
	h->history_tail = page;
	sfi_change_init(sfi_change_add(buf), SF_PAGE_PENDING, content, size);
	pfree(content);
}

/*
 * How many of the entries from one on a history page takes that keeps so many sectors: at least
 * one, and no more than bring it to the part that a page may keep.
 */
static int
fitting(const Keeping *keeping, int from, int most, uint64 sectors, uint64 limit)
{
	int			n = 0;

	SF_ASSERT(most > 0 && from >= 0 && from + most <= keeping->n);
	for (; n < most && (n == 0 || sectors < limit); n++)
		sectors += keeping->sectors[from + n] + keeping->parts[from + n];
	return n;
}

/*
 * One record: as many of the entries from one on as the last history page takes, or a new one.
 * Returns how many.  The places of those behind them become lower.
 */
static int
keep_some(SfPageWork *work, Keeping *keeping, int from)
{
	Coming	   *coming = palloc(sizeof(Coming));
	SfHeader	h;
	Buffer		hbuf;
	Buffer		buf;
	Buffer		tail;
	Buffer		newbuf = InvalidBuffer;
	const SfPending *page = NULL;
	int			n;

	SF_FAULT(history_keep);
	hbuf = sfi_header_lock(work->rel, &h);
	SF_ASSERT((h.history_tail == 0) == (h.history_head == 0));
	buf = sfi_page_read(work->rel, work->page, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	tail = h.history_tail == 0 ? InvalidBuffer :
		sfi_pending_read_tail(work->rel, h.history_tail);
	if (BufferIsValid(tail) && is_open(SfPagePending(BufferGetPage(tail)), &work->keeping))
		page = SfPagePending(BufferGetPage(tail));
	else
		newbuf = sfi_pending_take_page(work->rel, &h);
	n = fitting(keeping, from, Min(keeping->n - from, SF_PENDING_MAX - (page ? page->nentries : 0)),
				page ? page_sectors(page) : 0, page_limit(&work->keeping));
	fill_coming(coming, work, keeping, from, n);
	h.kept_sectors += coming->kept.sectors + (page ? 0 : PAGE_SECTORS);
	for (int i = from; i < from + n; i++)
		h.kept_shared_sectors += keeping->wholes[i];

	sfi_change_begin();
	(void) sfi_change_add(hbuf);
	sfi_change_op(sfi_change_add(buf), SF_OP_PEND_REMOVE, &keeping->indexes[from],
				  n * sizeof(uint16));
	if (BufferIsValid(newbuf))
		add_page(tail, newbuf, &h, coming, n);
	else
		sfi_change_op(sfi_change_add(tail), SF_OP_PEND_KEPT, coming,
					  offsetof(Coming, entries) + n * sizeof(SfPendEntry));
	sfi_change_header(sfi_change_find(hbuf), &h);
	sfi_change_finish_pages(SF_PAGES_HISTORY, SF_PEND_FREE, n);
	SF_FAULT(history_kept);
	sfi_pending_forget(work, &keeping->indexes[from], n);
	for (int i = from + n; i < keeping->n; i++)
		keeping->indexes[i] -= n;
	work->stats->entries_resolved += n;
	pfree(coming);
	return n;
}

/* In their order: what was removed first ends first. */
void
sfi_history_keep(SfPageWork *work, SfSegment *seg)
{
	Keeping    *keeping;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	if (!work->keeping.keeps)
		return;
	keeping = palloc(sizeof(Keeping));
	collect_kept(work, seg, keeping);
	for (int done = 0; done < keeping->n;)
	{
		CHECK_FOR_INTERRUPTS();
		done += keep_some(work, keeping, done);
	}
	pfree(keeping);
}

/* ---- pages end ---- */

/*
 * A copy of the first history page, and of the header; false: there is none.  What is done about it
 * may take long, and nobody waits for its lock meanwhile.
 */
static bool
first_page(Relation rel, SfHeader *h, SfPending *copy)
{
	*h = sfi_header(rel);
	if (h->history_head == 0)
		return false;
	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	/* only the resolver takes it away */
	sfi_page_read_copy(rel, h->history_head, SF_PAGE_PENDING, copy);
	return true;
}

/*
 * Put the first history page into the queue, in front.  kept: what stays, NULL if its time is over:
 * then nothing that was removed until its last entry came is to be listed any more.
 */
static void
end_first(Relation rel, const SfKept *kept)
{
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);
	uint32		first = h.history_head;
	Buffer		buf = sfi_page_read(rel, first, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	const SfPending *page = SfPagePending(BufferGetPage(buf));
	uint32		next = h.pending_head;

	SF_ASSERT(first != 0 && sfi_page_is_locked(buf, LW_EXCLUSIVE));
	SF_ASSERT(first != h.pending_tail && page->nentries > 0);
	h.history_head = page->next == SF_NO_PAGE ? 0 : page->next;
	if (h.history_head == 0)
		h.history_tail = 0;
	h.pending_head = first;
	if (h.pending_tail == SF_NO_PAGE)
		h.pending_tail = first;
	SF_INVARIANT(H2, page->history.sectors <= h.kept_sectors);
	h.kept_sectors -= Min(page->history.sectors, h.kept_sectors);
	if (kept == NULL)
		h.ended_us = Max(h.ended_us, page->history.last_us);
	else
		h.kept_shared_sectors = sfi_kept_shared_sectors(kept);
	if (h.history_head == 0)
		h.kept_shared_sectors = 0;
	sfi_change_begin_header(hbuf, &h);
	sfi_change_op(sfi_change_add(buf), SF_OP_PEND_NEXT, &next, sizeof(next));
	sfi_change_finish_pages(SF_PAGES_HISTORY, 0, 0);
	SF_FAULT(history_ended);
}

/* End the first pages whose last entry came until then. */
static void
end_until(Relation rel, int64 until_us)
{
	SfPending  *copy = palloc(SF_PAGE_CONTENT);
	SfHeader	h;

	while (first_page(rel, &h, copy) && copy->history.last_us <= until_us)
	{
		CHECK_FOR_INTERRUPTS();
		end_first(rel, NULL);
	}
	pfree(copy);
}

/*
 * End the first pages of what is more than most_sectors; returns whether there were any.  What is
 * listed and lies there is not to be listed any more, which is noted first: should the server die
 * in between, it is kept and not listed.
 */
static bool
end_too_many(Relation rel, uint64 most_sectors, SfKept *kept)
{
	SfPending  *copy = palloc(SF_PAGE_CONTENT);
	SfHeader	h;
	bool		any = false;

	SF_ASSERT(most_sectors > 0 && kept != NULL);
	while (first_page(rel, &h, copy) && sfi_history_is_over(&h, most_sectors))
	{
		CHECK_FOR_INTERRUPTS();
		sfi_removed_hide(rel, copy);
		sfi_kept_end(kept, copy);
		end_first(rel, kept);
		/* its records have to go, too */
		sfi_removed_trim(rel, PG_INT64_MIN, false);
		any = true;
	}
	pfree(copy);
	return any;
}

/*
 * Some of it has ended before its time: the owner wants to know.  One WARNING in a walk, however
 * many pages it were.  In the monitor it goes to the server's log.
 */
static void
warn_pressed(SfSegment *seg, const SfKeeping *keeping)
{
	char	   *column = get_attname(seg->table_oid, seg->attnum, true);
	char	   *table = get_rel_name(seg->table_oid);

	SF_ASSERT(keeping->keeps && !seg->retained);
	ereport(WARNING,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("removed values of column \"%s\" of table \"%s\" are no longer kept, before their time",
					column != NULL ? column : "?", table != NULL ? table : "?"),
			 errdetail("What is kept may take half of max_size, " UINT64_FORMAT " bytes. The oldest of it has ended.",
					   sf_sectors_to_bytes(keeping->most_sectors))));
}

/*
 * What is not listed any more ends, too: pages of a purge that did not come to its end, since the
 * server died, or was recovered to a point in the middle of it.  Pages that were made along with
 * one that had to end early have its time, and stay.
 */
void
sfi_history_expire(SfPageWork *work)
{
	const SfKeeping *keeping = &work->keeping;
	int64		ended_us = sfi_header(work->rel).ended_us;
	int64		until_us;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	if (!keeping->keeps || keeping->stays)
		return;
	until_us = Max(keeping->now_us - keeping->retention_us, ended_us - 1);
	end_until(work->rel, until_us);
	sfi_removed_trim(work->rel, Max(until_us, ended_us), false);
}

/* Have the header say how much is kept of shared objects. */
static void
set_shared(Relation rel, uint64 sectors)
{
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	h.kept_shared_sectors = h.history_head == 0 ? 0 : sectors;
	sfi_change_begin_header(hbuf, &h);
	sfi_change_finish_pages(SF_PAGES_HISTORY, 0, 0);
}

/*
 * The header says what shared objects keep at most: of each entry that has come since they were
 * counted, all of its object.  So they are counted when that is too much.
 */
bool
sfi_history_press(SfPageWork *work, SfSegment *seg)
{
	const SfKeeping *keeping = &work->keeping;
	SfHeader	h = sfi_header(work->rel);
	uint64		shared = h.kept_shared_sectors + keeping->bared_sectors;
	SfKept	   *kept = NULL;
	bool		any;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	if (!keeping->keeps || keeping->stays)
		return false;
	h.kept_shared_sectors = shared;
	if (sfi_history_is_over(&h, keeping->most_sectors))
	{
		kept = sfi_kept_count(work->rel, seg);
		shared = sfi_kept_shared_sectors(kept);
	}
	if (h.history_head != 0 && shared != sfi_header(work->rel).kept_shared_sectors)
		set_shared(work->rel, shared);
	any = kept != NULL && end_too_many(work->rel, keeping->most_sectors, kept);
	if (sfi_removed_press(work->rel, keeping->most_sectors) || any)
		warn_pressed(seg, keeping);
	if (kept != NULL)
		sfi_kept_free(kept);
	return any;
}

/*
 * All has ended, also what was kept or removed by a clock that was ahead.  The numbers of the
 * transactions tell what that was, so what comes need not be later.
 */
static void
believe_clock(Relation rel)
{
	int64		now_us = sf_base_steady_time();
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);

	if (h.ended_us <= now_us)
	{
		UnlockReleaseBuffer(hbuf);
		return;
	}
	h.ended_us = now_us;
	sfi_change_begin_header(hbuf, &h);
	sfi_change_finish_pages(SF_PAGES_HISTORY, 0, 0);
}

/*
 * The record that says so comes first: should the server die behind it, nothing is listed that may
 * be gone, and the next pass goes on.
 */
void
sfi_history_end(SfPageWork *work, int64 until_us, bool all)
{
	SfHeader	h;
	Buffer		hbuf;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));

	/*
	 * The record that says so names a later transaction than all of before.
	 * So after a crash no number of these is given out a second time.
	 */
	if (all)
		(void) GetCurrentTransactionId();
	hbuf = sfi_header_lock(work->rel, &h);
	if (all)
		h.ended_fxid = Max(h.ended_fxid, work->horizon.next);
	h.ended_us = Max(h.ended_us, all ? stamp(work->rel, &h) + 1 : until_us);
	sfi_change_begin_header(hbuf, &h);
	sfi_change_finish_pages(SF_PAGES_HISTORY, 0, 0);
	work->keeping.ended_fxid = h.ended_fxid;
	SF_FAULT(purge_begun);
	end_until(work->rel, all ? PG_INT64_MAX : until_us);
	sfi_removed_trim(work->rel, all ? h.ended_us : until_us, all);
	if (all)
		believe_clock(work->rel);
}
