/*-------------------------------------------------------------------------
 *
 * space_internal.h
 *	  What the files of space/ share and no other room sees.
 *
 * Invariants (asserted where they are made or used):
 *	 S1	a used bit is set only by the record that adds its ALLOC entry (or by
 *		repair.c, if its owner has committed), and cleared only by the
 *		resolver;
 *	 S2	a block is lent only when its used byte is 0 and its lent bit is 0;
 *	 S3	nothing beyond the header's total_sectors is lent or used;
 *	 S4	every page change is a list of operations applied by change.c, the
 *		same for the forward path and redo.
 *
 * Lock order: growth lock, resolver lock (heavyweight page locks of the
 * segment relation), header page, pending pages in queue order, inode and free
 * pages, map pages ascending; the arena and dispenser LWLocks are leaves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SPACE_INTERNAL_H
#define SF_SPACE_INTERNAL_H

#include "access/relation.h"
#include "space/record.h"
#include "space/space.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

/* ---- page changes (change.c) ---- */

#define SF_CHANGE_MAX		24	/* pages in one change */

/*
 * A change under construction: begin, add locked buffers, add operations,
 * finish.  One at a time per process.  An ERROR in between loses it, which is
 * fine: nothing was modified.
 */
extern void sf_change_begin(void);
extern int	sf_change_add(Buffer buf);
extern int	sf_change_find(Buffer buf);
extern Buffer sf_change_buffer(int i);
extern void sf_change_op(int i, SfOpCode code, const void *payload, Size len);
extern void sf_change_init(int i, SfPageType type, const void *content, Size len);

/*
 * Apply all operations, write the record, unlock and release all buffers.
 * Returns the record's end.
 */
extern XLogRecPtr sf_change_finish(uint8 info, const void *data, Size len);

/*
 * The same for a PAGES record.  nentries: of which kind, and how many, pending
 * entries are added; 0 and 0 where there are none.
 */
extern XLogRecPtr sf_change_finish_pages(SfPagesReason reason, uint8 kind, uint16 nentries);

/* Redo of the pages of a record. */
extern void sf_change_redo(XLogReaderState *record);

/* ---- pages (page.c) ---- */

/*
 * Read and lock a page, checking type, seal and fields: DATA_CORRUPTED if wrong.
 * mode is BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE.
 */
extern Buffer sf_page_read(Relation rel, uint32 page, SfPageType type, int mode);

/* Make sure that the relation has a place for a page; an ERROR where there is no space. */
extern void sf_page_extend(Relation rel, uint32 page);

/*
 * Get a page to be initialised, extending the relation up to it if need be;
 * locked.  DATA_CORRUPTED when there is something on it.
 */
extern Buffer sf_page_new(Relation rel, uint32 page, SfPageType type);

/* The same whatever is on it. */
extern Buffer sf_page_anew(Relation rel, uint32 page);

/* Copy a page of a segment relation as it is, BLCKSZ bytes. */
extern void sf_page_image(SfNode node, BlockNumber page, ReadBufferMode mode, char *block);

/* The ERROR of a damaged page; detail is a sentence. */
SF_NORETURN extern void sf_page_report_damaged(Relation rel, uint32 page, const char *detail);

/* Is there such a page, and has it been initialised? */
extern bool sf_page_is_used(Relation rel, uint32 page);

/* Is a page one of ours, its seal unbroken, and does it say what can be?  Never throws. */
extern bool sf_page_is_sound(Page page, uint32 relnumber, BlockNumber n);

/* DATA_CORRUPTED unless a copy of a page is sound, or new; sealed for relnumber. */
extern void sf_page_require_sound(Page page, SfNode node, uint32 relnumber, BlockNumber n);

/*
 * Read block n of a file that holds pages; false when there is no file, or no
 * such block.  Other failures are reported at elevel, ERROR or more.
 */
extern bool sf_page_from_file(const char *path, uint64 n, char *block, int elevel);

/* Read the first page of storage past the buffers (an SfIoBlock); false if none. */
extern bool sf_page_first_of_fork(SfNode node, char *block);

extern SfPageType sf_page_type(Page page);
extern void sf_page_init(Page page, SfPageType type, const void *content, Size len);

static inline SfPageTrailer *
sf_page_trailer(Page page)
{
	return (SfPageTrailer *) ((char *) page + BLCKSZ - SF_PAGE_SPECIAL);
}

#define SfPageHeader(p)		((SfHeader *) PageGetContents(p))
#define SfPageMap(p)		((SfMap *) PageGetContents(p))
#define SfPagePending(p)	((SfPending *) PageGetContents(p))
#define SfPageInode(p)		((SfInode *) PageGetContents(p))
#define SfPageFree(p)		((SfFreePage *) PageGetContents(p))

/*
 * ---- seals of pages (seal.c) ----
 *
 * None of these fails or allocates: critical sections and redo use them.
 */

extern uint64 sf_seal_compute(Page page, uint32 relnumber, BlockNumber n);
extern bool sf_seal_holds(Page page, uint32 relnumber, BlockNumber n);
extern void sf_seal_put(Page page, uint32 relnumber, BlockNumber n);

/* The file number that a page was sealed for; 0 when it is not sealed. */
extern uint32 sf_seal_relnumber(Page page);

/*
 * ---- relation of a segment, for the time of one function ----
 *
 * With a lock of its own; the caller of the room holds one already.
 */

extern Relation sf_segment_rel(SfSegment *seg);
extern void sf_segment_close(Relation rel);

/* Heavyweight locks, released at transaction end when an ERROR intervenes. */
#define SF_LOCK_RESOLVER	0
#define SF_LOCK_GROWTH		1

/* ---- map (map.c) ---- */

extern SfMapRange sf_map_range(uint64 start, uint32 count);

/* Lent plane of a page, reset first when it is of another boot. */
extern void sf_map_lend(SfMap *map, uint32 first, uint32 count);
extern void sf_map_unlend(SfMap *map, uint32 first, uint32 count);

/* Is a block marked there?  Of no meaning when the page is of another boot. */
extern bool sf_map_is_lent(const SfMap *map, uint32 block);

/*
 * Next run of blocks neither used nor lent at or after *from, below limit.
 * False when there is none.  Moves *from behind it.
 */
extern bool sf_map_next_free(const SfMap *map, uint32 limit, uint32 *from, uint32 *first, uint32 *count);

/* Mark a page dirty whose lent plane changed; buffer locked exclusively. */
extern void sf_map_dirty_lent(Buffer buf, SfNode node);

/* ---- growth (grow.c) ---- */

/* Granule of growth and cuts: what a column with one small value takes. */
#define SF_GROWTH_SECTORS	(64 * 1024 / SF_SECTOR_SIZE)

/* Grow unless another did since total_sectors was seen. */
extern void sf_grow(SfSegment *seg, Relation rel, uint64 seen_total_sectors, uint32 need_blocks);

/* Grow ahead of need, if nobody else is at it; returns sectors added. */
extern uint64 sf_grow_ahead(SfSegment *seg, Relation rel, uint64 sectors);

/*
 * Cut a free tail, if that is at least min_cut_sectors when the slack (or
 * keep_sectors, if more) is left; returns sectors cut.  Of a segment in which
 * nothing is used no slack is left.  Does nothing while another grows or cuts.
 */
extern uint64 sf_grow_cut_tail(SfSegment *seg, Relation rel, uint64 keep_sectors,
							   uint64 min_cut_sectors);

/* ---- lending (lend.c) ---- */

extern uint64 sf_lend_scan(SfSegment *seg, Relation rel, uint32 need);
extern bool sf_lend_collect(SfSegment *seg, Relation rel, int idle_ms);

/* ---- dispenser (dispense.c): hints, never truth ---- */

extern bool sf_dispense_take(SfNode node, uint32 need, uint32 want, SfRegion *run);
extern void sf_dispense_put(SfNode node, SfRegion run);
extern void sf_dispense_forget(SfNode node);

/* Where the next scan of the map starts; moves on by npages. */
extern uint32 sf_dispense_cursor(SfNode node, uint32 npages);

/*
 * Was the queue resolved at this very horizon already?  Then there is nothing
 * to be had from it; note_resolved says so.
 */
extern bool sf_dispense_worth_resolving(SfNode node, uint64 horizon);
extern void sf_dispense_note_resolved(SfNode node, uint64 horizon);
extern Size sf_dispense_shmem_size(void);
extern void sf_dispense_shmem_init(void);

/*
 * Blocks lent: since the last call, the rate the monitor grows by; and in the
 * recent past (halved every minute), which it keeps free rather than cut.
 */
typedef struct SfDemand
{
	uint64		latest_blocks;
	uint64		recent_blocks;
} SfDemand;

extern SfDemand sf_dispense_take_demand(SfNode node);
extern void sf_dispense_note_demand(SfNode node, uint32 nblocks);

/* ---- arenas (arena.c) ---- */

/*
 * Take parked regions of a storage that may be given back: garbage, and those
 * of backends that have not claimed them for idle_ms.  Returns how many.
 */
extern int	sf_arena_collect(SfNode node, int idle_ms, SfRegion *regions, int max);

/* Idle for so long, a backend's arena may be taken. */
#define SF_ARENA_IDLE_MS	1000
#define SF_ARENA_ANY_AGE	(-1000)	/* also what has just been parked */
extern void sf_arena_forget(SfNode node);
extern Size sf_arena_shmem_size(void);
extern void sf_arena_shmem_init(void);

/* ---- the same pages in other storage (copy.c) ---- */

/* Read a page of the segment relation to be copied; ERROR when it is damaged. */
typedef void (*SfPageSource) (BlockNumber page, char *block, void *arg);

/*
 * Fill the main fork of new storage, which is there and empty, with the pages
 * of other storage, in WAL and durably.
 */
extern void sf_copy_pages(SfNode to, BlockNumber npages, SfPageSource read, void *arg);

/* ---- storage kept for logical decoding (kept.c) ---- */

/* Copy the pages of a segment relation beside its data files, durably. */
extern void sf_kept_save(SfNode node);

/* Is there a copy, and did the transaction that made it commit? */
extern bool sf_kept_counts(SfNode node);

/* Is there a copy that a slot may still need? */
extern bool sf_kept_is_needed(SfNode node);

/* As sf_space_read_page() and sf_space_header(), from the copy. */
extern SfPageType sf_kept_page(SfNode node, uint32 page, char *content);
extern SfHeader sf_kept_header(SfNode node);

/* ---- life of storage (storage.c) ---- */

/* Note new storage that goes if this (sub)transaction aborts. */
/* Does any relation of this database, as of now, have that storage? */
extern bool sf_space_is_named(SfNode node);

extern void sf_storage_note_made(SfNode node);

extern void sf_storage_redo_create(SfNode node);
extern void sf_storage_redo_unlink(SfNode node, XLogRecPtr end);

/* End of a transaction (upgrade.c): true when it has finished an upgrade. */
extern bool sf_upgrade_at_end(bool commit);

/* Does this transaction make what pg_upgrade has left its own when it commits? */
extern bool sf_upgrade_is_finishing(void);

/* Full id of a recent xid. */
extern uint64 sf_full_xid(TransactionId xid);

#endif							/* SF_SPACE_INTERNAL_H */
