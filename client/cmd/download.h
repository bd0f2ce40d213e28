/*-------------------------------------------------------------------------
 *
 * download.h
 *	  A stored file that is written to a local one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DOWNLOAD_H
#define SECUREFILE_DOWNLOAD_H

#include <stdint.h>

#include <pgsecurefile.h>

#include "failure.h"

/* Where a file goes. */
typedef struct Download
{
	int			fd;
	int64_t		done;			/* bytes that were written, as the progress
								 * shows */
} Download;

/*
 * Write the file that a SELECT yields at the position of the descriptor, with its holes where
 * there can be some.  Returns the number of bytes, or -1 with the failure.  If standard output
 * fails the process ends.
 */
extern int64_t download(Download *download, pgsf *handle, const char *sql,
						const pgsf_params *params, Failure *failure);

#endif							/* SECUREFILE_DOWNLOAD_H */
