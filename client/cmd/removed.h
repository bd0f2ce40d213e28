/*-------------------------------------------------------------------------
 *
 * removed.h
 *	  Values that rows have lost and that the column's retention still keeps.
 *
 * They are named by the primary keys of their rows: nothing else of a row is kept.  Of a key of
 * one column the name is its value, of several columns it is the key as JSON.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_REMOVED_H
#define SECUREFILE_REMOVED_H

#include "session.h"

/*
 * The part of a FROM that has these values, as r: removed_at, xid, row_key, kind, length,
 * document, number (which orders those of one time) and name.  $1 is the table, $2 the column,
 * $3 a time, null or since which.  Values of files that are not complete are left out.  Of a
 * distributed table document is null.  The caller frees it.
 */
extern char *removed_source(const Target *target);

/* removed_at as text, in the session's time zone; the server reads it as the same time. */
#define REMOVED_AT_TEXT \
	"pg_catalog.to_char(r.removed_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.USTZH:TZM')"

/*
 * Connect, and find the column of a verb that works on removed values; NULL after a failure, which
 * the user was told.
 */
extern Session *removed_session(const Options *options, Target *target);

/* Has the column a retention?  Yes, too, if that cannot be found out. */
extern bool removed_are_kept(Session *session);

#endif							/* SECUREFILE_REMOVED_H */
