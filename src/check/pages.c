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
 * ShareLock on the segment relation keeps out who frees (monitor, vacuum,
 * securefile_maintain) and who writes, also a transaction that gave up its
 * lock on the table by rolling back to a savepoint.  So the pages stand still.
 *
 * On a standby nothing keeps out the replay.  Its map pages may only have more
 * used bits than the rows need: what our snapshot sees is not freed there.
 *
 * Pages are read one by one, each in a subtransaction: a page that cannot be
 * read is a finding.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "check/check_internal.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/xid8.h"

/* What is known of a page of the segment relation. */
#define IN_QUEUE		0x01	/* in the queue of pending pages */
#define IN_FREE_LIST	0x02
#define OWNED			0x04	/* inode page of a live row */
#define NAMED			0x08	/* by a pending entry */
#define DOOMED			0x10	/* by one that will set it free */

/* The walk over the pages. */
typedef struct PageWalk
{
	SfCheck    *check;
	uint32		nblocks;
	uint8	   *known;			/* of every page */
	SfCheckRuns named;			/* sectors that pending entries name */
	SfCheckRuns doomed;			/* of these, those that will be set free */
	uint64		lost_start;		/* sectors that nobody owns, */
	uint64		lost_count;		/* not yet reported */
} PageWalk;

/* A copy of a page. */
typedef union PageCopy
{
	char		content[SF_PAGE_CONTENT];
	SfPending	pending;
	SfFreePage	free;
	SfMap		map;
	uint64		force_align;
} PageCopy;

typedef struct ReadPage
{
	uint32		page;
	SfPageType	type;
	PageCopy	copy;
} ReadPage;

static void
read_step(SfCheck *check, void *arg)
{
	ReadPage   *read = arg;

	read->type = sf_space_read_page(check->seg, read->page, read->copy.content);
}

/* Read a page that must be of a type; false, and a finding, when it is not. */
static bool
read_page(PageWalk *walk, uint32 page, SfPageType type, ReadPage *read)
{
	CHECK_FOR_INTERRUPTS();
	read->page = page;
	if (!sf_check_guarded(walk->check, read_step, read))
		return false;
	if (read->type == type)
		return true;
	sf_check_report(walk->check, "damaged page", NULL, 0, 0,
					"page %u of the segment relation: expected type %d, found %d",
					page, type, read->type);
	return false;
}

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
	return entry->kind == SF_PEND_ALLOC_PAGE || entry->kind == SF_PEND_FREE_PAGE;
}

/* What an entry cannot be; NULL when it is sound. */
static const char *
entry_problem(PageWalk *walk, const SfPendEntry *entry)
{
	uint64		end = entry->start + entry->count;

	if (entry->kind < SF_PEND_ALLOC || entry->kind > SF_PEND_FREE_PAGE ||
		entry->outcome > SF_OUTCOME_COMMITTED)
		return "it is of an unknown kind";
	if (entry->fxid >= U64FromFullTransactionId(ReadNextFullTransactionId()) ||
		!TransactionIdIsNormal((TransactionId) entry->fxid))
		return "there has been no such transaction";
	if (names_page(entry))
	{
		if (entry->start >= walk->nblocks)
			return "the segment relation has no such page";
		return NULL;
	}
	if (entry->count == 0 || end < entry->start ||
		end > walk->check->header.total_sectors ||
		entry->start / SF_MAP_SECTORS != (end - 1) / SF_MAP_SECTORS)
		return "the data files have no such run";
	return NULL;
}

static void
report_entry(PageWalk *walk, uint32 page, const SfPendEntry *entry, const char *problem)
{
	bool		is_page = names_page(entry);

	sf_check_report(walk->check, "pending entry can never resolve", NULL,
					entry->start, is_page ? 0 : entry->count,
					"%s (page %u of the segment relation: kind %u, transaction "
					UINT64_FORMAT ", %s " UINT64_FORMAT ")",
					problem, page, entry->kind, entry->fxid,
					is_page ? "page" : "sector", entry->start);
}

/* Note what an entry names, and whether it will be set free. */
static void
note_entry(PageWalk *walk, const SfPendEntry *entry, Outcome outcome)
{
	bool		is_alloc = entry->kind == SF_PEND_ALLOC ||
	entry->kind == SF_PEND_ALLOC_PAGE;
	bool		doomed = outcome == (is_alloc ? ABORTED : COMMITTED);

	if (names_page(entry))
	{
		walk->known[entry->start] |= NAMED | (doomed ? DOOMED : 0);
		return;
	}
	sf_check_runs_add(&walk->named, entry->start, entry->count, 0, NULL);
	if (doomed)
		sf_check_runs_add(&walk->doomed, entry->start, entry->count, 0, NULL);
}

static void
check_entry(PageWalk *walk, uint32 page, const SfPendEntry *entry)
{
	const char *problem = entry_problem(walk, entry);
	Outcome		outcome;

	if (problem != NULL)
	{
		report_entry(walk, page, entry, problem);
		return;
	}
	outcome = outcome_of(entry);
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
read_linked(PageWalk *walk, uint32 page, SfPageType type, uint8 mark, ReadPage *read)
{
	if (page >= walk->nblocks || (walk->known[page] & (IN_QUEUE | IN_FREE_LIST)))
	{
		sf_check_report(walk->check, "damaged list of pages", NULL, 0, 0,
						"the list of %s pages leads to page %u, which %s",
						type == SF_PAGE_PENDING ? "pending" : "free", page,
						page >= walk->nblocks ? "does not exist" : "is in a list already");
		return false;
	}
	walk->known[page] |= mark;
	return read_page(walk, page, type, read);
}

static void
walk_pending(PageWalk *walk)
{
	ReadPage   *read = palloc(sizeof(ReadPage));
	SfHeader   *header = &walk->check->header;
	uint32		page = header->pending_head;
	uint32		last = SF_NO_PAGE;

	while (page != SF_NO_PAGE &&
		   read_linked(walk, page, SF_PAGE_PENDING, IN_QUEUE, read))
	{
		SfPending  *pending = &read->copy.pending;

		if (pending->nentries > SF_PENDING_MAX)
		{
			sf_check_report(walk->check, "damaged page", NULL, 0, 0,
							"pending page %u claims %u entries", page, pending->nentries);
			pending->nentries = 0;
		}
		for (int i = 0; i < pending->nentries; i++)
			check_entry(walk, page, &pending->entries[i]);
		last = page;
		page = pending->next;
	}
	if (header->pending_tail != last)
		sf_check_report(walk->check, "damaged list of pages", NULL, 0, 0,
						"the list of pending pages does not end at its last page %u",
						header->pending_tail);
	pfree(read);
}

static void
walk_free(PageWalk *walk)
{
	ReadPage   *read = palloc(sizeof(ReadPage));
	uint32		page = walk->check->header.free_head;

	while (page != SF_NO_PAGE &&
		   read_linked(walk, page, SF_PAGE_FREE, IN_FREE_LIST, read))
		page = read->copy.free.next;
	pfree(read);
}

/* ---- dynamic pages ---- */

/* Mark the pages that rows own, and report those about to be set free. */
static void
mark_owned(PageWalk *walk)
{
	SfCheckRuns *owned = &walk->check->owned_pages;

	for (Size i = 0; i < owned->n; i++)
	{
		SfCheckRun *run = &owned->runs[i];

		if (run->start >= walk->nblocks)
			continue;			/* the row was reported as unreadable */
		walk->known[run->start] |= OWNED;
		if (walk->known[run->start] & DOOMED)
			sf_check_report(walk->check, "owned but to be freed", &run->tid, 0, 0,
							"inode page " UINT64_FORMAT, run->start);
	}
}

/* What a page is against what is known of it. */
static void
check_dynamic(PageWalk *walk, uint32 page, SfPageType type)
{
	uint8		known = walk->known[page];

	switch (type)
	{
		case SF_PAGE_INODE:
			if (!(known & (OWNED | NAMED)))
				sf_check_report(walk->check, "used but not owned", NULL, 0, 0,
								"inode page %u", page);
			break;
		case SF_PAGE_PENDING:
		case SF_PAGE_FREE:
			if (!(known & (IN_QUEUE | IN_FREE_LIST)))
				sf_check_report(walk->check, "used but not owned", NULL, 0, 0,
								"page %u is in no list", page);
			break;
		default:
			sf_check_report(walk->check, "damaged page", NULL, 0, 0,
							"page %u of the segment relation: found type %d", page, type);
			return;
	}
	if ((known & DOOMED) && type != SF_PAGE_INODE)
		sf_check_report(walk->check, "pending entry can never resolve", NULL, 0, 0,
						"page %u, which it will set free, is not an inode page", page);
}

static void
walk_dynamic(PageWalk *walk)
{
	ReadPage   *read = palloc(sizeof(ReadPage));
	uint32		end = Min(walk->check->header.next_page, walk->nblocks);

	for (uint32 page = 2; page < end; page++)
	{
		CHECK_FOR_INTERRUPTS();
		if (SF_IS_MAP_PAGE(page))
			continue;
		read->page = page;
		if (sf_check_guarded(walk->check, read_step, read))
			check_dynamic(walk, page, read->type);
	}
	for (uint32 page = end; page < walk->nblocks; page++)
	{
		CHECK_FOR_INTERRUPTS();
		read->page = page;
		if (!SF_IS_MAP_PAGE(page) && page > 1 &&
			sf_check_guarded(walk->check, read_step, read) && read->type != 0)
			sf_check_report(walk->check, "damaged page", NULL, 0, 0,
							"page 0 of the segment relation takes page %u, of type %d, for unused",
							page, read->type);
	}
	pfree(read);
}

/* ---- the space map ---- */

#define BIT(plane, i)	(((plane)[(i) / 8] >> ((i) % 8)) & 1)

/*
 * Set the bits of those runs that lie in the map page whose first sector is
 * given; *from and *end tell which of the sorted runs these are.
 */
static void
fill_plane(uint8 *plane, SfCheckRuns *runs, uint64 first, Size *from, Size *end)
{
	memset(plane, 0, SF_MAP_SECTORS / 8);
	while (runs->next < runs->n && runs->runs[runs->next].start < first)
		runs->next++;
	*from = runs->next;
	while (runs->next < runs->n && runs->runs[runs->next].start < first + SF_MAP_SECTORS)
	{
		SfCheckRun *run = &runs->runs[runs->next++];
		uint32		at = run->start - first;

		Assert(at + run->count <= SF_MAP_SECTORS);
		for (uint32 i = at; i < at + run->count; i++)
			plane[i / 8] |= 1 << (i % 8);
	}
	*end = runs->next;
}

/* Report the parts of a row's run that have a bit as it must not be. */
static void
report_parts(PageWalk *walk, SfCheckRun *run, uint64 first, const uint8 *plane,
			 bool bad, const char *finding, const char *detail)
{
	uint32		at = run->start - first;
	uint32		end = at + run->count;

	while (at < end)
	{
		uint32		from;

		while (at < end && BIT(plane, at) != bad)
			at++;
		from = at;
		while (at < end && BIT(plane, at) == bad)
			at++;
		if (at > from)
			sf_check_report(walk->check, finding, &run->tid, first + from, at - from,
							"%s", detail);
	}
}

static void
flush_lost(PageWalk *walk)
{
	if (walk->lost_count > 0)
		sf_check_report(walk->check, "used but not owned", NULL,
						walk->lost_start, walk->lost_count,
						"by no live row and no pending entry");
	walk->lost_count = 0;
}

/* Collect sectors that nobody owns; neighbours make one finding. */
static void
add_lost(PageWalk *walk, uint64 sector)
{
	if (walk->lost_count > 0 && sector == walk->lost_start + walk->lost_count)
	{
		walk->lost_count++;
		return;
	}
	flush_lost(walk);
	walk->lost_start = sector;
	walk->lost_count = 1;
}

static void
check_map(PageWalk *walk, uint64 first, const SfMap *map)
{
	SfCheck    *check = walk->check;
	uint8		owned[SF_MAP_SECTORS / 8];
	uint8		named[SF_MAP_SECTORS / 8];
	uint8		doomed[SF_MAP_SECTORS / 8];
	uint64		nused = pg_popcount((const char *) map->used, sizeof(map->used));
	Size		from;
	Size		end;

	fill_plane(named, &walk->named, first, &from, &end);
	fill_plane(doomed, &walk->doomed, first, &from, &end);
	fill_plane(owned, &check->owned, first, &from, &end);

	for (Size i = from; i < end; i++)
	{
		SfCheckRun *run = &check->owned.runs[i];

		report_parts(walk, run, first, map->used, false, "owned but free",
					 "the space map takes it for free");
		report_parts(walk, run, first, doomed, true, "owned but to be freed",
					 "a pending entry will set it free");
	}
	for (uint32 b = 0; b < sizeof(map->used) && !check->moving; b++)
	{
		uint8		lost = map->used[b] & ~(owned[b] | named[b]);

		for (int i = 0; lost != 0 && i < 8; i++)
			if (lost & (1 << i))
				add_lost(walk, first + b * 8 + i);
	}
	if (nused != map->used_sectors)
		sf_check_report(check, "wrong count of used sectors", NULL, first, SF_MAP_SECTORS,
						"the page says %u, there are " UINT64_FORMAT, map->used_sectors, nused);
}

/* Is a block from that one on in use? */
static bool
has_used(const SfMap *map, uint32 from_block)
{
	for (uint32 b = from_block; b < SF_MAP_BLOCKS; b++)
		if (map->used[b] != 0)
			return true;
	return false;
}

/* Nothing is in use behind the end. */
static void
check_behind(PageWalk *walk, ReadPage *read, uint64 total)
{
	for (uint64 map = total / SF_MAP_SECTORS; SF_MAP_PAGE(map) < walk->nblocks; map++)
	{
		uint64		first = Max(map * SF_MAP_SECTORS, total);

		CHECK_FOR_INTERRUPTS();
		read->page = SF_MAP_PAGE(map);
		if (sf_check_guarded(walk->check, read_step, read) && read->type == SF_PAGE_MAP &&
			has_used(&read->copy.map, first % SF_MAP_SECTORS / SF_BLOCK_SECTORS))
			sf_check_report(walk->check, "damaged page", NULL, first,
							(map + 1) * SF_MAP_SECTORS - first,
							"page 0 of the segment relation takes this space in use for the end");
	}
}

static void
walk_map(PageWalk *walk)
{
	ReadPage   *read = palloc(sizeof(ReadPage));
	uint64		total = walk->check->header.total_sectors;
	uint64		first;

	walk->check->owned.next = 0;
	sf_check_runs_sort(&walk->named);
	sf_check_runs_sort(&walk->doomed);
	for (first = 0; first < total; first += SF_MAP_SECTORS)
	{
		uint32		page = SF_MAP_PAGE(first / SF_MAP_SECTORS);

		if (page < walk->nblocks && read_page(walk, page, SF_PAGE_MAP, read))
			check_map(walk, first, &read->copy.map);
		else
			sf_check_report(walk->check, "damaged page", NULL, first,
							page < walk->nblocks ? SF_MAP_SECTORS : total - first,
							"page %u of the segment relation does not tell what is in use here", page);
		if (page >= walk->nblocks)
			break;
	}
	flush_lost(walk);
	if (!walk->check->moving)
		check_behind(walk, read, total);
	pfree(read);
}

/* ---- all of it ---- */

void
sf_check_pages(SfCheck *check)
{
	PageWalk	walk = {.check = check,.nblocks = RelationGetNumberOfBlocks(check->segrel)};

	walk.known = palloc0(walk.nblocks);
	sf_check_runs_init(&walk.named);
	sf_check_runs_init(&walk.doomed);
	if (!check->moving)
	{
		walk_pending(&walk);
		walk_free(&walk);
		mark_owned(&walk);
		walk_dynamic(&walk);
	}
	walk_map(&walk);
}
