/*-------------------------------------------------------------------------
 *
 * write_internal.h
 *	  What the files of write/ share.
 *
 * draft.c			a version in the making: units placed, checksummed, mapped
 * pack.c			small values, compressed for their rows
 * arena.c			where the next unit goes: lent regions of this backend
 * gather.c			the write gather cache: two buffers, extents, flushes
 * extent.c			the way of one extent to disk and to WAL (extent.h)
 * wal_charge.c		which statement is charged with what is gathered
 * owner.c			which object is whose: placed, confirmed, freed
 * object_states.c	objects of this transaction that are not plain
 * plain_states.c	states of objects of which there is nothing else to know
 * shares.c			share records that were made or counted up; their rows
 * ledger.c			what is to be logged, by nest level; in bounded memory
 * removals.c		which values rows have lost, in columns that keep them
 * work.c			memory, copies of segments, may anything still be added
 * commit.c			the order of things at the end of a transaction
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WRITE_INTERNAL_H
#define SF_WRITE_INTERNAL_H

#include "base/undo.h"
#include "object/object.h"
#include "space/share_records.h"
#include "stats/stats.h"
#include "transform/transform.h"
#include "write/write.h"

/* ---- work.c ---- */

/*
 * Call before a value or a note is added to the transaction.  ERROR
 * OBJECT_NOT_IN_PREREQUISITE_STATE after sfi_work_close().  The first call of a
 * process registers the work of its end (regions are given up).
 */
extern void sfi_write_require_open(void);

/* Pre-commit begins: nothing may be added from now on.  Once a transaction; never throws. */
extern void sfi_work_close(void);

/*
 * Entries of this transaction are in WAL, or are about to be: the monitor will have
 * work, and the space that they name must not be filled again after an abort.
 * has_entries: was it called in this transaction?  Neither ever throws.
 */
extern void sfi_write_note_entries(void);
extern bool sfi_work_has_entries(void);

/* Memory that lives until the top-level transaction ends.  ERROR when there is none. */
extern MemoryContext sfi_write_context(void);

/*
 * Room in that memory for one more item of an array, which has n items and room for
 * *size; array is NULL when *size is 0.  Returns the array, which may have moved; its
 * new room is not initialised.  ERROR, and nothing changed, when there is no memory.
 */
extern void *sfi_write_make_room(void *array, int64 n, int64 *size, Size item);

/*
 * This transaction's copy of a segment.  Its address stays the same until the end of
 * the transaction, so notes and extents may point to it.  The segment is the current
 * one of a column, not one retained for logical decoding.  ERROR when there is no memory.
 */
extern SfSegment *sfi_write_segment(SfSegment *seg);

/* Does the column of a segment keep what its rows lose? */
extern bool sfi_write_retains(SfSegment *seg);

/*
 * Has the transaction a copy of a segment?  If not it has noted nothing, since all notes are
 * of a segment.  Never throws.
 */
extern bool sfi_work_has_segments(void);

/* Transaction end, after everything else of this room.  Never throws. */
extern void sfi_work_reset(void);

/* ---- arena.c ---- */

/*
 * Sector for the next nsectors (at most the sectors of a stored unit) of the segment,
 * contiguous, on one map page.  ahead_sectors: how much of the same value follows, these
 * included.  The place is taken by sfi_arena_advance(), once the bytes have room in the
 * gather cache: an ERROR in between leaves the two in agreement, where a later value would
 * find a hole in front of it that its extent does not have.  place: may grow the segment;
 * ERROR DISK_FULL.  advance: never throws.  For sfi_gather_place().
 */
extern uint64 sfi_arena_place(SfSegment *seg, SfStatCounters *stats, uint32 nsectors,
							  uint64 ahead_sectors);
extern void sfi_arena_advance(SfSegment *seg, uint32 nsectors);

/* Will the segment's next bytes go to that sector?  Never throws. */
extern bool sfi_arena_goes_on(SfSegment *seg, uint64 sector);

/*
 * The block that an arena is in the middle of is written: go on with the next
 * one.  For the arena at that sector, or for all.  Never throws.
 */
extern void sfi_arena_skip_partial_block(SfSegment *seg, uint64 sector);
extern void sfi_arena_skip_partial_blocks(void);

/* All I/O is done and notes are logged: give back what is full.  Throws if that fails. */
extern void sfi_arena_release_full(void);

/*
 * Transaction end: park what is left.  logged: space entries of the transaction
 * may be in WAL.  Never throws.
 */
extern void sfi_arena_end(bool commit, bool logged);

/* ---- pack.c ---- */

/*
 * Encode a unit as its object's encoder decides, and count the time.  The result is the
 * plain bytes themselves, or memory of this process that is good until the next call.
 * ERROR when there is no memory.
 */
extern const char *sfi_pack_unit(SfStatCounters *stats, SfEncoder *encoder, const char *plain,
								 uint32 len, SfUnit *unit);

/* ERROR: a cipher did not encrypt. */
SF_NORETURN extern void sfi_pack_report_no_cipher(void);

/* ---- gather.c ---- */

/* 512 KB: enough to be written while more comes */
#define SF_GATHER_EARLY_SECTORS	1024

/* What is to be placed, as a part of a value. */
typedef struct SfPlacing
{
	SfSegment  *seg;			/* this transaction's copy */
	SfStatCounters *stats;		/* of its column */
	uint32		nsectors;		/* 1 to those of a stored unit */
	uint64		ahead_sectors;	/* how much of the value follows, these
								 * included */
	bool		transformed;	/* an encoded unit, for the statistics */
} SfPlacing;

/*
 * Give sectors a place in the segment, *start, and room in the gather buffer.  The memory
 * belongs to the buffer, and is to be filled before the next call.  May grow the segment, start
 * writes and wait for older ones; ERROR DISK_FULL, or when a write fails.
 */
extern char *sfi_gather_place(const SfPlacing *placing, uint64 *start);

/*
 * If what was placed last has become a long extent that ends with a block,
 * start its write.
 */
extern void sfi_gather_start_early(void);

/*
 * Write out everything and wait; durable also makes it durable (at pre-commit).  After
 * that no arena goes on in a block that was written.  ERROR when a write fails.
 */
extern void sfi_gather_flush_all(bool durable);

/* Transaction end: forget what is gathered.  Nothing is in flight.  Never throws. */
extern void sfi_gather_reset(void);

/* ---- wal_charge.c: none of it throws ---- */

/* Do the bytes of a segment go to WAL, too? */
extern bool sfi_charge_is_logged(const SfSegment *seg);

/* Bytes were gathered: charge the running statement with them. */
extern void sfi_charge_gathered(const SfSegment *seg, uint64 bytes);

/* Records with these bytes were inserted, which the server has counted. */
extern void sfi_charge_logged(uint64 bytes);

/* Transaction end: nothing is gathered any more. */
extern void sfi_charge_at_end(void);

/* ---- owner.c ---- */

/* In order: from CONFIRMED on its space is allocated.  owner.c says what they mean. */
typedef enum SfObjectState
{
	SF_OBJECT_DEAD,
	SF_OBJECT_DRAFT,
	SF_OBJECT_PLACED,
	SF_OBJECT_CONFIRMED,
	SF_OBJECT_FREED,
	SF_OBJECT_LOST,
} SfObjectState;

/* Pre-commit: log what rows have got and lost, and the pages that nobody owns. */
extern void sfi_owner_log(void);

/* Transaction end. */
extern void sfi_owner_reset(void);

/* ---- object_states.c ---- */

typedef struct SfObjectKey
{
	uint64		incarnation;
	uint64		object_id;
	uint32		generation;
} SfObjectKey;

/* Runs and pages of an object, if it has more than one run. */
typedef struct SfObjectLists
{
	SfRun	   *runs;			/* without those of the base */
	int			nruns;
	uint32	   *pages;			/* likewise */
	int			npages;
	int64		pages_size;		/* room for so many */
	uint32	   *orphan_pages;	/* pages that were made and written anew since */
	int			norphan_pages;
	SfRoot		root;			/* of a map of its own; page 0: there is none */
} SfObjectLists;

/*
 * An object this transaction made.  A statement may have millions of them: it
 * is kept short.  Of the base, which is a version of the same object, there is
 * what tells it from all others.
 */
typedef struct SfObject
{
	SfObjectKey key;			/* only KEY_SIZE of it is compared */
	SfSegment  *seg;
	uint64		tag;			/* of the locator, once it is whole */
	uint64		base_tag;		/* likewise of the base's */
	uint64		base_id;		/* what that is found by, as in its key */
	SfObjectLists *lists;		/* or NULL */
	uint64		run_start;		/* the run, if there is one only */
	uint32		run_sectors;
	uint32		base_generation;	/* 0: no base */
	SfUndoLevel level;			/* a savepoint brings back this and what
								 * follows */
	uint32		state;			/* SfObjectState */
} SfObject;

/*
 * A new object, or a new version of base: begun (sets the generation), told of
 * its inode pages while they are made (an SfPagesMade), and finished when it is
 * whole: a draft.  Until then it is dead.  place: it goes into a row now; the
 * pointer is not to be used after that.
 */
extern SfObject *sfi_objects_begin(SfSegment *seg, SfLocator *loc, const SfLocator *base);
extern void sfi_objects_pages(const uint32 *pages, int npages, void *object);
extern void sfi_objects_finish(SfObject *object, const SfLocator *loc, const SfOwned *owned);
extern void sfi_objects_place(SfObject *object, const SfLocator *loc);

/* The one that a locator names, or NULL.  Valid until the next begin or place.  Never throws. */
extern SfObject *sfi_objects_find(const SfLocator *loc);
extern void sfi_objects_set_state(SfObject *object, SfObjectState state);

/* Is a STORED datum (detoasted; may be damaged) the value that the object was made from? */
extern bool sfi_objects_is_base(const SfObject *object, struct varlena *datum);

/* Is there one in that storage? */
extern bool sfi_objects_has(SfStorage storage);

/* Pre-commit: note in the ledger what pages nobody owns. */
extern void sfi_objects_collect(void);

extern void sfi_objects_reset(void);

/* A share record owns its map: no copy may share it by its root. */
extern void sfi_objects_unroot(SfObject *object);

/*
 * A reference to a share record, which a row gets: placed.  The object of the record, if it
 * is one of this transaction's that is not settled, or NULL.
 */
extern void sfi_objects_refer(SfSegment *seg, const SfLocator *loc);
extern SfObject *sfi_objects_shared(const SfLocator *loc);

/* ---- shares.c ---- */

/* A row has the reference that a locator is. */
extern void sfi_shares_add_row(SfSegment *seg, const SfLocator *loc);

/* Pre-commit, before the ledger is logged: publish own records, settle guards. */
extern void sfi_shares_settle(void);

/* Is there one in that storage? */
extern bool sfi_shares_has(SfStorage storage);

extern void sfi_shares_reset(void);

/* ---- plain_states.c ---- */

/* Can it be plain, as far as its locator tells? */
extern bool sfi_plain_is(const SfLocator *loc);

/* Note a plain object; false if it cannot be noted here. */
extern bool sfi_plain_add(SfSegment *seg, const SfLocator *loc, SfObjectState state);

/* State of the plain object that a locator names (DEAD: none), and its segment. */
extern SfObjectState sfi_plain_state(const SfLocator *loc, SfSegment **seg);

/* Change the state of one that is not dead. */
extern void sfi_plain_set(const SfLocator *loc, SfObjectState state);

/* Is there one in that storage? */
extern bool sfi_plain_has(SfStorage storage);

extern void sfi_plain_reset(void);

/* ---- ledger.c ---- */

/* The kinds of entries that notes become, in the order in which they are logged. */
typedef enum SfNoteKind
{
	SF_NOTE_ALLOC,
	SF_NOTE_FREE,
	SF_NOTE_FREE_PAGE,
	SF_NOTE_FREE_NOW,			/* as these two, but no retention keeps it */
	SF_NOTE_FREE_PAGE_NOW,
	SF_NOTE_REF_DROP,
	SF_NOTE_REF_DROP_NOW,
} SfNoteKind;

#define SF_NOTE_KINDS	7

/*
 * Note runs, pages, or references that are lost, at the current nest level; gives it an xid.
 * ERROR when there is no memory; some of them may be noted then, which the abort of the level
 * takes back.
 */
extern void sfi_ledger_add_runs(SfNoteKind kind, SfSegment *seg, const SfRun *runs, int n);
extern void sfi_ledger_add_pages(SfNoteKind kind, SfSegment *seg, const uint32 *pages, int n);
extern void sfi_ledger_add_drop(SfNoteKind kind, SfSegment *seg, SfShareId id, uint32 references);

/*
 * Keep to securefile.transaction_memory: sum up, or log early.  Called when no
 * page is locked and nothing is half noted.
 */
extern void sfi_ledger_bound(void);

/* Pre-commit: log all that is left. */
extern void sfi_ledger_log(void);

/* Is there a note about that storage, or was one logged? */
extern bool sfi_ledger_has(SfStorage storage);

extern void sfi_ledger_reset(void);

/* ---- removals.c ---- */

/*
 * Note that a row has lost a value, at the current nest level.  ERROR when there is no memory.
 * bound: log what is noted, when that is much.  log: at pre-commit, all of it.
 */
extern void sfi_removals_add(SfSegment *seg, struct varlena *value, const SfRemoval *removal);
extern void sfi_removals_bound(void);
extern void sfi_removals_log(void);

/* A subtransaction of that level ends; and the transaction.  None throws. */
extern void sfi_removals_at_subcommit(int level);
extern void sfi_removals_at_subabort(int level);
extern void sfi_removals_reset(void);

#endif							/* SF_WRITE_INTERNAL_H */
