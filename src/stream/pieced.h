/*-------------------------------------------------------------------------
 *
 * pieced.h
 *	  A stage whose value is pieces of its unit space: pieced.c and arrange.c.
 *
 * length of such a stream is that of the unit space.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STREAM_PIECED_H
#define SF_STREAM_PIECED_H

#include "stream/stream_internal.h"

struct SfPieced
{
	MemoryContext context;
	int64		length;			/* of the value */
	SfRange    *ranges;			/* in the order of the value */
	int64		n;
	int64		size;
	int64		last_entry;		/* begins there; all before it are as they
								 * were */
	int64		last_begin;
	bool		hashes;			/* the column keeps hashes */
};

/* ---- pieced.c ---- */

/* A stage on a PIECED value, with nothing written yet. */
extern void sfi_pieced_load(SfStream *stream, SfSegment *seg, const SfLocator *loc);

/* The value of a stage is these ranges of what it has. */
extern void sfi_pieced_set(SfStream *stream, const SfRange *ranges, int64 n);

/* Which ranges of the unit space a range of the value is (palloc'd); returns how many. */
extern int64 sfi_pieced_places(SfStream *stream, int64 object_offset, int64 len, SfRange **ranges);

/* As the functions of stage.c, by positions of the value. */
extern void sfi_pieced_read(SfStream *stream, int64 object_offset, int64 len, char *dst);
extern void sfi_pieced_write(SfStream *stream, int64 object_offset, const char *data, int64 len);
extern void sfi_pieced_zero(SfStream *stream, int64 object_offset, int64 len);
extern void sfi_pieced_resize(SfStream *stream, int64 length);
extern bool sfi_pieced_next_data(SfStream *stream, int64 *object_offset, int64 *len);

/* As sfi_stage_finish(), of a list that is in order. */
extern SfValue sfi_pieced_finish(SfStream *stream);

/* Bytes, or (data NULL) a gap, come in between; a range goes.  A stage becomes pieced by that. */
extern void sfi_pieced_insert(SfStream *stream, int64 object_offset, const char *data, int64 len);
extern void sfi_pieced_delete(SfStream *stream, int64 object_offset, int64 len);

/* ---- arrange.c ---- */

/*
 * Make a stage on the STORED value of a row hold what the pieces of an EDITED value say, and
 * leave as much as possible where it is.  False, and nothing done: that is not worth it.
 */
extern bool sfi_arrange_edited(SfStream *stream, const SfPiece *pieces, int npieces);

/* Put the list of a stage in order, which is about to be finished.  False: it is to be copied. */
extern bool sfi_arrange_finish(SfStream *stream);

#endif							/* SF_STREAM_PIECED_H */
