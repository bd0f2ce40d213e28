/*-------------------------------------------------------------------------
 *
 * preload.c
 *	  Was the library loaded through shared_preload_libraries?
 *
 * The flag and its check stand below all other files of the room, so that
 * base.c and fault.c can both ask.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

bool		sf_base_preloaded = false;

void
sf_base_require_preload(void)
{
	if (sf_base_preloaded)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("securefile must be loaded via shared_preload_libraries"),
			 errhint("Add the line \"shared_preload_libraries = 'securefile'\" to postgresql.conf (or append securefile to the list there) and restart the server.")));
}
