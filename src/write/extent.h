/*-------------------------------------------------------------------------
 *
 * extent.h
 *	  Extents of the gather cache: each a contiguous range of sectors of one segment.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_EXTENT_H
#define SF_EXTENT_H

#include "write/write_internal.h"

typedef struct SfExtent
{
	SfSegment  *seg;			/* this transaction's copy */
	SfStatCounters *stats;		/* of its column */
	uint64		start;			/* first sector, of a whole block */
	uint32		nsectors;		/* filled */
	uint32		offset;			/* in the buffer, in bytes */
	bool		started;		/* its write was: it grows no more */
	uint64		left;			/* to which opening of the file by the syncer
								 * its flush is left; 0: to none */
	bool		settled;		/* durable, or noted as to be made so */
	bool		logged;			/* it is in WAL, if it has to be */
	bool		transformed;	/* some of its units were encoded */
	SfIo		io;
} SfExtent;

#define ExtentEnd(p)			((p)->start + (p)->nsectors)
#define BLOCK_ROUND_UP(n)	(((n) + SF_BLOCK_SIZE - 1) / SF_BLOCK_SIZE * SF_BLOCK_SIZE)

/*
 * Start the write of an extent, whose bytes are at that place, with room up to the end of the
 * last block: what is behind them there is zeros.  The file is opened here and not before: an
 * extent of storage that is dropped meanwhile never opens it.  durable: with the write, unless
 * the syncer does that.  The caller has begun what is done whole.  Errors of opening, and of
 * memory.
 */
extern void sfi_extent_start(SfExtent *extent, char *bytes, bool durable);

/*
 * Put an extent's bytes into WAL if its column logs, once.  Not before the write was
 * started.  logs_in_flight: may that be done before the write is complete?
 */
extern void sfi_extent_log(SfExtent *extent, const char *bytes);
extern bool sfi_extent_logs_in_flight(const SfExtent *extent);

/*
 * Wait for the write of an extent, see to it that it becomes durable, and log it.  Throws what
 * went wrong with the write.
 */
extern void sfi_extent_finish(SfExtent *extent, const char *bytes);

/*
 * The files that were written to, and whose flush is not left to the syncer: are there none?
 * Sync them; forget them, at the end of the transaction.
 */
extern bool sfi_extent_no_dirty_files(void);
extern void sfi_extent_sync_files(void);
extern void sfi_extent_forget_files(void);

#endif							/* SF_EXTENT_H */
