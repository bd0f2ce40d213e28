/*-------------------------------------------------------------------------
 *
 * fetch_write.c
 *	  Sectors that were fetched, written to their places, durably.
 *
 * A standby writes as replay does, through the page cache: there is no other writer.
 *
 * Elsewhere sessions write, too, perhaps directly, into the same part of a file (parts.c), so
 * whole blocks are written, by a request as theirs.  What a block has beside the sectors is
 * read before.  It belongs to the same transaction as they do, which is over, so that only
 * another session that fetches may write it meanwhile.  From the reading of a block until it
 * is written a lock keeps those out.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "fetch/fetch_internal.h"
#include "miscadmin.h"
#include "storage/lock.h"

/* The fourth field of the tag of an advisory lock, where SQL has 1 or 2. */
#define LOCK_OF_FETCH	0x5346

#define MOST_BYTES		(1024 * 1024)

static LOCKTAG
lock_tag(const SfSegment *seg)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, seg->relid, LOCK_OF_FETCH);
	return tag;
}

void
sfi_fetch_transfer(SfFiles *files, bool is_write, uint64 offset, char *buffer, uint32 length)
{
	static SfIo io;

	SF_ASSERT(!io.in_flight);
	io.files = files;
	io.segment_offset = offset;
	io.buf = buffer;
	io.len_bytes = length;
	io.is_write = io.durable = is_write;
	sf_io_start(&io);
	sf_io_wait(&io);
}

/* Write bytes that lie in blocks [first, end), together with what these have beside them. */
static void
write_blocks(const SfSegment *seg, uint64 first, uint64 end, uint64 offset, const char *bytes,
			 uint32 length)
{
	static char *buffer = NULL;
	SfFiles    *files;
	LOCKTAG		tag = lock_tag(seg);

	if (buffer == NULL)
		buffer = sf_io_buffer_alloc(MOST_BYTES);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	files = sf_io_open(seg->storage, true);
	if (first < offset)
		sfi_fetch_transfer(files, false, first, buffer, SF_BLOCK_SIZE);
	if (offset + length < end)
		sfi_fetch_transfer(files, false, end - SF_BLOCK_SIZE,
						   buffer + (end - SF_BLOCK_SIZE - first), SF_BLOCK_SIZE);
	memcpy(buffer + (offset - first), bytes, length);
	sfi_fetch_transfer(files, true, first, buffer, end - first);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

void
sfi_fetch_write(SfSegment *seg, uint64 offset, const char *bytes, uint32 length)
{
	SF_ASSERT(offset % SF_SECTOR_SIZE == 0 && length % SF_SECTOR_SIZE == 0);

	/*
	 * files that have been lost, or cut, get what they lack of their length
	 * as in replay
	 */
	if (RecoveryInProgress() ||
		sf_io_files_size(seg->storage) < TYPEALIGN(SF_BLOCK_SIZE, offset + length))
	{
		sf_io_redo_write(seg->storage, offset, bytes, length);
		return;
	}
	while (length > 0)
	{
		uint64		first = TYPEALIGN_DOWN(SF_BLOCK_SIZE, offset);
		uint64		end = Min(TYPEALIGN(SF_BLOCK_SIZE, offset + length),
							  TYPEALIGN_DOWN(MOST_BYTES, first) + MOST_BYTES);
		uint32		part = Min(length, end - offset);

		write_blocks(seg, first, end, offset, bytes, part);
		offset += part;
		bytes += part;
		length -= part;
	}
}
