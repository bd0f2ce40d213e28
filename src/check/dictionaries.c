/*-------------------------------------------------------------------------
 *
 * dictionaries.c
 *	  The dictionaries of a segment, and the list that its header leads to.
 *
 * Their pages belong to the segment, and no row owns them: they are marked as owned, so
 * that nothing else is said of them, and a repair does not set them free.
 *
 * A dictionary that is damaged takes its values along; those are findings by themselves.
 * The list ends there, and so does one whose header is stale.  Therefore the dictionaries
 * that the list does not lead to are looked for where all pages are walked.  A repair makes
 * the list of all that are sound, in the order of their numbers.  It never sets a sound
 * dictionary free, since an old snapshot or logical decoding may need it.
 *
 * If no dictionary has been lost by it, a damaged one stays in the list as long as some
 * value may need it; otherwise its pages are nobody's.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/walk.h"
#include "miscadmin.h"
#include "space/dictionary_pages.h"
#include "space/repair_pages.h"

/* One dictionary, read in a step that damage may end. */
typedef struct Look
{
	SfSegment  *seg;
	uint32		page;			/* its first one */
	uint32		number;			/* 0: not known */
	uint32		before;			/* first page of the dictionary before, or
								 * SF_NO_PAGE */
	int			npages;
	uint32		pages[SF_DICTIONARY_PAGES];
} Look;

/* An SfDictionaryVisit.  Offsets rise, so that a dictionary has no more pages than fit. */
static void
note_page(uint32 page, void *arg)
{
	Look	   *look = arg;

	if (look->npages < SF_DICTIONARY_PAGES)
		look->pages[look->npages++] = page;
}

/* Mark the pages of a dictionary; false if one of them belongs to somebody already. */
static bool
mark_pages(SfPageWalk *walk, const Look *look)
{
	bool		first = true;

	SF_ASSERT(look->npages > 0 && look->npages <= SF_DICTIONARY_PAGES);
	for (int i = 0; i < look->npages; i++)
	{
		if (look->pages[i] >= walk->nblocks)
			continue;
		first = first && !(walk->known[look->pages[i]] & SF_KNOWN_OWNED);
		walk->known[look->pages[i]] |= SF_KNOWN_OWNED;
	}
	return first;
}

static void
look_step(void *arg)
{
	Look	   *look = arg;

	sf_space_dictionary_at(look->seg, look->page, note_page, look, &look->number, &look->before);
}

/* Note a dictionary that is sound. */
static void
note_dictionary(SfPageWalk *walk, const Look *look)
{
	SF_ASSERT(look->number > 0 && look->number <= SF_DICTIONARY_MAX);
	walk->dictionaries[look->number] = look->page;
	walk->dictionaries_before[look->number] = look->before;
}

/* Report a number that the header would give out again. */
static void
report_number(SfPageWalk *walk, uint32 number)
{
	walk->header_behind = true;
	sfi_check_report(walk->check, SF_FINDING_HEADER_BEHIND, NULL, 0, 0,
					 "page 0 of the segment relation knows dictionaries up to %u, there is one of number %u",
					 walk->check->header.last_dictionary, number);
}

/*
 * Look at the next one in the list: note it, or report it as damaged.  False when the list
 * ends there: the numbers fall, and a page is in one dictionary only.
 */
static bool
look_at_listed(SfPageWalk *walk, Look *look, uint32 last)
{
	bool		sound = sfi_check_guarded(walk->check,
										  walk->all_sound ? SF_REPAIR_CORRECT : SF_REPAIR_NONE,
										  look_step, look);

	walk->dictionary_damaged |= !sound;
	if (sound)
		note_dictionary(walk, look);
	if ((sound || !walk->all_sound) && !mark_pages(walk, look))
		return false;
	return look->number > 0 && look->number < last;
}

void
sfi_check_dictionaries(SfPageWalk *walk)
{
	uint32		last = SF_DICTIONARY_MAX + 1;
	Look		look = {.before = SF_NO_PAGE};

	for (uint32 page = walk->check->header.dictionary; page != 0 && page != SF_NO_PAGE;
		 page = look.before)
	{
		CHECK_FOR_INTERRUPTS();
		look = (Look) {.seg = walk->check->seg, .page = page, .before = SF_NO_PAGE};
		if (!look_at_listed(walk, &look, last))
			break;
		if (last > SF_DICTIONARY_MAX && look.number > walk->check->header.last_dictionary)
			report_number(walk, look.number);
		last = look.number;
	}
}

void
sfi_check_dictionary_page(SfPageWalk *walk, const SfCheckPage *read)
{
	SF_ASSERT(read->type == SF_PAGE_DICTIONARY);
	if (!(walk->known[read->page] & SF_KNOWN_OWNED))
		sf_rows_runs_add(&walk->strays, read->page, 1, 0, NULL);
}

/*
 * Is it the first page of a sound dictionary that the list does not lead to?  Of two with one
 * number the first is taken.
 */
static void
look_at_stray(SfPageWalk *walk, uint32 page)
{
	Look		look = {.seg = walk->check->seg, .page = page, .before = SF_NO_PAGE};

	SF_ASSERT(page > 0 && page < walk->nblocks);
	if (!sfi_check_guarded(walk->check, SF_REPAIR_UNREPORTED, look_step, &look) ||
		walk->dictionaries[look.number] != 0)
		return;
	note_dictionary(walk, &look);
	(void) mark_pages(walk, &look);
	walk->dictionary_lost = true;
	if (look.number > walk->check->header.last_dictionary)
		report_number(walk, look.number);
	else
		sfi_check_report_as(walk->check, SF_REPAIR_CORRECT, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
							"the list of dictionaries does not lead to number %u on page %u",
							look.number, page);
}

void
sfi_check_stray_dictionaries(SfPageWalk *walk)
{
	for (int64 i = 0; i < walk->strays.n; i++)
		look_at_stray(walk, walk->strays.runs[i].start);
	for (int64 i = 0; i < walk->strays.n; i++)
		if (!(walk->known[walk->strays.runs[i].start] & SF_KNOWN_OWNED))
			sfi_check_report_as(walk->check, sfi_check_unowned(walk), SF_FINDING_UNOWNED, NULL,
								0, 0, "dictionary page " UINT64_FORMAT,
								walk->strays.runs[i].start);
}

/* Make the list of all dictionaries that are sound; returns the first page of the newest. */
static uint32
relink(const SfPageWalk *walk)
{
	uint32		before = 0;

	for (int number = 1; number <= SF_DICTIONARY_MAX; number++)
	{
		uint32		page = walk->dictionaries[number];
		uint32		wanted = before != 0 ? before : SF_NO_PAGE;

		if (page == 0)
			continue;
		SF_ASSERT(page != wanted && !walk->check->moving);
		if (walk->dictionaries_before[number] != wanted)
			sf_space_repair_dictionary(walk->check->seg, page, wanted);
		before = page;
	}
	return before;
}

void
sfi_check_dictionary_repair(const SfPageWalk *walk, SfHeaderRepair *repair)
{
	bool		relinked = walk->dictionary_lost ||
		(walk->dictionary_damaged && walk->all_sound);
	uint32		last = SF_DICTIONARY_MAX;

	while (last > 0 && walk->dictionaries[last] == 0)
		last--;
	repair->dictionary = relinked ? relink(walk) : walk->check->header.dictionary;
	repair->last_dictionary = Max(walk->check->header.last_dictionary, last);
	repair->change_dictionary = relinked || last > walk->check->header.last_dictionary;
}
