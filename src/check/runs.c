/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  Sorted arrays of runs: 24 bytes a run, whatever its number of sectors;
 *	  and runs of bits.
 *
 * A check has to know the owner of every sector.  A value is a run or a few runs.
 * So the array for ten million values takes some 240 MB.  A hash table with an
 * entry for each sector would take a hundred times that, and a bit for each
 * sector could not name the owner.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_internal.h"

StaticAssertDecl(sizeof(SfCheckRun) == 24, "size of a run in memory");

void
sfi_check_runs_init(SfCheckRuns *runs)
{
	memset(runs, 0, sizeof(SfCheckRuns));
	runs->sorted = true;
	runs->runs = sf_base_array_grow(NULL, 0, &runs->size, sizeof(SfCheckRun),
									CurrentMemoryContext);
}

/* Add a run as it is, and note whether the array is still in order. */
static void
append_run(SfCheckRuns *runs, uint64 start, uint32 count, const ItemPointerData * tid)
{
	SfCheckRun *run;

	SF_ASSERT(count > 0);
	runs->runs = sf_base_array_grow(runs->runs, runs->n, &runs->size, sizeof(SfCheckRun), NULL);
	runs->sorted &= runs->n == 0 || runs->runs[runs->n - 1].start <= start;
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
				   const ItemPointerData * tid)
{
	while (count > 0)
	{
		uint64		part = count;

		if (split_at > 0)
			part = Min(count, split_at - start % split_at);
		SF_ASSERT(part <= PG_UINT32_MAX);
		append_run(runs, start, part, tid);
		start += part;
		count -= part;
	}
}

/* Order of two runs: by start, and runs of one start by row, for stable reports. */
static int
compare_runs(const void *a, const void *b)
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
	qsort(runs->runs, runs->n, sizeof(SfCheckRun), compare_runs);
	runs->next = 0;
	runs->sorted = true;
}

bool
sfi_check_next_run(const uint8 *plane, bool bit, uint32 end, uint32 *at, uint32 *n)
{
	uint32		i = *at;

	SF_ASSERT(*at <= end);
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
