/*-------------------------------------------------------------------------
 *
 * check_internal.h
 *	  Declarations that the files of the check room share.
 *
 * column.c		check.h: whose column, which leaves, may the caller
 * check.c		securefile_check(): one column after the other
 * rows.c		the live rows: values verified, their space collected
 * walk.c		the walk over the segment relation, and its reading of pages
 * keys.c			the two key pages
 * dictionaries.c	the dictionaries, and the list that the header leads to
 * advice.c		the pages of the advice on duplicates
 * references.c	live rows that refer to share records
 * lost.c			the rows whose records are not there, or not like this
 * shares.c		the share records, against these rows and pending entries
 * recount.c		share pages made anew, from the same
 * pages.c		the pages of the segment relation, against the values' space
 * maps.c		the same for the space map; runs of bits
 * header.c		the header page, which may be a stale one
 * report.c		the table of findings, and errors turned into findings
 * key_list.c	securefile_keys()
 * rotate.c		securefile_rewrap(), securefile_new_key()
 * shred.c		securefile_shred()
 * repair.c		securefile_repair(): check, and mend what the rows can tell
 *
 * The room is called from SQL only; check.h is what it shares with sql/.  Unless a
 * declaration says otherwise, its function may throw, needs a transaction, is
 * not for critical sections or replay, and returns memory of the current context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CHECK_INTERNAL_H
#define SF_CHECK_INTERNAL_H

#include "base/base.h"
#include "check/check.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "object/object.h"
#include "rows/rows.h"
#include "space/space.h"
#include "storage/itemptr.h"
#include "utils/hsearch.h"

/* ---- the check of one column ---- */

/* What a check found; findings.h has the list. */
typedef enum SfFinding
{
#define SF_FINDING(kind, text, repair) SF_FINDING_##kind,
#include "check/findings.h"
#undef SF_FINDING
	SF_FINDING_COUNT
} SfFinding;

/* What a repair does about a finding; report.c has the texts. */
typedef enum SfRepair
{
	SF_REPAIR_NONE,				/* nothing: rows do not tell */
	SF_REPAIR_MARK,				/* marks sectors used */
	SF_REPAIR_FREE,				/* has space set free */
	SF_REPAIR_KEEP,				/* leaves space in use */
	SF_REPAIR_LISTS,			/* rebuilds both lists of pages */
	SF_REPAIR_PAGE,				/* rebuilds a page of the space map */
	SF_REPAIR_CORRECT,			/* corrects a number */
	SF_REPAIR_RECORD,			/* makes a share record anew */
	SF_REPAIR_UNREPORTED,		/* (the finding was reported before: be
								 * silent) */
} SfRepair;

typedef struct SfCheck
{
	const SfCheckColumn *column;
	MemoryContext context;		/* of all that lasts as long as the check */
	ReturnSetInfo *rsinfo;		/* findings go here */
	uint64		nfindings;
	uint64		nmendable;		/* of them, those about references of values
								 * that are sound themselves */
	SfFinding	newest;			/* the last one */
	bool		later;			/* something was written by a later version of
								 * the library */
	bool		moving;			/* a standby: replay goes on meanwhile */
	LOCKMODE	lockmode;		/* of the segment relation */

	Relation	rel;
	Relation	segrel;
	SfSegment  *seg;			/* NULL: there is no segment to go by */
	SfHeader	header;

	ItemPointerData tid;		/* row being looked at */
	SfRowRuns	owned;			/* sectors that live rows own */
	SfRowRuns	owned_pages;	/* inode pages that they own */
	struct SfCheckShares *shares;	/* NULL: no row or entry names a record */
	uint64		max_object_id;	/* of live rows, references and share records */
	bool		hidden;			/* live rows own space that could not be
								 * located */
	uint64		total_sectors;	/* end of the segment; not that of a stale
								 * header, or of one that cannot be */
	int64		not_encrypted;	/* values in a column that encrypts */
	int64		not_decrypted;	/* encrypted values that cannot be here */
} SfCheck;

/* Facts about a page of the segment relation, as bits of SfPageWalk.known. */
#define SF_KNOWN_QUEUED		0x01	/* in the queue of pending pages */
#define SF_KNOWN_FREE		0x02	/* in the list of free pages */
#define SF_KNOWN_OWNED		0x04	/* inode page of a live row */
#define SF_KNOWN_NAMED		0x08	/* named by a pending entry */
#define SF_KNOWN_DOOMED		0x10	/* named by an entry that will set it free */
#define SF_KNOWN_TAKEN		0x20	/* named by a committed transaction that
									 * took it */
#define SF_KNOWN_ADVICE		0x40	/* of the advice on duplicates */
#define SF_KNOWN_SHARE		0x80	/* a share page, or it should be one */

/* The walk over the pages of a segment relation, and what it has seen. */
typedef struct SfPageWalk
{
	SfCheck    *check;
	bool		all_sound;		/* every live value was read without a
								 * finding, so space that no value owns can be
								 * freed safely */
	uint32		npages;			/* of the relation */
	uint32		nblocks;		/* that it should have; >= npages */
	bool		header_ahead;	/* the header names a next page that cannot
								 * be: nblocks does not go by it */
	bool		end_ahead;		/* the same of the end of the segment:
								 * check->total_sectors does not go by it */
	uint8	   *known;			/* SF_KNOWN_ bits of each of nblocks pages */
	SfRowRuns	named;			/* sectors that pending entries answer for */
	SfRowRuns	doomed;			/* of these, those that will be set free */
	bool		lists_damaged;	/* pending and free pages need new lists */
	SfRowRuns	damaged_maps;	/* numbers of map pages */
	SfRowRuns	distrusted_maps;	/* that may show the place of a damaged
									 * value as free; ascending */
	bool		header_behind;	/* the stale header page would give out again
								 * what is in use */
	bool		running;		/* a transaction with entries has not ended */
	uint32		end_page;		/* behind the last one that is in use */
	uint64		max_stamp;		/* of inode pages */
	uint32		key_pages[2];	/* by the header, or else found; 0: none */
	bool		keys_sound[2];
	SfKeyPage	keys[2];		/* of those that are */
	uint32		dictionaries[SF_DICTIONARY_MAX + 1];	/* by number: the first
														 * page of a sound one,
														 * or 0; and what its
														 * list has behind it */
	uint32		dictionaries_before[SF_DICTIONARY_MAX + 1];
	bool		dictionary_damaged; /* one of the list is not sound */
	bool		dictionary_lost;	/* one is sound, and not in the list */
	SfRowRuns	strays;			/* pages of dictionaries that are not in the
								 * list */
	bool		advice_damaged; /* a page of the advice is not sound */
	uint32		advice_strays;	/* pages that it does not lead to, */
	uint32		advice_stray;	/* and the first of them */
	uint64		lost_start;		/* sectors that nobody owns, */
	uint64		lost_count;		/* not yet reported */
} SfPageWalk;

/* A page of a segment relation, copied. */
typedef struct SfCheckPage
{
	uint32		page;
	SfPageType	type;			/* 0: of no type of securefile, or unreadable */
	bool		is_new;			/* it is empty, or the relation ends before it */
	union
	{
		char		content[SF_PAGE_CONTENT];
		SfInode		inode;
		SfPending	pending;
		SfFreePage	free;
		SfDictionaryPage dictionary;
		SfAdviceList list;
		SfAdviceBucket bucket;
		SfSharePage share;
		SfMap		map;
		uint64		force_align;
	}			u;
} SfCheckPage;

/* ---- references.c ---- */

/* What is known of a share record besides what it says itself; 16 bytes a record. */
typedef struct SfCheckShare
{
	uint32		rows;			/* live rows that refer to it */
	uint32		waiting;		/* references that pending entries will take
								 * away; REAP: what has been given back */
	ItemPointerData tid;		/* of the first of the rows */
	uint8		facts;			/* SF_FACT_ bits */
	uint8		finding;		/* SfFinding of the value, if DAMAGED */
} SfCheckShare;

#define SF_FACT_MADE		0x01	/* a SHARE_NEW entry names it */
#define SF_FACT_DYING		0x02	/* a REAP entry does */
#define SF_FACT_DAMAGED		0x04	/* its value has a finding */
#define SF_FACT_OWNED		0x08	/* a row has brought the space of its
									 * object */

/* A record that rows refer to, and that is not there, or not like this. */
typedef struct SfCheckLost
{
	SfShareId	id;				/* key */
	SfCheckShare share;
	SfShareRecord *record;		/* what the first row says of it; NULL: only
								 * changed versions name it */
	bool		has_place;		/* it can be made again (when all rows are
								 * known) */
} SfCheckLost;

/* A row that refers to it: reported when all rows are known. */
typedef struct SfCheckLostRow
{
	const SfCheckLost *lost;
	ItemPointerData tid;
	bool		is_other_map;	/* there is a record of that object */
} SfCheckLostRow;

/* What heals a row that no repair can: the end of a detail. */
#define SF_STORE_AGAIN	"store the value of the row again, or delete the row, then repair once more"

/* A pending entry about a share record. */
typedef struct SfCheckShareEntry
{
	SfPendEntry entry;
	uint32		page;			/* it stands there */
} SfCheckShareEntry;

/*
 * Share records, by their place.  All of it lives in the context of the check, since it is
 * added to while one row, or one page, is looked at.
 */
typedef struct SfCheckShares
{
	MemoryContext context;
	HTAB	   *pages;			/* what is known, by page */
	HTAB	   *lost;			/* SfCheckLost */
	SfCheckLostRow *lost_rows;
	int64		nlost_rows;
	int64		lost_rows_size;
	uint32		limit;			/* pages that there are or should be */
	SfCheckShareEntry *entries;
	int64		nentries;
	int64		entries_size;
	bool		relink;			/* the list of share pages has to be made anew */
	bool		has_based;		/* rows have changed versions */
	SfCheckPage read;			/* the share page that was looked at last */
} SfCheckShares;

/* That of a check, made when it is first asked for. */
extern SfCheckShares *sfi_check_shares_of(SfCheck *check);

/*
 * A live row has what a record has: note it with the record that it refers to, and report
 * what is wrong with the reference.  NULL: it is not to be counted, and its space is taken
 * for its own.
 */
extern SfCheckShare *sfi_check_reference(SfCheck *check, const SfLocator *loc, SfShareId id);

/*
 * The same for a changed version of what a record has; shared: the record's object.  False:
 * there is no such record, and all that the row has is taken for its own.  DATA_CORRUPTED
 * when the record is damaged.
 */
extern bool sfi_check_based(SfCheck *check, const SfLocator *loc, SfShareVersion *shared);

/* Report the finding of a value, which another row has had, for this row, too. */
extern void sfi_check_report_again(SfCheck *check, const SfCheckShare *share);

/*
 * The record that an id names, as its page has it, good until the next call; NULL: there
 * is none of that object.
 */
extern const SfShareRecord *sfi_check_record(SfCheck *check, SfShareId id);

/* The share page of that number, good as long; NULL: it is none, or cannot be read. */
extern const SfSharePage *sfi_check_share_page(SfCheck *check, uint32 page);

/* What is known of the record of an id; NULL: nothing.  note: made if there is nothing yet. */
extern SfCheckShare *sfi_check_known(SfCheck *check, SfShareId id);
extern SfCheckShare *sfi_check_note(SfCheck *check, SfShareId id);

/* The lost record of an id, or NULL; all of them, a palloc'd array in order of their places. */
extern SfCheckLost *sfi_check_lost(const SfCheck *check, SfShareId id);
extern SfCheckLost **sfi_check_all_lost(const SfCheck *check, int64 *n);

/* By page, then by cell. */
extern int	sfi_check_compare_ids(SfShareId a, SfShareId b);

/* ---- lost.c ---- */

/*
 * All rows are known: find out which lost records a repair can make again, and report the
 * rows that refer to lost ones.
 */
extern void sfi_check_report_lost(SfCheck *check);

/* ---- check.c ---- */

/*
 * Check the columns that a call is about, and report findings as its result.
 * Locks tables and segment relations in lockmode, until the end of the call:
 * a mode that keeps writers out, or, in recovery, AccessShareLock.  Calls then,
 * unless it is NULL, for each column that has a segment to go by, and keeps all locks until
 * the transaction ends.
 */
typedef void (*SfCheckThen) (SfPageWalk *walk);
extern void sfi_check_columns_of_call(FunctionCallInfo fcinfo, LOCKMODE lockmode, SfCheckThen then);

/* ---- rows.c ---- */

/*
 * Verify the values of all live rows of check->rel, and collect the sectors and
 * pages that they own, unsorted.  Damage becomes findings.
 */
extern void sfi_check_rows(SfCheck *check);

/*
 * Sort what sfi_check_rows() has collected; report space that two values claim,
 * or that lies behind the end of the data files.
 */
extern void sfi_check_overlaps(SfCheck *check);

/* ---- walk.c ---- */

/*
 * Set a walk to its state before it has seen anything.  check->segrel is open
 * and locked, and check->header is that of the segment.
 */
extern void sfi_check_begin_walk(SfCheck *check, SfPageWalk *walk);

/*
 * Read a page.  When it cannot be read: false, and a finding with this action.
 * A page behind the end of the relation cannot be read either.
 */
extern bool sfi_check_read_any(SfPageWalk *walk, SfRepair action, uint32 page, SfCheckPage *read);

/* Same for a page that must be of a type; one of another type is a finding too. */
extern bool sfi_check_read(SfPageWalk *walk, SfRepair action, uint32 page, SfPageType type,
						   SfCheckPage *read);

/* What a repair does with space that nobody owns: FREE or KEEP.  Never throws. */
extern SfRepair sfi_check_unowned(const SfPageWalk *walk);

/* Report a finding that new lists of pending and free pages will cure. */
extern void sfi_check_report_list(SfPageWalk *walk, const char *detail, ...)
			pg_attribute_printf(2, 3);

/*
 * Report an entry that no resolver can ever act on, and which new lists leave out; page: it
 * stands there.
 */
extern void sfi_check_report_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry,
								   const char *problem);

/* ---- shares.c ---- */

/* Note a pending entry about a share record, which will change it. */
extern void sfi_check_share_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry);

/*
 * Compare the share records with rows and entries; note the space of those that no live row
 * has as owned.  All entries have been noted, and the rows' space is sorted, as it is again
 * afterwards.
 */
extern void sfi_check_shares(SfPageWalk *walk);

/* What a record has to be, and what is wrong with it as it is. */
typedef struct SfCheckFate
{
	uint16		state;			/* SfShareState; 0: its cells have to be free */
	uint32		references;
	bool		owns;			/* the space of its object is its own */
	bool		is_wrong;
	SfFinding	finding;		/* if so */
	SfRepair	action;
	const char *why;
} SfCheckFate;

/*
 * Judge a record by what is known of it (NULL: nothing).  forget: by its rows alone, since
 * the pending entries are forgotten.
 */
extern SfCheckFate sfi_check_judge(const SfPageWalk *walk, const SfShareRecord *record,
								   const SfCheckShare *share, bool forget);

/* ---- recount.c ---- */

/* Make share pages and their list anew, as far as they are not what they have to be. */
extern void sfi_check_repair_shares(SfPageWalk *walk);

/*
 * The pending entries are forgotten, and all values are sound: what records own that no live
 * row refers to is nobody's.
 */
extern void sfi_check_disown_records(SfPageWalk *walk);

/* ---- keys.c ---- */

/* Read both key pages, and mark them as owned. */
extern void sfi_check_keys(SfPageWalk *walk);

/* A key page that the walk over all pages has come to. */
extern void sfi_check_key_page(SfPageWalk *walk, uint32 page);

/* Make both pages say the same, if need be, and the header name them. */
extern void sfi_check_repair_keys(const SfPageWalk *walk);

/* ---- dictionaries.c ---- */

/* Read all dictionaries, and mark their pages as owned. */
extern void sfi_check_dictionaries(SfPageWalk *walk);

/* A dictionary page that the walk over all pages has come to. */
extern void sfi_check_dictionary_page(SfPageWalk *walk, const SfCheckPage *read);

/* After that walk: the dictionaries that the header does not lead to. */
extern void sfi_check_stray_dictionaries(SfPageWalk *walk);

/* Relink the dictionaries if need be; what a repair of the header is to do about them. */
extern void sfi_check_dictionary_repair(const SfPageWalk *walk, SfHeaderRepair *repair);

/* ---- advice.c ---- */

/* Read all of the advice, and mark its pages.  The other pages have been marked. */
extern void sfi_check_advice(SfPageWalk *walk);

/* A page of the advice that the walk over all pages has come to. */
extern void sfi_check_advice_page(SfPageWalk *walk, uint32 page);

/* After that walk: the pages that are in no list. */
extern void sfi_check_stray_advice(SfPageWalk *walk);

/* Forget the advice, if it is damaged. */
extern void sfi_check_forget_advice(const SfPageWalk *walk);

/*
 * See to it that there is advice on all share records, which are sound by now.  The last one
 * of the steps, since it takes pages, and the others set them free.
 */
extern void sfi_check_rebuild_advice(SfPageWalk *walk);

/* ---- pages.c ---- */

/*
 * Compare the pages of the segment relation with the space that rows own, which
 * is sorted.  The top of the walk: it calls maps.c and header.c, too.
 */
extern void sfi_check_pages(SfPageWalk *walk);

/* ---- maps.c ---- */

/*
 * Find the next run of bits of the given value in [*at, end): sets *at to its
 * start and *n to its length.  False, with *at at the end, when there is none.
 * Never throws.
 */
extern bool sfi_check_next_run(const uint8 *plane, bool bit, uint32 end, uint32 *at, uint32 *n);

/* Compare the space map with what rows own and pending entries name. */
extern void sfi_check_map(SfPageWalk *walk);

/* What is known of the sectors of a map page, a bit a sector. */
typedef struct SfCheckPlanes
{
	uint8		owned[SF_MAP_SECTORS / 8];
	uint8		named[SF_MAP_SECTORS / 8];
	uint8		doomed[SF_MAP_SECTORS / 8];
	int64		owned_from;		/* which of the owned runs lie there */
	int64		owned_end;
} SfCheckPlanes;

/*
 * Fill the planes of the map page whose first sector is given.  Calls go through
 * the pages in ascending order; rewind goes back to the first one.  Both never throw.
 */
extern void sfi_check_rewind_planes(SfPageWalk *walk);
extern void sfi_check_fill_planes(SfPageWalk *walk, uint64 first, SfCheckPlanes *planes);

/* ---- header.c ---- */

/* Find out where the segment ends, and set check->total_sectors. */
extern void sfi_check_find_end(SfPageWalk *walk);

/* Report what a stale header page would give out again.  Not on a standby. */
extern void sfi_check_header(SfPageWalk *walk);

/* ---- report.c ---- */

/* The finding with a text; ERROR when there is none. */
extern SfFinding sfi_check_finding_named(const char *text);

/*
 * Report sectors; tid NULL: no row; nsectors 0: no place in the data files.  The
 * action is the usual one of the finding, or, with _as, the given one.
 */
extern void sfi_check_report(SfCheck *check, SfFinding finding, ItemPointer tid, uint64 sector,
							 uint64 nsectors, const char *detail, ...)
			pg_attribute_printf(6, 7);
extern void sfi_check_report_as(SfCheck *check, SfRepair action, SfFinding finding,
								ItemPointer tid, uint64 sector, uint64 nsectors,
								const char *detail, ...)
			pg_attribute_printf(7, 8);

/* Report bytes, with the usual action; -1 and -1: no place; detail NULL: none. */
extern void sfi_check_report_bytes(SfCheck *check, SfFinding finding, ItemPointer tid,
								   int64 segment_offset, int64 len_bytes, const char *detail);

/* Report an error as a finding, of the current row, when there is one. */
extern void sfi_check_report_error(SfCheck *check, SfRepair action, const ErrorData *error);

/*
 * Run a step inside a subtransaction.  When it fails for what it found on disk,
 * the error becomes a finding with this action (of the current row, when there
 * is one), and false is returned.
 */
typedef void (*SfCheckStep) (SfCheck *check, void *arg);
extern bool sfi_check_guarded(SfCheck *check, SfRepair action, SfCheckStep step, void *arg);

/* ---- keys of values (key_list.c) ---- */

/* Values by the number of their key; 0: without one. */
typedef struct SfKeyCounts
{
	int64		values[SF_DATA_KEYS_MAX + 1];
} SfKeyCounts;

/*
 * Add the values of a column in all rows that a snapshot sees; those without a byte are not
 * counted.  The table is locked.  DATA_CORRUPTED for one that names an impossible key.
 */
extern void sfi_check_count_keys(const SfCheckColumn *column, Snapshot snapshot,
								 SfKeyCounts *counts);

/* ---- changes of keys (rotate.c) ---- */

/* ERROR where nothing can be written: without preload, on a standby, in a parallel worker. */
extern void sfi_check_require_writes(const char *function);

/*
 * ERROR in a transaction that has dropped storage: a ROLLBACK would bring back keys that
 * are not those which the caller believes to have changed.
 */
extern void sfi_check_refuse_dropped(const char *function);

/* Open a column's segment for writing; ERROR when there is none. */
extern SfSegment *sfi_check_open_to_write(const SfCheckColumn *column);

#endif							/* SF_CHECK_INTERNAL_H */
