/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  The start of a walk over the pages of a segment relation, and its reading
 *	  of pages.
 *
 * Each page is read in a subtransaction of its own.  So a page that cannot be
 * read becomes a finding, and the walk goes on with the next one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/walk.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"

/*
 * Pages that a relation can have lost at its end, to be made anew: those of one of the files
 * that the server keeps it in.  A header that asks for more, or whose end needs more map
 * pages, is taken for wrong: to go by it could take all memory, and fill the disk.
 */
#define MOST_LOST	RELSEG_SIZE

/*
 * Pages that the relation should have.  A page is taken only where the relation reaches,
 * so it has all pages before the next one, unless its end was lost.  A new segment has one
 * page, and its header names page 2 as the next one.
 */
static void
find_length(SfPageWalk *walk)
{
	uint32		next = walk->check->header.next_page;
	uint32		npages = Max(walk->npages, 2);
	uint64		maps = sf_maps_of(walk->check->header.total_sectors);

	walk->end_ahead = maps > 0 && SF_MAP_PAGE(maps - 1) > npages + MOST_LOST;
	walk->header_ahead = next > npages && next - npages > MOST_LOST;
	walk->nblocks = walk->header_ahead ? npages : next > npages ? next : walk->npages;
	SF_ASSERT(walk->nblocks >= walk->npages && walk->nblocks - walk->npages <= MOST_LOST + 1);
}

void
sfi_check_begin_walk(SfCheck *check, SfPageWalk *walk)
{
	SF_ASSERT(CheckRelationLockedByMe(check->segrel, check->lockmode, true));
	memset(walk, 0, sizeof(SfPageWalk));
	walk->check = check;
	walk->npages = RelationGetNumberOfBlocks(check->segrel);
	find_length(walk);
	walk->known = palloc_extended(walk->nblocks * sizeof(uint16),
								  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	sf_rows_runs_init(&walk->named);
	sf_rows_runs_init(&walk->doomed);
	sf_rows_runs_init(&walk->strays);
	sf_rows_runs_init(&walk->damaged_maps);
	sf_rows_runs_init(&walk->distrusted_maps);
}

/* Read a page, and see whether it is empty: the step that damage may end. */
static void
read_step(void *arg)
{
	SfCheckPage *read = arg;

	read->type = sf_space_read_page(read->seg, read->page, read->u.content);
	read->is_new = read->type == 0 && sf_space_page_is_new(read->seg, read->page);
}

bool
sfi_check_read_any(SfCheck *check, SfRepair action, uint32 page, SfCheckPage *read)
{
	SF_ASSERT(page != SF_NO_PAGE);
	CHECK_FOR_INTERRUPTS();
	read->page = page;
	read->seg = check->seg;
	read->type = 0;
	read->is_new = false;
	return sfi_check_guarded(check, action, read_step, read);
}

bool
sfi_check_read(SfPageWalk *walk, SfRepair action, uint32 page, SfPageType type,
			   SfCheckPage *read)
{
	SF_ASSERT(type != 0);
	if (!sfi_check_read_any(walk->check, action, page, read))
		return false;
	if (read->type == type)
		return true;
	sfi_check_report_as(walk->check, action, SF_FINDING_DAMAGED_PAGE, NULL, 0, 0,
						"page %u of the segment relation: expected type %d, found %d",
						page, type, read->type);
	return false;
}

SfRepair
sfi_check_unowned(const SfPageWalk *walk)
{
	return walk->all_sound ? SF_REPAIR_FREE : SF_REPAIR_KEEP;
}

void
sfi_check_report_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry,
					   const char *problem)
{
	const SfPendKindInfo *kind = sf_format_pend_kind(entry->kind);
	SfShareId	id = sf_share_of_start(entry->start);
	char	   *what;

	if (kind->is_share)
		what = psprintf("cell %u of page %u", id.cell, id.page);
	else
		what = psprintf("%s " UINT64_FORMAT, kind->is_page ? "page" : "sector", entry->start);
	sfi_check_report(walk->check, SF_FINDING_UNRESOLVABLE, NULL,
					 entry->start, sf_pend_is_run(entry->kind) ? entry->count : 0,
					 "%s (page %u of the segment relation: kind %u, transaction "
					 UINT64_FORMAT ", %s)", problem, page, entry->kind, entry->fxid, what);
	pfree(what);
}
