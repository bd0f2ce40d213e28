/*-------------------------------------------------------------------------
 *
 * space_usage.c
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
 * The space of a shared object is pending when all of its references wait to be taken away.
 * References that wait are counted by record for that, and the share pages are walked.
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
#include "space/share_records.h"
#include "space/space_internal.h"

/* Runs, for the union of them, or share records with numbers of references. */
typedef struct RunList
{
	SfRun	   *runs;
	int64		n;
	int64		size;
} RunList;

/* What pending entries name. */
typedef struct Pending
{
	SfHorizon	horizon;
	RunList		runs;
	RunList		waiting;		/* share records, by the start of their
								 * entries, and references that will be taken
								 * away */
	bool		in_history;		/* the entries are those of history pages: */
	RunList		kept;			/* what they name */
	RunList		kept_waiting;	/* likewise of share records */
} Pending;

static void
add_run(RunList *list, SfRun run)
{
	list->runs = sf_base_array_grow(list->runs, list->n, &list->size, sizeof(SfRun),
									CurrentMemoryContext);
	SF_ASSERT(list->n < list->size);
	list->runs[list->n++] = run;
}

/* Gets each pending entry, under the lock of its page. */
typedef void (*VisitEntry) (const SfPendEntry *entry, void *arg);

/* Add an entry, if what it names is not live (a VisitEntry). */
static void
add_pending(const SfPendEntry *entry, void *arg)
{
	Pending    *pending = arg;
	const SfRun run = {entry->start, entry->count};

	if (sf_format_pend_kind(entry->kind)->is_page || sfi_pending_is_live(entry, pending->horizon))
		return;
	if (sf_pend_is_run(entry->kind))
		add_run(&pending->runs, run);
	else if (entry->kind != SF_PEND_SHARE_NEW)
		add_run(&pending->waiting, run);
	if (!pending->in_history)
		return;
	add_run(sf_pend_is_run(entry->kind) ? &pending->kept : &pending->kept_waiting, run);
}

/* By their start, for qsort() and bsearch(). */
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

	if (list->n > 0)
		qsort(list->runs, list->n, sizeof(SfRun), cmp_runs);
	for (int64 i = 0; i < list->n; i++)
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
 * Show the entries of all pending pages, or of all history pages.  Each page is locked before the
 * lock of the one that points to it is given up: the resolver takes pages out of the lists
 * meanwhile.
 */
static void
read_list(Relation rel, bool history, VisitEntry visit, void *arg)
{
	Buffer		held = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_SHARE);
	const SfHeader *h = SfPageHeader(BufferGetPage(held));
	uint32		page = history ? h->history_head : h->pending_head;
	uint32		limit = 2 * RelationGetNumberOfBlocks(rel); /* even if it moves */

	while (page != SF_NO_PAGE && page != 0)
	{
		Buffer		buf = sfi_page_read(rel, page, SF_PAGE_PENDING, BUFFER_LOCK_SHARE);
		const SfPending *pending = SfPagePending(BufferGetPage(buf));

		UnlockReleaseBuffer(held);
		held = buf;
		for (int i = 0; i < pending->nentries; i++)
			visit(&pending->entries[i], arg);
		page = pending->next;
		if (limit-- == 0)
			sfi_page_report_damaged(rel, page, "The list of pending pages leads back to it.");
	}
	UnlockReleaseBuffer(held);
}

/*
 * Both.  A page that goes from the one to the other meanwhile is shown twice, which is better than
 * not at all.
 */
static void
read_pending(Relation rel, VisitEntry visit, void *arg)
{
	read_list(rel, true, visit, arg);
	read_list(rel, false, visit, arg);
}

/* ---- the map ---- */

/* Writers need the lock of a page for each commit: it is given up between two pages. */
void
sfi_visit_maps(Relation rel, uint64 total_sectors, bool from_end, SfMapVisit visit, void *arg)
{
	uint32		npages = sf_maps_of(total_sectors);
	bool		more = true;

	SF_ASSERT(total_sectors % SF_BLOCK_SECTORS == 0);
	for (uint32 i = 0; i < npages && more; i++)
	{
		uint32		map = from_end ? npages - 1 - i : i;
		uint32		limit = sf_block_of(sf_map_sectors_before(total_sectors, map));
		Buffer		buf;

		CHECK_FOR_INTERRUPTS();
		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
		more = visit(SfPageMap(BufferGetPage(buf)), map, limit, arg);
		UnlockReleaseBuffer(buf);
	}
}

/* An SfMapVisit. */
static bool
add_used(const SfMap *content, uint32 map, uint32 limit, void *arg)
{
	SF_ASSERT(content->used_sectors <= SF_MAP_SECTORS);
	*(uint64 *) arg += content->used_sectors;
	return true;
}

uint64
sfi_used_sectors(Relation rel, uint64 total_sectors)
{
	uint64		used = 0;

	sfi_visit_maps(rel, total_sectors, false, add_used, &used);
	return used;
}

/* ---- shared objects ---- */

/* Sort references that wait, and add up those of one record. */
static void
sum_waiting(RunList *list)
{
	int64		to = 0;

	if (list->n == 0)
		return;
	qsort(list->runs, list->n, sizeof(SfRun), cmp_runs);
	for (int64 i = 1; i < list->n; i++)
	{
		if (list->runs[i].start == list->runs[to].start)
			list->runs[to].nsectors += list->runs[i].nsectors;
		else
			list->runs[++to] = list->runs[i];
	}
	SF_ASSERT(to < list->n);
	list->n = to + 1;
}

/*
 * Will all references of a record be taken away, or are they?  *given_back: how many runs of
 * its object are in the queue already.
 */
static bool
is_leaving(const Pending *pending, SfShareId id, const SfShareRecord *record, uint32 *given_back)
{
	const SfRun key = {sf_share_to_start(id), 0};
	const SfRun *waiting;

	if (pending->waiting.n == 0)
		return false;
	waiting = bsearch(&key, pending->waiting.runs, pending->waiting.n, sizeof(SfRun), cmp_runs);
	*given_back = waiting != NULL && record->state == SF_SHARE_DEAD ? waiting->nsectors : 0;
	return waiting != NULL &&
		(record->state == SF_SHARE_DEAD || waiting->nsectors >= record->references);
}

/*
 * The runs of the object of a record, in order.  A map in inode pages that is damaged, or gone by
 * now, is one without runs: what is not known is not counted.
 */
static SfOwned
runs_of(SfSegment *seg, const SfShareRecord *record)
{
	SfOwned		owned = {0};
	RunList		list = {0};
	SfRun		run;

	if (sf_format_share_has_inodes(record) && sfi_owned_try(seg, record, &owned))
		return owned;
	while (sf_format_share_run(record, list.n, &run))
		add_run(&list, run);
	owned.runs = list.runs;
	owned.nruns = list.n;
	return owned;
}

/* Is a reference to the record kept? */
static bool
is_kept(const Pending *pending, SfShareId id)
{
	const SfRun key = {sf_share_to_start(id), 0};

	return pending->kept_waiting.n > 0 &&
		bsearch(&key, pending->kept_waiting.runs, pending->kept_waiting.n, sizeof(SfRun),
				cmp_runs) != NULL;
}

/* Add the space of an object that leaves, but for the runs that are in the queue already. */
static void
add_leaving(Pending *pending, const SfOwned *owned, uint32 given_back, bool kept)
{
	for (int i = given_back; i < owned->nruns; i++)
	{
		if (!sf_format_is_possible_run(owned->runs[i].start, owned->runs[i].nsectors))
			continue;
		add_run(&pending->runs, owned->runs[i]);
		if (kept)
			add_run(&pending->kept, owned->runs[i]);
	}
}

/*
 * Count a record, and add the runs of one that leaves.  Where neither needs the map it is not
 * read.
 */
static void
count_share(SfSegment *seg, SfShareId id, const SfShareRecord *record, Pending *pending,
			SfUsage *usage)
{
	bool		is_had = record->state != SF_SHARE_DEAD && record->references > 0;
	uint32		given_back = 0;
	bool		leaves = is_leaving(pending, id, record, &given_back);
	SfOwned		owned;

	SF_ASSERT(id.low_id == (uint16) record->object_id && id.cell < SF_SHARE_CELLS);
	usage->shared_objects += is_had;
	usage->references += is_had ? record->references : 0;
	if (!leaves && !(is_had && record->references > 1))
		return;
	owned = runs_of(seg, record);
	SF_ASSERT(given_back == 0 || record->state == SF_SHARE_DEAD);
	if (leaves)
		add_leaving(pending, &owned, given_back, is_kept(pending, id));
	if (is_had)
		usage->saved_bytes += (record->references - UINT64CONST(1)) *
			sf_sectors_to_bytes(sf_space_owned_sectors(&owned));
	if (owned.runs != NULL)
		sf_space_free_owned(&owned);
}

/* The same for all records of a share page. */
static void
count_shares(SfSegment *seg, uint32 page, const SfSharePage *content, Pending *pending,
			 SfUsage *usage)
{
	for (uint32 cell = 0; cell < SF_SHARE_CELLS;)
	{
		const SfShareRecord *record = sf_format_share_record(content, cell);

		CHECK_FOR_INTERRUPTS();
		if (record != NULL)
			count_share(seg, (SfShareId) {page, (uint16) cell, (uint16) record->object_id}, record,
						pending, usage);
		cell += sf_share_record_cells(record);
	}
}

/* Walk through the share pages.  New ones come at the head, and none leaves the list. */
static void
read_shares(SfSegment *seg, Relation rel, Pending *pending, SfUsage *usage)
{
	SfSharePage *content = palloc(sizeof(SfSharePage));
	uint32		page = sfi_header(rel).share_head;
	uint32		limit = RelationGetNumberOfBlocks(rel);

	sum_waiting(&pending->waiting);
	sum_waiting(&pending->kept_waiting);
	while (page != 0 && page != SF_NO_PAGE)
	{
		Buffer		buf = sfi_page_read(rel, page, SF_PAGE_SHARE, BUFFER_LOCK_SHARE);

		CHECK_FOR_INTERRUPTS();
		*content = *SfPageShare(BufferGetPage(buf));
		UnlockReleaseBuffer(buf);
		count_shares(seg, page, content, pending, usage);
		if (limit-- == 0)
			sfi_page_report_damaged(rel, page, "The list of share pages leads back to it.");
		page = content->next;
	}
	pfree(content);
}

/* ---- all of it ---- */

/* A list that has grown. */
static void
free_list(RunList *list)
{
	if (list->runs != NULL)
		pfree(list->runs);
}

SfUsage
sf_space_usage(SfSegment *seg)
{
	Pending		sum = {.horizon = sfi_pending_horizon()};
	Relation	rel = sfi_segment_rel(seg);
	uint64		total = sfi_header(rel).total_sectors;
	SfUsage		usage = {0};
	uint64		used;
	uint64		pending;

	sum.in_history = true;
	read_list(rel, true, add_pending, &sum);
	sum.in_history = false;
	read_list(rel, false, add_pending, &sum);
	read_shares(seg, rel, &sum, &usage);
	used = sfi_used_sectors(rel, total);
	/* the two are not one snapshot; keep the sum right under load */
	pending = Min(union_sectors(&sum.runs), used);
	usage.retained_bytes = sf_sectors_to_bytes(Min(union_sectors(&sum.kept), pending));
	free_list(&sum.runs);
	free_list(&sum.waiting);
	free_list(&sum.kept);
	free_list(&sum.kept_waiting);

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
 * nothing is damaged.
 */
bool
sf_space_is_used(SfSegment *seg, SfRun run, bool or_lent)
{
	uint32		page = SF_MAP_PAGE(sf_map_of(run.start));
	SfMapRange	range = sfi_map_range(run.start, run.nsectors);
	Relation	rel;
	bool		answer = false;

	SF_ASSERT(sf_format_is_possible_run(run.start, run.nsectors));
	/* of retained storage nothing is ever freed */
	if (seg->retained)
		return true;
	rel = sfi_segment_rel(seg);
	if (sfi_page_is_used(rel, page))
	{
		Buffer		buf = sfi_page_read(rel, page, SF_PAGE_MAP, BUFFER_LOCK_SHARE);
		const SfMap *map = SfPageMap(BufferGetPage(buf));

		answer = or_lent ? sfi_map_is_held(map, range) : sf_format_map_all_used(map, range);
		UnlockReleaseBuffer(buf);
	}
	sfi_segment_close(rel);
	return answer;
}

/* ---- what stands in the way of a shorter segment ---- */

/* What entries of a transaction name: xid, and the end of the runs. */
typedef struct Held
{
	uint64		fxid;
	uint64		end;
} Held;

typedef struct HeldList
{
	uint64		before;			/* of transactions with an id below that */
	uint64		kept_end;		/* behind what a retention keeps */
	Held	   *held;
	int64		n;
	int64		size;
} HeldList;

/* Note the end of a run for its transaction, whose runs come together (a VisitEntry). */
static void
note_held(const SfPendEntry *entry, void *arg)
{
	HeldList   *list = arg;
	uint64		end = entry->start + entry->count;

	if (!sf_pend_is_run(entry->kind) || entry->fxid >= list->before)
		return;
	if (entry->outcome == SF_OUTCOME_KEPT)
	{
		list->kept_end = Max(list->kept_end, end);
		return;
	}
	if (list->n > 0 && list->held[list->n - 1].fxid == entry->fxid)
	{
		list->held[list->n - 1].end = Max(list->held[list->n - 1].end, end);
		return;
	}
	list->held = sf_base_array_grow(list->held, list->n, &list->size, sizeof(Held),
									CurrentMemoryContext);
	list->held[list->n++] = (Held) {entry->fxid, end};
}

uint64
sf_space_held_end(SfSegment *seg, uint64 before, uint64 *kept_end)
{
	HeldList	list = {.before = before};
	Relation	rel = sfi_segment_rel(seg);
	uint64		end = 0;

	read_pending(rel, note_held, &list);
	*kept_end = list.kept_end;
	for (int64 i = 0; i < list.n; i++)
		if (list.held[i].end > end &&
			sf_base_transaction_end(list.held[i].fxid) == SF_END_RUNNING)
			end = list.held[i].end;
	if (list.held != NULL)
		pfree(list.held);
	sfi_segment_close(rel);
	return end;
}

/* A place that is looked for in the queue. */
typedef struct Place
{
	uint64		start;
	uint32		count;
	bool		is_page;
	bool		found;
} Place;

/* Does an entry that frees name the place, or a part of it?  (a VisitEntry) */
static void
match_place(const SfPendEntry *entry, void *arg)
{
	const SfPendKindInfo *kind = sf_format_pend_kind(entry->kind);
	Place	   *place = arg;

	/* what is kept is listed by itself */
	if (kind->is_alloc || entry->outcome == SF_OUTCOME_KEPT)
		return;
	if ((place->is_page ? kind->is_page : sf_pend_is_run(entry->kind)) &&
		entry->start < place->start + place->count && place->start < entry->start + entry->count)
		place->found = true;
}

/* Asked when a value cannot be read and its row is gone: has its place been given back, too? */
bool
sf_space_is_waiting(SfSegment *seg, uint64 start, uint32 count, bool is_page)
{
	Place		place = {start, count, is_page};
	Relation	rel = sfi_segment_rel(seg);

	SF_ASSERT(!seg->retained && count > 0);
	read_pending(rel, match_place, &place);
	sfi_segment_close(rel);
	return place.found;
}
