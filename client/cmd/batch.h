/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  Many short files in one transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_BATCH_H
#define SECUREFILE_BATCH_H

#include "local.h"
#include "output.h"
#include "session.h"

/* A file of a batch. */
typedef struct BatchFile
{
	const Found *found;
	const char *name;
	bool		row_exists;
	Action		action;			/* what it is when it is stored */
	bool		told;			/* the user knows what became of it */
	bool		sent;			/* it is a part of the open transaction */
	int64_t		bytes;
} BatchFile;

/* Opens a file; -1 after a failure. */
typedef int (*BatchOpen) (void *arg, const Found *found, int64_t *length, Failure *failure);

/*
 * Store them all, in one transaction if none of them fails, and tell the user of each.  A file
 * that fails costs the others nothing: they are stored without it.  False if the connection was
 * lost, or after a failure that stops everything; those of which the user was not told may be
 * stored or not.
 */
extern bool batch_store(Session *session, const Options *options, BatchOpen open, void *arg,
						BatchFile *files, size_t count);

#endif							/* SECUREFILE_BATCH_H */
