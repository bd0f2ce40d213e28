/*-------------------------------------------------------------------------
 *
 * reserved.h
 *	  Names of files that are not complete yet: "put --resume" stores their parts under a name
 *	  of their own.
 *
 * Such a name is RESERVED_PREFIX, the size and the time of modification of the file, a slash and
 * the name that the file will have:
 *
 *		.securefile-part/2147483648-1795960000.123456789/backup.tar
 *
 * No verb stores a file under a name that begins so.  Lists leave these names out, unless they
 * are asked for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_RESERVED_H
#define SECUREFILE_RESERVED_H

#include <stdint.h>
#include <sys/stat.h>

#include "failure.h"

#define RESERVED_PREFIX	".securefile-part/"

/* Does a name begin so? */
extern bool reserved_is(const char *name);

/* True: it does not.  False: a failure that says so. */
extern bool reserved_refuse(const char *name, Failure *failure);

/* The reserved name of a file that will have that name; the caller frees it. */
extern char *reserved_make(const char *name, const struct stat *source);

/*
 * The name that the file of a reserved name will have, and the size of the file; NULL: it is none
 * that reserved_make() makes.
 */
extern const char *reserved_final(const char *name, int64_t *size);

#endif							/* SECUREFILE_RESERVED_H */
