/*-------------------------------------------------------------------------
 *
 * check_internal.h
 *	  Declarations that the files of the check room share: the check of one column, its rows,
 *	  and its findings.  walk.h adds the pages of the segment relation, and check_shares.h the share
 *	  records.
 *
 * column_access.c		check.h: whose column, which leaves, may the caller
 * check.c				securefile_check(): one column after the other
 * check_rows.c			the live rows: values verified, their space collected
 * walk.c				the walk over the segment relation, and its reading of pages
 * check_keys.c			the two key pages
 * dictionaries.c		the dictionaries, and the list that the header leads to
 * check_advice.c		the pages of the advice on duplicates
 * check_removed.c		the records of removed values
 * check_references.c	live rows that refer to share records
 * lost.c				the rows whose records are not there, or not like this
 * check_shares.c		the share records, against these rows and pending entries
 * recount.c			share pages made anew, from the same
 * check_pages.c		the pages of the segment relation, against the values' space
 * maps.c				the same for the space map; runs of bits
 * header.c				the header page, which may be a stale one
 * report.c				the table of findings, and errors turned into findings
 * repair.c				securefile_repair(): check, and mend what the rows can tell
 * shrink.c				check, and what is free goes back to the file system
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
	SF_REPAIR_RELINK,			/* rebuilds that of share pages */
	SF_REPAIR_PAGE,				/* rebuilds a page of the space map */
	SF_REPAIR_CORRECT,			/* corrects a number */
	SF_REPAIR_RECORD,			/* makes a share record anew */
	SF_REPAIR_UNREPORTED,		/* (the finding was reported before: be
								 * silent) */
	SF_REPAIR_USUAL,			/* (the one that findings.h has for it) */
} SfRepair;

typedef struct SfCheck
{
	const SfCheckColumn *column;
	MemoryContext context;		/* of all that lasts as long as the check */
	ReturnSetInfo *rsinfo;		/* findings go here; NULL: they are counted,
								 * and data of values are not read */
	uint64		nfindings;
	uint64		nmendable;		/* of them, those about references of values
								 * that are sound themselves, and about rows
								 * whose values were not restored */
	SfFinding	newest;			/* the last one */
	bool		lists_damaged;	/* pending and free pages need new lists: a
								 * finding with action LISTS says so */
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

/* ---- check_rows.c ---- */

/*
 * Verify the values of all live rows of check->rel, and collect the sectors and
 * pages that they own, unsorted.  Damage becomes findings.
 */
extern void sfi_check_rows(SfCheck *check);

/*
 * Sort the space that was collected; report what two values claim, or what lies behind the end
 * of the data files.  of_records false: what rows have; true: what share records without rows
 * have, alone or in common with others.
 */
extern void sfi_check_overlaps(SfCheck *check, bool of_records);

/* ---- report.c ---- */

/* The finding with a text; ERROR when there is none. */
extern SfFinding sfi_check_finding_named(const char *text);

/*
 * Report sectors; tid NULL: no row; nsectors 0: no place in the data files.  The
 * action is the usual one of the finding, or, with _as, the given one.
 */
extern void sfi_check_report_as(SfCheck *check, SfRepair action, SfFinding finding,
								ItemPointer tid, uint64 sector, uint64 nsectors,
								const char *detail, ...)
			pg_attribute_printf(7, 8);

#define sfi_check_report(check, finding, ...) \
	sfi_check_report_as(check, SF_REPAIR_USUAL, finding, __VA_ARGS__)

/* Report bytes; -1 and -1: no place; detail NULL: none. */
extern void sfi_check_report_bytes(SfCheck *check, SfRepair action, SfFinding finding,
								   ItemPointer tid, int64 segment_offset, int64 len_bytes,
								   const char *detail);

/* Report an error as a finding, of the current row, when there is one. */
extern void sfi_check_report_error(SfCheck *check, SfRepair action, const ErrorData *error);

/*
 * Run a step inside a subtransaction.  When it fails for what it found on disk,
 * the error becomes a finding with this action (of the current row, when there
 * is one), and false is returned.
 */
extern bool sfi_check_guarded(SfCheck *check, SfRepair action, SfBaseStep step, void *arg);

#endif							/* SF_CHECK_INTERNAL_H */
