/*-------------------------------------------------------------------------
 *
 * proved.c
 *	  Free blocks that are known to be free, in shared memory: what the monitor may release.
 *
 * The space map says what is free.  That it is right only the rows can tell, which nobody reads
 * for an automatic release.  But where a resolver has just cleared used bits, all of which were
 * set, by an entry that said so, what they named is free: nothing else has ever named it.  So the
 * blocks are noted here, and they stay so until they are lent.  A map page that is wrong, or an
 * old one that came back, does not change that.
 *
 *	 noted		by the resolver, under the lock of the map page, in the change that frees them;
 *				not what is lent still: its process may write there again, and nobody would be told
 *	 forgotten	by the process that marks them lent, under the same lock
 *
 * So no WAL that is younger than the freeing writes to a block that stands here.
 *
 * Nothing relies on a note: one that is lost means that the space waits for securefile_shrink().
 * So a map page has one place in the table, and another page that wants it takes it over.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "storage/lwlock.h"

#define PAGES		2048		/* map pages: 32 GB of data */
#define REFUSED		64

/* What is known of the blocks of one map page. */
typedef struct ProvedPage
{
	SfStorage	storage;
	uint32		map;
	bool		used;
	uint8		blocks[SF_MAP_BLOCKS / 8];
} ProvedPage;

typedef struct ProvedTable
{
	LWLock		lock;
	pg_atomic_uint32 any;		/* is there a page?  Looked at without the
								 * lock */
	uint32		next_refused;
	SfStorage	refused[REFUSED];	/* of which nothing is released; the
									 * latest */
	ProvedPage	pages[PAGES];
} ProvedTable;

static ProvedTable *table = NULL;

const SfSharedArea sf_space_proved_area = {
	.name = "securefile proved space", .at = (void **) &table,
	.bytes = sizeof(ProvedTable), .lock = "securefile_proved"
};

/* The place of a map page.  Neighbours have places side by side. */
static ProvedPage *
place_of(SfStorage storage, uint32 map)
{
	SF_ASSERT(table != NULL && OidIsValid(SfStorageRel(storage)));
	return &table->pages[(SfStorageRel(storage) * 2654435761U + map) % PAGES];
}

static bool
is_of(const ProvedPage *page, SfStorage storage, uint32 map)
{
	SF_ASSERT(LWLockHeldByMe(&table->lock));
	return page->used && page->map == map && SfStorageEquals(page->storage, storage);
}

static bool
is_refused(SfStorage storage)
{
	SF_ASSERT(LWLockHeldByMe(&table->lock));
	for (int i = 0; i < REFUSED; i++)
		if (SfStorageEquals(table->refused[i], storage))
			return true;
	return false;
}

/* Take the place of a map page for it. */
static ProvedPage *
take_place(SfStorage storage, uint32 map)
{
	ProvedPage *page = place_of(storage, map);

	SF_ASSERT(LWLockHeldByMeInMode(&table->lock, LW_EXCLUSIVE));
	if (!is_of(page, storage, map))
	{
		memset(page->blocks, 0, sizeof(page->blocks));
		page->storage = storage;
		page->map = map;
		page->used = true;
	}
	pg_atomic_write_u32(&table->any, 1);
	return page;
}

void
sfi_proved_note(SfStorage storage, uint32 map, const SfMap *content, SfMapRange range)
{
	uint32		first = (range.first + SF_BLOCK_SECTORS - 1) / SF_BLOCK_SECTORS;
	uint32		end = (range.first + range.count_minus_1 + 1) / SF_BLOCK_SECTORS;
	bool		lent_valid = content->boot_id == sf_base_boot_id();

	SF_ASSERT(end <= SF_MAP_BLOCKS);
	if (table == NULL || sf_release_threshold == 0 || first >= end)
		return;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	if (!is_refused(storage))
	{
		ProvedPage *page = take_place(storage, map);

		for (uint32 b = first; b < end; b++)
			if (!lent_valid || (content->lent[b / 8] & (1 << (b % 8))) == 0)
				page->blocks[b / 8] |= 1 << (b % 8);
	}
	LWLockRelease(&table->lock);
}

void
sfi_proved_forget(SfStorage storage, uint32 map, uint32 first, uint32 count)
{
	ProvedPage *page;

	SF_ASSERT(first + count <= SF_MAP_BLOCKS);
	if (table == NULL || pg_atomic_read_u32(&table->any) == 0 || SF_BREAKS(proved))
		return;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	page = place_of(storage, map);
	if (is_of(page, storage, map))
		for (uint32 b = first; b < first + count; b++)
			page->blocks[b / 8] &= ~(1 << (b % 8));
	LWLockRelease(&table->lock);
}

bool
sfi_proved_get(SfStorage storage, uint32 map, uint8 *blocks)
{
	const ProvedPage *page = place_of(storage, map);
	bool		found;

	SF_ASSERT(pg_atomic_read_u32(&table->any) != 0);
	LWLockAcquire(&table->lock, LW_SHARED);
	found = is_of(page, storage, map);
	if (found)
		memcpy(blocks, page->blocks, sizeof(page->blocks));
	LWLockRelease(&table->lock);
	return found;
}

uint64
sfi_proved_blocks(SfStorage storage)
{
	uint64		sum = 0;

	if (table == NULL || pg_atomic_read_u32(&table->any) == 0)
		return 0;
	LWLockAcquire(&table->lock, LW_SHARED);
	for (int i = 0; i < PAGES; i++)
		if (is_of(&table->pages[i], storage, table->pages[i].map))
			sum += pg_popcount((const char *) table->pages[i].blocks,
							   sizeof(table->pages[i].blocks));
	LWLockRelease(&table->lock);
	return sum;
}

/* Forget all of a storage; with the lock. */
static void
forget_all(SfStorage storage)
{
	SF_ASSERT(LWLockHeldByMeInMode(&table->lock, LW_EXCLUSIVE));
	for (int i = 0; i < PAGES; i++)
		if (is_of(&table->pages[i], storage, table->pages[i].map))
			table->pages[i].used = false;
}

void
sfi_proved_forget_storage(SfStorage storage)
{
	SF_ASSERT(OidIsValid(SfStorageRel(storage)));
	if (table == NULL || pg_atomic_read_u32(&table->any) == 0)
		return;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	forget_all(storage);
	LWLockRelease(&table->lock);
}

void
sfi_proved_refuse(SfStorage storage)
{
	SF_ASSERT(table == NULL || !LWLockHeldByMe(&table->lock));
	if (table == NULL)
		return;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	if (!is_refused(storage))
		table->refused[table->next_refused++ % REFUSED] = storage;
	forget_all(storage);
	LWLockRelease(&table->lock);
}
