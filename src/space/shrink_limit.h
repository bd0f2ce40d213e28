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
	uint64		limit;			/* what lies at it or behind can move below; a
								 * multiple of 64 KB, or total */
	uint64		above;			/* in use at the limit and behind, also what
								 * is pending */
	uint64		target;			/* of the segment, after that and a cut */
	uint64		unmoved;		/* the same after a cut alone */
} SfShrinkLimit;

/*
 * The least limit for which what is free below is enough for what is in use behind, a tenth
 * more, and the slack of a cut.  limit = total: there is none.  All map pages are read, one
 * after the other, so the numbers are of different moments: advice, and no promise.  Works on a
 * standby.  DATA_CORRUPTED.
 */
extern SfShrinkLimit sf_space_shrink_limit(SfSegment *seg);

#endif							/* SF_SHRINK_LIMIT_H */
