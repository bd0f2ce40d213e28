/*-------------------------------------------------------------------------
 *
 * shrink_limit.h
 *	  How short the data files of a segment can become (shrink_limit.c).
 *
 * Audience: sql/, which tells users; check/ and ddl/, which move values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHRINK_LIMIT_H
#define SF_SHRINK_LIMIT_H

#include "space/space.h"

/* All in sectors. */
typedef struct SfShrinkLimit
{
	uint64		total;			/* of the segment, as of now */
	uint64		tail;			/* nothing behind it is in use or lent */
	uint64		limit;			/* what lies at it or behind can move below;
								 * in whole blocks */
	uint64		above;			/* in use at the limit and behind, also what
								 * is pending */
} SfShrinkLimit;

/*
 * The least limit for which what is free below is enough for what is in use behind, with some to
 * spare.  limit = total: there is none.  Values are stored in pieces of so many sectors.
 * spare: sectors that are to be free below it besides.
 *
 * All map pages are read, one after the other, so the numbers are of different moments: advice,
 * and no promise.  Works on a standby.  DATA_CORRUPTED.
 */
extern SfShrinkLimit sf_space_shrink_limit(SfSegment *seg, uint32 piece_sectors, uint64 spare);

/*
 * Is room at a limit or behind, in whole blocks, reserved by processes, which may be about to
 * store something there?  Some may keep what they need no more for a while.
 */
extern bool sf_space_is_reserved_from(SfSegment *seg, uint64 limit);

/* How long a segment is when cuts have left no more, if what lies behind the tail is free. */
extern uint64 sf_space_after_cuts(uint64 tail);

#endif							/* SF_SHRINK_LIMIT_H */
