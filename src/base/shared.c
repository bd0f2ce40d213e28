/*-------------------------------------------------------------------------
 *
 * shared.c
 *	  Areas of shared memory: their sizes, locks and beginnings.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/shared.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

StaticAssertDecl(sizeof(pg_atomic_uint32) == sizeof(uint32) &&
				 sizeof(pg_atomic_uint64) == sizeof(uint64),
				 "an atomic number of zero bytes is zero");

SfSharedColumn
sf_base_shared_column(Oid table_oid, AttrNumber attnum)
{
	return (SfSharedColumn) {MyDatabaseId, table_oid, attnum};
}

static Size
area_bytes(const SfSharedArea *area)
{
	if (area->key_bytes > 0)
		return hash_estimate_size(*area->items, area->item_bytes);
	return add_size(area->bytes,
					area->items == NULL ? 0 : mul_size(*area->items, area->item_bytes));
}

void
sf_base_shared_request(const SfSharedArea *const *areas, int n)
{
	for (int i = 0; i < n; i++)
		RequestAddinShmemSpace(CACHELINEALIGN(area_bytes(areas[i])));
}

static void
make_table(const SfSharedArea *area)
{
	HASHCTL		ctl = {.keysize = area->key_bytes, .entrysize = area->item_bytes};

	SF_ASSERT(area->bytes == 0 && area->lock == NULL && area->init == NULL);
	*area->at = ShmemInitHash(area->name, *area->items, *area->items, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

/* Numbers of tranches are given out anew when shared memory is. */
static void
make_lock(const SfSharedArea *area)
{
	int			tranche = LWLockNewTrancheId();

	SF_ASSERT(area->bytes >= sizeof(LWLock));
	LWLockRegisterTranche(tranche, area->lock);
	LWLockInitialize(*area->at, tranche);
}

static void
make_area(const SfSharedArea *area)
{
	bool		found;

	*area->at = ShmemInitStruct(area->name, area_bytes(area), &found);
	if (found)
		return;
	memset(*area->at, 0, area_bytes(area));
	if (area->lock != NULL)
		make_lock(area);
	if (area->init != NULL)
		area->init();
}

void
sf_base_shared_make(const SfSharedArea *const *areas, int n)
{
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		if (areas[i]->key_bytes > 0)
			make_table(areas[i]);
		else
			make_area(areas[i]);
	}
	LWLockRelease(AddinShmemInitLock);
}
