/*-------------------------------------------------------------------------
 *
 * transfer.h
 *	  One file between here and the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TRANSFER_H
#define SECUREFILE_TRANSFER_H

#include "session.h"

/* What the database has under a name. */
typedef struct Stored
{
	bool		row;			/* there is a row */
	bool		file;			/* and its file is not null */
	int64_t		length;			/* of the file */
} Stored;

extern bool transfer_look(Session *session, const char *name, Stored *stored, Failure *failure);
extern bool transfer_hash(Session *session, const char *name, uint64_t *hash, Failure *failure);
extern bool transfer_same(Session *session, const char *name, const Stored *stored, int fd, int64_t length,
						  bool *same, Failure *failure);
extern int64_t transfer_put(Session *session, const Options *options, const char *name, bool row_exists,
							int fd, Failure *failure);
extern int64_t transfer_get(Session *session, const char *name, int fd, Failure *failure);

#endif							/* SECUREFILE_TRANSFER_H */
