/*-------------------------------------------------------------------------
 *
 * gather.c
 *	  The write gather cache (SecureFiles paper, "write gather cache").
 *
 * Two buffers a backend: one fills while the other is in flight, and a long
 * piece of the one that fills is in flight already.  A buffer is a list of
 * pieces, each a contiguous range of sectors of one segment, laid out so that
 * blocks of the segment are aligned blocks of the buffer.  Values of one
 * transaction follow one another in a piece, whatever their sizes.
 *
 * G1	a piece starts on a block;
 * G2	no block is in two pieces: a partly filled tail block moves along to the
 *		piece that continues it (carry_tail);
 * G3	a partly filled block is written only by a flush after which the arena
 *		goes on with the next block.
 *
 * In a logging column the bytes go to WAL too.  A checkpoint, or a base backup,
 * that begins after their record must have them in the files.  So the record
 * is inserted when the write is complete; or, at pre-commit, while it is in
 * flight, with checkpoints held up until it is complete (DELAY_CHKPT_COMPLETE).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stats/stats.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "write/write_internal.h"

#define MAX_PIECES		64
#define MAX_CARRIED		8		/* tail blocks that go on in the next buffer */

typedef struct Piece
{
	SfSegment  *seg;			/* this transaction's copy */
	uint64		start;			/* first sector, of a whole block */
	uint32		nsectors;		/* filled */
	uint32		offset;			/* in the buffer, in bytes */
	bool		started;		/* its write has been started: it grows no
								 * more */
	bool		logged;			/* it is in WAL, if it has to be */
	SfIo		io;
} Piece;

typedef struct GatherBuffer
{
	char	   *mem;
	Size		size;
	uint32		fill;			/* bytes; a multiple of a block */
	int			npieces;
	bool		started;		/* the writes of all pieces have been started */
	Piece		pieces[MAX_PIECES];
} GatherBuffer;

/* A data file that this transaction wrote to and has not made durable. */
typedef struct DirtyFile
{
	SfSegment  *seg;
	uint64		file_no;
} DirtyFile;

static GatherBuffer buffers[2];
static int	current;

/*
 * A write was begun and did not come to its end: an ERROR came between.  A
 * subtransaction may survive that, but values of outer ones may be lost in the
 * buffers, so the transaction must not commit.
 */
static bool damaged;

static DirtyFile *dirty;		/* in the transaction's memory */
static int	ndirty;
static int	dirty_size;

#define PieceEnd(p)			((p)->start + (p)->nsectors)
#define BLOCK_ROUND_UP(n)	(((n) + SF_BLOCK_SIZE - 1) / SF_BLOCK_SIZE * SF_BLOCK_SIZE)

/*
 * What is in between is done whole, or the transaction is lost.  A cancel or
 * a timeout waits: a buffer is written in milliseconds.
 */
static void
begin_undivided(void)
{
	damaged = true;
	HOLD_INTERRUPTS();
}

static void
end_undivided(void)
{
	RESUME_INTERRUPTS();
	damaged = false;
}

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

/* ---- flushing ---- */

static void
note_dirty(Piece *piece)
{
	uint64		file_no = piece->start / SF_FILE_SECTORS;

	for (int i = 0; i < ndirty; i++)
		if (dirty[i].file_no == file_no && dirty[i].seg == piece->seg)
			return;
	if (ndirty == dirty_size)
	{
		dirty_size = Max(16, dirty_size * 2);
		dirty = dirty == NULL
			? MemoryContextAlloc(sfi_write_context(), dirty_size * sizeof(DirtyFile))
			: repalloc(dirty, dirty_size * sizeof(DirtyFile));
	}
	dirty[ndirty++] = (DirtyFile) {piece->seg, file_no};
}

/* Is the column's data to pass through the page cache when written? */
static bool
write_buffered(SfSegment *seg)
{
	return sf_space_column(seg)->options.cache == SF_CACHE_FULL;
}

/* ---- what must hold (G1 to G3) ---- */

#ifdef SF_ASSERTIONS
static bool
share_block(const Piece *a, const Piece *b)
{
	return a->nsectors > 0 && b->nsectors > 0 &&
		a->start < TYPEALIGN(SF_BLOCK_SECTORS, PieceEnd(b)) &&
		b->start < TYPEALIGN(SF_BLOCK_SECTORS, PieceEnd(a)) &&
		SfStorageEquals(a->seg->storage, b->seg->storage);
}

/* A piece that is begun or written.  Goes through all pieces, so not for each unit. */
static void
check_piece(const GatherBuffer *buf, const Piece *piece)
{
	uint32		padded = BLOCK_ROUND_UP(piece->nsectors * SF_SECTOR_SIZE);

	SF_INVARIANT(G1, piece->start % SF_BLOCK_SECTORS == 0);
	SF_ASSERT(piece->offset % SF_BLOCK_SIZE == 0 && piece->offset + padded <= buf->size);
	for (int b = 0; b < 2; b++)
		for (int i = 0; i < buffers[b].npieces; i++)
			SF_INVARIANT(G2, &buffers[b].pieces[i] == piece ||
						 !share_block(&buffers[b].pieces[i], piece));
}

/* The buffer is being written: nothing more goes to a block that one of its pieces fills in part. */
static void
check_tails(const GatherBuffer *buf)
{
	for (int i = 0; i < buf->npieces; i++)
		SF_INVARIANT(G3, buf->pieces[i].nsectors % SF_BLOCK_SECTORS == 0 ||
					 !sfi_arena_goes_on(buf->pieces[i].seg, PieceEnd(&buf->pieces[i])));
}
#else
#define check_piece(buf, piece)		((void) 0)
#define check_tails(buf)			((void) 0)
#endif

static bool
gather_is_valid(void)
{
	const GatherBuffer *buf = &buffers[current];

	return buf->npieces >= 0 && buf->npieces < MAX_PIECES && buf->fill <= buf->size &&
		buf->fill % SF_BLOCK_SIZE == 0 && (buf->npieces > 0 || buf->fill == 0) &&
		(buf->npieces == 0 || buf->pieces[buf->npieces - 1].offset < buf->size);
}

/* ---- writing ---- */

/* Start the write of one piece; what is behind its end in the last block is
 * zeros. */
static void
start_piece(GatherBuffer *buf, Piece *piece, bool durable)
{
	uint32		len = piece->nsectors * SF_SECTOR_SIZE;
	uint32		padded = BLOCK_ROUND_UP(len);
	SfStatCounters *stats = sf_stats_local(piece->seg->table_oid, piece->seg->attnum);

	SF_ASSERT(len > 0 && !piece->started);
	check_piece(buf, piece);
	memset(buf->mem + piece->offset + len, 0, padded - len);
	piece->io.files = sf_io_open(piece->seg->storage, write_buffered(piece->seg));
	piece->io.segment_offset = piece->start * SF_SECTOR_SIZE;
	piece->io.buf = buf->mem + piece->offset;
	piece->io.len_bytes = padded;
	piece->io.is_write = true;
	piece->io.durable = durable;
	if (!durable)
		note_dirty(piece);
	piece->started = true;
	sf_io_start(&piece->io);
	stats->flushes++;
	stats->nontransformed_flushes++;
	stats->direct_write_bytes += padded;
	stats->direct_write_ops++;
}

/* Empty the pieces of storage that is not there any more. */
static void
drop_gone_pieces(GatherBuffer *buf)
{
	for (int i = 0; i < buf->npieces; i++)
	{
		if (buf->pieces[i].nsectors == 0 || sf_space_is_usable(buf->pieces[i].seg))
			continue;
		if (buf->pieces[i].started)
			sf_io_reap_all();
		buf->pieces[i].nsectors = 0;
	}
}

static void
start_buffer(GatherBuffer *buf, bool durable)
{
	if (buf->started)
		return;
	begin_undivided();
	drop_gone_pieces(buf);
	buf->started = true;
	for (int i = 0; i < buf->npieces; i++)
		if (buf->pieces[i].nsectors > 0 && !buf->pieces[i].started)
			start_piece(buf, &buf->pieces[i], durable);
	end_undivided();
}

static void
wait_piece(Piece *piece)
{
	if (piece->nsectors == 0)
		return;
	SF_ASSERT(piece->started);
	sf_io_wait(&piece->io);
	sf_stats_local(piece->seg->table_oid, piece->seg->attnum)->ioreap_time_us +=
		sf_io_take_counts().reap_us;
}

static void
log_piece(GatherBuffer *buf, Piece *piece)
{
	SF_ASSERT(piece->started || piece->nsectors == 0);
	if (!piece->logged && piece->seg->logged_data && piece->nsectors > 0)
		sf_space_log_data(piece->seg, piece->start, buf->mem + piece->offset,
						  piece->nsectors);
	piece->logged = true;
}

/*
 * Wait for the pieces of a buffer, one after the other, and put the bytes of
 * logging columns into WAL while the next ones are still in flight.
 */
static void
complete_buffer(GatherBuffer *buf)
{
	begin_undivided();
	drop_gone_pieces(buf);
	for (int i = 0; i < buf->npieces; i++)
	{
		wait_piece(&buf->pieces[i]);
		log_piece(buf, &buf->pieces[i]);
	}
	end_undivided();
}

/* Wait for a buffer and make it empty. */
static void
recycle_buffer(GatherBuffer *buf)
{
	SF_ASSERT(buf->started || buf->npieces == 0);
	complete_buffer(buf);
	buf->fill = 0;
	buf->npieces = 0;
	buf->started = false;
}

/* ---- filling ---- */

/*
 * Buffers for the largest gather size that can be set.  What is not used of
 * them is address space only.
 */
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

static Piece *
last_piece(GatherBuffer *buf)
{
	return buf->npieces == 0 ? NULL : &buf->pieces[buf->npieces - 1];
}

/* The piece of a buffer that ends in the middle of a block at that sector. */
static Piece *
find_open_tail(GatherBuffer *buf, const SfSegment *seg, uint64 sector)
{
	if (sector % SF_BLOCK_SECTORS == 0)
		return NULL;
	for (int i = 0; i < buf->npieces; i++)
		if (PieceEnd(&buf->pieces[i]) == sector &&
			SfStorageEquals(buf->pieces[i].seg->storage, seg->storage))
			return &buf->pieces[i];
	return NULL;
}

/*
 * Move the partly filled tail block of a piece to the start of another piece,
 * which continues it (G2).
 */
static void
carry_tail(GatherBuffer *from_buf, Piece *from, GatherBuffer *to_buf, Piece *to)
{
	uint32		n = from->nsectors % SF_BLOCK_SECTORS;

	from->nsectors -= n;
	to->nsectors = n;
	memcpy(to_buf->mem + to->offset,
		   from_buf->mem + from->offset + (Size) from->nsectors * SF_SECTOR_SIZE,
		   n * SF_SECTOR_SIZE);
	if (SF_BREAKS(g2))
		from->nsectors += n;
}

/*
 * Begin a piece of the current buffer at a sector.  If that is in a block that
 * a piece of from_buf has begun, the piece takes the block over.
 */
static Piece *
begin_piece(GatherBuffer *from_buf, SfSegment *seg, uint64 sector)
{
	GatherBuffer *buf = &buffers[current];
	Piece	   *tail = find_open_tail(from_buf, seg, sector);
	Piece	   *piece = &buf->pieces[buf->npieces++];

	SF_ASSERT(!from_buf->started && buf->npieces <= MAX_PIECES);
	piece->seg = seg;
	piece->start = sector / SF_BLOCK_SECTORS * SF_BLOCK_SECTORS + (SF_BREAKS(g1) ? 1 : 0);
	piece->nsectors = 0;
	piece->offset = buf->fill;
	piece->started = piece->logged = false;
	if (tail != NULL)
		carry_tail(from_buf, tail, buf, piece);
	check_piece(buf, piece);
	SF_ASSERT(PieceEnd(piece) == sector);
	return piece;
}

/* Does the buffer take nsectors more at that place? */
static bool
has_room(GatherBuffer *buf, uint32 nsectors)
{
	return buf->npieces < MAX_PIECES - 1 &&
		buf->fill < sf_write_gather_bytes() &&
		buf->fill + SF_BLOCK_SIZE + nsectors * SF_SECTOR_SIZE <= buf->size;
}

/*
 * The current buffer is full: fill the other one.  Tail blocks that are still
 * open (their arena goes on in them) are carried over before the full one is
 * written; a few, so that the other buffer is not full with them.  For the
 * rest the arena goes on with the next block (G3), except for the one of the
 * bytes to come, at start_sector.
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
	for (int i = full->npieces - 1; i >= 0; i--)
	{
		Piece	   *piece = &full->pieces[i];
		bool		wanted = PieceEnd(piece) == start_sector &&
		SfStorageEquals(piece->seg->storage, seg->storage);

		if (piece->nsectors % SF_BLOCK_SECTORS == 0 ||
			!(wanted || sfi_arena_goes_on(piece->seg, PieceEnd(piece))))
			continue;
		if (next->npieces >= MAX_CARRIED && !wanted)
		{
			sfi_arena_skip_partial_block(piece->seg, PieceEnd(piece));
			continue;
		}
		begin_piece(full, piece->seg, PieceEnd(piece));
		next->fill += SF_BLOCK_SIZE;
	}
	start_buffer(full, false);
	check_tails(full);
}

/* Does a piece go on with those sectors?  No piece crosses a map page. */
static bool
goes_on(const Piece *piece, const SfSegment *seg, uint64 start_sector, uint32 nsectors)
{
	return PieceEnd(piece) == start_sector &&
		piece->start / SF_MAP_SECTORS == (start_sector + nsectors - 1) / SF_MAP_SECTORS &&
		SfStorageEquals(piece->seg->storage, seg->storage);
}

/* Write a piece that has become long, while more comes. */
static void
write_early(GatherBuffer *buf, Piece *piece)
{
	begin_undivided();
	if (sf_space_is_usable(piece->seg))
		start_piece(buf, piece, false);
	else
		piece->nsectors = 0;
	end_undivided();
}

void
sfi_gather_start_early(void)
{
	GatherBuffer *buf = &buffers[current];
	Piece	   *piece = last_piece(buf);

	SF_ASSERT(piece != NULL && gather_is_valid());
	if (piece->started || piece->nsectors < SF_GATHER_EARLY_SECTORS ||
		piece->nsectors % SF_BLOCK_SECTORS != 0)
		return;
	SF_FAULT(flush_before_write);
	write_early(buf, piece);
}

/*
 * Same, for a piece that ends in the middle of a block: the piece that goes on
 * at start_sector takes that block along.
 */
static Piece *
write_early_but_tail(GatherBuffer *buf, Piece *piece, SfSegment *seg, uint64 start_sector)
{
	Piece	   *next;

	SF_FAULT(flush_before_write);
	next = begin_piece(buf, seg, start_sector);
	write_early(buf, piece);
	return next;
}

char *
sfi_gather_reserve(SfSegment *seg, uint64 start_sector, uint32 nsectors)
{
	GatherBuffer *buf = &buffers[current];
	Piece	   *piece;
	char	   *dst;

	SF_ASSERT(nsectors > 0);
	require_undamaged();
	allocate_buffers();
	SF_ASSERT(gather_is_valid());
	if (nsectors * SF_SECTOR_SIZE >= SF_IO_LARGE)
		sf_io_use_memory();
	if (buf->started)
		recycle_buffer(buf);
	if (!has_room(buf, nsectors))
	{
		switch_buffers(seg, start_sector);
		buf = &buffers[current];
	}
	piece = last_piece(buf);
	if (piece == NULL || piece->started || !goes_on(piece, seg, start_sector, nsectors))
		piece = begin_piece(buf, seg, start_sector);
	else if (piece->nsectors >= SF_GATHER_EARLY_SECTORS)
		piece = write_early_but_tail(buf, piece, seg, start_sector);
	SF_ASSERT(PieceEnd(piece) == start_sector);
	dst = buf->mem + piece->offset + (Size) piece->nsectors * SF_SECTOR_SIZE;
	piece->nsectors += nsectors;
	buf->fill = piece->offset + BLOCK_ROUND_UP(piece->nsectors * SF_SECTOR_SIZE);
	SF_ASSERT(!piece->started && gather_is_valid());
	return dst;
}

/* ---- ends ---- */

/* Is the whole transaction one write, which can be durable by itself? */
static bool
single_write(void)
{
	return ndirty == 0 && buffers[current].npieces == 1 && !buffers[current].started;
}

static void
sync_dirty_files(void)
{
	if (SF_FAULT_SKIPS(commit_before_sync))
		ndirty = 0;
	for (int i = 0; i < ndirty; i++)
		if (sf_space_is_usable(dirty[i].seg) ||
			(sf_space_keeps_dropped() && !sf_space_is_removed(dirty[i].seg->storage)))
			sf_io_sync(dirty[i].seg->storage, dirty[i].file_no * SF_FILE_SIZE, SF_FILE_SIZE);
	ndirty = 0;
}

/*
 * Put into WAL what is in flight, in the time that the disk needs.  Whoever
 * throws from here on ends the transaction, which gives checkpoints free.
 */
static void
log_in_flight(GatherBuffer *buf)
{
	MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
	begin_undivided();
	drop_gone_pieces(buf);
	for (int i = 0; i < buf->npieces; i++)
		log_piece(buf, &buf->pieces[i]);
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
	if (buf->npieces > 0)
		start_buffer(buf, durable && single_write());
	complete_buffer(other);
	if (durable)
		log_in_flight(buf);
	complete_buffer(buf);
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_COMPLETE;
	if (durable)
		sync_dirty_files();
	if (!SF_BREAKS(g3))
		sfi_arena_skip_partial_blocks();
	check_tails(buf);
	check_tails(other);
}

static bool
is_in_flight(const GatherBuffer *buf)
{
	for (int i = 0; i < buf->npieces; i++)
		if (buf->pieces[i].started && buf->pieces[i].io.in_flight)
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
		buf->npieces = 0;
		buf->started = false;
	}
	dirty = NULL;
	ndirty = dirty_size = 0;
	damaged = false;
}

/* Copy what one piece holds of the range; returns how many sectors. */
static uint32
overlay_piece(GatherBuffer *buf, Piece *piece, uint64 start, uint32 nsectors, char *dst)
{
	uint64		from = Max(start, piece->start);
	uint64		to = Min(start + nsectors, PieceEnd(piece));

	if (from >= to)
		return 0;
	if (dst != NULL)
		memcpy(dst + (from - start) * SF_SECTOR_SIZE,
			   buf->mem + piece->offset + (from - piece->start) * SF_SECTOR_SIZE,
			   (to - from) * SF_SECTOR_SIZE);
	return to - from;
}

uint32
sf_write_overlay(SfStorage storage, uint64 start_sector, uint32 nsectors, char *dst)
{
	uint32		copied = 0;

	for (int b = 0; b < 2; b++)
		for (int i = 0; i < buffers[b].npieces; i++)
			if (SfStorageEquals(buffers[b].pieces[i].seg->storage, storage))
				copied += overlay_piece(&buffers[b], &buffers[b].pieces[i], start_sector,
										nsectors, dst);
	return copied;
}

void
sf_write_flush(void)
{
	if (buffers[0].npieces + buffers[1].npieces > 0)
		sfi_gather_flush_all(false);
}
