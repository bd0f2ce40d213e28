/*-------------------------------------------------------------------------
 *
 * analyze.c
 *	  What ANALYZE notes of a column: width and fraction of nulls.
 *
 * The standard routines would put sample values into pg_statistic: locators
 * that outlive their rows, or contents of files where others may see them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "commands/vacuum.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(securefile_typanalyze);

/* AnalyzeAttrComputeStatsFunc.  The width is that of what the row holds. */
static void
compute_stats(VacAttrStats *stats, AnalyzeAttrFetchFunc fetchfunc,
			  int samplerows, double totalrows)
{
	int			null_count = 0;
	double		total_width = 0;

	for (int i = 0; i < samplerows; i++)
	{
		bool		isnull;
		Datum		value;

		sf_compat_analyze_delay_point();
		value = fetchfunc(stats, i, &isnull);
		if (isnull)
			null_count++;
		else
			total_width += VARSIZE_ANY(DatumGetPointer(value));
	}
	if (samplerows == 0)
		return;

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
