/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  What a server answers is looked at before it is used.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_ANSWER_H
#define SECUREFILE_ANSWER_H

#include "failure.h"

/* Does a result have so many columns, in text form, if it has rows at all? */
extern bool answer_has(const PGresult *result, int columns, Failure *failure);

/* Is it a COPY, which libpq would return for ever? */
extern bool answer_is_copy(ExecStatusType status);

/* Takes the only row of a result; false with the failure: it was not asked for. */
typedef bool (*AnswerRow) (void *arg, const PGresult *row, Failure *failure);

/*
 * Hand the rows of the statement that runs in single-row mode to a function as they come.  After
 * a failure the others are read, and thrown away.
 */
extern bool answer_each_row(PGconn *conn, AnswerRow take, void *arg, Failure *failure);

/* Is it a name, perhaps with a schema, with quotes where they are needed, and nothing else? */
extern bool answer_is_name(const char *text);

/* Is it the name of an operator, with its schema? */
extern bool answer_is_operator(const char *text);

/*
 * Copies of names out of the first row; NULL with the failure if they are something else.  The
 * caller frees them.
 */
extern char *answer_name(const PGresult *result, int column, Failure *failure);

#endif							/* SECUREFILE_ANSWER_H */
