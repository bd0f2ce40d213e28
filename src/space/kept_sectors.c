/*-------------------------------------------------------------------------
 *
 * kept_sectors.c
 *	  How much the history keeps.
 *
 * An entry of a run or of a page keeps what it names.  A shared object is kept when all references
 * that it has are: one that a row has, too, would be there anyhow, and is not counted.  So what a
 * reference keeps changes as others come and go, and is found by counting:
 *
 *	 history pages						share records			kept
 *	 7 5 7 | 7 9						5: 3 references			no: 1 of 3
 *										7: 3					yes
 *										9: 1					yes
 *
 * Counting reads all history pages, and a share page for each object.  So it is done when the
 * number of the header is too high, and not in each pass.  That number grows by the whole object
 * with each reference that is kept, which is as if no row had the object any more, and with each
 * other reference that goes.  It falls when objects are counted, when pages end before their time,
 * and to 0 when nothing is kept.  A value that is removed costs no more than that addition.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "space/history_internal.h"
#include "space/pages.h"
#include "utils/memutils.h"

/* A shared object that history pages refer to. */
typedef struct Shared
{
	uint64		start;			/* the key: start of the entries */
	uint64		references;		/* that are kept */
	uint64		sectors;		/* 0 unless these are all of them */
} Shared;

struct SfKept
{
	MemoryContext context;
	HTAB	   *shared;
	uint64		sectors;		/* the sum of theirs */
};

/* Reading a record, a step that damage may end (an SfBaseStep). */
typedef struct Reading
{
	SfSegment  *seg;
	SfShareId	id;
	SfShareCopy *copy;
	bool		found;
} Reading;

static void
read_share(void *arg)
{
	Reading    *reading = arg;

	reading->found = sf_space_share_read(reading->seg, reading->id, reading->copy) &&
		(uint16) reading->copy->record.object_id == reading->id.low_id &&
		reading->copy->record.references > 0;
}

/* Damage of a share page is no reason to end other values early: its objects count as nothing. */
bool
sfi_kept_find_share(SfSegment *seg, uint64 start, SfShareCopy *copy)
{
	Reading		reading = {seg, sf_share_of_start(start), copy, false};

	SF_ASSERT(copy != NULL && !seg->retained);
	return sf_base_guarded_read(read_share, &reading) == NULL && reading.found;
}

/*
 * How many sectors are free in the block that has that sector of a run; 0, if others than the run
 * have the first one that is used.
 */
static uint32
free_beside(Relation rel, SfRun run, uint64 sector)
{
	uint64		block = sf_block_of(sector);
	uint64		first = sf_blocks_to_sectors(block);
	uint32		at = first % SF_MAP_SECTORS / SF_BLOCK_SECTORS;
	Buffer		buf = sfi_page_read(rel, SF_MAP_PAGE(sf_map_of(first)), SF_PAGE_MAP,
									BUFFER_LOCK_SHARE);
	uint8		used = SfPageMap(BufferGetPage(buf))->used[at];

	UnlockReleaseBuffer(buf);
	SF_ASSERT(sector >= run.start && sector < run.start + run.nsectors);
	if (used == 0 || first + pg_rightmost_one_pos32(used) < run.start)
		return 0;
	return SF_BLOCK_SECTORS - pg_popcount((char *) &used, 1);
}

/*
 * Sectors that a run keeps from others: its own, and those that are free in the blocks where it
 * begins and ends, since a block is lent when all of it is free.  Several runs may be kept in a
 * block.  The free ones count once, with the run that has the first used sector.  If that one is
 * live, nobody could have the free ones, even if nothing was kept.
 */
static uint64
sectors_of_run(Relation rel, SfRun run)
{
	uint64		last = run.start + run.nsectors - 1;
	uint64		sum = run.nsectors;

	SF_ASSERT(sf_format_is_possible_run(run.start, run.nsectors));
	if (run.start % SF_BLOCK_SECTORS != 0)
		sum += free_beside(rel, run, run.start);
	if (last % SF_BLOCK_SECTORS != SF_BLOCK_SECTORS - 1 &&
		(run.start % SF_BLOCK_SECTORS == 0 || sf_block_of(last) != sf_block_of(run.start)))
		sum += free_beside(rel, run, last);
	return sum;
}

uint64
sfi_kept_sectors_of(Relation rel, const SfPendEntry *entry)
{
	const SfPendKindInfo *kind = sf_format_pend_kind(entry->kind);

	SF_ASSERT(kind->is_kept);
	if (kind->is_share)
		return 0;
	return kind->is_page ? PAGE_SECTORS : sectors_of_run(rel, (SfRun) {entry->start, entry->count});
}

/* Of a map in inode pages the record has the number of blocks. */
uint64
sfi_kept_object_sectors(Relation rel, const SfShareRecord *record)
{
	uint64		sum = 0;
	SfRun		run;

	if (sf_format_share_has_inodes(record))
		return sf_blocks_to_sectors(record->stored_blocks);
	for (uint32 i = 0; sf_format_share_run(record, i, &run); i++)
		if (sf_format_is_possible_run(run.start, run.nsectors))
			sum += sectors_of_run(rel, run);
	return sum;
}

/* The entries of a page that refer to shared objects: count their references. */
static void
add_references(SfKept *kept, const SfPending *page)
{
	SF_ASSERT(page->nentries <= SF_PENDING_MAX);
	for (int i = 0; i < page->nentries; i++)
	{
		const SfPendEntry *entry = &page->entries[i];
		Shared	   *shared;
		bool		found;

		if (!sf_format_pend_kind(entry->kind)->is_share)
			continue;
		shared = hash_search(kept->shared, &entry->start, HASH_ENTER, &found);
		shared->references = (found ? shared->references : 0) + entry->count;
		shared->sectors = 0;
	}
}

/* Which of the objects are kept? */
static void
find_held(SfKept *kept, Relation rel, SfSegment *seg)
{
	HASH_SEQ_STATUS scan;
	Shared	   *shared;

	hash_seq_init(&scan, kept->shared);
	while ((shared = hash_seq_search(&scan)) != NULL)
	{
		SfShareCopy copy;

		CHECK_FOR_INTERRUPTS();
		if (!sfi_kept_find_share(seg, shared->start, &copy) ||
			copy.record.references > shared->references)
			continue;
		shared->sectors = sfi_kept_object_sectors(rel, &copy.record);
		kept->sectors += shared->sectors;
	}
}

/*
 * What is counted lives in a context of its own, so that all of it goes at once.  Nobody adds to
 * the history meanwhile, since only the holder of the resolver's lock does.
 */
SfKept *
sfi_kept_count(Relation rel, SfSegment *seg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile kept",
												  ALLOCSET_DEFAULT_SIZES);
	SfKept	   *kept = MemoryContextAllocZero(context, sizeof(SfKept));
	HASHCTL		ctl = {.keysize = sizeof(uint64), .entrysize = sizeof(Shared), .hcxt = context};
	SfPending  *copy = MemoryContextAlloc(context, SF_PAGE_CONTENT);
	SfHeader	h = sfi_header(rel);

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	kept->context = context;
	kept->shared = hash_create("kept references", 256, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	/* nobody has shared anything: the pages need not be read */
	for (uint32 page = h.share_head == 0 ? 0 : h.history_head; page != 0 && page != SF_NO_PAGE;
		 page = copy->next)
	{
		CHECK_FOR_INTERRUPTS();
		sfi_page_read_copy(rel, page, SF_PAGE_PENDING, copy);
		add_references(kept, copy);
	}
	find_held(kept, rel, seg);
	return kept;
}

uint64
sfi_kept_shared_sectors(const SfKept *kept)
{
	return kept->sectors;
}

/*
 * An object ceases to be kept with the first page that has the last one of its references.  Others
 * of them, which have ended before, may be in the queue yet, and are about to be counted down.
 */
void
sfi_kept_end(SfKept *kept, const SfPending *page)
{
	SF_ASSERT(page->nentries > 0 && page->nentries <= SF_PENDING_MAX);
	for (int i = 0; i < page->nentries; i++)
	{
		const SfPendEntry *entry = &page->entries[i];
		Shared	   *shared;

		if (!sf_format_pend_kind(entry->kind)->is_share)
			continue;
		shared = hash_search(kept->shared, &entry->start, HASH_FIND, NULL);
		if (shared == NULL)
			continue;
		shared->references -= Min(entry->count, shared->references);
		if (shared->references > 0)
			continue;
		SF_ASSERT(shared->sectors <= kept->sectors);
		kept->sectors -= shared->sectors;
		shared->sectors = 0;
	}
}

void
sfi_kept_free(SfKept *kept)
{
	MemoryContextDelete(kept->context);
}
