/*-------------------------------------------------------------------------
 *
 * space_internal.h
 *	  What the files of space/ share and no other room sees.
 *
 * README.md has the life of a block as a drawing.  The headers, by audience:
 *
 * pages.h				pages of the segment relation and their changes
 * reserve.h			free space: growth, lending, parked regions
 * pending.h			the pending queue, and what becomes of its entries
 * history_internal.h	what is kept of it for a time
 * storage.h			storage that is made, copied, kept, dropped, adopted
 * record.h				WAL records
 *
 * The files, by floors.  A file calls those of the floors below it (smaller
 * numbers) and, on its own floor, those that stand above it in this list; so
 * there is no circle.
 *
 * floor 0, by themselves:
 * seal.c				the type of a page, and its seal
 * map.c				bits of one map page: used, lent
 * dispense.c			runs believed free, in shared memory
 * proved.c				free blocks that were seen becoming free, in shared memory
 * parked.c				regions that stay lent between transactions, in shared memory
 * keep.c				space that a session needs longer than a snapshot of its own
 * verdict.c			horizons; what becomes of a pending entry
 * unfinished.c			a database whose upgrade by pg_upgrade is not finished
 *
 * floor 1, one page or one record:
 * page.c				pages: read, checked, initialised
 * copy.c				pages copied into new storage
 * record.c				may a WAL record be replayed
 *
 * floor 2:
 * page_change.c		the one way in which pages change, and its redo
 * retained.c			dropped storage that logical decoding may need
 *
 * floor 3, storage and segments:
 * storage.c			files follow the segment relation; the sweeper
 * list.c				the segments of a database
 * segment.c			finding and opening the segment of a column; object ids
 * upgrade.c			pg_upgrade: pages beside the data files, and back
 * wal_records.c		the table of WAL records, redo, desc; data records
 *
 * floor 4, space:
 * quota.c				how long a segment may become
 * grow.c				longer and shorter data files
 * pending.c			the pending queue: entries are added
 * removed_pages.c		records of removed values
 * removed_ends.c		how the transactions of these have ended
 * kept_sectors.c		how much of it, counted: what shared objects keep
 * history.c			space of removed values that is kept for a time
 * references.c			the pending queue: references to share records are counted down
 * resolve.c			the pending queue: entries are taken out, space becomes free
 * space_usage.c		what other rooms ask of pages: contents, used bits, sums
 * shrink_limit.c		how short the data files can become
 * move.c				storage moved to another tablespace
 *
 * floor 5, all of it:
 * full.c				the error of a segment at its limit
 * lend.c				blocks lent to a backend, and given back
 * release.c			free runs go back to the file system where they lie
 * node_pages.c			new inode pages
 * dictionary_pages.c	dictionaries of the codec "trained"
 * root.c				whose the map of a root page is
 * share_records.c		share records: made, found, counted up
 * advice_sweep.c		advice on them, and what is left of those that are gone
 * key_pages.c			key pages
 * advice.c				advice on duplicates: a hash index of share records
 * maintain_segment.c	what the monitor does to a segment
 * repair_pages.c		pages made anew for securefile_repair()
 *
 * Invariants (asserted where they are made or used; of each change S1 and S4 by
 * page_change.c, before it is applied, and S6 after; S7 and S9 by lend.c, S8 by
 * dispense.c):
 *	 S1	a used bit is set only by the record that adds its ALLOC entry (or by
 *		repair_pages.c, if its owner has committed), and cleared only by the
 *		resolver;
 *	 S2	a block is lent only when its used byte is 0 and its lent bit is 0;
 *	 S3	nothing beyond the header's total_sectors is lent or used;
 *	 S4	every page change is a list of operations applied by page_change.c, the
 *		same for the forward path and redo;
 *	 S5	an entry leaves the queue only when its transaction has ended: its space
 *		becomes free if that failed (ALLOC) or committed (FREE), and stays used
 *		if not;
 *	 S6	the count of a map page changes by as much as its used bits do;
 *	 S7	what is lent below a bound ends before it;
 *	 S8	where a quarter of a segment is free, the dispenser gives no run while it
 *		has one that serves as well, or better, and lies lower (by more map pages
 *		than writers spread over);
 *	 S9	a process that has grown a segment lends what it has made, unless another
 *		one was quicker: a lending never grows twice for itself.
 *
 * Lock order: growth lock, resolver lock (heavyweight page locks of the segment relation),
 * header page, pending pages in queue order, history pages and pages of removed values likewise,
 * share pages, a bucket of the advice, inode and free pages, map pages ascending; the LWLocks of
 * dispenser, proved blocks and parked regions are leaves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SPACE_INTERNAL_H
#define SF_SPACE_INTERNAL_H

#include "access/relation.h"
#include "space/share_records.h"
#include "space/space.h"
#include "storage/buf.h"

/*
 * ---- relation of a segment, for the time of one function ----
 *
 * With a lock of its own (AccessShareLock); the caller of the room holds one already, so
 * this never waits.  ERROR OBJECT_NOT_IN_PREREQUISITE_STATE when the relation has other
 * storage than the segment was opened with.  Not for a retained segment.
 */

extern Relation sfi_segment_rel(SfSegment *seg);
extern void sfi_segment_close(Relation rel);

/*
 * ---- what the object of a record owns (references.c) ----
 *
 * As SfSpaceAbove has it.  try: false where its map cannot be read, or no subtransaction can
 * catch that, in parallel mode.
 */
extern SfOwned sfi_owned_of_share(SfSegment *seg, const SfShareRecord *record);
extern bool sfi_owned_try(SfSegment *seg, const SfShareRecord *record, SfOwned *owned);

/* What rooms above have handed down. */
extern SfSpaceAbove sfi_above;

/*
 * Header page of a segment, copied under a share lock; or locked exclusively, and copied to be
 * changed and logged.  DATA_CORRUPTED.
 */
extern SfHeader sfi_header(Relation segrel);
extern Buffer sfi_header_lock(Relation segrel, SfHeader *header);

/* Heavyweight page locks, released at transaction end when an ERROR intervenes. */
#define SF_LOCK_RESOLVER	0
#define SF_LOCK_GROWTH		1

/* ---- the index of advice (advice.c), for the sweep that keeps it small ---- */

/* A bucket with one entry more is split. */
#define SFI_ADVICE_SWEEP_AT	(SF_ADVICE_BUCKET_MAX * 3 / 4 - 1)

/* Copy the bucket of a key; false: there is no index, or it is damaged. */
extern bool sfi_advice_copy(SfSegment *seg, uint64 key, SfAdviceBucket *copy);

/* Split the bucket of a key, if it has so many entries. */
extern void sfi_advice_split(SfSegment *seg, uint64 key, int nentries);

/* ---- keep.c ---- */

/*
 * The oldest transaction whose frees have to wait for a reader without a snapshot;
 * PG_UINT64_MAX: none has to.  To be asked after the server's horizon.
 */
extern uint64 sfi_keep_oldest(void);

/* End of a transaction: what a procedure has kept for long enough is let go.  Never throws. */
extern void sfi_keep_at_end(void);

#endif							/* SF_SPACE_INTERNAL_H */
