/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  Steps of a repair: pages of a segment relation made anew, from what the
 *	  rows say.  What is to be done, and why, is known to check/repair.c.
 *
 * The caller's lock on the segment relation keeps out who writes, frees, grows
 * or cuts; readers go on.  Each step is one record, and no step frees anything
 * that could be needed: space is set free by pending entries of the repairing
 * transaction, so that snapshots, slots and standbys are waited for as ever.
 * So a crash or an error between two steps loses no more than space, which the
 * next repair finds.
 *
 * The one exception from invariant S1 is here: bits are set without an entry,
 * for sectors whose owner has committed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "space/pages.h"
#include "space/reserve.h"
#include "storage/lmgr.h"

/* The header page locked, and a copy of what it says. */
static Buffer
lock_header(Relation rel, SfHeader *header)
{
	Buffer		buf;

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	buf = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_EXCLUSIVE);
	*header = *SfPageHeader(BufferGetPage(buf));
	return buf;
}

/* Begin a change of the header. */
static void
begin_change(Buffer hbuf, const SfHeader *header)
{
	SF_ASSERT(sfi_page_is_locked(hbuf, LW_EXCLUSIVE));
	SF_FAULT(repair_page);
	sfi_change_begin();
	sfi_change_op(sfi_change_add(hbuf), SF_OP_HEADER, header, sizeof(SfHeader));
}

/*
 * Write a page anew, and with it, in the same record, the header that knows it
 * (redo makes no page that none knows).  Both are locked, and are released.
 */
static void
write_page(Buffer hbuf, const SfHeader *header, Buffer buf, SfPageType type,
		   const void *content, Size len)
{
	begin_change(hbuf, header);
	sfi_change_init(sfi_change_add(buf), type, content, len);
	sfi_change_finish_pages(SF_PAGES_REPAIR, 0, 0);
}

/* Sectors of a map page that lie inside the data files. */
static uint32
sectors_of(const SfHeader *header, uint32 map)
{
	uint64		first = sf_map_start(map);

	return header->total_sectors <= first ? 0 : Min(header->total_sectors - first, SF_MAP_SECTORS);
}

void
sf_space_repair_extend(SfSegment *seg, uint32 npages)
{
	Relation	rel = sfi_segment_rel(seg);

	for (uint32 page = RelationGetNumberOfBlocks(rel); page < npages; page++)
	{
		CHECK_FOR_INTERRUPTS();
		sfi_page_extend(rel, page);
	}
	sfi_segment_close(rel);
}

void
sf_space_repair_map(SfSegment *seg, uint32 map)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header;
	Buffer		hbuf = lock_header(rel, &header);
	uint32		nsectors = sectors_of(&header, map);
	SfMap		content = {0};

	if (nsectors > 0)
		sf_format_map_set(&content, sfi_map_range(0, nsectors));
	write_page(hbuf, &header, sfi_page_reinit(rel, SF_MAP_PAGE(map)), SF_PAGE_MAP,
			   &content, sizeof(content));
	sfi_segment_close(rel);
}

void
sf_space_repair_collect(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);

	while (sfi_lend_collect(seg, rel, SF_PARKED_ANY_AGE))
		;
	sfi_segment_close(rel);
}

/*
 * A block that is lent still, after all that was parked has been given back, is
 * held by a transaction that rolled back to a savepoint: it may write there.
 */
static void
require_not_lent(Relation rel, const SfMap *map, const uint8 *new_used)
{
	if (map->boot_id != sf_base_boot_id())
		return;
	for (uint32 b = 0; b < SF_MAP_BLOCKS; b++)
	{
		if (map->used[b] == new_used[b] || !sfi_map_is_lent(map, b))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("segment \"%s\" is in use by a transaction that has been rolled back to a savepoint",
						RelationGetRelationName(rel)),
				 errhint("Try again when the transactions that have written to the table are over, at the latest after a restart.")));
	}
}

void
sf_space_repair_bits(SfSegment *seg, uint32 map, const uint8 *used)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header;
	Buffer		hbuf = lock_header(rel, &header);
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(map), SF_PAGE_MAP, BUFFER_LOCK_EXCLUSIVE);
	SfMap	   *old = SfPageMap(BufferGetPage(buf));
	SfMap		content = *old;
	uint32		limit = sectors_of(&header, map) / 8;

	for (uint32 b = 0; b < SF_MAP_SECTORS / 8; b++)
		content.used[b] = b < limit ? old->used[b] | used[b] : 0;
	content.used_sectors = pg_popcount((char *) content.used, sizeof(content.used));
	require_not_lent(rel, old, content.used);
	if (memcmp(&content, old, sizeof(SfMap)) != 0)
		write_page(hbuf, &header, buf, SF_PAGE_MAP, &content, sizeof(content));
	else
	{
		UnlockReleaseBuffer(buf);
		UnlockReleaseBuffer(hbuf);
	}
	sfi_segment_close(rel);
}

/* A new list of pages begins behind all pages, so that none is taken twice. */
void
sf_space_repair_header(SfSegment *seg, SfHeaderRepair repair)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header;
	Buffer		buf = lock_header(rel, &header);

	header.next_object_id = Max(header.next_object_id, repair.next_object_id);
	header.next_stamp = Max(header.next_stamp, repair.next_stamp);
	header.next_page = Max(header.next_page, repair.next_page);
	header.total_sectors = Max(header.total_sectors, repair.total_sectors);
	if (repair.forget_lists)
		header.pending_head = header.pending_tail = header.free_head = SF_NO_PAGE;
	begin_change(buf, &header);
	sfi_change_finish_pages(SF_PAGES_REPAIR, 0, 0);
	sfi_segment_close(rel);
}

void
sf_space_repair_free_page(SfSegment *seg, uint32 page)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header;
	Buffer		hbuf = lock_header(rel, &header);
	SfFreePage	content = {header.free_head};

	header.free_head = page;
	write_page(hbuf, &header, sfi_page_reinit(rel, page), SF_PAGE_FREE, &content, sizeof(content));
	sfi_segment_close(rel);
}
