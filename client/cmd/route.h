/*-------------------------------------------------------------------------
 *
 * route.h
 *	  Files of a distributed table, streamed between this machine and the node that has them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_ROUTE_H
#define SECUREFILE_ROUTE_H

#include "download.h"
#include "session.h"

/* The row of a name was to be changed; none has that name and distribution column. */
#define ROUTE_NO_ROW \
	"the statement stored no row\n" \
	"Hint: The row is gone, or --set gives the distribution column another value."

/* Is that column, whose name is given without quotes, the distribution column? */
extern bool route_is_key(const Session *session, const char *column);

/* A file to store. */
typedef struct RoutedPut
{
	const char *statement;		/* executed first, through the distributed
								 * table, which knows all defaults: a new row
								 * with an empty file, or new values of other
								 * columns; NULL: only the file is replaced */
	int			count;			/* its parameters: the name, and more */
	const char *const *values;
	bool		row_exists;
	pgsf_sparse_source source;
	void	   *arg;
	int64_t		total;			/* bytes; -1: not known */
} RoutedPut;

/* Store a file; returns the number of bytes, or -1 with the failure. */
extern int64_t route_put(Session *session, const Options *options, const RoutedPut *put,
						 Failure *failure);

/* Write the file of a name, as download() does. */
extern int64_t route_get(Session *session, const char *name, Download *to, Failure *failure);

/*
 * Look for the row of a name on the node that has its shard, if that is known.  The result has
 * the lengths of the files of *rows rows; false: only the coordinator can tell.
 */
extern bool route_look(Session *session, const char *name, int *rows, PGresult **result);

/*
 * Where a statement that reads the row of a name is executed: at the shard if it is known, else
 * the table.  Where at the shard no row fulfils the condition, the coordinator has to be asked.
 */
typedef struct Seat
{
	PGconn	   *conn;
	const char *table;
	const char *condition;
} Seat;

/* False: the node cannot be reached. */
extern bool route_seat(Session *session, Seat *seat);

/*
 * After a failure: was it that the node could not be reached, while the coordinator can?  Then
 * the user is told, once in a session, and no more routes are tried in it.
 */
extern bool route_is_missing(Session *session, const Failure *failure);

#endif							/* SECUREFILE_ROUTE_H */
