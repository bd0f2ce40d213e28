/*-------------------------------------------------------------------------
 *
 * resume.h
 *	  A long file that is stored in parts, so that an interrupt loses one of them at most.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_RESUME_H
#define SECUREFILE_RESUME_H

#include "session.h"
#include "transfer.h"

/*
 * Store the open file under a name, which has what was looked up, as transfer_put() does, and go
 * on behind the parts that an earlier run has stored.  Returns the number of bytes of the file; -1
 * after a failure.
 */
extern int64_t resume_put(Session *session, const Options *options, const char *name,
						  const Stored *stored, int fd, Failure *failure);

#endif							/* SECUREFILE_RESUME_H */
