/*-------------------------------------------------------------------------
 *
 * walker.h
 *	  The parts of a value, of any form, given one after the other to a caller that asks for them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_WALKER_H
#define SF_SQL_WALKER_H

#include "base/base.h"
#include "sql/content.h"

/* So many bytes has a part at most, unless it is zeros. */
#define SF_SQL_PART_BYTES	(2 * SF_UNIT_SIZE)

/*
 * A part: bytes, good until the next call, or (bytes is NULL) zeros, of which there may be as
 * many as a value can have.  Gaps of EDITED values, and long holes of STORED ones, are zeros;
 * other parts may have no byte but 0, too.
 */
typedef struct SfSqlPart
{
	const char *bytes;
	int64		length;			/* above 0 */
} SfSqlPart;

typedef struct SfSqlStored SfSqlStored;

/*
 * A walk; of the caller, anywhere.  Only length is of interest to others, and what parts are
 * counted as: bytes as scanned, zeros as skipped, unless the caller sets it after the beginning.
 */
typedef struct SfSqlWalk
{
	int64		length;			/* of the value, in bytes */
	int64		part_bytes;		/* at most in a part that is read */
	int64		start;			/* what is left to be given: from there .. */
	int64		end;			/* .. to before there */
	SfSqlCounted bytes_are;
	SfSqlCounted zeros_are;
	MemoryContext context;		/* of all that follows */
	bytea	   *slice;			/* INLINE: the last part, or NULL */
	SfPiece    *pieces;			/* NULL: INLINE */
	int			npieces;
	int			piece;			/* the last part is of this one .. */
	int64		piece_start;	/* .. which begins there in the value */
	SfSqlStored *stored;		/* it is a range of a STORED value that is
								 * being read; else NULL */
	SfSqlContent content;		/* unless the value is a rope: then all of it
								 * but its datum, NULL, is undefined */
} SfSqlWalk;

/*
 * Begin a walk over all of a value, which has to stay.  Memory is taken from
 * CurrentMemoryContext, in all later calls, too: that of one part, and of what a reader reads
 * ahead.  When that memory goes, the walk is over, whether it was ended or not: readers are
 * ended, and what may have been decrypted is wiped.  Errors as for sfi_sql_open().
 */
extern void sfi_sql_walk_begin(SfSqlWalk *walk, Datum value);

/*
 * The caller may find its answer in any part: parts of STORED values are of one unit from now on,
 * so that damage in the next one is no matter.  Said before the first part is taken.
 */
extern void sfi_sql_walk_by_unit(SfSqlWalk *walk);

/* From now on, bytes [start, end) are left to be given, which the value has. */
extern void sfi_sql_walk_range(SfSqlWalk *walk, int64 start, int64 end);

/*
 * Take the first part of what is left, or the last one, whose bytes are in their order as
 * well; false: nothing is left.  Parts of STORED values end (or begin) with units, so that none
 * is decoded twice.  Reads ahead in the former direction only.  May be cancelled.  Errors as
 * for sf_read_at().
 */
extern bool sfi_sql_walk_next(SfSqlWalk *walk, SfSqlPart *part);
extern bool sfi_sql_walk_previous(SfSqlWalk *walk, SfSqlPart *part);

/* Give back all that a walk has, at its end or at any part. */
extern void sfi_sql_walk_end(SfSqlWalk *walk);

#endif							/* SF_SQL_WALKER_H */
