/*-------------------------------------------------------------------------
 *
 * sparse.h
 *	  Local files that are read without their holes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SPARSE_H
#define SECUREFILE_SPARSE_H

#include <stdint.h>
#include <sys/stat.h>

#include "failure.h"

/* A file, pipe or device that is read. */
typedef struct SparseFile
{
	int			fd;
	bool		seekable;		/* a regular file */
	struct stat before;
	int64_t		start;			/* position at first */
	int64_t		position;		/* and now */
	int64_t		data_end;		/* no hole begins before it */
} SparseFile;

/* Begin to read at the position of fd.  False with errno set. */
extern bool sparse_begin(SparseFile *file, int fd);

/* The bytes from there to the end, as far as the file says so; -1: it does not. */
extern int64_t sparse_left(const SparseFile *file);

/*
 * May the file have another length than it says?  Files that are made when they are read, as in
 * /proc and /sys, say 0 or the size of a page.  They take no space on a disk.
 */
extern bool sparse_length_is_unknown(const struct stat *st);

/* Are holes worth looking for? */
extern bool sparse_has_holes(const SparseFile *file);

/*
 * Pass over the hole at the position, and return its length; 0: there is none.  Holes are counted
 * in whole units of the server, from the start on.
 */
extern int64_t sparse_hole(SparseFile *file);

/* Read up to size bytes; fewer at the end, and before a hole.  -1 with errno set. */
extern int64_t sparse_read(SparseFile *file, void *buffer, size_t size);

/* Takes bytes; false after a failure. */
typedef bool (*SparseTake) (void *arg, const void *bytes, size_t size);

/*
 * Hand all bytes of a file to a function, zeros for its holes, from the position to the end;
 * returns their number.  -1 with errno set; 0 for errno: the function failed.
 */
extern int64_t sparse_each(int fd, SparseTake take, void *arg);

#endif							/* SECUREFILE_SPARSE_H */
