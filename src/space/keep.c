/*-------------------------------------------------------------------------
 *
 * keep.c
 *	  Space that a session needs longer than a snapshot of its own is open.
 *
 * The server computes the horizon from snapshots that are open.  Three readers go on
 * without one:
 *
 *	 a held portal		a cursor WITH HOLD after COMMIT, and the loop of a procedure over
 *						COMMIT: its rows wait in memory or in a file
 *	 a procedure		its variables have what a transaction before its last COMMIT read
 *	 a command			CREATE INDEX and others also read rows that are deleted, and that
 *						only the snapshots of others still show
 *
 * Their values are not copied.  Each process has a place in shared memory for one full
 * transaction id: space that was freed by this transaction, or one after it, stays.
 * Resolvers ask for the oldest of these ids when they ask the server for its horizon.
 *
 *	 reader							resolver
 *	 a snapshot is open				1  asks the server for its horizon
 *	 P	puts its id here			2  asks here
 *	 C	closes the snapshot
 *
 * If C comes before 1, P comes before 2, and the id is seen.  If C comes after 1, the server
 * has told of the snapshot.  A command has no snapshot that is old enough, so it puts an id
 * here that is older than all, asks the server itself, and then puts that horizon here:
 * horizons of the server only go up.
 *
 * A procedure may run for days and read a value now and then; so what it has read is kept
 * for securefile.procedure_retention only.  It is known by two generations: each is
 * filled for that time, and stays for that time when the next one is begun.
 *
 * Storage that is dropped or truncated goes all the same, and so does what a
 * transaction has stored that is rolled back.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "config/config.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "space/keep.h"
#include "space/space_internal.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#define NOTHING		PG_UINT64_MAX	/* is kept */
#define EVERYTHING	UINT64CONST(1)

/* The place of a process. */
typedef struct KeepSlot
{
	pg_atomic_uint64 oldest;
	pg_atomic_uint64 since;		/* a TimestampTz: when it kept nothing last */
	pg_atomic_uint32 readers;	/* SF_KEEP_... */
} KeepSlot;

/* What is kept until a memory context ends. */
typedef struct Keep
{
	dlist_node	link;
	MemoryContextCallback at_reset;
	uint64		oldest;
} Keep;

/* What a procedure has read within a time. */
typedef struct Generation
{
	uint64		oldest;			/* NOTHING: empty */
	TimestampTz begun;
	TimestampTz last;			/* start of the last transaction that has read
								 * something */
} Generation;

static KeepSlot *slots;			/* one for each process that can have a
								 * transaction */
static dlist_head portals = DLIST_STATIC_INIT(portals);
static uint64 command = NOTHING;
static int	commands;			/* that run, one inside the other */
static int	calls;				/* likewise */
static uint64 ended = NOTHING;	/* of portals and procedures that have ended
								 * in this transaction, ... */
static uint32 ended_readers;	/* and which */
static Generation older = {NOTHING};
static Generation newer = {NOTHING};
static bool exit_registered;

static void
init_slots(void)
{
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_write_u64(&slots[i].oldest, NOTHING);
}

const SfSharedArea sf_space_keep_area = {
	.name = "securefile kept space", .at = (void **) &slots,
	.items = &MaxBackends, .item_bytes = sizeof(KeepSlot), .init = init_slots
};

uint64
sfi_keep_oldest(void)
{
	uint64		oldest = NOTHING;

	SF_ASSERT(slots != NULL);
	pg_memory_barrier();
	for (int i = 0; i < MaxBackends; i++)
		oldest = Min(oldest, pg_atomic_read_u64(&slots[i].oldest));
	return oldest;
}

/* ---- this process ---- */

static KeepSlot *
own_slot(void)
{
	SF_ASSERT(sf_compat_process_number() < MaxBackends);
	return &slots[sf_compat_process_number()];
}

/* The process ends: its portals and procedures do, too. */
static void
keep_nothing(int code, Datum arg)
{
	pg_atomic_write_u64(&own_slot()->oldest, NOTHING);
}

/* The oldest id that the variables of procedures need. */
static uint64
oldest_of_call(void)
{
	return Min(older.oldest, newer.oldest);
}

/* The oldest id of all readers of this process, and which ones they are. */
static uint64
oldest_of_readers(uint32 *readers)
{
	uint64		oldest = Min(command, Min(ended, oldest_of_call()));
	dlist_iter	iter;

	SF_ASSERT((command == NOTHING) == (commands == 0));
	*readers = ended_readers | (command != NOTHING ? SF_KEEP_COMMAND : 0) |
		(oldest_of_call() != NOTHING ? SF_KEEP_PROCEDURE : 0) |
		(dlist_is_empty(&portals) ? 0 : SF_KEEP_CURSOR);
	dlist_foreach(iter, &portals)
		oldest = Min(oldest, dlist_container(Keep, link, iter.cur)->oldest);
	return oldest;
}

/* Tell the others.  Never throws, but for the first time in a process. */
static void
publish(void)
{
	KeepSlot   *slot = own_slot();
	uint32		readers;
	uint64		oldest = oldest_of_readers(&readers);

	SF_ASSERT(exit_registered && (readers != 0) == (oldest != NOTHING));
	if (oldest == NOTHING || pg_atomic_read_u64(&slot->oldest) == NOTHING)
		pg_atomic_write_u64(&slot->since, oldest == NOTHING ? 0 : GetCurrentTimestamp());
	pg_atomic_write_u32(&slot->readers, readers);
	pg_atomic_write_u64(&slot->oldest, oldest);
	/* before a snapshot of this process is closed */
	pg_memory_barrier();
}

/* Before something is put into the slot for the first time. */
static void
prepare_exit(void)
{
	if (exit_registered)
		return;
	SF_ASSERT(!IsParallelWorker());
	on_shmem_exit(keep_nothing, (Datum) 0);
	exit_registered = true;
}

/* The oldest transaction whose changes a snapshot that is open here may not see. */
static uint64
oldest_of_snapshots(void)
{
	SF_ASSERT(TransactionIdIsNormal(MyProc->xmin));
	return sf_base_full_xid(MyProc->xmin);
}

/*
 * A reader has ended.  What it had may be in a variable, or on its way to the client: it stays
 * until the transaction ends.  Never throws.
 */
static void
end_later(uint64 oldest, uint32 reader)
{
	SF_ASSERT(oldest != NOTHING);
	if (!IsTransactionState())
		return;
	ended = Min(ended, oldest);
	ended_readers |= reader;
}

/* ---- procedures ---- */

/* Take off what has been kept for long enough. */
static void
expire(TimestampTz now)
{
	int			ms = sf_procedure_retention_ms;

	SF_ASSERT(calls > 0 || oldest_of_call() == NOTHING);
	if (ms < 0)
		return;
	if (TimestampDifferenceExceeds(older.last, now, ms))
		older.oldest = NOTHING;
	if (TimestampDifferenceExceeds(newer.last, now, ms))
		newer.oldest = NOTHING;
}

/* The procedure has, from now on, something that is as old as that. */
static void
add_read(uint64 oldest, TimestampTz now)
{
	SF_ASSERT(calls > 0 && oldest != NOTHING);
	if (newer.oldest != NOTHING && sf_procedure_retention_ms >= 0 &&
		TimestampDifferenceExceeds(newer.begun, now, sf_procedure_retention_ms))
	{
		older.oldest = Min(older.oldest, newer.oldest);
		older.last = newer.last;
		newer.oldest = NOTHING;
	}
	if (newer.oldest == NOTHING)
		newer.begun = now;
	newer.oldest = Min(newer.oldest, oldest);
	newer.last = now;
}

static void
end_call(void)
{
	SF_ASSERT(calls > 0);
	if (--calls > 0 || oldest_of_call() == NOTHING)
		return;
	end_later(oldest_of_call(), SF_KEEP_PROCEDURE);
	older.oldest = newer.oldest = NOTHING;
	publish();
}

bool
sf_space_keep_is_call(void)
{
	return calls > 0;
}

static void
keep_for_call(void)
{
	TimestampTz now = GetCurrentTransactionStartTimestamp();

	SF_ASSERT(calls > 0 && !RecoveryInProgress());
	if (sf_procedure_retention_ms == 0)
		return;
	prepare_exit();
	expire(now);
	add_read(oldest_of_snapshots(), now);
	publish();
}

void
sfi_keep_at_end(void)
{
	uint64		before = Min(ended, oldest_of_call());

	SF_ASSERT(calls > 0 || oldest_of_call() == NOTHING);
	if (before == NOTHING)
		return;
	ended = NOTHING;
	ended_readers = 0;
	expire(GetCurrentTransactionStopTimestamp());
	if (oldest_of_call() != before)
		publish();
}

/* ---- portals ---- */

/*
 * The portal is closed.  What a procedure has fetched from it before is in the procedure's
 * hands.
 */
static void
end_keep(void *arg)
{
	Keep	   *keep = arg;

	SF_ASSERT(exit_registered && keep->oldest != NOTHING);
	dlist_delete(&keep->link);
	if (calls > 0 && sf_procedure_retention_ms != 0)
		add_read(keep->oldest, GetCurrentTimestamp());
	end_later(keep->oldest, SF_KEEP_CURSOR);
	publish();
}

static void
keep_while(MemoryContext context)
{
	Keep	   *keep;

	SF_ASSERT(context != NULL && !RecoveryInProgress());
	prepare_exit();
	keep = MemoryContextAllocZero(context, sizeof(Keep));
	keep->oldest = oldest_of_snapshots();
	keep->at_reset.func = end_keep;
	keep->at_reset.arg = keep;
	dlist_push_head(&portals, &keep->link);
	MemoryContextRegisterResetCallback(context, &keep->at_reset);
	publish();
}

void
sf_space_keep_results(MemoryContext portal)
{
	if (RecoveryInProgress())
		return;
	if (portal != NULL)
		keep_while(portal);
	if (calls > 0)
		keep_for_call();
}

/* ---- commands ---- */

static void
begin_command(void)
{
	SF_ASSERT(!RecoveryInProgress());
	prepare_exit();
	if (commands++ > 0)
		return;
	command = EVERYTHING;
	publish();
	command = sf_base_full_xid(GetOldestNonRemovableTransactionId(NULL));
	publish();
}

static void
end_command(void)
{
	SF_ASSERT(commands > 0);
	if (--commands > 0)
		return;
	command = NOTHING;
	publish();
}

void
sf_space_keep_begins(uint32 reader)
{
	SF_ASSERT(reader == SF_KEEP_PROCEDURE || reader == SF_KEEP_COMMAND);
	if (reader == SF_KEEP_COMMAND)
		begin_command();
	else
		calls++;
	SF_ASSERT(calls + commands > 0);
}

void
sf_space_keep_ends(uint32 reader)
{
	if (reader == SF_KEEP_COMMAND)
		end_command();
	else
		end_call();
}

/* ---- for the functions that show what keeps space ---- */

bool
sf_space_keep_next(int *at, SfKept *kept)
{
	SF_ASSERT(*at >= 0);
	for (; *at < MaxBackends; (*at)++)
	{
		PGPROC	   *proc = GetPGProcByNumber(*at);

		kept->pid = proc->pid;
		kept->db = proc->databaseId;
		kept->oldest = pg_atomic_read_u64(&slots[*at].oldest);
		kept->since = pg_atomic_read_u64(&slots[*at].since);
		kept->readers = pg_atomic_read_u32(&slots[*at].readers);
		if (kept->pid == 0 || kept->oldest == NOTHING)
			continue;
		(*at)++;
		return true;
	}
	return false;
}
