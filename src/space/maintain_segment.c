/*-------------------------------------------------------------------------
 *
 * maintain_segment.c
 *	  What the free-space monitor does to one segment besides resolving: give
 *	  back what is parked and nobody's, refill the dispenser, grow ahead of
 *	  need, cut a free tail.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/reserve.h"

/*
 * Grow when the demand since the last pass would not be met by what is free:
 * at most an eighth of the segment or 64 MB.  What is free is known only where one scan
 * sees all of the map.
 */
static uint64
grow_ahead(SfSegment *seg, Relation rel, uint64 demand_blocks, uint64 free_sectors)
{
	uint64		total = sfi_header(rel).total_sectors;
	uint64		ahead = Min(sf_blocks_to_sectors(demand_blocks),
							Min(total / 8, 64 * SF_MB_SECTORS));

	SF_ASSERT(free_sectors % SF_BLOCK_SECTORS == 0);
	if (ahead < SF_MB_SECTORS || free_sectors >= ahead || sf_maps_of(total) > sfi_lend_scan_pages())
		return 0;
	return sfi_grow_ahead(seg, rel, ahead - free_sectors);
}

/*
 * The monitor cuts a tail only where it is much, or all there is, and leaves
 * what was lent in the last minutes: a load that replaces all rows would else grow
 * the files again and again.  A caller that waits (wait) gets all of it cut.
 */
void
sf_space_maintain(SfSegment *seg, bool wait, SfMaintain *stats)
{
	Relation	rel = sfi_segment_rel(seg);
	uint64		total = sfi_header(rel).total_sectors;
	SfDemand	demand = sfi_dispense_take_demand(seg->storage);
	uint64		min_cut = Max(total / 4, 64 * SF_MB_SECTORS);
	SfScan		scan = {
		.need = 1, .want = SF_MAP_BLOCKS, .end_block = SF_NO_END, .from = SF_NO_PAGE, .at_low = true
	};
	uint64		free_sectors;

	SF_ASSERT(total % SF_BLOCK_SECTORS == 0 && min_cut > 0);
	SF_FAULT(maintain_before);
	while (sfi_lend_collect(seg, rel, wait ? 0 : SF_PARKED_IDLE_MS))
		 /* until there is nothing left */ ;
	sfi_lend_scan(seg, rel, total, &scan);
	free_sectors = sf_blocks_to_sectors(scan.free_blocks);
	if (free_sectors == total)
		min_cut = Min(min_cut, Max(total, SF_GROWTH_SECTORS));
	if (wait)
		stats->sectors_cut += sfi_grow_cut_tail(seg, rel, 0, SF_GROWTH_SECTORS);
	else
	{
		stats->sectors_grown += grow_ahead(seg, rel, demand.latest_blocks, free_sectors);
		stats->sectors_cut += sfi_grow_cut_tail(seg, rel,
												sf_blocks_to_sectors(demand.recent_blocks),
												min_cut);
		stats->fading = demand.recent_blocks > 0 && free_sectors >= min_cut;
	}
	sfi_segment_close(rel);
}
