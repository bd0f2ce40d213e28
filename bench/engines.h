/*-------------------------------------------------------------------------
 *
 * engines.h
 *	  The ways to keep a document that the matrix compares: each can be written and read,
 *	  one object at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_ENGINES_H
#define BENCH_ENGINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

/* One client: its connection, and memory for what it writes. */
typedef struct Client
{
	const struct Engine *engine;
	PGconn	   *conn;
	int			number;			/* from 0 on */
	char	   *data;			/* size bytes; the first ones change with each object */
	size_t		size;
	const char *directory;		/* for files, or of those that the HTTP server has */
	void	   *http;			/* connection to the HTTP server, or NULL */
	bool		prepared;		/* the statement of an upsert */
} Client;

typedef struct Engine
{
	const char *name;
	const char *make;			/* statements that make its table */
	const char *insert;			/* $1 id, $2 bytes */
	const char *select;			/* $1 id, $2 length; one row with the bytes */
	const char *settings;		/* a statement for each session, or NULL */
	/* if not by these statements alone: write, or read, one object; exit on failure */
	void		(*write) (Client *client, int64_t id);
	void		(*read) (Client *client, int64_t id);
} Engine;

/* NULL: there is none of that name. */
extern const Engine *find_engine(const char *name);

/* The names of all, for a message. */
extern void print_engines(void);

/* Make the table, or the directory, of an engine anew. */
extern void make_engine(const Engine *engine, PGconn *conn);

/* Connect a client; all of these exit on failure. */
extern void begin_client(Client *client, const char *conninfo);

extern void write_object(Client *client, int64_t id);

/* read_object exits if the length is another one, or the bytes do not begin with the id. */
extern void read_object(Client *client, int64_t id);

/*
 * Write an object whose id is there already: it replaces the other one, or nothing is done.
 * Write an object that a CHECK constraint of the table rejects: nothing is done.  Only for
 * engines whose rows have the bytes.
 */
extern void upsert_object(Client *client, int64_t id);
extern void ignore_object(Client *client, int64_t id);
extern void reject_object(Client *client, int64_t id);

/* A statement without a result. */
extern void client_run(Client *client, const char *sql);

/* ---- for engines ---- */

/* Execute "write" or "read", the prepared statements; the caller clears the result. */
extern PGresult *client_execute(Client *client, const char *name, int64_t id,
								const char *value, int length);

/* Exit, unless this is what was written. */
extern void client_compare(Client *client, int64_t id, const char *bytes, size_t length);

/* Print what failed, and exit. */
extern void client_fail(Client *client, const char *what);

/* Those that keep the bytes beside the database (peers.c). */
extern void write_file(Client *client, int64_t id);
extern void read_file(Client *client, int64_t id);
extern void write_http(Client *client, int64_t id);
extern void write_http_flush(Client *client, int64_t id);
extern void read_http(Client *client, int64_t id);

#endif							/* BENCH_ENGINES_H */
