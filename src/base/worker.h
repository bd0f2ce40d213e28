/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  Background workers: how they are started, and how their main functions begin.
 *
 * Each has a connection, to one database or to none; only then it takes part in all that
 * backends take part in, and checkpoints see its flag (server.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WORKER_H
#define SF_WORKER_H

#include "postmaster/bgworker.h"

#define SF_WORKER_EXTRA		BGW_EXTRALEN

typedef struct SfWorker
{
	const char *name;			/* and type, in pg_stat_activity */
	const char *function;		/* of the library; takes the database's OID,
								 * or 0 */
	BgWorkerStartTime start;
	int			restart_s;		/* after a failure; BGW_NEVER_RESTART */
	const void *extra;			/* what the function finds in bgw_extra, at */
	Size		extra_bytes;	/* most SF_WORKER_EXTRA bytes; or NULL */
} SfWorker;

/* Have the postmaster start a worker that is connected to no database.  Call from _PG_init(). */
extern void sf_base_worker_register(const SfWorker *worker);

/*
 * Start a worker in a database: a palloc'd handle, or NULL when no process is free for it.
 * This process gets a signal when the worker begins or ends.
 */
extern BackgroundWorkerHandle *sf_base_worker_start(const SfWorker *worker, Oid db);

/*
 * The beginning of a main function: signals, and the connection to the database, or to none
 * (InvalidOid).  on_sigterm: die(), or a handler of a worker that may not end at once.
 * SIGHUP sets ConfigReloadPending.
 */
extern void sf_base_worker_begin(Oid db, void (*on_sigterm) (SIGNAL_ARGS));

/* Read the settings anew if SIGHUP has come: true then. */
extern bool sf_base_worker_reloads(void);

#endif							/* SF_WORKER_H */
