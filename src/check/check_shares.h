/*-------------------------------------------------------------------------
 *
 * check_shares.h
 *	  Share records in a check: what rows and pending entries say of them, what they have to
 *	  be, and how they are mended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CHECK_SHARES_H
#define SF_CHECK_SHARES_H

#include "check/walk.h"
#include "utils/hsearch.h"

/* ---- check_references.c ---- */

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

/* The references of a check, made when it is first asked for. */
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

/* ---- check_shares.c ---- */

/* Note a pending entry about a share record, which will change it. */
extern void sfi_check_share_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry);

/*
 * Compare the share records with rows and entries; note the space of those that no live row
 * has as owned.  All entries have been noted, and the rows' space is sorted, as it is again
 * afterwards.
 */
extern void sfi_check_shares(SfPageWalk *walk);

/* Read a page; false: it is no share page, or cannot be read, and nothing is reported. */
extern bool sfi_check_read_share_page(SfPageWalk *walk, uint32 page, SfCheckPage *read);

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

#endif							/* SF_CHECK_SHARES_H */
