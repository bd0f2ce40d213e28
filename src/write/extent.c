/*-------------------------------------------------------------------------
 *
 * extent.c
 *	  The way of one extent of the gather cache to disk, and to WAL; and the files that
 *	  are to be synced for that.
 *
 * In a logging column the bytes go to WAL too.  A checkpoint, or a base backup, that begins
 * after their record must have them in the files.  So the record is inserted when the write
 * is complete; or, at pre-commit, while it is in flight, with checkpoints held up until it is
 * complete (DELAY_CHKPT_COMPLETE).
 *
 * Such data need not be durable at commit: its flush is left to the syncer (io/README.md).
 * Then the record always comes when the write is complete, and noted: it is the syncer
 * that holds checkpoints up.  Data that is in no record is flushed before the commit; so
 * is what was written while no syncer took notes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/lend.h"
#include "write/extent.h"

/* A data file that this transaction wrote to and has not made durable. */
typedef struct DirtyFile
{
	SfSegment  *seg;
	uint64		file_no;
} DirtyFile;

static DirtyFile *dirty;		/* in the transaction's memory */
static int64 ndirty;
static int64 dirty_size;

/* ---- files ---- */

/*
 * Note the file of an extent that will have to be synced.  The last few files come again
 * and again, and a transaction seldom has more than some.
 */
static void
note_dirty(SfExtent *extent)
{
	uint64		file_no = extent->start / SF_FILE_SECTORS;

	for (int64 i = 0; i < ndirty; i++)
		if (dirty[i].file_no == file_no && dirty[i].seg == extent->seg)
			return;
	dirty = sfi_write_make_room(dirty, ndirty, &dirty_size, sizeof(DirtyFile));
	dirty[ndirty++] = (DirtyFile) {extent->seg, file_no};
}

/*
 * Is an extent to pass through the page cache when written?  Where the column says so, and
 * where that saves a small value the wait for the disk: it is the syncer that waits.
 */
static bool
write_buffered(const SfExtent *extent, uint32 len_bytes)
{
	SfCacheMode cache = sf_space_column(extent->seg)->options.cache;

	return cache == SF_CACHE_FULL ||
		(cache == SF_CACHE_READS && extent->left != 0 && len_bytes <= sf_cached_write_bytes());
}

/*
 * Make durable what was written and not yet synced.  A file whose storage was dropped is
 * left out, unless logical decoding still reads it.
 */
void
sfi_extent_sync_files(void)
{
	SF_ASSERT(ndirty == 0 || (dirty != NULL && ndirty <= dirty_size));
	if (SF_FAULT_SKIPS(commit_before_sync))
		ndirty = 0;
	for (int64 i = 0; i < ndirty; i++)
		if (sf_space_is_usable(dirty[i].seg) ||
			(sf_space_keeps_dropped() && !sf_space_is_removed(dirty[i].seg->storage)))
			sf_io_sync(dirty[i].seg->storage, dirty[i].file_no * SF_FILE_SIZE, SF_FILE_SIZE);
	ndirty = 0;
}

bool
sfi_extent_no_dirty_files(void)
{
	return ndirty == 0;
}

void
sfi_extent_forget_files(void)
{
	dirty = NULL;
	ndirty = dirty_size = 0;
}

/* ---- extents ---- */

void
sfi_extent_start(SfExtent *extent, char *bytes, bool durable)
{
	uint32		len = sf_sectors_to_bytes(extent->nsectors);
	uint32		padded = BLOCK_ROUND_UP(len);

	SF_ASSERT(len > 0 && !extent->started);
	memset(bytes + len, 0, padded - len);
	extent->io.segment_offset = sf_sectors_to_bytes(extent->start);
	extent->left = !sfi_charge_is_logged(extent->seg) ? 0 :
		sf_io_syncer_opening(extent->seg->storage, extent->io.segment_offset);
	extent->io.files = sf_io_open(extent->seg->storage, write_buffered(extent, padded));
	extent->io.buf = bytes;
	extent->io.len_bytes = padded;
	extent->io.is_write = extent->io.charged = true;
	extent->io.durable = durable && extent->left == 0;
	if (!extent->io.durable && extent->left == 0)
		note_dirty(extent);
	extent->started = true;
	sf_io_start(&extent->io);
	extent->stats->flushes++;
	extent->stats->nontransformed_flushes += !extent->transformed;
	extent->stats->direct_write_bytes += padded;
	extent->stats->direct_write_ops++;
}

/* Wait for the write of an extent; throws what went wrong with it. */
static void
wait_extent(SfExtent *extent)
{
	if (extent->nsectors == 0)
		return;
	SF_ASSERT(extent->started);
	sf_io_wait(&extent->io);
	SF_ASSERT(!extent->io.in_flight);
	extent->stats->ioreap_time_us += sf_io_take_counts().reap_us;
}

/* A checkpoint that begins after the record relies on the write (see the head). */
void
sfi_extent_log(SfExtent *extent, const char *bytes)
{
	SF_ASSERT(extent->started || extent->nsectors == 0);
	if (!extent->logged && extent->nsectors > 0 && sfi_charge_is_logged(extent->seg))
	{
		sf_space_log_data(extent->seg, extent->start, bytes, extent->nsectors);
		sfi_charge_logged(sf_sectors_to_bytes(extent->nsectors));
	}
	extent->logged = true;
	SF_FAULT(data_logged);
}

/*
 * A write is complete: see to it that it becomes durable.  If it is not the syncer that
 * does so, this transaction has to, at its end.
 *
 * A record must not come before its data where that is neither noted nor on the disk: a
 * backup that copies the disk, and not the page cache, would have just the record.
 */
static void
settle_extent(SfExtent *extent)
{
	extent->settled = true;
	if (extent->io.durable)
		return;
	if (extent->left != 0)
	{
		SF_FAULT(data_written);
		if (sf_io_note_dirty(&extent->io, extent->left))
		{
			SF_FAULT(data_noted);
			return;
		}
		note_dirty(extent);
	}
	if (extent->io.cached && sfi_charge_is_logged(extent->seg) && !SF_FAULT_SKIPS(wrong_snapshot))
		sf_io_sync(extent->seg->storage, extent->io.segment_offset, extent->io.len_bytes);
}

void
sfi_extent_finish(SfExtent *extent, const char *bytes)
{
	wait_extent(extent);
	if (extent->left != 0 && SF_FAULT_SKIPS(wrong_order))
		sfi_extent_log(extent, bytes);
	if (!extent->settled && extent->nsectors > 0)
		settle_extent(extent);
	sfi_extent_log(extent, bytes);
}

bool
sfi_extent_logs_in_flight(const SfExtent *extent)
{
	return extent->nsectors > 0 && extent->left == 0 && (extent->io.durable || !extent->io.cached);
}
