/*-------------------------------------------------------------------------
 *
 * row_runs.c
 *	  Sorted arrays of runs: 24 bytes a run, whatever its number of sectors.
 *
 * A check has to know the owner of every sector.  A value is a run or a few runs.
 * So the array for ten million values takes some 240 MB.  A hash table with an
 * entry for each sector would take a hundred times that, and a bit for each
 * sector could not name the owner.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "rows/rows.h"
#include "space/share_records.h"

StaticAssertDecl(sizeof(SfRowRun) == 24, "size of a run in memory");

void
sf_rows_runs_init(SfRowRuns *runs)
{
	memset(runs, 0, sizeof(SfRowRuns));
	runs->sorted = true;
	runs->runs = sf_base_array_grow(NULL, 0, &runs->size, sizeof(SfRowRun),
									CurrentMemoryContext);
}

/* Add a run as it is, and note whether the array is still in order. */
static void
append_run(SfRowRuns *runs, uint64 start, uint32 count, const ItemPointerData * tid)
{
	SfRowRun   *run;

	SF_ASSERT(count > 0);
	runs->runs = sf_base_array_grow(runs->runs, runs->n, &runs->size, sizeof(SfRowRun), NULL);
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
sf_rows_runs_add(SfRowRuns *runs, uint64 start, uint64 count, uint32 split_at,
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

void
sf_rows_runs_add_owned(SfRowRuns *sectors, SfRowRuns *pages, const SfOwned *owned,
					   int64 given_back, const ItemPointerData * tid)
{
	SF_ASSERT(given_back >= 0);
	for (int64 i = given_back; i < owned->nruns; i++)
		sf_rows_runs_add(sectors, owned->runs[i].start, owned->runs[i].nsectors,
						 SF_MAP_SECTORS, tid);
	for (int64 i = Max(given_back - owned->nruns, 0); i < owned->npages; i++)
		sf_rows_runs_add(pages, owned->pages[i], 1, 0, tid);
}

/* Order of two runs: by start, and runs of one start by row, for stable reports. */
static int
compare_runs(const void *a, const void *b)
{
	const SfRowRun *x = a;
	const SfRowRun *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return ItemPointerCompare(unconstify(ItemPointerData *, &x->tid),
							  unconstify(ItemPointerData *, &y->tid));
}

void
sf_rows_runs_sort(SfRowRuns *runs)
{
	qsort(runs->runs, runs->n, sizeof(SfRowRun), compare_runs);
	runs->next = 0;
	runs->sorted = true;
}
