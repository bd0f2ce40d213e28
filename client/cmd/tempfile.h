/*-------------------------------------------------------------------------
 *
 * tempfile.h
 *	  Files that are written under a temporary name, and renamed when they are complete.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TEMPFILE_H
#define SECUREFILE_TEMPFILE_H

#include <stdio.h>
#include <sys/types.h>

#include "failure.h"

typedef struct TempFile TempFile;

/*
 * Create a file with that mode, from which the umask takes, in an open directory, which has
 * to stay open; NULL after a failure.
 */
extern TempFile *tempfile_open(int directory, mode_t mode, Failure *failure);

/* The same with a symbolic link, which has no descriptor. */
extern TempFile *tempfile_link(int directory, const char *target, Failure *failure);

/* Its descriptor, for writing, and its name until it is finished. */
extern int	tempfile_fd(const TempFile *file);
extern const char *tempfile_name(const TempFile *file);

/* A stream that writes to it, with a descriptor of its own, for fclose(). */
extern FILE *tempfile_stream(const TempFile *file);

/*
 * Close the file, rename it, and free the handle.  Without replace an existing file of that
 * name is a failure.  After a failure the file is removed.
 */
extern bool tempfile_finish(TempFile *file, const char *name, bool replace, Failure *failure);

/* Remove the file and free the handle. */
extern void tempfile_discard(TempFile *file);

/* Remove all of them and let no thread create another: the process is about to end. */
extern void tempfile_remove_all(void);

#endif							/* SECUREFILE_TEMPFILE_H */
