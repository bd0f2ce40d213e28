/*-------------------------------------------------------------------------
 *
 * monitor.h
 *	  The free-space monitor: background processes that turn what commits
 *	  have freed into free space, before a writer has to.
 *
 * README.md has the protocol between the processes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MONITOR_H
#define SF_MONITOR_H

#include "base/base.h"

/* Register the launcher.  Call from _PG_init while preloading. */
extern void sf_monitor_register(void);

/*
 * Mark a database as having something to do.  Called after the commit (or
 * abort) of a transaction that wrote space entries: lock-free, never throws.
 */
extern void sf_monitor_wake(Oid db);

extern Size sf_monitor_shmem_size(void);
extern void sf_monitor_shmem_init(void);

#endif							/* SF_MONITOR_H */
