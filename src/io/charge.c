/*-------------------------------------------------------------------------
 *
 * charge.c
 *	  What the running statement is charged with: blocks of data files, and the time that it
 *	  waits for them.
 *
 * PostgreSQL counts blocks and times in pgBufferUsage, and EXPLAIN (BUFFERS), auto_explain and
 * pg_stat_statements show by how much the counts grow while a statement runs.  Data files add to
 * the same counts, in the server's blocks of 8 KB: blocks read, whether the page cache had
 * them or not, and blocks written.  What a parallel worker has counted reaches its leader with the
 * server's own counts.
 *
 * A request charges what it moves when it starts, in the statement that has asked for it.  What is
 * gathered was charged when it was gathered (write/wal_charge.c), and not again when it is written.
 * Times are those that the process has spent waiting, in whichever statement that was: a transfer
 * that goes on while the process works costs no time.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "io/io_internal.h"
#include "storage/bufmgr.h"
#include "storage/proc.h"

/*
 * Bytes that still find room in the blocks that were charged last, by kind, in the transaction of
 * that number.  So bytes are rounded up once in a transaction, however small its requests are.
 */
static uint64 unfilled_bytes[SF_IO_KINDS];
static LocalTransactionId spare_lxid;

static void
begin_transaction(void)
{
	LocalTransactionId lxid = MyProc == NULL ? InvalidLocalTransactionId : SfProcLxid(MyProc);

	if (lxid != spare_lxid)
		memset(unfilled_bytes, 0, sizeof(unfilled_bytes));
	spare_lxid = lxid;
}

void
sf_io_charge(SfIoKind kind, uint64 bytes)
{
	uint64	   *spare = &unfilled_bytes[kind];
	uint64		blocks;

	SF_ASSERT(kind == SF_IO_READ || kind == SF_IO_WRITE);
	begin_transaction();
	blocks = bytes <= *spare ? 0 : (bytes - *spare + BLCKSZ - 1) / BLCKSZ;
	*spare += blocks * BLCKSZ - bytes;
	SF_ASSERT(*spare < BLCKSZ);
	if (kind == SF_IO_READ)
		pgBufferUsage.shared_blks_read += blocks;
	else
		pgBufferUsage.shared_blks_written += blocks;
}

/* Growth and flushes count as writing: a statement does not wait for them for another reason. */
void
sfi_io_charge_time(SfIoWait which, uint64 us)
{
	instr_time	time = sf_compat_time_of_us(us);

	SF_ASSERT(which >= 0 && which < SF_IO_WAITS);
	if (!track_io_timing)
		return;
	if (which == SF_IO_WAIT_READ)
		INSTR_TIME_ADD(SF_BLOCK_READ_TIME, time);
	else
		INSTR_TIME_ADD(SF_BLOCK_WRITE_TIME, time);
}
