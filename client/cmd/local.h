/*-------------------------------------------------------------------------
 *
 * local.h
 *	  Files and directories of this machine.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_LOCAL_H
#define SECUREFILE_LOCAL_H

#include <stdint.h>
#include <sys/types.h>

#include "failure.h"

/* A file of a tree, path relative to its top. */
typedef struct Found
{
	char	   *path;
	int64_t		length;
} Found;

typedef struct FoundList
{
	Found	   *files;
	size_t		count;
	size_t		space;
	int64_t		bytes;			/* sum of the lengths */
} FoundList;

/* What the tree has that cannot be taken. */
typedef void (*WalkFailed) (const char *path, const Failure *failure);

extern int64_t local_read(int fd, void *buffer, size_t size);
extern bool local_write(int fd, const void *buffer, size_t size);
extern bool local_hash(int fd, uint64_t *hash, Failure *failure);
extern int	local_open_file(int directory, const char *path, int64_t *length, Failure *failure);

extern int	local_open_top(const char *path, Failure *failure);
extern bool local_check_path(const char *path, Failure *failure);
extern int	local_open_parent(int top, const char *path, bool make, const char **last, Failure *failure);

/* ---- walk.c ---- */

extern void walk_tree(int top, FoundList *list, WalkFailed failed);
extern void walk_add(FoundList *list, const char *path, int64_t length);

#endif							/* SECUREFILE_LOCAL_H */
