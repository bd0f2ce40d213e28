/*-------------------------------------------------------------------------
 *
 * object_internal.h
 *	  What the files of object/ share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_OBJECT_INTERNAL_H
#define SF_OBJECT_INTERNAL_H

#include "object/object.h"

extern uint32 sf_object_unit_bytes(const SfLocator *loc, uint64 i);

/* Write the tree; sets root_page, root_stamp and depth of the locator. */
extern void sf_inode_build(SfSegment *seg, SfLocator *loc, const SfUnit *units, uint64 nunits,
						   SfPagesMade made, void *arg);

/* Read units out of the tree. */
extern void sf_inode_units(SfSegment *seg, const SfLocator *loc, uint64 first, uint32 n,
						   SfUnit *units);

/* All pages of the tree into owned->pages. */
extern void sf_inode_pages(SfSegment *seg, const SfLocator *loc, SfOwned *owned);

#endif							/* SF_OBJECT_INTERNAL_H */
