/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Statistics of each column: counters in shared memory, and what ANALYZE has seen.
 *
 * stats.c		counters of a process, and their sums in shared memory
 * session.c	what this session has counted so far, with its parallel workers
 * progress.c	how far the long commands of all sessions have come
 * sampled.c	what ANALYZE keeps of its sample, in pg_statistic
 *
 * The counters are those that the SecureFiles paper reports (section "statistics").
 * A backend adds to its own local counters (sf_stats_local) and hands them to
 * shared memory at transaction end, so that a hot path costs an addition.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STATS_H
#define SF_STATS_H

#include "base/base.h"

#include "access/htup.h"
#include "base/shared.h"
#include "datatype/timestamp.h"

/* SF_STAT(name): one list, in the order of the columns of securefile_stat */
#define SF_STAT_LIST \
	SF_STAT(allocation_bytes) \
	SF_STAT(allocation_chunks) \
	SF_STAT(direct_read_bytes) \
	SF_STAT(direct_write_bytes) \
	SF_STAT(direct_read_ops) \
	SF_STAT(direct_write_ops) \
	SF_STAT(inode_read_time_us) \
	SF_STAT(inode_write_time_us) \
	SF_STAT(ioreap_time_us) \
	SF_STAT(bytes_nontransformed) \
	SF_STAT(bytes_transformed) \
	SF_STAT(bytes_transformed_stored) \
	SF_STAT(units_incompressible) \
	SF_STAT(compress_time_us) \
	SF_STAT(decompress_time_us) \
	SF_STAT(flushes) \
	SF_STAT(nontransformed_flushes) \
	SF_STAT(dedup_hits) \
	SF_STAT(dedup_bytes) \
	SF_STAT(dedup_mismatches) \
	SF_STAT(scanned_bytes) \
	SF_STAT(returned_bytes) \
	SF_STAT(skipped_bytes) \
	SF_STAT(units_read) \
	SF_STAT(units_cached) \
	SF_STAT(units_decompressed)

typedef struct SfStatCounters
{
#define SF_STAT(name) uint64 name;
	SF_STAT_LIST
#undef SF_STAT
} SfStatCounters;

/*
 * Local counters of a column of the current database, made on first use;
 * valid until the next sf_stats_flush().  Add to them directly.  Never NULL; throws
 * only when memory is short.  InvalidOid: of no column, for values that their rows have all of.
 * Only the session sees what is counted there.
 */
extern SfStatCounters *sf_stats_local(Oid table_oid, AttrNumber attnum);

/* Add to a counter that lengths of values go to: these may be anything, and no sum wraps. */
static inline void
sf_stats_add(uint64 *counter, uint64 bytes)
{
	SF_ASSERT(*counter <= PG_INT64_MAX && bytes <= PG_INT64_MAX);
	*counter = Min(*counter + bytes, PG_INT64_MAX);
}

/* Add the local counters to shared memory.  Called in commit callbacks: never throws. */
extern void sf_stats_flush(void);

/* Counters of a column, with its key. */
typedef struct SfStatColumn
{
	Oid			table_oid;
	AttrNumber	attnum;
	SfStatCounters counters;
	TimestampTz reset;			/* when they last were zero */
} SfStatColumn;

/*
 * Copy the counters of all columns of the current database, also of dropped ones;
 * palloc'd.  Returns their number.  ERROR without preload.
 */
extern int	sf_stats_list(SfStatColumn **columns);

/* Set the counters of a column of the current database to zero.  ERROR without preload. */
extern void sf_stats_reset(Oid table_oid, AttrNumber attnum);

/*
 * What this session and its parallel workers have counted, up to now, also in the transaction
 * that runs; palloc'd.  A column with InvalidOid has what belongs to none.  Returns their number.
 * Of workers that still run nothing is known.
 */
extern int	sf_stats_session_list(SfStatColumn **columns);

/* ---- sampled.c ---- */

/* What ANALYZE has seen of those values of a column that lie in its segment. */
typedef struct SfSampled
{
	double		plain_bytes;	/* their mean length, */
	double		stored_bytes;	/* the mean of the space that they take there, */
	double		part;			/* and which part of all values they are; all
								 * above 0 */
} SfSampled;

/* Keep it: fills a slot of stats, in its context. */
struct VacAttrStats;
extern void sf_stats_keep_sample(struct VacAttrStats *stats, const SfSampled *sampled);

/* The same out of a row of pg_statistic; false: ANALYZE has seen no such value. */
extern bool sf_stats_sampled(HeapTuple tuple, SfSampled *sampled);

/*
 * sampled_column: what the last ANALYZE of the table itself has seen, without its children.
 * False when that has seen no such value, or there was none.  Looks at the catalog.
 * plain_ratio: how many bytes of values a byte of the segment stands for, by that.
 */
extern bool sf_stats_sampled_column(Oid table_oid, AttrNumber attnum, SfSampled *sampled);
extern bool sf_stats_plain_ratio(Oid table_oid, AttrNumber attnum, double *ratio);

/* ---- progress.c: what long commands have done so far ---- */

typedef enum SfOperation
{
	SF_OPERATION_REWRITE,		/* values stored again */
	SF_OPERATION_MIGRATE,		/* stored for the first time, and compared */
	SF_OPERATION_RELEASE,		/* free space goes back to the file system */
	SF_OPERATION_MOVE,			/* values stored again in front */
} SfOperation;

typedef struct SfProgress
{
	int			pid;			/* of the session; both are filled in */
	Oid			database;
	SfOperation operation;
	Oid			table_oid;
	AttrNumber	attnum;
	int			pass;			/* of the command over the table, from 1 */
	uint64		blocks_total;	/* of the table, in this pass */
	uint64		blocks_done;
	uint64		values;			/* stored again */
	uint64		bytes;			/* their length */
	uint64		skipped;		/* passed over in this pass: a row was locked,
								 * or changed meanwhile */
	uint64		releasable_bytes;	/* free space that the command gives back */
	uint64		released_bytes; /* of these */
} SfProgress;

/*
 * Show what the command of this session has done, until it is over: the latter is called
 * at its end, and by a transaction that fails.  Take an LWLock, never throw.  Do nothing
 * without preload, or when too many sessions are shown already.
 */
extern void sf_stats_progress(const SfProgress *progress);
extern void sf_stats_progress_end(void);

/* The word that the view has for an operation. */
extern const char *sf_stats_operation_name(SfOperation operation);

/* What all sessions show, palloc'd; returns how many they are. */
extern int	sf_stats_progress_list(SfProgress **list);

/* Shared memory of the room. */
extern const SfSharedArea sf_stats_area;
extern const SfSharedArea sf_stats_columns_area;
extern const SfSharedArea sf_stats_progress_area;
extern const SfSharedArea sf_stats_workers_area;
extern const SfSharedArea sf_stats_workers_columns_area;

#endif							/* SF_STATS_H */
