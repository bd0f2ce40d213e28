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
 * Make a segment relation's storage, with its main fork, from pages beside the data files,
 * which stay.  begin, before the relation is made: ERROR UNDEFINED_FILE when data files are
 * missing, DUPLICATE_OBJECT when the file number is taken, also as the OID of a relation.
 */
extern void sf_space_adopt_begin(SfStorage storage);
extern void sf_space_adopt_storage(SfStorage storage);

/* When this transaction has committed, all of this database is adopted. */
extern void sf_space_upgrade_finished(void);

/*
 * ERROR: the column waits for securefile_upgrade_finish().  known: its triggers say so; else it
 * has no segment, and nothing is done if that has another reason.
 */
extern void sf_space_refuse_unfinished(Oid table_oid, AttrNumber attnum, bool known);

#endif							/* SF_UPGRADE_H */
