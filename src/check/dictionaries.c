/*-------------------------------------------------------------------------
 *
 * dictionaries.c
 *	  The dictionaries of a segment, as its header leads to them.
 *
 * Their pages belong to the segment, and no row owns them: they are marked as owned, so
 * that nothing else is said of them, and a repair does not set them free.
 *
 * A dictionary that is damaged takes its values along; those are findings by themselves.
 * When no value needs it, a repair has the header lead past it, since else nobody could
 * write to the column, and its pages are nobody's.  A header page that is stale may lead to
 * an older dictionary than the newest one; that one is found where all pages are looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_internal.h"
#include "miscadmin.h"

/* One dictionary, read in a step that damage may end. */
typedef struct Look
{
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
look_step(SfCheck *check, void *arg)
{
	Look	   *look = arg;

	sf_space_dictionary_at(check->seg, look->page, note_page, look, &look->number, &look->before);
}

static void
more_step(SfCheck *check, void *arg)
{
	*(SfHeaderMore *) arg = sf_space_header_more(check->seg);
}

void
sfi_check_dictionaries(SfPageWalk *walk)
{
	SfHeaderMore more = {0};
	uint32		last = SF_DICTIONARY_MAX + 1;
	Look		look;
	uint32		page;

	/* what is wrong with the header itself was found when it was opened */
	(void) sfi_check_guarded(walk->check, SF_REPAIR_UNREPORTED, more_step, &more);
	walk->last_dictionary = more.last_dictionary;
	for (page = more.dictionary; page != 0 && page != SF_NO_PAGE; page = look.before)
	{
		CHECK_FOR_INTERRUPTS();
		look = (Look) {.page = page, .before = SF_NO_PAGE};
		if (!sfi_check_guarded(walk->check,
							   walk->all_sound && walk->dictionary == 0
							   ? SF_REPAIR_CORRECT : SF_REPAIR_NONE, look_step, &look))
			walk->dictionary_damaged |= walk->dictionary == 0;
		else if (walk->dictionary == 0)
			walk->dictionary = page;
		if ((walk->dictionary != 0 || !walk->all_sound) && !mark_pages(walk, &look))
			break;
		/* the numbers fall, so that the list has an end */
		if (look.number == 0 || look.number >= last)
			break;
		last = look.number;
	}
}

void
sfi_check_dictionary_page(SfPageWalk *walk, const SfCheckPage *read)
{
	const SfDictionaryPage *content = &read->u.dictionary;

	SF_ASSERT(read->type == SF_PAGE_DICTIONARY);
	if (walk->known[read->page] & SF_KNOWN_OWNED)
		return;
	if (content->number <= walk->last_dictionary)
	{
		sfi_check_report_as(walk->check, sfi_check_unowned(walk), SF_FINDING_UNOWNED, NULL, 0, 0,
							"dictionary page %u", read->page);
		return;
	}
	walk->known[read->page] |= SF_KNOWN_OWNED;
	if (content->offset > 0 || content->number <= walk->found_dictionary)
		return;
	walk->header_behind = true;
	walk->found_dictionary = content->number;
	walk->dictionary = read->page;
	sfi_check_report(walk->check, SF_FINDING_HEADER_BEHIND, NULL, 0, 0,
					 "page 0 of the segment relation knows dictionaries up to %u, there is one of number %u",
					 walk->last_dictionary, content->number);
}

void
sfi_check_dictionary_repair(const SfPageWalk *walk, SfHeaderRepair *repair)
{
	repair->change_dictionary = walk->found_dictionary > 0 ||
		(walk->dictionary_damaged && walk->all_sound);
	repair->dictionary = walk->dictionary;
	SF_ASSERT(!repair->change_dictionary || walk->found_dictionary == 0 || walk->dictionary != 0);
	repair->last_dictionary = Max(walk->last_dictionary, walk->found_dictionary);
}
