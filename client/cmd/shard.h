/*-------------------------------------------------------------------------
 *
 * shard.h
 *	  Which shard of a distributed table has the row of a key.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SHARD_H
#define SECUREFILE_SHARD_H

#include "session.h"

/*
 * The statement that asks for shards: $1 is the table, keys an expression of type text[].  The
 * caller frees it.  A row of its result as a Shard, whose texts shard_clear() frees.
 */
extern char *shard_question(const Target *target, const char *keys);
extern Shard shard_take(const PGresult *result, int row);
extern void shard_clear(Shard *shard);

/* The shard of the file whose turn it is, if it is known and was not found to have moved. */
extern Shard *shard_known(Session *session);

/*
 * That shard, or the one of the key, for which the coordinator is asked if it has not said it
 * before; key null: the table has one shard.  NULL after a failure.
 */
extern Shard *shard_find(Session *session, const char *key, Failure *failure);

/* Forget what was asked for last. */
extern void shard_forget(Session *session);

#endif							/* SECUREFILE_SHARD_H */
