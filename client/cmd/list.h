/*-------------------------------------------------------------------------
 *
 * list.h
 *	  Names and lengths of the stored files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_LIST_H
#define SECUREFILE_LIST_H

#include "local.h"
#include "session.h"

/* Called for each file; the name is only valid during the call. */
typedef void (*ListEach) (void *arg, const char *name, int64_t length);

/*
 * Hand each file whose name matches the pattern (NULL: all) and begins with the prefix to a
 * function, in the order of the names, in constant memory.
 */
extern bool list_each(Session *session, const char *pattern, const char *prefix,
					  ListEach each, void *arg, Failure *failure);

/* Add them all to a list, whose paths are the names. */
extern bool list_all(Session *session, const char *pattern, const char *prefix,
					 FoundList *list, Failure *failure);

#endif							/* SECUREFILE_LIST_H */
