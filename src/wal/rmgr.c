/*-------------------------------------------------------------------------
 *
 * rmgr.c
 *	  The custom WAL resource manager.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog_internal.h"
#include "replication/decode.h"
#include "replication/reorderbuffer.h"
#include "space/space.h"
#include "wal/wal.h"

/*
 * Logical decoding learns of values from row changes, and has to ignore the records
 * of this resource manager.  It must ignore even their transaction ids: the removal
 * of files is logged after the commit of its transaction, and would make decoding
 * wait for a second commit.
 */
static void
decode_nothing(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
}

static const RmgrData rmgr = {
	.rm_name = "securefile",
	.rm_redo = sf_space_redo,
	.rm_desc = sf_space_desc,
	.rm_identify = sf_space_identify,
	.rm_mask = sf_space_mask,
	.rm_decode = decode_nothing,
};

void
sf_wal_register(void)
{
	RegisterCustomRmgr(SF_RMGR_ID, (RmgrData *) &rmgr);
}
