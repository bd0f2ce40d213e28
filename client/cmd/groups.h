/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  Which files of a tree are stored together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_GROUPS_H
#define SECUREFILE_GROUPS_H

#include "local.h"
#include "session.h"

/* The numbers of files in a list. */
typedef struct Group
{
	const size_t *files;
	size_t		count;
} Group;

typedef struct Groups
{
	size_t		count;
	Group	   *groups;
	size_t	   *sizes;			/* the count of each */
	size_t	   *files;			/* of all groups */
} Groups;

/*
 * Short files of a list in groups of at most --batch, so many that each connection has one; any
 * other file is a group of its own.  All files of a distributed table are: each may lie on
 * another node.
 */
extern Groups groups_make(const Session *session, const Options *options,
						  const FoundList *list);
extern void groups_free(Groups *groups);

#endif							/* SECUREFILE_GROUPS_H */
