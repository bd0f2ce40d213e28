/*-------------------------------------------------------------------------
 *
 * advice_page.c
 *	  Pages of the advice on duplicates: what is possible, what is found there, and
 *	  their changes.
 *
 * The root and each page of the directory are a list of pages; a bucket is an array of
 * entries, the oldest one first.  That order is all that tells which entry is the oldest, so
 * every change keeps it, and a split as well: a bucket is always the same after the same
 * changes, on a standby and after a crash, too.
 *
 * A change that is applied here cannot fail.  An add finds room, since something else goes for
 * it, and redo drops the same entry, since it finds the same ones.  So a record has no need to
 * say what was dropped.
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

_Static_assert(sizeof(SfAdvice) == 16, "SfAdvice is an on-disk format");
_Static_assert(offsetof(SfAdviceList, pages) == 8 && offsetof(SfAdviceBucket, entries) == 8,
			   "pages of the advice are an on-disk format");

_Static_assert(offsetof(SfAdviceListChange, nbuckets) == offsetof(SfAdviceList, nbuckets) &&
			   offsetof(SfAdviceListChange, npages) == offsetof(SfAdviceList, npages),
			   "a change of a list begins as a list");
_Static_assert(SF_ADVICE_SAME_MAX < SF_ADVICE_BUCKET_MAX, "a bucket has room for more hashes");
_Static_assert((uint64_t) SF_ADVICE_LIST_MAX * SF_ADVICE_LIST_MAX < UINT32_MAX / 2,
			   "numbers of buckets, and twice as many, fit their type");

/* ---- what is possible ---- */

/* Can a list lead to that page? */
static bool
is_possible_page(uint32_t page)
{
	return page != 0 && page != SF_NO_PAGE && !SF_IS_MAP_PAGE(page);
}

/* Asked of each entry that is found, too: a page without a seal is believed. */
const char *
sf_format_advice_problem(const SfAdvice *entry)
{
	if (entry->kind != SF_ADVICE_FULL && entry->kind != SF_ADVICE_PREFIX)
		return "entry of advice is of an unknown kind";
	return is_possible_page(entry->page) && entry->cell < SF_SHARE_CELLS ? NULL :
		"entry of advice names an impossible share record";
}

/* For a check; a reader of a list looks at the one page that it goes to. */
const char *
sf_format_advice_list_problem(const SfAdviceList *list)
{
	for (uint32_t i = 0; i < list->npages; i++)
		if (!is_possible_page(list->pages[i]))
			return "list of advice leads to an impossible page";
	return NULL;
}

/* For a check, which knows how many buckets there are. */
const char *
sf_format_advice_bucket_problem(const SfAdviceBucket *bucket, uint32_t number, uint32_t nbuckets)
{
	if (bucket->number != number)
		return "bucket of advice has the number of another one";
	for (int i = 0; i < bucket->nentries; i++)
	{
		const char *problem = sf_format_advice_problem(&bucket->entries[i]);

		if (problem != NULL)
			return problem;
		if (sf_advice_bucket_of(bucket->entries[i].hash, nbuckets) != number)
			return "entry of advice is in the bucket of another hash";
	}
	return NULL;
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

/* From the end, since newer ones are more likely to lead to an object that is still there. */
int
sf_format_advice_find(const SfAdviceBucket *bucket, uint64_t hash, SfAdviceKind kind,
					  SfAdvice *found)
{
	int			n = 0;

	for (int i = bucket->nentries - 1; i >= 0 && n < SF_ADVICE_SAME_MAX; i--)
	{
		const SfAdvice *entry = &bucket->entries[i];

		if (entry->hash == hash && entry->kind == kind &&
			sf_format_advice_problem(entry) == NULL)
			found[n++] = *entry;
	}
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
 * The entry that goes when another one comes; -1: there is room for both.  One of its own hash
 * and kind goes rather than that of another content: of a content that is stored again and
 * again a few places are enough.
 */
static int
place_to_drop(const SfAdviceBucket *bucket, const SfAdvice *entry)
{
	int			oldest = -1;
	int			nsame = 0;

	for (int i = bucket->nentries - 1; i >= 0; i--)
		if (bucket->entries[i].hash == entry->hash && bucket->entries[i].kind == entry->kind)
		{
			oldest = i;
			nsame++;
		}
	if (nsame >= SF_ADVICE_SAME_MAX)
		return oldest;
	return bucket->nentries == SF_ADVICE_BUCKET_MAX ? 0 : -1;
}

static void
add(SfAdviceBucket *bucket, const SfAdvice *entry)
{
	int			goes = place_to_drop(bucket, entry);

	if (goes >= 0)
		take_out(bucket, goes);
	bucket->entries[bucket->nentries++] = *entry;
}

/* The last page comes with every change: one that stays as long is given the same again. */
static void
apply_to_list(SfAdviceList *list, SfAdviceListChange change)
{
	list->nbuckets = change.nbuckets;
	list->npages = change.npages;
	list->pages[change.npages - 1] = change.last;
}

void
sf_format_advice_apply(void *content, SfOp op)
{
	SfAdviceListChange change;
	SfAdvice	entry;
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
		case SF_OP_ADVICE_LIST:
			memcpy(&change, op.payload, sizeof(change));
			apply_to_list(content, change);
			break;
		default:
			break;
	}
}

/*
 * An entry that is in the wrong bucket, by damage, stays where it is.  As a page has room for all
 * of them, so has either of the two.
 */
void
sf_format_advice_split(const SfAdviceBucket *bucket, uint32_t nbuckets, SfAdviceBucket *stay,
					   SfAdviceBucket *go)
{
	*stay = (SfAdviceBucket) {.number = bucket->number};
	*go = (SfAdviceBucket) {.number = nbuckets - 1};
	for (int i = 0; i < bucket->nentries; i++)
	{
		const SfAdvice *entry = &bucket->entries[i];
		SfAdviceBucket *to = sf_advice_bucket_of(entry->hash, nbuckets) == go->number ? go : stay;

		to->entries[to->nentries++] = *entry;
	}
}

/* ---- may a change be applied ---- */

/*
 * A list gets a page at its end, or another last one; the page is then as it must be when it
 * is read.
 */
static const char *
list_change_problem(SfPageType type, const SfAdviceList *list, SfOp op)
{
	SfAdviceListChange change;
	SfAdviceList fixed = {0};

	if (op.len != sizeof(change))
		return "change of a list of advice has an impossible length";
	memcpy(&change, op.payload, sizeof(change));
	if (change.npages != list->npages && change.npages != list->npages + 1)
		return "list of advice gets more than a page";
	if (!is_possible_page(change.last))
		return "list of advice leads to an impossible page";
	fixed.nbuckets = change.nbuckets;
	fixed.npages = change.npages;
	return sf_format_page_problem(type, &fixed);
}

const char *
sf_format_advice_op_problem(SfPageType type, const void *content, SfOp op)
{
	SfAdvice	entry;

	if (content == NULL)
		return "advice is changed on a page that is made new";
	if (op.code == SF_OP_ADVICE_LIST)
		return list_change_problem(type, content, op);
	if (op.len != sizeof(entry))
		return "entry of advice has an impossible length";
	memcpy(&entry, op.payload, sizeof(entry));
	return sf_format_advice_problem(&entry);
}
