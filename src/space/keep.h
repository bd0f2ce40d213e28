/*-------------------------------------------------------------------------
 *
 * keep.h
 *	  Space that is kept longer than a snapshot, for cursors, procedures and
 *	  commands that go on to read (keep.c).
 *
 * Audience: ddl/, which sees them begin and end, and the view of what keeps space.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_KEEP_H
#define SF_KEEP_H

#include "base/base.h"
#include "base/shared.h"
#include "datatype/timestamp.h"

/*
 * What the snapshots that are open in this session show is not freed until the context is
 * reset or deleted, also when they are closed.  Nothing on a standby.
 */
extern void sf_space_keep_while(MemoryContext context);

/*
 * A procedure that may end transactions begins and ends; calls nest.  Within one,
 * sf_space_keep_for_call() keeps what the open snapshots show until it ends, or until
 * securefile.procedure_retention has passed.
 */
extern void sf_space_keep_call_begins(void);
extern void sf_space_keep_call_ends(void);
extern bool sf_space_keep_is_call(void);
extern void sf_space_keep_for_call(void);

/* A command that also reads deleted rows begins and ends; they nest.  Not on a standby. */
extern void sf_space_keep_command_begins(void);
extern void sf_space_keep_command_ends(void);

/* End of a transaction: what a procedure has kept for long enough is let go.  Never throws. */
extern void sf_space_keep_at_end(void);

#define SF_KEEP_CURSOR		1
#define SF_KEEP_PROCEDURE	2
#define SF_KEEP_COMMAND		4

/* What a process keeps. */
typedef struct SfKept
{
	int			pid;
	Oid			db;
	uint64		oldest;			/* full xid */
	TimestampTz since;
	uint32		readers;		/* SF_KEEP_... */
} SfKept;

/* The next one, from place *at on, which is 0 at first; false when there are no more. */
extern bool sf_space_keep_next(int *at, SfKept *kept);

extern const SfSharedArea sf_space_keep_area;

#endif							/* SF_KEEP_H */
