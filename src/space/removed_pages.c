/*-------------------------------------------------------------------------
 *
 * removed_pages.c
 *	  Records of removed values: logged, shown, and forgotten.
 *
 * A list of pages in the order of time.  Transactions append to the last page; the resolver gives
 * the first ones back when nothing on them is kept any more, and notes how transactions have ended
 * before the commit log forgets it.
 *
 *	 header: removed_head ---+	 removed_unknown ---+	 removed_tail ---+
 *							 v						v					 v
 *						 page 8 -> page 15 ----> page 3 -> page 20 -> page 21 -> none
 *						 all ends are noted		 some are not		  new records
 *
 * A record is written by the transaction that removes the value, as its pending entries are.  So
 * it counts when that has committed, and nothing has to be written at the end of a transaction.
 * Records own nothing: a page that is lost takes a list of names along, and no space.
 *
 * A reader copies a page at a time, and shows it with nothing locked.  To go on it locks the page
 * again, and sees whether that is the same; if not, it was given back, with all before it, and the
 * first page that there is now comes next.
 *
 * What ends before its time ends by pages of the history, which name runs and no values.  So the
 * records are gone through, and those whose values have something there are marked (ENDED).  They
 * are near the begin of the list: the oldest history page ends first, and records behind its time
 * have nothing there.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "space/history_internal.h"
#include "space/pages.h"
#include "storage/lmgr.h"

/* ---- records come ---- */

/* Lock the last page, if it has room for that many bytes; InvalidBuffer: it has not. */
static Buffer
lock_with_room(Relation rel, uint32 tail, uint32 nbytes)
{
	Buffer		buf;

	SF_ASSERT(nbytes > 0 && nbytes <= SF_REMOVED_ROOM);
	if (tail == 0)
		return InvalidBuffer;
	buf = sfi_page_read(rel, tail, SF_PAGE_REMOVED, BUFFER_LOCK_EXCLUSIVE);
	if (SfPageRemoved(BufferGetPage(buf))->nbytes + nbytes <= SF_REMOVED_ROOM)
		return buf;
	UnlockReleaseBuffer(buf);
	return InvalidBuffer;
}

int64
sfi_removed_time(const SfHeader *h, const SfRemovedPage *last)
{
	int64		time_us = sfi_history_time(h);

	SF_ASSERT(time_us > h->ended_us);
	return last == NULL ? time_us : Max(time_us, last->newest_us);
}

/* Append to the last page; false: it has no room.  The header is locked for a moment only. */
static bool
append(Relation rel, SfRemovedChunk *chunk)
{
	Buffer		hbuf = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
	SfHeader	h = *SfPageHeader(BufferGetPage(hbuf));
	Buffer		buf = lock_with_room(rel, h.removed_tail, chunk->nbytes);

	UnlockReleaseBuffer(hbuf);
	if (!BufferIsValid(buf))
		return false;
	chunk->time_us = sfi_removed_time(&h, SfPageRemoved(BufferGetPage(buf)));
	sfi_change_begin();
	sfi_change_op(sfi_change_add(buf), SF_OP_REMOVED_ADD, chunk, chunk->nbytes);
	sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
	return true;
}

/* Append a page with a chunk. */
static void
append_page(Relation rel, SfRemovedChunk *chunk)
{
	uint32		nbytes = chunk->nbytes;
	SfRemovedPage *content = palloc0(sizeof(SfRemovedPage) + nbytes);
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);
	Buffer		oldbuf = InvalidBuffer;
	Buffer		newbuf;
	uint32		page;

	if (h.removed_tail != 0)
		oldbuf = sfi_page_read(rel, h.removed_tail, SF_PAGE_REMOVED, BUFFER_LOCK_EXCLUSIVE);
	chunk->time_us = sfi_removed_time(&h, BufferIsValid(oldbuf) ?
									  SfPageRemoved(BufferGetPage(oldbuf)) : NULL);
	content->next = SF_NO_PAGE;
	content->nbytes = nbytes;
	content->newest_us = chunk->time_us;
	memcpy(content->chunks, chunk, nbytes);
	newbuf = sfi_pending_take_page(rel, &h);
	page = BufferGetBlockNumber(newbuf);
	SF_ASSERT(page != h.removed_tail && (h.removed_tail == 0) == (h.removed_head == 0));
	h.removed_tail = page;
	h.removed_pages++;
	if (h.removed_head == 0)
		h.removed_head = page;
	if (h.removed_unknown == 0)
		h.removed_unknown = page;
	sfi_change_begin_header(hbuf, &h);
	if (BufferIsValid(oldbuf))
		sfi_change_op(sfi_change_add(oldbuf), SF_OP_REMOVED_NEXT, &page, sizeof(page));
	sfi_change_init(sfi_change_add(newbuf), SF_PAGE_REMOVED, content,
					sizeof(SfRemovedPage) + nbytes);
	sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
	pfree(content);
}

void
sf_space_log_removed(SfSegment *seg, SfRemovedChunk *chunk)
{
	Relation	rel = sfi_segment_rel(seg);

	SF_ASSERT(!seg->retained && chunk->nbytes <= SF_REMOVED_ROOM);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	SF_ASSERT(sf_format_removed_problem((uint8 *) chunk, chunk->nbytes) == NULL);
	SF_FAULT(removed_note);
	if (!append(rel, chunk))
		append_page(rel, chunk);
	SF_FAULT(removed_noted);
	sfi_segment_close(rel);
}

/* ---- records are shown ---- */

struct varlena *
sf_space_removed_value(const SfRemovedRecord *record, SfLocator *loc)
{
	const SfRemovedHead *head = &record->head;
	struct varlena *datum = palloc(head->value_bytes);

	SF_ASSERT(head->value_bytes > 0 && head->value_bytes <= SF_REMOVED_VALUE_MAX);
	memcpy(datum, record->bytes + head->key_bytes, head->value_bytes);
	if (VARSIZE_ANY(datum) == head->value_bytes &&
		sf_format_locator_decode((uint8 *) VARDATA_ANY(datum), VARSIZE_ANY_EXHDR(datum),
								 loc) == NULL)
		return datum;
	pfree(datum);
	return NULL;
}

/* A reader of the list: a copy of a page, and what tells whether the page is still that one. */
typedef struct Reader
{
	Relation	rel;
	uint32		page;			/* 0: none was read */
	SfRemovedReader records;	/* of the copy */
	union
	{
		SfRemovedPage page;
		char		content[SF_PAGE_CONTENT];
	}			copy;
} Reader;

/* Is a page that is locked still the one that was copied?  Records come at its end only. */
static bool
is_same(const Reader *reader, Buffer buf)
{
	const SfRemovedPage *now = SfPageRemoved(BufferGetPage(buf));
	uint32		n = offsetof(SfRemovedChunk, outcome);

	SF_ASSERT(sfi_page_is_locked(buf, LW_SHARED));
	return now->nbytes >= n && memcmp(now->chunks, reader->copy.page.chunks, n) == 0;
}

/* Lock the page that was copied; InvalidBuffer: it is not there any more. */
static Buffer
lock_again(const Reader *reader)
{
	Buffer		buf = sfi_page_pin(reader->rel, reader->page);

	SF_ASSERT(reader->page != 0);
	if (!BufferIsValid(buf))
		return InvalidBuffer;
	if (!sfi_page_lock_sound(reader->rel, buf, SF_PAGE_REMOVED, BUFFER_LOCK_SHARE))
	{
		ReleaseBuffer(buf);
		return InvalidBuffer;
	}
	if (is_same(reader, buf))
		return buf;
	UnlockReleaseBuffer(buf);
	return InvalidBuffer;
}

/* Copy the next page of the list, or the first one; false: there is none. */
static bool
read_next(Reader *reader)
{
	Buffer		held = reader->page == 0 ? InvalidBuffer : lock_again(reader);
	uint32		next;
	Buffer		buf;

	if (BufferIsValid(held))
		next = SfPageRemoved(BufferGetPage(held))->next;
	else
	{
		held = sfi_page_read(reader->rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
		next = SfPageHeader(BufferGetPage(held))->removed_head;
	}
	if (next == 0 || next == SF_NO_PAGE)
	{
		UnlockReleaseBuffer(held);
		return false;
	}
	buf = sfi_page_read(reader->rel, next, SF_PAGE_REMOVED, BUFFER_LOCK_SHARE);
	UnlockReleaseBuffer(held);
	memcpy(reader->copy.content, PageGetContents(BufferGetPage(buf)), SF_PAGE_CONTENT);
	UnlockReleaseBuffer(buf);
	reader->page = next;
	return true;
}

/*
 * Has the transaction of a chunk committed?  On a standby, and before the resolver has come to it,
 * the commit log knows: it is not cut as long as the chunk does not say.
 */
static bool
is_committed(const SfRemovedChunk *chunk)
{
	if (chunk->outcome != SF_REMOVED_UNKNOWN)
		return chunk->outcome == SF_REMOVED_COMMITTED;
	return sf_base_transaction_end(chunk->fxid) == SF_END_COMMITTED;
}

/* Are the records of a chunk to be listed, as far as each of them has not ended by itself? */
static bool
is_listed(const SfRemovedChunk *chunk, const SfHeader *h, int64 after_us)
{
	return chunk->time_us > after_us && chunk->fxid >= h->ended_fxid && is_committed(chunk);
}

/* Show the records of the copy; false: that is enough. */
static bool
show_page(Reader *reader, const SfHeader *h, int64 after_us, SfRemovedVisit visit, void *arg)
{
	SfRemovedReader *records = &reader->records;
	uint32		shown = PG_UINT32_MAX;	/* the chunk that was asked about */
	bool		listed = false;

	SF_ASSERT(reader->page != 0 && reader->copy.page.nbytes <= SF_REMOVED_ROOM);
	sf_format_removed_begin(records, reader->copy.page.chunks, reader->copy.page.nbytes);
	while (sf_format_removed_next(records))
	{
		if (shown != records->chunk_at)
			listed = is_listed(&records->chunk, h, after_us);
		shown = records->chunk_at;
		if (listed && !records->ended && !visit(&records->chunk, &records->record, arg))
			return false;
	}
	return true;
}

/* A list that goes on for ever would be met by its length. */
void
sf_space_visit_removed(SfSegment *seg, int64 retention_us, SfRemovedVisit visit, void *arg)
{
	Reader	   *reader = palloc(sizeof(Reader));
	uint64		npages = 0;

	reader->rel = sfi_segment_rel(seg);
	reader->page = 0;
	while (read_next(reader))
	{
		SfHeader	h = sfi_header(reader->rel);
		int64		after_us = Max(h.ended_us, sf_base_steady_time() - retention_us);

		CHECK_FOR_INTERRUPTS();
		if (npages++ > 2 * (uint64) RelationGetNumberOfBlocks(reader->rel))
			sfi_page_report_damaged(reader->rel, reader->page,
									"The list of pages of removed values leads back to it.");
		if (!show_page(reader, &h, after_us, visit, arg))
			break;
	}
	sfi_segment_close(reader->rel);
	pfree(reader);
}

/* ---- records end ---- */

/* What ends, to be looked up: runs, inode pages, references to records; by their starts. */
typedef struct Ended
{
	int			n;
	SfPendEntry entries[SF_PENDING_MAX];
	int64		until_us;		/* records behind that have nothing there */
} Ended;

/* For qsort() and bsearch(): what it names, a run or a page or a record, and by its start. */
static int
compare_entries(const void *a, const void *b)
{
	const SfPendEntry *x = a;
	const SfPendEntry *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Does an entry of that kind name a part of what begins there? */
static bool
names_part(const Ended *ended, SfPendKind kind, uint64 start, uint32 count)
{
	const SfPendEntry key = {.kind = kind, .start = start + count};
	int			low = 0;
	int			high = ended->n;

	SF_ASSERT(count > 0 && !sf_format_pend_kind(kind)->is_share);

	/*
	 * the last one that begins before the end of it is the one that may reach
	 * into it
	 */
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (compare_entries(&ended->entries[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && ended->entries[low - 1].kind == kind &&
		ended->entries[low - 1].start + ended->entries[low - 1].count > start;
}

/* Does an entry name the reference that a value is, or is based on? */
static bool
names_reference(const Ended *ended, const SfLocator *loc)
{
	for (int i = 0; i < ended->n; i++)
	{
		SfShareId	id = sf_share_of_start(ended->entries[i].start);

		if (ended->entries[i].kind == SF_PEND_REF_DROP && id.page == loc->share.page &&
			id.cell == loc->share.cell)
			return true;
	}
	return false;
}

/* Has a transaction an entry there? */
static bool
has_transaction(const Ended *ended, uint64 fxid)
{
	for (int i = 0; i < ended->n; i++)
		if (ended->entries[i].fxid == fxid)
			return true;
	return false;
}

/* Does the map of a value name something that ends?  Inode pages are not read. */
static bool
map_has_ended(const Ended *ended, const SfLocator *loc)
{
	if (loc->flags & SF_LOC_INODE)
		return names_part(ended, SF_PEND_FREE_PAGE, loc->root_page, 1);
	for (uint32 i = 0; i < loc->nruns; i++)
	{
		SfRun		run = sf_format_locator_run(loc, i);

		if (names_part(ended, SF_PEND_FREE, run.start, run.nsectors))
			return true;
	}
	return false;
}

/*
 * Has the value of a record something that ends?  Of a value with a map in inode pages, what its
 * transaction has there is taken for its own.
 */
static bool
has_ended(const Ended *ended, const SfRemovedReader *reader)
{
	SfLocator	loc;
	struct varlena *datum = sf_space_removed_value(&reader->record, &loc);
	bool		found;

	if (datum == NULL)
		return true;
	found = ((loc.flags & SF_LOC_SHARED) && names_reference(ended, &loc)) ||
		map_has_ended(ended, &loc) ||
		((loc.flags & SF_LOC_INODE) && has_transaction(ended, reader->chunk.fxid));
	pfree(datum);
	return found;
}

/* Note on a page which of its records have ended; false: no page behind it has any. */
static bool
hide_on_page(Relation rel, uint32 page, const SfRemovedPage *copy, const Ended *ended)
{
	SfRemovedReader *reader = palloc(sizeof(SfRemovedReader));
	uint16	   *places = palloc(SF_PAGE_CONTENT);
	int			n = 0;
	Buffer		buf;
	bool		more;

	SF_ASSERT(ended->n > 0 && page != SF_NO_PAGE);
	sf_format_removed_begin(reader, copy->chunks, copy->nbytes);
	reader->chunk.time_us = PG_INT64_MIN;
	while (sf_format_removed_next(reader) && reader->chunk.time_us <= ended->until_us)
		if (!reader->ended && has_ended(ended, reader))
			places[n++] = (uint16) reader->record_at;
	SF_ASSERT(n <= SF_REMOVED_ROOM / sizeof(SfRemovedHead));
	if (n > 0)
	{
		buf = sfi_page_read(rel, page, SF_PAGE_REMOVED, BUFFER_LOCK_EXCLUSIVE);
		sfi_change_begin();
		sfi_change_op(sfi_change_add(buf), SF_OP_REMOVED_ENDED, places, n * sizeof(uint16));
		sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
	}
	more = copy->nbytes == 0 || reader->chunk.time_us <= ended->until_us;
	pfree(places);
	pfree(reader);
	return more;
}

void
sfi_removed_hide(Relation rel, const SfPending *ending)
{
	Ended	   *ended = palloc(sizeof(Ended));
	SfRemovedPage *copy = palloc(SF_PAGE_CONTENT);
	bool		more = true;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	SF_ASSERT(ending->nentries > 0 && ending->nentries <= SF_PENDING_MAX);
	ended->n = ending->nentries;
	ended->until_us = ending->history.last_us;
	memcpy(ended->entries, ending->entries, ended->n * sizeof(SfPendEntry));
	qsort(ended->entries, ended->n, sizeof(SfPendEntry), compare_entries);
	for (uint32 page = sfi_header(rel).removed_head; more && page != 0 && page != SF_NO_PAGE;
		 page = copy->next)
	{
		CHECK_FOR_INTERRUPTS();
		sfi_page_read_copy(rel, page, SF_PAGE_REMOVED, copy);
		more = hide_on_page(rel, page, copy, ended);
	}
	pfree(copy);
	pfree(ended);
}

/* ---- pages go ---- */

/* Is there a record on a page that is listed, or may come to be? */
static bool
has_listed(const SfRemovedPage *page)
{
	static SfRemovedReader reader;	/* a page is locked: nothing is allocated */

	sf_format_removed_begin(&reader, page->chunks, page->nbytes);
	while (sf_format_removed_next(&reader))
		if (reader.chunk.outcome != SF_REMOVED_ABORTED && !reader.ended)
			return true;
	return reader.at < page->nbytes;
}

/* Is there a chunk on a page that has come after all has ended? */
static bool
has_later(const SfHeader *h, const SfRemovedPage *page)
{
	static SfRemovedReader reader;

	sf_format_removed_begin(&reader, page->chunks, page->nbytes);
	while (sf_format_removed_next_chunk(&reader))
		if (reader.chunk.time_us > h->ended_us && reader.chunk.fxid >= h->ended_fxid)
			return true;
	return false;
}

/* Put the first page, which is locked, on the free list; header: the same. */
static void
free_first(Buffer hbuf, SfHeader *h, Buffer buf)
{
	uint32		first = BufferGetBlockNumber(buf);
	uint32		next = SfPageRemoved(BufferGetPage(buf))->next;
	SfFreePage	content = sfi_pending_give_page(h, first);

	SF_ASSERT(first == h->removed_head && sfi_page_is_locked(hbuf, LW_EXCLUSIVE));
	next = next == SF_NO_PAGE ? 0 : next;
	h->removed_head = next;
	if (first == h->removed_tail)
		h->removed_tail = 0;
	if (first == h->removed_unknown)
		h->removed_unknown = next;
	h->removed_pages -= h->removed_pages > 0;
	sfi_change_begin_header(hbuf, h);
	sfi_change_init(sfi_change_add(buf), SF_PAGE_FREE, &content, sizeof(content));
	sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
}

/*
 * May all of the first page go?  The last page of the list stays while it has a record whose time
 * is not over, since it is to get more.
 */
static bool
may_go(const SfHeader *h, const SfRemovedPage *page, int64 until_us, bool all)
{
	SF_ASSERT(h->removed_head != 0);
	if (all)
		return !has_later(h, page);
	return page->newest_us <= until_us ||
		(h->removed_head != h->removed_tail && !has_listed(page));
}

/* Put the first page on the free list; false: it has to stay, or there is none. */
static bool
trim_first(Relation rel, int64 until_us, bool all)
{
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);
	Buffer		buf;

	if (h.removed_head == 0)
	{
		UnlockReleaseBuffer(hbuf);
		return false;
	}
	buf = sfi_page_read(rel, h.removed_head, SF_PAGE_REMOVED, BUFFER_LOCK_EXCLUSIVE);
	if (!may_go(&h, SfPageRemoved(BufferGetPage(buf)), until_us, all))
	{
		UnlockReleaseBuffer(buf);
		UnlockReleaseBuffer(hbuf);
		return false;
	}
	free_first(hbuf, &h, buf);
	return true;
}

/*
 * The chunks of a page whose time is over, and that have their records still: those of transactions
 * that go on, too, since nobody will list them.
 */
static int
find_over(const SfRemovedPage *page, int64 until_us, SfRemovedState *states)
{
	SfRemovedReader *reader = palloc(sizeof(SfRemovedReader));
	int			n = 0;

	sf_format_removed_begin(reader, page->chunks, page->nbytes);
	while (sf_format_removed_next_chunk(reader))
		if (reader->chunk.time_us <= until_us && reader->chunk.outcome != SF_REMOVED_WIPED)
			states[n++] = (SfRemovedState) {(uint16) reader->chunk_at, SF_REMOVED_WIPED};
	pfree(reader);
	return n;
}

/*
 * The first page stays for what it has of later times.  Of what is over on it nothing is to be
 * left, since a page that gets few records would have keys of rows for months.
 */
static void
wipe_over(Relation rel, int64 until_us)
{
	SfHeader	h = sfi_header(rel);
	SfRemovedPage *copy = palloc(SF_PAGE_CONTENT);
	SfRemovedState *states = palloc(SF_PAGE_CONTENT);
	int			n = 0;

	if (h.removed_head != 0)
	{
		sfi_page_read_copy(rel, h.removed_head, SF_PAGE_REMOVED, copy);
		n = find_over(copy, until_us, states);
	}
	if (n > 0)
	{
		Buffer		buf = sfi_page_read(rel, h.removed_head, SF_PAGE_REMOVED,
										BUFFER_LOCK_EXCLUSIVE);

		sfi_change_begin();
		sfi_change_op(sfi_change_add(buf), SF_OP_REMOVED_STATES, states,
					  n * sizeof(SfRemovedState));
		sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
	}
	pfree(states);
	pfree(copy);
}

/* What has ended is to be on no page any more: names, and keys of rows. */
void
sfi_removed_trim(Relation rel, int64 until_us, bool all)
{
	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	while (trim_first(rel, until_us, all))
		CHECK_FOR_INTERRUPTS();
	wipe_over(rel, until_us);
}

/*
 * Records of values that share what rows have may be many, where nothing else is kept.  They go
 * also where their transaction goes on: a record is a name in a list, and no more.
 */
bool
sfi_removed_press(Relation rel, uint64 most_sectors)
{
	SfHeader	h = sfi_header(rel);
	bool		any = false;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	while (h.history_head == 0 && sfi_history_is_over(&h, most_sectors) &&
		   trim_first(rel, PG_INT64_MAX, false))
	{
		CHECK_FOR_INTERRUPTS();
		any = true;
		h = sfi_header(rel);
	}
	return any;
}
