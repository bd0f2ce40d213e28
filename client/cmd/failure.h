/*-------------------------------------------------------------------------
 *
 * failure.h
 *	  Why something could not be done: handed up from where it happens to who
 *	  tells the user, and may go on with the next file.
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
	char		sqlstate[6];	/* empty if no server or library said it */
} Failure;

/* All return false, for "return failure_say(...)". */
extern bool failure_say(Failure *failure, const char *format, ...)
			__attribute__((format(printf, 2, 3)));
extern bool failure_errno(Failure *failure, const char *what);
extern bool failure_sql(Failure *failure, PGconn *conn, const PGresult *result);
extern bool failure_pgsf(Failure *failure, const pgsf *handle);

#endif							/* SECUREFILE_FAILURE_H */
