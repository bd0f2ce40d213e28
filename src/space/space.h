/*-------------------------------------------------------------------------
 *
 * space.h
 *	  Which blocks: segments, their storage, and what is done and asked of it.
 *
 * Audience: all rooms above.  Other headers of the room for them, each for some readers:
 *
 * lend.h				blocks lent to a backend; entries of the pending queue
 * share_records.h		objects that several rows share, and the advice on duplicates
 * dictionary_pages.h	dictionaries of a segment
 * key_pages.h			wrapped keys of a segment
 * keep.h				space that is kept longer than a snapshot
 * history.h			space of removed values, kept by a retention, and what it was
 * upgrade.h			databases that pg_upgrade has moved
 * release.h			free runs that go back to the file system
 * shrink_limit.h		how short the data files can become
 * repair_pages.h		steps of a repair
 *
 * Insides: space_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SPACE_H
#define SF_SPACE_H

#include "base/base.h"
#include "config/config.h"
#include "format/segment_pages.h"
#include "io/io.h"
#include "nodes/pg_list.h"
#include "storage/lock.h"

/* ---- segments ---- */

/* Name of the table access method of segment relations. */
#define SF_SEGMENT_AM_NAME	"securefile_segment"

/*
 * A segment this backend has opened: plain data in a cache, valid until the
 * next sf_space_open() of the same column.  The lock taken on the segment
 * relation stays until transaction end; functions of this room open and close
 * the relation themselves.
 */
typedef struct SfSegment
{
	Oid			relid;			/* key: the segment relation */
	SfStorage	storage;		/* its storage */
	Oid			table_oid;
	AttrNumber	attnum;
	uint64		incarnation;
	SfSecret	secret;			/* key of its locators */
	bool		logged_data;	/* logging (else filesystem_like_logging) */
	bool		retained;		/* dropped, and kept for logical decoding */
	uint64		next_id;		/* reserved object ids: next, */
	uint64		end_id;			/* and end */
	SfColumn	column;			/* see sf_space_column() */
	uint64		described;		/* when that was asked for; 0: never */
	uint64		total_sectors;	/* see sfi_read_known_end() .. */
	uint64		cuts;			/* .. of files, when the header was asked */
} SfSegment;

/* Name of the segment relation of a column, in pg_toast.  buf holds NAMEDATALEN bytes. */
static inline void
sf_space_segment_name(char *buf, Oid table_oid, AttrNumber attnum)
{
	snprintf(buf, NAMEDATALEN, "pg_securefile_%u_%d", table_oid, attnum);
}

/* The column that a segment relation of that name belongs to; false: no segment is named so. */
static inline bool
sf_space_segment_column(const char *name, Oid *table_oid, AttrNumber *attnum)
{
	return sscanf(name, "pg_securefile_%u_%hd", table_oid, attnum) == 2;
}

/*
 * OIDs of the segment relations of this database; none where the extension is not installed.
 * The list is made in the given context.  In a transaction; takes no lock that it keeps.
 * makers, or NULL: those of transactions that have not ended are listed, too, and these
 * transactions as integers.
 */
extern List *sf_space_list_segments(MemoryContext context, List **makers);

/* OID of the segment relation of a column, or InvalidOid.  Takes no lock. */
extern Oid	sf_space_segment_relid(Oid table_oid, AttrNumber attnum);

/*
 * Open the segment of a column with AccessShareLock (readers) or
 * RowExclusiveLock (writers), kept until transaction end.  NULL when there is
 * none and missing_ok; ERROR UNDEFINED_OBJECT otherwise.
 */
extern SfSegment *sf_space_open(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode,
								bool missing_ok);

/*
 * The segment a locator was made in: that of the column, or, while
 * securefile_rewrite() swaps segments, the old one, named .._old.  ERROR
 * UNDEFINED_OBJECT when the incarnation is gone (TRUNCATE, DROP).
 */
extern SfSegment *sf_space_open_incarnation(Oid table_oid, AttrNumber attnum,
											uint64 incarnation);

/*
 * The same for a value that is to be changed: with RowExclusiveLock, and only in the segment
 * that the column has now.
 */
extern SfSegment *sf_space_open_to_edit(Oid table_oid, AttrNumber attnum, uint64 incarnation);

/*
 * Same, for a segment relation the caller has open and locked (monitor, DDL).  Reads the
 * header page when the storage is new to this process: DATA_CORRUPTED.
 */
extern SfSegment *sf_space_open_rel(Relation segrel);

/*
 * Make the storage of a segment relation: header page, one WAL record.  Data
 * files come with the first growth; abort removes those that came.  Called by the
 * access method's set_new_filenode after the main fork exists.  next_object_id
 * continues that of the storage it replaces (1 for the first).
 */
extern void sf_space_create_storage(SfStorage storage, Oid table_oid, AttrNumber attnum,
									bool logged_data, uint64 next_object_id);

/*
 * Copy the storage of a segment relation, which is locked exclusively, into new
 * storage, whose main fork is there and empty: pages, data files, WAL.  All of
 * it is durable when this returns.  The old storage goes when the transaction
 * commits, the new one when it does not.
 */
extern void sf_space_move_storage(Relation segrel, SfStorage to);

/* Does storage that is dropped now stay for logical decoding?  Looks at all slots. */
extern bool sf_space_keeps_dropped(void);

/*
 * Before the commit (or prepare) record: keep what has to be kept.  An ERROR rolls the
 * transaction back.
 */
extern void sf_space_pre_commit(void);

/*
 * Note that a segment's storage is dropped, if this (sub)transaction commits.  The segment
 * relation is locked exclusively.
 */
extern void sf_space_drop_storage(SfStorage storage);

/*
 * Would storage that this transaction has dropped or replaced be there again after a
 * ROLLBACK?  What is done to the new one is not done to it then.
 */
extern bool sf_space_has_dropped(void);

/*
 * Was storage that this process has made lost by a rollback, or its transaction prepared,
 * since this was last asked with the same number?  It begins as 0.  A move to another
 * tablespace keeps the incarnation.  So what was published in the copy, and is kept by
 * incarnation and number, must be forgotten then: the old storage has not got it, and may
 * give the number to something else.
 */
extern bool sf_space_undone_since(uint64 *as_of);

/*
 * The column that a segment belongs to, as the catalog describes it now.  The
 * answer is kept in the segment until the catalog changes, so that asking for
 * every read and every write costs nothing.
 */
extern const SfColumn *sf_space_column(SfSegment *seg);

/*
 * May this transaction still write to a segment it once opened?  If so the segment
 * is locked again (RowExclusiveLock, until the end of the transaction).
 *
 * False when the storage was dropped or replaced: by a rollback to a savepoint, by
 * this transaction, or, after a rollback to a savepoint gave up the locks, by another
 * one.  False, too, when another transaction keeps writers out, as securefile_check()
 * does: it could only do so because this one has given up its lock.  In each of these
 * cases nothing that was written there is wanted any more.
 *
 * Never waits.  Throws only when there is no memory for the lock.
 */
extern bool sf_space_is_usable(SfSegment *seg);

/* Did a rollback to a savepoint of this transaction remove that storage? */
extern bool sf_space_is_removed(SfStorage storage);

/* Give back the AccessShareLock that sf_space_open() took for a reader.  Never throws. */
extern void sf_space_release(SfSegment *seg);

/*
 * Keep an open segment locked beyond that, whatever becomes of the subtransaction: until the
 * end of the transaction, or, with AccessShareLock, until let_go of what hold returned.
 * InvalidOid: it needs no lock.  let_go never throws.
 */
extern Oid	sf_space_hold(SfSegment *seg, LOCKMODE lockmode);
extern void sf_space_let_go(Oid segment_relid);

/*
 * The header page of a segment, as it is now, or as it was when the storage was dropped.
 * Others may grow the segment right after, or cut a tail in which nothing is used.
 * DATA_CORRUPTED.
 */
extern SfHeader sf_space_read_header(SfSegment *seg);

/* Reserve n object ids (1 to 64), never given out before; returns the first. */
extern uint64 sf_space_reserve_ids(SfSegment *seg, uint32 n);

/*
 * What this process reserves from now on is not below least, which was the next object id at
 * some time.  So its new values can be told from those that were stored before that.
 */
static inline void
sf_space_ids_from(SfSegment *seg, uint64 least)
{
	if (seg->next_id < least)
		seg->next_id = seg->end_id;
}

/* ---- inode pages ---- */

/*
 * Allocate n dynamic pages (n <= 16), fill them with the contents given
 * (SF_PAGE_CONTENT bytes each or less) and note them as SF_PEND_ALLOC_PAGE of
 * this transaction, all in one record.  page numbers are told through pages,
 * before the contents are asked for by fill(i, pages, content, arg), which
 * returns the number of bytes used.
 */
typedef uint32 (*SfPageFill) (int i, const uint32 *pages, uint64 first_stamp, char *content,
							  void *arg);
extern void sf_space_new_inode_pages(SfSegment *seg, int n, SfPageFill fill, void *arg,
									 uint32 *pages, uint64 *first_stamp);

/* ---- maintenance ---- */

typedef struct SfMaintain
{
	uint64		entries_seen;
	uint64		entries_resolved;
	uint64		sectors_freed;
	uint64		pages_freed;
	uint64		sectors_grown;
	uint64		sectors_cut;
	bool		fading;			/* a tail that is kept for recent demand may
								 * go later */
	FullTransactionId oldest_unresolved;	/* invalid: none */
} SfMaintain;

/*
 * Resolve pending entries whose transaction has ended.  wait: queue for the
 * resolver's lock; otherwise return false at once when another resolves.  What was done is
 * added to *stats.  No page is locked before.  DATA_CORRUPTED at a damaged page: what was
 * resolved until then stays so.
 */
extern bool sf_space_resolve(SfSegment *seg, bool wait, SfMaintain *stats);

/*
 * Open a segment relation with ShareUpdateExclusiveLock, and resolve what can be.  Waits for the
 * monitor and VACUUM, which take that lock, too; writers and readers go on.  NULL when there is no
 * such relation, or not any more.
 */
extern Relation sf_space_open_resolved(Oid segment_relid, SfMaintain *stats);

/*
 * Give back what is parked, refill the dispenser, grow ahead of need, cut a free tail, and
 * fill up data files that end before the segment does.  wait: for securefile_maintain(),
 * all that can be cut is; else for the monitor.  DISK_FULL, DATA_CORRUPTED.
 */
extern void sf_space_maintain(SfSegment *seg, bool wait, SfMaintain *stats);

/* Space accounting; all in bytes but two.  live + pending + free = file. */
typedef struct SfUsage
{
	uint64		shared_objects; /* number of share records that rows may have */
	uint64		references;		/* number of references to them */
	uint64		saved_bytes;	/* what these would take more, each by itself */
	uint64		file_bytes;
	uint64		live_bytes;
	uint64		pending_bytes;
	uint64		retained_bytes; /* of the pending ones, kept by a retention */
	uint64		free_bytes;
	uint64		reserved_bytes; /* of the free ones, lent to processes: 0
								 * unless sfi_full_refuse() has asked */
	uint64		metadata_bytes;
} SfUsage;

/* The sum is right, its parts are of slightly different moments.  DATA_CORRUPTED. */
extern SfUsage sf_space_usage(SfSegment *seg);

/*
 * Behind the last sector that pending entries of transactions name which have an id below that one
 * and have not ended, prepared ones among them; 0: there is none.  *kept_end: the same of what a
 * retention keeps.  DATA_CORRUPTED.
 */
extern uint64 sf_space_held_end(SfSegment *seg, uint64 before, uint64 *kept_end);

/*
 * Are all sectors of a run marked used?  (stale locator against corruption)  None
 * is beyond the end of the segment, when that is as it should be.  or_lent: or lent to a
 * process?  Else another value may come to lie there.
 */
extern bool sf_space_is_used(SfSegment *seg, SfRun run, bool or_lent);

/*
 * Does a pending entry free sectors of a run, or (is_page) a page, as soon as nobody can need
 * it?  Reads the whole queue, but not what a retention keeps.  DATA_CORRUPTED.  Not for a retained
 * segment.
 */
extern bool sf_space_is_waiting(SfSegment *seg, uint64 start, uint32 count, bool is_page);

/*
 * Copy the contents of a dynamic page (SF_PAGE_CONTENT bytes) and return its
 * type, or 0 when there is no such page.  DATA_CORRUPTED when it is damaged.
 */
extern SfPageType sf_space_read_page(SfSegment *seg, uint32 page, char *content);

/* Is there nothing on a page, or no such page?  Not for a retained segment. */
extern bool sf_space_page_is_new(SfSegment *seg, uint32 page);

/*
 * Remove segment directories of this database that no transaction owns; returns
 * how many.  kept: how many stay for logical decoding.
 */
extern int	sf_space_sweep(int *kept);

/*
 * ---- transaction ends; called by the one callback in securefile.c ----
 *
 * None throws: after the commit record nothing can be taken back.  Files that cannot be
 * removed are a WARNING, and left to the sweeper.  level: of the subtransaction that ends.
 */


/* How: SF_END_RUNNING is PREPARE.  True when there is work for the sweeper. */
extern bool sf_space_at_end(SfTransactionEnd how);
extern void sf_space_at_subend(int level, bool commit);

/* ---- WAL ---- */

#define SF_RMGR_ID		170		/* see doc/architecture.md */

/*
 * What this room needs of rooms above, which it does not call.
 *
 * describe: what a column is.
 * owned_of_share: what the object of a share record owns.  Throws when its map is damaged.
 * keys_changed: redo of a record may have changed key pages.
 */
struct SfOwned;
struct SfShareRecord;

typedef struct SfSpaceAbove
{
	SfColumn	(*describe) (Oid table_oid, AttrNumber attnum);
	struct SfOwned (*owned_of_share) (SfSegment *seg, const struct SfShareRecord *record);
	void		(*keys_changed) (void);
} SfSpaceAbove;

/* Register the resource manager, with that; from _PG_init while preloading. */
extern void sf_space_install(const SfSpaceAbove *above);

/* WAL of a whole database's removal (DROP DATABASE), flushed; before the files go. */
extern void sf_space_log_drop_database(Oid db);

#endif							/* SF_SPACE_H */
