/*-------------------------------------------------------------------------
 *
 * dump.h
 *	  What the parts of the verb dump share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMP_H
#define SECUREFILE_DUMP_H

#include <pthread.h>
#include <stdatomic.h>

#include "dumpcolumn.h"
#include "dumpearlier.h"
#include "flow.h"
#include "manifest.h"

#define MOST_COLUMNS	1664	/* of a result, in PostgreSQL */
#define MOST_FLIGHTS	64		/* threads there can be */

/*
 * Objects that threads are fetching: another thread that needs the same one waits, and finds it.
 */
typedef struct Flights
{
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct
	{
		pthread_t	thread;
		bool		used;
		char		sha256[SHA256_HEX_SIZE];
	}			flights[MOST_FLIGHTS];
} Flights;

extern void flights_begin(Flights *flights);

/* Fetch that object, when no other thread does.  A thread has one flight at a time. */
extern void flight_begin(Flights *flights, const char *sha256);
extern void flight_end(Flights *flights);

/*
 * Fill an object with the file that a SELECT yields, and tell its SHA-256.  Returns the number of
 * bytes, -1 after a failure; *broken: the object could not be written.
 */
extern int64_t object_fill(Session *session, TempFile *file, const char *sql,
						   const pgsf_params *params, char *sha256, bool *broken,
						   Failure *failure);

/*
 * Add a part of the file, from start on, to a SHA-256, and write it at the position of fd.  length
 * -1: to the end.  The rest as for object_fill().
 */
extern int64_t object_fill_part(Session *session, int fd, Sha256 *sum, int64_t start,
								int64_t length, const char *sql, const pgsf_params *params,
								bool *broken, Failure *failure);

/* A dump that runs. */
typedef struct Dump
{
	const Options *options;
	DumpDir    *dir;
	DumpColumns columns;
	int64_t		longer;			/* only files that are longer; -1: all */
	char	   *snapshot;
	char	   *set_snapshot;
	char	   *name;
	ManifestWriter *writer;
	Flow	   *flow;
	Flights		flights;
	pthread_mutex_t earlier_lock;
	Earlier    *earlier;		/* for each column; under that lock */
	_Atomic int64_t reused;		/* bytes out of earlier objects */
	atomic_bool broken;			/* it cannot become a dump; the user knows why */
} Dump;

/* Settings of a session, with which values mean the same wherever they are restored. */
extern bool dump_settings(Session *session, Failure *failure);

/* Begin a transaction with the snapshot of the list, if the session is in none. */
extern bool dump_see(Session *session, const Dump *dump, Failure *failure);

/* Begin the transaction of the list, and export its snapshot. */
extern bool dump_snapshot(Session *session, Dump *dump, Failure *failure);

/* Write all columns to the directory. */
extern bool dump_run(Session *session, Dump *dump, ManifestTotals *totals, Failure *failure);

/* ---- pgdump.c ---- */

/* Start pg_dump, as the arguments say, with that snapshot. */
extern bool pgdump_begin(const Options *options, const char *snapshot, pid_t *process,
						 Failure *failure);

/* Wait for its end, or end it.  False: it has failed. */
extern bool pgdump_end(pid_t process, bool cancel, Failure *failure);

/* ---- dumplist.c, dumpprune.c, dumpcheck.c ---- */

/* What works on a directory alone; they return the exit status. */
extern int	dump_list(const Options *options);
extern int	dump_prune(const Options *options);
extern int	dump_check(const Options *options);

#endif							/* SECUREFILE_DUMP_H */
