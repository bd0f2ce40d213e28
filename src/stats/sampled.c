/*-------------------------------------------------------------------------
 *
 * sampled.c
 *	  What ANALYZE keeps of its sample: how long the values of a column are, and how well they
 *	  are compressed.
 *
 * It is kept in pg_statistic, in a slot whose kind is ours: so it is exactly as old as the
 * rest that ANALYZE says of the column, and goes with the column, with a change of its type,
 * and with the table.  PostgreSQL looks slots up by their kind, so pg_stats and the planner
 * pass over it; what our functions cost (sql/support.c) comes from there.
 * pg_upgrade does not bring it along; the next ANALYZE makes it again.
 *
 *	 stakind	SLOT_KIND
 *	 staop		0
 *	 stacoll	0
 *	 stanumbers	mean length, mean space in the segment, in bytes; the part of the values that
 *				lie there, above 0 and at most 1
 *	 stavalues	none: locators and contents must not get there
 *
 *-------------------------------------------------------------------------
 */
#include "stats/stats.h"

#include <math.h>

#include "commands/vacuum.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* drawn by lot from the numbers for private use, see pg_statistic.h */
#define SLOT_KIND		23719

/* Members of stanumbers. */
enum
{
	PLAIN_BYTES,
	STORED_BYTES,
	PART,
	NUMBERS
};

void
sf_stats_keep_sample(VacAttrStats *stats, const SfSampled *sampled)
{
	float4	   *numbers = MemoryContextAlloc(stats->anl_context, NUMBERS * sizeof(float4));

	SF_ASSERT(sampled->plain_bytes > 0 && sampled->stored_bytes > 0);
	SF_ASSERT(sampled->part > 0 && sampled->part <= 1);
	SF_ASSERT(stats->stakind[0] == 0);
	numbers[PLAIN_BYTES] = sampled->plain_bytes;
	numbers[STORED_BYTES] = sampled->stored_bytes;
	numbers[PART] = sampled->part;
	stats->stakind[0] = SLOT_KIND;
	stats->stanumbers[0] = numbers;
	stats->numnumbers[0] = NUMBERS;
}

/* Superusers may write anything into the catalog; a sum must not become infinite by it. */
static bool
is_sane(const AttStatsSlot *slot)
{
	return slot->nnumbers == NUMBERS && isfinite(slot->numbers[PLAIN_BYTES]) &&
		isfinite(slot->numbers[STORED_BYTES]) && slot->numbers[PLAIN_BYTES] >= 1 &&
		slot->numbers[STORED_BYTES] >= 1 && slot->numbers[PART] >= 0 &&
		slot->numbers[PART] <= 1;
}

bool
sf_stats_sampled(HeapTuple tuple, SfSampled *sampled)
{
	AttStatsSlot slot;
	bool		found;

	found = get_attstatsslot(&slot, tuple, SLOT_KIND, InvalidOid, ATTSTATSSLOT_NUMBERS) &&
		is_sane(&slot);
	if (found)
	{
		sampled->plain_bytes = slot.numbers[PLAIN_BYTES];
		sampled->stored_bytes = slot.numbers[STORED_BYTES];
		sampled->part = slot.numbers[PART];
	}
	free_attstatsslot(&slot);
	return found;
}

bool
sf_stats_sampled_column(Oid table_oid, AttrNumber attnum, SfSampled *sampled)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(table_oid),
										Int16GetDatum(attnum), BoolGetDatum(false));
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return false;
	found = sf_stats_sampled(tuple, sampled);
	ReleaseSysCache(tuple);
	return found;
}

bool
sf_stats_plain_ratio(Oid table_oid, AttrNumber attnum, double *ratio)
{
	SfSampled	sampled;

	if (!sf_stats_sampled_column(table_oid, attnum, &sampled))
		return false;
	*ratio = sampled.plain_bytes / sampled.stored_bytes;
	return true;
}
