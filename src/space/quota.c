/*-------------------------------------------------------------------------
 *
 * quota.c
 *	  How long a segment may become: max_size of its column.
 *
 * What counts are the data files and the pages of the segment relation, which hold the maps.
 * Growth asks, and so do new inode pages.  Pages that are needed to free something, and those
 * of deduplication and of keys, do not ask: they are few, and a DELETE must work at the limit.
 * A limit below the present size stops growth, and nothing else.
 *
 * Pages that are free do not count: a large DELETE may need more of them for a moment than the
 * column may have, and they are never given back.  So a segment may be longer than its limit, by
 * as many pages as its lists have ever had at once.  Were they counted, such a column would be full
 * for ever, whatever is deleted.  Every eighth page is the place of a map page.  Between pages of
 * lists such places stay empty, and do not count, either.
 *
 * The owner's word is in the catalog.  So it is asked here, before any page is locked and any
 * growth is waited for, and never in replay.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/pages.h"
#include "space/reserve.h"
#include "storage/bufmgr.h"

/*
 * Of the pages up to the last one that was used, or the last map page, those that are free do not
 * count, nor do places of map pages that there are not.
 */
uint64
sfi_quota_pages(const SfHeader *h, uint64 sectors)
{
	uint64		maps = sf_maps_of(sectors);
	uint64		places = (h->next_page - 1 + SF_MAP_STRIDE - 1) / SF_MAP_STRIDE;
	uint64		pages = h->next_page;

	if (maps > 0)
		pages = Max(pages, (uint64) SF_MAP_PAGE(maps - 1) + 1);
	if (places > maps)
		pages -= places - maps;
	return pages - Min(pages, h->free_pages);
}

uint64
sfi_quota_sectors(SfSegment *seg, Relation rel)
{
	uint64		max_bytes = sf_space_column(seg)->options.max_bytes;
	uint64		sectors = Min(max_bytes / SF_SECTOR_SIZE, SF_MAX_SECTORS);
	uint64		page_bytes;
	SfHeader	h;

	if (max_bytes == 0)
		return SF_MAX_SECTORS;
	h = sfi_header(rel);
	page_bytes = sfi_quota_pages(&h, sectors) * BLCKSZ;
	if (page_bytes >= max_bytes)
		return 0;
	sectors = Min(sectors, (max_bytes - page_bytes) / SF_SECTOR_SIZE);
	return sectors / SF_GROWTH_SECTORS * SF_GROWTH_SECTORS;
}

bool
sfi_quota_has_pages(SfSegment *seg, Relation rel, int n)
{
	uint64		max_bytes = sf_space_column(seg)->options.max_bytes;
	SfHeader	h;
	uint64		end;			/* of the relation, with these pages */

	SF_ASSERT(n > 0);
	if (max_bytes == 0)
		return true;
	h = sfi_header(rel);
	/* pages of the free list are there, and make nothing longer */
	end = h.next_page + (uint64) n - Min((uint64) n, h.free_pages);
	return end <= RelationGetNumberOfBlocks(rel) || end == h.next_page ||
		sf_sectors_to_bytes(h.total_sectors) + end * BLCKSZ <= max_bytes;
}
