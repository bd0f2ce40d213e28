/*-------------------------------------------------------------------------
 *
 * failure.h
 *	  The reason of a failure: the function that meets it fills it in, and the
 *	  function that talks to the user prints it, and may go on with the next file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_FAILURE_H
#define SECUREFILE_FAILURE_H

#include <stdbool.h>

#include <pgsecurefile.h>

typedef struct Failure
{
	char		text[1024];		/* one line or more, no newline at the end */
	char		sqlstate[6];	/* empty: an error of the command itself */
	bool		systemic;		/* it would come for each other file, too */
	bool		vanished;		/* of a file that is no longer there: it is
								 * skipped, and is no failure */
} Failure;

/*
 * Fill in the reason; a text that is too long is cut.  All return false, for
 * "return failure_say(...)".
 *	- failure_say: a text as of printf, found by the command itself
 *	- failure_errno: "what: text of errno", after a system call
 *	- failure_sql: a result that is no success; NULL, or one without a message: the error
 *	  of the connection
 *	- failure_pgsf: the last call on the handle
 */
extern bool failure_say(Failure *failure, const char *format, ...)
			__attribute__((format(printf, 2, 3)));
extern bool failure_errno(Failure *failure, const char *what);
extern bool failure_sql(Failure *failure, PGconn *conn, const PGresult *result);
extern bool failure_pgsf(Failure *failure, const pgsf *handle);

/* Is there a row with the same key already? */
extern bool failure_is_duplicate(const Failure *failure);

#endif							/* SECUREFILE_FAILURE_H */
