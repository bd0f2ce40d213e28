/*-------------------------------------------------------------------------
 *
 * found.h
 *	  Lists of files that are compared with each other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_FOUND_H
#define SECUREFILE_FOUND_H

#include "local.h"

/* The paths of a list in the order of their bytes; they belong to the list. */
typedef struct Sorted
{
	const char **paths;			/* the caller frees the array */
	size_t		count;
} Sorted;

/* Sort them; so many bytes of each path, a prefix, are left out. */
extern Sorted found_sort(const FoundList *list, size_t skip);

extern bool found_has(const Sorted *sorted, const char *path);

/* Is any of them below that directory? */
extern bool found_has_below(const Sorted *sorted, const char *directory);

/* The files of a list that the other one has not; so many bytes of each path are left out. */
extern FoundList found_less(const FoundList *list, size_t skip, const Sorted *other);

#endif							/* SECUREFILE_FOUND_H */
