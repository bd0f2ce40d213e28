/*-------------------------------------------------------------------------
 *
 * base.c
 *	  Preload check and boot id.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "storage/shmem.h"

typedef struct BaseShared
{
	uint64		boot_id;
} BaseShared;

bool		sf_base_preloaded = false;

static BaseShared *shared = NULL;

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

uint64
sf_base_boot_id(void)
{
	return shared ? shared->boot_id : 0;
}

Size
sf_base_shmem_size(void)
{
	return add_size(MAXALIGN(sizeof(BaseShared)), sf_fault_shmem_size());
}

/*
 * A random number rather than a counter: no state to keep, and two servers
 * that were copied from each other differ too.
 */
void
sf_base_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("securefile base", sizeof(BaseShared), &found);
	if (!found)
	{
		shared->boot_id = 0;
		while (shared->boot_id == 0)
		{
			if (!pg_strong_random(&shared->boot_id, sizeof(shared->boot_id)))
				elog(FATAL, "could not generate random boot id");
		}
	}
	sf_fault_shmem_init();
}
