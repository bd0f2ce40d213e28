/*-------------------------------------------------------------------------
 *
 * key.c
 *	  What entries of a key page cannot say.
 *
 * The tag of a key tells whether it is the one that was wrapped, if the master key is
 * there.  Here is what can be told without it: so that a check, which has none, finds
 * damage, and that all other code may go by what an entry says.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/key.h"

_Static_assert(sizeof(SfWrappedKey) == 128, "SfWrappedKey is an on-disk format");
_Static_assert(sizeof(SfKeyPage) <= SF_PAGE_CONTENT, "a key page fits a page");

/* A name that is not empty, and has nothing behind its end. */
static bool
is_possible_name(const char *name)
{
	size_t		len = strnlen(name, SF_MASTER_NAME_SIZE);

	for (size_t i = len; i < SF_MASTER_NAME_SIZE; i++)
		if (name[i] != 0)
			return false;
	return len > 0 && len < SF_MASTER_NAME_SIZE;
}

/* Is all of it zeros that a master key has made? */
static bool
is_wiped(const SfWrappedKey *entry)
{
	static const uint8_t zeros[sizeof(SfWrappedKey) - offsetof(SfWrappedKey, master_check)];

	return memcmp(entry->master_check, zeros, sizeof(zeros)) == 0;
}

static const char *
entry_problem(const SfWrappedKey *entry, uint32_t place)
{
	/* Entries are added one behind the other, so the place tells the number. */
	if (entry->key_id != place + 1)
		return "key page has a key of another number";
	if (entry->purpose < SF_KEY_DATA || entry->purpose > SF_KEY_HASH)
		return "key has an unknown purpose";
	if (entry->state < SF_KEY_USABLE || entry->state > SF_KEY_DESTROYED)
		return "key has an unknown state";
	if (entry->cipher < SF_CIPHER_AES256 || entry->cipher > SF_CIPHER_XCHACHA20)
		return "key is for an unknown cipher";
	if (entry->wrap != SF_KEY_WRAP_XCHACHA20)
		return "key is wrapped in an unknown way";
	if (entry->reserved != 0)
		return "key has something in a reserved place";
	if (entry->state == SF_KEY_DESTROYED && !is_wiped(entry))
		return "destroyed key has bytes of a key";
	return is_possible_name(entry->master) ? NULL : "key names an impossible master key";
}

const char *
sf_format_keys_problem(const SfKeyPage *page)
{
	const char *problem = NULL;

	if ((page->shred_count == 0) != (page->shred_fxid == 0) ||
		page->shred_count > page->nentries)
		return "key page has an impossible mark of a shredding";
	for (uint32_t i = 0; i < page->nentries && problem == NULL; i++)
		problem = entry_problem(&page->entries[i], i);
	return problem;
}
