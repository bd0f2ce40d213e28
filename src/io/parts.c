/*-------------------------------------------------------------------------
 *
 * parts.c
 *	  Direct and cached writes side by side in one file.
 *
 * Linux keeps both kinds coherent: a direct write drops what the page cache has of its
 * range.  But where a page (or a larger folio, which holds blocks beside the range, too) is
 * made dirty while the direct write is under way, it cannot be dropped.  Then the system
 * notes an I/O error for the whole file, and the next flush of it fails: a PANIC without
 * any fault of the disk.
 *
 * So in a part of a file there are writes of one kind only at a time.  A part has the size
 * and the alignment of the largest folio that the page cache makes.  A cached write that
 * finds direct ones goes direct, too; a direct one that finds cached ones waits for
 * them, which are copies in memory.
 *
 * Waiting takes no longer than others copy, or flush what they copy (a durable write); and a
 * process reaps its own writes before it waits, so nobody waits for itself.
 *
 * Readers need no such care: what they put into the page cache is clean, and a clean folio
 * can be dropped at any time.
 *
 * The counts are shared by parts whose hash is the same: then a write goes direct, or waits,
 * for nothing, and that is all.  Writes of a file system without direct I/O are not counted.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "io/io_internal.h"
#include "port/atomics.h"

#define PART_BYTES		((uint64) 2 * 1024 * 1024)
#define COUNTS			4096

/* A count: direct writes in the lower half, cached ones in the upper half. */
#define ONE_DIRECT		((uint32) 1)
#define ONE_CACHED		((uint32) 1 << 16)
#define DIRECT_MASK		(ONE_CACHED - 1)

static pg_atomic_uint32 *part_counts = NULL;

const SfSharedArea sf_io_parts_area = {
	.name = "securefile parts of files", .at = (void **) &part_counts,
	.bytes = COUNTS * sizeof(pg_atomic_uint32)
};

/* The parts of a write, as numbers within its segment. */
#define FirstPart(io)	((io)->segment_offset / PART_BYTES)
#define EndPart(io)		(((io)->segment_offset + (io)->len_bytes - 1) / PART_BYTES + 1)

/* Neighbouring parts get counts far from each other, and other cache lines with them. */
static pg_atomic_uint32 *
count_of(const SfIo *io, uint64 part)
{
	uint32		hash = sfi_io_file_hash(sfi_io_file_of(io));

	return &part_counts[hash_combine(hash, murmurhash32((uint32) part)) % COUNTS];
}

/* Count one write more, unless there are writes of the other kind. */
static bool
enter_part(pg_atomic_uint32 *count, bool direct)
{
	uint32		old = pg_atomic_read_u32(count);

	do
	{
		if (direct ? old > DIRECT_MASK : (old & DIRECT_MASK) != 0)
			return false;
		SF_ASSERT((old & DIRECT_MASK) < DIRECT_MASK);
	} while (!pg_atomic_compare_exchange_u32(count, &old,
											 old + (direct ? ONE_DIRECT : ONE_CACHED)));
	return true;
}

/* A process that waits looks again by itself. */
static void
leave_part(pg_atomic_uint32 *count, bool direct)
{
	SF_ASSERT(direct ? (pg_atomic_read_u32(count) & DIRECT_MASK) > 0
			  : pg_atomic_read_u32(count) >= ONE_CACHED);
	(void) pg_atomic_fetch_sub_u32(count, direct ? ONE_DIRECT : ONE_CACHED);
}

/* All parts or none: what was entered before a refusal is left again. */
bool
sfi_parts_enter(const SfIo *io, bool direct)
{
	SF_ASSERT(io->is_write && io->len_bytes > 0);
	if (part_counts == NULL)
		return true;
	for (uint64 part = FirstPart(io); part < EndPart(io); part++)
	{
		if (enter_part(count_of(io, part), direct))
			continue;
		while (part-- > FirstPart(io))
			leave_part(count_of(io, part), direct);
		return false;
	}
	return true;
}

void
sfi_parts_leave(const SfIo *io, bool direct)
{
	SF_ASSERT(io->is_write && io->len_bytes > 0);
	if (part_counts == NULL)
		return;
	for (uint64 part = FirstPart(io); part < EndPart(io); part++)
		leave_part(count_of(io, part), direct);
}
