/*-------------------------------------------------------------------------
 *
 * check_advice.c
 *	  The pages of the advice on duplicates: its buckets.
 *
 * They belong to the segment, and no row owns them.  They are not marked as owned but as
 * pages of the advice, since what a repair does about damage is simple: all of the advice is
 * forgotten, and its pages are nobody's then.  In the end it is made anew from the share
 * records, which know all that stands there.
 *
 * Entries that lead nowhere are no findings: an entry may outlive its share record.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_shares.h"
#include "space/repair_pages.h"
#include "space/share_records.h"

/* Report damage of the advice; page: which one. */
static void
report(SfPageWalk *walk, uint32 page, const char *problem)
{
	SF_ASSERT(!walk->check->moving && problem != NULL);
	walk->advice_damaged = true;
	sfi_check_report(walk->check, SF_FINDING_DAMAGED_PAGE, NULL, 0, 0,
					 "page %u of the segment relation: %s (advice on duplicates, which a repair makes anew; nothing is lost)",
					 page, problem);
}

/*
 * Take a page for one of the advice; false, and a finding: there is none, or it is another's.
 * So no page is read twice, and buckets that lead back to themselves have an end.
 */
static bool
claim(SfPageWalk *walk, uint32 page)
{
	if (page >= walk->nblocks || page == 0 || SF_IS_MAP_PAGE(page))
	{
		report(walk, page, "the advice leads to it, and it is no such page");
		return false;
	}
	if (walk->known[page] &
		(SF_KNOWN_OWNED | SF_KNOWN_QUEUED | SF_KNOWN_FREE | SF_KNOWN_ADVICE))
	{
		report(walk, page, "the advice leads to it, and it belongs to another owner");
		return false;
	}
	walk->known[page] |= SF_KNOWN_ADVICE;
	return true;
}

/* Claim a page and read it; false, and a finding: it is not sound, or of another type. */
static bool
read_page(SfPageWalk *walk, uint32 page, SfPageType type, SfCheckPage *read)
{
	SF_ASSERT(!walk->check->moving);
	if (!claim(walk, page))
		return false;
	if (sfi_check_read_any(walk->check, SF_REPAIR_UNREPORTED, page, read) && read->type == type)
		return true;
	report(walk, page, psprintf("it is damaged, or not of type %d", type));
	return false;
}

/*
 * Look at a bucket, what is in it, and the buckets that it leads to.  Their numbers have more bits,
 * so that calls are nested as deep as a number has bits at most.
 */
static void
look_at_bucket(SfPageWalk *walk, uint32 page, uint32 number, SfCheckPage *read)
{
	const char *problem;
	uint32		pages[SF_ADVICE_DEPTH_MAX];

	if (!read_page(walk, page, SF_PAGE_ADVICE_BUCKET, read))
		return;
	problem = sf_format_advice_bucket_problem(&read->u.bucket, number);
	if (problem != NULL)
	{
		report(walk, page, problem);
		return;
	}
	/* the others are read to the same place */
	memcpy(pages, read->u.bucket.pages, sizeof(pages));
	for (int i = 0; i < SF_ADVICE_DEPTH_MAX; i++)
	{
		SF_ASSERT(pages[i] == 0 || number >> i == 0);
		if (pages[i] != 0)
			look_at_bucket(walk, pages[i], number | (uint32) 1 << i, read);
	}
}

void
sfi_check_advice(SfPageWalk *walk)
{
	uint32		page = walk->check->header.advice_root;
	SfCheckPage read;

	if (page != 0)
		look_at_bucket(walk, page, 0, &read);
}

void
sfi_check_advice_page(SfPageWalk *walk, uint32 page)
{
	SF_ASSERT(page < walk->nblocks && page > 0);
	if (walk->known[page] & SF_KNOWN_ADVICE)
		return;
	if (walk->advice_strays++ == 0)
		walk->advice_stray = page;
}

/* One finding, not one for each page; and none where damage has made them so. */
void
sfi_check_stray_advice(SfPageWalk *walk)
{
	if (walk->advice_strays > 0 && !walk->advice_damaged)
		sfi_check_report(walk->check, SF_FINDING_UNOWNED, NULL, 0, 0,
						 "%u pages of advice on duplicates, the first is page %u",
						 walk->advice_strays, walk->advice_stray);
}

void
sfi_check_forget_advice(const SfPageWalk *walk)
{
	SF_ASSERT(walk->check->lockmode >= ShareRowExclusiveLock);
	if (walk->advice_damaged)
		sf_space_repair_header(walk->check->seg, (SfHeaderRepair) {.forget_advice = true});
}

/*
 * Have the records of a share page found, but for those that a repair has made of rows: nobody
 * knows what their contents hash to.
 */
static void
advise_page(SfSegment *seg, uint32 page, const SfSharePage *content)
{
	for (uint32 cell = 0; cell < SF_SHARE_CELLS;)
	{
		const SfShareRecord *record = sf_format_share_record(content, cell);
		const SfShareId id = {page, cell, record == NULL ? 0 : (uint16) record->object_id};

		if (record != NULL && record->hash_method != SF_SHARE_HASH_NONE &&
			(record->state == SF_SHARE_NEW || record->state == SF_SHARE_LIVE))
			sf_space_share_advise(seg, id, record);
		cell += sf_share_record_cells(record);
	}
}

/*
 * All records, whatever was found: an entry that is there costs a look.  So what a repair that
 * was cut off has forgotten comes back, and what others have lost.
 */
void
sfi_check_rebuild_advice(SfPageWalk *walk)
{
	SfCheckPage read;

	SF_ASSERT(walk->check->lockmode >= ShareRowExclusiveLock);
	for (uint32 page = 2; page < walk->nblocks; page++)
		if ((walk->known[page] & SF_KNOWN_SHARE) && sfi_check_read_share_page(walk, page, &read))
			advise_page(walk->check->seg, page, &read.u.share);
}
