/*-------------------------------------------------------------------------
 *
 * list.h
 *	  The files that are stored.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_LIST_H
#define SECUREFILE_LIST_H

#include "local.h"
#include "session.h"

typedef void (*ListEach) (void *arg, const char *name, int64_t length);

extern bool list_each(Session *session, const char *pattern, const char *prefix,
					  ListEach each, void *arg, Failure *failure);
extern bool list_all(Session *session, const char *pattern, const char *prefix,
					 FoundList *list, Failure *failure);

#endif							/* SECUREFILE_LIST_H */
