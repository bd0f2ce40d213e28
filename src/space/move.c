/*-------------------------------------------------------------------------
 *
 * move.c
 *	  The storage of a segment, copied into another tablespace.
 *
 * The copy is physical: same incarnation, same sectors, so that all locators
 * hold.  First the pages, durably: the header tells the sweeper whose the files
 * are.  Then the data, 1 MB at a time: used blocks are copied, all others are
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
#include "space/pages.h"
#include "space/storage.h"
#include "storage/lmgr.h"

#define CHUNK_BYTES			(1024 * 1024)
#define CHUNK_SECTORS		(CHUNK_BYTES / SF_SECTOR_SIZE)

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

static char *chunk;

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

/* The next run of used blocks in [*first + *count, limit) of the map page. */
static bool
next_used(const Move *move, uint32 limit, uint32 *first, uint32 *count)
{
	uint32		block = *first + *count;

	SF_ASSERT(limit <= SF_MAP_BLOCKS && block <= limit);
	while (block < limit && move->used[block] == 0)
		block++;
	*first = block;
	while (block < limit && move->used[block] != 0)
		block++;
	*count = block - *first;
	return *count > 0;
}

/*
 * Read or write part of the chunk, and wait for it; was it written through the page cache?
 */
static bool
transfer(SfStorage storage, bool is_write, uint64 start, uint32 nsectors, char *buf)
{
	static SfIo io;

	io.files = sf_io_open(storage, false);
	io.segment_offset = sf_sectors_to_bytes(start);
	io.buf = buf;
	io.len_bytes = sf_sectors_to_bytes(nsectors);
	io.is_write = is_write;
	io.durable = false;
	sf_io_start(&io);
	sf_io_wait(&io);
	return is_write && io.cached;
}

/*
 * Copy one chunk, and log what is used of it.
 *
 * All of the chunk is written, also where nothing is used, since new files are made of
 * zeros really written (grow.c).  Only what is used is read and logged: what lies in
 * free blocks is of no meaning, and a checksum of a value never covers it.
 */
static void
copy_chunk(Move *move, uint64 start, uint32 nsectors)
{
	uint64		page_start = sf_map_start(sf_map_of(start));
	uint32		from = sf_block_of(start - page_start);
	uint32		limit = from + sf_block_of(nsectors);
	uint32		count;

#define RunSector(block)	(page_start + (uint64) (block) * SF_BLOCK_SECTORS)
#define RunPlace(block)		(chunk + (Size) ((block) - from) * SF_BLOCK_SIZE)

	SF_ASSERT(nsectors > 0 && nsectors <= CHUNK_SECTORS && limit <= SF_MAP_BLOCKS);
	memset(chunk, 0, sf_sectors_to_bytes(nsectors));
	count = 0;
	for (uint32 block = from; next_used(move, limit, &block, &count);)
		(void) transfer(move->from.storage, false, RunSector(block), sf_blocks_to_sectors(count),
						RunPlace(block));

	/* a backup that copies the disk must not have the record only */
	if (transfer(move->to.storage, true, start, nsectors, chunk) && move->to.logged_data)
		sf_io_sync(move->to.storage, sf_sectors_to_bytes(start), sf_sectors_to_bytes(nsectors));
	SF_FAULT(move_chunk);
	count = 0;
	for (uint32 block = from; move->to.logged_data && next_used(move, limit, &block, &count);)
		sf_space_log_data(&move->to, RunSector(block), RunPlace(block),
						  sf_blocks_to_sectors(count));
}

/*
 * Copy all data, in the order of sectors.  Files are made one after the other, and a
 * GROW record comes before the data that it makes room for, so that replay on a
 * standby never writes beyond the end of a file.
 */
static void
copy_data(Move *move)
{
	for (uint64 start = 0; start < move->total_sectors; start += CHUNK_SECTORS)
	{
		CHECK_FOR_INTERRUPTS();
		if (start % SF_MAP_SECTORS == 0)
			load_used(move, start);
		if (start % SF_FILE_SECTORS == 0 && start > 0)
			sf_io_files_add(move->to.storage, start / SF_FILE_SECTORS);
		if (start % STEP_SECTORS == 0)
			log_size(move, Min(start + STEP_SECTORS, move->total_sectors));
		copy_chunk(move, start, Min(CHUNK_SECTORS, move->total_sectors - start));
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
	move.total_sectors = sf_space_header(segrel).total_sectors;
	if (chunk == NULL)
		chunk = sf_io_buffer_alloc(CHUNK_BYTES);

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
