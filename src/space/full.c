/*-------------------------------------------------------------------------
 *
 * full.c
 *	  The error of a segment that has reached its limit.
 *
 * To say what is live, pending and free, all of the map is read.  Of a long segment the
 * answer is remembered for a moment: many sessions may be refused again and again, and
 * nobody would wait for a thousand map pages in each of these statements.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/pages.h"
#include "space/reserve.h"
#include "utils/lsyscache.h"

/* An SfMapVisit. */
static bool
add_reserved(const SfMap *content, uint32 map, uint32 limit, void *arg)
{
	*(uint64 *) arg += sfi_map_reserved(content, limit);
	return true;
}

/* Bytes of the files that are lent to processes and not used: they may write there yet. */
static uint64
reserved_bytes(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	uint64		sectors = 0;

	sfi_visit_maps(rel, sfi_header(rel).total_sectors, false, add_reserved, &sectors);
	sfi_segment_close(rel);
	return sf_sectors_to_bytes(sectors);
}

/* A copy of the header, from which it is seen what is kept, and what is free, of the pages. */
static SfHeader
header_of(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	h = sfi_header(rel);

	sfi_segment_close(rel);
	return h;
}

/* The column's limit, and where its bytes are: of the pages those that are in use. */
SF_NORETURN static void
report_full(SfSegment *seg, const SfUsage *usage)
{
	char	   *column = get_attname(seg->table_oid, seg->attnum, true);
	char	   *table = get_rel_name(seg->table_oid);
	const char *kept = usage->retained_bytes == 0 ? "" :
		psprintf(" (" UINT64_FORMAT " of them kept by the retention)", usage->retained_bytes);
	SfHeader	h = header_of(seg);
	uint64		map_bytes = sfi_quota_pages(&h, h.total_sectors) * BLCKSZ;
	const char *of_kept = " securefile_purge() ends what is kept of removed values.";
	const char *of_shards = ", and of a distributed table with securefile_dist_set_max_size()";

	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("column \"%s\" of table \"%s\" has reached its limit of %s",
					column ? column : "?", table ? table : "?",
					sf_config_size_text(sf_space_column(seg)->options.max_bytes)),
			 errdetail("Bytes of its files: " UINT64_FORMAT " live, " UINT64_FORMAT " pending%s, "
					   UINT64_FORMAT " free. Of the free ones " UINT64_FORMAT
					   " are reserved by sessions, and the others lie in runs that are too short. "
					   "Bytes of its maps: " UINT64_FORMAT ".", usage->live_bytes,
					   usage->pending_bytes, kept, usage->free_bytes, usage->reserved_bytes,
					   map_bytes),
			 errhint("Delete values, and end transactions that still see deleted ones or are about to store others.%s The owner of the table can raise the limit with securefile_set_max_size()%s.",
					 h.history_head != 0 || h.removed_head != 0 ? of_kept : "",
					 sf_base_has_shells() ? of_shards : "")));
}

void
sfi_full_refuse(SfSegment *seg, uint32 need_blocks, bool remember)
{
	SfUsage		usage = sf_space_usage(seg);

	SF_ASSERT(sf_space_column(seg)->options.max_bytes > 0);
	/* the two are of different moments */
	usage.reserved_bytes = Min(reserved_bytes(seg), usage.free_bytes);
	if (remember)
		sfi_dispense_note_full(seg->storage, need_blocks, &usage);
	report_full(seg, &usage);
}

void
sfi_full_refuse_again(SfSegment *seg, uint32 need_blocks)
{
	SfUsage		usage;

	if (sfi_dispense_is_full(seg->storage, need_blocks, &usage))
		report_full(seg, &usage);
}
