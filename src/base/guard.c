/*-------------------------------------------------------------------------
 *
 * guard.c
 *	  Damage on disk: its error; steps that may meet it and must not end the statement;
 *	  and a case that only looks like damage.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/resowner.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

/*
 * Does an error say that stored data are damaged?  A cancel, a lack of memory and
 * the like say nothing about them.
 */
static bool
is_damage(const ErrorData *edata)
{
	switch (ERRCODE_TO_CATEGORY(edata->sqlerrcode))
	{
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
			return false;
		default:
			return true;
	}
}

ErrorData *
sf_base_caught(SfBaseStep step, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile edata = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		step(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return edata;
}

ErrorData *
sf_base_guarded(SfBaseStep step, void *arg)
{
	ErrorData  *edata = sf_base_caught(step, arg);

	if (edata != NULL && !is_damage(edata))
		ReThrowError(edata);
	return edata;
}

bool
sf_base_succeeds(SfBaseStep step, void *arg)
{
	ErrorData  *edata = sf_base_guarded(step, arg);

	if (edata != NULL)
		FreeErrorData(edata);
	return edata == NULL;
}

/*
 * What the abort of a subtransaction does first, and all that a step needs that only reads.
 * The read of a page that ended with an error has left its buffer for others to wait for.
 */
static void
end_reading(void)
{
	HOLD_INTERRUPTS();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	sf_compat_abort_buffer_io();
	UnlockBuffers();
	ConditionVariableCancelSleep();
	LockErrorCleanup();
	reschedule_timeouts();
	RESUME_INTERRUPTS();
}

/* Give to the parent what is kept, or release it; the owner goes. */
static void
release(ResourceOwner guard, bool keep)
{
	ResourceOwnerRelease(guard, RESOURCE_RELEASE_BEFORE_LOCKS, keep, false);
	ResourceOwnerRelease(guard, RESOURCE_RELEASE_LOCKS, keep, false);
	ResourceOwnerRelease(guard, RESOURCE_RELEASE_AFTER_LOCKS, keep, false);
	ResourceOwnerDelete(guard);
}

ErrorData *
sf_base_guarded_read(SfBaseStep step, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ResourceOwner guard = ResourceOwnerCreate(owner, "securefile guard");
	ErrorData  *volatile edata = NULL;

	SF_ASSERT(CritSectionCount == 0);
	CurrentResourceOwner = guard;
	PG_TRY();
	{
		step(arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		end_reading();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	release(guard, edata == NULL);

	if (edata != NULL && !is_damage(edata))
		ReThrowError(edata);
	return edata;
}

void
sf_base_report_damage(const char *problem, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg_internal("%s", problem),
			 errdetail_internal("%s", detail),
			 errhint("Run securefile_check() on the column.")));
}

void
sf_base_report_outlived(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("securefile value no longer exists"),
			 errdetail_internal("%s", detail),
			 errhint("Repeat the command that read the value from its table. If that fails, too, call securefile_check() for the column.")));
}

void
sf_base_refuse_aborted(void)
{
	if (TransactionIdIsValid(CheckXidAlive) && !TransactionIdIsInProgress(CheckXidAlive) &&
		!TransactionIdDidCommit(CheckXidAlive))
		ereport(ERROR,
				(errcode(ERRCODE_TRANSACTION_ROLLBACK),
				 errmsg("transaction was aborted while its changes were decoded")));
}
