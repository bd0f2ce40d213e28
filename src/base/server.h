/*-------------------------------------------------------------------------
 *
 * server.h
 *	  Insides of the server: state that it does not offer to extensions, and
 *	  that securefile needs all the same.
 *
 * Each part says why.  A port to another version of PostgreSQL looks at this
 * file, which says what is relied on, and at compat.h, which has the differences
 * of names and arguments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SERVER_H
#define SF_SERVER_H

/*
 * Where the server was built with GSSAPI, its headers include those of Kerberos, which
 * no package for extensions brings.  Without the macro a Port has the same layout.
 */
#undef ENABLE_GSS
#include "libpq/libpq.h"
#include "storage/buf.h"
#include "storage/lwlock.h"
#include "utils/snapshot.h"

/*
 * Checkpoints (PGPROC.delayChkptFlags).  Data that WAL records speak of, or that
 * lies in files which the server does not know, must be in its file before a
 * checkpoint may let recovery begin behind those records.  Only this flag makes a
 * checkpoint wait until a backend is through.
 *
 * begin: checkpoints that come to their end from now on wait for this backend.  end
 * lets them go on, and may be called when nothing began.  An ERROR in between needs
 * no end if it aborts the transaction, which clears the flag; the abort of a
 * subtransaction does not.  Both never throw, and may run in critical sections.
 */
extern void sf_server_delay_checkpoint_begin(void);
extern void sf_server_delay_checkpoint_end(void);

/*
 * The same for a background worker that holds checkpoints up all the time, without a
 * transaction.  A checkpoint that has listed this process waits until its id is another
 * one.  anew: hold, from now on under a new id; the flag stays set meanwhile.  release:
 * hold no more.  holds: is the flag set?  Never throw.
 */
extern void sf_server_hold_checkpoints_anew(void);
extern bool sf_server_holds_checkpoints(void);
extern void sf_server_release_checkpoints(void);

/*
 * Content locks of shared buffers (BufferDesc.content_lock).  A list of pages on a
 * damaged disk may lead back to a page that this backend has locked, and then it
 * would wait for itself for ever.  Assertions ask for the mode, too.  The buffer is
 * pinned, and not a local one.  Both never throw.
 */
extern bool sf_server_holds_buffer_lock(Buffer buf);
extern bool sf_server_holds_buffer_lock_in(Buffer buf, LWLockMode mode);

/*
 * Replication slots (ReplicationSlotCtl).  Logical decoding reads values when their
 * transactions are long over, so space and files stay while a slot of this
 * database may ask for them.  The server has no function that lists slots in C.
 */
typedef struct SfServerSlot
{
	bool		two_phase;		/* sends a transaction at its PREPARE */
	TransactionId catalog_xmin; /* in effect; invalid while the slot is being
								 * made */
} SfServerSlot;

/* Told of one slot, which it may keep no pointer to; false: it has seen enough. */
typedef bool (*SfServerSlotVisit) (const SfServerSlot *slot, void *arg);

/*
 * Call visit for each slot that decodes the current database, for none if wal_level
 * is not logical.  A physical slot decodes nothing: its database is InvalidOid.
 * ReplicationSlotControlLock is taken here and held during the calls, so visit must
 * be short, and must not throw.
 */
extern void sf_server_visit_slots(SfServerSlotVisit visit, void *arg);

/*
 * Messages to the client (PqCommMethods).  Rows of large values are sent without a
 * copy, and securefile columns are described as bytea, which no hook of the server
 * allows.  The methods that are set must be complete, last as long as the process, and
 * call the ones that were there before.  Both never throw.
 */
extern const PQcommMethods *sf_server_wire(void);
extern void sf_server_set_wire(const PQcommMethods *methods);

/*
 * Rows of the own transaction (SnapshotData.curcid).  A check compares committed rows
 * with committed space, and no kind of snapshot leaves out what its own transaction
 * has done.  The snapshot is not shared: registered from GetLatestSnapshot(), which
 * copies it.  Never throws.
 */
extern void sf_server_hide_own_changes(Snapshot snapshot);

/*
 * Vacuum (PGPROC.statusFlags).  A long VACUUM of a table must not hold back the horizon
 * of others, as the server's own does not.  Call in a transaction that will look at no
 * rows, before its snapshot is taken.  Takes ProcArrayLock; never throws.
 */
extern void sf_server_begin_vacuum(void);

/*
 * Interrupts (catchupInterruptPending).  A session that waits for its next command
 * outside a transaction is to run a transaction's end, in which it can give memory
 * back; no interrupt is reserved for extensions.  Call in a signal handler, with
 * SetLatch(), or before the session waits.  Never throws.
 */
extern void sf_server_ask_for_turn(void);

/*
 * Rows that this transaction has written (PgStat_TableXactStatus), by whatever function: the
 * heap counts them itself.  Row triggers do not fire for C code that writes rows directly, and
 * the server has no hook there.  What aborted subtransactions wrote is not counted, nor what
 * was there before a TRUNCATE.  Nothing is counted with track_counts = off.
 */
typedef struct SfServerWritten
{
	Oid			table_oid;
	int64		came;			/* rows that were inserted, and new versions */
	int64		went;			/* rows that were deleted, and old versions */
} SfServerWritten;

/* Told of one table; must not write rows. */
typedef void (*SfServerWrittenVisit) (const SfServerWritten *written, void *arg);

/*
 * Call visit once for each table with rows that this transaction has written, those of users
 * only.  Throws what visit throws.
 */
extern void sf_server_visit_written(SfServerWrittenVisit visit, void *arg);

#endif							/* SF_SERVER_H */
