/*-------------------------------------------------------------------------
 *
 * work.c
 *	  What the work of a transaction is noted in: memory until its end, its
 *	  copies of segments, and lists of facts.
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
sf_write_context(void)
{
	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "securefile transaction",
										ALLOCSET_DEFAULT_SIZES);
	return context;
}

void *
sf_write_make_room(void *array, int64 n, int64 *size, Size item)
{
	if (n < *size)
		return array;
	*size = Max(64, *size * 2);
	return array == NULL
		? MemoryContextAllocHuge(sf_write_context(), *size * item)
		: repalloc_huge(array, *size * item);
}

SfSegment *
sf_write_segment(SfSegment *seg)
{
	SfSegment  *copy;

	for (int i = 0; i < nsegments; i++)
		if (segments[i] == seg ||
			(segments[i]->relid == seg->relid && SfNodeEquals(segments[i]->node, seg->node)))
			return segments[i];
	if (nsegments % 64 == 0)
		segments = nsegments == 0
			? MemoryContextAlloc(sf_write_context(), 64 * sizeof(SfSegment *))
			: repalloc(segments, (nsegments + 64) * sizeof(SfSegment *));
	copy = MemoryContextAlloc(sf_write_context(), sizeof(SfSegment));
	*copy = *seg;
	copy->next_id = copy->end_id = 0;	/* not to be given out twice */
	return segments[nsegments++] = copy;
}

/* ---- facts ---- */

static void
add_fact(SfFacts *facts, SfSegment *seg, SfRun run)
{
	facts->items = sf_write_make_room(facts->items, facts->n, &facts->size, sizeof(SfFact));
	facts->items[facts->n++] = (SfFact) {seg, run};
}

void
sf_facts_add_runs(SfFacts *facts, SfSegment *seg, const SfRun *runs, int n)
{
	for (int i = 0; i < n; i++)
		add_fact(facts, seg, runs[i]);
}

void
sf_facts_add_pages(SfFacts *facts, SfSegment *seg, const uint32 *pages, int n)
{
	for (int i = 0; i < n; i++)
		add_fact(facts, seg, (SfRun) {pages[i], 1});
}

static int
cmp_facts(const void *a, const void *b)
{
	const SfFact *x = a;
	const SfFact *y = b;

	if (x->seg != y->seg)
		return x->seg < y->seg ? -1 : 1;
	return x->run.start < y->run.start ? -1 : x->run.start > y->run.start;
}

void
sf_facts_sort(SfFacts *facts, bool merge)
{
	int64		to = 0;

	if (facts->n == 0)
		return;
	qsort(facts->items, facts->n, sizeof(SfFact), cmp_facts);
	for (int64 i = 1; merge && i < facts->n; i++)
	{
		SfFact	   *last = &facts->items[to];
		SfFact	   *fact = &facts->items[i];

		if (last->seg == fact->seg && last->run.start + last->run.nsectors == fact->run.start &&
			last->run.start / SF_MAP_SECTORS == fact->run.start / SF_MAP_SECTORS)
			last->run.nsectors += fact->run.nsectors;
		else
			facts->items[++to] = *fact;
	}
	if (merge)
		facts->n = to + 1;
}

void
sf_work_reset(void)
{
	segments = NULL;
	nsegments = 0;
	if (context != NULL)
		MemoryContextReset(context);
}
