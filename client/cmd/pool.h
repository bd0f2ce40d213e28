/*-------------------------------------------------------------------------
 *
 * pool.h
 *	  Many files over several connections, with a thread for each connection.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_POOL_H
#define SECUREFILE_POOL_H

#include <stddef.h>

#include "queues.h"
#include "session.h"

/*
 * Do the file, or the group of files, of that number, from 0 on, and tell the user.  False after a
 * failure: the pool then calls session_recover(), because a statement may have failed.  Called by
 * several threads at a time.
 */
typedef bool (*PoolWork) (Session *session, void *arg, size_t number);

/*
 * Do all files, over as many connections as --jobs says; first is one of them, or NULL if
 * it has other work.  queues NULL: one.  Of several each connection has one, and helps with
 * the others when that is done.  False if some of the files were not begun, because no connection
 * was left or no file can be done; the user has been told.
 */
extern bool pool_run(const Options *options, const Target *target, Session *first,
					 size_t count, const Queues *queues, PoolWork work, void *arg);

/*
 * The same in parts of each files, the last of which may be shorter: the number that a PoolWork
 * gets is that of the part.
 */
extern bool pool_run_parts(const Options *options, const Target *target, Session *first,
						   size_t count, size_t each, PoolWork work, void *arg);

#endif							/* SECUREFILE_POOL_H */
