/*-------------------------------------------------------------------------
 *
 * pages.h
 *	  Pages of the segment relation, for the files of space/: reading and checking
 *	  them, their seals, the bits of a map page, and the one way to change them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PAGES_H
#define SF_PAGES_H

#include "space/record.h"
#include "format/change.h"
#include "format/dictionary.h"
#include "format/removed.h"
#include "format/share.h"
#include "space/share_records.h"
#include "space/space_internal.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

/* ---- pages (page.c) ---- */

/*
 * Of all functions here: rel is a segment relation on which the caller holds a lock
 * (AccessShareLock at least), page a number in it.  Buffers are pinned and locked when
 * they are returned, to be given back with UnlockReleaseBuffer().  Unless it says so, a
 * function may throw, and is neither for critical sections nor for replay.
 */

/*
 * Read and lock a page, checking type, seal and fields: DATA_CORRUPTED if wrong.
 * mode is BUFFER_LOCK_SHARE or BUFFER_LOCK_EXCLUSIVE.  May wait for a disk, and for
 * the holder of the page's lock; see the order of locks in space_internal.h.
 */
extern Buffer sfi_page_read(Relation rel, uint32 page, SfPageType type, int mode);

/*
 * Show the map pages of so many sectors, each under its lock in share mode: from the first one on,
 * or (from_end) from the last one back, until visit returns false.  limit: the blocks of that page
 * that lie before the end.  The pages are of slightly different moments.
 */
typedef bool (*SfMapVisit) (const SfMap *content, uint32 map, uint32 limit, void *arg);
extern void sfi_visit_maps(Relation rel, uint64 total_sectors, bool from_end, SfMapVisit visit,
						   void *arg);

/*
 * Sectors marked used on all map pages, of so many that there are.  The pages count them, and the
 * count is part of what their seals cover, so the bits need not be looked at.
 */
extern uint64 sfi_used_sectors(Relation rel, uint64 total_sectors);

/*
 * For pages whose damage is no error.
 *
 * pin: a page, which is not locked; InvalidBuffer when there cannot be such a page.  May wait
 * for a disk, and throw when the read fails.
 * lock_sound: lock a page that is pinned; false, and not locked, unless it is sound and of that
 * type, or when this process has locked it.  Never throws.
 */
extern Buffer sfi_page_pin(Relation rel, uint32 page);
extern bool sfi_page_lock_sound(Relation rel, Buffer buf, SfPageType type, int mode);

/*
 * For assertions: does this process hold the lock of a buffer in that mode, and a
 * heavyweight page lock (SF_LOCK_RESOLVER, .._GROWTH) of the relation?
 */
extern bool sfi_page_is_locked(Buffer buf, LWLockMode mode);
extern bool sfi_page_lock_is_held(Relation rel, BlockNumber which);

/* Of which storage a pinned buffer is.  Never throws: also for critical sections and replay. */
extern SfStorage sfi_page_storage(Buffer buf);

/* Make sure that the relation has a place for a page; an ERROR where there is no space. */
extern void sfi_page_extend(Relation rel, uint32 page);

/*
 * Get a page to be initialised, extending the relation up to it if need be;
 * locked.  DATA_CORRUPTED when there is something on it.
 */
extern Buffer sfi_page_new(Relation rel, uint32 page, SfPageType type);

/* As sfi_page_new(), but whatever is on the page is overwritten; for repair only. */
extern Buffer sfi_page_reinit(Relation rel, uint32 page);

/*
 * Copy the contents of a page (SF_PAGE_CONTENT bytes) and return its type, or 0
 * when it is none of ours or there is no such page.  DATA_CORRUPTED when it is
 * damaged.
 */
extern SfPageType sfi_page_copy(Relation rel, uint32 page, char *content);

/* Copy the contents of a page that must be of that type, read as sfi_page_read() does. */
extern void sfi_page_read_copy(Relation rel, uint32 page, SfPageType type, void *content);

/*
 * Copy a page of a segment relation as it is, BLCKSZ bytes, unchecked.  The storage is one
 * that nobody can remove meanwhile.  mode: RBM_NORMAL, or RBM_ZERO_ON_ERROR.
 */
extern void sfi_page_image(SfStorage storage, BlockNumber page, ReadBufferMode mode, char *block);

/* The ERROR of a damaged page; detail is a sentence. */
SF_NORETURN extern void sfi_page_report_damaged(Relation rel, uint32 page, const char *detail);

/* The same of a page that is sound in itself, but not what the one that leads to it says. */
SF_NORETURN extern void sfi_page_report_contents(const char *kind, uint32 page,
												 const char *detail);

/* Is there such a page, and has it been initialised? */
extern bool sfi_page_is_used(Relation rel, uint32 page);

/* Is a page one of ours, its seal unbroken, and does it say what can be?  Never throws. */
extern bool sfi_page_is_sound(Page page, uint32 relnumber, BlockNumber n);

/* DATA_CORRUPTED unless a copy of a page is sound, or new; sealed for relnumber. */
extern void sfi_page_require_sound(Page page, SfStorage storage, uint32 relnumber, BlockNumber n);

/*
 * Read block n of a file that holds pages; false when there is no file, or no
 * such block.  Other failures are reported at elevel, ERROR or more.
 */
extern bool sfi_page_from_file(const char *path, uint64 n, char *block, int elevel);

/* Read the first page of storage past the buffers (an SfIoBlock); false if none. */
extern bool sfi_page_first_of_fork(SfStorage storage, char *block);

/*
 * Initialise a page with contents, len bytes of SF_PAGE_CONTENT at most, and zeros behind
 * them.  The page is not sealed.  Never throws: also for critical sections and replay.
 */
extern void sfi_page_init(Page page, SfPageType type, const void *content, Size len);

static inline SfPageTrailer *
sfi_page_trailer(Page page)
{
	return (SfPageTrailer *) ((char *) page + BLCKSZ - SF_PAGE_SPECIAL);
}

#define SfPageHeader(p)		((SfHeader *) PageGetContents(p))
#define SfPageMap(p)		((SfMap *) PageGetContents(p))
#define SfPagePending(p)	((SfPending *) PageGetContents(p))
#define SfPageInode(p)		((SfInode *) PageGetContents(p))
#define SfPageFree(p)		((SfFreePage *) PageGetContents(p))
#define SfPageKeys(p)		((SfKeyPage *) PageGetContents(p))
#define SfPageDictionary(p)	((SfDictionaryPage *) PageGetContents(p))
#define SfPageRemoved(p)	((SfRemovedPage *) PageGetContents(p))
#define SfPageShare(p)		((SfSharePage *) PageGetContents(p))
#define SfPageAdviceBucket(p)	((SfAdviceBucket *) PageGetContents(p))

/*
 * ---- types and seals of pages (seal.c) ----
 *
 * None of these fails or allocates: critical sections and redo use them.
 */

/* Type of a page, or 0 when it is none of ours. */
extern SfPageType sfi_page_type(Page page);

/* The version of the format of a page that a later version of the library has written, or 0. */
extern uint32 sfi_page_later_version(Page page);

/*
 * relnumber: file number of the storage that the page is of.  n: which page it is.
 *
 * compute: the seal that the page must have as it is now.
 * holds: has it that one, or none?
 * put: write it.  The page is locked exclusively, or nobody else's.
 */
extern uint64 sfi_seal_compute(Page page, uint32 relnumber, BlockNumber n);
extern bool sfi_seal_holds(Page page, uint32 relnumber, BlockNumber n);
extern void sfi_seal_put(Page page, uint32 relnumber, BlockNumber n);

/* The file number that a page was sealed for; 0 when it is not sealed. */
extern uint32 sfi_seal_relnumber(Page page);

/* ---- map (map.c) ---- */

/* None of these throws or allocates.  Blocks count from the first one of the page. */

/* The range on its map page of a run, which never crosses a page; count > 0. */
extern SfMapRange sfi_map_range(uint64 start, uint32 count);

/*
 * Mark blocks lent, or not lent, on a page that is locked exclusively.  lend: all are free;
 * the plane is reset first when it is of another boot.  take_back: what is not lent is
 * left alone.  The caller marks the page dirty (sfi_map_dirty_lent()).
 */
extern void sfi_map_lend(SfMap *map, uint32 first, uint32 count);
extern void sfi_map_take_back(SfMap *map, uint32 first, uint32 count);

/* Is a block marked there?  Of no meaning when the page is of another boot. */
extern bool sfi_map_is_lent(const SfMap *map, uint32 block);

/* Is each sector of a range used, or in a block that is lent since this start of the server? */
extern bool sfi_map_is_held(const SfMap *map, SfMapRange range);

/* Sectors before block limit that are free, in blocks lent since this start of the server. */
extern uint32 sfi_map_reserved(const SfMap *map, uint32 limit);

/*
 * Next run of blocks neither used nor lent at or after *from, below limit.
 * False when there is none.  Moves *from behind it.
 */
extern bool sfi_map_next_free(const SfMap *map, uint32 limit, uint32 *from, uint32 *first,
							  uint32 *count);

/* Mark a page dirty whose lent plane changed; buffer locked exclusively. */
extern void sfi_map_dirty_lent(Buffer buf, SfStorage storage);

/* ---- roots of maps (root.c) ---- */

/*
 * May a record take over the map of a root, by its mark (and the outcome of the transaction
 * that the mark names)?  mark: what there is now.
 */
extern bool sfi_root_may_be_shared(Relation rel, SfRoot root, uint64 *mark);

/* Lock the page of a root exclusively; InvalidBuffer if it has not that mark any more. */
extern Buffer sfi_root_lock(Relation rel, SfRoot root, uint64 mark);

/* ---- page changes (page_change.c) ---- */

#define SF_CHANGE_MAX		24	/* pages in one change */

/*
 * A change under construction: begin, add locked buffers, add operations,
 * finish.  One at a time per process.  An ERROR in between loses it, which is
 * fine: nothing was modified.
 */
extern void sfi_change_begin(void);

/* Add a buffer, locked exclusively, at most SF_CHANGE_MAX; returns its place. */
extern int	sfi_change_add(Buffer buf);

/* Place of a buffer that was added, or -1; and the buffer at a place.  Never throw. */
extern int	sfi_change_find(Buffer buf);
extern Buffer sfi_change_buffer(int i);

/* Add an operation to the page at a place; the payload is copied. */
extern void sfi_change_op(int i, SfOpCode code, const void *payload, Size len);

/* The operation for a header page: all of the header; and a change that begins with it. */
extern void sfi_change_header(int i, const SfHeader *header);
extern void sfi_change_begin_header(Buffer hbuf, const SfHeader *header);

/* The operation that makes the page new, which is then its only one. */
extern void sfi_change_init(int i, SfPageType type, const void *content, Size len);

/*
 * Apply all operations, write the record, unlock and release all buffers.
 * Returns the record's end, up to which WAL is not flushed.  info: XLOG_SF_*; data: its
 * struct.  DATA_CORRUPTED, and nothing changed, when a page is such that an operation
 * cannot be applied to it.
 */
extern XLogRecPtr sfi_change_finish(uint8 info, const void *data, Size len);

/*
 * The same for a PAGES record.  nentries: of which kind, and how many, pending
 * entries are added; 0 and 0 where there are none.
 */
extern XLogRecPtr sfi_change_finish_pages(SfPagesReason reason, uint8 kind, uint16 nentries);

/* Redo of the pages of a record, which sfi_record_check() has found sound. */
extern void sfi_change_redo(XLogReaderState *record);

#endif							/* SF_PAGES_H */
