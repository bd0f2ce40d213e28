/*-------------------------------------------------------------------------
 *
 * session.h
 *	  Connections, and the table, column and names that a run works on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SESSION_H
#define SECUREFILE_SESSION_H

#include <stdatomic.h>
#include <stdint.h>

#include "failure.h"
#include "options.h"

/*
 * The table and columns of a run, as found in the database.  All but plain_column are
 * quoted and ready to be put into statements.
 */
typedef struct Target
{
	char	   *extension;		/* schema of the extension's functions */
	char	   *table;			/* with its schema */
	char	   *store_table;	/* for new values: table, or a partition */
	char	   *column;			/* of the files */
	char	   *key;			/* of the names */
	char	   *key_text;		/* expression: the name as text */
	char	   *key_type;		/* its type, or text */
	char	   *key_is_name;	/* condition: the name of the row is $1 */
	char	   *key_is_any;		/* condition: it is one of the array $1 */
	char	   *key_is_asked;	/* condition: it is ASKED_NAME, one of many */
	char	   *plain_column;	/* without quotes, as functions want it */
	char	   *storage;		/* expression: securefile_storage() of a file */
	char	   *digest;			/* expression: SHA-256 of a file, in
								 * hexadecimal */
	char	   *kept_digest;	/* expression: the same if it is kept */
	char	   *read_digest;	/* expression: the same, computed from what is
								 * read */
	bool		has_rows;		/* table is neither partitioned nor a view */
	bool		distributed;	/* a table of Citus: its rows lie in shards */
	bool		routable;		/* and a client can go to the shard of a row */
	char	   *dist_key;		/* expression: the distribution column; null:
								 * none */
	char	   *dist_schema;	/* of extension securefile_citus; null: none */
	bool		names_are_utf8; /* the encoding of the connection */
	bool		has_meta;		/* columns for times, modes and link targets */
} Target;

/* In a statement: one of many names, and its number. */
#define ASKED_NAME		"securefile_asked.securefile_name"
#define ASKED_NUMBER	"securefile_asked.securefile_number"

/* A shard of a distributed table, as the coordinator has said. */
typedef struct Shard
{
	char	   *id;
	char	   *name;			/* with its schema, quoted */
	char	   *host;
	int			port;
	atomic_bool moved;			/* it was not there any more */
} Shard;

/* A connection, and the other things that one thread works with. */
typedef struct Session
{
	PGconn	   *conn;
	pgsf	   *handle;
	const Target *target;
	char	   *buffer;			/* BUFFER_SIZE bytes */
	bool		lost;			/* the connection could not be made again */
	bool		no_routes;		/* nodes cannot be reached: files go through
								 * the coordinator */
	Shard	   *shard;			/* of the file whose turn it is; null: not
								 * known */
	Shard	   *asked;			/* the one that was asked for last; null: none */
	char	   *asked_key;		/* for this key; null: the table has one shard */
	bool		keeps_table;	/* a transaction is open that holds the table */
	int64_t		kept_since;		/* in milliseconds */
	size_t		not_begun;		/* files that a lost connection has left of a
								 * group */
} Session;

#define BUFFER_SIZE		(256 * 1024)

/* Make the first connection and find the target; NULL after a failure, which the user was told. */
extern Session *session_first(const Options *options, Target *target);

/* The same of a verb that needs the column only: the target has no names. */
extern Session *session_column(const Options *options, Target *target);

/*
 * Its table is distributed, which the verb cannot do: the user is told so, with what follows from
 * it and a hint, and the session ends.  Returns NULL.
 */
extern Session *session_refuse_distributed(Session *session, const char *what);

/* The password that the user typed, or NULL. */
extern const char *session_password(void);

/* Make the connection of a verb that has no table yet; NULL likewise. */
extern Session *session_alone(const Options *options);

/* Make a connection for another thread; NULL after a failure. */
extern Session *session_more(const Options *options, const Target *target, Failure *failure);

/*
 * After a failure: roll back, and if the connection is lost make it again, once.  False if
 * that failed; session->lost tells whether the connection is gone for good.
 */
extern bool session_recover(Session *session, Failure *failure);

/* End the session of a verb that works on one file; returns the exit status. */
extern int	session_leave(Session *session, bool good);

/* Close the connection and free the session. */
extern void session_end(Session *session);

/* ---- query.c ---- */

/*
 * Execute a statement with count parameters, in text form, whose types the server infers.
 * The caller clears the result; NULL after a failure.
 */
extern PGresult *conn_query(PGconn *conn, Failure *failure, const char *sql, int count,
							const char *const *values);

/* The same of a statement that yields rows of so many columns. */
extern PGresult *conn_rows(PGconn *conn, Failure *failure, int columns, const char *sql,
						   int count, const char *const *values);

/* Execute a statement without parameters whose result does not matter. */
extern bool conn_do(PGconn *conn, Failure *failure, const char *sql);

/*
 * End the transaction that holds a distributed table, if the session has one open: whatever
 * else is executed on its connection is no part of that.
 */
extern void session_let_go(Session *session);

/* All of them, on the connection of a session, which lets go first. */
extern PGresult *session_query(Session *session, Failure *failure, const char *sql,
							   int count, const char *const *values);
extern PGresult *session_rows(Session *session, Failure *failure, int columns, const char *sql,
							  int count, const char *const *values);
extern bool session_do(Session *session, Failure *failure, const char *sql);

/* ---- key.c ---- */

/* How a column is compared. */
typedef struct KeyComparison
{
	char	   *text;			/* expression: its value as text */
	char	   *condition;		/* it is the value that another expression has */
	char	   *any;			/* it is one of the array $1 */
	char	   *type;			/* of that expression */
} KeyComparison;

/* Compare a column, of the type with that OID, with an expression; the caller frees the texts. */
extern bool key_compare(Session *session, const char *type_oid, const char *key, const char *text,
						KeyComparison *comparison, Failure *failure);

/* Fill in what the target has of a key of that type. */
extern bool key_describe(Session *session, const char *type_oid, Target *target, Failure *failure);

/* ---- target.c ---- */

/* Find the table; also its first leaf partition, where new values of a partitioned one are made. */
extern bool target_find_table(Session *session, const Options *options, Target *target,
							  Failure *failure);

/* The type whose name is $3, and all domains over it, as a part of WITH RECURSIVE. */
#define TARGET_FILE_TYPES \
	"files (oid) AS (" \
	" SELECT $3::pg_catalog.regtype::pg_catalog.oid" \
	" UNION ALL SELECT t.oid FROM pg_catalog.pg_type t JOIN files f" \
	"  ON t.typbasetype OPERATOR(pg_catalog.=) f.oid AND t.typtype OPERATOR(pg_catalog.=) 'd')"

/* Find the schema of the extension. */
extern bool target_find_extension(Session *session, Target *target, Failure *failure);

/*
 * Find table and columns; false with the reason if one is missing or not unique.  column: only
 * those of the files.
 */
extern bool target_find_column(Session *session, const Options *options, Target *target,
							   Failure *failure);
extern bool target_find(Session *session, const Options *options, Target *target, Failure *failure);

#endif							/* SECUREFILE_SESSION_H */
