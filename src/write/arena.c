/*-------------------------------------------------------------------------
 *
 * arena.c
 *	  Where the next bytes go: this backend's lent regions, one a segment.
 *
 * A region is filled from its start.  Regions grow with what a backend writes,
 * from 256 KB to the gather size, so that a small value does not reserve much
 * and a load gets long runs.  A region stays lent until the transaction has
 * ended (its I/O is done, its used bits are set); the rest of the last one is
 * kept for the next transaction.
 *
 * The life of a region, as this file sees it:
 *
 *	lent (sf_space_lend)  ->  filled  ->  full: waits for the end of the transaction
 *										  not full: parked at its end (sf_space_park)
 *	parked  ->  claimed by the next transaction of this process, and filled on
 *
 * Lent space is not in any transaction's log, so nothing has to be undone when a process
 * dies: the lent plane holds for one start of the server only.  What protects the bytes
 * before the commit is that nobody else is lent their blocks; what protects them after
 * it are the used bits, which come with the entries.  So a region must not be given back
 * between the two, and the order in commit.c follows from that.
 *
 * Two numbers say how far a region is filled. next_sector is where the next bytes go;
 * first_sector is where this transaction began: after an abort the region is filled from
 * there once more, as nothing has come to own the bytes in between.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "space/lend.h"
#include "stats/stats.h"
#include "utils/memutils.h"
#include "write/write_internal.h"

#define FIRST_STEP_BLOCKS	64	/* 256 KB */
#define KEEP_ARENAS			4	/* kept between transactions */

typedef struct Arena
{
	struct Arena *next;
	SfSegment	seg;
	SfRegion	region;
	uint64		next_sector;
	uint64		first_sector;	/* where this transaction began */
	uint32		step_blocks;	/* the next region is to have */
	bool		full;			/* waits for the end of the transaction */
} Arena;

static Arena *arenas;			/* most recently used first; full ones too */

/*
 * Memory for the next arena, asked for before its region is: a region that
 * nobody notes stays lent until the server starts again.
 */
static Arena *spare;

/* A limit of this transaction for one segment; most_blocks 0: there is none. */
static struct
{
	SfStorage	storage;
	uint64		below_sector;
	uint32		most_blocks;	/* asked for at once: long runs may be gone */
}			limit;

#define RegionEnd(r)	(((r).start_block + (r).nblocks) * SF_BLOCK_SECTORS)

/*
 * The link to the segment's arena that is being filled, or to NULL. Looks only; the list
 * keeps its order.  It is short: full arenas of a large load are the exception, and they
 * lie behind the one that is being filled.
 */
static Arena **
link_to_arena(const SfSegment *seg)
{
	Arena	  **link = &arenas;

	while (*link != NULL && ((*link)->full || !SfStorageEquals((*link)->seg.storage, seg->storage)))
		link = &(*link)->next;
	return link;
}

/*
 * The numbers of an arena are in order, and its region begins and ends on blocks of one
 * map.
 */
static bool
arena_is_valid(const Arena *arena)
{
	uint64		start = sf_blocks_to_sectors(arena->region.start_block);

	return start <= arena->first_sector && arena->first_sector <= arena->next_sector &&
		arena->next_sector <= RegionEnd(arena->region) &&
		arena->first_sector % SF_BLOCK_SECTORS == 0 && arena->region.nblocks <= SF_MAP_BLOCKS;
}

/* The segment's arena that is being filled, or NULL; moved to the front. */
static Arena *
find_arena(SfSegment *seg)
{
	Arena	  **link = link_to_arena(seg);
	Arena	   *arena = *link;

	if (arena == NULL)
		return NULL;
	SF_ASSERT(arena_is_valid(arena));
	*link = arena->next;
	arena->next = arenas;
	arenas = arena;
	return arena;
}

/*
 * Get the memory of the next arena.  Between taking a region and noting it nothing may
 * fail, so what can fail is done before.
 */
static void
prepare_arena(void)
{
	SF_FAULT(lend_memory);
	if (spare == NULL)
		spare = MemoryContextAlloc(TopMemoryContext, sizeof(Arena));
}

/* Make an arena of a region; prepare_arena() was called.  Throws nothing. */
static Arena *
add_arena(SfSegment *seg, SfRegion region, uint64 next_sector, uint32 step_blocks)
{
	Arena	   *arena = spare;

	SF_ASSERT(arena != NULL && *link_to_arena(seg) == NULL);
	spare = NULL;
	arena->seg = *seg;
	arena->region = region;
	arena->next_sector = arena->first_sector = next_sector;
	arena->step_blocks = Min(step_blocks, SF_MAP_BLOCKS);
	arena->full = false;
	arena->next = arenas;
	arenas = arena;
	SF_ASSERT(arena_is_valid(arena));
	return arena;
}

/* ---- a limit ---- */

/* Is there one for the segment? */
static bool
is_limited(const SfSegment *seg)
{
	return limit.most_blocks > 0 && SfStorageEquals(limit.storage, seg->storage);
}

/* What goes on in the segment's region is over: the next bytes go elsewhere. */
static void
end_filling(const SfSegment *seg)
{
	Arena	   *arena = *link_to_arena(seg);

	if (arena != NULL)
		arena->full = true;
	SF_ASSERT(*link_to_arena(seg) == NULL);
}

bool
sf_write_has_limit(void)
{
	return limit.most_blocks > 0;
}

void
sf_write_limit(SfSegment *seg, uint64 below_sector)
{
	SF_ASSERT(!sf_write_has_limit() && below_sector % SF_BLOCK_SECTORS == 0);
	end_filling(seg);
	limit.storage = seg->storage;
	limit.below_sector = below_sector;
	limit.most_blocks = SF_MAP_BLOCKS;
}

void
sf_write_limit_end(SfSegment *seg)
{
	if (is_limited(seg))
		end_filling(seg);
	limit.most_blocks = 0;
}

SF_NORETURN static void
report_limit(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("no free space below sector " UINT64_FORMAT " holds the value",
					limit.below_sector)));
}

/*
 * A region below the limit.  Where only short runs are left, no more is asked for than twice what
 * was found last: to look for a long one would mean to go through all of the map again.
 */
static SfRegion
lend_limited(SfSegment *seg, SfWant want)
{
	SfRegion	region;

	want.most_blocks = Max(want.need_blocks, Min(want.most_blocks, limit.most_blocks));
	region = sf_space_lend(seg, &want, limit.below_sector);
	if (region.nblocks == 0)
		report_limit();
	SF_ASSERT(sf_blocks_to_sectors(region.start_block + region.nblocks) <= limit.below_sector);
	limit.most_blocks = Max(region.nblocks * 2, FIRST_STEP_BLOCKS);
	return region;
}

/*
 * An arena with a new region, in which nsectors fit.  Throws when the disk is full, or no
 * region is to be had; the list is as it was then.
 */
static Arena *
lend_arena(SfSegment *seg, SfStatCounters *stats, uint32 nsectors, uint64 ahead_sectors,
		   uint32 step_blocks)
{
	const SfWant want = {
		.need_blocks = sf_blocks_of(nsectors),
		.most_blocks = Min(sf_write_gather_bytes() / SF_BLOCK_SIZE, SF_MAP_BLOCKS),
		.ahead_sectors = ahead_sectors,
		.step_blocks = step_blocks
	};
	SfRegion	region;

	prepare_arena();
	region = is_limited(seg) ? lend_limited(seg, want) : sf_space_lend(seg, &want, SF_NO_BOUND);
	stats->allocation_bytes += (uint64) region.nblocks * SF_BLOCK_SIZE;
	stats->allocation_chunks++;
	return add_arena(seg, region, sf_blocks_to_sectors(region.start_block), step_blocks * 2);
}

/*
 * What this process parked at the end of an earlier transaction, as an arena; NULL when
 * there is nothing.  It goes on behind what was filled then.
 */
static Arena *
claim_arena(SfSegment *seg)
{
	SfRegion	region;
	uint32		next_block;

	prepare_arena();
	if (!sf_space_claim_parked(seg->storage, &region, &next_block))
		return NULL;
	SF_ASSERT(next_block <= region.nblocks);
	return add_arena(seg, region, sf_blocks_to_sectors(region.start_block + next_block),
					 Max(region.nblocks * 2, FIRST_STEP_BLOCKS));
}

uint64
sfi_arena_place(SfSegment *seg, SfStatCounters *stats, uint32 nsectors, uint64 ahead_sectors)
{
	Arena	   *arena = find_arena(seg);

	SF_ASSERT(nsectors > 0 && nsectors <= SF_MAP_SECTORS);
	if (arena == NULL && !is_limited(seg))
		arena = claim_arena(seg);
	while (arena == NULL || arena->next_sector + nsectors > RegionEnd(arena->region))
	{
		uint32		step_blocks = arena == NULL ? FIRST_STEP_BLOCKS : arena->step_blocks;

		if (arena != NULL)
			arena->full = true;
		arena = lend_arena(seg, stats, nsectors, ahead_sectors, step_blocks);
	}
	SF_ASSERT(arena_is_valid(arena) && !arena->full);
	return arena->next_sector;
}

void
sfi_arena_advance(SfSegment *seg, uint32 nsectors)
{
	Arena	   *arena = find_arena(seg);

	arena->next_sector += nsectors;
	SF_ASSERT(arena_is_valid(arena));
}

bool
sfi_arena_goes_on(SfSegment *seg, uint64 sector)
{
	const Arena *arena = *link_to_arena(seg);

	return arena != NULL && arena->next_sector == sector;
}

void
sfi_arena_skip_partial_block(SfSegment *seg, uint64 sector)
{
	if (sfi_arena_goes_on(seg, sector))
		find_arena(seg)->next_sector = sf_round_up_block(sector);
}

void
sfi_arena_skip_partial_blocks(void)
{
	for (Arena *arena = arenas; arena != NULL; arena = arena->next)
	{
		arena->next_sector = sf_round_up_block(arena->next_sector);
		SF_ASSERT(arena_is_valid(arena));
	}
}

void
sfi_arena_release_full(void)
{
	int			kept = 0;
	Arena	  **link = &arenas;

	while (*link != NULL)
	{
		Arena	   *arena = *link;

		if (!arena->full && arena->next_sector < RegionEnd(arena->region) &&
			kept++ < KEEP_ARENAS)
		{
			link = &arena->next;
			continue;
		}

		/*
		 * Its used bits are set and in WAL by now, so nobody is lent the
		 * blocks that have values.  The others are free for everybody from
		 * here on.
		 */
		sf_space_take_back(&arena->seg, arena->region);
		*link = arena->next;
		pfree(arena);
	}
}

/*
 * After an abort everything this transaction put into its regions is garbage, and its
 * I/O has been waited for: they start where it began.  But not when it had entries
 * logged: the used bits that came with them stay until the resolver has seen the abort,
 * so that nothing can be put there yet.  Storage that was dropped or rolled back takes
 * its regions along.
 *
 * A region below a limit that still holds is that of a process that ends in the middle: not even
 * this process has a use for it.
 */
void
sfi_arena_end(bool commit, bool logged)
{
	int			kept = 0;

	while (arenas != NULL)
	{
		Arena	   *arena = arenas;
		uint64		next = commit ? sf_round_up_block(arena->next_sector) : arena->first_sector;
		bool		keep = !arena->full && !is_limited(&arena->seg) && (commit || !logged) &&
			kept++ < KEEP_ARENAS;

		SF_ASSERT(arena_is_valid(arena));
		if (!sf_space_is_removed(arena->seg.storage))
			sf_space_park(arena->seg.storage, arena->region,
						  sf_block_of(next) - arena->region.start_block, keep);
		arenas = arena->next;
		pfree(arena);
	}
	limit.most_blocks = 0;
}
