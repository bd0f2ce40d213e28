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

/*
 * A value opened for reading.  An INLINE one is left as it lies (perhaps in
 * TOAST), so that its length costs nothing and a part of it only that part.
 */
typedef struct SfSqlContent
{
	struct varlena *value;		/* INLINE: as given; else detoasted, packed */
	bool		is_inline;
	int64		length;
} SfSqlContent;

extern SfSqlContent sf_sql_open(Datum value);

/* An uninitialised bytea with room for len bytes; ERROR above 1 GB. */
extern bytea *sf_sql_new_bytea(int64 len);

/* Bytes [object_offset, object_offset + len) into dst; must lie inside. */
extern void sf_sql_copy(const SfSqlContent *content, int64 object_offset, int64 len, char *dst);

/* The same as a new bytea. */
extern bytea *sf_sql_slice(const SfSqlContent *content, int64 object_offset, int64 len);

#endif							/* SF_SQL_CONTENT_H */
