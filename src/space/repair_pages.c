/*-------------------------------------------------------------------------
 *
 * repair_pages.c
 *	  Steps of a repair: pages of a segment relation made anew, from what the
 *	  rows say.  What is to be done, and why, is known to check/repair.c.
 *
 * The caller's lock on the segment relation keeps out all that writes, frees, grows
 * or cuts; readers go on.  Each step is one record, and no step frees anything
 * that could be needed: space is set free by pending entries of the repairing
 * transaction, so that snapshots, slots and standbys are waited for as ever.
 * So a crash or an error between two steps loses no more than space, which the
 * next repair finds.
 *
 * The one exception from invariant S1 is here: bits are set without an entry,
 * for sectors whose owner has committed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/repair_pages.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

/*
 * One step of a repair: the header page locked, and a copy of what it says, which
 * the step changes and writes.  All steps begin with the header, also those of a
 * map page, for two reasons: it says which sectors there are, and redo makes no
 * page that the header of the same record does not know.
 */
typedef struct Step
{
	Relation	rel;
	Buffer		hbuf;
	SfHeader	header;
} Step;

static Step
begin_step(SfSegment *seg)
{
	Step		step = {0};

	step.rel = sfi_segment_rel(seg);
	SF_ASSERT(CheckRelationLockedByMe(step.rel, ShareRowExclusiveLock, true));
	step.hbuf = sfi_header_lock(step.rel, &step.header);
	return step;
}

/* End a step that has found nothing to change. */
static void
abandon_step(Step *step)
{
	SF_ASSERT(sfi_page_is_locked(step->hbuf, LW_EXCLUSIVE));
	UnlockReleaseBuffer(step->hbuf);
	sfi_segment_close(step->rel);
}

/*
 * End a step: write the header, and with it a page anew, in one record.  buf is
 * InvalidBuffer where the header is all that changes.  Both pages are locked, and
 * are released.
 */
static void
finish_step(Step *step, Buffer buf, SfPageType type, const void *content, Size len)
{
	SF_ASSERT(sfi_page_is_locked(step->hbuf, LW_EXCLUSIVE));
	SF_ASSERT(!BufferIsValid(buf) || sfi_page_is_locked(buf, LW_EXCLUSIVE));
	SF_FAULT(repair_page);
	sfi_change_begin_header(step->hbuf, &step->header);
	if (BufferIsValid(buf))
		sfi_change_init(sfi_change_add(buf), type, content, len);
	sfi_change_finish_pages(SF_PAGES_REPAIR, 0, 0);
	sfi_segment_close(step->rel);
}

/*
 * A relation that lost its end gets empty pages there.  Pages are read by number, so
 * the steps that follow need a place for each of them.
 */
void
sf_space_repair_extend(SfSegment *seg, uint32 npages)
{
	Relation	rel = sfi_segment_rel(seg);

	for (uint32 page = RelationGetNumberOfBlocks(rel); page < npages; page++)
	{
		CHECK_FOR_INTERRUPTS();
		sfi_page_extend(rel, page);
	}
	sfi_segment_close(rel);
}

/*
 * Too much marked as used costs space until a later step, and entries of the repairing
 * transaction, have freed the rest.  Too little would let somebody
 * write over values.
 */
static void
make_map(Step *step, uint32 map)
{
	uint32		nsectors = sf_map_sectors_before(step->header.total_sectors, map);
	SfMap		content = {0};

	if (nsectors > 0)
		sf_format_map_set(&content, sfi_map_range(0, nsectors));
	SF_INVARIANT(S3, content.used_sectors == nsectors);
	finish_step(step, sfi_page_reinit(step->rel, SF_MAP_PAGE(map)), SF_PAGE_MAP,
				&content, sizeof(content));
}

/*
 * What is parked is lent, and bits of a block that is lent cannot be put right.  So
 * it is collected first, whatever its age.
 */
void
sf_space_repair_collect(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);

	while (sfi_lend_collect(seg, rel, SF_PARKED_ANY_AGE))
		;
	sfi_grow_fill_up(seg, rel);
	sfi_segment_close(rel);
}

/*
 * ERROR if bits would change of a block that is lent to somebody.
 *
 * A block that is lent still, after all that was parked has been given back, is
 * held by a transaction that rolled back to a savepoint: it may write there.
 */
static void
require_not_lent(Relation rel, const SfMap *map, const uint8 *new_used)
{
	if (map->boot_id != sf_base_boot_id())
		return;
	for (uint32 b = 0; b < SF_MAP_BLOCKS; b++)
	{
		if (map->used[b] == new_used[b] || !sfi_map_is_lent(map, b))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("segment \"%s\" is in use by a transaction that has been rolled back to a savepoint",
						RelationGetRelationName(rel)),
				 errhint("Try again when the transactions that have written to the table are over, at the latest after a restart.")));
	}
}

/*
 * The bits that are set stay: they may be of a transaction that has not ended, which
 * the caller's list of owners does not have.  What is used too much is freed by
 * entries.  Bits behind the end are cleared, since nothing is there (S3).
 *
 * The record carries the whole page, not the bits that change: the page may have a
 * wrong count, which setting bits would only carry on.
 */
static void
mark_used(Step *step, uint32 map, const uint8 *used)
{
	Buffer		buf = sfi_page_read(step->rel, SF_MAP_PAGE(map), SF_PAGE_MAP,
									BUFFER_LOCK_EXCLUSIVE);
	SfMap	   *old = SfPageMap(BufferGetPage(buf));
	SfMap		content = *old;
	uint32		nsectors = sf_map_sectors_before(step->header.total_sectors, map);

	SF_ASSERT(nsectors % SF_BLOCK_SECTORS == 0);
	for (uint32 b = 0; b < SF_MAP_BLOCKS; b++)
		content.used[b] = b < sf_block_of(nsectors) ? old->used[b] | used[b] : 0;
	content.used_sectors = pg_popcount((char *) content.used, sizeof(content.used));
	SF_INVARIANT(S3, content.used_sectors <= nsectors);
	require_not_lent(step->rel, old, content.used);
	if (memcmp(&content, old, sizeof(SfMap)) != 0)
		finish_step(step, buf, SF_PAGE_MAP, &content, sizeof(content));
	else
	{
		UnlockReleaseBuffer(buf);
		abandon_step(step);
	}
}

void
sf_space_repair_map(SfSegment *seg, uint32 map, const uint8 *used)
{
	Step		step = begin_step(seg);

	if (used != NULL)
		mark_used(&step, map, used);
	else
		make_map(&step, map);
}

/*
 * Numbers only rise: of two that the header and the rows disagree about, the higher
 * one has been given out.  A page was given out only if the relation has it, and space
 * only if the files have it, so these two alone may be lowered.  A new list of pages begins
 * behind all pages, so that none is taken twice.
 */
void
sf_space_repair_header(SfSegment *seg, SfHeaderRepair repair)
{
	Step		step = begin_step(seg);
	SfHeader   *header = &step.header;

	SF_ASSERT(repair.total_sectors % SF_BLOCK_SECTORS == 0 &&
			  repair.total_sectors <= SF_MAX_SECTORS);
	header->next_object_id = Max(header->next_object_id, repair.next_object_id);
	header->next_stamp = Max(header->next_stamp, repair.next_stamp);
	header->next_page = repair.lower_next_page ? repair.next_page :
		Max(header->next_page, repair.next_page);
	header->total_sectors = repair.lower_end ? repair.total_sectors :
		Max(header->total_sectors, repair.total_sectors);
	if (repair.forget_lists)
	{
		header->pending_head = header->pending_tail = header->free_head = SF_NO_PAGE;
		header->free_pages = 0;
		header->history_head = header->history_tail = 0;
		header->kept_sectors = header->kept_shared_sectors = 0;
	}
	if (repair.forget_removed)
	{
		header->removed_head = header->removed_tail = header->removed_unknown = 0;
		header->removed_pages = 0;
	}
	if (repair.change_dictionary)
	{
		header->dictionary = repair.dictionary;
		header->last_dictionary = Max(header->last_dictionary, repair.last_dictionary);
	}
	if (repair.change_share_head)
		header->share_head = repair.share_head;
	if (repair.forget_advice)
		header->advice_root = 0;
	finish_step(&step, InvalidBuffer, SF_PAGE_HEADER, NULL, 0);
}

/*
 * The record carries the whole page, since there may be none, or one that cannot be read.
 */
void
sf_space_repair_page(SfSegment *seg, uint32 page, const SfSharePage *content)
{
	Step		step = begin_step(seg);
	SfFreePage	free_page;
	Buffer		buf;

	SF_ASSERT(page > 1 && !SF_IS_MAP_PAGE(page) && page < step.header.next_page);
	SF_ASSERT(content == NULL ? page != step.header.free_head :
			  sf_format_page_problem(SF_PAGE_SHARE, content) == NULL);
	buf = sfi_page_reinit(step.rel, page);
	if (content != NULL)
		finish_step(&step, buf, SF_PAGE_SHARE, content, sizeof(SfSharePage));
	else
	{
		free_page = sfi_pending_give_page(&step.header, page);
		finish_step(&step, buf, SF_PAGE_FREE, &free_page, sizeof(free_page));
	}
}
