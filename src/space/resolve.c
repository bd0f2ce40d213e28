/*-------------------------------------------------------------------------
 *
 * resolve.c
 *	  Turning uncommitted free space into committed free space.
 *
 * The resolver is the only one that clears used bits and takes entries out of
 * pending pages (rule 1).  One at a time works on a segment (heavyweight page
 * lock); others append to the queue meanwhile, which it does not mind.
 *
 * What it frees must not be written over before its record is durable (rule
 * 2): the map page remembers the record's LSN and sf_space_lend() flushes up
 * to it.
 *
 * For each pending page, from the head to the tail:
 *
 *	 1	its entries are copied under a share lock;
 *	 2	a verdict is asked for each of the copy, without a lock: that looks into the
 *		commit log, which may have to be read;
 *	 3	what one record can do is a batch: up to 16 map pages.  The pending page and
 *		the map pages are locked, and the record is written.  This goes on until
 *		there is no verdict left that could be carried out;
 *	 4	references to share records are counted down (references.c);
 *	 5	inode pages are freed one by one, since the header page changes with each;
 *	 6	a page without entries leaves the queue, unless it is the last one.
 *
 * In a column with a retention, what could be set free is kept first (history.c).
 *
 * The copy stays right without the lock, because indexes of entries do not change:
 * writers add behind, and only the resolver removes.  After each record the same
 * entries are taken out of the copy (run_batch()).
 *
 * A batch is limited by the number of pages in a record, not by time.  Locks are held
 * for as long as it takes to apply it; a commit that needs the same map page waits for
 * that and no longer.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "space/history_internal.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

/* Operations of one record. */
typedef struct Batch
{
	int			nmaps;
	uint32		maps[SF_RESOLVE_MAPS];
	int			nremove;
	uint16		remove[SF_PENDING_MAX];
	int			ncommitted;
	uint16		committed[SF_PENDING_MAX];
	int			nfree;
	uint16		free[SF_PENDING_MAX];
	int			nfree_already;
	uint16		free_already[SF_PENDING_MAX];
	TransactionId newest_freeing;
} Batch;

/*
 * Make sure a map page is in the batch; false when the batch is full.  The list is kept
 * ascending, which is the order of their locks.
 */
static bool
batch_map(Batch *batch, uint32 map)
{
	int			i;

	SF_ASSERT(batch->nmaps >= 0 && batch->nmaps <= SF_RESOLVE_MAPS);
	for (i = 0; i < batch->nmaps; i++)
		if (batch->maps[i] == map)
			return true;
	if (batch->nmaps == SF_RESOLVE_MAPS)
		return false;
	for (i = batch->nmaps++; i > 0 && batch->maps[i - 1] > map; i--)
		batch->maps[i] = batch->maps[i - 1];
	batch->maps[i] = map;
	return true;
}

/* A damaged entry, which securefile_check() reports, frees nothing. */
static SfVerdict
verdict_of(const SfPageWork *work, const SfPendEntry *entry)
{
	return sf_format_entry_problem(entry) != NULL ? SF_VERDICT_LOST :
		sfi_pending_verdict(entry, work->horizon);
}

/*
 * Collect what one record can do; inode pages are left to free_inode_page().  Entries
 * whose map page does not fit are passed over, and later ones that do fit are taken:
 * the order of entries means nothing.
 */
static void
collect_batch(SfPageWork *work, Batch *batch)
{
	SF_ASSERT(work->n >= 0 && work->n <= SF_PENDING_MAX);
	memset(batch, 0, sizeof(*batch));
	for (int i = 0; i < work->n; i++)
	{
		const SfPendEntry *entry = &work->entries[i];

		switch (verdict_of(work, entry))
		{
			case SF_VERDICT_WAIT:
			case SF_VERDICT_LOST:
				break;
			case SF_VERDICT_COMMITTED:
				batch->committed[batch->ncommitted++] = i;
				break;
			case SF_VERDICT_DROP:
				if (entry->kind == SF_PEND_SHARE_NEW)
					break;
				batch->remove[batch->nremove++] = i;
				break;
			case SF_VERDICT_FREE:
				if (!sf_pend_is_run(entry->kind))
					break;
				if (!batch_map(batch, sf_map_of(entry->start)))
					break;
				batch->remove[batch->nremove++] = i;
				batch->free[batch->nfree++] = i;
				sfi_pending_note_freeing(&batch->newest_freeing, entry);
				break;
		}
	}
}

/*
 * Add the clearing of one entry's run to the change.  False if that is free already, or
 * will be by an entry before it: somebody's damage, and clearing what is clear would
 * miscount.
 */
static bool
add_clear(SfPageWork *work, const SfPendEntry *entry, const Buffer *maps, const Batch *batch)
{
	SfMapRange	range = sfi_map_range(entry->start, entry->count);

	SF_ASSERT(sf_pend_is_run(entry->kind));
	for (int m = 0; m < batch->nmaps; m++)
	{
		if (batch->maps[m] != sf_map_of(entry->start))
			continue;
		if (!sf_format_map_all_used(&work->left[m], range))
			return false;
		sf_format_map_clear(&work->left[m], range);
		sfi_change_op(sfi_change_find(maps[m]), SF_OP_MAP_CLEAR, &range, sizeof(range));
		sfi_proved_note(SfRelStorage(work->rel), batch->maps[m], &work->left[m], range);
		work->stats->sectors_freed += entry->count;
	}
	return true;
}

/* Add the clearing of all runs; those that are free already are noted in the batch. */
static void
add_clears(SfPageWork *work, const Buffer *maps, Batch *batch)
{
	for (int i = 0; i < batch->nfree; i++)
		if (!add_clear(work, &work->entries[batch->free[i]], maps, batch))
			batch->free_already[batch->nfree_already++] = batch->free[i];
}

/*
 * Report the damage that was met.  Not to be called under a page lock: a client that
 * does not read lets the message wait, and nobody could end that.
 */
static void
warn_free_already(const SfPageWork *work, const Batch *batch)
{
	for (int i = 0; i < batch->nfree_already; i++)
	{
		const SfPendEntry *entry = &work->entries[batch->free_already[i]];

		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("space to be freed is free already in segment \"%s\"",
						RelationGetRelationName(work->rel)),
				 errdetail("Sectors " UINT64_FORMAT " to " UINT64_FORMAT ".",
						   entry->start, entry->start + entry->count - 1),
				 errhint("Run securefile_check() on the column.")));
	}
}

/* S5 of an entry that is to leave the queue, and whose space is to become free or to stay. */
static void
check_removed(const SfPageWork *work, const SfPendEntry *entry, bool frees)
{
	bool		is_alloc = sf_format_pend_kind(entry->kind)->is_alloc;

	SF_INVARIANT(S5, sfi_pending_has_ended(entry, frees != is_alloc));
	SF_INVARIANT(S5, !frees ||
				 entry->fxid < (is_alloc ? work->horizon.prepared : work->horizon.removable));
}

/* S5 of all entries of a batch. */
static void
check_batch(const SfPageWork *work, const Batch *batch)
{
	int			nfree = 0;

	for (int i = 0; i < batch->nremove; i++)
	{
		bool		frees = nfree < batch->nfree && batch->free[nfree] == batch->remove[i];

		check_removed(work, &work->entries[batch->remove[i]], frees);
		nfree += frees;
	}
	SF_ASSERT(nfree == batch->nfree);
	for (int i = 0; i < batch->ncommitted; i++)
		SF_INVARIANT(S5, sfi_pending_has_ended(&work->entries[batch->committed[i]], true));
}

/* Write one record for a batch, and take its entries out of our copy. */
static void
run_batch(SfPageWork *work, Batch *batch)
{
	xl_sf_resolve rec = {SF_WAL_VERSION, SfRelStorage(work->rel), batch->newest_freeing,
		batch->nremove};
	Buffer		maps[SF_RESOLVE_MAPS];
	Buffer		buf;
	uint64		freed_before = work->stats->sectors_freed;
	int			at;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	SF_ASSERT(batch->nremove + batch->ncommitted > 0 && batch->nfree <= batch->nremove);
	check_batch(work, batch);
	SF_FAULT(resolve_before);
	buf = sfi_page_read(work->rel, work->page, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	sfi_change_begin();
	at = sfi_change_add(buf);
	for (int m = 0; m < batch->nmaps; m++)
	{
		maps[m] = sfi_page_read(work->rel, SF_MAP_PAGE(batch->maps[m]), SF_PAGE_MAP,
								BUFFER_LOCK_EXCLUSIVE);
		sfi_change_add(maps[m]);
		work->left[m] = *SfPageMap(BufferGetPage(maps[m]));
	}
	add_clears(work, maps, batch);
	if (batch->ncommitted > 0)
		sfi_change_op(at, SF_OP_PEND_COMMITTED, batch->committed,
					  batch->ncommitted * sizeof(uint16));
	if (batch->nremove > 0)
		sfi_change_op(at, SF_OP_PEND_REMOVE, batch->remove, batch->nremove * sizeof(uint16));
	sfi_change_finish(XLOG_SF_RESOLVE, &rec, sizeof(rec));
	if (batch->nmaps > 0)
		sfi_dispense_note_freed(rec.storage, batch->maps[0],
								sf_block_of(work->stats->sectors_freed - freed_before));
	SF_FAULT(resolve_after);
	warn_free_already(work, batch);

	/* the copy follows the page, so that indexes mean the same on both */
	work->stats->entries_resolved += batch->nremove;
	for (int i = 0; i < batch->ncommitted; i++)
		work->entries[batch->committed[i]].outcome = SF_OUTCOME_COMMITTED;
	sfi_pending_forget(work, batch->remove, batch->nremove);
}

/*
 * Put the inode page that an entry names on the free list.  Its type is checked as it
 * is read: a page that is free already, by damage, would make a circle of the list.
 */
static void
free_inode_page(SfPageWork *work, int index)
{
	xl_sf_resolve rec = {SF_WAL_VERSION, SfRelStorage(work->rel), InvalidTransactionId, 1};
	SfPendEntry entry = work->entries[index];
	uint16		index16 = index;
	Buffer		hbuf;
	Buffer		pbuf;
	Buffer		fbuf;
	SfHeader	h;
	SfFreePage	content;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	SF_ASSERT(index >= 0 && index < work->n && sf_format_pend_kind(entry.kind)->is_page);
	check_removed(work, &entry, true);
	SF_FAULT(resolve_before_inode);
	hbuf = sfi_header_lock(work->rel, &h);
	pbuf = sfi_page_read(work->rel, work->page, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	fbuf = sfi_page_read(work->rel, entry.start, SF_PAGE_INODE, BUFFER_LOCK_EXCLUSIVE);
	content = sfi_pending_give_page(&h, entry.start);
	sfi_pending_note_freeing(&rec.horizon, &entry);
	sfi_change_begin_header(hbuf, &h);
	sfi_change_op(sfi_change_add(pbuf), SF_OP_PEND_REMOVE, &index16, sizeof(index16));
	sfi_change_init(sfi_change_add(fbuf), SF_PAGE_FREE, &content, sizeof(content));
	sfi_change_finish(XLOG_SF_RESOLVE, &rec, sizeof(rec));
	SF_FAULT(resolve_after_inode);

	work->stats->entries_resolved++;
	work->stats->pages_freed++;
	sfi_pending_forget(work, &index16, 1);
}

/*
 * Resolve what can be resolved on one page; returns entries that stay.  again: entries that
 * can be resolved have come to the queue.
 */
static int
resolve_page(SfPageWork *work, SfSegment *seg, uint32 *next, bool *again)
{
	Buffer		buf = sfi_page_read(work->rel, work->page, SF_PAGE_PENDING, BUFFER_LOCK_SHARE);
	SfPending  *pending = SfPagePending(BufferGetPage(buf));
	Batch		batch;

	work->n = pending->nentries;
	memcpy(work->entries, pending->entries, work->n * sizeof(SfPendEntry));
	*next = pending->next;
	UnlockReleaseBuffer(buf);
	work->stats->entries_seen += work->n;

	sfi_history_keep(work, seg);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		collect_batch(work, &batch);
		if (batch.nremove == 0 && batch.ncommitted == 0)
			break;
		run_batch(work, &batch);
	}
	*again |= sfi_references_resolve(work, seg);
	/* from the end, since each one that is freed moves those behind it */
	for (int i = work->n - 1; i >= 0; i--)
		if (sf_format_pend_kind(work->entries[i].kind)->is_page &&
			verdict_of(work, &work->entries[i]) == SF_VERDICT_FREE)
			free_inode_page(work, i);
	return work->n;
}

/*
 * Take an empty page that is not the tail out of the queue; false when it is the tail,
 * or not empty any more.  Both are looked at again under the locks: a writer may have
 * made it the tail's predecessor, or added to it, since.  The tail stays, also when it
 * is empty, so that writers need not lock the header to append.
 */
static bool
unlink_page(Relation rel, uint32 prev, uint32 page)
{
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);
	Buffer		prevbuf = InvalidBuffer;
	Buffer		buf;
	uint32		next;
	SfFreePage	content;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	SF_ASSERT(page != SF_NO_PAGE);
	if (prev != SF_NO_PAGE)
		prevbuf = sfi_page_read(rel, prev, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	buf = sfi_page_read(rel, page, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	if (h.pending_tail == page || SfPagePending(BufferGetPage(buf))->nentries > 0)
	{
		UnlockReleaseBuffer(buf);
		if (BufferIsValid(prevbuf))
			UnlockReleaseBuffer(prevbuf);
		UnlockReleaseBuffer(hbuf);
		return false;
	}
	next = SfPagePending(BufferGetPage(buf))->next;
	content = sfi_pending_give_page(&h, page);
	if (prev == SF_NO_PAGE)
		h.pending_head = next;
	sfi_change_begin_header(hbuf, &h);
	if (BufferIsValid(prevbuf))
		sfi_change_op(sfi_change_add(prevbuf), SF_OP_PEND_NEXT, &next, sizeof(next));
	sfi_change_init(sfi_change_add(buf), SF_PAGE_FREE, &content, sizeof(content));
	sfi_change_finish_pages(SF_PAGES_QUEUE, 0, 0);
	SF_FAULT(resolve_after_unlink);
	return true;
}

/*
 * Keep the oldest xid whose outcome the queue still has to learn.  Should the commit log
 * be cut beyond it, the entry is lost, and its space with it.
 */
static void
note_unresolved(SfPageWork *work)
{
	for (int i = 0; i < work->n; i++)
		if (work->entries[i].outcome == SF_OUTCOME_UNKNOWN)
			sfi_note_unresolved(work->stats,
								FullTransactionIdFromU64(work->entries[i].fxid));
}

/*
 * The walk goes by numbers of pages that it has read without keeping their locks.  That
 * is safe, since only this process takes pages out of the queue (rule 1): "next" of a
 * page changes only from none to a page that a writer has added.
 *
 * A page that was emptied but stays (the tail, mostly) is the predecessor of the next
 * one.  More pages that stay than the relation has mean that the list leads back to
 * itself, which only damage can do.
 */
static bool
resolve_queue(SfPageWork *work, SfSegment *seg)
{
	Relation	rel = work->rel;
	uint32		prev = SF_NO_PAGE;
	uint32		nstay = 0;
	bool		again = false;
	uint32		next;

	/*
	 * One horizon for all of the queue: it is costly to ask for, and one that
	 * is a little old frees a little less.
	 */
	work->horizon = sfi_pending_horizon();
	sfi_history_begin(work, seg);
	sfi_history_expire(work);
	if (work->keeping.keeps)
		sfi_removed_note_ends(rel, work->horizon, work->stats);
	for (work->page = sfi_header(rel).pending_head; work->page != SF_NO_PAGE;
		 work->page = next)
	{
		int			left = resolve_page(work, seg, &next, &again);

		note_unresolved(work);
		if (left == 0)
			SF_FAULT(resolve_before_unlink);
		if (left == 0 && unlink_page(rel, prev, work->page))
			continue;
		prev = work->page;
		if (++nstay > RelationGetNumberOfBlocks(rel))
			sfi_page_report_damaged(rel, prev, "The list of pending pages leads back to it.");
	}
	/* too much may have come to what is kept */
	return sfi_history_press(work, seg) || again;
}

static SfPageWork *
begin_work(Relation rel, SfMaintain *stats)
{
	SfPageWork *work = palloc(sizeof(SfPageWork));

	work->rel = rel;
	work->stats = stats;
	return work;
}

bool
sf_space_resolve(SfSegment *seg, bool wait, SfMaintain *stats)
{
	Relation	rel = sfi_segment_rel(seg);
	SfPageWork *work;

	if (!wait && !ConditionalLockPage(rel, SF_LOCK_RESOLVER, ExclusiveLock))
	{
		sfi_segment_close(rel);
		return false;
	}
	if (wait && !SF_BREAKS(rule_1))
		LockPage(rel, SF_LOCK_RESOLVER, ExclusiveLock);
	work = begin_work(rel, stats);
	/* what a dead share record owned comes to the end of the queue */
	while (resolve_queue(work, seg))
		CHECK_FOR_INTERRUPTS();
	pfree(work);
	UnlockPage(rel, SF_LOCK_RESOLVER, ExclusiveLock);
	sfi_segment_close(rel);
	return true;
}

void
sf_space_purge(SfSegment *seg, int64 until_us, SfMaintain *stats)
{
	Relation	rel = sfi_segment_rel(seg);
	SfPageWork *work = begin_work(rel, stats);
	SfHeader	h;
	int64		now_us;

	LockPage(rel, SF_LOCK_RESOLVER, ExclusiveLock);
	work->horizon = sfi_pending_horizon();
	h = sfi_header(rel);
	now_us = sfi_history_time(&h);
	sfi_history_end(work, Min(until_us, now_us), until_us >= now_us);
	while (resolve_queue(work, seg))
		CHECK_FOR_INTERRUPTS();
	pfree(work);
	UnlockPage(rel, SF_LOCK_RESOLVER, ExclusiveLock);
	sfi_segment_close(rel);
}

Relation
sf_space_open_resolved(Oid segment_relid, SfMaintain *stats)
{
	Relation	segrel = NULL;

	if (OidIsValid(segment_relid))
		segrel = try_relation_open(segment_relid, ShareUpdateExclusiveLock);
	if (segrel == NULL)
		return NULL;
	(void) sf_space_resolve(sf_space_open_rel(segrel), true, stats);
	return segrel;
}
