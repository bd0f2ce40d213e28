/*-------------------------------------------------------------------------
 *
 * map.c
 *	  Bit arithmetic on one space-map page: the used plane (a bit a sector,
 *	  so that a byte is a block) and the lent plane (a bit a block).
 *
 *	 block			0			1			2
 *	 used plane		10110000	00000000	11111111	a bit a sector: values need
 *													not fill their blocks
 *	 lent plane		0			1			0			a bit a block: what is lent
 *													is lent by whole blocks
 *					used		lent		used
 *
 * A block is free when its byte of the used plane is 0 and its lent bit does not count
 * or is 0.  A block may be used and lent: the first values of a region have committed
 * while their backend still fills the rest.
 *
 * The lent plane counts only for the start of the server whose boot id the page has:
 * the process that held a block then is gone.  So a restart gives all lent blocks back without a
 * write.  A page gets the new boot id when something on it is lent again.
 *
 * Nothing here throws or allocates: it runs in critical sections and in redo.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/storage.h"
#include "port/pg_bitutils.h"
#include "space/pages.h"

SfMapRange
sfi_map_range(uint64 start, uint32 count)
{
	SfMapRange	range;

	SF_ASSERT(count > 0 && sf_same_map(start, start + count - 1));
	SF_ASSERT(start < SF_MAX_SECTORS);
	range.first = start % SF_MAP_SECTORS;
	range.count_minus_1 = count - 1;
	return range;
}

bool
sfi_map_is_lent(const SfMap *map, uint32 block)
{
	return (map->lent[block / 8] & (1 << (block % 8))) != 0;
}

bool
sfi_map_is_held(const SfMap *map, SfMapRange range)
{
	bool		lent_valid = map->boot_id == sf_base_boot_id();

	for (uint32 i = range.first; i <= (uint32) range.first + range.count_minus_1; i++)
	{
		bool		used = map->used[i / 8] & (1 << (i % 8));

		if (!used && !(lent_valid && sfi_map_is_lent(map, i / SF_BLOCK_SECTORS)))
			return false;
	}
	return true;
}

void
sfi_map_lend(SfMap *map, uint32 first, uint32 count)
{
	SF_ASSERT(count > 0 && first + count <= SF_MAP_BLOCKS);
	if (map->boot_id != sf_base_boot_id())
	{
		memset(map->lent, 0, sizeof(map->lent));
		map->boot_id = sf_base_boot_id();
	}
	for (uint32 b = first; b < first + count; b++)
	{
		SF_INVARIANT(S2, map->used[b] == 0 && !sfi_map_is_lent(map, b));
		map->lent[b / 8] |= 1 << (b % 8);
	}
}

void
sfi_map_take_back(SfMap *map, uint32 first, uint32 count)
{
	SF_ASSERT(first + count <= SF_MAP_BLOCKS);
	if (map->boot_id != sf_base_boot_id())
		return;
	for (uint32 b = first; b < first + count; b++)
		map->lent[b / 8] &= ~(1 << (b % 8));
}

static bool
is_free(const SfMap *map, bool lent_valid, uint32 b)
{
	SF_ASSERT(b < SF_MAP_BLOCKS);
	return map->used[b] == 0 && !(lent_valid && sfi_map_is_lent(map, b));
}

/* The same of eight blocks from a multiple of 8 on: a free segment has long runs. */
static bool
are_free(const SfMap *map, bool lent_valid, uint32 b)
{
	uint64		used;

	SF_ASSERT(b % 8 == 0 && b + 8 <= SF_MAP_BLOCKS);
	memcpy(&used, map->used + b, sizeof(used));
	return used == 0 && !(lent_valid && map->lent[b / 8] != 0);
}

uint32
sfi_map_reserved(const SfMap *map, uint32 limit)
{
	uint32		sectors = 0;

	SF_ASSERT(limit <= SF_MAP_BLOCKS);
	if (map->boot_id != sf_base_boot_id())
		return 0;
	for (uint32 b = 0; b < limit; b++)
		if (b % 8 == 0 && map->lent[b / 8] == 0)
			b += 7;				/* as a rule, nothing on a page is lent */
		else if (sfi_map_is_lent(map, b))
			sectors += SF_BLOCK_SECTORS - pg_number_of_ones[map->used[b]];
	return sectors;
}

/*
 * 4096 blocks at most.  Where values are stored one after another most of them are used, and
 * each new extent passes them: memchr() takes many at a time.
 */
bool
sfi_map_next_free(const SfMap *map, uint32 limit, uint32 *from, uint32 *first, uint32 *count)
{
	bool		lent_valid = map->boot_id == sf_base_boot_id();
	uint32		b = *from;

	SF_ASSERT(limit <= SF_MAP_BLOCKS);
	while (b < limit && !is_free(map, lent_valid, b))
	{
		const uint8 *unused = memchr(map->used + b + 1, 0, limit - b - 1);

		b = unused == NULL ? limit : unused - map->used;
	}
	*first = b;
	while (b < limit)
		if (b % 8 == 0 && b + 8 <= limit && are_free(map, lent_valid, b))
			b += 8;
		else if (is_free(map, lent_valid, b))
			b++;
		else
			break;
	*count = b - *first;
	*from = b;
	return *count > 0;
}

/*
 * The lent plane is like a hint: not logged, but a page torn by a crash must
 * still be whole where checksums look.  Storage that skips WAL (made in this
 * transaction at wal_level=minimal) must not be given hint records, and need
 * not be: a crash removes it.
 */
void
sfi_map_dirty_lent(Buffer buf, SfStorage storage)
{
	SF_ASSERT(sfi_page_is_locked(buf, LW_EXCLUSIVE));
	if (sf_compat_skips_wal(storage))
		MarkBufferDirty(buf);
	else
		MarkBufferDirtyHint(buf, true);
}
