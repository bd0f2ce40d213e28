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

/* Readers that go on without a snapshot. */
#define SF_KEEP_CURSOR		1	/* a held portal */
#define SF_KEEP_PROCEDURE	2	/* that may end transactions */
#define SF_KEEP_COMMAND		4	/* that also reads deleted rows; not on a
								 * standby */

/* A procedure or a command begins, and ends; they nest. */
extern void sf_space_keep_begins(uint32 reader);
extern void sf_space_keep_ends(uint32 reader);

/* Does a procedure run? */
extern bool sf_space_keep_is_call(void);

/*
 * What the snapshots that are open in this session show is not freed when they are closed:
 * until portal, or NULL, is reset or deleted; and if a procedure runs, until it ends, or until
 * securefile.procedure_retention has passed.  Nothing on a standby.
 */
extern void sf_space_keep_results(MemoryContext portal);

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
