/*-------------------------------------------------------------------------
 *
 * dumptags.h
 *	  The tags of an object: what the server has said of the parts of the file, so that a later
 *	  dump sees which of them have changed.
 *
 *		objects/ab/cdef...tags
 *
 *		first line	{"securefile_tags":1,"length":123,"object":"<SHA-256>"}
 *		a part		start, length and tag (-: none), with a space between
 *
 * Parts are in the order of their starts, which count from 0.  What lies between them is zeros.
 *
 * Nothing depends on it that such a file is there, or complete: without it a file is fetched whole.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMPTAGS_H
#define SECUREFILE_DUMPTAGS_H

#include "dumpdir.h"

#define TAG_TEXT_SIZE	65

/* A part of a file. */
typedef struct Extent
{
	int64_t		start;
	int64_t		length;
	char		tag[TAG_TEXT_SIZE]; /* in hexadecimal; "-": none */
} Extent;

/* Does the command know what it means that two parts have this tag? */
extern bool tag_known(const char *tag);

/* Are these the same bytes? */
extern bool extent_same(const Extent *a, const Extent *b);

/* Does a part lie behind the one that ends at *end, and in a file of that length?  Moves *end. */
extern bool extent_next(const Extent *extent, int64_t length, int64_t *end);

/* ---- writing ---- */

typedef struct TagWriter TagWriter;

/* Tags of a file of that length; NULL after a failure. */
extern TagWriter *tags_begin(DumpDir *dir, int64_t length, Failure *failure);
extern bool tags_add(TagWriter *writer, const Extent *extent, Failure *failure);

/* Bring them to the disk as those of that object; frees the writer, as does discarding. */
extern bool tags_finish(TagWriter *writer, const char *sha256, Failure *failure);
extern void tags_discard(TagWriter *writer);

/* ---- reading ---- */

typedef struct TagReader
{
	FILE	   *file;
	int64_t		length;			/* of the object */
	int64_t		end;			/* of the part that was read last */
} TagReader;

/* Open the tags of an object of that length; false: it has none that can be read. */
extern bool tags_open(TagReader *reader, DumpDir *dir, const char *sha256, int64_t length);

/* Open those that are being written. */
extern bool tags_open_new(TagReader *reader, TagWriter *writer, Failure *failure);

/* The next part; false: there is none, or it cannot be read. */
extern bool tags_next(TagReader *reader, Extent *extent);
extern void tags_close(TagReader *reader);

/* Has the object tags? */
extern bool tags_exist(DumpDir *dir, const char *sha256);

/* Take the suffix off the name of a file of tags; false: it is none. */
extern bool tags_strip(char *name);

#endif							/* SECUREFILE_DUMPTAGS_H */
