/*-------------------------------------------------------------------------
 *
 * advice_page.c
 *	  Pages of the advice on duplicates: what is possible, what is found there, and
 *	  their changes.
 *
 * A bucket is an array of entries, the oldest one first.  That order is all that tells which
 * entry is the oldest, so every change keeps it, and a split as well: a bucket is always the same
 * after the same changes, on a standby and after a crash, too.
 *
 * A change that is applied here cannot fail.  An add finds room, since something else goes for
 * it, and redo drops the same entry, since it finds the same ones.  So a record has no need to
 * say what was dropped, or what a split leaves.
 *
 * Whether an entry may be there, and in which bucket, is not asked when pages are read: they
 * have hundreds of entries, and a wrong one does no harm to a reader that is prepared for one
 * that leads nowhere.  A check asks.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/change.h"
#include "format/share.h"

_Static_assert(sizeof(SfAdvice) == 24 && offsetof(SfAdviceBucket, entries) == 136,
			   "a bucket of advice is an on-disk format");
_Static_assert(offsetof(SfAdvice, page) == 16 && offsetof(SfAdviceBucket, pages) == 8,
			   "so are its entries, and where its links begin");
_Static_assert(SF_ADVICE_DEPTH_MAX == 8 * sizeof(((SfAdviceBucket *) 0)->number),
			   "each bit of a number can have a link");
_Static_assert(SF_ADVICE_BUCKET_MAX == 334, "a bucket fills its page");
_Static_assert(SF_ADVICE_SAME_MAX < SF_ADVICE_BUCKET_MAX, "a bucket has room for more keys");

/* ---- what is possible ---- */

/* Asked of each entry that is found, too: a page without a seal is believed. */
const char *
sf_format_advice_problem(const SfAdvice *entry)
{
	if (entry->reserved != 0)
		return "entry of advice has something in a reserved place";
	return sf_is_dynamic_page(entry->page) && entry->cell < SF_SHARE_CELLS ? NULL :
		"entry of advice names an impossible share record";
}

/* The depth that a bucket began with: its number has so many bits. */
static int
first_depth(const SfAdviceBucket *bucket)
{
	int			depth = 0;

	while ((uint64_t) bucket->number >> depth != 0)
		depth++;
	return depth;
}

/* For a check, which knows the number from the bucket that leads to this one. */
const char *
sf_format_advice_bucket_problem(const SfAdviceBucket *bucket, uint32_t number)
{
	if (bucket->number != number)
		return "bucket of advice has the number of another one";
	for (int i = 0; i < SF_ADVICE_DEPTH_MAX; i++)
		if (i >= first_depth(bucket) && i < bucket->depth ? !sf_is_dynamic_page(bucket->pages[i]) :
			bucket->pages[i] != 0)
			return "bucket of advice leads to an impossible page";
	for (int i = 0; i < bucket->nentries; i++)
	{
		const char *problem = sf_format_advice_problem(&bucket->entries[i]);

		if (problem != NULL)
			return problem;
		if (sf_advice_number(bucket->entries[i].key, bucket->depth) != number)
			return "entry of advice is in the bucket of another key";
	}
	return NULL;
}

int
sf_format_advice_next(const SfAdviceBucket *bucket, uint64_t key)
{
	for (int i = first_depth(bucket); i < bucket->depth; i++)
		if (key >> i & 1)
			return i;
	return -1;
}

/* ---- what is found in a bucket ---- */

/*
 * The place of an entry, by its value; -1: it is not there.  The entries are not sorted: one
 * is looked for in 8 KB that were checked by their seal before, which takes as long.
 */
static int
place_of(const SfAdviceBucket *bucket, const SfAdvice *entry)
{
	for (int i = 0; i < bucket->nentries; i++)
		if (memcmp(&bucket->entries[i], entry, sizeof(SfAdvice)) == 0)
			return i;
	return -1;
}

bool
sf_format_advice_has(const SfAdviceBucket *bucket, const SfAdvice *entry)
{
	return place_of(bucket, entry) >= 0;
}

static bool
is_like(const SfAdvice *entry, uint64_t key, SfAdviceKind kind)
{
	return entry->key == key && sf_advice_kind(entry) == kind;
}

/* From the end, since newer ones are more likely to lead to an object that is still there. */
int
sf_format_advice_find(const SfAdviceBucket *bucket, uint64_t key, SfAdviceKind kind,
					  SfAdvice *found)
{
	int			n = 0;

	for (int i = bucket->nentries - 1; i >= 0 && n < SF_ADVICE_SAME_MAX; i--)
		if (is_like(&bucket->entries[i], key, kind) &&
			sf_format_advice_problem(&bucket->entries[i]) == NULL)
			found[n++] = bucket->entries[i];
	return n;
}

/* ---- changes ---- */

/* Take an entry out; the others keep their order, and its bytes do not stay behind the end. */
static void
take_out(SfAdviceBucket *bucket, int i)
{
	bucket->nentries--;
	memmove(&bucket->entries[i], &bucket->entries[i + 1],
			(bucket->nentries - i) * sizeof(SfAdvice));
	memset(&bucket->entries[bucket->nentries], 0, sizeof(SfAdvice));
}

/*
 * The place of the entry that goes when another one comes; -1: there is room for both.  One of
 * its own key and kind goes rather than that of another content: of a content that is stored
 * again and again a few places are enough.
 */
static int
place_to_drop(const SfAdviceBucket *bucket, const SfAdvice *entry)
{
	int			oldest = -1;
	int			nsame = 0;

	for (int i = bucket->nentries - 1; i >= 0; i--)
		if (is_like(&bucket->entries[i], entry->key, sf_advice_kind(entry)))
		{
			oldest = i;
			nsame++;
		}
	if (nsame >= SF_ADVICE_SAME_MAX)
		return oldest;
	return bucket->nentries == SF_ADVICE_BUCKET_MAX ? 0 : -1;
}

bool
sf_format_advice_dropped(const SfAdviceBucket *bucket, const SfAdvice *entry, SfAdvice *dropped)
{
	int			place = place_to_drop(bucket, entry);

	if (place >= 0)
		*dropped = bucket->entries[place];
	return place >= 0;
}

static void
add(SfAdviceBucket *bucket, const SfAdvice *entry)
{
	int			goes = place_to_drop(bucket, entry);

	if (goes >= 0)
		take_out(bucket, goes);
	bucket->entries[bucket->nentries++] = *entry;
}

/*
 * Copy the entries whose key has the bit, or has it not.  An entry that is in the wrong bucket, by
 * damage, goes by that bit, too: as a page has room for all of them, so has each half.
 */
static void
copy_half(const SfAdviceBucket *bucket, uint64_t bit, SfAdviceBucket *half)
{
	for (int i = 0; i < bucket->nentries; i++)
		if ((bucket->entries[i].key >> bucket->depth & 1) == bit)
			half->entries[half->nentries++] = bucket->entries[i];
}

void
sf_format_advice_half(const SfAdviceBucket *bucket, SfAdviceBucket *half)
{
	*half = (SfAdviceBucket) {.number = bucket->number | (uint32_t) 1 << bucket->depth};
	half->depth = bucket->depth + 1;
	copy_half(bucket, 1, half);
}

/* What stays in a bucket, when the other half goes to a page. */
static void
split(SfAdviceBucket *bucket, uint32_t page)
{
	SfAdviceBucket stays = {.number = bucket->number, .depth = bucket->depth + 1};

	if (bucket->depth == SF_ADVICE_DEPTH_MAX)
		return;
	memcpy(stays.pages, bucket->pages, sizeof(stays.pages));
	stays.pages[bucket->depth] = page;
	copy_half(bucket, 0, &stays);
	*bucket = stays;
}

void
sf_format_advice_apply(void *content, SfOp op)
{
	SfAdvice	entry;
	uint32_t	page;
	int			place;

	switch (op.code)
	{
		case SF_OP_ADVICE_ADD:
			memcpy(&entry, op.payload, sizeof(entry));
			add(content, &entry);
			break;
		case SF_OP_ADVICE_REMOVE:
			memcpy(&entry, op.payload, sizeof(entry));
			place = place_of(content, &entry);
			if (place >= 0)
				take_out(content, place);
			break;
		case SF_OP_ADVICE_SPLIT:
			memcpy(&page, op.payload, sizeof(page));
			split(content, page);
			break;
		default:
			break;
	}
}

/* ---- may a change be applied ---- */

static const char *
split_problem(const SfAdviceBucket *bucket, SfOp op)
{
	uint32_t	page;

	memcpy(&page, op.payload, sizeof(page));
	if (bucket->depth == SF_ADVICE_DEPTH_MAX)
		return "bucket of advice cannot be split any more";
	return sf_is_dynamic_page(page) ? NULL : "bucket of advice leads to an impossible page";
}

const char *
sf_format_advice_op_problem(const void *content, SfOp op)
{
	SfAdvice	entry;

	if (op.code == SF_OP_ADVICE_SPLIT)
		return split_problem(content, op);
	memcpy(&entry, op.payload, sizeof(entry));
	return sf_format_advice_problem(&entry);
}
