/*-------------------------------------------------------------------------
 *
 * move.c
 *	  The storage of a segment, copied into another tablespace.
 *
 * The copy is physical: same incarnation, same sectors, so that all locators
 * hold.  First the pages, durably: the header tells the sweeper whose the files
 * are.  Then the data, in chunks of 1 MB: used blocks are copied, all others are
 * zeros.  Nothing of it counts before the transaction commits, and all of it is
 * durable then, so that a crash at any point leaves one of the two whole.
 *
 * WAL, for standbys and backups:
 *	 - the pages, whole (sfi_copy_pages());
 *	 - GROW records, without pages, for the directory and the size of the files:
 *	   when the directory is there, before each step, and at the end;
 *	 - DATA records, in a logging column.
 * A base backup that begins after a record replays neither that nor what comes
 * before, so what a record stands for has to lie in the files by then: the
 * directory is made before the first GROW record, and each chunk is written
 * before its DATA record is inserted.  Then no checkpoint needs to be held up,
 * as in a commit that inserts records while its writes are in flight.  A file
 * that is shorter in such a backup gets its size from the last GROW record.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/storage.h"
#include "storage/lmgr.h"

#define CHUNK_BYTES			(1024 * 1024)
#define CHUNK_SECTORS		(CHUNK_BYTES / SF_SECTOR_SIZE)
#define CHUNK_BLOCKS		(CHUNK_BYTES / SF_BLOCK_SIZE)

/* so much does redo of one GROW record write, which cannot be interrupted */
#define STEP_SECTORS		(64 * CHUNK_SECTORS)

/* A move in progress. */
typedef struct Move
{
	Relation	segrel;
	SfSegment	from;
	SfSegment	to;				/* the same but for the storage */
	uint64		total_sectors;
	uint8		used[SF_MAP_BLOCKS];	/* of the map page at hand */
} Move;

/* One of the chunks that are on their way. */
typedef struct Chunk
{
	char	   *mem;
	uint64		start;			/* first sector */
	uint32		nblocks;
	bool		is_read;		/* something of it is used, and read */
	uint8		used[CHUNK_BLOCKS];
	SfIo		read;
	SfIo		write;
} Chunk;

#define CHUNKS				3
#define BlockPlace(chunk, block)	((chunk)->mem + (Size) (block) * SF_BLOCK_SIZE)

static Chunk chunks[CHUNKS];

StaticAssertDecl(SF_MAP_SECTORS % CHUNK_SECTORS == 0, "a chunk lies on one map page");
StaticAssertDecl(SF_FILE_SECTORS % STEP_SECTORS == 0, "a step lies in one file");

static void
read_page_to_move(BlockNumber page, char *block, void *arg)
{
	Move	   *move = arg;

	sfi_page_image(move->from.storage, page, RBM_NORMAL, block);
	sfi_page_require_sound(block, move->from.storage, SfStorageRel(move->from.storage), page);
}

/*
 * For redo: the directory is there, and files of that size.  The record has no pages,
 * since those were logged whole before.
 */
static void
log_size(Move *move, uint64 total_sectors)
{
	xl_sf_size	rec = {SF_WAL_VERSION, move->to.storage, total_sectors};

	SF_ASSERT(total_sectors <= move->total_sectors && total_sectors % SF_BLOCK_SECTORS == 0);
	if (!XLogIsNeeded())
		return;					/* wal_level=minimal: they are durable */
	XLogBeginInsert();
	XLogRegisterData((char *) &rec, sizeof(rec));
	XLogInsert(SF_RMGR_ID, XLOG_SF_GROW);
}

/* Copy the used plane of the map page that a sector lies on. */
static void
load_used(Move *move, uint64 start)
{
	Buffer		buf = sfi_page_read(move->segrel, SF_MAP_PAGE(sf_map_of(start)),
									SF_PAGE_MAP, BUFFER_LOCK_SHARE);

	memcpy(move->used, SfPageMap(BufferGetPage(buf))->used, sizeof(move->used));
	UnlockReleaseBuffer(buf);
}

/* The next run of used blocks of a chunk, from *first + *count on. */
static bool
next_used(const Chunk *chunk, uint32 *first, uint32 *count)
{
	uint32		block = *first + *count;

	SF_ASSERT(chunk->nblocks <= CHUNK_BLOCKS && block <= chunk->nblocks);
	while (block < chunk->nblocks && chunk->used[block] == 0)
		block++;
	*first = block;
	while (block < chunk->nblocks && chunk->used[block] != 0)
		block++;
	*count = block - *first;
	return *count > 0;
}

/* Start to read or write blocks [first, end) of a chunk. */
static void
start_transfer(SfStorage storage, Chunk *chunk, SfIo *io, uint32 first, uint32 end)
{
	SF_ASSERT(first < end && end <= chunk->nblocks && !io->in_flight);
	io->files = sf_io_open(storage, false);
	io->segment_offset = sf_sectors_to_bytes(chunk->start) + (uint64) first * SF_BLOCK_SIZE;
	io->buf = BlockPlace(chunk, first);
	io->len_bytes = (end - first) * SF_BLOCK_SIZE;
	io->durable = false;
	sf_io_start(io);
}

/* ---- the three steps of a chunk ---- */

/*
 * Start to read what is used of a chunk, in one piece: what lies between is read, too, and
 * of no meaning.
 */
static void
read_chunk(Move *move, Chunk *chunk, uint64 start, uint32 nsectors)
{
	uint32		first = 0;
	uint32		count = 0;
	uint32		end;

	SF_ASSERT(nsectors > 0 && nsectors <= CHUNK_SECTORS);
	if (start % SF_MAP_SECTORS == 0)
		load_used(move, start);
	chunk->start = start;
	chunk->nblocks = sf_block_of(nsectors);
	memcpy(chunk->used, move->used + sf_block_of(start % SF_MAP_SECTORS), chunk->nblocks);
	chunk->is_read = next_used(chunk, &first, &count);
	if (!chunk->is_read)
		return;
	for (end = chunk->nblocks; chunk->used[end - 1] == 0;)
		end--;
	start_transfer(move->from.storage, chunk, &chunk->read, first, end);
}

/*
 * Wait for a chunk that is read in one piece.  Returns false where it cannot be read.  To
 * catch that error takes no subtransaction: sf_io_wait() takes nothing that an abort would
 * have to give back.
 */
static bool
wait_whole(Chunk *chunk)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool whole = true;

	PG_TRY();
	{
		sf_io_wait(&chunk->read);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_IO_ERROR && geterrcode() != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		whole = false;
	}
	PG_END_TRY();
	return whole;
}

/*
 * Wait for a chunk.  Where its one piece cannot be read, it may be that nobody needs what
 * fails, for example on a disk that begins to fail; so then each run is read by itself, and
 * what fails is an error.
 */
static void
wait_read(Move *move, Chunk *chunk)
{
	uint32		first = 0;
	uint32		count = 0;

	if (wait_whole(chunk))
		return;
	while (next_used(chunk, &first, &count))
	{
		start_transfer(move->from.storage, chunk, &chunk->read, first, first + count);
		sf_io_wait(&chunk->read);
	}
}

/* Clear what is not used of a chunk. */
static void
clear_unused(Chunk *chunk)
{
	uint32		from = 0;
	uint32		first = 0;
	uint32		count = 0;

	while (next_used(chunk, &first, &count))
	{
		memset(BlockPlace(chunk, from), 0, (Size) (first - from) * SF_BLOCK_SIZE);
		from = first + count;
	}
	memset(BlockPlace(chunk, from), 0, (Size) (chunk->nblocks - from) * SF_BLOCK_SIZE);
}

/*
 * Start to write a chunk that is being read.
 *
 * All of it is written, also where nothing is used, so that there is room for all of a file
 * (io/grow_file.c).  Only what is used is logged: what lies in free blocks is of no
 * meaning, and a checksum of a value never covers it.
 */
static void
write_chunk(Move *move, Chunk *chunk)
{
	uint64		start = chunk->start;

	SF_ASSERT(!chunk->write.in_flight && start < move->total_sectors);
	if (start % SF_FILE_SECTORS == 0 && start > 0)
		sf_io_files_add((SfFileId) {move->to.storage, start / SF_FILE_SECTORS});
	if (start % STEP_SECTORS == 0)
		log_size(move, Min(start + STEP_SECTORS, move->total_sectors));
	if (chunk->is_read)
		wait_read(move, chunk);
	clear_unused(chunk);
	chunk->write.is_write = true;
	start_transfer(move->to.storage, chunk, &chunk->write, 0, chunk->nblocks);
}

/* A chunk that is being written: log what is used of it, when it is written. */
static void
log_chunk(Move *move, Chunk *chunk)
{
	uint32		first = 0;
	uint32		count = 0;

	sf_io_wait(&chunk->write);
	/* a backup that copies the disk must not have the record only */
	if (chunk->write.cached && move->to.logged_data)
		sf_io_sync(move->to.storage, chunk->write.segment_offset, chunk->write.len_bytes);
	SF_FAULT(move_chunk);
	while (move->to.logged_data && next_used(chunk, &first, &count))
		sf_space_log_data(&move->to, chunk->start + (uint64) first * SF_BLOCK_SECTORS,
						  BlockPlace(chunk, first), sf_blocks_to_sectors(count));
}

/*
 * Copy all data, in the order of sectors: one chunk is read while the one before it is
 * written, and the one before that is logged.  Files are made one after the other, and a
 * GROW record comes before the data that it makes room for, so that replay on a standby
 * never writes beyond the end of a file.
 */
static void
copy_data(Move *move)
{
	uint64		n = (move->total_sectors + CHUNK_SECTORS - 1) / CHUNK_SECTORS;

	for (uint64 i = 0; i < n + 2; i++)
	{
		uint64		start = i * CHUNK_SECTORS;

		CHECK_FOR_INTERRUPTS();
		if (i < n)
			read_chunk(move, &chunks[i % CHUNKS], start,
					   Min(CHUNK_SECTORS, move->total_sectors - start));
		if (i >= 1 && i - 1 < n)
			write_chunk(move, &chunks[(i - 1) % CHUNKS]);
		if (i >= 2)
			log_chunk(move, &chunks[(i - 2) % CHUNKS]);
	}
	sf_io_sync(move->to.storage, 0, sf_sectors_to_bytes(move->total_sectors));
}

void
sf_space_move_storage(Relation segrel, SfStorage to)
{
	Move		move;

	SF_ASSERT(CheckRelationLockedByMe(segrel, AccessExclusiveLock, false));
	SF_ASSERT(!SfStorageEquals(SfRelStorage(segrel), to));
	move.segrel = segrel;
	move.from = move.to = *sf_space_open_rel(segrel);
	move.to.storage = to;
	move.total_sectors = sfi_header(segrel).total_sectors;
	for (int i = 0; i < CHUNKS; i++)
		if (chunks[i].mem == NULL)
			chunks[i].mem = sf_io_buffer_alloc(CHUNK_BYTES);

	/* noted first, so that an ERROR in the middle leaves nothing behind */
	sfi_storage_note_made(to);
	sfi_copy_pages(to, RelationGetNumberOfBlocks(segrel), read_page_to_move, &move);
	if (sf_io_files_may_exist(move.from.storage, ERROR))
	{
		sf_io_files_create(to);
		log_size(&move, 0);
		copy_data(&move);
		log_size(&move, move.total_sectors);
	}
	else
		sf_io_files_clear(to);
	SF_FAULT(move_done);
	sf_space_drop_storage(move.from.storage);
}
