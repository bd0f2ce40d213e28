/*-------------------------------------------------------------------------
 *
 * space.h
 *	  Which blocks: segments, the space map (committed free space), pending
 *	  pages (uncommitted free space), lending, growth, reclaim.
 *
 * Audience: object/, write/, read/, and above.  Insides: space_internal.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SPACE_H
#define SF_SPACE_H

#include "access/xlogreader.h"
#include "base/base.h"
#include "base/shared.h"
#include "config/config.h"
#include "format/key.h"
#include "format/share.h"
#include "io/io.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "storage/lock.h"
#include "transform/transform.h"

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
} SfSegment;

/*
 * Name of the segment relation of a column, in pg_toast:
 * pg_securefile_<table oid>_<attnum>.  buf holds NAMEDATALEN bytes.
 */
extern void sf_space_segment_name(char *buf, Oid table_oid, AttrNumber attnum);

/*
 * OIDs of the segment relations of this database; none where the extension is not installed.
 * The list is made in the given context.  In a transaction; takes no lock that it keeps.
 */
extern List *sf_space_list_segments(MemoryContext context);

/*
 * The same, and those of transactions that have not ended, which are listed in makers as
 * integers.
 */
extern List *sf_space_list_unfinished_segments(List **makers);

/* OID of the segment relation of a column, or InvalidOid.  Takes no lock. */
extern Oid	sf_space_segment_relid(Oid table_oid, AttrNumber attnum);

/*
 * Open the segment of a column with AccessShareLock (readers) or
 * RowExclusiveLock (writers), kept until transaction end.  NULL when there is
 * none and missing_ok; ERROR UNDEFINED_OBJECT otherwise.
 */
extern SfSegment *sf_space_open(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode,
								bool missing_ok);

/* The same for the column that a value was read from: ERROR when it is gone. */
extern SfSegment *sf_space_open_of_value(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode);

/*
 * The segment a locator was made in: that of the column, or, while
 * securefile_rewrite() swaps segments, the old one, named .._old.  ERROR
 * UNDEFINED_OBJECT when the incarnation is gone (TRUNCATE, DROP).
 */
extern SfSegment *sf_space_open_incarnation(Oid table_oid, AttrNumber attnum,
											uint64 incarnation);

/* That ERROR. */
SF_NORETURN extern void sf_space_report_replaced(void);

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
extern void sf_space_create_storage(Relation segrel, SfStorage storage, Oid table_oid,
									AttrNumber attnum, bool logged_data,
									uint64 next_object_id);

/*
 * Copy the storage of a segment relation, which is locked exclusively, into new
 * storage, whose main fork is there and empty: pages, data files, WAL.  All of
 * it is durable when this returns.  The old storage goes when the transaction
 * commits, the new one when it does not.
 */
extern void sf_space_move_storage(Relation segrel, SfStorage to);

/* ---- space that is kept longer than a snapshot (keep.c) ---- */

/*
 * What the snapshots that are open in this session show is not freed until the context is
 * reset or deleted, also when they are closed.  Nothing on a standby.
 */
extern void sf_space_keep_while(MemoryContext context);

/*
 * A procedure that may end transactions begins and ends; calls nest.  Within one,
 * sf_space_keep_for_call() keeps what the open snapshots show until it ends, or until
 * securefile.procedure_retention has passed.
 */
extern void sf_space_keep_call_begins(void);
extern void sf_space_keep_call_ends(void);
extern bool sf_space_keep_is_call(void);
extern void sf_space_keep_for_call(void);

/* A command that also reads deleted rows begins and ends; they nest.  Not on a standby. */
extern void sf_space_keep_command_begins(void);
extern void sf_space_keep_command_ends(void);

/* End of a transaction: what a procedure has kept for long enough is let go.  Never throws. */
extern void sf_space_keep_at_end(void);

#define SF_KEEP_CURSOR		1
#define SF_KEEP_PROCEDURE	2
#define SF_KEEP_COMMAND		4

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

/* Does storage that is dropped now stay for logical decoding?  Looks at all slots. */
extern bool sf_space_keeps_dropped(void);

/*
 * Is storage that is dropped now still wanted, by logical decoding or after a
 * rollback to a savepoint?  Then what the transaction has gathered for it is to
 * be written first: what is gathered for storage that is not there is let go.
 */
extern bool sf_space_dropped_is_wanted(void);

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
 * How this room learns what a column is: sf_ddl_describe(), handed down by the
 * module entry since rooms do not call upward.  forget: the catalog has changed,
 * and what was learned may be old; never throws.
 */
typedef SfColumn (*SfDescribeColumn) (Oid table_oid, AttrNumber attnum);
extern void sf_space_set_describe(SfDescribeColumn describe);
extern void sf_space_forget_columns(void);

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

/*
 * True if an unlogged object predates the last restore or promotion, so its data may be
 * missing here.  Asked when the data is not what it should be; false where data is
 * logged.  Reads the header page.
 */
extern bool sf_space_orphaned(SfSegment *seg, uint64 object_id);

/* Give back the AccessShareLock that sf_space_open() took for a reader.  Never throws. */
extern void sf_space_release(SfSegment *seg);

/*
 * Keep an open segment locked (AccessShareLock) beyond that, in whatever
 * subtransaction: until let_go of what hold returned, or the end of the
 * transaction.  InvalidOid: it needs no lock.  let_go never throws.
 */
extern Oid	sf_space_hold(SfSegment *seg);
extern void sf_space_let_go(Oid segment_relid);

/*
 * Lock a segment, which is open with RowExclusiveLock, to the end of the top transaction,
 * whatever becomes of the subtransaction.
 */
extern void sf_space_lock_to_end(SfSegment *seg);

/* Header page of a segment, copied under a share lock.  DATA_CORRUPTED. */
extern SfHeader sf_space_header(Relation segrel);

/* The header page of a segment, as it is now, or as it was when the storage was dropped. */
extern SfHeader sf_space_read_header(SfSegment *seg);

/*
 * Sectors that the segment has now.  Others may grow it right after, or cut a tail in which
 * nothing is used.
 */
extern uint64 sf_space_total_sectors(SfSegment *seg);

/* ---- lending: blocks for this backend's use, known in memory only ---- */

/* A contiguous lent region; never crosses a space-map page (16 MB). */
typedef struct SfRegion
{
	uint64		start_block;
	uint32		nblocks;
} SfRegion;

/* What a region is wanted for. */
typedef struct SfWant
{
	uint32		need_blocks;	/* at least so many; 1 to SF_MAP_BLOCKS */
	uint32		most_blocks;	/* no more than that, unless they are needed */
	uint64		ahead_sectors;	/* known to be written and flushed at once */
	uint32		step_blocks;	/* what nobody knows a use for: no more than a
								 * quarter of the segment */
} SfWant;

/*
 * Lend a region.  Grows the segment if free space does not serve; ahead_sectors tells how.
 * The WAL that freed the blocks is durable when this returns (rule 2).  ERROR DISK_FULL.
 */
extern SfRegion sf_space_lend(SfSegment *seg, const SfWant *want);

/*
 * Give lent blocks back; those in use stay in use, of course.  Nothing may be
 * in flight to them.  Inside a transaction; does nothing when the storage has
 * been replaced.
 */
extern void sf_space_take_back(SfSegment *seg, SfRegion region);

/*
 * Parked regions: what a backend keeps lent between transactions, known to all so that
 * it can be taken from an idle backend, or from one that is gone.
 *
 * park: leave a region idle; owned: this backend may claim it again (else it
 * is garbage, to be given back by the next process).  Never throws; returns
 * false when the table is full (the region stays lent until the next start).
 * claim: take back one parked region of this backend in that storage.
 * disown: at process exit, what this backend parked becomes garbage.
 */
extern bool sf_space_park(SfStorage storage, SfRegion region, uint32 next_block, bool owned);
extern bool sf_space_claim_parked(SfStorage storage, SfRegion *region, uint32 *next_block);
extern void sf_space_disown_parked(void);

/* ---- facts of a transaction ---- */

/*
 * Write pending entries of the current top-level transaction, and for
 * SF_PEND_ALLOC set the bits of the run in the same record (rule 1).  The xid
 * is assigned first (rule 3).  kinds: SF_PEND_ALLOC, SF_PEND_FREE,
 * SF_PEND_FREE_PAGE.  start/count as in SfPendEntry.
 */
extern void sf_space_log_entries(SfSegment *seg, SfPendKind kind,
								 const SfRun *runs, int nruns);

/*
 * The same in one record, of as many of the first ones as it takes: how many is
 * returned.  fxid: the top-level one, or that of a subtransaction, not above
 * the current one.  An ERROR means that nothing was written.
 */
extern int	sf_space_log_some(SfSegment *seg, SfPendKind kind, uint64 fxid,
							  const SfRun *runs, int nruns);

/*
 * Data records of a logging column: nsectors of bytes at data, which lie on disk already, or
 * are on their way with checkpoints held up.  Does nothing where wal_level is minimal.
 */
extern void sf_space_log_data(SfSegment *seg, uint64 start_sector,
							  const char *data, uint32 nsectors);

/* Reserve n object ids (1 to 64), never given out before; returns the first. */
extern uint64 sf_space_reserve_ids(SfSegment *seg, uint32 n);

/*
 * What this process reserves from now on is not below least, which was the next object id at
 * some time.  So its new values can be told from those that were stored before that.
 */
extern void sf_space_ids_from(SfSegment *seg, uint64 least);

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
 * Give back what is parked, refill the dispenser, grow ahead of need, cut a free tail, and
 * fill up data files that end before the segment does.  wait: for securefile_maintain(),
 * all that can be cut is; else for the monitor.  DISK_FULL, DATA_CORRUPTED.
 */
extern void sf_space_maintain(SfSegment *seg, bool wait, SfMaintain *stats);

/*
 * Steps of a repair.  The segment relation is locked (ShareRowExclusiveLock),
 * and all that follows holds for it: nobody writes, frees, grows or cuts.
 *
 * extend: give the relation that many pages, if it has less.
 * map: a new map page in place of one that cannot be read; all of it that lies in the
 * segment is used.
 * collect: backends give back what they keep lent between transactions; data files
 * that end before the segment does are filled up where nothing is in use.
 * bits: mark used (a bit a sector of that map page), and count again.  ERROR
 * OBJECT_IN_USE when a transaction may be writing there.
 * dictionary: have a sound one, by its first page, lead to that one before it, or to
 * SF_NO_PAGE.
 * keys: make both key pages say that, and the header name them; pages 0 are new ones.
 * share: make a page a share page with that on it.
 * free_page: put a page that is in no list into that of free pages.
 * header: raise what is given out next, and the end; lower_next_page: that one is wrong, and
 * becomes next_page, behind which there are no pages; lower_end: the same of total_sectors,
 * behind which there are no files; forget_lists: no pending pages, no free
 * pages any more.
 */
typedef struct SfHeaderRepair
{
	uint64		next_object_id;
	uint64		next_stamp;
	uint64		total_sectors;
	uint32		next_page;
	bool		lower_next_page;
	bool		lower_end;
	bool		forget_lists;
	bool		change_dictionary;	/* dictionary becomes the newest one .. */
	uint32		dictionary;		/* .. its first page, or 0 */
	uint32		last_dictionary;	/* numbers have been given out up to it */
	bool		change_share_head;
	uint32		share_head;		/* first share page, or 0 */
} SfHeaderRepair;

extern void sf_space_repair_extend(SfSegment *seg, uint32 npages);
extern void sf_space_repair_dictionary(SfSegment *seg, uint32 first_page, uint32 before);
extern void sf_space_repair_keys(SfSegment *seg, const uint32 pages[2], const SfKeyPage *keys);
extern void sf_space_repair_map(SfSegment *seg, uint32 map);
extern void sf_space_repair_collect(SfSegment *seg);
extern void sf_space_repair_bits(SfSegment *seg, uint32 map, const uint8 *used);
extern void sf_space_repair_header(SfSegment *seg, SfHeaderRepair repair);
extern void sf_space_repair_share(SfSegment *seg, uint32 page, const SfSharePage *content);
extern void sf_space_repair_free_page(SfSegment *seg, uint32 page);

/* Space accounting; all in bytes but two.  live + pending + free = file. */
typedef struct SfUsage
{
	uint64		shared_objects; /* number of share records that rows may have */
	uint64		references;		/* number of references to them */
	uint64		saved_bytes;	/* what these would take more, each by itself */
	uint64		file_bytes;
	uint64		live_bytes;
	uint64		pending_bytes;
	uint64		free_bytes;
	uint64		metadata_bytes;
} SfUsage;

/* The sum is right, its parts are of slightly different moments.  DATA_CORRUPTED. */
extern SfUsage sf_space_usage(SfSegment *seg);

/*
 * Are all sectors of a run marked used?  (stale locator against corruption)  None
 * is beyond the end of the segment, when that is as it should be.
 */
extern bool sf_space_is_used(SfSegment *seg, SfRun run);

/* Is each sector of a run used, or lent to a process?  Else another value may come to lie there. */
extern bool sf_space_is_held(SfSegment *seg, SfRun run);

/*
 * Does a pending entry free sectors of a run, or (is_page) a page, as soon as nobody can need
 * it?  Reads the whole queue.  DATA_CORRUPTED.  Not for a retained segment.
 */
extern bool sf_space_is_waiting(SfSegment *seg, uint64 start, uint32 count, bool is_page);

/*
 * Copy the contents of a dynamic page (SF_PAGE_CONTENT bytes) and return its
 * type, or 0 when there is no such page.  DATA_CORRUPTED when it is damaged.
 */
extern SfPageType sf_space_read_page(SfSegment *seg, uint32 page, char *content);

/* The root page of a map, as the locator of a value names it. */
typedef struct SfRoot
{
	uint64		object_id;
	uint64		stamp;
	uint32		page;
} SfRoot;

/*
 * ---- share records (share_records.c) ----
 *
 * Of a segment that is open with RowExclusiveLock, but for the first, which takes any lock.
 * DATA_CORRUPTED when a page is damaged.
 */

/* A copy of a share record. */
typedef union SfShareCopy
{
	SfShareRecord record;
	uint8		bytes[SF_SHARE_RECORD_MAX];
} SfShareCopy;

/* Read a record; false: there is none at that place. */
extern bool sf_space_share_read(SfSegment *seg, SfShareId id, SfShareCopy *copy);

/*
 * Read the record that an entry of the advice (below) leads to; id: of that.  False: the entry is
 * stale, since there is none, or one with another hash.
 */
extern bool sf_space_share_follow(SfSegment *seg, const SfAdvice *advice, SfShareId *id,
								  SfShareCopy *copy);

/*
 * Make a record, RESERVED and of this transaction; its cells are free again if that fails,
 * or does not publish it.
 */
extern SfShareId sf_space_share_put(SfSegment *seg, const SfShareCopy *copy);

/*
 * Count n references up, which an entry takes back if this transaction fails.  False, and
 * nothing changed: the record is not there any more, or nobody may refer to it.  Nothing
 * throws after the count was logged.
 */
extern bool sf_space_share_refer(SfSegment *seg, SfShareId id, uint64 object_id, uint32 n);

/* Pre-commit: n > 0 rows have what this transaction has made a record of. */
extern void sf_space_share_publish(SfSegment *seg, SfShareId id, uint64 object_id, uint32 n);

/* Have others find a record, which has hashes, by advice (below).  No page is locked. */
extern void sf_space_share_advise(SfSegment *seg, SfShareId id, const SfShareRecord *record);

/*
 * Make a record of what a row has: LIVE at once, with a reference for that row and one for
 * this transaction, which an entry takes back if it fails.  The map is that of a root.  False,
 * and nothing done: the mark of the root does not allow it.  Nothing throws after that was
 * logged.
 */
extern bool sf_space_share_root(SfSegment *seg, SfRoot root, const SfShareCopy *copy,
								SfShareId *id);

/*
 * ---- roots of maps (root.c) ----
 *
 * Of a segment that is open with RowExclusiveLock.  DATA_CORRUPTED when the page is damaged;
 * a page that is not that root (any more) has no mark.
 *
 * record: the record that owns the map; false, and page 0: none does.
 * own: pre-commit, a row has a new map.
 * take: a row gives up its map (gives_up), or a version that is to follow it is begun.
 * Returns true, and the record, if one owns the map: it is not the row's to give up.  Else no
 * record will own it from now on, unless this transaction fails; of one that is begun only
 * that is not certain, if another transaction has begun one, too.
 */
extern bool sf_space_root_record(SfSegment *seg, SfRoot root, SfShareId *id);
extern void sf_space_root_own(SfSegment *seg, SfRoot root);
extern bool sf_space_root_take(SfSegment *seg, SfRoot root, bool gives_up, SfShareId *id);

/*
 * How this room learns what the object of a record owns: runs and inode pages, palloc'd,
 * always in the same order.  Throws when the map is damaged.
 */
typedef struct SfOwned
{
	SfRun	   *runs;
	int			nruns;
	uint32	   *pages;			/* inode pages, or NULL */
	int			npages;
} SfOwned;
typedef SfOwned (*SfShareOwned) (SfSegment *seg, const SfShareRecord *record);
extern void sf_space_set_share_owned(SfShareOwned fn);

/* The sectors of its runs; and free what it points to. */
extern uint64 sf_space_owned_sectors(const SfOwned *owned);
extern void sf_space_free_owned(const SfOwned *owned);

/*
 * ---- advice on duplicates (advice.c) ----
 *
 * Of a segment that is open with RowExclusiveLock; find takes any lock, and may be called on a
 * standby.  Entries come and go at once, whatever becomes of the transaction.  No page is
 * locked by the caller.  A damaged page of the advice is no error but a WARNING, once in a
 * process.  What may be thrown: errors of the server when it reads a page or makes the
 * relation longer; DATA_CORRUPTED for a damaged header, or list of free pages.
 *
 * find: entries of a key and kind, SF_ADVICE_SAME_MAX at most, to found, the newest one first;
 * returns how many.  Each may lead nowhere, or to another content.
 * add: an entry, unless it is there.  Returns how many its bucket has then, or 0 where nothing was
 * added.  Another one may go for it: to dropped, page 0 where none did.
 * remove: an entry, by its value, if it is there.
 * forget: have no advice; for a repair, which sets the pages free (ShareRowExclusiveLock).
 */
extern int	sf_space_advice_find(SfSegment *seg, uint64 key, SfAdviceKind kind, SfAdvice *found);
extern int	sf_space_advice_add(SfSegment *seg, const SfAdvice *entry, SfAdvice *dropped);
extern void sf_space_advice_remove(SfSegment *seg, const SfAdvice *entry);
extern void sf_space_advice_forget(SfSegment *seg);

/*
 * ---- dictionaries (dictionary_pages.c) ----
 *
 * The segment is open and locked: AccessShareLock, to add RowExclusiveLock.  All of these
 * throw DATA_CORRUPTED when a page is damaged.
 */

/*
 * A dictionary of a segment, in the form that the codec needs; NULL when the segment
 * has none of that number.  The result is good until the next call of this function or
 * the next one.  OUT_OF_MEMORY.
 */
extern SfDictionary *sf_space_dictionary(SfSegment *seg, uint32 number);

/*
 * The same for a value that names its segment, which is opened if the process has not met
 * the dictionary yet.  ERROR UNDEFINED_OBJECT when that segment is gone.
 */
extern SfDictionary *sf_space_dictionary_of(const SfHome *home, uint32 number);

/*
 * The newest dictionary of a column, and the segment that has it, for a value that is to be
 * written; NULL: there is none.  Costs nothing while the catalog does not change.
 * Otherwise opens the segment, and locks it until the transaction ends.  A writer takes
 * RowExclusiveLock.
 */
extern SfDictionary *sf_space_trained(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode,
									  SfHome *home);

/*
 * Read all of the dictionary whose first page that is.  Its number, and the first page of
 * the dictionary before (or SF_NO_PAGE), are set as soon as its first page has been read.
 * visit is told each page before it is read.
 */
typedef void (*SfDictionaryVisit) (uint32 page, void *arg);
extern void sf_space_dictionary_at(SfSegment *seg, uint32 page, SfDictionaryVisit visit,
								   void *arg, uint32 *number, uint32 *before);

/*
 * Add a dictionary of what sf_transform_train() has made, and return its number, which is
 * written into the bytes.  It is there for all from now on, and whether this transaction
 * commits or not.  PROGRAM_LIMIT_EXCEEDED when there are SF_DICTIONARY_MAX already.
 */
extern uint32 sf_space_add_dictionary(SfSegment *seg, char *bytes, uint32 len);

/*
 * Give the newest dictionary of storage that is replaced to the new storage of its column.
 * fetch: before; NULL when there is none, or the column does not use dictionaries.  One that
 * cannot be read is left behind, with a WARNING: it must not be in the way of a TRUNCATE.
 * put: after; of NULL nothing is done.
 */
typedef struct SfCarried SfCarried;
extern SfCarried *sf_space_fetch_dictionary(SfSegment *seg);
extern void sf_space_put_dictionary(SfSegment *seg, SfCarried *carried);

/*
 * ---- key pages (key_pages.c) ----
 *
 * The wrapped keys of a segment, open and locked as for dictionaries.
 *
 * read: false when it has none.  Of two pages a damaged one is passed over, with a WARNING.
 * put: have both pages say keys, unless they say something else by now than what the caller
 * has seen (NULL: nothing): then false, and nothing is done.  It holds for all from then on,
 * and whether this transaction commits or not.  DATA_CORRUPTED when a page is damaged, or the
 * two differ.
 * page: one of the two, by its number; DATA_CORRUPTED when it is damaged, or no key page.
 */
extern bool sf_space_read_keys(SfSegment *seg, SfKeyPage *keys);
extern bool sf_space_put_keys(SfSegment *seg, const SfKeyPage *seen, const SfKeyPage *keys);
extern void sf_space_key_page(SfSegment *seg, uint32 page, SfKeyPage *keys);

/*
 * Have both key pages on disk, and all WAL before.  The segment is locked for writing, and
 * has key pages.  Errors of writing.
 */
extern void sf_space_sync_keys(SfSegment *seg);

/* How a transaction has ended. */
typedef enum SfTransactionEnd
{
	SF_END_RUNNING,				/* not yet, or it is that of the caller */
	SF_END_COMMITTED,
	SF_END_ABORTED,				/* or it was lost in a crash */
	SF_END_UNKNOWN,				/* the commit log goes not so far back */
} SfTransactionEnd;

/*
 * The same, of a full id, also of a subtransaction.  It may be one that a page on disk has.
 * Looks into the commit log: no page is locked.  May be called on a standby.
 */
extern SfTransactionEnd sf_space_transaction_end(uint64 fxid);

/* Is there nothing on a page, or no such page?  Not for a retained segment. */
extern bool sf_space_page_is_new(SfSegment *seg, uint32 page);

/*
 * Remove segment directories of this database that no transaction owns; returns
 * how many.  kept: how many stay for logical decoding.
 */
extern int	sf_space_sweep(int *kept);

/* ---- pg_upgrade (upgrade.c) ---- */

/*
 * In the postmaster, when pg_upgrade starts a server: put the pages of all
 * segment relations beside their data files.  FATAL when that fails.
 */
extern void sf_space_upgrade_prepare(void);

/* Storage with a directory in this database, and what its pages beside it say. */
typedef struct SfOrphanedStorage
{
	SfStorage	storage;
	bool		has_pages;
	SfHeader	header;			/* if it has pages */
} SfOrphanedStorage;

/* A list of these, palloc'd: all but what a transaction that has failed left behind. */
extern List *sf_space_upgrade_orphaned(void);

/*
 * Make a segment relation's storage from pages beside the data files, which
 * stay.  begin, before the main fork is made: ERROR UNDEFINED_FILE when data
 * files are missing, DUPLICATE_OBJECT when the file number is taken.
 */
extern void sf_space_adopt_begin(SfStorage storage);
extern void sf_space_adopt_storage(SfStorage storage);
SF_NORETURN extern void sf_space_report_number_taken(SfStorage storage);

/* When this transaction has committed, all of this database is adopted. */
extern void sf_space_upgrade_finished(void);

/*
 * ERROR: the column waits for securefile_upgrade_finish().  refuse_unfinished,
 * for a column without a segment: only if that is why.
 */
SF_NORETURN extern void sf_space_report_unfinished(Oid table_oid, AttrNumber attnum);
extern void sf_space_refuse_unfinished(Oid table_oid, AttrNumber attnum);

/* The same for a function that is for all columns of the database. */
extern void sf_space_refuse_unfinished_database(const char *function);

/* Does the column wait so?  Of a column that has values. */
extern bool sf_space_is_unfinished(Oid table_oid, AttrNumber attnum);

/*
 * ---- transaction ends; called by the one callback in securefile.c ----
 *
 * None throws: after the commit record nothing can be taken back.  Files that cannot be
 * removed are a WARNING, and left to the sweeper.  level: of the subtransaction that ends.
 */

extern bool sf_space_at_commit(void);	/* after the commit record; work for
										 * the sweeper? */
extern void sf_space_at_abort(void);
extern void sf_space_at_prepare(void);
extern void sf_space_at_subcommit(int level);
extern void sf_space_at_subabort(int level);

/* ---- WAL ---- */

#define SF_RMGR_ID		170		/* see doc/architecture.md */

/*
 * The resource manager's functions.  redo: DATA_CORRUPTED for a record that cannot be
 * right, which ends recovery.  desc: also of such a record; adds to buf.  identify: NULL for
 * an unknown opcode.  mask: blanks what is not logged on a copy of a page.  These three
 * never throw.  changes_keys: may the record, which is sound, have changed key pages?
 */
extern void sf_space_redo(XLogReaderState *record);
extern bool sf_space_changes_keys(XLogReaderState *record);
extern void sf_space_desc(StringInfo buf, XLogReaderState *record);
extern const char *sf_space_identify(uint8 info);
extern void sf_space_mask(char *pagedata, BlockNumber blkno);

/* WAL of a whole database's removal (DROP DATABASE), flushed; before the files go. */
extern void sf_space_log_drop_database(Oid db);

/* Shared memory of the room. */
extern const SfSharedArea sf_space_parked_area;
extern const SfSharedArea sf_space_dispenser_area;
extern const SfSharedArea sf_space_keep_area;

#endif							/* SF_SPACE_H */
