/*-------------------------------------------------------------------------
 *
 * page.c
 *	  What pages of a segment relation cannot say.
 *
 * Only what would lead code out of the page, or to a place that no segment has:
 * the rest (is a sector in use that nobody owns?) is not to be seen on one page
 * and is what securefile_check() is for.
 *
 *-------------------------------------------------------------------------
 */
#include "format/format.h"

static const char *
header_problem(const SfHeader *header)
{
	if (header->total_sectors > SF_MAX_SECTORS || header->total_sectors % SF_BLOCK_SECTORS != 0)
		return "segment header has an impossible size";
	if (header->next_page < 2 || header->next_page == SF_NO_PAGE)
		return "segment header has no number for the next page";
	if ((header->pending_head == SF_NO_PAGE) != (header->pending_tail == SF_NO_PAGE))
		return "segment header has half a list of pending pages";
	return NULL;
}

static const char *
inode_problem(const SfInode *inode)
{
	if (inode->level >= SF_INODE_MAX_DEPTH)
		return "inode page has an impossible level";
	if (inode->nentries == 0 ||
		inode->nentries > (inode->level == 0 ? SF_INODE_MAX_UNITS : SF_INODE_MAX_CHILDREN))
		return "inode page has an impossible number of entries";
	return NULL;
}

const char *
sf_format_page_problem(SfPageType type, const void *content)
{
	switch (type)
	{
		case SF_PAGE_HEADER:
			return header_problem(content);
		case SF_PAGE_PENDING:
			return ((const SfPending *) content)->nentries > SF_PENDING_MAX ?
				"pending page has an impossible number of entries" : NULL;
		case SF_PAGE_INODE:
			return inode_problem(content);
		case SF_PAGE_MAP:
			return ((const SfMap *) content)->used_sectors > SF_MAP_SECTORS ?
				"space map page has an impossible number of used sectors" : NULL;
		case SF_PAGE_FREE:
			return NULL;
	}
	return "page is of an unknown type";
}

bool
sf_format_is_possible_run(uint64_t start, uint64_t nsectors)
{
	return nsectors > 0 && start < SF_MAX_SECTORS &&
		start % SF_MAP_SECTORS + nsectors <= SF_MAP_SECTORS;
}

const char *
sf_format_unit_problem(const SfUnit *unit, uint32_t plain_bytes)
{
	if (unit->start == SF_HOLE)
		return NULL;
	if (unit->flags != 0)
		return "unit has unknown flags";
	if (plain_bytes == SF_PLAIN_UNKNOWN ? unit->stored_bytes > SF_UNIT_SIZE
		: unit->stored_bytes != plain_bytes)
		return "unit has a length that is not its own";
	return sf_format_is_possible_run(unit->start, sf_unit_sectors(unit)) ? NULL :
		"unit has an impossible place";
}

const char *
sf_format_entry_problem(const SfPendEntry *entry)
{
	const SfPendKindInfo *kind = sf_format_pend_kind(entry->kind);

	if (entry->outcome > SF_OUTCOME_COMMITTED)
		return "pending entry has an unknown outcome";
	if ((uint32_t) entry->fxid < SF_FIRST_XID)
		return "pending entry has no transaction";
	if (kind->name == NULL)
		return "pending entry is of an unknown kind";
	if (!kind->is_page)
		return sf_format_is_possible_run(entry->start, entry->count) ? NULL :
			"pending entry names an impossible run";
	return entry->start > 0 && entry->start < SF_NO_PAGE && !SF_IS_MAP_PAGE(entry->start) ?
		NULL : "pending entry names an impossible page";
}
