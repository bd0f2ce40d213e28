/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  Areas of shared memory: each is described once, by the file that uses it.
 *
 * A file describes its area in a constant, and src/securefile.c has the list of all of them:
 *
 *		static StatShared *shared = NULL;
 *
 *		const SfSharedArea sf_stats_area = {
 *			.name = "securefile stats", .at = (void **) &shared,
 *			.bytes = sizeof(StatShared), .lock = "securefile_stats"
 *		};
 *
 * The postmaster makes the areas when it starts, and again after a crash of a child.  Other
 * processes inherit the pointer.  It stays NULL without preload.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SHARED_H
#define SF_SHARED_H

#include "access/attnum.h"

typedef struct SfSharedArea
{
	const char *name;			/* in pg_shmem_allocations */
	void	  **at;				/* the owner's pointer to the area */
	Size		bytes;
	const char *lock;			/* the area begins with an LWLock, whose wait
								 * event this is; NULL: it has none */

	/*
	 * An array behind the bytes, whose length is known when the server
	 * starts.
	 */
	const int  *items;			/* a setting of the server; NULL: no array */
	Size		item_bytes;

	/*
	 * Above 0: no bytes, but a hash table (HTAB) of at most that many items.
	 * Each begins with its key, of which all bytes are compared.
	 */
	Size		key_bytes;

	/* Fills what is not to begin as zero; may throw.  NULL: all is zero. */
	void		(*init) (void);
} SfSharedArea;

/* A column of any database, as the key of such a table. */
typedef struct SfSharedColumn
{
	Oid			db;
	Oid			table_oid;
	int32		attnum;			/* as int32: no padding to hash */
} SfSharedColumn;

/* The key of a column of the current database.  Never throws. */
extern SfSharedColumn sf_base_shared_column(Oid table_oid, AttrNumber attnum);

/*
 * Ask for the memory of the areas, and make them: from the hooks of the server for these
 * purposes.  In the list an area may rely on those before it.  ERROR when memory is short.
 */
extern void sf_base_shared_request(const SfSharedArea *const *areas, int n);
extern void sf_base_shared_make(const SfSharedArea *const *areas, int n);

/* The areas of this room: the start of the server, and fault points where they are built in. */
extern const SfSharedArea sf_base_area;
#ifdef SF_FAULTS
extern const SfSharedArea sf_fault_area;
#endif

#endif							/* SF_SHARED_H */
