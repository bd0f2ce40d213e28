/*-------------------------------------------------------------------------
 *
 * storage.h
 *	  Life of storage, for the files of space/: made, copied, kept, dropped, adopted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STORAGE_H
#define SF_STORAGE_H

#include "space/space_internal.h"
#include "storage/block.h"

/* ---- the same pages in other storage (copy.c) ---- */

/* Read a page of the segment relation to be copied; ERROR when it is damaged. */
typedef void (*SfPageSource) (BlockNumber page, char *block, void *arg);

/*
 * Fill the main fork of new storage, which is there and empty, with the pages
 * of other storage, in WAL and durably.
 */
extern void sfi_copy_pages(SfStorage to, BlockNumber npages, SfPageSource read, void *arg);

/* ---- storage kept for logical decoding (retained.c) ---- */

/*
 * Copy the pages of a segment relation beside its data files, durably.  Before the commit
 * record of the transaction that drops it, and under its AccessExclusiveLock.  An ERROR
 * leaves no copy that counts.
 */
extern void sfi_retained_save(SfStorage storage);

/*
 * Is there a copy, and did the transaction that made it commit?  These two, and those
 * below, need no lock: the copy is renamed into place whole, and only the sweeper removes
 * it.  They throw when it cannot be read.
 */
extern bool sfi_retained_counts(SfStorage storage);

/* Is there a copy that a slot may still need? */
extern bool sfi_retained_is_needed(SfStorage storage);

/* As sf_space_read_page() and sfi_header(), from the copy. */
extern SfPageType sfi_retained_page(SfStorage storage, uint32 page, char *content);
extern SfHeader sfi_retained_header(SfStorage storage);

/* ---- life of storage (storage.c) ---- */

/* Note new storage that goes if this (sub)transaction aborts; before it has files. */
extern void sfi_storage_note_made(SfStorage storage);

/*
 * Does any relation of this database, as of now, have that storage?  In a transaction;
 * reads pg_class.
 */
extern bool sfi_space_is_named(SfStorage storage);

/* ---- pg_upgrade that is not finished (unfinished.c) ---- */

/*
 * End of a transaction: true when it has finished an upgrade.  Throws nothing: what cannot
 * be written is a WARNING.
 */
extern bool sfi_upgrade_at_end(bool commit);

/* Does this transaction make what pg_upgrade has left its own when it commits? */
extern bool sfi_upgrade_is_finishing(void);

#endif							/* SF_STORAGE_H */
