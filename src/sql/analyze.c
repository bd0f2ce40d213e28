/*-------------------------------------------------------------------------
 *
 * analyze.c
 *	  What ANALYZE notes of a column: width, fraction of nulls, and how well what
 *	  lies in the segment is compressed.
 *
 * The standard routines would put sample values into pg_statistic: locators
 * that outlive their rows, or contents of files where others may see them.
 *
 * How much space a value takes stands in its unit map, so no data is read.  A flat map
 * stands in the row that ANALYZE has anyway.  The map of a large value stands in inode
 * pages, of which a sample must do: some units of some of these values.  For the rest of
 * them the ratio that these show is taken.
 *
 * ANALYZE has always worked without the segment, and still does: when the library is not
 * preloaded, when the segment waits for securefile_upgrade_finish(), or is damaged.  Then
 * less is seen, or nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "commands/vacuum.h"
#include "fmgr.h"
#include "object/object.h"
#include "stats/stats.h"

PG_FUNCTION_INFO_V1(securefile_typanalyze);

#define LARGE_VALUES	100		/* whose inode pages are read, at most, .. */
#define STRETCHES		4		/* .. so many parts of each, .. */
#define STRETCH_UNITS	64		/* .. of so many units */

/* Values of the segment that were seen. */
typedef struct Seen
{
	double		plain_bytes;	/* of values with flat maps: length, */
	double		stored_bytes;	/* space, in whole sectors, */
	int64		values;			/* and how many they are */
	List	   *large;			/* the others: datums with inode maps */
} Seen;

/* A look at the map of a large value. */
typedef struct LargeLook
{
	struct varlena *datum;
	double		length_bytes;	/* of the value */
	double		plain_bytes;	/* of the units that were looked at; 0: none, */
	double		stored_bytes;	/* and the space that they take */
} LargeLook;

/* ---- values with flat maps ---- */

/*
 * Take a value of the sample into account, if it lies in the segment.  Damaged locators are passed
 * over, and what is too long for a locator: it may be anything, where tables keep values in their
 * rows.
 */
static void
see_value(Seen *seen, Datum value)
{
	struct varlena *datum = sf_base_detoast_short(value, SF_LOCATOR_MAX_SIZE);
	SfLocator	loc;

	if (datum == NULL || sf_object_decode(datum, &loc) != NULL)
		return;
	if (loc.flags & SF_LOC_INODE)
	{
		seen->large = lappend(seen->large, sf_object_copy(datum, CurrentMemoryContext));
		return;
	}
	seen->plain_bytes += loc.unit_space_bytes;
	seen->stored_bytes += sf_sectors_to_bytes(sf_object_flat_sectors(&loc));
	seen->values++;
}

/* ---- values with inode maps ---- */

/* Add what is stored of units [first, first + n). */
static void
look_at_units(LargeLook *look, SfSegment *seg, const SfLocator *loc, uint64 first, uint32 n)
{
	SfUnit	   *units = palloc(n * sizeof(SfUnit));

	SF_ASSERT(first + n <= loc->nunits && n <= STRETCHES * STRETCH_UNITS);
	sf_object_units(seg, loc, first, n, units);
	for (uint32 i = 0; i < n; i++)
	{
		look->plain_bytes += sf_unit_plain_bytes(loc->unit_space_bytes, first + i);
		if (units[i].start != SF_HOLE)
			look->stored_bytes += sf_sectors_to_bytes(sf_unit_sectors(&units[i]));
	}
	pfree(units);
}

/*
 * A guarded step: look at parts of the map of a large value, from its beginning to its
 * end, or at all of it when that is no more.
 */
static void
look_at_large(void *arg)
{
	LargeLook  *look = arg;
	SfLocator	loc = sf_object_locator(look->datum);
	SfSegment  *seg = sf_space_open(loc.table_oid, loc.attnum, AccessShareLock, true);

	if (seg == NULL)
		return;
	if (seg->incarnation == loc.incarnation)
	{
		sf_object_require_tag(seg, &loc);
		look->length_bytes = sf_locator_value_bytes(&loc);
		if (loc.nunits <= STRETCHES * STRETCH_UNITS)
			look_at_units(look, seg, &loc, 0, loc.nunits);
		else
			for (int i = 0; i < STRETCHES; i++)
				look_at_units(look, seg, &loc, (loc.nunits - STRETCH_UNITS) / (STRETCHES - 1) * i,
							  STRETCH_UNITS);
	}
	sf_space_release(seg);
}

/*
 * Look at some large values, evenly taken from those of the sample, and add up their
 * lengths and the space that they take, each with the ratio of its parts.  A value that
 * cannot be read is left out.
 */
static Seen
look_at_some(List *large)
{
	Seen		sum = {0};
	int			n = list_length(large);
	int			looks = Min(n, LARGE_VALUES);

	for (int i = 0; i < looks && sf_base_preloaded; i++)
	{
		LargeLook	look = {.datum = list_nth(large, (int64) n * i / looks)};

		sf_compat_analyze_delay_point();
		if (sf_base_succeeds(look_at_large, &look) && look.plain_bytes > 0)
		{
			sum.plain_bytes += look.length_bytes;
			sum.stored_bytes += look.length_bytes / look.plain_bytes * look.stored_bytes;
		}
	}
	return sum;
}

/* Take the large values of the sample into account, all with the ratio of those looked at. */
static void
see_large(Seen *seen)
{
	Seen		sum = look_at_some(seen->large);
	ListCell   *cell;

	if (sum.stored_bytes == 0)
		return;
	SF_ASSERT(sum.plain_bytes > 0);
	foreach(cell, seen->large)
	{
		SfLocator	loc = sf_object_locator(lfirst(cell));

		seen->plain_bytes += sf_locator_value_bytes(&loc);
		seen->stored_bytes += sf_locator_value_bytes(&loc) / sum.plain_bytes * sum.stored_bytes;
		seen->values++;
	}
}

/* ---- the column ---- */

/* AnalyzeAttrComputeStatsFunc.  The width is that of what the row holds. */
static void
compute_stats(VacAttrStats *stats, AnalyzeAttrFetchFunc fetchfunc,
			  int samplerows, double totalrows)
{
	int			null_count = 0;
	double		total_width = 0;
	Seen		seen = {0};

	for (int i = 0; i < samplerows; i++)
	{
		bool		isnull;
		Datum		value;

		sf_compat_analyze_delay_point();
		value = fetchfunc(stats, i, &isnull);
		if (isnull)
		{
			null_count++;
			continue;
		}
		total_width += VARSIZE_ANY(DatumGetPointer(value));
		see_value(&seen, value);
	}
	if (samplerows == 0)
		return;

	see_large(&seen);
	SF_ASSERT(seen.values <= samplerows - null_count);
	if (seen.values > 0)
	{
		SfSampled	sampled = {
			.plain_bytes = seen.plain_bytes / seen.values,
			.stored_bytes = seen.stored_bytes / seen.values,
			.part = (double) seen.values / (samplerows - null_count)
		};

		sf_stats_keep_sample(stats, &sampled);
	}
	stats->stats_valid = true;
	stats->stanullfrac = (double) null_count / samplerows;
	stats->stawidth = null_count < samplerows ? total_width / (samplerows - null_count) : 0;
	stats->stadistinct = 0;		/* unknown */
}

Datum
securefile_typanalyze(PG_FUNCTION_ARGS)
{
	VacAttrStats *stats = (VacAttrStats *) PG_GETARG_POINTER(0);

	if (sf_compat_stats_target(stats) < 0)
		sf_compat_stats_target(stats) = default_statistics_target;
	stats->compute_stats = compute_stats;
	stats->minrows = 300 * sf_compat_stats_target(stats);
	PG_RETURN_BOOL(true);
}
