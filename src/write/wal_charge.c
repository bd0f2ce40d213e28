/*-------------------------------------------------------------------------
 *
 * wal_charge.c
 *	  Bytes of values are charged to the statement that has gathered them.
 *
 * What is gathered is written, and its records are inserted, later: by a statement that fills the
 * buffer, or at commit, which no statement is charged with.  So its bytes are added to pgWalUsage
 * and pgBufferUsage when they are gathered, for EXPLAIN, auto_explain and pg_stat_statements.
 *
 *		 gathered			wal_bytes += bytes			ahead += bytes
 *		 record inserted	wal_bytes += its length		by the server
 *							wal_bytes -= bytes			ahead -= bytes
 *		 transaction ends	wal_bytes -= ahead			ahead = 0
 *
 * At each moment wal_bytes is what the server would have, and ahead; and at the end of a
 * transaction ahead is 0.  pg_stat_wal gets the difference of wal_bytes from one end to another
 * one, so it is right.  The heads of the records, some 60 bytes in up to 1 MB, are charged where a
 * record is inserted, and so are records: how many there will be is not known before, and
 * pg_stat_wal takes a count that has not changed for a sign that there is nothing to add.
 *
 * What is ahead at the end was gathered for storage that is gone, or by a transaction that aborts.
 * pgWalUsage must not get smaller while a statement runs, since the difference would be a huge
 * number.  So within a procedure, which can end a transaction in a statement, it waits for an end
 * of a transaction that lies between statements.  The end of the process is one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "storage/ipc.h"
#include "tcop/pquery.h"
#include "write/write_internal.h"

static uint64 ahead_bytes;

bool
sfi_charge_is_logged(const SfSegment *seg)
{
	return seg->logged_data && XLogIsNeeded();
}

void
sfi_charge_gathered(const SfSegment *seg, uint64 bytes)
{
	sf_io_charge(SF_IO_WRITE, bytes);
	if (!sfi_charge_is_logged(seg))
		return;
	pgWalUsage.wal_bytes += bytes;
	ahead_bytes += bytes;
}

/* Bytes that were not ahead are those of a column whose logging has changed since. */
void
sfi_charge_logged(uint64 bytes)
{
	bytes = Min(bytes, ahead_bytes);
	pgWalUsage.wal_bytes -= bytes;
	ahead_bytes -= bytes;
}

void
sfi_charge_at_end(void)
{
	if (ActivePortal == NULL || proc_exit_inprogress)
		sfi_charge_logged(ahead_bytes);
}
