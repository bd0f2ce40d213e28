/*-------------------------------------------------------------------------
 *
 * dumpdir.h
 *	  A directory of dumps.
 *
 *		objects/ab/cdef..	contents; the name is the SHA-256 in hexadecimal
 *		dumps/NAME.jsonl	a manifest for each dump, see manifest.h
 *		leases/				a file for each command that works here
 *		lock				flock(): shared by all of them, exclusive for --prune
 *
 * Objects never change.  An object and a manifest have a temporary name until they are complete
 * and on the disk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMPDIR_H
#define SECUREFILE_DUMPDIR_H

#include "local.h"
#include "tempfile.h"

#define MANIFEST_SUFFIX		".jsonl"

/* What somebody does in the directory. */
typedef enum DumpUse
{
	DUMPDIR_WRITE,				/* make it if it is not there; add objects */
	DUMPDIR_READ,				/* nothing of it may go meanwhile */
	DUMPDIR_PRUNE				/* remove objects: nobody else may be there */
} DumpUse;

typedef struct DumpDir DumpDir;

/* Open the directory for that use; NULL after a failure. */
extern DumpDir *dumpdir_open(const char *path, DumpUse use, Failure *failure);
extern void dumpdir_close(DumpDir *dir);

/* The directories of the manifests and of the objects. */
extern int	dumpdir_manifests(const DumpDir *dir);
extern int	dumpdir_objects(const DumpDir *dir);

/*
 * Names of all manifests, without suffix, the oldest first.  The list's lengths are those of the
 * files.
 */
extern bool dumpdir_list(const DumpDir *dir, FoundList *list, Failure *failure);
extern void dumpdir_free_list(FoundList *list);

/* Is it a SHA-256 in hexadecimal, as the names of objects are? */
extern bool object_name_valid(const char *sha256);

/* Is there an object of that name and length?  The directory is on the disk after a sync. */
extern bool object_exists(DumpDir *dir, const char *sha256, int64_t length);

/*
 * Before the end of a dump: is each directory as it was before objects were looked for in it?  And:
 * is an object still there that was there before?  That looks for it only in the others.
 */
extern bool objects_quiet(DumpDir *dir);
extern bool object_stays(DumpDir *dir, const char *sha256, int64_t length);

/* Open an object for reading; -1 after a failure. */
extern int	object_open(DumpDir *dir, const char *sha256, int64_t *length, Failure *failure);

/* The directory of the objects that begin with that byte; -1 with errno set. */
extern int	object_fan(DumpDir *dir, int byte, bool make);

/*
 * A new object: a file to be written, which gets its name when the bytes are known and on the disk.
 * Short ones wait for others, so that one sync is for many; object_exists() knows them.
 */
extern TempFile *object_begin(DumpDir *dir, Failure *failure);
extern bool object_finish(DumpDir *dir, TempFile *file, const char *sha256, Failure *failure);

/* Give all objects that wait their names. */
extern bool objects_name(DumpDir *dir, Failure *failure);

/* Let all objects that were made or looked for be on the disk. */
extern bool objects_sync(DumpDir *dir, Failure *failure);

/* ---- dumplease.c ---- */

/* A command that works in the directory: host and pid, for the others. */
typedef struct DumpLease
{
	TempFile   *file;
	int			lock;
	time_t		since;			/* in the time of the file system; 0: none */
} DumpLease;

/*
 * Take the lock, shared or exclusive.  A shared one waits for an exclusive one; an exclusive one
 * fails while there is another.
 */
extern bool lease_take(DumpLease *lease, int top, int leases, DumpUse use, Failure *failure);
extern void lease_give_back(DumpLease *lease);

#endif							/* SECUREFILE_DUMPDIR_H */
