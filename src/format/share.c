/*-------------------------------------------------------------------------
 *
 * share.c
 *	  Share records: what is possible, their cells, and the locators that they have.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/share.h"

_Static_assert(sizeof(SfShareRecord) == SF_SHARE_CELL_SIZE, "SfShareRecord is an on-disk format");
_Static_assert(offsetof(SfSharePage, cells) == 24, "SfSharePage is an on-disk format");
_Static_assert(sizeof(SfSharePage) <= SF_PAGE_CONTENT, "a share page fits a page");
_Static_assert(sizeof(SfPendPut) == 32, "SfPendPut is an on-disk format");

/* Fields of a locator; see locator.c. */
#define FLAGS_AT		2
#define OBJECT_ID_AT	16
#define NRUNS_AT		44

/* ---- records ---- */

const char *
sf_format_share_problem(const SfShareRecord *record, size_t len)
{
	uint64_t	located_id;

	if (len < sizeof(SfShareRecord) || len != sf_share_record_size(record) ||
		record->locator_bytes < SF_LOCATOR_HEADER || len > SF_SHARE_RECORD_MAX)
		return "share record has an impossible length";
	if (record->state < SF_SHARE_RESERVED || record->state > SF_SHARE_DEAD)
		return "share record has an unknown state";
	if (record->object_id == 0 || record->object_id > SF_NUMBER_MAX)
		return "share record has an impossible object id";
	memcpy(&located_id, record->locator + OBJECT_ID_AT, sizeof(located_id));
	if (located_id != record->object_id)
		return "share record has the locator of another object";
	if (record->hash_method > SF_SHARE_HASH_KEYED)
		return "share record has an unknown kind of hash";
	return NULL;
}

const SfShareRecord *
sf_format_share_record(const SfSharePage *page, uint32_t cell)
{
	const SfShareRecord *record;
	uint32_t	n;

	if (cell >= SF_SHARE_CELLS || !sf_share_is_used(page, cell))
		return NULL;
	record = (const SfShareRecord *) page->cells[cell];
	n = sf_share_record_cells(record);
	if (cell + n > SF_SHARE_CELLS ||
		sf_format_share_problem(record, sf_share_record_size(record)) != NULL)
		return NULL;
	for (uint32_t i = 1; i < n; i++)
		if (!sf_share_is_used(page, cell + i))
			return NULL;
	return record;
}

int
sf_format_share_find_free(const SfSharePage *page, uint32_t n)
{
	uint32_t	found = 0;

	for (uint32_t cell = 0; cell < SF_SHARE_CELLS; cell++)
	{
		found = sf_share_is_used(page, cell) ? 0 : found + 1;
		if (found == n)
			return (int) (cell + 1 - n);
	}
	return -1;
}

/* ---- changes ---- */

/* Set or clear the bits of cells. */
static void
mark(SfSharePage *page, uint32_t cell, uint32_t n, bool used)
{
	for (uint32_t i = cell; i < cell + n; i++)
	{
		uint8_t		bit = 1 << i % 8;

		page->used[i / 8] = used ? page->used[i / 8] | bit : page->used[i / 8] & ~bit;
	}
}

void
sf_format_share_put(SfSharePage *page, uint32_t cell, const void *record, size_t len)
{
	uint32_t	n = sf_share_cells_of((uint32_t) len);

	memset(page->cells[cell], 0, (size_t) n * SF_SHARE_CELL_SIZE);
	memcpy(page->cells[cell], record, len);
	mark(page, cell, n, true);
}

void
sf_format_share_set(SfSharePage *page, SfShareSet set)
{
	SfShareRecord *record = (SfShareRecord *) page->cells[set.cell];

	record->references = set.references;
	record->state = set.state;
}

/* What was there is wiped: a page that is written again and again shall not keep it. */
void
sf_format_share_clear(SfSharePage *page, SfShareClear clear)
{
	memset(page->cells[clear.cell], 0, (size_t) clear.ncells * SF_SHARE_CELL_SIZE);
	mark(page, clear.cell, clear.ncells, false);
}

/* ---- owner's marks ---- */

_Static_assert(SF_INODE_HEADER + SF_INODE_MAX_UNITS * sizeof(SfUnit) <= SF_MARK_OFFSET &&
			   SF_INODE_HEADER + SF_INODE_MAX_CHILDREN * sizeof(SfChild) <= SF_MARK_OFFSET,
			   "a mark lies behind the entries of an inode page");

const char *
sf_format_mark_problem(uint64_t mark)
{
	switch (sf_mark_kind(mark))
	{
		case SF_MARK_OWNED:
		case SF_MARK_TAKEN:
			return (uint32_t) mark >= SF_FIRST_XID ? NULL : "mark names an impossible transaction";
		case SF_MARK_SHARED:
			return sf_share_is_possible(sf_mark_share_id(mark, 0)) &&
				sf_mark_value(mark) >> 48 == 0 ? NULL : "mark names an impossible share record";
		default:
			return mark == 0 ? NULL : "mark is of an unknown kind";
	}
}

/* ---- locators ---- */

static uint16_t
get_flags(const uint8_t *locator)
{
	uint16_t	flags;

	memcpy(&flags, locator + FLAGS_AT, sizeof(flags));
	return flags;
}

bool
sf_format_share_has_inodes(const SfShareRecord *record)
{
	return (get_flags(record->locator) & SF_LOC_INODE) != 0;
}

bool
sf_format_share_run(const SfShareRecord *record, uint32_t i, SfRun *run)
{
	size_t		at = SF_LOCATOR_HEADER + (size_t) i * SF_ENCODED_RUN_SIZE;
	uint16_t	nruns;

	memcpy(&nruns, record->locator + NRUNS_AT, sizeof(nruns));
	if (sf_format_share_has_inodes(record) || i >= nruns ||
		at + SF_ENCODED_RUN_SIZE > record->locator_bytes)
		return false;
	memcpy(&run->start, record->locator + at, sizeof(run->start));
	memcpy(&run->nsectors, record->locator + at + sizeof(run->start), sizeof(run->nsectors));
	return true;
}

bool
sf_format_share_is_hashed(const SfShareRecord *record)
{
	return record->locator_bytes >= SF_LOCATOR_HEADER &&
		(get_flags(record->locator) & SF_LOC_HASHED) != 0;
}

size_t
sf_format_share_locator(uint8_t *dst, const SfLocator *loc)
{
	const uint16_t flags = loc->flags & ~SF_LOC_SHARED;
	size_t		skip = loc->flags & SF_LOC_SHARED ? SF_LOCATOR_SHARED_SIZE : 0;
	size_t		end = loc->tagged_bytes - (loc->flags & SF_LOC_KEYED ? SF_LOCATOR_TAG_SIZE : 0);
	size_t		map_bytes = end - SF_LOCATOR_HEADER - skip;
	size_t		whole = loc->tagged_bytes - skip + SF_LOCATOR_SHARED_SIZE + SF_LOCATOR_MAC_SIZE;

	if (whole > SF_LOCATOR_MAX_SIZE)
		return 0;
	memcpy(dst, loc->encoded, SF_LOCATOR_HEADER);
	memcpy(dst + FLAGS_AT, &flags, sizeof(flags));
	memcpy(dst + SF_LOCATOR_HEADER, loc->encoded + SF_LOCATOR_HEADER + skip, map_bytes);
	return SF_LOCATOR_HEADER + map_bytes;
}
