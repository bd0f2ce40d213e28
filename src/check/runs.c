/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  Sorted arrays of runs: 24 bytes a run, however many sectors that is.
 *
 * A check has to know who owns every sector.  A value is a run or a few, so
 * an array of runs of ten million values is some 240 MB, where a bit or a hash
 * entry a sector would be out of the question or out of bounds.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_internal.h"
#include "utils/memutils.h"

#define INITIAL_SIZE	256

StaticAssertDecl(sizeof(SfCheckRun) == 24, "size of a run in memory");

/* In the current memory context. */
void
sfi_check_runs_init(SfCheckRuns *runs)
{
	runs->n = 0;
	runs->size = INITIAL_SIZE;
	runs->next = 0;
	runs->runs = palloc(INITIAL_SIZE * sizeof(SfCheckRun));
}

static void
append(SfCheckRuns *runs, uint64 start, uint32 count, ItemPointer tid)
{
	SfCheckRun *run;

	if (runs->n == runs->size)
	{
		runs->size *= 2;
		runs->runs = repalloc_huge(runs->runs, runs->size * sizeof(SfCheckRun));
	}
	run = &runs->runs[runs->n++];
	run->start = start;
	run->count = count;
	if (tid != NULL)
		run->tid = *tid;
	else
		ItemPointerSetInvalid(&run->tid);
}

void
sfi_check_runs_add(SfCheckRuns *runs, uint64 start, uint64 count, uint32 split_at,
				   ItemPointer tid)
{
	while (count > 0)
	{
		uint64		piece = count;

		if (split_at > 0)
			piece = Min(count, split_at - start % split_at);
		append(runs, start, piece, tid);
		start += piece;
		count -= piece;
	}
}

static int
compare(const void *a, const void *b)
{
	const SfCheckRun *x = a;
	const SfCheckRun *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return ItemPointerCompare(unconstify(ItemPointerData *, &x->tid),
							  unconstify(ItemPointerData *, &y->tid));
}

void
sfi_check_runs_sort(SfCheckRuns *runs)
{
	qsort(runs->runs, runs->n, sizeof(SfCheckRun), compare);
	runs->next = 0;
}

bool
sfi_check_next_run(const uint8 *plane, bool bit, uint32 end, uint32 *at, uint32 *n)
{
	uint32		i = *at;

#define BIT(i)	((plane[(i) / 8] >> ((i) % 8)) & 1)
	while (i < end && BIT(i) != bit)
		i++;
	*at = i;
	while (i < end && BIT(i) == bit)
		i++;
	*n = i - *at;
	return *n > 0;
#undef BIT
}
