/*-------------------------------------------------------------------------
 *
 * object.h
 *	  Unit maps: from a locator to units, and from units to a locator.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_OBJECT_H
#define SF_OBJECT_H

#include "base/base.h"
#include "format/format.h"
#include "space/space.h"

/* Decode the locator of a STORED datum; returns what is wrong with it, or NULL. */
extern const char *sf_object_decode(struct varlena *datum, SfLocator *loc);

/* Same; ERROR DATA_CORRUPTED when something is wrong. */
extern SfLocator sf_object_locator(struct varlena *datum);

/*
 * Was the locator made by its segment, and not changed since?  ERROR
 * DATA_CORRUPTED if not.  To be asked before anything is read or freed through
 * a locator that came in a datum.
 */
extern void sf_object_require_genuine(SfSegment *seg, const SfLocator *loc);

/*
 * Units [first, first + n) of an object into units.  Reads inode pages through
 * shared buffers.  ERROR UNDEFINED_OBJECT when an inode page is no longer this
 * object's.
 */
extern void sf_object_units(SfSegment *seg, const SfLocator *loc,
							uint64 first, uint32 n, SfUnit *units);

/*
 * Told of inode pages as they are made, before the object is whole: an ERROR
 * may keep it from ever being.
 */
typedef void (*SfPagesMade) (const uint32 *pages, int npages, void *arg);

/*
 * Build the STORED datum for a new object: flat when it fits, else its inode
 * pages are written.  loc: table_oid, attnum, object_id, generation,
 * length_bytes, incarnation are set by the caller.
 */
extern struct varlena *sf_object_build(SfSegment *seg, SfLocator *loc,
									   const SfUnit *units, uint64 nunits,
									   SfPagesMade made, void *arg);

/*
 * Runs (merged where adjacent, never across a map page) and inode pages that
 * an object owns.  Both palloc'd.
 */
typedef struct SfOwned
{
	SfRun	   *runs;
	int			nruns;
	uint32	   *pages;
	int			npages;
} SfOwned;

extern SfOwned sf_object_owned(SfSegment *seg, const SfLocator *loc);

#endif							/* SF_OBJECT_H */
