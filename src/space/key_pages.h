/*-------------------------------------------------------------------------
 *
 * key_pages.h
 *	  The wrapped keys of a segment (key_pages.c).
 *
 * Audience: keys/, check/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_KEY_PAGES_H
#define SF_KEY_PAGES_H

#include "format/key.h"
#include "space/space.h"

/*
 * The segment is open and locked: AccessShareLock, to put RowExclusiveLock.
 *
 * read: false when it has none.  Of two pages a damaged one is passed over, with a WARNING.
 * page: that one of the two, by its number; 0: the one that is sound.  DATA_CORRUPTED.
 * put: have both pages say keys, unless they say something else by now than what the caller
 * has seen (NULL: nothing): then false, and nothing is done.  It holds for all from then on,
 * and whether this transaction commits or not.  DATA_CORRUPTED when a page is damaged, or the
 * two differ.
 */
extern bool sf_space_read_keys(SfSegment *seg, uint32 page, SfKeyPage *keys);
extern bool sf_space_put_keys(SfSegment *seg, const SfKeyPage *seen, const SfKeyPage *keys);

/*
 * Have both key pages on disk, and all WAL before.  The segment is locked for writing, and
 * has key pages.  Errors of writing.
 */
extern void sf_space_sync_keys(SfSegment *seg);

#endif							/* SF_KEY_PAGES_H */
