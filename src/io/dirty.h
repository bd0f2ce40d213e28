/*-------------------------------------------------------------------------
 *
 * dirty.h
 *	  Data files that the syncer flushes: what writers, removers of files, and the
 *	  syncer share.  README.md has the protocol.
 *
 * dirty.c		everybody's side: notes, requests, files that go
 * syncer.c	the syncer's
 *
 * Y1	a dirty bit is set only in a slot that is OPEN, and only while notes are taken;
 * Y2	while notes are taken the syncer has DELAY_CHKPT_COMPLETE set;
 * Y3	the syncer has a descriptor for each slot that is OPEN or GONE, and for no other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_IO_DIRTY_H
#define SF_IO_DIRTY_H

#include "io/io_internal.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/proc.h"

/* Data files at a time; writers flush what is more. */
#define SF_DIRTY_FILES		256

/* A pre-flush is due when so much has been noted since the last one. */
#define SF_DIRTY_LIMIT_BYTES	(64 * 1024 * 1024)

/*
 * FREE --a writer wants it--> WANTED --the syncer has opened it--> OPEN
 * WANTED --it is unlinked, or cannot be opened--> FREE
 * OPEN --it is unlinked--> GONE --the syncer has closed it--> FREE
 * OPEN --clean, and long not written, or the syncer pauses--> FREE
 */
typedef enum SfDirtyState
{
	SF_DIRTY_FREE,				/* holds no file */
	SF_DIRTY_WANTED,			/* the syncer is to open the file; its writers
								 * flush it */
	SF_DIRTY_OPEN,				/* the syncer flushes what is noted */
	SF_DIRTY_GONE,				/* unlinked; the syncer still has a descriptor */
} SfDirtyState;

typedef struct SfDirtyFile
{
	SfDirtyState state;			/* changed with the gate exclusive */
	SfFileId	id;				/* likewise, as all that follows but the bit */
	uint64		inode;			/* of what the syncer has opened */
	uint64		opening;		/* of all, which one that was */
	uint64		noted_in_pass;	/* when it was last dirty */
	pg_atomic_uint32 dirty;		/* set with the gate shared; cleared before
								 * the flush */
} SfDirtyFile;

/* For securefile_syncer; written by the syncer alone but for longest_wait_us. */
typedef struct SfDirtyCounts
{
	uint64		flushes;		/* of files */
	uint64		passes;			/* new ids */
	uint64		longest_pass_us;	/* that the gate was closed */
} SfDirtyCounts;

typedef struct SfDirtyShared
{
	/*
	 * Shared: a note is being made.  Exclusive: nobody notes; states change.
	 * A leaf: its holder takes no other lock.  The syncer flushes files under
	 * it; all others hold it for a few instructions.
	 */
	LWLock		gate;
	bool		active;			/* notes are taken; changed with the gate
								 * exclusive */
	bool		crowded;		/* a writer has found no free slot; likewise */
	uint64		openings;		/* files opened so far; likewise */
	PGPROC	   *syncer;			/* likewise; NULL: none, or it is switched off */
	pg_atomic_uint64 noted_bytes;	/* ever */
	pg_atomic_uint64 flushed_bytes; /* noted_bytes at the last pre-flush */
	pg_atomic_uint64 longest_wait_us;	/* of a writer, for the gate */
	SfDirtyCounts counts;
	SfDirtyFile files[SF_DIRTY_FILES];
} SfDirtyShared;

/* NULL without preload. */
extern SfDirtyShared *sfi_dirty;

/* Wake the syncer, if there is one.  Never throws. */
extern void sfi_dirty_wake(void);

#endif							/* SF_IO_DIRTY_H */
