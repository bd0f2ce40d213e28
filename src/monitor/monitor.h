/*-------------------------------------------------------------------------
 *
 * monitor.h
 *	  The free-space monitor: background processes that turn the space that
 *	  commits have freed into free space, before a writer has to do it.
 *
 * README.md has the protocol between the processes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MONITOR_H
#define SF_MONITOR_H

#include "base/base.h"
#include "base/shared.h"

/* Register the launcher.  Call from _PG_init while the postmaster preloads. */
extern void sf_monitor_register(void);

/*
 * What workers call for the table of each segment that they visit, in that transaction, when
 * they are done with the segment: sf_ddl_tidy_shell(), handed down by the module's entry.
 * Returns whether to come back.
 */
typedef bool (*SfMonitorTidy) (Oid table_oid);

extern void sf_monitor_set_tidy(SfMonitorTidy tidy);

/*
 * Mark a database as having something to do.  Called after the commit (or
 * abort) of a transaction that wrote space entries.  Lock-free, never throws, and
 * may run in commit callbacks.  Does nothing without shared memory.
 */
extern void sf_monitor_wake(Oid db);

/* Shared memory of the room. */
extern const SfSharedArea sf_monitor_area;

#endif							/* SF_MONITOR_H */
