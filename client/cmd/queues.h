/*-------------------------------------------------------------------------
 *
 * queues.h
 *	  Which files of a tree go to which node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_QUEUES_H
#define SECUREFILE_QUEUES_H

#include "local.h"
#include "session.h"

/* A queue of files, or of groups of files, for each node. */
typedef struct Queues
{
	int			count;			/* at least 1 */
	int		   *of;				/* the queue of each file; NULL: all are in
								 * the first one */
	int			nshards;
	Shard	   *shards;
	int		   *shard_of;		/* the number of its shard; NULL: not known */
	const size_t *sizes;		/* files in each group; NULL: one.  Belongs to
								 * the caller */
} Queues;

/*
 * Ask for the shards, and so for the nodes, of all files of a list, whose names have that
 * prefix, if the names tell: if they are the distribution column of a table of Citus.  Else, and
 * where the names cannot be asked for, there is one queue.  The session is in no transaction.
 */
extern Queues queues_find(Session *session, const FoundList *list, const char *prefix);
extern void queues_free(Queues *queues);

/* The shard of a file; NULL: not known. */
extern Shard *queues_shard(const Queues *queues, size_t number);

#endif							/* SECUREFILE_QUEUES_H */
