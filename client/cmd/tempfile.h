/*-------------------------------------------------------------------------
 *
 * tempfile.h
 *	  Files that are written under a temporary name and get theirs when they are
 *	  complete.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TEMPFILE_H
#define SECUREFILE_TEMPFILE_H

#include "failure.h"

typedef struct TempFile TempFile;

extern TempFile *tempfile_open(int directory, Failure *failure);
extern int	tempfile_fd(const TempFile *file);
extern bool tempfile_finish(TempFile *file, const char *name, bool replace, Failure *failure);
extern void tempfile_discard(TempFile *file);
extern void tempfile_remove_all(void);

#endif							/* SECUREFILE_TEMPFILE_H */
