/*-------------------------------------------------------------------------
 *
 * server.c
 *	  Access to insides of the server.  server.h says why each is needed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "base/server.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/buf_internals.h"
#include "storage/proc.h"
#include "storage/sinval.h"
#include "storage/spin.h"

void
sf_server_delay_checkpoint_begin(void)
{
	SF_ASSERT((MyProc->delayChkptFlags & DELAY_CHKPT_COMPLETE) == 0);
	MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
}

void
sf_server_delay_checkpoint_end(void)
{
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_COMPLETE;
}

static LWLock *
content_lock(Buffer buf)
{
	SF_ASSERT(BufferIsValid(buf) && !BufferIsLocal(buf));
	return BufferDescriptorGetContentLock(GetBufferDescriptor(buf - 1));
}

bool
sf_server_holds_buffer_lock(Buffer buf)
{
	return LWLockHeldByMe(content_lock(buf));
}

bool
sf_server_holds_buffer_lock_in(Buffer buf, LWLockMode mode)
{
	return LWLockHeldByMeInMode(content_lock(buf), mode);
}

/* Copy the fields of a slot, whose spinlock is not held; false when it is not one to visit. */
static bool
read_slot(ReplicationSlot *slot, SfServerSlot *copy)
{
	bool		wanted;

	SF_ASSERT(LWLockHeldByMe(ReplicationSlotControlLock));
	SpinLockAcquire(&slot->mutex);
	wanted = slot->in_use && slot->data.database == MyDatabaseId;
	copy->two_phase = slot->data.two_phase;
	copy->catalog_xmin = slot->effective_catalog_xmin;
	SpinLockRelease(&slot->mutex);
	return wanted;
}

void
sf_server_visit_slots(SfServerSlotVisit visit, void *arg)
{
	SfServerSlot copy;

	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots; i++)
		if (read_slot(&ReplicationSlotCtl->replication_slots[i], &copy))
			visit(&copy, arg);
	LWLockRelease(ReplicationSlotControlLock);
}

const PQcommMethods *
sf_server_wire(void)
{
	return PqCommMethods;
}

void
sf_server_set_wire(const PQcommMethods *methods)
{
	/* a signal handler may send a message at any time */
	SF_ASSERT(methods->comm_reset != NULL && methods->putmessage != NULL);
	PqCommMethods = methods;
}

void
sf_server_hide_own_changes(Snapshot snapshot)
{
	SF_ASSERT(snapshot->copied);
	snapshot->curcid = FirstCommandId;
}

void
sf_server_begin_vacuum(void)
{
	SF_ASSERT(!TransactionIdIsValid(MyProc->xmin));
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags |= PROC_IN_VACUUM;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

void
sf_server_ask_for_turn(void)
{
	catchupInterruptPending = true;
}
