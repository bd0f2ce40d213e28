/*-------------------------------------------------------------------------
 *
 * usage.c
 *	  What other rooms ask of the pages of a segment: what is on one, is a run
 *	  in use, how much is (live + pending + free = data files).
 *
 * The sums, of one segment:
 *
 *	 total sectors (header)
 *	 +----------------------------------+----------------------+
 *	 | used (counts of the map pages)	| free				   |
 *	 +-------------------+--------------+----------------------+
 *	 | live				 | pending: union of runs named by entries whose space is
 *	 |					 | to be freed, or may be
 *	 +-------------------+--------------+
 *
 * Used bits do not tell live from pending; the queue does.  Two entries may name the same
 * sectors, the ALLOC of a transaction that still runs and its own FREE, so the runs are
 * sorted and their union is counted.
 *
 * Nothing stands still meanwhile: the map is read page by page while others commit.  The
 * sum is kept right, each of its parts may be a moment older or younger than another.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/storage.h"

/* Runs named by pending entries, for the union of them. */
typedef struct RunList
{
	SfHorizon	horizon;
	SfRun	   *runs;
	int			n;
	int			size;
} RunList;

/* Add the run of an entry, if its space is not live. */
static void
add_pending(RunList *list, const SfPendEntry *entry)
{
	if (!sf_pend_is_run(entry->kind) || sfi_pending_is_live(entry, list->horizon))
		return;
	if (list->n == list->size)
	{
		list->size *= 2;
		list->runs = repalloc_huge(list->runs, list->size * sizeof(SfRun));
	}
	SF_ASSERT(list->n < list->size && entry->count > 0);
	list->runs[list->n++] = (SfRun) {entry->start, entry->count};
}

/* By their start, for qsort(). */
static int
cmp_runs(const void *a, const void *b)
{
	uint64		x = ((const SfRun *) a)->start;
	uint64		y = ((const SfRun *) b)->start;

	return x < y ? -1 : x > y;
}

/* Sectors in the union of the runs (ALLOC and FREE may name the same ones). */
static uint64
union_sectors(RunList *list)
{
	uint64		sum = 0;
	uint64		end = 0;

	qsort(list->runs, list->n, sizeof(SfRun), cmp_runs);
	for (int i = 0; i < list->n; i++)
	{
		uint64		from = Max(list->runs[i].start, end);
		uint64		to = list->runs[i].start + list->runs[i].nsectors;

		if (to > from)
			sum += to - from;
		end = Max(end, to);
	}
	SF_ASSERT(sum <= end);
	return sum;
}

/*
 * Collect the runs of all pending pages.  Each page is locked before the lock
 * of the one that points to it is given up: the resolver takes empty pages out
 * of the queue meanwhile.
 */
static void
read_pending(Relation rel, RunList *list)
{
	Buffer		held = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
	uint32		page = SfPageHeader(BufferGetPage(held))->pending_head;
	uint32		limit = 2 * RelationGetNumberOfBlocks(rel); /* even if it moves */

	while (page != SF_NO_PAGE)
	{
		Buffer		buf = sfi_page_read(rel, page, SF_PAGE_PENDING, BUFFER_LOCK_SHARE);
		const SfPending *pending = SfPagePending(BufferGetPage(buf));

		UnlockReleaseBuffer(held);
		held = buf;
		for (int i = 0; i < pending->nentries; i++)
			add_pending(list, &pending->entries[i]);
		page = pending->next;
		if (limit-- == 0)
			sfi_page_report_damaged(rel, page, "The list of pending pages leads back to it.");
	}
	UnlockReleaseBuffer(held);
}

/*
 * Sectors marked used on all map pages.  The pages count them, and the count is part of
 * what their seals cover, so the bits need not be looked at.
 */
static uint64
count_used(Relation rel, uint64 total_sectors)
{
	uint64		used = 0;

	for (uint64 first = 0; first < total_sectors; first += SF_MAP_SECTORS)
	{
		Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(sf_map_of(first)), SF_PAGE_MAP,
										BUFFER_LOCK_SHARE);

		CHECK_FOR_INTERRUPTS();
		SF_ASSERT(SfPageMap(BufferGetPage(buf))->used_sectors <= SF_MAP_SECTORS);
		used += SfPageMap(BufferGetPage(buf))->used_sectors;
		UnlockReleaseBuffer(buf);
	}
	return used;
}

SfUsage
sf_space_usage(SfSegment *seg)
{
	RunList		list = {.horizon = sfi_pending_horizon(), .size = 256};
	Relation	rel = sfi_segment_rel(seg);
	uint64		total = sf_space_header(rel).total_sectors;
	SfUsage		usage;
	uint64		used;
	uint64		pending;

	list.runs = palloc(list.size * sizeof(SfRun));
	read_pending(rel, &list);
	used = count_used(rel, total);
	/* the two are not one snapshot; keep the sum right under load */
	pending = Min(union_sectors(&list), used);
	pfree(list.runs);

	usage.file_bytes = sf_sectors_to_bytes(total);
	usage.live_bytes = sf_sectors_to_bytes(used - pending);
	usage.pending_bytes = sf_sectors_to_bytes(pending);
	usage.free_bytes = usage.file_bytes - sf_sectors_to_bytes(used);
	usage.metadata_bytes = (uint64) RelationGetNumberOfBlocks(rel) * BLCKSZ;
	sfi_segment_close(rel);
	return usage;
}

/*
 * Asked when a checksum has failed: if the sectors are free, the locator is stale, and
 * nothing is damaged.  Of retained storage nothing is ever freed.
 */
bool
sf_space_is_used(SfSegment *seg, SfRun run)
{
	uint32		page = SF_MAP_PAGE(sf_map_of(run.start));
	Relation	rel;
	bool		used = false;

	SF_ASSERT(sf_format_is_possible_run(run.start, run.nsectors));
	if (seg->retained)
		return true;
	rel = sfi_segment_rel(seg);

	if (sfi_page_is_used(rel, page))
	{
		Buffer		buf = sfi_page_read(rel, page, SF_PAGE_MAP, BUFFER_LOCK_SHARE);

		used = sf_format_map_all_used(SfPageMap(BufferGetPage(buf)),
									  sfi_map_range(run.start, run.nsectors));
		UnlockReleaseBuffer(buf);
	}
	sfi_segment_close(rel);
	return used;
}

/* Retained storage has no relation any more: its pages lie in a file. */
SfPageType
sf_space_read_page(SfSegment *seg, uint32 page, char *content)
{
	Relation	rel;
	SfPageType	type;

	if (seg->retained)
		return sfi_retained_page(seg->storage, page, content);
	rel = sfi_segment_rel(seg);
	type = sfi_page_copy(rel, page, content);
	sfi_segment_close(rel);
	return type;
}

bool
sf_space_page_is_new(SfSegment *seg, uint32 page)
{
	Relation	rel = sfi_segment_rel(seg);
	bool		is_new = !sfi_page_is_used(rel, page);

	sfi_segment_close(rel);
	return is_new;
}
