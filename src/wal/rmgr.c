/*-------------------------------------------------------------------------
 *
 * rmgr.c
 *	  The custom WAL resource manager.
 *
 * Redo is that of the rooms whose pages they are; what must happen beyond pages, in rooms
 * that these do not know, is added here.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog_internal.h"
#include "keys/keys.h"
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

/*
 * Sessions of a standby keep data keys that they have unwrapped, and what the segment says of
 * them, as long as the keyring's generation is the same.  A session may outlive a promotion,
 * and write then by what it keeps.
 */
static void
redo(XLogReaderState *record)
{
	sf_space_redo(record);
	if (sf_space_changes_keys(record))
		sf_keys_raise_generation();
}

static const RmgrData rmgr = {
	.rm_name = "securefile",
	.rm_redo = redo,
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
