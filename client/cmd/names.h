/*-------------------------------------------------------------------------
 *
 * names.h
 *	  Verbs whose arguments are names, and prefixes of names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_NAMES_H
#define SECUREFILE_NAMES_H

#include "session.h"

/* Do the work for one name and tell the user, or return false with the reason. */
typedef bool (*NameWork) (Session *session, const Options *options, const char *name,
						  Failure *failure);

/*
 * Connect, and do the work for all names in their order, over one connection.  A failure
 * is told to the user and does not stop the names behind it.  Returns the exit status.
 */
extern int	names_each(const Options *options, NameWork work);

/* The same over a connection that there is, which it closes. */
extern int	names_each_of(Session *session, const Options *options, NameWork work);

/* Tell the user what --prefix means if it ends in no slash: "adduser" makes "addusera.txt". */
extern void names_say_prefix(const Options *options);

#endif							/* SECUREFILE_NAMES_H */
