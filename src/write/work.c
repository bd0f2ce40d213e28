/*-------------------------------------------------------------------------
 *
 * work.c
 *	  What the work of a transaction is noted in: memory until its end, and its
 *	  copies of segments.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "utils/memutils.h"
#include "write/write_internal.h"

static MemoryContext context;
static SfSegment **segments;	/* this transaction's copies */
static int	nsegments;

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
	SF_ASSERT(n >= 0 && n <= *size);
	if (n < *size)
		return array;
	*size = Max(64, *size * 2);
	return array == NULL
		? MemoryContextAllocHuge(sfi_write_context(), *size * item)
		: repalloc_huge(array, *size * item);
}

SfSegment *
sfi_write_segment(SfSegment *seg)
{
	SfSegment  *copy;

	SF_ASSERT(seg->incarnation != 0 && !seg->retained);
	for (int i = 0; i < nsegments; i++)
		if (segments[i] == seg ||
			(segments[i]->relid == seg->relid && SfStorageEquals(segments[i]->storage, seg->storage)))
			return segments[i];
	if (nsegments % 64 == 0)
		segments = nsegments == 0
			? MemoryContextAlloc(sfi_write_context(), 64 * sizeof(SfSegment *))
			: repalloc(segments, (nsegments + 64) * sizeof(SfSegment *));
	copy = MemoryContextAlloc(sfi_write_context(), sizeof(SfSegment));
	*copy = *seg;
	copy->next_id = copy->end_id = 0;	/* not to be given out twice */
	return segments[nsegments++] = copy;
}

void
sfi_work_reset(void)
{
	segments = NULL;
	nsegments = 0;
	if (context != NULL)
		MemoryContextReset(context);
}
