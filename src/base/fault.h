/*-------------------------------------------------------------------------
 *
 * fault.h
 *	  Named fault points: the places where a test makes the engine fail,
 *	  stop, die or do a short I/O.
 *
 * One list, fault_points.h.  Built in only with -DSF_FAULTS ("make
 * FAULTS=1"); otherwise every use compiles to nothing.
 *
 * A test arms a point from SQL:
 *	  SELECT securefile_fault('io_write', 'error', skip => 2, times => 1);
 * The state is in shared memory, so that a point in a background worker can
 * be armed from a session.  Where there is no session, in recovery, the
 * environment of the postmaster arms points whenever shared memory is made:
 *	  SECUREFILE_FAULT=redo_grow:kill:2		(the last number is skip)
 * Idea: PostgreSQL's injection points, OrioleDB's stop events; SQLite's "fail
 * the Nth call".
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FAULT_H
#define SF_FAULT_H

typedef enum SfFaultPoint
{
#define SF_FAULT_POINT(name, doc) SF_FAULT_##name,
#include "base/fault_points.h"
#undef SF_FAULT_POINT
	SF_FAULT_COUNT
} SfFaultPoint;

/* What an armed point does. */
typedef enum SfFaultAction
{
	SF_FAULT_NONE = 0,			/* not armed */
	SF_FAULT_PASS,				/* nothing: passes are counted only */
	SF_FAULT_ERROR,				/* ereport(ERROR), or EIO from an I/O point */
	SF_FAULT_ENOSPC,			/* an I/O point reports ENOSPC */
	SF_FAULT_ENOMEM,			/* .. ENOMEM */
	SF_FAULT_EINTR,				/* .. EINTR */
	SF_FAULT_EAGAIN,			/* .. EAGAIN */
	SF_FAULT_ENOTSUP,			/* .. EOPNOTSUPP */
	SF_FAULT_SHORT,				/* an I/O point transfers half of the bytes */
	SF_FAULT_PANIC,				/* ereport(PANIC) */
	SF_FAULT_KILL,				/* SIGKILL to this process */
	SF_FAULT_WAIT,				/* sleep until disarmed; interruptible */
	SF_FAULT_SKIP,				/* the step at the point is left out */
} SfFaultAction;

#ifdef SF_FAULTS
/*
 * Run a code point.  ERROR, PANIC, KILL and WAIT act at once; those of I/O
 * points, and SKIP, are errors of use and act as ERROR.
 */
extern void sf_fault_run(SfFaultPoint point);

/*
 * Run an I/O point: WAIT, PANIC and KILL act at once; of the others the
 * action is returned and the caller simulates it.
 */
extern SfFaultAction sf_fault_io(SfFaultPoint point);

/* Does a system call fail here?  Sets errno then.  SHORT lets it be made. */
extern bool sf_fault_fails(SfFaultPoint point);

/*
 * How many of len_bytes does a transfer move here: all, half (in whole blocks),
 * or -errno?
 */
extern int32 sf_fault_bytes(SfFaultPoint point, uint32 len_bytes);

/*
 * Run a point before a step that can be left out: true if it is to be.  SKIP
 * plants an error that the tests must find; the others act as above.
 *
 * SF_BREAKS(name) is the same for point break_<name>: it stands where a test
 * breaks the invariant of that name, so that its assertion can be seen to fail.
 * Callers may hold locks; action skip is the only one for these points.
 */
extern bool sf_fault_skips(SfFaultPoint point);

#define SF_FAULT(name)		sf_fault_run(SF_FAULT_##name)
#define SF_FAULT_IO(name)	sf_fault_io(SF_FAULT_##name)
#define SF_FAULT_FAILS(name)	sf_fault_fails(SF_FAULT_##name)
#define SF_FAULT_BYTES(name, len_bytes)	sf_fault_bytes(SF_FAULT_##name, len_bytes)
#define SF_FAULT_SKIPS(name)	sf_fault_skips(SF_FAULT_##name)
#define SF_BREAKS(name)		sf_fault_skips(SF_FAULT_break_##name)
#else
#define SF_FAULT(name)		((void) 0)
#define SF_FAULT_IO(name)	SF_FAULT_NONE
#define SF_FAULT_FAILS(name)	false
#define SF_FAULT_BYTES(name, len_bytes)	((int32) (len_bytes))
#define SF_FAULT_SKIPS(name)	false
#define SF_BREAKS(name)		false
#endif

#endif							/* SF_FAULT_H */
