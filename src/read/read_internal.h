/*-------------------------------------------------------------------------
 *
 * read_internal.h
 *	  What the files of read/ share.
 *
 * value.c		forms, lengths, whole values
 * units.c		the reading of a range of units: batches, checks
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_READ_INTERNAL_H
#define SF_READ_INTERNAL_H

#include "object/object.h"
#include "read/read.h"

/* What to do with a unit that cannot be returned: throw, or tell. */
typedef struct SfReadTarget
{
	char	   *dst;			/* receives bytes [offset, offset + len); or NULL */
	uint64		offset;			/* object_offset of dst */
	uint64		len;
	SfEdit	   *edit;			/* where units are looked up; NULL: in the locator */
	SfReadFinding found;		/* NULL: throw */
	void	   *arg;
} SfReadTarget;

/* Read and check all units that a target touches. */
extern void sf_read_units(SfSegment *seg, const SfLocator *loc, SfReadTarget *target);

#endif							/* SF_READ_INTERNAL_H */
