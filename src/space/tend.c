/*-------------------------------------------------------------------------
 *
 * tend.c
 *	  What the free-space monitor does to one segment besides resolving: give
 *	  back what is parked and nobody's, refill the dispenser, grow ahead of
 *	  need, cut a free tail.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/space_internal.h"

#define SECTORS_PER_MB		(1024 * 1024 / SF_SECTOR_SIZE)

/*
 * Grow when the demand since the last pass would not be met by what is free:
 * at most an eighth of the segment or 64 MB.
 */
static uint64
grow_ahead(SfSegment *seg, Relation rel, uint64 free_blocks)
{
	uint64		total = sf_space_header(rel).total_sectors;
	uint64		ahead = sf_dispense_take_demand(seg->node);

	ahead = Min(ahead * SF_BLOCK_SECTORS, Min(total / 8, 64 * SECTORS_PER_MB));
	if (ahead < SECTORS_PER_MB || free_blocks * SF_BLOCK_SECTORS >= ahead)
		return 0;
	return sf_grow_ahead(seg, rel, ahead - free_blocks * SF_BLOCK_SECTORS);
}

void
sf_space_tend(SfSegment *seg, bool wait, SfMaintain *stats)
{
	Relation	rel = sf_segment_rel(seg);
	uint64		total = sf_space_header(rel).total_sectors;
	uint64		min_cut = wait ? SECTORS_PER_MB : Max(total / 4, 64 * SECTORS_PER_MB);
	uint64		free_blocks;

	while (sf_lend_collect(seg, rel, wait ? 0 : SF_ARENA_IDLE_MS))
		 /* until there is nothing left */ ;
	free_blocks = sf_lend_scan(seg, rel, 1);
	if (!wait)
		stats->sectors_grown += grow_ahead(seg, rel, free_blocks);
	stats->sectors_cut += sf_grow_cut_tail(seg, rel, min_cut);
	sf_segment_close(rel);
}
