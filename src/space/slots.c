/*-------------------------------------------------------------------------
 *
 * slots.c
 *	  The replication slots that decode this database.
 *
 * Two questions of this room have their answer in the slots: does storage that is
 * dropped stay for a while (retained.c), and which prepared transactions have yet
 * to be sent (verdict.c)?  The server has no function that lists its slots, so the
 * array in shared memory is looked through here, and nowhere else.
 *
 * A physical slot decodes nothing: its database is InvalidOid, and so it is passed
 * over.  Its xmin counts in GetOldestNonRemovableTransactionId() like any other.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "space/pending.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

/*
 * Copy what is asked of a slot; false when it does not decode this database.
 *
 * ReplicationSlotControlLock, held by the caller, keeps slots from coming and going.
 * The fields of a slot move on under the spinlock alone, so they are read together
 * under it, and the callback runs after it has been let go: it may do more than a
 * spinlock allows.
 */
static bool
read_slot(ReplicationSlot *from, SfSlot *slot)
{
	bool		decodes;

	SF_ASSERT(LWLockHeldByMe(ReplicationSlotControlLock));
	SpinLockAcquire(&from->mutex);
	decodes = from->in_use && from->data.database == MyDatabaseId;
	slot->two_phase = from->data.two_phase;
	slot->catalog_xmin = from->effective_catalog_xmin;
	SpinLockRelease(&from->mutex);
	return decodes;
}

void
sfi_slots_visit(SfSlotVisit visit, void *arg)
{
	bool		go_on = true;

	SF_ASSERT(OidIsValid(MyDatabaseId) && !LWLockHeldByMe(ReplicationSlotControlLock));

	/* below that level there is no logical slot */
	if (!XLogLogicalInfoActive())
		return;
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots && go_on; i++)
	{
		SfSlot		slot;

		if (read_slot(&ReplicationSlotCtl->replication_slots[i], &slot))
			go_on = visit(&slot, arg);
	}
	LWLockRelease(ReplicationSlotControlLock);
}
