/*-------------------------------------------------------------------------
 *
 * history.h
 *	  Space of removed values that is kept for a time, and the records that say which
 *	  values they were.
 *
 * Audience: write/, which notes what rows lose; sql/, which lists it and ends it; the resolver.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HISTORY_H
#define SF_HISTORY_H

#include "format/removed.h"
#include "space/space.h"

/*
 * Log records of values that this transaction takes from rows: a chunk (removed.h), of at most
 * SF_REMOVED_ROOM bytes, whose time is set here.  DISK_FULL, DATA_CORRUPTED.
 */
extern void sf_space_log_removed(SfSegment *seg, SfRemovedChunk *chunk);

/* Told of a record and the chunk it stands in; false: that is enough. */
typedef bool (*SfRemovedVisit) (const SfRemovedChunk *chunk, const SfRemovedRecord *record,
								void *arg);

/*
 * The value of a record, as the row had it, palloc'd; its locator, which points into it, is in
 * *loc.  NULL: it cannot be such a value.
 */
extern struct varlena *sf_space_removed_value(const SfRemovedRecord *record, SfLocator *loc);

/*
 * Show the records of transactions that have committed, in the order in which they were logged, as
 * far as their values are kept by a column with that retention.  No page is locked meanwhile, and
 * what is shown may end at any moment.  DATA_CORRUPTED.
 */
extern void sf_space_visit_removed(SfSegment *seg, int64 retention_us, SfRemovedVisit visit,
								   void *arg);

/*
 * End what is kept of values that were removed until then (a TimestampTz), and set its space free.
 * Now, or later than now: of all that have been removed, also by transactions that have not ended.
 * Waits for another resolver.  What was done is added to *stats.  No page is locked before.
 */
extern void sf_space_purge(SfSegment *seg, int64 until_us, SfMaintain *stats);

#endif							/* SF_HISTORY_H */
