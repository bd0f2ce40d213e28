/*-------------------------------------------------------------------------
 *
 * used_plane.c
 *	  The used plane of a space-map page: a bit a sector, so that a byte is a block.
 *
 * A range is handled by bytes, with masks at its ends, not bit by bit: a unit is 32 bytes
 * of the plane. used_sectors counts along, so the number must be right for what is set: setting
 * bits that are set, or clearing bits that are clear, would make it wrong.  Callers ask
 * first (sf_format_map_none_used(), sf_format_map_all_used()), and replay does what they
 * did.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/segment_pages.h"

/*
 * The bytes of a range of sectors: whole ones, and the bits of those where it begins and
 * ends, which may be one byte.
 */
typedef struct Span
{
	uint32_t	first;			/* byte */
	uint32_t	last;
	uint8_t		first_bits;
	uint8_t		last_bits;		/* the same as first_bits, if it is one byte */
} Span;

static Span
span_of(SfMapRange range)
{
	uint32_t	last_sector = range.first + range.count_minus_1;
	Span		span = {
		range.first / 8, last_sector / 8, 0xFF << (range.first % 8), 0xFF >> (7 - last_sector % 8)
	};

	if (span.first == span.last)
		span.first_bits = span.last_bits = span.first_bits & span.last_bits;
	return span;
}

/* Set the bytes of a span that are neither its first nor its last one. */
static void
fill(uint8_t *used, Span span, int byte)
{
	if (span.last > span.first + 1)
		memset(used + span.first + 1, byte, span.last - span.first - 1);
}

/* Are these all that byte? */
static bool
is_filled(const uint8_t *used, Span span, int byte)
{
	for (uint32_t i = span.first + 1; i < span.last; i++)
		if (used[i] != byte)
			return false;
	return true;
}

void
sf_format_map_set(SfMap *map, SfMapRange range)
{
	Span		span = span_of(range);

	map->used[span.first] |= span.first_bits;
	fill(map->used, span, 0xFF);
	map->used[span.last] |= span.last_bits;
	map->used_sectors += range.count_minus_1 + 1;
}

void
sf_format_map_clear(SfMap *map, SfMapRange range)
{
	Span		span = span_of(range);

	map->used[span.first] &= ~span.first_bits;
	fill(map->used, span, 0);
	map->used[span.last] &= ~span.last_bits;
	map->used_sectors -= range.count_minus_1 + 1;
}

bool
sf_format_map_all_used(const SfMap *map, SfMapRange range)
{
	Span		span = span_of(range);

	return (map->used[span.first] & span.first_bits) == span.first_bits &&
		(map->used[span.last] & span.last_bits) == span.last_bits &&
		is_filled(map->used, span, 0xFF);
}

bool
sf_format_map_none_used(const SfMap *map, SfMapRange range)
{
	Span		span = span_of(range);

	return (map->used[span.first] & span.first_bits) == 0 &&
		(map->used[span.last] & span.last_bits) == 0 && is_filled(map->used, span, 0);
}
