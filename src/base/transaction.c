/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  How a transaction has ended, and what it has locked.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

/*
 * How a transaction ended.  In-progress is asked before clog, which would call one
 * aborted that is still to come: one begun since next was read, or damage.  And it is asked
 * before clog because a transaction commits first in clog and then leaves the list of
 * running ones: asked the other way round, one that commits in between is neither.
 */
SfTransactionEnd
sf_base_transaction_end_at(uint64 fxid, uint64 next, uint64 oldest)
{
	TransactionId xid = XidFromFullTransactionId(FullTransactionIdFromU64(fxid));

	if (fxid < oldest)
		return SF_END_UNKNOWN;
	if (fxid >= next)
		return SF_END_RUNNING;
	if (TransactionIdIsCurrentTransactionId(xid) || TransactionIdIsInProgress(xid))
		return SF_END_RUNNING;
	return TransactionIdDidCommit(xid) && !SF_BREAKS(s5) ? SF_END_COMMITTED : SF_END_ABORTED;
}

/*
 * The commit log is not cut between the look at where it begins and the one into it.
 */
SfTransactionEnd
sf_base_transaction_end(uint64 fxid)
{
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	SfTransactionEnd end;

	SF_ASSERT(fxid > 0);
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	end = sf_base_transaction_end_at(fxid, next, sf_base_full_xid(sf_compat_oldest_clog_xid()));
	LWLockRelease(XactTruncationLock);
	return end;
}

bool
sf_base_has_locked(Oid table_oid, int lockmode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, table_oid);
	return sf_compat_lock_held(&tag, lockmode);
}
