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
#include "object/object.h"
#include "space/space.h"

/*
 * Write a whole value as a new object of the column and return the STORED
 * datum (palloc'd).  The object is *placed*: this transaction must confirm it
 * with sf_write_confirm(), or its space is given back at transaction end.
 * len > 0.
 */
extern struct varlena *sf_write_value(SfSegment *seg, const char *data, Size len);

/* ---- versions in the making (draft.c) ---- */

/*
 * A new object of the column, or, with base (a STORED value of the segment), a
 * new version of it, which shares with it what is not put again.  Begins with
 * the base's units, or none.  Lives in CurrentMemoryContext, in constant
 * memory; to be given up, it is just forgotten.  Who keeps it over statements sees
 * to it that the segment still has the storage it was begun in.
 */
typedef struct SfDraft SfDraft;
extern SfDraft *sf_write_draft(SfSegment *seg, struct varlena *base);

/* Cut, or grow by holes. */
extern void sf_write_draft_resize(SfDraft *draft, uint64 nunits);

/*
 * Write units, in place of those there are.  All are whole, but perhaps the
 * last, which may then only be that of the object.  ahead_bytes: how much the
 * object gets in a row, these included; a hint to where to put it.
 */
extern void sf_write_draft_put(SfDraft *draft, uint64 first_unit, const char *data, Size len,
							   uint64 ahead_bytes);

/* Make a hole of a unit. */
extern void sf_write_draft_punch(SfDraft *draft, uint64 unit_no);

/* The map as it is now, for reading; seg is this transaction's copy. */
extern SfEdit *sf_write_draft_map(SfDraft *draft, SfSegment **seg, const SfLocator **version);

/*
 * The STORED datum (palloc'd), of length_bytes > 0, which end in the last unit.
 * It can be read in this transaction, adopted by a row once, or copied.
 */
extern struct varlena *sf_write_draft_finish(SfDraft *draft, uint64 length_bytes);

/*
 * Place a finished draft in a row of the column, as it is.  old: what the row
 * had, if it is an UPDATE of a STORED value.  False: it has to be copied, since
 * it is no draft (any more), not of this column, or not made from old.
 */
extern bool sf_write_adopt(SfSegment *seg, struct varlena *datum, struct varlena *old);

/* ---- notes ---- */

/*
 * account, a row appeared: the locator is in a tuple of (table, attnum).
 * ERROR unless this transaction placed it there and had not confirmed it.
 * datum: a packed, detoasted STORED value; old: what the row had before, or NULL.
 */
extern void sf_write_confirm(Oid table_oid, AttrNumber attnum, struct varlena *datum,
							 struct varlena *old);

/* Has this transaction made a STORED value, without a row that was confirmed to have it? */
extern bool sf_write_is_unconfirmed(struct varlena *datum);

/*
 * account, a row went away: free the object's space if this (sub)transaction
 * commits, once no snapshot needs it.  A locator of another table or column
 * is none of our business and ignored; WARNING, and nothing freed, when the
 * value is damaged.  next: the STORED value the row has now, or NULL; what it
 * shares stays.
 */
extern void sf_write_free(Oid table_oid, AttrNumber attnum, struct varlena *datum,
						  struct varlena *next);

/*
 * Has this transaction stored or freed what its end must note in that storage,
 * or pages of it to give back?
 */
extern bool sf_write_has_notes(SfStorage storage);

/*
 * Overlay: copy those of sectors [start, start + nsectors) of a segment that
 * are still in gather buffers (unflushed, or in flight) to their places in
 * dst (NULL: only count them); returns how many sectors that were.  What a read of one's own
 * transaction gets from disk is incomplete without it.
 */
extern uint32 sf_write_overlay(SfStorage storage, uint64 start_sector, uint32 nsectors, char *dst);

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
