/*-------------------------------------------------------------------------
 *
 * source.h
 *	  The bytes of a file that is stored, and whether it changed while they were read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SOURCE_H
#define SECUREFILE_SOURCE_H

#include "sparse.h"

/* The source of the bytes of a put: first the bytes that were read ahead, then the file. */
typedef struct Source
{
	SparseFile	file;
	int64_t		total;			/* -1: not known */
	const char *ahead;
	size_t		ahead_bytes;
	int64_t		done;
	Failure    *failure;
	bool		failed;			/* failure says why */
} Source;

/* At the start: wait until the file has not changed for a moment.  False: it keeps changing. */
extern bool source_settle(Source *source);

/* Begin at the position of fd, and wait so. */
extern bool source_begin(Source *source, int fd, Failure *failure);

/* In the middle: is the file unchanged since the start?  Only a regular file can be checked. */
extern bool source_is_same(Source *source);

/* At the end: the same, and have all of its bytes been read? */
extern bool source_check_unchanged(Source *source);

/* A pgsf_source: the next bytes; the end of a file that changed is a failure. */
extern int64_t source_next(void *arg, void *buffer, size_t size);

/* A pgsf_sparse_source: the same, with the holes of the file. */
extern int64_t source_next_sparse(void *arg, void *buffer, size_t size, int64_t *hole);

/*
 * Read all of a file, from the position of fd on, if it is short enough for the buffer and has no
 * holes; else *fits becomes false.  Returns the number of bytes, -1 after a failure.
 */
extern int64_t source_read_short(int fd, void *buffer, size_t size, bool *fits,
								 Failure *failure);

#endif							/* SECUREFILE_SOURCE_H */
