/*-------------------------------------------------------------------------
 *
 * work.c
 *	  What the work of a transaction is noted in: memory until its end, and its
 *	  copies of segments.
 *
 * Why a copy: an entry of the cache of segments is overwritten when its column gets new
 * storage, and a transaction must still know where it has written before that.  So it has
 * a copy for each storage that it met; what a copy says stays as it was.
 *
 * Nothing here is undone by a savepoint: memory and copies of an aborted level are just
 * not used any more, and go with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "storage/ipc.h"
#include "utils/memutils.h"
#include "write/write_internal.h"

static MemoryContext context;
static SfSegment **segments;	/* this transaction's copies */
static int64 nsegments;
static int64 segments_size;
static bool closed;				/* pre-commit has begun: nothing may be added */
static bool has_entries;		/* in WAL, or about to be */
static bool exit_registered;

/* The process ends: no write of it may be in flight when shared memory is let go. */
static void
at_exit(int code, Datum arg)
{
	sf_io_reap_all();
}

void
sfi_write_require_open(void)
{
	if (closed)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("securefile values cannot be changed while the transaction is being committed")));
	if (!exit_registered)
	{
		/* runs after the abort of an open transaction */
		on_shmem_exit(at_exit, (Datum) 0);
		exit_registered = true;
	}
}

void
sfi_work_close(void)
{
	SF_ASSERT(!closed);
	closed = true;
}

void
sfi_write_note_entries(void)
{
	has_entries = true;
}

bool
sfi_work_has_entries(void)
{
	return has_entries;
}

MemoryContext
sfi_write_context(void)
{
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "securefile transaction",
										ALLOCSET_DEFAULT_SIZES);
	return context;
}

void *
sfi_write_make_room(void *array, int64 n, int64 *size, Size item)
{
	return sf_base_array_grow(array, n, size, item, sfi_write_context());
}

SfSegment *
sfi_write_segment(SfSegment *seg)
{
	SfSegment  *copy;

	SF_ASSERT(seg->incarnation != 0 && !seg->retained);

	/*
	 * By storage and not by relation: a column whose storage was replaced in
	 * this transaction has two copies, and what was written to the old
	 * storage is still noted with the first.
	 */
	for (int64 i = 0; i < nsegments; i++)
		if (segments[i] == seg ||
			(segments[i]->relid == seg->relid &&
			 SfStorageEquals(segments[i]->storage, seg->storage)))
			return segments[i];
	segments = sfi_write_make_room(segments, nsegments, &segments_size, sizeof(SfSegment *));
	copy = MemoryContextAlloc(sfi_write_context(), sizeof(SfSegment));
	*copy = *seg;

	/*
	 * Ids are reserved in the cache entry only; two places that hand out the
	 * same range would give an id twice.
	 */
	copy->next_id = copy->end_id = 0;
	return segments[nsegments++] = copy;
}

bool
sfi_write_retains(SfSegment *seg)
{
	SF_ASSERT(!seg->retained);
	return sf_space_column(seg)->options.retention_us > 0;
}

bool
sfi_work_has_segments(void)
{
	return nsegments > 0;
}

void
sfi_work_reset(void)
{
	segments = NULL;
	nsegments = segments_size = 0;
	closed = has_entries = false;
	if (context != NULL)
		MemoryContextReset(context);
}
