/*-------------------------------------------------------------------------
 *
 * names.h
 *	  Verbs that do the same for each name they are given.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_NAMES_H
#define SECUREFILE_NAMES_H

#include "session.h"

/* Do one and tell the user, or fail. */
typedef bool (*NameWork) (Session *session, const Options *options, const char *name, Failure *failure);

extern int	names_each(const Options *options, NameWork work);

#endif							/* SECUREFILE_NAMES_H */
