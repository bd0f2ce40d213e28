/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Cumulative statistics of each column, in shared memory (stats.c).
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
	SF_STAT(nontransformed_flushes)

typedef struct SfStatCounters
{
#define SF_STAT(name) uint64 name;
	SF_STAT_LIST
#undef SF_STAT
} SfStatCounters;

/*
 * Local counters of a column of the current database, made on first use;
 * valid until the next sf_stats_flush().  Add to them directly.  Never NULL; throws
 * only when memory is short.
 */
extern SfStatCounters *sf_stats_local(Oid table_oid, AttrNumber attnum);

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

/* Shared memory of the room; the latter under AddinShmemInitLock. */
extern Size sf_stats_shmem_size(void);
extern void sf_stats_shmem_init(void);

#endif							/* SF_STATS_H */
