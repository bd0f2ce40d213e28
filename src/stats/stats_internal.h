/*-------------------------------------------------------------------------
 *
 * stats_internal.h
 *	  What the files of stats/ share; stats.h has the map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STATS_INTERNAL_H
#define SF_STATS_INTERNAL_H

#include "stats/stats.h"

/* Add all counters to others.  A sum that no bigint can hold stays at the largest one. */
static inline void
sfi_stats_add_counters(SfStatCounters *sum, const SfStatCounters *add)
{
#define SF_STAT(name) sum->name = Min(sum->name + add->name, PG_INT64_MAX);
	SF_STAT_LIST
#undef SF_STAT
}

/*
 * Where the session keeps what it has counted of a column, made on first use: good as long as
 * the process.  When there are too many columns, the counters of none.  Throws only when memory
 * is short.
 */
extern SfStatCounters *sfi_stats_session(const SfSharedColumn *key);

/* The counters of no column.  Never throws. */
extern SfStatCounters *sfi_stats_session_nowhere(void);

/*
 * Call when all local counters were added to those of the session, at the end of a transaction:
 * a parallel worker gives them to its leader.  Never throws.
 */
extern void sfi_stats_session_at_end(void);

/*
 * What the session and its workers have counted, but for the local counters; palloc'd.  Returns
 * how many columns that are, one of them InvalidOid.
 */
extern int	sfi_stats_session_list(SfStatColumn **columns);

#endif							/* SF_STATS_INTERNAL_H */
