/*-------------------------------------------------------------------------
 *
 * verdict.c
 *	  What is to become of a pending entry: rules 1 and 3.
 *
 *	 transaction			ALLOC								FREE
 *	 runs					wait								wait
 *	 aborted, or lost		free, when no slot has to send		drop: the value lives
 *	 in a crash				its PREPARE (else wait)
 *	 committed				drop: the value lives				free, below "removable";
 *																else note the outcome, wait
 *	 cannot be known		lost: keep the space				lost: keep the space
 *
 * "Lost" is an entry older than the commit log, whose outcome nobody has noted.  It
 * keeps its space for ever, or until a repair: to free it could destroy a value, to keep
 * it costs some disk.
 *
 * Why two horizons.  "removable" is about the readers of what a committed transaction has
 * given up: snapshots, prepared transactions, slots, and what sessions keep
 * longer (keep.c).  "prepared" is about
 * the readers of what an aborted one has stored: only a slot with two-phase
 * decoding, which has sent, or is to send, its PREPARE.
 *
 * All ids are full ones (64 bits), so that they compare as numbers and nothing wraps
 * around.  The server tells 32 bits; sf_base_full_xid() adds the epoch, which is right for all ids
 * that can still be asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/server.h"
#include "space/pending.h"
#include "space/space_internal.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

/*
 * A slot with two-phase decoding sends a transaction at its PREPARE, also when
 * it lags and ROLLBACK PREPARED has followed since.  PostgreSQL stops at the
 * first catalog row that it reads then (sf_base_refuse_aborted() is our part of
 * that), but not in changes made under a savepoint: so the values stay, until
 * the slot has passed them.
 */
static bool
note_oldest_prepared(const SfServerSlot *slot, void *arg)
{
	uint64	   *oldest = arg;

	/* a slot that is being made has no xmin yet, and nothing to send */
	if (slot->two_phase && TransactionIdIsValid(slot->catalog_xmin))
		*oldest = Min(*oldest, sf_base_full_xid(slot->catalog_xmin));
	return true;
}

static uint64
oldest_prepared_to_decode(void)
{
	uint64		oldest = PG_UINT64_MAX;

	sf_server_visit_slots(note_oldest_prepared, &oldest);
	return oldest;
}

SfHorizon
sfi_pending_horizon(void)
{
	SfHorizon	horizon;
	TransactionId oldest_clog;

	/*
	 * all databases, prepared transactions, and both xmins of all slots; only
	 * then sessions that go on without a snapshot (keep.c)
	 */
	horizon.removable = sf_base_full_xid(GetOldestNonRemovableTransactionId(NULL));
	horizon.removable = Min(horizon.removable, sfi_keep_oldest());
	horizon.prepared = oldest_prepared_to_decode();
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	oldest_clog = sf_compat_oldest_clog_xid();
	LWLockRelease(XactTruncationLock);
	horizon.clog = sf_base_full_xid(oldest_clog);

	/*
	 * The next id is read last.  A transaction that begins between two of
	 * these questions is at or above it, or is found running: never
	 * "aborted".
	 */
	horizon.next = U64FromFullTransactionId(ReadNextFullTransactionId());
	SF_ASSERT(horizon.clog <= horizon.next && horizon.removable <= horizon.next);
	return horizon;
}

/* The same of an entry, which may have had its outcome noted. */
static SfTransactionEnd
outcome_of_entry(const SfPendEntry *entry, SfHorizon horizon)
{
	if (entry->outcome != SF_OUTCOME_UNKNOWN)
		return SF_END_COMMITTED;
	return sf_base_transaction_end_at(entry->fxid, horizon.next, horizon.clog);
}

bool
sfi_pending_transaction_aborted(uint64 fxid)
{
	SfHorizon	horizon = sfi_pending_horizon();

	SF_ASSERT(!RecoveryInProgress());
	horizon.next = PG_UINT64_MAX;	/* one still to come was lost in a crash */
	return sf_base_transaction_end_at(fxid, horizon.next, horizon.clog) == SF_END_ABORTED;
}

SfVerdict
sfi_pending_verdict(const SfPendEntry *entry, SfHorizon horizon)
{
	bool		is_alloc = sf_format_pend_kind(entry->kind)->is_alloc;

	SF_ASSERT(sf_format_entry_problem(entry) == NULL);
	switch (outcome_of_entry(entry, horizon))
	{
		case SF_END_RUNNING:
			return SF_VERDICT_WAIT;
		case SF_END_UNKNOWN:
			return SF_VERDICT_LOST;
		case SF_END_ABORTED:
			if (!is_alloc)
				return SF_VERDICT_DROP;
			return entry->fxid < horizon.prepared ? SF_VERDICT_FREE : SF_VERDICT_WAIT;
		case SF_END_COMMITTED:
			if (is_alloc)
				return SF_VERDICT_DROP;
			if (entry->fxid < horizon.removable)
				return SF_VERDICT_FREE;
			return entry->outcome != SF_OUTCOME_UNKNOWN ? SF_VERDICT_WAIT : SF_VERDICT_COMMITTED;
	}
	pg_unreachable();
}

/*
 * An outcome that an earlier resolver has noted is from disk, and is not asked about.  The
 * commit log may have been cut beyond the xid since the verdict; it is not cut while the
 * lock is held.
 */
bool
sfi_pending_has_ended(const SfPendEntry *entry, bool committed)
{
	TransactionId xid = (TransactionId) entry->fxid;
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	bool		ended;

	if (entry->outcome != SF_OUTCOME_UNKNOWN)
		return committed;
	if (entry->fxid >= next || TransactionIdIsCurrentTransactionId(xid) ||
		TransactionIdIsInProgress(xid))
		return false;
	LWLockAcquire(XactTruncationLock, LW_SHARED);
	ended = next - entry->fxid > PG_INT32_MAX ||
		TransactionIdPrecedes(xid, sf_compat_oldest_clog_xid()) ||
		TransactionIdDidCommit(xid) == committed;
	LWLockRelease(XactTruncationLock);
	return ended;
}

/*
 * What is not known counts as not live: space of a transaction that still runs is neither
 * live nor free, and securefile_usage() calls it pending.
 */
bool
sfi_pending_is_live(const SfPendEntry *entry, SfHorizon horizon)
{
	bool		is_alloc = sf_format_pend_kind(entry->kind)->is_alloc;

	return outcome_of_entry(entry, horizon) == (is_alloc ? SF_END_COMMITTED : SF_END_ABORTED);
}
