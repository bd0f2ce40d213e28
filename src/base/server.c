/*-------------------------------------------------------------------------
 *
 * server.c
 *	  Access to insides of the server.  server.h says why each is needed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/server.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/buf_internals.h"
#include "storage/proc.h"
#include "storage/sinval.h"
#include "storage/sinvaladt.h"
#include "storage/spin.h"
#include "utils/pgstat_internal.h"

void
sf_server_delay_checkpoint_begin(void)
{
	SF_ASSERT(!sf_server_holds_checkpoints());
	MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
}

void
sf_server_delay_checkpoint_end(void)
{
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_COMPLETE;
}

/*
 * The id is one that no transaction has, and nobody can wait for: a process that asks for
 * the lock of a virtual transaction finds that the process has none under this id, and takes
 * it for ended.  One aligned store: a reader of the id finds the old one or the new one.
 */
void
sf_server_hold_checkpoints_anew(void)
{
	SF_ASSERT(!IsTransactionState());
	if (!SF_FAULT_SKIPS(wrong_hold))
		MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
	SfProcLxid(MyProc) = GetNextLocalTransactionId();
}

bool
sf_server_holds_checkpoints(void)
{
	return (MyProc->delayChkptFlags & DELAY_CHKPT_COMPLETE) != 0;
}

void
sf_server_release_checkpoints(void)
{
	sf_server_delay_checkpoint_end();
	SfProcLxid(MyProc) = InvalidLocalTransactionId;
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

/*
 * Copy what is asked of a slot; false when it does not decode this database.
 *
 * ReplicationSlotControlLock keeps slots from coming and going.  The fields of a slot
 * move on under its spinlock alone, so they are read together under it.
 */
static bool
read_slot(ReplicationSlot *from, SfServerSlot *slot)
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
sf_server_visit_slots(SfServerSlotVisit visit, void *arg)
{
	bool		go_on = true;

	SF_ASSERT(OidIsValid(MyDatabaseId) && !LWLockHeldByMe(ReplicationSlotControlLock));

	/* below that level there is no logical slot */
	if (!XLogLogicalInfoActive())
		return;
	LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
	for (int i = 0; i < max_replication_slots && go_on; i++)
	{
		SfServerSlot slot;

		/*
		 * visit runs after the spinlock was let go: it may do more than that
		 * allows
		 */
		if (read_slot(&ReplicationSlotCtl->replication_slots[i], &slot))
			go_on = visit(&slot, arg);
	}
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

/* Sum up what the levels of subtransactions have counted, from the lowest one up. */
static SfServerWritten
sum_levels(const PgStat_TableXactStatus *lowest)
{
	SfServerWritten written = {SfCountedTable(lowest->parent)};

	for (const PgStat_TableXactStatus *level = lowest; level != NULL; level = level->upper)
	{
		written.came += level->tuples_inserted + level->tuples_updated;
		written.went += level->tuples_deleted + level->tuples_updated;
		/* the levels above count rows of before the TRUNCATE */
		if (level->truncdropped)
			break;
	}
	SF_ASSERT(written.came >= 0 && written.went >= 0);
	return written;
}

void
sf_server_visit_written(SfServerWrittenVisit visit, void *arg)
{
	PgStat_SubXactStatus *level = pgstat_get_xact_stack_level(GetCurrentTransactionNestLevel());

	for (; level != NULL; level = level->prev)
	{
		for (const PgStat_TableXactStatus *table = level->first; table != NULL; table = table->next)
		{
			SfServerWritten written;

			if (table->parent->trans != table ||
				SfCountedTable(table->parent) < FirstNormalObjectId)
				continue;
			written = sum_levels(table);
			visit(&written, arg);
		}
	}
}
