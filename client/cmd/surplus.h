/*-------------------------------------------------------------------------
 *
 * surplus.h
 *	  Files that one side has and the other has not, and deleting them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SURPLUS_H
#define SECUREFILE_SURPLUS_H

#include "local.h"
#include "session.h"

/* ---- surplus_rows.c ---- */

/*
 * Find the stored files that no file of a tree belongs to.  Two names that differ can be equal in
 * the eyes of the table, so the server is asked about the names that are not stored in the same
 * spelling.
 */
extern bool surplus_rows(Session *session, const Options *options, const FoundList *stored,
						 const FoundList *tree, FoundList *surplus, Failure *failure);

/*
 * Delete the rows of these files in one transaction, all or none, and tell the user; but not
 * those of files that have come to the tree meanwhile.
 */
extern bool surplus_delete_rows(Session *session, const Options *options, int top,
								const FoundList *surplus, Failure *failure);

/* ---- surplus_files.c ---- */

/*
 * Delete these files of a tree, and the directories that become empty by that, and tell the user.
 * No link is followed.
 */
extern void surplus_delete_files(const Options *options, int top, const FoundList *surplus);

#endif							/* SECUREFILE_SURPLUS_H */
