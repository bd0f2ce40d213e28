/*-------------------------------------------------------------------------
 *
 * dumpdelta.h
 *	  securefile dump --delta: of a long file only the parts are fetched that have changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMPDELTA_H
#define SECUREFILE_DUMPDELTA_H

#include "dump.h"
#include "dumptags.h"

/* A file of a dump. */
typedef struct Delta
{
	int			column;
	int64_t		length;
	const char *row;			/* values of the row, as JSON */
	const char *name;			/* for messages */
	pgsf_params params;			/* by which statements of the column find it */

	bool		asked;
	TagWriter  *tags;			/* what the server has said of it; null:
								 * nothing, or not asked */
} Delta;

/* Is it one whose object gets tags, and has not got them? */
extern bool delta_lacks_tags(const Dump *dump, int column, const char *sha256, int64_t length);

/* Are tags enough to tell that the file has not changed, if no hash is kept? */
extern bool delta_trusts(const Dump *dump, const Delta *delta);

/*
 * Do tags say that the file is that of an earlier dump?  Then its SHA-256 is told, else "".  False
 * after a failure, as of the following.
 */
extern bool delta_same(Session *session, Dump *dump, Delta *delta, char *sha256,
					   Failure *failure);

/*
 * object_fill(), with parts out of an earlier object where they are the same.  wanted: the SHA-256
 * it should have; "": not known.
 */
extern int64_t delta_fill(Session *session, Dump *dump, Delta *delta, TempFile *file,
						  const char *wanted, char *sha256, bool *broken, Failure *failure);

/* Keep the tags beside the object, which is there, if it gets some. */
extern bool delta_keep(Session *session, Dump *dump, Delta *delta, const char *sha256,
					   Failure *failure);

/* Free what is left. */
extern void delta_end(Delta *delta);

#endif							/* SECUREFILE_DUMPDELTA_H */
