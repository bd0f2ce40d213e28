/*-------------------------------------------------------------------------
 *
 * header.c
 *	  The header page, which may be stale, against everything else.
 *
 * If the header page is stale, its counters lag behind, and it would give out
 * numbers and space a second time.  The end of the segment matters most: live
 * values may lie behind it, where they cannot be read, and where growth would
 * overwrite them.  Therefore a check first finds out where the segment really
 * ends, and uses that end for all other comparisons.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/walk.h"

/* The end of the data files, in sectors. */
static uint64
end_of_files(SfCheck *check)
{
	return sf_blocks_to_sectors(sf_io_files_size(check->seg->storage) / SF_BLOCK_SIZE);
}

/*
 * The end according to the values: the tags of their locators were verified, so the
 * segment has reached as far as these lead.
 */
static uint64
end_of_values(SfCheck *check, uint64 in_files)
{
	uint64		end = 0;

	for (int64 i = 0; i < check->owned.n; i++)
	{
		SfRowRun   *run = &check->owned.runs[i];

		if (run->start + run->count <= in_files)
			end = Max(end, run->start + run->count);
	}
	return end;
}

/*
 * Does a map page show sectors in use, from *at on?  Moves *at to the first one.  If
 * some values could not be located, a damaged page counts as one that does.
 */
static bool
shows_use(SfPageWalk *walk, uint32 map, uint32 *at)
{
	SfCheckPage read;
	uint32		n;

	if (sfi_check_read_any(walk->check, SF_REPAIR_UNREPORTED, SF_MAP_PAGE(map), &read) &&
		read.type == SF_PAGE_MAP)
		return sfi_check_next_run(read.u.map.used, true, SF_MAP_SECTORS, at, &n);
	return !read.is_new && walk->check->hidden;
}

/* The end according to the map pages at and behind the end in the header. */
static uint64
end_of_maps(SfPageWalk *walk, uint64 total, uint64 in_files)
{
	uint64		end = 0;

	for (uint64 map = sf_map_of(total); SF_MAP_PAGE(map) < walk->nblocks; map++)
	{
		uint64		first = sf_map_start(map);
		uint32		at = Max(total, first) - first;

		if (shows_use(walk, map, &at) && first + at < in_files)
			end = first + at + 1;
	}
	return end;
}

/* The end in the header; if that cannot be, the one that files and map pages allow. */
static uint64
end_of_header(SfPageWalk *walk, uint64 in_files)
{
	uint64		maps = (walk->npages + SF_MAP_STRIDE - 2) / SF_MAP_STRIDE;

	return walk->end_ahead ? Min(in_files, sf_map_start(maps)) : walk->check->header.total_sectors;
}

/* What is found behind the end raises it to that of the map page. */
void
sfi_check_find_end(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;
	uint64		in_files = end_of_files(check);
	uint64		total = end_of_header(walk, in_files);
	uint64		end;

	check->total_sectors = total;
	if (check->moving)
		return;
	end = Max(end_of_values(check, in_files), end_of_maps(walk, total, in_files));
	if (end <= total)
		return;
	end = sf_map_start(sf_maps_of(end));
	check->total_sectors = check->hidden ? in_files : Min(end, in_files);
	SF_ASSERT(check->total_sectors > total);
}

/* Report a counter of the header, unless its next number is behind the last one in use. */
static void
report_behind(SfPageWalk *walk, const char *what, uint64 next, uint64 last)
{
	if (last < next)
		return;
	walk->header_behind = true;
	sfi_check_report(walk->check, SF_FINDING_HEADER_BEHIND, NULL, 0, 0,
					 "page 0 of the segment relation takes %s " UINT64_FORMAT
					 " for the next, there is one of number " UINT64_FORMAT, what, next, last);
}

/* Report sectors in use behind the end that the header has. */
static void
report_end(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;
	uint64		total = check->header.total_sectors;

	SF_ASSERT(check->total_sectors >= total || walk->end_ahead);
	if (check->total_sectors <= total)
		return;
	walk->header_behind = true;
	sfi_check_report(check, SF_FINDING_HEADER_BEHIND, NULL, total,
					 check->total_sectors - total,
					 "page 0 of the segment relation takes sector " UINT64_FORMAT
					 " for the end, there are some in use behind", total);
}

void
sfi_check_header(SfPageWalk *walk)
{
	SfHeader   *header = &walk->check->header;

	SF_ASSERT(!walk->check->moving);
	report_end(walk);
	report_behind(walk, "object", header->next_object_id, walk->check->max_object_id);
	report_behind(walk, "stamp", header->next_stamp, walk->max_stamp);
	if (walk->end_page > 0)
		report_behind(walk, "page", header->next_page, walk->end_page - 1);
}
