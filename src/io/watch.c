/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  What each process reads, writes and flushes, by file, while it does so.
 *
 * A process has a place in shared memory, which only that process writes to, and which
 * holds the files that it has used last.  A file that was not used for longest gives way
 * to another one, and its counts are lost.  So nothing here takes a lock, or waits.
 *
 * The place has a count of changes, odd while one is being made.  A reader copies the
 * place, and does so again if the count was odd, or is another one after that.
 *
 * A request ends for this process when it is reaped: the time of an asynchronous one, from
 * begin to end, is what it took, or, where the process did something else meanwhile, more.
 *
 * Auxiliary processes are not watched: the startup process replays past the requests.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "io/io_internal.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/proc.h"

#define FILES			8		/* of one process */
#define COPY_TRIES		1000

typedef struct Place
{
	volatile uint32 changes;	/* odd: a change is being made */
	int			pid;			/* 0: of nobody */
	Oid			role;			/* of the session */
	SfIoWatched files[FILES];
} Place;

static Place *places = NULL;	/* one for each process that is not auxiliary */
static Place *own_place = NULL;
static uint64 use_clock = 0;

const SfSharedArea sf_io_watch_area = {
	.name = "securefile I/O of processes", .at = (void **) &places,
	.items = &MaxBackends, .item_bytes = sizeof(Place)
};

/* ---- the place of this process ---- */

/* Around each change of what others read. */
static void
begin_change(void)
{
	SF_ASSERT(own_place->changes % 2 == 0);
	own_place->changes++;
	pg_write_barrier();
}

static void
end_change(void)
{
	pg_write_barrier();
	own_place->changes++;
	SF_ASSERT(own_place->changes % 2 == 0);
}

/* What comes after that is not watched. */
static void
leave_at_exit(int code, Datum arg)
{
	begin_change();
	own_place->pid = 0;
	end_change();
	own_place = NULL;
	places = NULL;
}

/* Has this process a place?  It gets it with its first operation. */
static bool
has_place(void)
{
	if (own_place != NULL)
		return true;
	if (places == NULL || MyProc == NULL || sf_compat_process_number() >= MaxBackends)
		return false;
	on_shmem_exit(leave_at_exit, (Datum) 0);
	own_place = &places[sf_compat_process_number()];
	begin_change();
	memset(own_place->files, 0, sizeof(own_place->files));
	own_place->pid = MyProcPid;
	own_place->role = MyProc->roleId;
	end_change();
	return true;
}

/* Is that the place of a file? */
static bool
is_of(const SfIoWatched *file, SfFileId id)
{
	return file->last_used > 0 && sfi_io_same_file(file->id, id);
}

/*
 * The number of a file, or of the one that gives way to it; -1 if requests to all others are
 * in flight.
 */
static int
find_place(SfFileId id)
{
	int			oldest = -1;

	for (int i = 0; i < FILES; i++)
	{
		const SfIoWatched *file = &own_place->files[i];

		if (is_of(file, id))
			return i;
		if (file->in_flight == 0 &&
			(oldest < 0 || file->last_used < own_place->files[oldest].last_used))
			oldest = i;
	}
	return oldest;
}

int
sfi_watch_count(SfFileId id, SfIoKind kind, uint64 bytes)
{
	int			number;
	SfIoWatched *file;

	if (!has_place() || (number = find_place(id)) < 0)
		return -1;
	file = &own_place->files[number];
	SF_ASSERT(file->in_flight == 0 || is_of(file, id));
	begin_change();
	if (!is_of(file, id))
	{
		memset(file, 0, sizeof(*file));
		file->id = id;
	}
	file->last_used = ++use_clock;
	file->did[kind].count++;
	file->did[kind].bytes += bytes;
	end_change();
	return number;
}

/* The file an operation counts for; NULL: none. */
static SfIoWatched *
watched_file(int watched)
{
	SF_ASSERT(watched < FILES);
	return own_place == NULL || watched < 0 ? NULL : &own_place->files[watched];
}

/* Within a change. */
static void
add_time(SfIoWatched *file, SfIoKind kind, uint64 us)
{
	file->did[kind].us += us;
	file->longest_us = Max(file->longest_us, us);
}

/* Clocks are read whether the file is watched or not: calibrate.c wants the time. */
void
sfi_watch_begin(SfIo *io)
{
	SfIoWatched *file = watched_file(io->watched);

	io->began_us = sf_base_now_us();
	if (file == NULL)
		return;
	begin_change();
	file->in_flight++;
	file->in_flight_bytes += io->len_bytes;
	end_change();
}

void
sfi_watch_end(SfIo *io)
{
	SfIoWatched *file = watched_file(io->watched);
	uint64		us = sf_base_now_us() - io->began_us;

	io->service_us += us;
	if (file == NULL)
		return;
	SF_ASSERT(file->in_flight > 0 && file->in_flight_bytes >= io->len_bytes);
	begin_change();
	file->in_flight--;
	file->in_flight_bytes -= io->len_bytes;
	add_time(file, io->is_write ? SF_IO_WRITE : SF_IO_READ, us);
	end_change();
}

void
sfi_watch_took(int watched, SfIoKind kind, uint64 began_us)
{
	SfIoWatched *file = watched_file(watched);

	if (file == NULL)
		return;
	begin_change();
	add_time(file, kind, sf_base_now_us() - began_us);
	end_change();
}

/* ---- the places of all ---- */

/*
 * After many tries the copy is taken as it is: the process may have been stopped in the
 * middle of a change.  Then numbers of one file may be a moment apart.
 */
static Place
copy_place(const Place *place)
{
	Place		copy;

	for (int i = 0; i < COPY_TRIES; i++)
	{
		uint32		before = place->changes;

		pg_read_barrier();
		copy = *place;
		pg_read_barrier();
		if (before % 2 == 0 && place->changes == before)
			break;
	}
	return copy;
}

void
sf_io_watch(SfIoWatchFn fn, void *arg)
{
	for (int i = 0; places != NULL && i < MaxBackends; i++)
	{
		Place		place;

		/* most are of nobody */
		if (places[i].pid == 0)
			continue;
		place = copy_place(&places[i]);
		for (int n = 0; place.pid != 0 && n < FILES; n++)
		{
			if (place.files[n].last_used > 0)
				fn(place.pid, place.role, &place.files[n], arg);
		}
	}
}
