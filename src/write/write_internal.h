/*-------------------------------------------------------------------------
 *
 * write_internal.h
 *	  What the files of write/ share.
 *
 * draft.c		a version in the making: units placed, checksummed, mapped
 * arena.c		where the next unit goes: lent regions of this backend
 * gather.c		the write gather cache: two buffers, pieces, flushes
 * owner.c		which object is whose: placed, confirmed, freed; savepoints
 * work.c		memory, copies of segments, lists of facts
 * commit.c		the order of things at the end of a transaction
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WRITE_INTERNAL_H
#define SF_WRITE_INTERNAL_H

#include "object/object.h"
#include "write/write.h"

/* Throws when a value arrives after this transaction's pre-commit work. */
extern void sf_write_require_open(void);

/* Entries of this transaction are in WAL: the monitor will have work. */
extern void sf_write_note_entries(void);

/* ---- work.c ---- */

/* Memory that lives until the top-level transaction ends. */
extern MemoryContext sf_write_context(void);

/* Make room in it for one more item of an array. */
extern void *sf_write_make_room(void *array, int64 n, int64 *size, Size item);

/* This transaction's copy of a segment (stable address). */
extern SfSegment *sf_write_segment(SfSegment *seg);

/*
 * Lists of what pre-commit has to log, of one kind, sorted by segment and
 * sector.
 */
typedef struct SfFact
{
	SfSegment  *seg;			/* this transaction's copy */
	SfRun		run;
} SfFact;

typedef struct SfFacts
{
	SfFact	   *items;
	int64		n;
	int64		size;
} SfFacts;

extern void sf_facts_add_runs(SfFacts *facts, SfSegment *seg, const SfRun *runs, int n);
extern void sf_facts_add_pages(SfFacts *facts, SfSegment *seg, const uint32 *pages, int n);

/* Sort; merge what touches on one map page, if that is wanted. */
extern void sf_facts_sort(SfFacts *facts, bool merge);

/* Transaction end; last. */
extern void sf_work_reset(void);

/* ---- arena.c ---- */

/*
 * Sector for the next nsectors (at most a unit) of the segment, contiguous.
 * ahead_sectors: how much more of the same value follows.  The place is taken
 * by sf_arena_advance(), once the bytes have room in the gather cache; an ERROR
 * in between leaves the two in agreement.
 */
extern uint64 sf_arena_place(SfSegment *seg, uint32 nsectors, uint64 ahead_sectors);
extern void sf_arena_advance(SfSegment *seg, uint32 nsectors);

/* Will the segment's next bytes go to that sector? */
extern bool sf_arena_goes_on(SfSegment *seg, uint64 sector);

/*
 * The block that an arena is in the middle of is written: go on with the next
 * one.  For the arena at that sector, or for all.
 */
extern void sf_arena_skip_partial_block(SfSegment *seg, uint64 sector);
extern void sf_arena_skip_partial_blocks(void);

/* All I/O is done and facts are logged: give back what is full. */
extern void sf_arena_release_full(void);

/*
 * Transaction end: park what is left.  logged: space entries of the transaction
 * may be in WAL.  Never throws.
 */
extern void sf_arena_end(bool commit, bool logged);

/* ---- gather.c ---- */

/* 512 KB: enough to be written while more comes */
#define SF_GATHER_EARLY_SECTORS	1024

/*
 * Room for nsectors at that place of the segment in the gather buffer; may
 * flush first.  The memory is valid until the next call.
 */
extern char *sf_gather_reserve(SfSegment *seg, uint64 start_sector, uint32 nsectors);

/*
 * If what was reserved last has become a long piece that ends with a block,
 * start its write.
 */
extern void sf_gather_start_early(void);

/* Write out everything and wait; durable also makes it durable. */
extern void sf_gather_flush_all(bool durable);

/* Transaction end: forget what is gathered.  Nothing is in flight. */
extern void sf_gather_reset(void);

/* ---- owner.c ---- */

/*
 * A new object, or a new version of base: begun (sets the generation), told of
 * its inode pages while they are made (an SfPagesMade), and finished when it is
 * whole: a draft.  Until then it is dead.  place: it goes into a row now.
 */
extern struct Object *sf_owner_begin(SfSegment *seg, SfLocator *loc, struct varlena *base);
extern void sf_owner_pages(const uint32 *pages, int npages, void *object);
extern void sf_owner_finish(struct Object *object, const SfLocator *loc, const SfOwned *owned);
extern void sf_owner_place(struct Object *object);

/* Did this transaction place or free anything? */
extern bool sf_owner_has_work(void);

/* alloc: runs of confirmed objects; free: runs to be freed; pages likewise. */
extern void sf_owner_collect(SfFacts *alloc, SfFacts *free, SfFacts *pages);

/* Transaction end. */
extern void sf_owner_reset(void);

#endif							/* SF_WRITE_INTERNAL_H */
