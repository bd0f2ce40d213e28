/*-------------------------------------------------------------------------
 *
 * place.h
 *	  Where a file that comes from the database is written to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_PLACE_H
#define SECUREFILE_PLACE_H

#include "failure.h"
#include "options.h"

/* The destination of the file. */
typedef struct Place
{
	int			fd;				/* standard output or a device; -1: a file */
	int			directory;		/* of that file */
	char	   *name;			/* its name there */
} Place;

/*
 * Find out where the user wants the file of that name: at a path, which may be a directory or "-",
 * or with NULL under the last part of the name.  Fails if a file is there, without --replace.
 */
extern bool place_find(const Options *options, const char *name, const char *path, Place *place,
					   Failure *failure);

#endif							/* SECUREFILE_PLACE_H */
