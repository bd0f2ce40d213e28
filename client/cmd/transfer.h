/*-------------------------------------------------------------------------
 *
 * transfer.h
 *	  One file between this machine and the database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TRANSFER_H
#define SECUREFILE_TRANSFER_H

#include "local.h"
#include "session.h"

/* The contents of the database under a name. */
typedef struct Stored
{
	bool		row;			/* there is a row */
	bool		file;			/* and its file is not null */
	int64_t		length;			/* of the file */
	bool		many;			/* more than one row; look.h only */
	Meta		meta;			/* look.h only */
} Stored;

/* Look up a name; several rows of that name are a failure, none is not. */
extern bool transfer_look(Session *session, const char *name, Stored *stored, Failure *failure);

/* XXH3-64 of a stored file, computed by the server, which reads and checks the whole file. */
extern bool transfer_hash(Session *session, const char *name, uint64_t *hash, Failure *failure);

/*
 * Are the open file, of that length, and the stored one the same?  Compares lengths first,
 * then hashes: the SHA-256 that the server keeps with the stored one, so that it reads
 * nothing, else XXH3-64, for which it reads all.  The file is at its beginning afterwards.
 */
extern bool transfer_same(Session *session, const char *name, const Stored *stored, int fd,
						  int64_t length, bool *same, Failure *failure);

/*
 * Store all bytes from the position of fd to its end under a name, in a new row or, if
 * row_exists, in the existing one.  Returns the number of bytes; -1 if nothing was stored.
 */
extern int64_t transfer_put(Session *session, const Options *options, const char *name,
							bool row_exists, int fd, Failure *failure);

/*
 * Write a stored file at the position of fd.  Returns the number of bytes, -1 after a
 * failure; then fd may have received a part.  If standard output fails the process ends.
 */
extern int64_t transfer_get(Session *session, const char *name, int fd, Failure *failure);

#endif							/* SECUREFILE_TRANSFER_H */
