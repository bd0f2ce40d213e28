/*-------------------------------------------------------------------------
 *
 * restore.h
 *	  What the parts of the verb restore share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_RESTORE_H
#define SECUREFILE_RESTORE_H

#include "dumpcolumn.h"
#include "flow.h"
#include "manifest.h"
#include "statement.h"

/* ---- restoretable.c ---- */

/* A column of a dump, and the column of a table that it is restored to. */
typedef struct RestoreTable
{
	int			number;			/* in the manifest */
	int			turn;			/* so many other columns of its table are
								 * restored before */
	const json_t *dumped;		/* that element of its header */
	DumpColumn	target;
	char	   *store_table;	/* where new values can be made */
	char	   *extension;		/* schema of its functions */
	int			nkeys;
	int		   *keys;			/* numbers of values of a row */
	char	  **key_types;
	char	   *key_is_listed;	/* condition: the key is w.k1, w.k2 .. */
	char	   *key_is_given;	/* and: it is $1, $2 .. */
	int			nvalues;		/* of an INSERT */
	int		   *values;			/* numbers of values of a row */
	char	   *insert;			/* an INSERT up to the file, a parameter */
} RestoreTable;

/* Find the column, and make the statements; the options say which table. */
extern bool restoretable_find(Session *session, const Options *options, const json_t *dumped,
							  int number, RestoreTable *table, Failure *failure);

/* ---- restorerows.c ---- */

typedef struct Restore
{
	const Options *options;
	DumpDir    *dir;
	RestoreTable *tables;
	int			ntables;
	int			turn;			/* the columns of this turn are restored now */
	int			most;			/* rows of a batch */
} Restore;

/* Rows of one table. */
typedef struct Batch
{
	FlowItem	item;
	const RestoreTable *table;
	int			count;
	int64_t		length;			/* of all files */
	ManifestRow rows[];
} Batch;

/* The key of a row as text, for patterns and messages; the caller frees it. */
extern char *restore_name(const RestoreTable *table, const ManifestRow *row);

/* A FlowWork: restore the rows of a batch; and a FlowFree. */
extern bool restore_batch(Session *session, void *arg, FlowItem *item);
extern void restore_free_batch(FlowItem *item);

/* ---- restorefile.c ---- */

/* How a row of the dump is stored. */
typedef struct RestoreStore
{
	const RestoreTable *table;
	const ManifestRow *row;
	bool		row_exists;
} RestoreStore;

/* Values of a row as parameters, and room for one more; the caller frees them. */
extern char **restore_values(const ManifestRow *row, const int *numbers, int count,
							 Failure *failure);
extern void restore_free_values(char **values, int count);

/* Is the file so long that it is a stream, and a transaction of its own? */
extern bool restore_is_long(const RestoreStore *store);

/*
 * Read a short file into the buffer of the session, check it, and make the statement that stores
 * it.
 */
extern bool restore_whole(Session *session, DumpDir *dir, const RestoreStore *store,
						  WholeFile *whole, Failure *failure);

/* Store the row with its file, which is checked while it is read. */
extern bool restore_store(Session *session, DumpDir *dir, const RestoreStore *store,
						  Failure *failure);

#endif							/* SECUREFILE_RESTORE_H */
