/*-------------------------------------------------------------------------
 *
 * upgrade.h
 *	  Databases that pg_upgrade has moved: their storage (upgrade.c), and what they refuse until
 *	  securefile_upgrade_finish() has committed (unfinished.c).
 *
 * Audience: ddl/, and all that open a column by its name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_UPGRADE_H
#define SF_UPGRADE_H

#include "nodes/pg_list.h"
#include "space/space.h"

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

#endif							/* SF_UPGRADE_H */
