/*-------------------------------------------------------------------------
 *
 * pool.h
 *	  Many files over several connections, a thread each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_POOL_H
#define SECUREFILE_POOL_H

#include <stddef.h>

#include "session.h"

/*
 * Do the file of that number and tell the user.  False if the connection has to be
 * looked after, because a statement on it failed.
 */
typedef bool (*PoolWork) (Session *session, void *arg, size_t number);

extern bool pool_run(const Options *options, const Target *target, Session *first,
					 size_t count, PoolWork work, void *arg);

#endif							/* SECUREFILE_POOL_H */
