/*-------------------------------------------------------------------------
 *
 * ddl.h
 *	  Keeping tables with securefile columns in order: the segment and the
 *	  row triggers of every column follow whatever DDL does to the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_H
#define SF_DDL_H

/*
 * Install the hooks of this room.  Call from _PG_init while preloading; the
 * hooks chain to those that were there before.
 */
extern void sf_ddl_install_hooks(void);

#endif							/* SF_DDL_H */
