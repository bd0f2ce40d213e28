/*-------------------------------------------------------------------------
 *
 * content.h
 *	  What the files of sql/ share: looking at a value without unpacking more
 *	  of it than needed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_CONTENT_H
#define SF_SQL_CONTENT_H

#include "base/base.h"
#include "object/object.h"
#include "stream/stream.h"

/*
 * A value opened for reading.  An INLINE one is left as it lies (perhaps in
 * TOAST), so that its length costs nothing and a part of it only that part.
 */
typedef struct SfSqlContent
{
	SfValue		value;			/* INLINE: as given, not detoasted */
	int32		inline_start;	/* INLINE: where in it the content begins */
	int64		length;
} SfSqlContent;

/*
 * Open a securefile of any form.  *content refers to the value, or to a copy in
 * CurrentMemoryContext.  ERROR DATA_CORRUPTED if its locator is damaged.
 */
extern void sfi_sql_open(Datum value, SfSqlContent *content);

/* Open a bytea as if it were an INLINE value. */
extern void sfi_sql_open_bytea(Datum value, SfSqlContent *content);

/*
 * Before a value is read in pieces: each piece of a compressed INLINE one would cost
 * all that is before it, so it is unpacked here, once.
 */
extern void sfi_sql_unpack(SfSqlContent *content);

static inline bool
sfi_sql_is_inline(const SfSqlContent *content)
{
	return content->value.form == SF_FORM_INLINE;
}

/* Was it opened by sfi_sql_open_bytea()?  Such a one has no form. */
static inline bool
sfi_sql_is_bytea(const SfSqlContent *content)
{
	return sfi_sql_is_inline(content) && content->inline_start == 0;
}

/* Are both the same stored object, which is equal without reading it?  Never throws. */
extern bool sfi_sql_is_same(const SfSqlContent *a, const SfSqlContent *b);

/* ERROR of that SQLSTATE unless a position in a value (the argument of that name) is 1 or more. */
extern void sfi_sql_require_position(const char *name, int64 position, int sqlstate);

/* An uninitialised bytea with room for len bytes; ERROR above 1 GB. */
extern bytea *sfi_sql_new_bytea(int64 len);

/* The same as a new bytea. */
extern bytea *sfi_sql_slice(SfSqlContent *content, int64 object_offset, int64 len);

/*
 * Give a slice back that goes nowhere else.  What may have been decrypted is wiped: the
 * server writes memory that it has not set, as padding, to WAL and temporary files.
 */
extern void sfi_sql_free_slice(const SfSqlContent *content, bytea *slice);

/*
 * Give all bytes of a value, of any form and length, to take(), in order.  The
 * memory is that of one part, and of what a reader reads ahead; no buffer and no
 * page is locked while take() runs.
 */
typedef void (*SfSqlTake) (void *arg, const char *bytes, Size len);
extern void sfi_sql_feed(Datum value, SfSqlTake take, void *arg);

/* The open handle of that number, unless the stream is to stop.  ERROR UNDEFINED_OBJECT. */
extern SfHandle *sfi_sql_handle_to_use(int number);

/*
 * The handle of that number, which is open for writing.  ERROR UNDEFINED_OBJECT, or
 * OBJECT_NOT_IN_PREREQUISITE_STATE, or READ_ONLY_SQL_TRANSACTION.
 */
extern SfHandle *sfi_sql_handle_to_write(int number);

/* ERROR INVALID_PARAMETER_VALUE of a number of bytes that is negative. */
extern void sfi_sql_require_count(int64 count);

/* ---- count.c ---- */

/*
 * What is counted of the bytes of values, before compression (stats/stats.h): read here for an
 * answer that is not these bytes; handed out; or neither, since the answer was known without
 * them.
 */
typedef enum SfSqlCounted
{
	SF_SQL_SCANNED,
	SF_SQL_RETURNED,
	SF_SQL_SKIPPED,
} SfSqlCounted;

/*
 * Count bytes [object_offset, object_offset + len) of a value, which has them, for the columns
 * that they lie in.  Call it when they were read.  Throws only when memory is short.
 */
extern void sfi_sql_count(const SfValue *value, int64 object_offset, int64 len, SfSqlCounted what);

/* Count all of a value; of a bytea nothing is counted. */
extern void sfi_sql_count_content(const SfSqlContent *content, SfSqlCounted what);

/* A slice for the caller of a function, counted as returned. */
extern bytea *sfi_sql_hand_out(SfSqlContent *content, int64 object_offset, int64 len);

#endif							/* SF_SQL_CONTENT_H */
