/*-------------------------------------------------------------------------
 *
 * check_keys.c
 *	  The two key pages of a segment, which say the same.
 *
 * No master key is needed: the seal of a page tells whether it is what was written, and a
 * wrapped key is bytes like others.  Damage of the keys themselves is met when they are
 * unwrapped.
 *
 * A repair makes both pages of the one that is sound; of two sound ones that differ, of
 * the one with more keys, since keys are only ever added, or else with fewer that can be
 * used, since none can be again.  A header that does not know of
 * the pages, because it is stale, gets to know them again: without them all values of the
 * column are lost.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/walk.h"
#include "keys/keys.h"
#include "space/key_pages.h"
#include "space/repair_pages.h"

/* Which of the two, for a step that damage may end. */
typedef struct Look
{
	SfPageWalk *walk;
	int			copy;
} Look;

static void
read_keys_step(void *arg)
{
	Look	   *look = arg;

	(void) sf_space_read_keys(look->walk->check->seg, look->walk->key_pages[look->copy],
							  &look->walk->keys[look->copy]);
}

/* Look at one of the pages; damage becomes a finding with this action. */
static bool
look_at_copy(SfPageWalk *walk, int copy, SfRepair action)
{
	Look		look = {walk, copy};

	return sfi_check_guarded(walk->check, action, read_keys_step, &look);
}

static bool
are_same(const SfPageWalk *walk)
{
	return walk->keys[0].nentries == walk->keys[1].nentries &&
		memcmp(&walk->keys[0], &walk->keys[1], sf_key_page_size(&walk->keys[0])) == 0;
}

void
sfi_check_keys(SfPageWalk *walk)
{
	walk->key_pages[0] = walk->check->header.key_page;
	walk->key_pages[1] = walk->check->header.key_page_copy;
	if (walk->key_pages[0] == 0)
		return;
	for (int copy = 0; copy < 2; copy++)
	{
		if (walk->key_pages[copy] < walk->nblocks)
			walk->known[walk->key_pages[copy]] |= SF_KNOWN_OWNED;
		walk->keys_sound[copy] = look_at_copy(walk, copy, SF_REPAIR_UNREPORTED);
	}
	/* what a repair does about one depends on the other */
	for (int copy = 0; copy < 2; copy++)
		if (!walk->keys_sound[copy])
			(void) look_at_copy(walk, copy, walk->keys_sound[1 - copy] ? SF_REPAIR_CORRECT :
								SF_REPAIR_NONE);
	if (walk->keys_sound[0] && walk->keys_sound[1] && !are_same(walk))
		sfi_check_report_as(walk->check, SF_REPAIR_CORRECT, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
							"key pages %u and %u differ, with %u and %u keys",
							walk->key_pages[0], walk->key_pages[1], walk->keys[0].nentries,
							walk->keys[1].nentries);
}

void
sfi_check_key_page(SfPageWalk *walk, uint32 page)
{
	int			copy = walk->key_pages[0] == 0 ? 0 : 1;

	if (walk->known[page] & SF_KNOWN_OWNED)
		return;
	if (walk->check->header.key_page != 0 || walk->key_pages[1] != 0)
	{
		sfi_check_report_as(walk->check, sfi_check_unowned(walk), SF_FINDING_UNOWNED, NULL, 0, 0,
							"key page %u", page);
		return;
	}
	walk->key_pages[copy] = page;
	walk->known[page] |= SF_KNOWN_OWNED;
	walk->keys_sound[copy] = look_at_copy(walk, copy, SF_REPAIR_UNREPORTED);
	sfi_check_report_as(walk->check, SF_REPAIR_CORRECT, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						"the header page does not lead to key page %u", page);
}

/* Is the second page newer than the first? */
static bool
is_newer(const SfKeyPage *first, const SfKeyPage *second)
{
	int			later = (int) second->shred_count - (int) first->shred_count;

	if (first->nentries != second->nentries)
		return second->nentries > first->nentries;
	/* a mark goes when the states of all that it covers have changed */
	for (uint32 i = 0; i < first->nentries; i++)
		later += SF_DATA_KEYS_MAX * (second->entries[i].state - first->entries[i].state);
	return later > 0;
}

void
sfi_check_repair_keys(const SfPageWalk *walk)
{
	bool		known = walk->check->header.key_page != 0;
	int			best = walk->keys_sound[0] ? 0 : 1;

	if (walk->keys_sound[0] && walk->keys_sound[1])
	{
		if (known && are_same(walk))
			return;
		best = is_newer(&walk->keys[0], &walk->keys[1]) ? 1 : 0;
	}
	if (!walk->keys_sound[best])
		return;
	sf_space_repair_keys(walk->check->seg, walk->key_pages, &walk->keys[best]);
	sf_keys_raise_generation();
}
