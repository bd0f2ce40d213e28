/*-------------------------------------------------------------------------
 *
 * check_pages.c
 *	  The pages of a segment relation against the space of the live rows.
 *
 * Every used sector, and every inode page, must be owned by a live row or named
 * by a pending entry.  The space of a row must be marked as used, and no entry may
 * be about to free it.  Entries of transactions that are still running are sound,
 * and so are those that a resolver has not removed yet.
 *
 * The entry by which a committed transaction took space does not count as one that
 * names it.  Either the snapshot sees that transaction's row, which owns the space.
 * Or the row was removed since; then its remover has left an entry that frees the
 * space, and resolvers never remove that entry before the first one.
 *
 * ShareLock on the segment relation keeps out all that frees (monitor, vacuum,
 * securefile_maintain) or writes.  It also keeps out a transaction that gave up
 * its lock on the table by a rollback to a savepoint, and may still write to the
 * segment.  So the pages do not change during the walk.
 *
 * On a standby nothing keeps out the replay.  There the map pages may only show
 * more sectors in use than the rows need, since replay frees nothing that the
 * snapshot of this check sees.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "check/check_shares.h"

/* ---- pending entries ---- */

/* How did an entry's transaction end?  The entry itself may say that it has committed. */
static SfTransactionEnd
entry_outcome(const SfPendEntry *entry)
{
	return entry->outcome != SF_OUTCOME_UNKNOWN ? SF_END_COMMITTED :
		sf_base_transaction_end(entry->fxid);
}

static bool
names_page(const SfPendEntry *entry)
{
	return sf_format_pend_kind(entry->kind)->is_page;
}

/*
 * Why an entry cannot be valid; NULL when it is.  The read of the page has verified
 * everything that the page alone can tell.
 */
static const char *
entry_problem(SfPageWalk *walk, const SfPendEntry *entry)
{
	if (entry->fxid >= U64FromFullTransactionId(ReadNextFullTransactionId()))
		return "there has been no such transaction";
	if (names_page(entry))
		return entry->start < walk->npages ? NULL : "the segment relation has no such page";
	if (sf_format_pend_kind(entry->kind)->is_share)
		return sf_share_of_start(entry->start).page < walk->nblocks ? NULL :
			"the segment relation has no such page";
	return entry->start + entry->count <= walk->check->total_sectors ? NULL :
		"the data files have no such run";
}

/*
 * Note the space that an entry names, and whether it will be set free: space that
 * was taken is, when the transaction aborted; space that was freed, when it committed.
 */
static void
note_entry(SfPageWalk *walk, const SfPendEntry *entry, SfTransactionEnd outcome)
{
	bool		is_alloc = sf_format_pend_kind(entry->kind)->is_alloc;
	bool		doomed = outcome == (is_alloc ? SF_END_ABORTED : SF_END_COMMITTED);
	bool		taken = is_alloc && outcome == SF_END_COMMITTED;

	SF_ASSERT(!(doomed && taken));
	SF_ASSERT(!names_page(entry) || entry->start < walk->npages);
	if (names_page(entry))
	{
		if (doomed && (walk->known[entry->start] & SF_KNOWN_DOOMED))
			sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
							 "two pending entries will set page " UINT64_FORMAT " free",
							 entry->start);
		walk->known[entry->start] |= (taken ? SF_KNOWN_TAKEN : SF_KNOWN_NAMED) |
			(doomed ? SF_KNOWN_DOOMED : 0);
		return;
	}
	if (taken)
		return;
	sf_rows_runs_add(&walk->named, entry->start, entry->count, 0, NULL);
	if (doomed)
		sf_rows_runs_add(&walk->doomed, entry->start, entry->count, 0, NULL);
}

/* Will an entry about a share record change it?  A guard that its transaction needs will not. */
static bool
changes_record(const SfPendEntry *entry, SfTransactionEnd outcome)
{
	if (entry->kind == SF_PEND_REF_ADD)
		return outcome == SF_END_RUNNING || outcome == SF_END_ABORTED;
	return (entry->kind != SF_PEND_REF_DROP && entry->kind != SF_PEND_REF_DROP_NOW) ||
		outcome == SF_END_COMMITTED;
}

/* Check an entry against the segment and the commit log, and note its space. */
static void
check_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry)
{
	const char *problem = entry_problem(walk, entry);
	SfTransactionEnd outcome;

	if (problem != NULL)
	{
		sfi_check_report_entry(walk, page, entry, problem);
		return;
	}
	outcome = entry_outcome(entry);
	walk->running |= outcome == SF_END_RUNNING;
	if (outcome == SF_END_UNKNOWN)
		sfi_check_report_entry(walk, page, entry,
							   "the outcome of its transaction is not known any more");
	if (!sf_format_pend_kind(entry->kind)->is_share)
		note_entry(walk, entry, outcome);
	else if (changes_record(entry, outcome))
		sfi_check_share_entry(walk, page, entry);
}

/* ---- lists of pages ---- */

/*
 * Take one step in a list of pages, and mark the page as a member.  False, and a
 * finding, when the page does not exist, is in a list already, or is of another type.
 */
static bool
read_linked(SfPageWalk *walk, uint32 page, SfPageType type, uint8 mark, SfCheckPage *read)
{
	SF_ASSERT(mark == SF_KNOWN_QUEUED || mark == SF_KNOWN_FREE);
	if (page >= walk->nblocks || (walk->known[page] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE)))
	{
		sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						 "the list of %s pages leads to page %u, which %s",
						 type == SF_PAGE_PENDING ? "pending" : "free", page,
						 page >= walk->nblocks ? "does not exist" : "is in a list already");
		return false;
	}
	walk->known[page] |= mark;
	return sfi_check_read(walk, SF_REPAIR_LISTS, page, type, read);
}

/*
 * Walk through a list of pending pages, and check all entries.  Returns the sum of the sectors that
 * the pages say that they keep.
 */
static uint64
walk_entries(SfPageWalk *walk, uint32 page, uint32 tail, bool history)
{
	SfCheckPage read;
	uint32		last = SF_NO_PAGE;
	uint64		kept = 0;

	while (page != SF_NO_PAGE &&
		   read_linked(walk, page, SF_PAGE_PENDING, SF_KNOWN_QUEUED, &read))
	{
		SfPending  *pending = &read.u.pending;

		for (int i = 0; i < pending->nentries; i++)
		{
			if (history && pending->entries[i].outcome != SF_OUTCOME_KEPT)
				sfi_check_report_entry(walk, page, &pending->entries[i],
									   "it is on a history page, and is not kept");
			check_entry(walk, page, &pending->entries[i]);
		}
		kept += pending->history.sectors;
		last = page;
		page = pending->next;
	}
	if (tail != last)
		sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						 "the list of %s pages does not end at its last page %u",
						 history ? "history" : "pending", tail);
	return kept;
}

/* The queue. */
static void
walk_pending(SfPageWalk *walk)
{
	const SfHeader *header = &walk->check->header;

	(void) walk_entries(walk, header->pending_head, header->pending_tail, false);
}

/* What is kept of removed values. */
static void
walk_history(SfPageWalk *walk)
{
	const SfHeader *header = &walk->check->header;
	uint64		kept;

	kept = walk_entries(walk, header->history_head == 0 ? SF_NO_PAGE : header->history_head,
						header->history_tail == 0 ? SF_NO_PAGE : header->history_tail, true);
	if (kept != header->kept_sectors)
		sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						 "history pages keep " UINT64_FORMAT " sectors, page 0 says " UINT64_FORMAT,
						 kept, header->kept_sectors);
}

/* Walk through the list of free pages. */
static void
walk_free(SfPageWalk *walk)
{
	const SfHeader *header = &walk->check->header;
	SfCheckPage read;
	uint32		page = header->free_head;
	uint32		n = 0;

	for (; page != SF_NO_PAGE && read_linked(walk, page, SF_PAGE_FREE, SF_KNOWN_FREE, &read); n++)
		page = read.u.free.next;
	if (page == SF_NO_PAGE && n != header->free_pages)
		sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						 "%u pages are free, page 0 says %u", n, header->free_pages);
}

/* ---- dynamic pages ---- */

/* Mark the pages that rows own; report those that will be set free, or are in a list. */
static void
mark_owned(SfPageWalk *walk)
{
	SfRowRuns  *owned = &walk->check->owned_pages;

	SF_ASSERT(owned->sorted);
	for (int64 i = 0; i < owned->n; i++)
	{
		SfRowRun   *run = &owned->runs[i];

		if (run->start >= walk->nblocks)
			continue;
		walk->known[run->start] |= SF_KNOWN_OWNED;
		if (walk->known[run->start] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE))
			sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
							 "inode page " UINT64_FORMAT " of a value is in one",
							 run->start);
		if (walk->known[run->start] & SF_KNOWN_DOOMED)
			sfi_check_report(walk->check, SF_FINDING_OWNED_DOOMED, &run->tid, 0, 0,
							 "inode page " UINT64_FORMAT, run->start);
	}
}

/* What a repair does about a page that cannot be read, or is of no type that it may have. */
static SfRepair
repair_of_page(const SfPageWalk *walk, uint32 page)
{
	if (walk->known[page] & SF_KNOWN_ADVICE)
		return SF_REPAIR_UNREPORTED;
	return walk->known[page] & SF_KNOWN_SHARE ? SF_REPAIR_PAGE : sfi_check_unowned(walk);
}

/* Compare the type of a page with the facts that are known about it. */
static void
check_dynamic(SfPageWalk *walk, const SfCheckPage *read)
{
	uint16		known = walk->known[read->page];

	SF_ASSERT(read->page < walk->npages && !SF_IS_MAP_PAGE(read->page));
	switch (read->type)
	{
		case SF_PAGE_INODE:
			if (!(known & (SF_KNOWN_OWNED | SF_KNOWN_NAMED)))
				sfi_check_report_as(walk->check, sfi_check_unowned(walk), SF_FINDING_UNOWNED,
									NULL, 0, 0, "inode page %u", read->page);
			if ((known & SF_KNOWN_OWNED) && read->u.inode.stamp < SF_KEYED_STAMP)
				walk->max_stamp = Max(walk->max_stamp, read->u.inode.stamp);
			break;
		case SF_PAGE_KEYS:
			sfi_check_key_page(walk, read->page);
			break;
		case SF_PAGE_DICTIONARY:
			sfi_check_dictionary_page(walk, read);
			break;
		case SF_PAGE_ADVICE_BUCKET:
			sfi_check_advice_page(walk, read->page);
			break;
		case SF_PAGE_SHARE:
		case SF_PAGE_REMOVED:
		case SF_PAGE_PENDING:
		case SF_PAGE_FREE:
			if (!(known & (SF_KNOWN_QUEUED | SF_KNOWN_FREE | SF_KNOWN_OWNED)))
				sfi_check_report(walk->check, SF_FINDING_UNOWNED,
								 NULL, 0, 0, "page %u is in no list", read->page);
			break;
		default:
			/* a page of the advice has been looked at */
			if (known & SF_KNOWN_ADVICE)
				return;
			sfi_check_report_as(walk->check, repair_of_page(walk, read->page),
								SF_FINDING_DAMAGED_PAGE,
								NULL, 0, 0, "page %u of the segment relation: found type %d",
								read->page, read->type);
			return;
	}
	if ((known & SF_KNOWN_DOOMED) && read->type != SF_PAGE_INODE)
		sfi_check_report(walk->check, SF_FINDING_UNRESOLVABLE, NULL, 0, 0,
						 "page %u, which it will set free, is not an inode page", read->page);
}

/*
 * Is it an empty page behind the last one that was ever handed out?  A page that an
 * entry names was handed out all the same: then the header is stale.
 */
static bool
is_beyond(SfPageWalk *walk, const SfCheckPage *read)
{
	return read->page >= walk->check->header.next_page &&
		read->is_new &&
		!(walk->known[read->page] & (SF_KNOWN_NAMED | SF_KNOWN_TAKEN | SF_KNOWN_SHARE));
}

/* Check all pages but the header and the map pages, and find the last one in use. */
static void
walk_dynamic(SfPageWalk *walk)
{
	SfCheckPage read;

	for (uint32 page = 2; page < walk->npages; page++)
	{
		bool		readable;

		if (SF_IS_MAP_PAGE(page))
			continue;
		readable = sfi_check_read_any(walk->check, repair_of_page(walk, page), page, &read);
		if (readable && is_beyond(walk, &read))
			continue;
		walk->end_page = page + 1;
		if (readable)
			check_dynamic(walk, &read);
	}
}

/*
 * What a repair does about missing pages.  If there are too many, the header is wrong, and
 * gets the number of the page behind the last one, and the end that there is; but not while
 * a value may own what is missing, since it would be given to another.
 */
static SfRepair
repair_of_length(const SfPageWalk *walk, bool ahead)
{
	if (!ahead)
		return SF_REPAIR_PAGE;
	return walk->all_sound ? SF_REPAIR_CORRECT : SF_REPAIR_NONE;
}

/* A page is handed out only where the relation already reaches: report missing ones. */
static void
check_length(SfPageWalk *walk)
{
	SF_ASSERT(walk->nblocks >= walk->npages);
	if (walk->end_ahead)
		sfi_check_report_as(walk->check, repair_of_length(walk, true), SF_FINDING_RELATION_SHORT,
							NULL, 0, 0, "page 0 takes sector " UINT64_FORMAT
							" for the end, the relation has %u pages",
							walk->check->header.total_sectors, walk->npages);
	if (walk->nblocks == walk->npages && !walk->header_ahead)
		return;
	walk->end_page = walk->nblocks;
	sfi_check_report_as(walk->check, repair_of_length(walk, walk->header_ahead),
						SF_FINDING_RELATION_SHORT, NULL, 0, 0,
						"page 0 takes page %u for the next, the relation has %u pages",
						walk->check->header.next_page, walk->npages);
}

/* ---- all of it ---- */

void
sfi_check_pages(SfPageWalk *walk)
{
	bool		moving = walk->check->moving;

	SF_ASSERT(walk->check->owned.sorted && walk->check->owned_pages.sorted);
	/* all findings so far are about values, references and data files */
	walk->all_sound = walk->check->nfindings == walk->check->nmendable;
	if (!moving)
	{
		walk_pending(walk);
		walk_history(walk);
		walk_free(walk);
		sfi_check_shares(walk);
		sfi_check_keys(walk);
		sfi_check_removed(walk);
		sfi_check_dictionaries(walk);
		mark_owned(walk);
		sfi_check_advice(walk);
		walk_dynamic(walk);
		sfi_check_stray_dictionaries(walk);
		sfi_check_stray_advice(walk);
		check_length(walk);
	}
	sfi_check_map(walk);
	if (!moving)
		sfi_check_header(walk);
}
