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

#include "space/reserve.h"
#include "utils/lsyscache.h"

/* The column's limit, and where its bytes are. */
SF_NORETURN static void
report_full(SfSegment *seg, const SfUsage *usage)
{
	char	   *column = get_attname(seg->table_oid, seg->attnum, true);
	char	   *table = get_rel_name(seg->table_oid);

	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("column \"%s\" of table \"%s\" has reached its limit of %s",
					column ? column : "?", table ? table : "?",
					sf_config_size_text(sf_space_column(seg)->options.max_bytes)),
			 errdetail("Bytes of its files: " UINT64_FORMAT " live, " UINT64_FORMAT " pending, "
					   UINT64_FORMAT " free, in runs that are too short or reserved by sessions. "
					   "Bytes of its maps: " UINT64_FORMAT ".", usage->live_bytes,
					   usage->pending_bytes, usage->free_bytes, usage->metadata_bytes),
			 errhint("Delete values, and end transactions that still see deleted ones. The owner of the table can raise the limit with securefile_set_max_size().")));
}

void
sfi_full_refuse(SfSegment *seg, uint32 need_blocks, bool remember)
{
	SfUsage		usage = sf_space_usage(seg);

	SF_ASSERT(sf_space_column(seg)->options.max_bytes > 0);
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
