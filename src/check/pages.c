/*-------------------------------------------------------------------------
 *
 * pages.c
 *	  The pages of a segment relation against what the live rows own.
 *
 * Every used sector, and every inode page, must be owned by a live row or
 * named by a pending entry; what a row owns must be marked used, and no entry
 * may be about to free it.  Entries of transactions that are not decided yet,
 * or that have not been taken out yet, are sound.
 *
 * What a committed transaction took does not count as named by that: its row is
 * there for us to see, or who removed the row has left an entry that frees, and
 * that entry is never taken out before the other one.
 *
 * ShareLock on the segment relation keeps out who frees (monitor, vacuum,
 * securefile_maintain) and who writes, also a transaction that gave up its
 * lock on the table by rolling back to a savepoint.  So the pages stand still.
 *
 * On a standby nothing keeps out the replay.  Its map pages may only have more
 * used bits than the rows need: what our snapshot sees is not freed there.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "check/check_internal.h"
#include "utils/builtins.h"
#include "utils/xid8.h"

/* ---- pending entries ---- */

typedef enum Outcome
{
	RUNNING,
	COMMITTED,
	ABORTED,
	FORGOTTEN,
} Outcome;

/*
 * How did an entry's transaction end?  pg_xact_status() is the server's own
 * way to ask without tripping over clog that has been cut.
 */
static Outcome
outcome_of(const SfPendEntry *entry)
{
	LOCAL_FCINFO(fcinfo, 1);
	FullTransactionId fxid = FullTransactionIdFromU64(entry->fxid);
	Outcome		outcome;
	Datum		result;
	char	   *status;

	if (entry->outcome == SF_OUTCOME_COMMITTED)
		return COMMITTED;
	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = FullTransactionIdGetDatum(fxid);
	fcinfo->args[0].isnull = false;
	result = pg_xact_status(fcinfo);
	if (fcinfo->isnull)
		return FORGOTTEN;
	status = TextDatumGetCString(result);
	if (strcmp(status, "in progress") == 0)
		outcome = RUNNING;
	else
		outcome = strcmp(status, "committed") == 0 ? COMMITTED : ABORTED;
	pfree(status);
	pfree(DatumGetPointer(result));
	return outcome;
}

static bool
names_page(const SfPendEntry *entry)
{
	return sf_format_pend_kind(entry->kind)->is_page;
}

/*
 * What an entry cannot be; NULL when it is sound.  What a page tells by itself has
 * been looked at when it was read.
 */
static const char *
entry_problem(SfPageWalk *walk, const SfPendEntry *entry)
{
	if (entry->fxid >= U64FromFullTransactionId(ReadNextFullTransactionId()))
		return "there has been no such transaction";
	if (names_page(entry))
		return entry->start < walk->npages ? NULL : "the segment relation has no such page";
	return entry->start + entry->count <= walk->check->total_sectors ? NULL :
		"the data files have no such run";
}

/* A finding that new lists are the cure of. */
static void report_list(SfPageWalk *walk, const char *detail, ...) pg_attribute_printf(2, 3);

static void
report_list(SfPageWalk *walk, const char *detail, ...)
{
	char		buf[256];
	va_list		args;

	walk->lists_damaged = true;
	va_start(args, detail);
	vsnprintf(buf, sizeof(buf), detail, args);
	va_end(args);
	sfi_check_report(walk->check, SF_REPAIR_LISTS, "damaged list of pages", NULL, 0, 0, "%s", buf);
}

static void
report_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry, const char *problem)
{
	bool		is_page = names_page(entry);

	walk->lists_damaged = true;
	sfi_check_report(walk->check, SF_REPAIR_LISTS, "pending entry can never resolve", NULL,
					 entry->start, is_page ? 0 : entry->count,
					 "%s (page %u of the segment relation: kind %u, transaction "
					 UINT64_FORMAT ", %s " UINT64_FORMAT ")",
					 problem, page, entry->kind, entry->fxid,
					 is_page ? "page" : "sector", entry->start);
}

/* Note what an entry names, and whether it will be set free. */
static void
note_entry(SfPageWalk *walk, const SfPendEntry *entry, Outcome outcome)
{
	bool		is_alloc = sf_format_pend_kind(entry->kind)->is_alloc;
	bool		doomed = outcome == (is_alloc ? ABORTED : COMMITTED);
	bool		taken = is_alloc && outcome == COMMITTED;

	if (names_page(entry))
	{
		if (doomed && (walk->known[entry->start] & SF_KNOWN_DOOMED))
			report_list(walk, "two pending entries will set page " UINT64_FORMAT " free",
						entry->start);
		walk->known[entry->start] |= (taken ? SF_KNOWN_TAKEN : SF_KNOWN_NAMED) |
			(doomed ? SF_KNOWN_DOOMED : 0);
		return;
	}
	if (taken)
		return;
	sfi_check_runs_add(&walk->named, entry->start, entry->count, 0, NULL);
	if (doomed)
		sfi_check_runs_add(&walk->doomed, entry->start, entry->count, 0, NULL);
}

static void
check_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry)
{
	const char *problem = entry_problem(walk, entry);
	Outcome		outcome;

	if (problem != NULL)
	{
		report_entry(walk, page, entry, problem);
		return;
	}
	outcome = outcome_of(entry);
	walk->running |= outcome == RUNNING;
	if (outcome == FORGOTTEN)
		report_entry(walk, page, entry, "the outcome of its transaction is not known any more");
	note_entry(walk, entry, outcome);
}

/* ---- lists of pages ---- */

/*
 * Take one step in a list of pages; false, and a finding, when the list does
 * not go on there as it should.
 */
static bool
read_linked(SfPageWalk *walk, uint32 page, SfPageType type, uint8 mark, SfCheckPage *read)
{
	if (page >= walk->nblocks || (walk->known[page] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE)))
	{
		report_list(walk, "the list of %s pages leads to page %u, which %s",
					type == SF_PAGE_PENDING ? "pending" : "free", page,
					page >= walk->nblocks ? "does not exist" : "is in a list already");
		return false;
	}
	walk->known[page] |= mark;
	if (sfi_check_read(walk, SF_REPAIR_LISTS, page, type, read))
		return true;
	walk->lists_damaged = true;
	return false;
}

static void
walk_pending(SfPageWalk *walk)
{
	SfCheckPage *read = palloc(sizeof(SfCheckPage));
	SfHeader   *header = &walk->check->header;
	uint32		page = header->pending_head;
	uint32		last = SF_NO_PAGE;

	while (page != SF_NO_PAGE &&
		   read_linked(walk, page, SF_PAGE_PENDING, SF_KNOWN_QUEUED, read))
	{
		SfPending  *pending = &read->u.pending;

		for (int i = 0; i < pending->nentries; i++)
			check_entry(walk, page, &pending->entries[i]);
		last = page;
		page = pending->next;
	}
	if (header->pending_tail != last)
		report_list(walk, "the list of pending pages does not end at its last page %u",
					header->pending_tail);
	pfree(read);
}

static void
walk_free(SfPageWalk *walk)
{
	SfCheckPage *read = palloc(sizeof(SfCheckPage));
	uint32		page = walk->check->header.free_head;

	while (page != SF_NO_PAGE &&
		   read_linked(walk, page, SF_PAGE_FREE, SF_KNOWN_FREE, read))
		page = read->u.free.next;
	pfree(read);
}

/* ---- dynamic pages ---- */

/* Mark the pages that rows own, and report those about to be set free, or in a list. */
static void
mark_owned(SfPageWalk *walk)
{
	SfCheckRuns *owned = &walk->check->owned_pages;

	for (Size i = 0; i < owned->n; i++)
	{
		SfCheckRun *run = &owned->runs[i];

		if (run->start >= walk->nblocks)
			continue;
		walk->known[run->start] |= SF_KNOWN_OWNED;
		if (walk->known[run->start] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE))
			report_list(walk, "inode page " UINT64_FORMAT " of a value is in one", run->start);
		if (!(walk->known[run->start] & SF_KNOWN_DOOMED))
			continue;
		walk->lists_damaged = true;
		sfi_check_report(walk->check, SF_REPAIR_LISTS, "owned but to be freed", &run->tid, 0, 0,
						 "inode page " UINT64_FORMAT, run->start);
	}
}

/* What a page is against what is known of it. */
static void
check_dynamic(SfPageWalk *walk, const SfCheckPage *read)
{
	uint8		known = walk->known[read->page];

	switch (read->type)
	{
		case SF_PAGE_INODE:
			if (!(known & (SF_KNOWN_OWNED | SF_KNOWN_NAMED)))
				sfi_check_report(walk->check, sfi_check_unowned(walk), "used but not owned",
								 NULL, 0, 0, "inode page %u", read->page);
			if (known & SF_KNOWN_OWNED)
				walk->max_stamp = Max(walk->max_stamp, read->u.inode.stamp);
			break;
		case SF_PAGE_PENDING:
		case SF_PAGE_FREE:
			if (!(known & (SF_KNOWN_QUEUED | SF_KNOWN_FREE | SF_KNOWN_OWNED)))
				sfi_check_report(walk->check, SF_REPAIR_FREE, "used but not owned",
								 NULL, 0, 0, "page %u is in no list", read->page);
			break;
		default:
			sfi_check_report(walk->check, sfi_check_unowned(walk), "damaged page", NULL, 0, 0,
							 "page %u of the segment relation: found type %d",
							 read->page, read->type);
			return;
	}
	if (!(known & SF_KNOWN_DOOMED) || read->type == SF_PAGE_INODE)
		return;
	walk->lists_damaged = true;
	sfi_check_report(walk->check, SF_REPAIR_LISTS, "pending entry can never resolve", NULL, 0, 0,
					 "page %u, which it will set free, is not an inode page", read->page);
}

/* Pages behind the last one that was ever handed out are new, or were in use. */
static bool
is_beyond(SfPageWalk *walk, const SfCheckPage *read)
{
	return read->page >= walk->check->header.next_page &&
		read->is_new && !(walk->known[read->page] & (SF_KNOWN_NAMED | SF_KNOWN_TAKEN));
}

static void
walk_dynamic(SfPageWalk *walk)
{
	SfCheckPage *read = palloc(sizeof(SfCheckPage));

	for (uint32 page = 2; page < walk->npages; page++)
	{
		bool		readable;

		if (SF_IS_MAP_PAGE(page))
			continue;
		readable = sfi_check_read_any(walk, sfi_check_unowned(walk), page, read);
		if (readable && is_beyond(walk, read))
			continue;
		walk->end_page = page + 1;
		if (readable)
			check_dynamic(walk, read);
	}
	pfree(read);
}

/* A page is handed out where the relation has a place for it. */
static void
check_length(SfPageWalk *walk)
{
	if (walk->nblocks == walk->npages)
		return;
	walk->end_page = walk->nblocks;
	sfi_check_report(walk->check, SF_REPAIR_PAGE, "segment relation too short", NULL, 0, 0,
					 "page 0 takes page %u for the next, the relation has %u pages",
					 walk->check->header.next_page, walk->npages);
}

/* ---- all of it ---- */

void
sfi_check_pages(SfPageWalk *walk)
{
	bool		moving = walk->check->moving;

	walk->all_sound = walk->check->nfindings == 0;
	if (!moving)
	{
		walk_pending(walk);
		walk_free(walk);
		mark_owned(walk);
		walk_dynamic(walk);
		check_length(walk);
	}
	sfi_check_map(walk);
	if (!moving)
		sfi_check_header(walk);
}
