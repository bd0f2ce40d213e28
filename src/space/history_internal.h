/*-------------------------------------------------------------------------
 *
 * history_internal.h
 *	  History pages and records of removed values, for the resolver.
 *
 * All of this needs the resolver's lock, and no page locked.  DATA_CORRUPTED, DISK_FULL.
 *
 * The resolver (resolve.c) calls this in each walk over the queue: begin, expire; keep for each
 * page, before it sets free what is left there; and press, for what has come.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_HISTORY_INTERNAL_H
#define SF_HISTORY_INTERNAL_H

#include "space/history.h"
#include "space/pending.h"
#include "space/share_records.h"

/* ---- history.c ---- */

/*
 * The time of what is removed or kept now: sf_base_steady_time(), but later than all that has
 * ended.  That may have been by a clock that was ahead, or by that of another server.
 */
static inline int64
sfi_history_time(const SfHeader *h)
{
	return Max(sf_base_steady_time(), h->ended_us + 1);
}

#define PAGE_SECTORS	(BLCKSZ / SF_SECTOR_SIZE)

/* Is what is kept, and its records, more than that, or may be? */
static inline bool
sfi_history_is_over(const SfHeader *h, uint64 most_sectors)
{
	return h->kept_sectors + h->kept_shared_sectors +
		(uint64) h->removed_pages * PAGE_SECTORS > most_sectors;
}

/*
 * A walk over the queue begins: what it has to keep.  Of a column that keeps nothing, or not any
 * more, all that is kept ends.
 */
extern void sfi_history_begin(SfPageWork *work, SfSegment *seg);

/* Put history pages whose time is over into the queue. */
extern void sfi_history_expire(SfPageWork *work);

/* Put the oldest ones of too many into the queue; returns whether there were any. */
extern bool sfi_history_press(SfPageWork *work, SfSegment *seg);

/*
 * Have history pages keep what the entries of a pending page could set free.  Takes them out of
 * the copy.
 */
extern void sfi_history_keep(SfPageWork *work, SfSegment *seg);

/* End what was kept until then; all: also what will be, of transactions that have begun. */
extern void sfi_history_end(SfPageWork *work, int64 until_us, bool all);

/* ---- kept_sectors.c ---- */

/* How much the entries of the history keep, counted: what shared objects do, above all. */
typedef struct SfKept SfKept;

/* How much an entry keeps that does not refer to a shared object. */
extern uint64 sfi_kept_sectors_of(Relation rel, const SfPendEntry *entry);

/* How much a shared object keeps that no row has. */
extern uint64 sfi_kept_object_sectors(Relation rel, const SfShareRecord *record);

/* Read the record that an entry (start) refers to; false: there is none, or it is damaged. */
extern bool sfi_kept_find_share(SfSegment *seg, uint64 start, SfShareCopy *copy);

/* Count; the queue has no references that have been kept, since the resolver has been there. */
extern SfKept *sfi_kept_count(Relation rel, SfSegment *seg);

extern uint64 sfi_kept_shared_sectors(const SfKept *kept);

/* A history page ends. */
extern void sfi_kept_end(SfKept *kept, const SfPending *page);

extern void sfi_kept_free(SfKept *kept);

/* ---- removed_pages.c ---- */

/*
 * The time of what comes behind that page of records (NULL: there is none): sfi_history_time(), but
 * not before the records that are there, by a clock that was ahead.
 */
extern int64 sfi_removed_time(const SfHeader *h, const SfRemovedPage *last);

/*
 * What the entries of a history page keep is about to end before its time: note it with the records
 * of the values that have something there, so that they are not listed any more.
 */
extern void sfi_removed_hide(Relation rel, const SfPending *ending);

/*
 * Give pages back whose records are all of a time until then, or not listed any more, but for the
 * last page; all: also that one.
 */
extern void sfi_removed_trim(Relation rel, int64 until_us, bool all);

/*
 * The history keeps nothing, and the records alone are more than that: give the first pages back.
 * Returns whether there were any.
 */
extern bool sfi_removed_press(Relation rel, uint64 most_sectors);

/* ---- removed_ends.c ---- */

/*
 * Note how transactions of records have ended, as long as the commit log tells.  Lowers
 * stats->oldest_unresolved to the oldest one that goes on.
 */
extern void sfi_removed_note_ends(Relation rel, SfHorizon horizon, SfMaintain *stats);

#endif							/* SF_HISTORY_INTERNAL_H */
