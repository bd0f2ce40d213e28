/*-------------------------------------------------------------------------
 *
 * release.h
 *	  Free runs go back to the file system where they lie (release.c).
 *
 * Audience: check/, which proves that they are free; sql/, which tells how much there is.
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
 * Release some of them; false: there are none left.  Since they were claimed the segment
 * relation was locked all the time, against ShareLock at least, and a checkpoint was made.
 * FEATURE_NOT_SUPPORTED where the file system cannot.  After an ERROR call the end.
 */
extern bool sf_space_release_some(SfSegment *seg, Relation rel, SfRelease *release);

/* Give the rest back. */
extern void sf_space_release_end(Relation rel, SfRelease *release);

/*
 * How many bytes a release would give back, if all that is free can be proved to be, and if
 * nothing else changed.  All map pages are read, and the file system is asked.  Works on a
 * standby.  DATA_CORRUPTED.
 */
extern uint64 sf_space_releasable_bytes(SfSegment *seg);

#endif							/* SF_RELEASE_H */
