/*-------------------------------------------------------------------------
 *
 * page_problem.c
 *	  What pages of a segment relation cannot say.
 *
 * Only what would lead code out of the page, or to a place that no segment has:
 * the rest (is a sector in use that nobody owns?) is not to be seen on one page
 * and is what securefile_check() is for.
 *
 * These checks stand between a page and all code that reads it: a damaged page that has no
 * page checksum is met here and nowhere else.  So they are cheap (the fixed part, no
 * loop over entries), and they are asked each time a page is read.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/dictionary.h"
#include "format/key.h"
#include "format/removed.h"
#include "format/share.h"

static bool
is_possible_number(uint64_t number)
{
	return number > 0 && number <= SF_NUMBER_MAX;
}

/*
 * Can a header name that page?  0 is no page, since page 0 is the header itself; a map
 * page is no page that anything else may have.
 */
static bool
can_be_named(uint32_t page)
{
	return page == 0 || sf_is_dynamic_page(page);
}

/* The pages of keys, share records, advice, dictionaries and what was removed. */
static const char *
header_pages_problem(const SfHeader *header)
{
	if ((header->key_page == 0) != (header->key_page_copy == 0) ||
		(header->key_page != 0 && header->key_page == header->key_page_copy))
		return "segment header has half a pair of key pages";
	if (!can_be_named(header->key_page) || !can_be_named(header->key_page_copy) ||
		!can_be_named(header->share_head) || !can_be_named(header->advice_root) ||
		!can_be_named(header->dictionary) || !can_be_named(header->history_head) ||
		!can_be_named(header->history_tail) || !can_be_named(header->removed_head) ||
		!can_be_named(header->removed_tail) || !can_be_named(header->removed_unknown))
		return "segment header names an impossible page";
	if (header->last_dictionary > SF_DICTIONARY_MAX ||
		(header->dictionary != 0 && header->last_dictionary == 0))
		return "segment header has an impossible number of dictionaries";
	if ((header->history_head == 0) != (header->history_tail == 0) ||
		(header->removed_head == 0) != (header->removed_tail == 0))
		return "segment header has half a list of what was removed";
	return NULL;
}

/*
 * Sizes become loops over map pages, and page numbers become reads: a wrong one must not
 * lead behind the end of what a segment can have.
 */
static const char *
header_problem(const void *content)
{
	const SfHeader *header = content;

	if (header->total_sectors > SF_MAX_SECTORS || header->total_sectors % SF_BLOCK_SECTORS != 0)
		return "segment header has an impossible size";

	/*
	 * Page 0 is the header and page 1 the first map page; so a segment has
	 * handed out both.
	 */
	if (header->next_page < 2 || header->next_page == SF_NO_PAGE)
		return "segment header has no number for the next page";
	if ((header->pending_head == SF_NO_PAGE) != (header->pending_tail == SF_NO_PAGE))
		return "segment header has half a list of pending pages";
	if (header->flags & ~SF_SEG_KNOWN_FLAGS)
		return "segment header has unknown flags";
	if (!is_possible_number(header->next_object_id))
		return "segment header has an impossible number for the next object";
	if (!is_possible_number(header->next_stamp))
		return "segment header has an impossible number for the next stamp";
	return header_pages_problem(header);
}

static const char *
map_problem(const void *content)
{
	return ((const SfMap *) content)->used_sectors > SF_MAP_SECTORS ?
		"space map page has an impossible number of used sectors" : NULL;
}

static const char *
pending_problem(const void *content)
{
	return ((const SfPending *) content)->nentries > SF_PENDING_MAX ?
		"pending page has an impossible number of entries" : NULL;
}

/* A page that was read may have any number of entries until it was checked. */
static uint32_t
entries_len(const void *content)
{
	uint32_t	n = ((const SfPending *) content)->nentries;

	return n > SF_PENDING_MAX ? 0 : offsetof(SfPending, entries) + n * sizeof(SfPendEntry);
}

/*
 * An inode page.  The number of entries says how far its units are read, and the level
 * how large they are.  A repair gives the header a number behind all stamps.
 */
static const char *
inode_problem(const void *content)
{
	const SfInode *inode = content;

	if (sf_inode_is_list(inode) ? inode->level >= SF_LIST_LEVEL + SF_LIST_MAX_DEPTH :
		inode->level >= SF_INODE_MAX_DEPTH)
		return "inode page has an impossible level";
	if (inode->nentries == 0 || inode->nentries > sf_inode_room(inode->level))
		return "inode page has an impossible number of entries";
	return inode->stamp > 0 && inode->stamp < SF_NUMBER_MAX ? NULL :
		"inode page has an impossible stamp";
}

/* A page of a dictionary.  Its number and its length say how much of it is read. */
static const char *
dictionary_problem(const void *content)
{
	const SfDictionaryPage *page = content;

	if (page->number == 0 || page->number > SF_DICTIONARY_MAX)
		return "dictionary page has an impossible number";
	if (page->len == 0 || page->len > SF_DICTIONARY_MAX_BYTES || page->offset >= page->len ||
		page->offset % SF_DICTIONARY_PART != 0)
		return "dictionary page has an impossible length";
	if ((page->next == SF_NO_PAGE) != (page->offset + sf_dictionary_part(page) == page->len))
		return "dictionary page is the last one of its dictionary, and is not";
	return page->reserved == 0 ? NULL : "dictionary page has something in a reserved place";
}

/* A key page.  Its entries are validated by sf_format_keys_problem(), not here. */
static const char *
keys_problem(const void *content)
{
	const SfKeyPage *page = content;

	if (page->nentries == 0 || page->nentries > SF_DATA_KEYS_MAX)
		return "key page has an impossible number of entries";
	return NULL;
}

static uint32_t
keys_len(const void *content)
{
	const SfKeyPage *page = content;

	return page->nentries > SF_DATA_KEYS_MAX ? 0 : sf_key_page_size(page);
}

/* A share page.  Its records are looked at one by one (sf_format_share_record()). */
static const char *
share_problem(const void *content)
{
	const SfSharePage *page = content;

	if (page->next == 0 || SF_IS_MAP_PAGE(page->next))
		return "share page leads to an impossible page";
	if (page->used[SF_SHARE_CELLS / 8] >> SF_SHARE_CELLS % 8 != 0)
		return "share page uses cells that it does not have";
	return page->reserved == 0 ? NULL : "share page has something in a reserved place";
}

static const char *
bucket_problem(const void *content)
{
	const SfAdviceBucket *bucket = content;

	if (bucket->nentries > SF_ADVICE_BUCKET_MAX)
		return "bucket of advice has an impossible number of entries";
	if (bucket->depth > SF_ADVICE_DEPTH_MAX || (uint64_t) bucket->number >> bucket->depth != 0)
		return "bucket of advice has an impossible depth";
	return bucket->reserved == 0 ? NULL : "bucket of advice has something in a reserved place";
}

/* A page of records of removed values.  They are looked at one by one. */
static const char *
removed_problem(const void *content)
{
	const SfRemovedPage *page = content;

	if (page->nbytes > SF_REMOVED_ROOM || page->nbytes % 8 != 0)
		return "page of removed values has an impossible length";
	return page->reserved == 0 ? NULL : "page of removed values has something in a reserved place";
}

static uint32_t
removed_len(const void *content)
{
	const SfRemovedPage *page = content;

	return page->nbytes > SF_REMOVED_ROOM ? 0 : (uint32_t) sizeof(SfRemovedPage) + page->nbytes;
}

static uint32_t
bucket_len(const void *content)
{
	const SfAdviceBucket *bucket = content;

	return bucket->nentries > SF_ADVICE_BUCKET_MAX ? 0 : sf_advice_bucket_size(bucket);
}

_Static_assert(SF_LIST_MAX_PIECES == SF_INODE_MAX_CHILDREN &&
			   SF_LIST_MAX_LEAVES == SF_INODE_MAX_UNITS, "entries are as long as those of maps");
_Static_assert(sizeof(SfAdviceBucket) <= SF_PAGE_CONTENT, "a bucket of advice fits its page");
_Static_assert(sizeof(SfHeader) <= SF_PAGE_CONTENT &&
			   sizeof(SfMap) <= SF_PAGE_CONTENT && sizeof(SfPending) <= SF_PAGE_CONTENT &&
			   sizeof(SfInode) <= SF_PAGE_CONTENT, "each kind fits its page");

/*
 * What pages of a type are asked when they are read, and which part of them the seal
 * covers.  Of a map page that is the used plane: the lent plane, and the numbers that go
 * with it, change without a record.  The number of a free page needs no question: it leads
 * to another page, which is asked in turn.
 */
static const struct
{
	const char *(*problem) (const void *content);	/* NULL: nothing can be
													 * wrong */
	SfPart		sealed;
	uint32_t	(*sealed_len) (const void *content);	/* or NULL: sealed.len */
}			page_kinds[] = {
	[SF_PAGE_HEADER] = {header_problem, {0, sizeof(SfHeader)}},
	[SF_PAGE_MAP] = {map_problem, {offsetof(SfMap, used), sizeof(((SfMap *) 0)->used)}},
	[SF_PAGE_PENDING] = {pending_problem, .sealed_len = entries_len},
	[SF_PAGE_INODE] = {inode_problem, {0, SF_PAGE_CONTENT}},
	[SF_PAGE_FREE] = {NULL, {0, sizeof(SfFreePage)}},
	[SF_PAGE_KEYS] = {keys_problem, .sealed_len = keys_len},
	[SF_PAGE_DICTIONARY] = {dictionary_problem, {0, SF_PAGE_CONTENT}},
	[SF_PAGE_SHARE] = {share_problem, {0, sizeof(SfSharePage)}},
	[SF_PAGE_ADVICE_BUCKET] = {bucket_problem, .sealed_len = bucket_len},
	[SF_PAGE_REMOVED] = {removed_problem, .sealed_len = removed_len},
};

static bool
is_page_type(SfPageType type)
{
	return type > 0 && (size_t) type < sizeof(page_kinds) / sizeof(page_kinds[0]) &&
		(page_kinds[type].sealed.len > 0 || page_kinds[type].sealed_len != NULL);
}

const char *
sf_format_page_problem(SfPageType type, const void *content)
{
	if (!is_page_type(type))
		return "page is of an unknown type";
	return page_kinds[type].problem == NULL ? NULL : page_kinds[type].problem(content);
}

SfPart
sf_format_page_sealed(SfPageType type, const void *content)
{
	SfPart		part = {0, 0};

	if (!is_page_type(type))
		return part;
	part = page_kinds[type].sealed;
	if (page_kinds[type].sealed_len != NULL)
		part.len = page_kinds[type].sealed_len(content);
	return part;
}

bool
sf_format_is_possible_run(uint64_t start, uint64_t nsectors)
{
	return nsectors > 0 && start < SF_MAX_SECTORS &&
		start % SF_MAP_SECTORS + nsectors <= SF_MAP_SECTORS;
}

/*
 * Can so many bytes be what is stored of a unit with so many plain bytes?
 *
 *	raw			as many
 *	coded		less, besides the 8 bytes before the output of the codec
 *	encrypted	raw or coded, and 48 bytes around it
 *
 * A codec that gains nothing is not used, which is why coded bytes are fewer; so a
 * reader needs no more memory for stored bytes than for plain ones.
 */
static bool
is_possible_length(uint32_t stored_bytes, bool coded, bool keyed, uint32_t plain_bytes)
{
	uint32_t	around = keyed ? SF_KEYED_OVERHEAD : coded ? SF_CODED_OVERHEAD : 0;
	uint32_t	body = stored_bytes - around;

	if (stored_bytes <= around)
		return false;
	if (plain_bytes == SF_PLAIN_UNKNOWN)
		return body <= SF_UNIT_SIZE;
	return coded ? body < plain_bytes : body == plain_bytes;
}

const char *
sf_format_unit_problem(const SfUnit *unit, uint16_t loc_flags, uint32_t plain_bytes)
{
	/*
	 * A hole is read as zeros that no checksum vouches for.  So one that says
	 * anything of stored bytes is taken for a unit whose place was lost.
	 */
	if (unit->start == SF_HOLE)
		return unit->checksum == 0 && unit->stored_bytes == 0 && unit->flags == 0 ? NULL :
			"unit has stored bytes and no place";
	if (unit->flags > (loc_flags & SF_LOC_UNITS ? SF_CODEC_MAX : SF_CODEC_RAW))
		return "unit has unknown flags";
	if (!is_possible_length(unit->stored_bytes, unit->flags != SF_CODEC_RAW,
							(loc_flags & SF_LOC_KEYED) != 0, plain_bytes))
		return "unit has an impossible length";
	return sf_format_is_possible_run(unit->start, sf_unit_sectors(unit)) ? NULL :
		"unit has an impossible place";
}

/* A hole of many units is as one of a single unit: nothing vouches for its zeros. */
const char *
sf_format_child_problem(const SfChild *child)
{
	if (child->page == SF_NO_PAGE)
		return child->stamp == 0 ? NULL : "pointer has a stamp and no page";
	if (!sf_is_dynamic_page(child->page))
		return "pointer leads to an impossible page";
	return child->stamp > 0 ? NULL : "pointer has no stamp";
}

const char *
sf_format_entry_problem(const SfPendEntry *entry)
{
	const SfPendKindInfo *kind = sf_format_pend_kind(entry->kind);

	if (entry->outcome > SF_OUTCOME_KEPT)
		return "pending entry has an unknown outcome";
	if ((uint32_t) entry->fxid < SF_FIRST_XID)
		return "pending entry has no transaction";
	if (kind->name == NULL)
		return "pending entry is of an unknown kind";
	if (kind->is_share)
		return sf_share_is_possible(sf_share_of_start(entry->start)) &&
			(entry->count > 0 || entry->kind == SF_PEND_REAP) ? NULL :
			"pending entry names an impossible share record";
	if (!kind->is_page)
		return sf_format_is_possible_run(entry->start, entry->count) ? NULL :
			"pending entry names an impossible run";
	return entry->start < SF_NO_PAGE && sf_is_dynamic_page(entry->start) ? NULL :
		"pending entry names an impossible page";
}
