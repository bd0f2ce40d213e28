/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  What a process keeps of its memory between transactions, and when it
 *	  gives that back.
 *
 * Fresh memory costs more than moving the data, so a process that moves large
 * values keeps its I/O buffers (buffer.c) and tells malloc to keep what it
 * frees.  With many sessions that is too much.  So what is kept is counted, by
 * what the process has grown since it last gave everything back, and the sum of
 * all processes has a limit (securefile.kept_memory_total): a process that ends a
 * transaction above it gives back.  A session that has not moved large values
 * for securefile.kept_memory_timeout gives back, too.
 *
 * At the end of a transaction its message, parameters and results are still
 * there; they go just before the session waits for the next command.  A session
 * that waits runs no code but for interrupts, so we ask for one that does no
 * harm: catching up with invalidations.  Outside of a transaction that is a
 * transaction without any work, whose end comes here.
 *
 *		 moves a large value	sf_io_use_memory()		joins, is used
 *		 transaction ends		look()					counted; too much: over
 *		 waits for a command	sf_io_memory_at_end()	over: gives back
 *		 timeout				sf_io_memory_at_end()	idle for long: gives back
 *
 * The limit is soft.  Nobody waits for memory, and nobody takes it from another process:
 * a process that finds the sum too large gives up its own part, and that only.
 *
 * A process that never moves a large value has no part in all this.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <unistd.h>

#include "base/server.h"
#include "config/config.h"
#include "io/io_internal.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

/* the most that glibc takes as M_MMAP_THRESHOLD on 64-bit machines */
#define KEEP_MMAP_THRESHOLD	(32 * 1024 * 1024)
#define KEEP_TRIM_THRESHOLD	(64 * 1024 * 1024)

/* malloc's own, without growing by itself */
#define PLAIN_THRESHOLD		(128 * 1024)

/* about what a process has that has done nothing yet */
#define FRESH_BYTES			(4 * 1024 * 1024)

/* reckoned with where the system does not tell */
#define ASSUMED_BYTES		KEEP_TRIM_THRESHOLD

typedef struct MemoryShared
{
	pg_atomic_uint64 kept_bytes;	/* of all processes */
	pg_atomic_uint32 processes; /* that keep anything */
} MemoryShared;

static MemoryShared *shared;

/* This process. */
static struct
{
	bool		joined;			/* it has moved a large value */
	bool		used;			/* in this transaction */
	bool		keeping;		/* malloc keeps what is freed */
	int64		baseline;		/* size of the process with nothing kept */
	uint64		counted;		/* its part of kept_bytes */
	uint64		refused;		/* what was too much for the limit */
	bool		over;			/* gives back as soon as it waits */
	TimestampTz last_used;
	TimeoutId	timeout;
	bool		has_timeout;
}			account;

/* The timeout has come; set by a signal. */
static volatile sig_atomic_t timeout_came = false;

const SfSharedArea sf_io_memory_area = {
	.name = "securefile kept memory", .at = (void **) &shared, .bytes = sizeof(MemoryShared)
};

/*
 * Private memory of this process that is in use, from the system; -1 when it
 * does not tell.  The first numbers are pages: of addresses, resident, and
 * resident ones that are of files or shared.  Shared buffers are among the latter, so
 * they count for nobody.  No file functions of the server: they may throw.
 */
static int64
private_bytes(void)
{
	char		text[128] = {0};
	long		pages;
	long		resident;
	long		of_files;
	int			fd = -1;
	ssize_t		len;

	if (!SF_FAULT_FAILS(io_memory))
		fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = SF_FAULT_FAILS(io_memory) ? -1 : read(fd, text, sizeof(text) - 1);
	(void) close(fd);
	if (len <= 0 || sscanf(text, "%ld %ld %ld", &pages, &resident, &of_files) != 3)
		return -1;
	return (int64) (resident - of_files) * sysconf(_SC_PAGESIZE);
}

/*
 * Tell malloc to keep what is freed, or to give it back at once.  Large blocks come from
 * mmap() by default and go back with each free(), so every statement would have the
 * kernel clear the same pages anew.
 */
static void
set_keeping(bool keeping)
{
	account.keeping = keeping;
#ifdef __GLIBC__
	if (sf_keep_memory)
	{
		(void) mallopt(M_MMAP_THRESHOLD, keeping ? KEEP_MMAP_THRESHOLD : PLAIN_THRESHOLD);
		(void) mallopt(M_TRIM_THRESHOLD, keeping ? KEEP_TRIM_THRESHOLD : PLAIN_THRESHOLD);
	}
#endif
}

/*
 * Make it known how much this process keeps; returns what all keep.  Without a lock: each
 * process adds its own difference, so the sum is right whenever nobody is in between.
 */
static uint64
count(uint64 bytes)
{
	SF_ASSERT(account.joined || bytes == 0);
	if ((bytes > 0) != (account.counted > 0))
		(void) pg_atomic_fetch_add_u32(&shared->processes, bytes > 0 ? 1 : -1);
	/* the sum is of 64 bits: what is less is added as what is more */
	(void) pg_atomic_fetch_add_u64(&shared->kept_bytes, (int64) bytes - (int64) account.counted);
	account.counted = bytes;
	return pg_atomic_read_u64(&shared->kept_bytes);
}

/* A transaction that is still open ends after this, and is not to be counted. */
static void
forget_at_exit(int code, Datum arg)
{
	(void) count(0);
	shared = NULL;
}

/*
 * A process that has never done so begins to keep memory.  It has a large message
 * or result already, which is not to count as what it always has.
 */
static void
join_keepers(void)
{
	SF_ASSERT(shared != NULL && !account.joined && account.counted == 0);
	before_shmem_exit(forget_at_exit, (Datum) 0);
	account.joined = true;
	/* -1 stays -1: then look() reckons with ASSUMED_BYTES */
	account.baseline = Min(private_bytes(), FRESH_BYTES);
	set_keeping(true);
}

/* Called for each large value, so the usual case is one look at a flag. */
void
sf_io_use_memory(void)
{
	if (account.used || shared == NULL)
		return;
	if (!account.joined)
		join_keepers();
	account.used = true;
}

/* Does this process wait for commands of a client, and look at interrupts then? */
static bool
is_session(void)
{
	return MyBackendType == B_BACKEND;
}

/* Runs in a signal handler: it may only set flags, and ask for a turn of the main loop. */
static void
timeout_handler(void)
{
	timeout_came = true;
	sf_server_ask_for_turn();
	SetLatch(MyLatch);
}

/* Unless it runs already: then it is found to be too early when it comes. */
static void
start_timeout(int ms)
{
	if (!is_session() || ms <= 0)
		return;
	if (!account.has_timeout)
		account.timeout = RegisterTimeout(USER_TIMEOUT, timeout_handler);
	account.has_timeout = true;
	if (!get_timeout_active(account.timeout))
		enable_timeout_after(account.timeout, ms);
}

/*
 * Give everything back.  The buffers first: malloc_trim() finds only what malloc has.
 * What the process is after that is the new baseline, for some of it never goes.
 */
static void
give_back(void)
{
	SF_ASSERT(account.joined && !account.used);
	sf_io_reap_all();
	sfi_io_buffers_release();
#ifdef __GLIBC__
	(void) malloc_trim(0);
#endif
	account.baseline = private_bytes();
	account.over = false;
	(void) count(0);
}

/*
 * Count what is kept: rather too much, as some of it is in use still.  Above the
 * limit a session gives back when it waits; until there is room again malloc keeps
 * nothing.  Room is there when what this process had to give up (refused) would fit:
 * with less, it would be over the limit again at once, and go to and fro.
 */
static void
look(void)
{
	int64		now = private_bytes();
	uint64		limit = (uint64) sf_kept_memory_total_kb * 1024;
	uint64		bytes = now < 0 || account.baseline < 0 ? ASSUMED_BYTES
		: Max(now - account.baseline, 0);
	uint64		total = count(bytes);

	SF_ASSERT(account.joined && account.counted == bytes);

	/*
	 * Kept for end_timeout(): the timeout runs from its start, not from the
	 * last use.
	 */
	account.last_used = GetCurrentTimestamp();
	if (total <= limit)
	{
		if (!account.keeping && total - bytes + Max(bytes, account.refused) <= limit)
			set_keeping(true);
		if (bytes > 0)
			start_timeout(sf_kept_memory_timeout_ms);
		return;
	}
	if (account.keeping)
		account.refused = bytes;
	set_keeping(false);
	if (is_session())
	{
		account.over = true;
		sf_server_ask_for_turn();
	}
	else
		give_back();
}

/* The timeout has come: give back, unless large values were moved since it began. */
static void
end_timeout(void)
{
	TimestampTz end = TimestampTzPlusMilliseconds(account.last_used, sf_kept_memory_timeout_ms);
	long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);

	if (left > 0)
		start_timeout((int) Min(left, INT_MAX));
	else if (sf_kept_memory_timeout_ms > 0)
		give_back();
}

/*
 * The flag of the signal is cleared at each end, whatever comes of it: a timeout that
 * comes while large values are moved finds the process in use, and look() starts the
 * next one.
 */
void
sf_io_memory_at_end(void)
{
	bool		came = timeout_came;

	timeout_came = false;
	if (shared == NULL)
		return;
	if (account.used)
	{
		account.used = false;
		look();
	}
	else if (account.over)
		give_back();
	else if (came && account.counted > 0)
		end_timeout();
}

SfKeptMemory
sf_io_kept_memory(void)
{
	SfKeptMemory kept = {0};

	if (shared == NULL)
		return kept;
	kept.total_bytes = pg_atomic_read_u64(&shared->kept_bytes);
	kept.processes = pg_atomic_read_u32(&shared->processes);
	kept.own_bytes = account.counted;
	return kept;
}
