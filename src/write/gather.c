/*-------------------------------------------------------------------------
 *
 * gather.c
 *	  The write gather cache (SecureFiles paper, "write gather cache").
 *
 * Two buffers a backend: one fills while the other is in flight, and a long extent of the
 * one that fills is in flight already.  A buffer is a list of extents, each a contiguous
 * range of sectors of one segment, laid out so that blocks of the segment are aligned blocks
 * of the buffer.  Values of one transaction follow one another in an extent, whatever their
 * sizes.
 *
 * G1	an extent starts on a block;
 * G2	no block is in two extents: a partly filled tail block moves along to the
 *		extent that continues it (carry_tail);
 * G3	a partly filled block is written only by a flush after which the arena
 *		goes on with the next block.
 *
 * How an extent comes to disk:
 *
 *	begun (begin_extent)
 *	filled by sfi_gather_place(), as long as the bytes to come go on where it ends
 *	started: when it is long (early), when its buffer is full, or at a flush
 *	complete: waited for, and in WAL if its column logs
 *	forgotten, when its buffer is filled again
 *
 * A tail block that is not full is the difficult part.  The file is written with direct
 * I/O, in whole blocks; the rest of such a block is written as zeros.  If the arena went
 * on in it, a later write of the same block would be in flight together with the first
 * one, and either might reach the disk last.  So a block is written once: either the open
 * tail moves to the extent that continues it (G2), or the arena gives up the rest of the
 * block (G3).  That costs some space where transactions are small, and no read of what is
 * already on disk.
 *
 * An example: a transaction stores 10 000 bytes, 1 MB and 5 000 bytes, while its arena goes
 * on at sector 8000.
 *
 *	 place			sectors			extents
 *	 10 000 bytes	8000 .. 8019	first: from 8000 on (G1)
 *	 units 0 to 3	8020 .. 9043	first: 1044 sectors, but its last block is half full
 *	 unit 4			9044 .. 9299	second: takes that block along (G2), begins at 9040; the
 *									first, 1040 sectors now, is started
 *	 units 5 to 7	9300 .. 10067	second: 1028 sectors
 *	 5 000 bytes	10068 .. 10077	third: begins at 10064, and the second one is started
 *	 commit							third: 14 sectors, written as 16; the arena goes on at
 *									10080 (G3)
 *
 * Memory of a buffer is valid until its writes are complete, and a reader of this
 * transaction looks here first (sf_write_overlay()): what is in flight may be in the
 * file or not.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/server.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "write/extent.h"

#define MAX_EXTENTS		64
#define MAX_CARRIED		8		/* tail blocks that go on in the next buffer */

typedef struct GatherBuffer
{
	char	   *mem;
	Size		size;
	uint32		fill;			/* bytes; a multiple of a block */
	int			nextents;
	bool		started;		/* the writes of all extents have been started */
	SfExtent	extents[MAX_EXTENTS];
} GatherBuffer;

static GatherBuffer buffers[2];
static int	current;

/*
 * A write was begun, and an ERROR came before its end.  A subtransaction may survive that, but
 * values of outer ones may be lost in the buffers, so the transaction must not commit.
 */
static bool damaged;

/*
 * What is in between is done whole, or the transaction is lost.  A cancel or a timeout
 * waits: a buffer is written in milliseconds.
 */
static void
begin_undivided(void)
{
	SF_ASSERT(!damaged);
	damaged = true;
	HOLD_INTERRUPTS();
}

static void
end_undivided(void)
{
	SF_ASSERT(damaged);
	RESUME_INTERRUPTS();
	damaged = false;
}

/* Throw if a write has failed in a subtransaction that was rolled back. */
static void
require_undamaged(void)
{
	if (damaged)
		ereport(ERROR,
				(errcode(ERRCODE_IN_FAILED_SQL_TRANSACTION),
				 errmsg("securefile data of this transaction could not be written"),
				 errdetail("A write failed in a subtransaction."),
				 errhint("Roll back and try again.")));
}

/* ---- what must hold (G1 to G3) ---- */

/* Do two extents have a block in common? */
static bool
share_block(const SfExtent *a, const SfExtent *b)
{
	return a->nsectors > 0 && b->nsectors > 0 &&
		a->start < TYPEALIGN(SF_BLOCK_SECTORS, ExtentEnd(b)) &&
		b->start < TYPEALIGN(SF_BLOCK_SECTORS, ExtentEnd(a)) &&
		SfStorageEquals(a->seg->storage, b->seg->storage);
}

/* An extent that is begun or written.  Goes through all extents, so not for each unit. */
static void
check_extent(const GatherBuffer *buf, const SfExtent *extent)
{
	uint32		padded = BLOCK_ROUND_UP(sf_sectors_to_bytes(extent->nsectors));

	SF_INVARIANT(G1, extent->start % SF_BLOCK_SECTORS == 0);
	SF_ASSERT(extent->offset % SF_BLOCK_SIZE == 0 && extent->offset + padded <= buf->size);
	for (int b = 0; b < 2; b++)
		for (int i = 0; i < buffers[b].nextents; i++)
			SF_INVARIANT(G2, &buffers[b].extents[i] == extent ||
						 !share_block(&buffers[b].extents[i], extent));
}

/* The buffer is being written: nothing more goes to a block that is filled in part. */
static void
check_tails(const GatherBuffer *buf)
{
	for (int i = 0; i < buf->nextents; i++)
		SF_INVARIANT(G3, buf->extents[i].nsectors % SF_BLOCK_SECTORS == 0 ||
					 !sfi_arena_goes_on(buf->extents[i].seg, ExtentEnd(&buf->extents[i])));
}

/*
 * The current buffer's numbers are in order.  Looks at no other extent than the last, so
 * it can be asked for each unit.
 */
static bool
gather_is_valid(void)
{
	const GatherBuffer *buf = &buffers[current];

	return buf->nextents >= 0 && buf->nextents < MAX_EXTENTS && buf->fill <= buf->size &&
		buf->fill % SF_BLOCK_SIZE == 0 && (buf->nextents > 0 || buf->fill == 0) &&
		(buf->nextents == 0 || buf->extents[buf->nextents - 1].offset < buf->size);
}

/* ---- writing ---- */

static char *
bytes_of(const GatherBuffer *buf, const SfExtent *extent)
{
	SF_ASSERT(extent->offset <= buf->size);
	return buf->mem + extent->offset;
}

static void
start_extent(GatherBuffer *buf, SfExtent *extent, bool durable)
{
	check_extent(buf, extent);
	sfi_extent_start(extent, bytes_of(buf, extent), durable);
}

/*
 * Empty the extents of storage that is not there any more, after a rollback to a
 * savepoint or a drop.  A write of theirs that was started must be over before that: its
 * memory will be filled again.
 */
static void
drop_gone_extents(GatherBuffer *buf)
{
	for (int i = 0; i < buf->nextents; i++)
	{
		if (buf->extents[i].nsectors == 0 || sf_space_is_usable(buf->extents[i].seg))
			continue;
		if (buf->extents[i].started)
			sf_io_reap_all();
		buf->extents[i].nsectors = 0;
	}
}

/*
 * Start the writes of all extents of a buffer that have not been started early.  Nothing
 * goes into it any more.
 */
static void
start_buffer(GatherBuffer *buf, bool durable)
{
	if (buf->started)
		return;
	begin_undivided();
	drop_gone_extents(buf);
	buf->started = true;
	for (int i = 0; i < buf->nextents; i++)
		if (buf->extents[i].nsectors > 0 && !buf->extents[i].started)
			start_extent(buf, &buf->extents[i], durable);
	end_undivided();
}

/*
 * Wait for the extents of a buffer, one after the other, and put the bytes of
 * logging columns into WAL while the next ones are still in flight.
 */
static void
complete_buffer(GatherBuffer *buf)
{
	begin_undivided();
	drop_gone_extents(buf);
	for (int i = 0; i < buf->nextents; i++)
		sfi_extent_finish(&buf->extents[i], bytes_of(buf, &buf->extents[i]));
	end_undivided();
}

/* Wait for a buffer and make it empty, so that it can be filled again. */
static void
recycle_buffer(GatherBuffer *buf)
{
	SF_ASSERT(buf->started || buf->nextents == 0);
	complete_buffer(buf);
	buf->fill = 0;
	buf->nextents = 0;
	buf->started = false;
}

/* ---- filling ---- */

/* For the largest gather size that can be set: what is not used is address space only. */
static void
allocate_buffers(void)
{
	Size		size = SF_WRITE_GATHER_MAX_BYTES + SF_UNIT_SIZE + 2 * SF_BLOCK_SIZE;

	for (int i = 0; i < 2; i++)
	{
		if (buffers[i].mem != NULL)
			continue;
		buffers[i].mem = sf_io_buffer_alloc(size);
		buffers[i].size = size;
	}
}

/* The extent that the next bytes may go on in, or NULL. */
static SfExtent *
last_extent(GatherBuffer *buf)
{
	return buf->nextents == 0 ? NULL : &buf->extents[buf->nextents - 1];
}

/*
 * The extent of a buffer that ends in the middle of a block at that sector, or NULL. Not
 * only the last extent is looked at: columns that are written by turns have one each.
 */
static SfExtent *
find_open_tail(GatherBuffer *buf, const SfSegment *seg, uint64 sector)
{
	if (sector % SF_BLOCK_SECTORS == 0)
		return NULL;
	for (int i = 0; i < buf->nextents; i++)
		if (ExtentEnd(&buf->extents[i]) == sector &&
			SfStorageEquals(buf->extents[i].seg->storage, seg->storage))
			return &buf->extents[i];
	return NULL;
}

/*
 * Move the partly filled tail block of an extent to the start of another extent, which
 * continues it (G2).  Both end and begin at the same byte of the segment as before.
 */
static void
carry_tail(GatherBuffer *from_buf, SfExtent *from, GatherBuffer *to_buf, SfExtent *to)
{
	uint32		n = from->nsectors % SF_BLOCK_SECTORS;

	SF_ASSERT(n > 0 && to->nsectors == 0 && !from->started);
	from->nsectors -= n;
	to->nsectors = n;
	to->transformed = from->transformed;
	memcpy(to_buf->mem + to->offset,
		   from_buf->mem + from->offset + sf_sectors_to_bytes(from->nsectors),
		   sf_sectors_to_bytes(n));
	if (SF_BREAKS(g2))
		from->nsectors += n;
}

/*
 * Begin an extent of the current buffer at a sector.  If that is in a block that
 * an extent of from_buf has begun, the extent takes the block over.
 */
static SfExtent *
begin_extent(GatherBuffer *from_buf, SfSegment *seg, SfStatCounters *stats, uint64 sector)
{
	GatherBuffer *buf = &buffers[current];
	SfExtent   *tail = find_open_tail(from_buf, seg, sector);
	SfExtent   *extent = &buf->extents[buf->nextents++];

	SF_ASSERT(!from_buf->started && buf->nextents <= MAX_EXTENTS);
	extent->seg = seg;
	extent->stats = stats;
	extent->start = sf_blocks_to_sectors(sf_block_of(sector)) + (SF_BREAKS(g1) ? 1 : 0);
	extent->nsectors = 0;
	extent->offset = buf->fill;
	extent->left = 0;
	extent->started = extent->settled = extent->logged = extent->transformed = false;
	if (tail != NULL)
		carry_tail(from_buf, tail, buf, extent);
	check_extent(buf, extent);
	SF_ASSERT(ExtentEnd(extent) == sector);
	return extent;
}

/*
 * Does the buffer take nsectors more at that place?  One extent is kept in reserve, and a
 * block: going on may need both, for a tail that is carried over.
 */
static bool
has_room(GatherBuffer *buf, uint32 nsectors)
{
	return buf->nextents < MAX_EXTENTS - 1 &&
		buf->fill < sf_write_gather_bytes() &&
		buf->fill + SF_BLOCK_SIZE + sf_sectors_to_bytes(nsectors) <= buf->size;
}

/*
 * The current buffer is full: fill the other one.  Tail blocks that are still open (their arena
 * goes on in them) are carried over before the full one is written; a few, so that the other
 * buffer is not full with them.  For the rest the arena goes on with the next block (G3), except
 * for the one of the bytes to come, at start_sector.
 */
static void
switch_buffers(SfSegment *seg, uint64 start_sector)
{
	GatherBuffer *full = &buffers[current];
	GatherBuffer *next = &buffers[1 - current];

	SF_FAULT(flush_before_write);
	sf_io_use_memory();
	recycle_buffer(next);
	current = 1 - current;
	for (int i = full->nextents - 1; i >= 0; i--)
	{
		SfExtent   *extent = &full->extents[i];
		bool		wanted = ExtentEnd(extent) == start_sector &&
			SfStorageEquals(extent->seg->storage, seg->storage);

		if (extent->nsectors % SF_BLOCK_SECTORS == 0 ||
			!(wanted || sfi_arena_goes_on(extent->seg, ExtentEnd(extent))))
			continue;
		if (next->nextents >= MAX_CARRIED && !wanted)
		{
			sfi_arena_skip_partial_block(extent->seg, ExtentEnd(extent));
			continue;
		}
		begin_extent(full, extent->seg, extent->stats, ExtentEnd(extent));
		next->fill += SF_BLOCK_SIZE;
	}
	start_buffer(full, false);
	check_tails(full);
}

/*
 * Does an extent go on with those sectors?  No extent crosses a map page, as no run does;
 * so it lies in one data file, and its write is one.
 */
static bool
goes_on(const SfExtent *extent, const SfSegment *seg, uint64 start_sector, uint32 nsectors)
{
	return ExtentEnd(extent) == start_sector &&
		sf_same_map(extent->start, start_sector + nsectors - 1) &&
		SfStorageEquals(extent->seg->storage, seg->storage);
}

/* Write an extent that has become long.  If its storage is gone it is just emptied. */
static void
write_early(GatherBuffer *buf, SfExtent *extent)
{
	begin_undivided();
	if (sf_space_is_usable(extent->seg))
		start_extent(buf, extent, false);
	else
		extent->nsectors = 0;
	end_undivided();
}

void
sfi_gather_start_early(void)
{
	GatherBuffer *buf = &buffers[current];
	SfExtent   *extent = last_extent(buf);

	SF_ASSERT(extent != NULL && gather_is_valid());
	if (extent->started || extent->nsectors < SF_GATHER_EARLY_SECTORS ||
		extent->nsectors % SF_BLOCK_SECTORS != 0)
		return;
	SF_FAULT(flush_before_write);
	write_early(buf, extent);
}

/*
 * Same, for an extent that ends in the middle of a block: the extent that goes on at
 * start_sector takes that block along, before the write is started.
 */
static SfExtent *
write_early_but_tail(GatherBuffer *buf, SfExtent *extent, uint64 start_sector)
{
	SfExtent   *next;

	SF_FAULT(flush_before_write);
	next = begin_extent(buf, extent->seg, extent->stats, start_sector);
	write_early(buf, extent);
	return next;
}

/* Room at that place of the segment. */
static char *
reserve_extent(const SfPlacing *placing, uint64 start_sector)
{
	const uint32 nsectors = placing->nsectors;
	GatherBuffer *buf = &buffers[current];
	SfExtent   *extent;
	char	   *dst;

	SF_ASSERT(nsectors > 0);
	require_undamaged();
	allocate_buffers();
	SF_ASSERT(gather_is_valid());
	if (sf_sectors_to_bytes(nsectors) >= SF_IO_LARGE)
		sf_io_use_memory();

	/* by a flush, and not by a switch: an empty buffer begins */
	if (buf->started)
		recycle_buffer(buf);
	if (!has_room(buf, nsectors))
	{
		switch_buffers(placing->seg, start_sector);
		buf = &buffers[current];
	}
	extent = last_extent(buf);
	if (extent == NULL || extent->started || !goes_on(extent, placing->seg, start_sector, nsectors))
		extent = begin_extent(buf, placing->seg, placing->stats, start_sector);
	else if (extent->nsectors >= SF_GATHER_EARLY_SECTORS)
		extent = write_early_but_tail(buf, extent, start_sector);
	SF_ASSERT(ExtentEnd(extent) == start_sector);
	dst = buf->mem + extent->offset + sf_sectors_to_bytes(extent->nsectors);
	extent->nsectors += nsectors;
	extent->transformed |= placing->transformed;
	buf->fill = extent->offset + BLOCK_ROUND_UP(sf_sectors_to_bytes(extent->nsectors));
	SF_ASSERT(!extent->started && gather_is_valid());
	return dst;
}

char *
sfi_gather_place(const SfPlacing *placing, uint64 *start)
{
	char	   *dst;

	*start = sfi_arena_place(placing->seg, placing->stats, placing->nsectors,
							 placing->ahead_sectors);
	dst = reserve_extent(placing, *start);
	sfi_charge_gathered(placing->seg, sf_sectors_to_bytes(placing->nsectors));
	sfi_arena_advance(placing->seg, placing->nsectors);
	return dst;
}

/* ---- ends ---- */

/*
 * Is the whole transaction one write, which can be durable by itself (RWF_DSYNC)?  That
 * saves a small transaction the sync of the file.
 */
static bool
single_write(void)
{
	return sfi_extent_no_dirty_files() && buffers[current].nextents == 1 &&
		!buffers[current].started;
}

static bool
any_logs_in_flight(const GatherBuffer *buf)
{
	for (int i = 0; i < buf->nextents; i++)
		if (sfi_extent_logs_in_flight(&buf->extents[i]))
			return true;
	return false;
}

/*
 * Put into WAL what is in flight, in the time that the disk needs.  An error from
 * here on ends the transaction, which gives checkpoints free.
 */
static void
log_in_flight(GatherBuffer *buf)
{
	sf_server_delay_checkpoint_begin();
	begin_undivided();
	drop_gone_extents(buf);
	for (int i = 0; i < buf->nextents; i++)
		if (sfi_extent_logs_in_flight(&buf->extents[i]))
			sfi_extent_log(&buf->extents[i], bytes_of(buf, &buf->extents[i]));
	end_undivided();
	SF_FAULT(commit_data_in_flight);
}

void
sfi_gather_flush_all(bool durable)
{
	GatherBuffer *buf = &buffers[current];
	GatherBuffer *other = &buffers[1 - current];

	require_undamaged();
	SF_FAULT(flush_before_write);
	/* in flight while the other buffer is waited for */
	if (buf->nextents > 0)
		start_buffer(buf, durable && single_write());
	complete_buffer(other);
	if (durable && any_logs_in_flight(buf))
		log_in_flight(buf);
	complete_buffer(buf);
	sf_server_delay_checkpoint_end();
	if (durable)
		sfi_extent_sync_files();
	if (!SF_BREAKS(g3))
		sfi_arena_skip_partial_blocks();
	check_tails(buf);
	check_tails(other);
}

/* Is a write of the buffer in flight? */
static bool
is_in_flight(const GatherBuffer *buf)
{
	for (int i = 0; i < buf->nextents; i++)
		if (buf->extents[i].started && buf->extents[i].io.in_flight)
			return true;
	return false;
}

void
sfi_gather_reset(void)
{
	for (int i = 0; i < 2; i++)
	{
		GatherBuffer *buf = &buffers[i];

		SF_INVARIANT(rule_1, !is_in_flight(buf));
		buf->fill = 0;
		buf->nextents = 0;
		buf->started = false;
	}
	sfi_extent_forget_files();
	damaged = false;
}

/* Copy what an extent has of the range to its places in dst (NULL: only count the sectors). */
static uint32
overlay_extent(GatherBuffer *buf, SfExtent *extent, uint64 start, uint32 nsectors, char *dst)
{
	uint64		from = Max(start, extent->start);
	uint64		to = Min(start + nsectors, ExtentEnd(extent));

	if (from >= to)
		return 0;
	SF_ASSERT(from >= start && to - from <= nsectors);
	if (dst != NULL)
		memcpy(dst + sf_sectors_to_bytes(from - start),
			   buf->mem + extent->offset + sf_sectors_to_bytes(from - extent->start),
			   sf_sectors_to_bytes(to - from));
	return to - from;
}

uint32
sf_write_overlay(SfStorage storage, uint64 start_sector, uint32 nsectors, char *dst)
{
	uint32		copied = 0;

	for (int b = 0; b < 2; b++)
		for (int i = 0; i < buffers[b].nextents; i++)
			if (SfStorageEquals(buffers[b].extents[i].seg->storage, storage))
				copied += overlay_extent(&buffers[b], &buffers[b].extents[i], start_sector,
										 nsectors, dst);
	return copied;
}

void
sf_write_flush(void)
{
	if (buffers[0].nextents + buffers[1].nextents > 0)
		sfi_gather_flush_all(false);
}
