/*-------------------------------------------------------------------------
 *
 * session.h
 *	  Connections, and the table, column and names that a run works on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SESSION_H
#define SECUREFILE_SESSION_H

#include <stdint.h>

#include "failure.h"
#include "options.h"

/*
 * What is asked for, found in the database.  The SQL forms are quoted and ready to
 * be put into statements.
 */
typedef struct Target
{
	char	   *extension;		/* schema of the extension's functions */
	char	   *table;			/* with its schema */
	char	   *store_table;	/* where new values are made: table, or a
								 * partition */
	char	   *column;			/* of the files */
	char	   *key;			/* of the names */
	char	   *key_text;		/* expression: the name as text */
	char	   *key_is_name;	/* condition: the name of the row is $1 */
	char	   *plain_column;	/* without quotes, as functions want it */
	bool		has_rows;		/* of its own, neither partitioned nor a view */
	bool		names_are_utf8; /* the encoding of the connection */
} Target;

/* A connection with what one thread needs to work on it. */
typedef struct Session
{
	PGconn	   *conn;
	pgsf	   *handle;
	const Target *target;
	char	   *buffer;			/* BUFFER_SIZE bytes */
	bool		lost;			/* the connection is gone and does not come
								 * back */
} Session;

#define BUFFER_SIZE		(256 * 1024)

extern Session *session_first(const Options *options, Target *target);
extern Session *session_more(const Options *options, const Target *target, Failure *failure);
extern bool session_recover(Session *session, Failure *failure);
extern int	session_leave(Session *session, bool good);
extern void session_end(Session *session);

extern PGresult *session_query(Session *session, Failure *failure, const char *sql,
							   int count, const char *const *values);
extern bool session_do(Session *session, Failure *failure, const char *sql);

/* ---- key.c ---- */

extern bool key_describe(Session *session, const char *type_oid, Target *target, Failure *failure);

/* ---- target.c ---- */

extern bool target_find(Session *session, const Options *options, Target *target, Failure *failure);

#endif							/* SECUREFILE_SESSION_H */
