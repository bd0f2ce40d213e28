/*-------------------------------------------------------------------------
 *
 * migrate.h
 *	  Files that rows name by a path or a URL, and that become values of the same rows.
 *
 *		migrate.c		the verb: report, batches over several connections, comparison
 *		migrate_rows.c	the column of the paths, and the rows
 *		migrate_open.c	the file of a row
 *		migrate_store.c	storing it
 *
 * A row is done when its securefile column is not null.  So a second run goes on where the first
 * one stopped, whatever stopped it, and nothing else has to be remembered.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_MIGRATE_H
#define SECUREFILE_MIGRATE_H

#include "local.h"
#include "session.h"
#include "url.h"

/* A row, with the path or URL that it had when it was looked at. */
typedef struct MigrateRow
{
	char	   *key;			/* null: the row has none */
	char	   *from;
} MigrateRow;

typedef struct Migrate
{
	const Options *options;
	const Target *target;
	UrlLimits	limits;
	int			top;			/* of the paths; -1: --root was not given */
	char	   *from;			/* expression: path or URL as text, null if
								 * that is empty */
	char	   *is_from;		/* condition: it is $2 */
	MigrateRow *rows;
	size_t		count;
	size_t		space;
	size_t		batch_rows;		/* in a transaction, at most */
} Migrate;

/* ---- migrate_rows.c ---- */

/* Find the column that --from names; false with the reason. */
extern bool migrate_find_from(Session *session, Migrate *migrate, Failure *failure);

/* List the rows with a path or URL: those that are done, or those that are not. */
extern bool migrate_list(Session *session, Migrate *migrate, bool done, Failure *failure);

/* Numbers of rows in the table. */
typedef struct MigrateCounts
{
	int64_t		rows;
	int64_t		done;
	int64_t		empty;			/* neither done, nor with a path or URL */
	int64_t		repeated;		/* not done, with the path or URL of another
								 * such row */
} MigrateCounts;

extern bool migrate_count(Session *session, const Migrate *migrate, MigrateCounts *counts,
						  Failure *failure);

/* What a row has now. */
typedef struct MigrateLook
{
	bool		there;			/* the row is */
	bool		done;
	char	   *from;			/* null: none; the caller frees it */
	char		sha256[SHA256_HEX_SIZE];	/* if it was asked for; "": no
											 * value */
} MigrateLook;

/*
 * Look at a row.  digest: an expression, for which the server may read the value; null: it is not
 * asked for.
 */
extern bool migrate_look(Session *session, const Migrate *migrate, const char *key,
						 const char *digest, MigrateLook *look, Failure *failure);

/* ---- migrate_open.c ---- */

/*
 * Open the file that a path or URL leads to, at its beginning.  -1 with the reason, and with
 * errno ENOENT for a path where there is none.
 */
extern int	migrate_open(const Migrate *migrate, const char *from, int64_t *length,
						 Failure *failure);

/* ---- migrate_store.c ---- */

/* Store the files of so many rows, from that one on.  False: the connection is lost for good. */
extern bool migrate_store(Session *session, const Migrate *migrate, size_t first, size_t count);

#endif							/* SECUREFILE_MIGRATE_H */
