/*-------------------------------------------------------------------------
 *
 * release.h
 *	  Free runs go back to the file system where they lie (release.c).
 *
 * Audience: check/, which proves that they are free; monitor/; sql/, which tells how much there is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RELEASE_H
#define SF_RELEASE_H

#include "access/relation.h"
#include "space/lend.h"

/* Runs that are claimed, and how far they have been released; zero before. */
typedef struct SfRelease
{
	SfRegion   *runs;
	int64		n;
	int64		size;
	int64		next;			/* those before are given back */
	uint64		budget_blocks;	/* that may be claimed still */
	uint64		claimed_blocks;
	uint64		claimed_punches;	/* holes that these will be, at most */
	uint64		released_blocks;
	uint64		punches;		/* of these */
	XLogRecPtr	claimed_lsn;	/* end of WAL, then */
} SfRelease;

/*
 * Claim free runs: they are lent to this process until they are released, or the end is called.
 * The segment relation is locked in ShareLock, and nothing names what its map has free: else
 * bytes of values are lost.  The runs are in the memory context of now.
 */
extern void sf_space_release_claim(SfSegment *seg, Relation rel, SfRelease *release);

/*
 * Claim some free runs of which this start of the server knows that they are free, where
 * securefile.release_threshold asks for that; the segment relation is locked in
 * ShareUpdateExclusiveLock.  No checkpoint has to be made.  Whether there will be more of them.
 */
extern bool sf_space_release_claim_proved(SfSegment *seg, Relation rel, SfRelease *release);

/* How fast to release, and what else happens meanwhile. */
typedef struct SfReleasePace
{
	uint64		most_bytes;		/* a second; 0: no limit but that of holes */
	LOCKMODE	held;			/* of the segment relation */
	void		(*show) (void *arg);	/* called after each step; NULL:
										 * nothing */
	void	   *arg;
} SfReleasePace;

#define SF_RELEASE_PUNCHES	200 /* holes a second */

/*
 * Release what is claimed, with pauses; false: somebody waits for the segment relation, and the
 * rest is left.  Since it was claimed the relation was locked all the time, against ShareLock at
 * least, and a checkpoint was made.  FEATURE_NOT_SUPPORTED where the file system cannot.  After an
 * ERROR call the end.
 */
extern bool sf_space_release_all(SfSegment *seg, Relation rel, SfRelease *release,
								 const SfReleasePace *pace);

/* Give the rest back. */
extern void sf_space_release_end(Relation rel, SfRelease *release);

/*
 * How many bytes a release would give back, if all that is free can be proved to be, and if
 * nothing else changed.  All map pages are read, and the file system is asked.  Works on a
 * standby.  DATA_CORRUPTED.
 */
extern uint64 sf_space_releasable_bytes(SfSegment *seg);

#endif							/* SF_RELEASE_H */
