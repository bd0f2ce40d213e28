/*-------------------------------------------------------------------------
 *
 * maps.c
 *	  The space map against the space of the live rows and of pending entries.
 *
 * Three rules are checked, sector by sector:
 *
 *	- A used sector is owned by a live row, or named by a pending entry.  An entry
 *	  by which a committed transaction took the sector does not count (see check_pages.c).
 *	- A sector that a live row owns is marked as used.
 *	- No pending entry is about to free a sector that a live row owns.
 *
 * The owned runs, and those of the entries, are sorted, and the map pages are read
 * in order.  So one pass suffices: for each page the runs that lie there become
 * planes, with one bit a sector like the page itself, and whole bytes are compared.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/walk.h"
#include "port/pg_bitutils.h"

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

/*
 * Set the bits of those runs that lie in the map page whose first sector is
 * given; [*from, *end) tells which of the sorted runs these are.
 */
static void
fill_plane(uint8 *plane, SfRowRuns *runs, uint64 first, int64 *from, int64 *end)
{
	SF_ASSERT(runs->sorted && first % SF_MAP_SECTORS == 0);
	/* pages come in ascending order: no run of this one has been passed */
	SF_ASSERT(runs->next == 0 || runs->runs[runs->next - 1].start < first);
	memset(plane, 0, SF_MAP_SECTORS / 8);
	while (runs->next < runs->n && runs->runs[runs->next].start < first)
		runs->next++;
	*from = runs->next;
	while (runs->next < runs->n && runs->runs[runs->next].start < first + SF_MAP_SECTORS)
	{
		SfRowRun   *run = &runs->runs[runs->next++];
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
	int64		from;
	int64		end;

	fill_plane(planes->named, &walk->named, first, &from, &end);
	fill_plane(planes->doomed, &walk->doomed, first, &from, &end);
	fill_plane(planes->owned, &walk->check->owned, first,
			   &planes->owned_from, &planes->owned_end);
}

/*
 * Report the parts of a row's run whose bits have the value that they must not
 * have.  Returns whether there are any.
 */
static bool
report_parts(SfPageWalk *walk, SfRowRun *run, uint64 first, const uint8 *plane,
			 bool bad, SfFinding finding, const char *detail)
{
	uint32		at = run->start - first;
	uint32		end = at + run->count;
	uint32		n;
	bool		any = false;

	SF_ASSERT(run->start >= first && end <= SF_MAP_SECTORS);
	for (; sfi_check_next_run(plane, bad, end, &at, &n); at += n)
	{
		any = true;
		sfi_check_report(walk->check, finding, &run->tid, first + at, n, "%s", detail);
	}
	return any;
}

/* Report the collected sectors that nobody owns. */
static void
flush_lost(SfPageWalk *walk)
{
	if (walk->lost_count > 0)
		sfi_check_report_as(walk->check, sfi_check_unowned(walk), SF_FINDING_UNOWNED, NULL,
							walk->lost_start, walk->lost_count,
							"by no live row and no pending entry");
	walk->lost_count = 0;
}

/* Collect a sector that nobody owns; neighbours, also of two pages, make one finding. */
static void
add_lost(SfPageWalk *walk, uint64 sector)
{
	SF_ASSERT(walk->lost_count == 0 || sector >= walk->lost_start + walk->lost_count);
	if (walk->lost_count > 0 && sector == walk->lost_start + walk->lost_count)
	{
		walk->lost_count++;
		return;
	}
	flush_lost(walk);
	walk->lost_start = sector;
	walk->lost_count = 1;
}

/*
 * Report sectors that a pending entry will set free, and that are free already.
 * Clears the bits of all others in doomed.
 */
static void
report_free_but_doomed(SfPageWalk *walk, uint64 first, const uint8 *used, uint8 *doomed)
{
	uint32		at = 0;
	uint32		n;

	for (int i = 0; i < SF_MAP_SECTORS / 8; i++)
		doomed[i] &= ~used[i];
	for (; sfi_check_next_run(doomed, true, SF_MAP_SECTORS, &at, &n); at += n)
		sfi_check_report(walk->check, SF_FINDING_DOOMED_FREE, NULL, first + at, n,
						 "a pending entry will set it free, the space map takes it for free");
}

/*
 * Report sectors that two pending entries will set free: when the second one does
 * so, a new value may already lie there.
 */
static void
report_doomed_twice(SfPageWalk *walk)
{
	SfRowRuns  *doomed = &walk->doomed;
	uint64		end = 0;

	SF_ASSERT(doomed->sorted);
	for (int64 i = 0; i < doomed->n; i++)
	{
		SfRowRun   *run = &doomed->runs[i];

		if (run->start < end)
			sfi_check_report(walk->check, SF_FINDING_DOOMED_TWICE, NULL,
							 run->start, Min(end - run->start, run->count),
							 "two pending entries will set it free");
		end = Max(end, run->start + run->count);
	}
}

/*
 * Report a map page that is, or may be, stale: it may show sectors as free that are
 * in use, also by values that could not be located.
 */
static void
report_distrusted(SfPageWalk *walk, uint32 map)
{
	sf_rows_runs_add(&walk->distrusted_maps, map, 1, 0, NULL);
	sfi_check_report(walk->check, SF_FINDING_DAMAGED_PAGE, NULL, 0, 0,
					 "page %u of the segment relation is an old one, "
					 "and may have the place of a damaged value for free", SF_MAP_PAGE(map));
}

/*
 * Check one page of the space map, against the planes of its sectors.  It is stale if
 * it lies behind the end of a stale header, or shows owned sectors as free.
 */
static void
check_map_page(SfPageWalk *walk, uint64 first, const SfMap *map)
{
	SfCheck    *check = walk->check;
	SfCheckPlanes planes;
	uint64		nused = pg_popcount((const char *) map->used, sizeof(map->used));
	bool		is_old = first + SF_MAP_SECTORS > check->header.total_sectors &&
		check->total_sectors > check->header.total_sectors;

	sfi_check_fill_planes(walk, first, &planes);
	for (int64 i = planes.owned_from; i < planes.owned_end; i++)
	{
		SfRowRun   *run = &check->owned.runs[i];

		is_old |= report_parts(walk, run, first, map->used, false, SF_FINDING_OWNED_FREE,
							   "the space map takes it for free");
		(void) report_parts(walk, run, first, planes.doomed, true, SF_FINDING_OWNED_DOOMED,
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
		sfi_check_report(check, SF_FINDING_WRONG_COUNT, NULL, first, SF_MAP_SECTORS,
						 "the page says %u, there are " UINT64_FORMAT, map->used_sectors, nused);
}

/*
 * May growth put a map page here?  It expects an empty page, or the map page, with
 * nothing in use, of a tail that was cut off.
 */
static bool
is_ready_for_map(const SfCheckPage *read)
{
	uint32		at = 0;
	uint32		n;

	return read->is_new ||
		(read->type == SF_PAGE_MAP && read->u.map.used_sectors == 0 &&
		 !sfi_check_next_run(read->u.map.used, true, SF_MAP_SECTORS, &at, &n));
}

/* Check the places of map pages behind the end of the segment. */
static void
check_unused(SfPageWalk *walk)
{
	SfCheckPage read;
	uint64		map = sf_maps_of(walk->check->total_sectors);

	for (; SF_MAP_PAGE(map) < walk->npages; map++)
	{
		bool		readable = sfi_check_read_any(walk->check, SF_REPAIR_PAGE,
												  SF_MAP_PAGE(map), &read);

		if (readable && is_ready_for_map(&read))
			continue;
		if (readable)
			sfi_check_report(walk->check, SF_FINDING_DAMAGED_PAGE, NULL, 0, 0,
							 "page %u of the segment relation: expected none yet, found type %d",
							 read.page, read.type);
		sf_rows_runs_add(&walk->damaged_maps, map, 1, 0, NULL);
		walk->end_page = Max(walk->end_page, read.page + 1);
	}
}

void
sfi_check_map(SfPageWalk *walk)
{
	SfCheckPage read;
	uint64		total = walk->check->total_sectors;

	SF_ASSERT(walk->lost_count == 0);
	sf_rows_runs_sort(&walk->named);
	sf_rows_runs_sort(&walk->doomed);
	sfi_check_rewind_planes(walk);
	report_doomed_twice(walk);
	for (uint64 first = 0; first < total; first += SF_MAP_SECTORS)
	{
		uint32		map = sf_map_of(first);

		if (sfi_check_read(walk, SF_REPAIR_PAGE, SF_MAP_PAGE(map), SF_PAGE_MAP, &read))
			check_map_page(walk, first, &read.u.map);
		else
			sf_rows_runs_add(&walk->damaged_maps, map, 1, 0, NULL);
	}
	flush_lost(walk);
	/* repair looks them up in this order */
	SF_ASSERT(walk->distrusted_maps.sorted);
	if (!walk->check->moving)
		check_unused(walk);
}
