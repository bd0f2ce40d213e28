/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  Which paths of a tree are taken: the patterns of --include and --exclude.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_FILTER_H
#define SECUREFILE_FILTER_H

#include "failure.h"

/* Patterns in the order of the command line; null: all paths are taken. */
typedef struct Filter Filter;

/* Add a pattern; *filter is made if it is null. */
extern void filter_add(Filter **filter, const char *pattern, bool include);

/* Add the patterns of a file, whose lines are those of a file .gitignore. */
extern bool filter_add_file(Filter **filter, const char *path, Failure *failure);

/* Is that path left out?  The directories above it are not. */
extern bool filter_excludes(const Filter *filter, const char *path, bool is_directory);

/* Is that file, or a directory above it, left out? */
extern bool filter_excludes_file(const Filter *filter, const char *path);

#endif							/* SECUREFILE_FILTER_H */
