/*-------------------------------------------------------------------------
 *
 * look.h
 *	  What the database has under many names at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_LOOK_H
#define SECUREFILE_LOOK_H

#include "transfer.h"

/*
 * Look up the names of files: prefix and path of each.  False if the server cannot be asked for
 * them together, as when one of them is no value of the type of names; look_free() is called
 * in any case.
 */
extern bool look_many(Session *session, const char *prefix, const Found *const *files,
					  size_t count, Stored *stored, Failure *failure);
extern void look_free(Stored *stored, size_t count);

#endif							/* SECUREFILE_LOOK_H */
