/*-------------------------------------------------------------------------
 *
 * wal.h
 *	  The custom WAL resource manager: registration and dispatch only; the
 *	  redo of a page lives with the room that owns it.
 *
 * rmgr.c		all of it
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WAL_H
#define SF_WAL_H

/* Register the resource manager.  Call from _PG_init while preloading. */
extern void sf_wal_register(void);

#endif							/* SF_WAL_H */
