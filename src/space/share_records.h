/*-------------------------------------------------------------------------
 *
 * share_records.h
 *	  Objects that several rows share: their records, the marks on the roots of maps,
 *	  what they own, and the advice by which duplicates are found.
 *
 * Audience: object/, write/, stream/, check/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARE_RECORDS_H
#define SF_SHARE_RECORDS_H

#include "format/share.h"
#include "space/space.h"

/* The root page of a map, as the locator of a value names it. */
typedef struct SfRoot
{
	uint64		object_id;
	uint64		stamp;
	uint32		page;
} SfRoot;

/*
 * ---- share records (share_records.c) ----
 *
 * Of a segment that is open with RowExclusiveLock, but for the first, which takes any lock.
 * DATA_CORRUPTED when a page is damaged.
 */

/* A copy of a share record. */
typedef union SfShareCopy
{
	SfShareRecord record;
	uint8		bytes[SF_SHARE_RECORD_MAX];
} SfShareCopy;

/* Read a record; false: there is none at that place. */
extern bool sf_space_share_read(SfSegment *seg, SfShareId id, SfShareCopy *copy);

/*
 * Read the record that an entry of the advice (below) leads to; id: of that.  False: the entry is
 * stale, since there is none, or one with another hash.
 */
extern bool sf_space_share_follow(SfSegment *seg, const SfAdvice *advice, SfShareId *id,
								  SfShareCopy *copy);

/*
 * Make a record, RESERVED and of this transaction; its cells are free again if that fails,
 * or does not publish it.
 */
extern SfShareId sf_space_share_put(SfSegment *seg, const SfShareCopy *copy);

/*
 * Count n references up, which an entry takes back if this transaction fails.  False, and
 * nothing changed: the record is not there any more, or nobody may refer to it.  Nothing
 * throws after the count was logged.
 */
extern bool sf_space_share_refer(SfSegment *seg, SfShareId id, uint64 object_id, uint32 n);

/* Pre-commit: n > 0 rows have what this transaction has made a record of. */
extern void sf_space_share_publish(SfSegment *seg, SfShareId id, uint64 object_id, uint32 n);

/* Have others find a record, which has hashes, by advice (below).  No page is locked. */
extern void sf_space_share_advise(SfSegment *seg, SfShareId id, const SfShareRecord *record);

/*
 * Make a record of what a row has: LIVE at once, with a reference for that row and one for
 * this transaction, which an entry takes back if it fails.  The map is that of a root.  False,
 * and nothing done: the mark of the root does not allow it.  Nothing throws after that was
 * logged.
 */
extern bool sf_space_share_root(SfSegment *seg, SfRoot root, const SfShareCopy *copy,
								SfShareId *id);

/*
 * ---- roots of maps (root.c) ----
 *
 * Of a segment that is open with RowExclusiveLock.  DATA_CORRUPTED when the page is damaged;
 * a page that is not that root (any more) has no mark.
 *
 * record: the record that owns the map; false, and page 0: none does.
 * own: pre-commit, a row has a new map.
 * take: a row gives up its map (gives_up), or a version that is to follow it is begun.
 * Returns true, and the record, if one owns the map: it is not the row's to give up.  Else no
 * record will own it from now on, unless this transaction fails; of one that is begun only
 * that is not certain, if another transaction has begun one, too.
 */
extern bool sf_space_root_record(SfSegment *seg, SfRoot root, SfShareId *id);
extern void sf_space_root_own(SfSegment *seg, SfRoot root);
extern bool sf_space_root_take(SfSegment *seg, SfRoot root, bool gives_up, SfShareId *id);

/* What the object of a record owns: runs and inode pages, palloc'd, always in the same order. */
typedef struct SfOwned
{
	SfRun	   *runs;
	int			nruns;
	uint32	   *pages;			/* inode pages, or NULL */
	int			npages;
} SfOwned;

/* The sectors of its runs. */
static inline uint64
sf_space_owned_sectors(const SfOwned *owned)
{
	uint64		sum = 0;

	SF_ASSERT(owned->nruns >= 0);
	for (int i = 0; i < owned->nruns; i++)
		sum += owned->runs[i].nsectors;
	return sum;
}

/* Free what it points to. */
static inline void
sf_space_free_owned(const SfOwned *owned)
{
	SF_ASSERT(owned->runs != NULL && owned->npages >= 0);
	pfree(owned->runs);
	if (owned->pages != NULL)
		pfree(owned->pages);
}

/*
 * ---- advice on duplicates (advice.c) ----
 *
 * Of a segment that is open with RowExclusiveLock; find takes any lock, and may be called on a
 * standby.  Entries come and go at once, whatever becomes of the transaction.  No page is
 * locked by the caller.  A damaged page of the advice is no error but a WARNING, once in a
 * process.  What may be thrown: errors of the server when it reads a page or makes the
 * relation longer; DATA_CORRUPTED for a damaged header, or list of free pages.
 *
 * find: entries of a key and kind, SF_ADVICE_SAME_MAX at most, to found, the newest one first;
 * returns how many.  Each may lead nowhere, or to another content.
 * add: an entry, unless it is there.  Returns how many its bucket has then, or 0 where nothing was
 * added.  Another one may go for it: to dropped, page 0 where none did.
 * remove: an entry, by its value, if it is there.
 *
 * A repair forgets all of it (repair_pages.h).
 */
extern int	sf_space_advice_find(SfSegment *seg, uint64 key, SfAdviceKind kind, SfAdvice *found);
extern int	sf_space_advice_add(SfSegment *seg, const SfAdvice *entry, SfAdvice *dropped);
extern void sf_space_advice_remove(SfSegment *seg, const SfAdvice *entry);

#endif							/* SF_SHARE_RECORDS_H */
