/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Many short files in one transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_BATCH_H
#define SECUREFILE_BATCH_H

#include "output.h"
#include "session.h"
#include "statement.h"

/* The bytes of a batch: what is lost if its connection is lost. */
#define BATCH_BYTES		(16 * 1024 * 1024)

/* A file of a batch. */
typedef struct BatchFile
{
	const void *source;			/* where its caller has it from */
	const char *name;
	bool		row_exists;
	Action		action;			/* what it is when it is stored */
	bool		told;			/* the user knows what became of it */
	bool		sent;			/* it is a part of the open transaction */
	int64_t		bytes;
} BatchFile;

/* How the files are stored; arg is that of batch_store(). */
typedef struct BatchWork
{
	/*
	 * Read a file into the buffer of the session, and send its statement with
	 * batch_send(), whose result it returns.  Sets bytes, -1 with the failure
	 * if the file cannot be read, and sent.  A file that is not sent and has
	 * not failed is stored alone.
	 */
	bool		(*send) (Session *session, void *arg, BatchFile *file, bool prepare,
						 Failure *failure);

	/*
	 * Store a file in a transaction of its own, and set bytes; -1 after a
	 * failure.
	 */
	void		(*store) (Session *session, void *arg, BatchFile *file, Failure *failure);

	/*
	 * A file that another command has stored since it was looked up is left
	 * to the caller, and the user is not told of it.
	 */
	bool		looks_again;
} BatchWork;

/*
 * Store them all, in one transaction if none of them fails, and tell the user of each.  A file
 * that fails costs the others nothing: they are stored without it.  False if the connection was
 * lost, after a failure that stops everything, or if a file is left to the caller; those of which
 * the user was not told may be stored or not.
 */
extern bool batch_store(Session *session, const BatchWork *work, void *arg, BatchFile *files,
						size_t count);

/* Send the statement of a file; prepare: the one before has another form. */
extern bool batch_send(Session *session, const WholeFile *whole, bool prepare);

#endif							/* SECUREFILE_BATCH_H */
