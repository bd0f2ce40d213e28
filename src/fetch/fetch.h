/*-------------------------------------------------------------------------
 *
 * fetch.h
 *	  Data of filesystem_like_logging columns that is not on this server, since it is not in
 *	  WAL: brought from another server that has it, unit by unit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FETCH_H
#define SF_FETCH_H

#include "base/base.h"

/* Shared memory of the room; the latter under AddinShmemInitLock. */
extern Size sf_fetch_shmem_size(void);
extern void sf_fetch_shmem_init(void);

#endif							/* SF_FETCH_H */
