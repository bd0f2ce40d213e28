/*-------------------------------------------------------------------------
 *
 * compose.h
 *	  Values that are made of parts of other values, without a look at their bytes.
 *
 * A function opens the values that it takes parts of, begins a result, adds parts in
 * order, and ends it.  Positions count from 0 here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_COMPOSE_H
#define SF_SQL_COMPOSE_H

#include "base/base.h"
#include "object/object.h"

/* What parts of a result are taken from. */
typedef struct SfSource
{
	SfRope	   *rope;			/* or NULL, and all its pieces */
	SfPiece    *pieces;
	int			npieces;
	int64		length;
} SfSource;

/*
 * The result, of parts that are added in order: those on a rope, or NULL, if none of them comes
 * from one; and pieces that follow these.
 */
typedef struct SfComposed
{
	MemoryContext parent;		/* of the rope */
	SfRope	   *rope;
	SfPiece    *pieces;
	int64		npieces;
	int64		size;			/* room for so many */
} SfComposed;

/*
 * A securefile of any form, bytes, or zeros as a source.  It refers to what it was made of, or
 * to copies in CurrentMemoryContext.  ERROR DATA_CORRUPTED if a locator is damaged.
 */
extern SfSource sfi_compose_source(Datum value);
extern SfSource sfi_compose_source_bytes(const char *bytes, Size len);
extern SfSource sfi_compose_source_zeros(int64 length);

/* Of two ropes, each of which may be NULL, the one of more pieces. */
extern SfRope *sfi_compose_longer_rope(SfRope *a, SfRope *b);

/*
 * Begin a result; like: the longest of the ropes that parts of it come from, or NULL.  A
 * result that is a rope lives in a context below parent.
 */
extern SfComposed sfi_compose_begin(SfRope *like, MemoryContext parent);

/* Add bytes [from, to) of a source, as far as it has them; 0 <= from <= to. */
extern void sfi_compose_add(SfComposed *result, const SfSource *source, int64 from, int64 to);

/* All of a source. */
static inline void
sfi_compose_add_all(SfComposed *result, const SfSource *source)
{
	sfi_compose_add(result, source, 0, PG_INT64_MAX);
}

/*
 * The value: INLINE where all bytes are at hand and fit, else EDITED: flat while a copy is cheap,
 * or on a rope.  ERROR PROGRAM_LIMIT_EXCEEDED as for sf_object_edited().
 */
extern Datum sfi_compose_end(SfComposed *result);

#endif							/* SF_SQL_COMPOSE_H */
