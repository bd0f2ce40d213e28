/*-------------------------------------------------------------------------
 *
 * monitor_internal.h
 *	  Declarations that launcher and worker share.
 *
 * monitor_state.c	shared memory: marks, state of the processes, view
 * launcher.c		decides which database is next, starts workers
 * monitor_worker.c	works through the segments of one database
 * monitor_release.c	gives free space of one back to the file system
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MONITOR_INTERNAL_H
#define SF_MONITOR_INTERNAL_H

#include "datatype/timestamp.h"
#include "monitor/monitor.h"
#include "nodes/pg_list.h"
#include "space/space.h"
#include "utils/rel.h"

#define SF_MONITOR_MESSAGE_MAX	128

/* State of the monitor, as of one instant. */
typedef struct SfMonitorState
{
	int			launcher_pid;	/* 0: not running */
	int			worker_pid;		/* 0: none */
	Oid			worker_db;		/* database of the latest worker */
	bool		worker_done;	/* the latest worker did not end early */
	uint64		passes;
	uint64		workers;		/* started ones that could connect */
	uint64		failures;
	TimestampTz last_pass;		/* end of it; 0: none yet */
	TimestampTz last_failure_time;
	char		last_failure[SF_MONITOR_MESSAGE_MAX];
} SfMonitorState;

/* Copy the state.  As all functions here, it takes the spinlock and never throws. */
extern void sfi_monitor_state_get(SfMonitorState *state);

/* Of the launcher: its process (0: it ends), a finished pass, a failure (message is copied). */
extern void sfi_monitor_note_launcher(int pid);
extern void sfi_monitor_note_pass(void);
extern void sfi_monitor_note_failure(const char *message);

/*
 * Of the worker: the launcher is about to start one for a database; its process has
 * begun, or (0, noted by the launcher) ended; it has done all its work.
 */
extern void sfi_monitor_note_worker(Oid db);
extern void sfi_monitor_note_worker_pid(int pid);
extern void sfi_monitor_note_worker_done(void);

/*
 * Take all marks away and return the databases that had one (palloc'd list).  *all:
 * there were more marks than words for them, so any database may have had one.
 * For the launcher only.
 */
extern List *sfi_monitor_take_marks(bool *all);

/*
 * Does a command want to have a database for itself (DROP DATABASE, CREATE
 * DATABASE .. TEMPLATE)?  Does not wait, and needs no transaction.
 */
extern bool sfi_monitor_must_leave(Oid db);

/*
 * Release some free space of a segment, whose relation is locked in ShareUpdateExclusiveLock, if
 * the settings ask for it.  Returns whether to come back.  May take a second.  An ERROR means that
 * less was released.
 */
extern bool sfi_monitor_release(SfSegment *seg, Relation rel);

#endif							/* SF_MONITOR_INTERNAL_H */
