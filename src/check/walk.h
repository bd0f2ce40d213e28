/*-------------------------------------------------------------------------
 *
 * walk.h
 *	  The walk over the pages of a segment relation: what it has seen, and the files that it
 *	  goes through.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CHECK_WALK_H
#define SF_CHECK_WALK_H

#include "check/check_internal.h"
#include "format/dictionary.h"
#include "format/key.h"
#include "format/removed.h"
#include "format/share.h"
#include "space/repair_pages.h"

/* Facts about a page of the segment relation, as bits of SfPageWalk.known. */
#define SF_KNOWN_QUEUED		0x01	/* in the queue of pending pages */
#define SF_KNOWN_FREE		0x02	/* in the list of free pages */
#define SF_KNOWN_OWNED		0x04	/* inode page of a live row */
#define SF_KNOWN_NAMED		0x08	/* named by a pending entry */
#define SF_KNOWN_DOOMED		0x10	/* named by an entry that will set it free */
#define SF_KNOWN_TAKEN		0x20	/* named by a committed transaction that
									 * took it */
#define SF_KNOWN_ADVICE		0x40	/* of the advice on duplicates */
#define SF_KNOWN_SHARE		0x80	/* a share page, or it should be one */
#define SF_KNOWN_REMOVED	0x100	/* in the list of removed values */

/* The walk over the pages of a segment relation, and what it has seen. */
typedef struct SfPageWalk
{
	SfCheck    *check;
	bool		all_sound;		/* every live value was read without a
								 * finding, so space that no value owns can be
								 * freed safely */
	uint32		npages;			/* of the relation */
	uint32		nblocks;		/* that it should have; >= npages */
	bool		header_ahead;	/* the header names a next page that cannot
								 * be: nblocks does not go by it */
	bool		end_ahead;		/* the same of the end of the segment:
								 * check->total_sectors does not go by it */
	uint16	   *known;			/* SF_KNOWN_ bits of each of nblocks pages */
	SfRowRuns	named;			/* sectors that pending entries answer for */
	SfRowRuns	doomed;			/* of these, those that will be set free */
	SfRowRuns	damaged_maps;	/* numbers of map pages */
	SfRowRuns	distrusted_maps;	/* that may show the place of a damaged
									 * value as free; ascending */
	bool		header_behind;	/* the stale header page would give out again
								 * what is in use */
	bool		running;		/* a transaction with entries has not ended */
	uint32		end_page;		/* behind the last one that is in use */
	uint64		max_stamp;		/* of inode pages */
	uint32		key_pages[2];	/* by the header, or else found; 0: none */
	bool		keys_sound[2];
	SfKeyPage	keys[2];		/* of those that are */
	uint32		dictionaries[SF_DICTIONARY_MAX + 1];	/* by number: the first
														 * page of a sound one,
														 * or 0; and what its
														 * list has behind it */
	uint32		dictionaries_before[SF_DICTIONARY_MAX + 1];
	bool		dictionary_damaged; /* one of the list is not sound */
	bool		dictionary_lost;	/* one is sound, and not in the list */
	SfRowRuns	strays;			/* pages of dictionaries that are not in the
								 * list */
	bool		advice_damaged; /* a page of the advice is not sound */
	bool		removed_damaged;	/* the list of removed values is not sound */
	uint32		advice_strays;	/* pages that it does not lead to, */
	uint32		advice_stray;	/* and the first of them */
	uint64		lost_start;		/* sectors that nobody owns, */
	uint64		lost_count;		/* not yet reported */
} SfPageWalk;

/* A page of a segment relation, copied. */
typedef struct SfCheckPage
{
	uint32		page;
	SfSegment  *seg;			/* it is of that one */
	SfPageType	type;			/* 0: of no type of securefile, or unreadable */
	bool		is_new;			/* it is empty, or the relation ends before it */
	union
	{
		char		content[SF_PAGE_CONTENT];
		SfInode		inode;
		SfPending	pending;
		SfFreePage	free;
		SfDictionaryPage dictionary;
		SfAdviceBucket bucket;
		SfSharePage share;
		SfRemovedPage removed;
		SfMap		map;
		uint64		force_align;
	}			u;
} SfCheckPage;

/* ---- check.c ---- */

/*
 * Check the columns that a call is about, and report findings as its result.
 * Locks tables and segment relations in lockmode, until the end of the call:
 * a mode that keeps writers out, or, in recovery, AccessShareLock.  Calls then,
 * unless it is NULL, for each column that has a segment to go by, and keeps all locks until
 * the transaction ends.
 */
typedef void (*SfCheckThen) (SfPageWalk *walk);
extern void sfi_check_columns_of_call(FunctionCallInfo fcinfo, LOCKMODE lockmode, SfCheckThen then);

/*
 * Is nothing that rows, share records or pending entries name free in the space map, and no page
 * damaged?  Locks table and segment relation in ShareLock until the transaction ends; then is
 * called, under these locks, if so.
 */
extern bool sfi_check_places(const SfCheckColumn *column, SfCheckThen then);

/* ---- walk.c ---- */

/*
 * Set a walk to its state before it has seen anything.  check->segrel is open
 * and locked, and check->header is that of the segment.
 */
extern void sfi_check_begin_walk(SfCheck *check, SfPageWalk *walk);

/*
 * Read a page.  When it cannot be read: false, and a finding with this action.
 * A page behind the end of the relation cannot be read either.
 */
extern bool sfi_check_read_any(SfCheck *check, SfRepair action, uint32 page, SfCheckPage *read);

/* Same for a page that must be of a type; one of another type is a finding too. */
extern bool sfi_check_read(SfPageWalk *walk, SfRepair action, uint32 page, SfPageType type,
						   SfCheckPage *read);

/* What a repair does with space that nobody owns: FREE or KEEP.  Never throws. */
extern SfRepair sfi_check_unowned(const SfPageWalk *walk);

/*
 * Report an entry that no resolver can ever act on, and which new lists leave out; page: it
 * stands there.
 */
extern void sfi_check_report_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry,
								   const char *problem);

/* ---- check_keys.c ---- */

/* Read both key pages, and mark them as owned. */
extern void sfi_check_keys(SfPageWalk *walk);

/* A key page that the walk over all pages has come to. */
extern void sfi_check_key_page(SfPageWalk *walk, uint32 page);

/* Make both pages say the same, if need be, and the header name them. */
extern void sfi_check_repair_keys(const SfPageWalk *walk);

/* ---- dictionaries.c ---- */

/* Read all dictionaries, and mark their pages as owned. */
extern void sfi_check_dictionaries(SfPageWalk *walk);

/* A dictionary page that the walk over all pages has come to. */
extern void sfi_check_dictionary_page(SfPageWalk *walk, const SfCheckPage *read);

/* After that walk: the dictionaries that the header does not lead to. */
extern void sfi_check_stray_dictionaries(SfPageWalk *walk);

/* Relink the dictionaries if need be; what a repair of the header is to do about them. */
extern void sfi_check_dictionary_repair(const SfPageWalk *walk, SfHeaderRepair *repair);

/* ---- check_removed.c ---- */

/* Walk through the pages of removed values, and mark them as owned. */
extern void sfi_check_removed(SfPageWalk *walk);

/* ---- check_advice.c ---- */

/* Read all of the advice, and mark its pages.  The other pages have been marked. */
extern void sfi_check_advice(SfPageWalk *walk);

/* A page of the advice that the walk over all pages has come to. */
extern void sfi_check_advice_page(SfPageWalk *walk, uint32 page);

/* After that walk: the pages that are in no list. */
extern void sfi_check_stray_advice(SfPageWalk *walk);

/* Forget the advice, if it is damaged. */
extern void sfi_check_forget_advice(const SfPageWalk *walk);

/*
 * See to it that there is advice on all share records, which are sound by now.  The last one
 * of the steps, since it takes pages, and the others set them free.
 */
extern void sfi_check_rebuild_advice(SfPageWalk *walk);

/* ---- check_pages.c ---- */

/*
 * Compare the pages of the segment relation with the space that rows own, which
 * is sorted.  The top of the walk: it calls maps.c and header.c, too.
 */
extern void sfi_check_pages(SfPageWalk *walk);

/* ---- maps.c ---- */

/*
 * Find the next run of bits of the given value in [*at, end): sets *at to its
 * start and *n to its length.  False, with *at at the end, when there is none.
 * Never throws.
 */
extern bool sfi_check_next_run(const uint8 *plane, bool bit, uint32 end, uint32 *at, uint32 *n);

/* Compare the space map with what rows own and pending entries name. */
extern void sfi_check_map(SfPageWalk *walk);

/* What is known of the sectors of a map page, a bit a sector. */
typedef struct SfCheckPlanes
{
	uint8		owned[SF_MAP_SECTORS / 8];
	uint8		named[SF_MAP_SECTORS / 8];
	uint8		doomed[SF_MAP_SECTORS / 8];
	int64		owned_from;		/* which of the owned runs lie there */
	int64		owned_end;
} SfCheckPlanes;

/*
 * Fill the planes of the map page whose first sector is given.  Calls go through
 * the pages in ascending order; rewind goes back to the first one.  Both never throw.
 */
extern void sfi_check_rewind_planes(SfPageWalk *walk);
extern void sfi_check_fill_planes(SfPageWalk *walk, uint64 first, SfCheckPlanes *planes);

/* ---- header.c ---- */

/* Find out where the segment ends, and set check->total_sectors. */
extern void sfi_check_find_end(SfPageWalk *walk);

/* Report what a stale header page would give out again.  Not on a standby. */
extern void sfi_check_header(SfPageWalk *walk);

#endif							/* SF_CHECK_WALK_H */
