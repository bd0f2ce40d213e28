/*-------------------------------------------------------------------------
 *
 * maps.c
 *	  The space map against what the live rows own and pending entries name.
 *
 * Every used sector must be owned by a live row or named by a pending entry, other
 * than one that a committed transaction took it by (see pages.c);
 * what a row owns must be marked used, and no entry may be about to free it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_internal.h"
#include "port/pg_bitutils.h"

/*
 * Set the bits of those runs that lie in the map page whose first sector is
 * given; *from and *end tell which of the sorted runs these are.
 */
static void
fill_plane(uint8 *plane, SfCheckRuns *runs, uint64 first, Size *from, Size *end)
{
	memset(plane, 0, SF_MAP_SECTORS / 8);
	while (runs->next < runs->n && runs->runs[runs->next].start < first)
		runs->next++;
	*from = runs->next;
	while (runs->next < runs->n && runs->runs[runs->next].start < first + SF_MAP_SECTORS)
	{
		SfCheckRun *run = &runs->runs[runs->next++];
		uint32		at = run->start - first;

		SF_ASSERT(at + run->count <= SF_MAP_SECTORS);
		for (uint32 i = at; i < at + run->count; i++)
			plane[i / 8] |= 1 << (i % 8);
	}
	*end = runs->next;
}

void
sfi_check_rewind_planes(SfPageWalk *walk)
{
	walk->check->owned.next = walk->named.next = walk->doomed.next = 0;
}

void
sfi_check_fill_planes(SfPageWalk *walk, uint64 first, SfCheckPlanes *planes)
{
	Size		from;
	Size		end;

	fill_plane(planes->named, &walk->named, first, &from, &end);
	fill_plane(planes->doomed, &walk->doomed, first, &from, &end);
	fill_plane(planes->owned, &walk->check->owned, first,
			   &planes->owned_from, &planes->owned_end);
}

/* Report the parts of a row's run that have a bit as it must not be; any? */
static bool
report_parts(SfPageWalk *walk, SfCheckRun *run, uint64 first, const uint8 *plane,
			 bool bad, const char *action, const char *finding, const char *detail)
{
	uint32		at = run->start - first;
	uint32		end = at + run->count;
	uint32		n;
	bool		any = false;

	for (; sfi_check_next_run(plane, bad, end, &at, &n); at += n)
	{
		any = true;
		sfi_check_report(walk->check, action, finding, &run->tid, first + at, n, "%s", detail);
	}
	return any;
}

static void
flush_lost(SfPageWalk *walk)
{
	if (walk->lost_count > 0)
		sfi_check_report(walk->check, sfi_check_unowned(walk), "used but not owned", NULL,
						 walk->lost_start, walk->lost_count,
						 "by no live row and no pending entry");
	walk->lost_count = 0;
}

/* Collect sectors that nobody owns; neighbours make one finding. */
static void
add_lost(SfPageWalk *walk, uint64 sector)
{
	if (walk->lost_count > 0 && sector == walk->lost_start + walk->lost_count)
	{
		walk->lost_count++;
		return;
	}
	flush_lost(walk);
	walk->lost_start = sector;
	walk->lost_count = 1;
}

/* Who sets sectors free wants to find them used. */
static void
report_free_but_doomed(SfPageWalk *walk, uint64 first, const uint8 *used, uint8 *doomed)
{
	uint32		at = 0;
	uint32		n;

	for (int i = 0; i < SF_MAP_SECTORS / 8; i++)
		doomed[i] &= ~used[i];
	for (; sfi_check_next_run(doomed, true, SF_MAP_SECTORS, &at, &n); at += n)
		sfi_check_report(walk->check, SF_REPAIR_MARK, "to be freed but free", NULL, first + at, n,
						 "a pending entry will set it free, the space map takes it for free");
}

/* What is set free twice may be in use by others the second time. */
static void
report_doomed_twice(SfPageWalk *walk)
{
	SfCheckRuns *doomed = &walk->doomed;
	uint64		end = 0;

	for (Size i = 0; i < doomed->n; i++)
	{
		SfCheckRun *run = &doomed->runs[i];

		if (run->start < end)
		{
			walk->lists_damaged = true;
			sfi_check_report(walk->check, SF_REPAIR_LISTS, "to be freed twice", NULL,
							 run->start, Min(end - run->start, run->count),
							 "two pending entries will set it free");
		}
		end = Max(end, run->start + run->count);
	}
}

/*
 * A page that is old, or may be, takes for free what it should not, of values
 * whose place is not known, too.
 */
static void
report_distrusted(SfPageWalk *walk, uint32 map)
{
	sfi_check_runs_add(&walk->distrusted_maps, map, 1, 0, NULL);
	sfi_check_report(walk->check, SF_REPAIR_PAGE, "damaged page", NULL, 0, 0,
					 "page %u of the segment relation is an old one, and may have the place of a damaged value for free",
					 SF_MAP_PAGE(map));
}

static void
check_page(SfPageWalk *walk, uint64 first, const SfMap *map)
{
	SfCheck    *check = walk->check;
	SfCheckPlanes planes;
	uint64		nused = pg_popcount((const char *) map->used, sizeof(map->used));
	bool		is_old = first + SF_MAP_SECTORS > check->header.total_sectors &&
	check->total_sectors > check->header.total_sectors;

	sfi_check_fill_planes(walk, first, &planes);
	for (Size i = planes.owned_from; i < planes.owned_end; i++)
	{
		SfCheckRun *run = &check->owned.runs[i];

		is_old |= report_parts(walk, run, first, map->used, false, SF_REPAIR_MARK, "owned but free",
							   "the space map takes it for free");
		walk->lists_damaged |= report_parts(walk, run, first, planes.doomed, true, SF_REPAIR_LISTS,
											"owned but to be freed",
											"a pending entry will set it free");
	}
	report_free_but_doomed(walk, first, map->used, planes.doomed);
	if (is_old && check->hidden && !check->moving)
		report_distrusted(walk, sf_map_of(first));
	for (uint32 b = 0; b < sizeof(map->used) && !check->moving; b++)
	{
		uint8		lost = map->used[b] & ~(planes.owned[b] | planes.named[b]);

		for (int i = 0; lost != 0 && i < 8; i++)
			if (lost & (1 << i))
				add_lost(walk, first + b * 8 + i);
	}
	if (nused != map->used_sectors)
		sfi_check_report(check, SF_REPAIR_CORRECT, "wrong count of used sectors", NULL, first, SF_MAP_SECTORS,
						 "the page says %u, there are " UINT64_FORMAT, map->used_sectors, nused);
}

/* Growth wants to find nothing where a map page will be, or one that was cut off. */
static bool
may_be_taken(const SfCheckPage *read)
{
	uint32		at = 0;
	uint32		n;

	return read->is_new ||
		(read->type == SF_PAGE_MAP && read->u.map.used_sectors == 0 &&
		 !sfi_check_next_run(read->u.map.used, true, SF_MAP_SECTORS, &at, &n));
}

static void
check_unused(SfPageWalk *walk, SfCheckPage *read)
{
	uint64		map = sf_maps_of(walk->check->total_sectors);

	for (; SF_MAP_PAGE(map) < walk->npages; map++)
	{
		bool		readable = sfi_check_read_any(walk, SF_REPAIR_PAGE, SF_MAP_PAGE(map), read);

		if (readable && may_be_taken(read))
			continue;
		if (readable)
			sfi_check_report(walk->check, SF_REPAIR_PAGE, "damaged page", NULL, 0, 0,
							 "page %u of the segment relation: expected none yet, found type %d",
							 read->page, read->type);
		sfi_check_runs_add(&walk->damaged_maps, map, 1, 0, NULL);
		walk->end_page = Max(walk->end_page, read->page + 1);
	}
}

void
sfi_check_map(SfPageWalk *walk)
{
	SfCheckPage *read = palloc(sizeof(SfCheckPage));
	uint64		total = walk->check->total_sectors;

	sfi_check_runs_sort(&walk->named);
	sfi_check_runs_sort(&walk->doomed);
	sfi_check_rewind_planes(walk);
	report_doomed_twice(walk);
	for (uint64 first = 0; first < total; first += SF_MAP_SECTORS)
	{
		uint32		map = sf_map_of(first);

		if (sfi_check_read(walk, SF_REPAIR_PAGE, SF_MAP_PAGE(map), SF_PAGE_MAP, read))
			check_page(walk, first, &read->u.map);
		else
			sfi_check_runs_add(&walk->damaged_maps, map, 1, 0, NULL);
	}
	flush_lost(walk);
	if (!walk->check->moving)
		check_unused(walk, read);
	pfree(read);
}
