/*-------------------------------------------------------------------------
 *
 * used_plane.c
 *	  The used plane of a space-map page: a bit a sector, so that a byte is a block.
 *
 * A range is handled byte by byte with masks, not bit by bit: a unit is 32 bytes of the
 * plane. used_sectors counts along, so the number must be right for what is set: setting
 * bits that are set, or clearing bits that are clear, would make it wrong.  Callers ask
 * first (sf_format_map_none_used(), sf_format_map_all_used()), and replay does what they
 * did.
 *
 *-------------------------------------------------------------------------
 */
#include "format/format.h"

/*
 * The sectors of byte i that a range [first, end) covers, as a mask: all bits, but in
 * the bytes where the range begins and ends.
 */
static uint8_t
byte_mask(uint32_t i, uint32_t first, uint32_t end)
{
	uint8_t		mask = 0xFF;

	/* The first byte of a range and its last one may be the same. */
	if (i == first / 8)
		mask &= 0xFF << (first % 8);
	if (i == (end - 1) / 8)
		mask &= 0xFF >> (7 - (end - 1) % 8);
	return mask;
}

#define FOR_EACH_BYTE(i, range) \
	for (uint32_t first_ = (range).first, end_ = first_ + (range).count_minus_1 + 1, \
		 i = first_ / 8; i <= (end_ - 1) / 8; i++)

void
sf_format_map_set(SfMap *map, SfMapRange range)
{
	FOR_EACH_BYTE(i, range)
		map->used[i] |= byte_mask(i, first_, end_);
	map->used_sectors += range.count_minus_1 + 1;
}

void
sf_format_map_clear(SfMap *map, SfMapRange range)
{
	FOR_EACH_BYTE(i, range)
		map->used[i] &= ~byte_mask(i, first_, end_);
	map->used_sectors -= range.count_minus_1 + 1;
}

bool
sf_format_map_all_used(const SfMap *map, SfMapRange range)
{
	FOR_EACH_BYTE(i, range)
	{
		uint8_t		mask = byte_mask(i, first_, end_);

		if ((map->used[i] & mask) != mask)
			return false;
	}
	return true;
}

bool
sf_format_map_none_used(const SfMap *map, SfMapRange range)
{
	FOR_EACH_BYTE(i, range)
		if (map->used[i] & byte_mask(i, first_, end_))
		return false;
	return true;
}
