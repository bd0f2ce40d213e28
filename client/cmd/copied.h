/*-------------------------------------------------------------------------
 *
 * copied.h
 *	  A file of a distributed table that goes through the coordinator, by COPY.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_COPIED_H
#define SECUREFILE_COPIED_H

#include "session.h"

/* The longest file: what the server can receive as one value. */
#define COPIED_MOST		INT64_C(1073741800)

/*
 * Of a new row, without its file: the columns, the name's first, then those of --set; and so
 * many parameters, "$1, $2 ..".  The caller frees them.
 */
extern char *copied_columns(const Session *session, const Options *options);
extern char *copied_parameters(int count);

/* A new row to store, whose file has that many bytes. */
typedef struct CopiedRow
{
	int			count;			/* of the values: the name, those of --set */
	const char *const *values;
	pgsf_source source;
	void	   *arg;
	int64_t		total;			/* at most COPIED_MOST */
} CopiedRow;

/* Store it, in a transaction of its own and in constant memory. */
extern bool copied_put(Session *session, const Options *options, const CopiedRow *row,
					   Failure *failure);

#endif							/* SECUREFILE_COPIED_H */
