/*-------------------------------------------------------------------------
 *
 * move_pace.c
 *	  How fast values are moved, and whether there is room for what that adds to WAL.
 *
 * A user moves values because disks are full.  In columns that log all of their bytes go
 * to WAL first: without a limit they would fill the disk that pg_wal lies on, and replicas would
 * fall behind.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sys/statvfs.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "ddl/move_values.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#define WAL_DETAIL \
	"The file system of pg_wal has less room than twice a batch and max_wal_size."

bool
sfi_ddl_move_has_wal_room(const SfSegment *seg, uint64 batch_bytes)
{
	struct statvfs fs;

	SF_ASSERT(batch_bytes > 0);
	if (SF_FAULT_SKIPS(shrink_wal_full))
		return false;
	if (!seg->logged_data || !XLogIsNeeded())
		return true;
	if (statvfs(XLOGDIR, &fs) != 0)
		return true;
	return (double) fs.f_bavail * fs.f_frsize >=
		2.0 * batch_bytes + max_wal_size_mb * (1024.0 * 1024);
}

void
sfi_ddl_move_refuse_wal(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DISK_FULL),
			 errmsg("no values are moved, since there is little room for WAL"),
			 errdetail(WAL_DETAIL),
			 errhint("The position is still good: call the function again when there is more room.")));
}

void
sfi_ddl_move_note_wal(void)
{
	ereport(NOTICE,
			(errmsg("not all values were moved, since there is little room for WAL"),
			 errdetail(WAL_DETAIL),
			 errhint("Call the procedure again when there is more room.")));
}

void
sfi_ddl_move_sleep(uint64 until_us)
{
	static uint32 wait_event = 0;

	/* the catalog's snapshot would keep vacuum from removing rows meanwhile */
	InvalidateCatalogSnapshot();
	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileMove");
	while (sf_base_sleep(until_us, wait_event))
		 /* until it is time */ ;
}

void
sfi_ddl_move_pause(uint64 bytes, uint64 bytes_per_second, uint64 begin_us)
{
	if (bytes_per_second > 0)
		sfi_ddl_move_sleep(begin_us + (double) bytes / bytes_per_second * 1e6);
}
