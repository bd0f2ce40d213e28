/*-------------------------------------------------------------------------
 *
 * write.h
 *	  Putting values into segments: the gather cache, who owns an object,
 *	  the order of things at commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WRITE_H
#define SF_WRITE_H

#include "base/base.h"
#include "config/config.h"
#include "space/space.h"

/*
 * Write a whole value as a new object of the column and return the STORED
 * datum (palloc'd).  The object is *placed*: this transaction must confirm it
 * with sf_write_confirm(), or its space is given back at transaction end.
 * len > 0.
 */
extern struct varlena *sf_write_value(SfSegment *seg, const char *data, Size len);

/*
 * account, a row appeared: the locator is in a tuple of (table, attnum).
 * ERROR unless this transaction placed it there and had not confirmed it.
 * datum: a packed, detoasted STORED value.
 */
extern void sf_write_confirm(Oid table_oid, AttrNumber attnum, struct varlena *datum);

/*
 * account, a row went away: free the object's space if this (sub)transaction
 * commits, once no snapshot needs it.  A locator of another table or column
 * is none of our business and ignored; WARNING, and nothing freed, when the
 * value is damaged.
 */
extern void sf_write_free(Oid table_oid, AttrNumber attnum, struct varlena *datum);

/*
 * Has this transaction stored or freed what its end must note in that storage,
 * or pages of it to give back?
 */
extern bool sf_write_has_facts(SfNode node);

/*
 * Overlay: copy those of sectors [start, start + nsectors) of a segment that
 * are still in gather buffers (unflushed, or in flight) to their places in
 * dst (NULL: only count them); returns how many sectors that were.  What a read of one's own
 * transaction gets from disk is incomplete without it.
 */
extern uint32 sf_write_overlay(SfNode node, uint64 start_sector, uint32 nsectors, char *dst);

/* Write out what is gathered and wait (so that parallel workers can read it). */
extern void sf_write_flush(void);

/* transaction ends; called by the one callback in securefile.c */
extern void sf_write_pre_commit(void);

/*
 * Top-level end, both ways, and prepare.  Returns whether pre-commit left
 * entries that the monitor will have to resolve.  Never throws.
 */
extern bool sf_write_at_end(bool commit);
extern void sf_write_at_subcommit(int level);
extern void sf_write_at_subabort(int level);

#endif							/* SF_WRITE_H */
