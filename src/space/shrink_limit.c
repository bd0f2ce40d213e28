/*-------------------------------------------------------------------------
 *
 * shrink_limit.c
 *	  Where a limit has to be, so that what lies behind it finds room below.
 *
 *	 0							limit		 tail			total
 *	 +--------------------------+------------+--------------+
 *	 | used, and free blocks	| used, free | free			|
 *	 +--------------------------+------------+--------------+
 *
 * The lower the limit, the less is free below, and the more has to move there.  So there is a
 * least one, and a walk from the front finds it, if the sum of what is used is known.  The walk
 * is over one number and one more for each map page; of the page where the limit lies the bits are
 * looked at again.
 *
 * Free are whole blocks that nobody has lent: no others can be lent.  What has to move is counted
 * in sectors, since values that are stored again lie side by side.  A tenth more: free runs do
 * not fit values exactly, and others write meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "space/shrink_limit.h"

/* What a map page has. */
typedef struct MapSums
{
	uint32		used_sectors;
	uint32		free_blocks;
} MapSums;

/* A search of the least limit, which has come so far; in sectors. */
typedef struct Search
{
	uint64		used;			/* behind */
	uint64		free;			/* before */
	uint64		slack;
} Search;

/* Add up a map page; *tail: the end of what is in use or lent there, if anything is. */
static MapSums
sum_page(Relation rel, uint32 map, uint32 limit, uint64 *tail)
{
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
	const SfMap *content = SfPageMap(BufferGetPage(buf));
	MapSums		sums = {.used_sectors = content->used_sectors};
	uint32		end = limit;
	uint32		from = 0;
	uint32		first;
	uint32		count;

	SF_ASSERT(limit > 0 && limit <= SF_MAP_BLOCKS);
	while (sfi_map_next_free(content, limit, &from, &first, &count))
	{
		sums.free_blocks += count;
		end = first + count == limit ? first : limit;
	}
	UnlockReleaseBuffer(buf);
	if (end > 0)
		*tail = sf_blocks_to_sectors(sf_map_first_block(map) + end);
	return sums;
}

/* Add up all map pages of a segment; *used and *tail, in sectors, become theirs. */
static MapSums *
sum_pages(Relation rel, uint64 total, uint64 *used, uint64 *tail)
{
	uint32		npages = sf_maps_of(total);
	MapSums    *sums = MemoryContextAllocHuge(CurrentMemoryContext,
											  Max(npages, 1) * sizeof(MapSums));

	*used = *tail = 0;
	for (uint32 map = 0; map < npages; map++)
	{
		CHECK_FOR_INTERRUPTS();
		sums[map] = sum_page(rel, map, sf_block_of(sf_map_sectors_before(total, map)), tail);
		*used += sums[map].used_sectors;
	}
	return sums;
}

/* Is what is free before enough for what is used behind? */
static bool
is_enough(Search search)
{
	return 10 * search.free >= 11 * search.used + 10 * search.slack;
}

/* The same search, so much further on. */
static Search
passed(Search search, uint32 used_sectors, uint32 free_blocks)
{
	SF_ASSERT(free_blocks <= SF_MAP_BLOCKS && used_sectors <= SF_MAP_SECTORS);
	/* it was counted at another moment than the sum */
	search.used -= Min(search.used, used_sectors);
	search.free += sf_blocks_to_sectors(free_blocks);
	return search;
}

/* Pass some blocks of a map page. */
static Search
pass_blocks(Search search, const SfMap *map, uint32 begin, uint32 end)
{
	uint32		from = begin;
	uint32		first;
	uint32		count;

	SF_ASSERT(begin < end && end <= SF_MAP_BLOCKS);
	while (sfi_map_next_free(map, end, &from, &first, &count))
		search = passed(search, 0, count);
	return passed(search, pg_popcount((const char *) map->used + begin, end - begin), 0);
}

/*
 * The least limit that serves on a map page, before the end of what there is of it; *used becomes
 * what lies behind.
 */
static uint64
find_on_page(Relation rel, uint32 map, uint32 limit, Search search, uint64 *used)
{
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
	uint32		block = 0;

	SF_ASSERT(limit > 0 && limit <= SF_MAP_BLOCKS);
	while (block < limit && !is_enough(search))
	{
		uint32		end = Min(limit, block + sf_block_of(SF_GROWTH_SECTORS));

		search = pass_blocks(search, SfPageMap(BufferGetPage(buf)), block, end);
		block = end;
	}
	UnlockReleaseBuffer(buf);
	*used = search.used;
	return sf_blocks_to_sectors(sf_map_first_block(map) + block);
}

/* The least limit that serves; *used, all that is used, becomes what lies behind. */
static uint64
find_limit(Relation rel, uint64 total, const MapSums *sums, uint64 slack, uint64 *used)
{
	Search		search = {.used = *used, .slack = slack};

	for (uint32 map = 0; map < sf_maps_of(total); map++)
	{
		Search		next = passed(search, sums[map].used_sectors, sums[map].free_blocks);

		if (is_enough(next))
			return find_on_page(rel, map, sf_block_of(sf_map_sectors_before(total, map)), search,
								used);
		search = next;
	}
	*used = 0;
	return total;
}

SfShrinkLimit
sf_space_shrink_limit(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	SfShrinkLimit shrink = {.total = sfi_header(rel).total_sectors};
	uint64		slack = sfi_grow_slack_sectors(shrink.total);
	MapSums    *sums = sum_pages(rel, shrink.total, &shrink.above, &shrink.tail);

	shrink.limit = find_limit(rel, shrink.total, sums, slack, &shrink.above);
	pfree(sums);
	sfi_segment_close(rel);
	shrink.unmoved = Min(shrink.total, sfi_grow_cut_end(shrink.tail, slack));
	shrink.target = Min(shrink.total,
						sfi_grow_cut_end(Min(shrink.tail, shrink.limit), slack));
	SF_ASSERT(shrink.target <= shrink.unmoved && shrink.limit <= shrink.total);
	return shrink;
}
