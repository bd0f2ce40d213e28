/*-------------------------------------------------------------------------
 *
 * tree.h
 *	  A whole tree: into a table, and out of it.  For the verbs that do so, which find out
 *	  what is to be done, and print the summary.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TREE_H
#define SECUREFILE_TREE_H

#include "local.h"
#include "session.h"

/* ---- import.c ---- */

/*
 * Store the files of a list, whose paths are below the open directory top, each under the
 * prefix and its path.  The session becomes one of the connections.  False if no connection
 * was left for some of them, which the user has been told.
 */
extern bool tree_import(Session *session, const Options *options, int top,
						const FoundList *list);

/* ---- export.c ---- */

/* Stored files; their paths are their names, prefix and all. */
typedef struct StoredTree
{
	FoundList	list;
	char	   *snapshot;		/* of the list: a SET TRANSACTION SNAPSHOT;
								 * null: a distributed table */
} StoredTree;

/*
 * List the files whose name matches the pattern (NULL: all) and begins with the prefix.  This
 * begins a transaction, which has to stay open until they are read: it holds the snapshot.
 */
extern bool tree_list(Session *session, const Options *options, const char *pattern,
					  StoredTree *stored, Failure *failure);

/*
 * Open a directory that files are written to, and make it if it is not there.  A dry run makes
 * none, and *top becomes -1.
 */
extern bool tree_open_top(const Options *options, const char *path, int *top, Failure *failure);

/*
 * Write listed files below the directory top; -1: a dry run without one.  The session is the one
 * that listed them.  Returns as tree_import().
 */
extern bool tree_export(Session *session, const Options *options, int top, StoredTree *stored);

#endif							/* SECUREFILE_TREE_H */
