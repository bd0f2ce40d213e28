/*-------------------------------------------------------------------------
 *
 * meta.h
 *	  The columns in which --meta keeps times of modification, modes and link targets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_META_H
#define SECUREFILE_META_H

#include "local.h"
#include "session.h"

/* What CREATE TABLE says of these columns. */
#define META_DEFINITIONS "mtime pg_catalog.timestamptz, mode integer, link_target pg_catalog.text"

/* Find out whether the table has them; with --meta it is a failure if it does not. */
extern bool meta_find(Session *session, const Options *options, Target *target, Failure *failure);

/* Expressions for META_COLUMNS columns of an answer; NULLs if the table does not have them. */
extern const char *meta_expressions(const Target *target);

#define META_COLUMNS	3

/* These, from a row of an answer, in the column of that number and the next ones. */
extern Meta meta_take(const PGresult *result, int row, int column);

/* Look up those of one name; unknown if there is no row.  The caller frees the link. */
extern bool meta_look(Session *session, const char *name, Meta *meta, Failure *failure);

/* Are they the same, as far as the columns can say? */
extern bool meta_same(const Meta *a, const Meta *b);

#define META_TIME_SIZE	64

/* Options whose --set has them, too. */
typedef struct MetaSets
{
	Options		options;
	char		mtime[META_TIME_SIZE];
	char		mode[16];
} MetaSets;

/*
 * Options that set them besides the columns of --set; without --meta, the options themselves.
 * The sets are freed by meta_free().
 */
extern const Options *meta_add(const Options *options, const Meta *meta, MetaSets *sets);
extern void meta_free(const Options *options, MetaSets *sets);

/* Write them into the row of that name, which is there.  Nothing else of it changes. */
extern bool meta_update(Session *session, const char *name, const Meta *meta, Failure *failure);

/* "2026-11-25 17:00:00.123456+00", which is the text of a timestamptz. */
extern const char *meta_time(int64_t mtime, char *buffer, size_t size);

/*
 * Give an open file its time and mode, as far as they are known; without --setuid the bits for
 * setuid, setgid and sticky are left out.
 */
extern bool meta_apply(const Options *options, int fd, const Meta *meta, Failure *failure);

/* Does a file here have another time or mode than meta_apply() would give it? */
extern bool meta_differs(const Options *options, const struct stat *st, const Meta *meta);

#endif							/* SECUREFILE_META_H */
