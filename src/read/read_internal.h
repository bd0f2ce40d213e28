/*-------------------------------------------------------------------------
 *
 * read_internal.h
 *	  What the files of read/ share.
 *
 * value.c		forms, lengths, whole values
 * units.c		the reading of a range of units, in one go
 * reader.c		readers: values that are read piece by piece
 * ahead.c		reading ahead for them
 * request.c		a request, the check of its units, their delivery
 * damage.c		what is said of units that cannot be returned
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_READ_INTERNAL_H
#define SF_READ_INTERNAL_H

#include "lib/ilist.h"
#include "object/object.h"
#include "read/read.h"
#include "stats/stats.h"
#include "utils/palloc.h"

/* What to do with a unit that cannot be returned: throw, or tell. */
typedef struct SfReadTarget
{
	char	   *dst;			/* receives bytes [offset, offset + len); or
								 * NULL */
	uint64		offset;			/* object_offset of dst */
	uint64		len;
	SfEdit	   *edit;			/* where units are looked up; NULL: in the
								 * locator */
	SfReadFinding found;		/* NULL: throw */
	void	   *arg;
} SfReadTarget;

#define SfReadTargetFirst(t)	sf_unit_of((t)->offset)
#define SfReadTargetEnd(t)		sf_units_of((t)->offset + (t)->len)

/* One call: what is read from where to where. */
typedef struct SfReadJob
{
	SfSegment  *seg;
	const SfLocator *loc;
	SfReadTarget *target;
	uint64		length_bytes;	/* of the value: of a draft, loc does not say
								 * it */
	SfFiles    *files;
	SfCacheMode cache;
	bool		buffered;		/* through the page cache */
	uint64		seed;
	uint64		total_sectors;
	SfStatCounters *stats;
} SfReadJob;

extern void sfi_read_prepare_job(SfReadJob *job, SfSegment *seg, const SfLocator *loc,
								 SfReadTarget *target);

/* Look up units, and the time that takes. */
extern void sfi_read_look_up(SfReadJob *job, uint64 first, uint32 n, SfUnit *units);

/* Read and check all units that a job's target touches. */
extern void sfi_read_units(SfReadJob *job);

/* ---- request.c: consecutive units that lie side by side, one request ---- */

#define SF_READ_REQUEST_BYTES		(1024 * 1024)
#define SF_READ_REQUEST_UNITS		(SF_READ_REQUEST_BYTES / SF_UNIT_SIZE)

typedef struct SfReadRequest
{
	SfIo		io;
	char	   *buf;			/* SF_READ_REQUEST_BYTES, aligned */
	char	   *data;			/* first byte of the first unit, in buf */
	uint64		first_unit;		/* of the object */
	uint32		nunits;
	SfUnit		units[SF_READ_REQUEST_UNITS];
	uint32		nsectors;
	uint32		overlaid;		/* sectors that come from gather buffers */
	bool		started;
	bool		arrived;		/* has been waited for */
	bool		may_reread;		/* the disk may know better than the buffer */
	bool		writer_ended;	/* see wait_for_writer() */
	uint32		checked;		/* a bit a unit: is what it should be */
} SfReadRequest;

/* Is a unit, which is no hole, where data files are? */
extern bool sfi_read_is_there(const SfReadJob *job, const SfUnit *unit);

/* Make a request of the first of n units, which is there, and those that follow it. */
extern void sfi_read_plan_request(SfReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n,
								  SfReadRequest *request);

/* Do gather buffers hold any part of a request? */
extern bool sfi_read_is_gathered(SfReadJob *job, const SfReadRequest *request);

extern void sfi_read_start_request(SfReadJob *job, SfReadRequest *request);

/* Wait for it.  False when it could not be read and the target was told so. */
extern bool sfi_read_wait_request(SfReadJob *job, SfReadRequest *request);

/* For tests: what a page cache that is behind the disk gives. */
extern void sfi_read_spoil_cached(SfReadJob *job, SfReadRequest *request);

/*
 * Check a unit of a request that has arrived, once; decode it, and copy what the target
 * wants of it.  Nothing is copied when it does not match and the target was told so.
 */
extern void sfi_read_deliver_unit(SfReadJob *job, SfReadRequest *request, uint32 i);

/* The same for a unit that is a hole. */
extern void sfi_read_deliver_hole(SfReadJob *job, uint64 unit_no);

/* ---- damage.c ---- */

/* A unit matches, but there is no codec that can decode it: ERROR. */
SF_NORETURN extern void sfi_read_report_undecodable(uint64 unit_no, const SfUnit *unit);

/* A unit does not match. */
extern void sfi_read_report_mismatch(SfReadJob *job, uint64 unit_no, const SfUnit *unit, uint64 found);

/* A unit lies where no data file is. */
extern void sfi_read_report_beyond_end(SfReadJob *job, const SfUnit *unit);

/* ---- ahead.c: reading ahead ---- */

typedef struct SfReadSlot SfReadSlot;

struct SfReader
{
	dlist_node	link;			/* among all readers of this process */
	MemoryContext context;		/* holds the reader and all it has */
	MemoryContextCallback at_reset;
	struct varlena *datum;
	int64		length_bytes;
	bool		in_call;		/* between calls: the last one threw */
	int64		next_offset;	/* end of the last call; -1: none */
	int64		end_offset;		/* nothing is wanted from there on */
	bool		direct;			/* a long stream: past the page cache */
	int64		decided_until;	/* where that is to be thought over */

	/* STORED only */
	bool		stored;
	bool		tag_checked;	/* the locator is its segment's */
	SfLocator	loc;
	Oid			held;			/* segment relation locked for us, or invalid */

	/* reading ahead; see ahead.c */
	SfReadSlot *slot;			/* NULL: does not */
	SfStorage	storage;		/* storage that it reads ahead in */
	int			depth;			/* requests it may have now */
	uint64		next_unit;		/* first unit not planned yet */
	SfUnit	   *units;			/* known ones: */
	uint64		first_known;
	uint32		nknown;
};

/*
 * Read a target that goes on where the last one ended, and start reading what
 * comes next.  A slot is taken if there is one; false, and nothing done, if not.
 */
extern bool sfi_read_ahead(SfReader *reader, SfReadJob *job);

/*
 * A unit of a reader's value and how many are known from there on.  NULL: it is not
 * in the job's target, and not to be known yet.
 */
extern const SfUnit *sfi_read_find_unit(SfReader *reader, SfReadJob *job, uint64 unit_no,
										uint32 *n);

/* Forget what was read ahead. */
extern void sfi_read_leave_slot(SfReader *reader);

/* All slots are free; the readers that had them are told by the caller. */
extern void sfi_read_clear_slots(void);

#endif							/* SF_READ_INTERNAL_H */
