/*-------------------------------------------------------------------------
 *
 * monitor_internal.h
 *	  What launcher and worker share.
 *
 * state.c		shared memory: marks, state of the processes, view
 * launcher.c	decides which database is next, starts workers
 * worker.c		works through the segments of one database
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_MONITOR_INTERNAL_H
#define SF_MONITOR_INTERNAL_H

#include "datatype/timestamp.h"
#include "monitor/monitor.h"
#include "nodes/pg_list.h"

#define SF_MONITOR_MESSAGE_MAX	128

/* State of the monitor, as of one instant. */
typedef struct SfMonitorState
{
	int			launcher_pid;	/* 0: not running */
	int			worker_pid;		/* 0: none */
	Oid			worker_db;		/* database of the latest worker */
	bool		worker_done;	/* the latest worker came to its end */
	uint64		passes;
	uint64		workers;		/* that got into their database */
	uint64		failures;
	TimestampTz last_pass;		/* end of it; 0: none yet */
	TimestampTz last_failure_time;
	char		last_failure[SF_MONITOR_MESSAGE_MAX];
} SfMonitorState;

extern void sfi_monitor_state_get(SfMonitorState *state);

/* Launcher: who it is, and what it does. */
extern void sfi_monitor_note_launcher(int pid);
extern void sfi_monitor_note_pass(void);
extern void sfi_monitor_note_failure(const char *message);

/* Worker: about to begin (says the launcher), running or gone, through. */
extern void sfi_monitor_note_worker(Oid db);
extern void sfi_monitor_note_worker_pid(int pid);
extern void sfi_monitor_note_worker_done(void);

/*
 * Take all marks away and return the databases that had one (palloc'd list);
 * *all is set when there were too many to keep.
 */
extern List *sfi_monitor_take_marks(bool *all);

/*
 * Does a command want to have a database for itself (DROP DATABASE, CREATE
 * DATABASE .. TEMPLATE)?  Works without a transaction.
 */
extern bool sfi_monitor_must_leave(Oid db);

#endif							/* SF_MONITOR_INTERNAL_H */
