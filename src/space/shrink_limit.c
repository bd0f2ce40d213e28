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
 * is over two numbers for each map page.  Within a page used and usable sectors count as spread
 * evenly: if they are not, some values may find no place.
 *
 * Usable are whole blocks that nobody has lent, in runs that pieces of the values fit into.  More
 * room is asked for than what moves takes: runs do not fit exactly, and others write meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "port/pg_bitutils.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "space/shrink_limit.h"

/* Of what has to find a place, so much more room is asked for. */
#define SPARE				0.03
/* And a quarter of what cuts leave, that much at most. */
#define SLACK_PART			4
#define MOST_SLACK			(8 * SF_MB_SECTORS)

/* What a map page has. */
typedef struct MapSums
{
	uint32		used_sectors;
	uint32		usable_sectors;
} MapSums;

/* What sum_page() is told, and tells. */
typedef struct SumPages
{
	MapSums    *sums;			/* of each page */
	uint32		piece_sectors;
	SfShrinkLimit *shrink;		/* above and tail */
} SumPages;

/*
 * Each cut leaves an eighth of what there was before, so many cuts leave a seventh of what is
 * before the tail.
 */
uint64
sf_space_after_cuts(uint64 tail)
{
	SF_ASSERT(tail <= SF_MAX_SECTORS);
	return sfi_grow_cut_end(tail, sfi_grow_slack_sectors(sf_round_up_block(tail / 7 * 8)));
}

/* Add up a map page (an SfMapVisit). */
static bool
sum_page(const SfMap *content, uint32 map, uint32 limit, void *arg)
{
	const SumPages *all = arg;
	MapSums    *sums = &all->sums[map];
	uint32		end = limit;
	uint32		from = 0;
	uint32		first;
	uint32		count;

	SF_ASSERT(limit > 0 && limit <= SF_MAP_BLOCKS && all->piece_sectors > 0);
	*sums = (MapSums) {.used_sectors = content->used_sectors};
	while (sfi_map_next_free(content, limit, &from, &first, &count))
	{
		uint32		sectors = count * SF_BLOCK_SECTORS;

		sums->usable_sectors += sectors - sectors % all->piece_sectors;
		end = first + count == limit ? first : limit;
	}
	/* in use or lent */
	if (end > 0)
		all->shrink->tail = sf_blocks_to_sectors(sf_map_first_block(map) + end);
	all->shrink->above += sums->used_sectors;
	return true;
}

/* Add up all map pages of a segment; above and tail become those of all. */
static MapSums *
sum_pages(Relation rel, uint32 piece_sectors, SfShrinkLimit *shrink)
{
	Size		npages = Max(sf_maps_of(shrink->total), 1);
	SumPages	all = {
		.sums = MemoryContextAllocHuge(CurrentMemoryContext, npages * sizeof(MapSums)),
		.piece_sectors = piece_sectors, .shrink = shrink
	};

	sfi_visit_maps(rel, shrink->total, false, sum_page, &all);
	return all.sums;
}

/* Sectors of a map page that are in use from a block of it on. */
static uint32
used_from(Relation rel, uint32 map, uint32 block)
{
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_SHARE);
	uint32		used = pg_popcount((const char *) SfPageMap(BufferGetPage(buf))->used + block,
								   SF_MAP_BLOCKS - block);

	SF_ASSERT(block <= SF_MAP_BLOCKS);
	UnlockReleaseBuffer(buf);
	return used;
}

/* Find the limit; above becomes what lies behind it. */
static void
find_limit(Relation rel, const MapSums *sums, uint64 spare, SfShrinkLimit *shrink)
{
	const double factor = 1 + SPARE;
	uint64		total = Min(shrink->total, sf_space_after_cuts(shrink->tail));
	double		missing = shrink->above * factor + spare +
		Min((double) sfi_grow_slack_sectors(total) / SLACK_PART, MOST_SLACK);

	for (uint32 map = 0; map < sf_maps_of(shrink->total); map++)
	{
		double		gain = sums[map].used_sectors * factor + sums[map].usable_sectors;
		uint32		sectors = sf_map_sectors_before(shrink->total, map);

		/* the sums of pages are of different moments */
		shrink->above -= Min(shrink->above, sums[map].used_sectors);
		if (missing <= gain)
		{
			uint32		part = sf_blocks_of((uint64) (missing * sectors / Max(gain, 1)));

			shrink->limit = sf_blocks_to_sectors(sf_map_first_block(map) + part);
			shrink->above += used_from(rel, map, part);
			return;
		}
		missing -= gain;
	}
	shrink->limit = shrink->total;
}

SfShrinkLimit
sf_space_shrink_limit(SfSegment *seg, uint32 piece_sectors, uint64 spare)
{
	Relation	rel = sfi_segment_rel(seg);
	SfShrinkLimit shrink = {.total = sfi_header(rel).total_sectors};
	MapSums    *sums = sum_pages(rel, piece_sectors, &shrink);

	SF_ASSERT(spare <= SF_MAX_SECTORS);
	find_limit(rel, sums, spare, &shrink);
	pfree(sums);
	sfi_segment_close(rel);
	SF_ASSERT(shrink.limit <= shrink.total && shrink.tail <= shrink.total);
	return shrink;
}

/* Where reserved room is looked for. */
typedef struct Reserved
{
	uint64		from_block;
	bool		found;
} Reserved;

/* Is something behind reserved?  (an SfMapVisit, from the end) */
static bool
find_reserved(const SfMap *content, uint32 map, uint32 limit, void *arg)
{
	Reserved   *reserved = arg;
	uint64		first = sf_map_first_block(map);
	uint32		from = reserved->from_block > first ? reserved->from_block - first : 0;

	SF_ASSERT(limit > 0 && limit <= SF_MAP_BLOCKS);
	if (from < limit)
		reserved->found = sfi_map_reserved(content, limit) > sfi_map_reserved(content, from);
	return !reserved->found && from == 0;
}

bool
sf_space_is_reserved_from(SfSegment *seg, uint64 limit)
{
	Relation	rel = sfi_segment_rel(seg);
	Reserved	reserved = {.from_block = sf_block_of(limit)};

	SF_ASSERT(limit % SF_BLOCK_SECTORS == 0);
	sfi_visit_maps(rel, sfi_header(rel).total_sectors, true, find_reserved, &reserved);
	sfi_segment_close(rel);
	return reserved.found;
}
