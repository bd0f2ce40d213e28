/*-------------------------------------------------------------------------
 *
 * references.c
 *	  The pending queue: references to share records are counted down, and space of
 *	  records that nobody refers to any more is given back.
 *
 * Called by the resolver (resolve.c) for what stands on one pending page.
 *
 *	 entry			transaction failed				committed
 *	 SHARE_NEW		the cells are free				NEW becomes LIVE; RESERVED (no row kept
 *													it): the cells are free
 *	 REF_ADD n		references - n					the entry goes
 *	 REF_DROP n		the entry goes					below the horizon: references - n
 *
 * Where that leaves no reference, the same record makes the state DEAD and puts REAP in
 * the place of the entry: a DEAD record has exactly one REAP entry.  From then on
 * nobody can come to the object, and no snapshot can see a row that has it: each of its
 * rows was deleted below the horizon.  So its runs and inode pages go back as those of a
 * committed transaction do, by FREE entries: as many as one pending page takes in each
 * record, while REAP counts how many went.  With the last ones the cells become free.
 *
 * Where the column keeps removed values for a time, their references are kept, and the record with
 * them.  So its space needs not be kept once more: these entries say KEPT.
 *
 * An entry that does not fit the record at its cell, or would bring its count below 0,
 * changes nothing but goes itself (WARNING; securefile_check() finds the count wrong).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/share_records.h"

/* Entries that one record of a REAP adds at most. */
#define REAP_AT_ONCE	256

/* What the entries of a pending page do to the records of one share page. */
typedef struct Counting
{
	SfPageWork *work;
	uint32		page;
	Buffer		buf;			/* of it, locked */
	int			n;				/* entries: */
	uint16		entries[SF_PENDING_MAX];	/* their places on the pending
											 * page */
	bool		committed[SF_PENDING_MAX];	/* did the transaction? */
	SfShareSet	sets[SF_SHARE_CELLS];	/* by cell */
	int			last[SF_SHARE_CELLS];	/* entry that lowered it last, or -1 */
	bool		loaded[SF_SHARE_CELLS];
	bool		cleared[SF_SHARE_CELLS];
	int			nodd;			/* entries that fit no record */
	TransactionId newest;		/* xid of REF_DROP entries */
} Counting;

/* ---- which entries ---- */

/*
 * Is it time for an entry about a share record that changes the record?  REF_ADD of a
 * transaction that has committed, and REF_DROP of one that has not, just go (resolve.c).
 */
static bool
changes_record(const SfPageWork *work, const SfPendEntry *entry, bool *committed)
{
	const SfPendKindInfo *kind = sf_format_pend_kind(entry->kind);
	SfVerdict	verdict;

	if (sf_format_entry_problem(entry) != NULL || !kind->is_share || entry->kind == SF_PEND_REAP)
		return false;
	verdict = sfi_pending_verdict(entry, work->horizon);
	*committed = (verdict == SF_VERDICT_FREE) != kind->is_alloc;
	return verdict == SF_VERDICT_FREE ||
		(verdict == SF_VERDICT_DROP && entry->kind == SF_PEND_SHARE_NEW);
}

/*
 * Collect the entries from one on that change records of its share page, before anything
 * is locked: for a verdict the commit log may have to be read.
 */
static bool
collect(Counting *counting, SfPageWork *work, int first)
{
	memset(counting, 0, sizeof(*counting));
	counting->work = work;
	for (int i = first; i < work->n; i++)
	{
		uint32		page = sf_share_of_start(work->entries[i].start).page;
		bool		committed;

		if ((counting->n > 0 && page != counting->page) ||
			!changes_record(work, &work->entries[i], &committed))
			continue;
		counting->page = page;
		counting->committed[counting->n] = committed;
		counting->entries[counting->n++] = i;
	}
	return counting->n > 0;
}

/* ---- counting ---- */

/* The record of an entry, NULL if there is none; state and count are in counting->sets. */
static SfShareSet *
load(Counting *counting, SfShareId id)
{
	const SfSharePage *page = SfPageShare(BufferGetPage(counting->buf));
	const SfShareRecord *record = sf_format_share_record(page, id.cell);
	SfShareSet *set = &counting->sets[id.cell];

	SF_ASSERT(sfi_page_is_locked(counting->buf, LW_EXCLUSIVE) && id.page == counting->page);
	if (record == NULL || (uint16) record->object_id != id.low_id || counting->cleared[id.cell])
		return NULL;
	if (!counting->loaded[id.cell])
	{
		counting->loaded[id.cell] = true;
		counting->last[id.cell] = -1;
		*set = (SfShareSet) {id.cell, record->state, record->references};
	}
	return set;
}

/* The maker of a record has ended.  False: it is not that record. */
static bool
end_new(Counting *counting, SfShareSet *set, bool committed)
{
	if (committed && set->state == SF_SHARE_NEW)
		set->state = SF_SHARE_LIVE;
	else if (set->state == SF_SHARE_RESERVED || set->state == SF_SHARE_NEW)
		counting->cleared[set->cell] = true;
	return true;
}

/*
 * A reference has gone that was not kept: of a transaction that has failed, say.  What is left may
 * be kept references only, so that the object is kept from now on.  Its sectors are not in the
 * header's number, which the resolver raises at the end of its walk.
 */
static void
note_bared(Counting *counting, uint32 cell)
{
	const SfSharePage *page = SfPageShare(BufferGetPage(counting->buf));

	SF_ASSERT(counting->loaded[cell]);
	counting->work->keeping.bared_sectors +=
		sf_blocks_to_sectors(sf_format_share_record(page, cell)->stored_blocks);
}

/* References go.  False: there are not so many. */
static bool
count_down(Counting *counting, SfShareSet *set, int index)
{
	const SfPendEntry *entry = &counting->work->entries[index];

	if ((set->state != SF_SHARE_NEW && set->state != SF_SHARE_LIVE) ||
		set->references < entry->count)
		return false;
	set->references -= entry->count;
	counting->last[set->cell] = index;
	if (entry->outcome != SF_OUTCOME_KEPT && set->references > 0)
		note_bared(counting, set->cell);
	return true;
}

/* Note what one of the entries does. */
static void
note_entry(Counting *counting, int i)
{
	int			index = counting->entries[i];
	const SfPendEntry *entry = &counting->work->entries[index];
	SfShareSet *set = load(counting, sf_share_of_start(entry->start));
	bool		fits;

	SF_INVARIANT(S5, sfi_pending_has_ended(entry, counting->committed[i]));
	if (set == NULL)
		fits = false;
	else if (entry->kind == SF_PEND_SHARE_NEW)
		fits = end_new(counting, set, counting->committed[i]);
	else
		fits = count_down(counting, set, index);
	counting->nodd += !fits;
	sfi_pending_note_freeing(&counting->newest, entry);
}

/* Does the entry that lowered a count last become a REAP?  Then the record dies. */
static bool
dies(const Counting *counting, uint32 cell)
{
	return counting->loaded[cell] && !counting->cleared[cell] && counting->last[cell] >= 0 &&
		counting->sets[cell].references == 0;
}

/* Take the entry with that place out of the list of those that go. */
static void
keep_entry(Counting *counting, int index)
{
	int			to = 0;

	for (int i = 0; i < counting->n; i++)
		if (counting->entries[i] != index)
			counting->entries[to++] = counting->entries[i];
	SF_ASSERT(to == counting->n - 1);
	counting->n = to;
}

/* The entry that has taken the last reference becomes the record's REAP, here and there. */
static void
let_die(Counting *counting, uint32 cell, int pending_at)
{
	int			index = counting->last[cell];
	SfPendEntry *entry = &counting->work->entries[index];
	SfPendPut	put;

	SF_ASSERT(index >= 0 && index < counting->work->n && counting->sets[cell].references == 0);
	SF_ASSERT(entry->kind == SF_PEND_REF_DROP || entry->kind == SF_PEND_REF_DROP_NOW ||
			  entry->kind == SF_PEND_REF_ADD);
	entry->kind = SF_PEND_REAP;
	entry->count = 0;
	entry->outcome = SF_OUTCOME_KEPT;
	put = (SfPendPut) {*entry, index};
	sfi_change_op(pending_at, SF_OP_PEND_PUT, &put, sizeof(put));
	keep_entry(counting, index);
	counting->sets[cell].state = SF_SHARE_DEAD;
}

/* Add the operations for the records, and for the entries that became REAP. */
static void
add_record_ops(Counting *counting, int pending_at, int share_at)
{
	const SfSharePage *page = SfPageShare(BufferGetPage(counting->buf));

	for (uint32 cell = 0; cell < SF_SHARE_CELLS; cell++)
	{
		if (!counting->loaded[cell])
			continue;
		if (counting->cleared[cell])
		{
			uint32		size = sf_share_record_size(sf_format_share_record(page, cell));
			SfShareClear clear = {cell, sf_share_cells_of(size)};

			sfi_change_op(share_at, SF_OP_SHARE_CLEAR, &clear, sizeof(clear));
			continue;
		}
		if (dies(counting, cell))
			let_die(counting, cell, pending_at);
		sfi_change_op(share_at, SF_OP_SHARE_SET, &counting->sets[cell], sizeof(SfShareSet));
	}
}

/* Report the damage that was met, with no page locked. */
static void
warn_odd(const Counting *counting)
{
	if (counting->nodd > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("references to a shared value are not counted down in segment \"%s\"",
						RelationGetRelationName(counting->work->rel)),
				 errdetail("%d entries do not fit the share records on page %u.", counting->nodd,
						   counting->page),
				 errhint("Run securefile_check() on the column.")));
}

/* Is a share page sound?  A damaged one is no reason not to go on with others. */
static void
read_share_page(void *arg)
{
	const Counting *counting = arg;

	UnlockReleaseBuffer(sfi_page_read(counting->work->rel, counting->page, SF_PAGE_SHARE,
									  BUFFER_LOCK_SHARE));
}

/* Write one record of what the entries do to the records of their share page. */
static bool
count_on_page(Counting *counting)
{
	SfPageWork *work = counting->work;
	xl_sf_resolve rec = {SF_WAL_VERSION, SfRelStorage(work->rel)};
	Buffer		buf;
	int			pending_at;
	int			share_at;

	/* read first: nobody has to wait for the disk with a lock of this process */
	if (!sf_base_succeeds(read_share_page, counting))
		return false;
	SF_FAULT(resolve_share);
	buf = sfi_page_read(work->rel, work->page, SF_PAGE_PENDING, BUFFER_LOCK_EXCLUSIVE);
	counting->buf = sfi_page_read(work->rel, counting->page, SF_PAGE_SHARE,
								  BUFFER_LOCK_EXCLUSIVE);
	for (int i = 0; i < counting->n; i++)
		note_entry(counting, i);
	sfi_change_begin();
	pending_at = sfi_change_add(buf);
	share_at = sfi_change_add(counting->buf);
	add_record_ops(counting, pending_at, share_at);
	if (counting->n > 0)
		sfi_change_op(pending_at, SF_OP_PEND_REMOVE, counting->entries,
					  counting->n * sizeof(uint16));
	rec.horizon = counting->newest;
	rec.nentries = counting->n;
	sfi_change_finish(XLOG_SF_RESOLVE, &rec, sizeof(rec));
	sfi_pending_forget(work, counting->entries, counting->n);
	warn_odd(counting);
	return true;
}

/* ---- what records own ---- */

SfOwned
sfi_owned_of_share(SfSegment *seg, const SfShareRecord *record)
{
	SF_ASSERT(sfi_above.owned_of_share != NULL);
	return sfi_above.owned_of_share(seg, record);
}

/* A record whose map is read (an SfBaseStep). */
typedef struct Finding
{
	SfSegment  *seg;
	const SfShareRecord *record;
	SfOwned		owned;
} Finding;

static void
find(void *arg)
{
	Finding    *finding = arg;

	finding->owned = sfi_owned_of_share(finding->seg, finding->record);
}

bool
sfi_owned_try(SfSegment *seg, const SfShareRecord *record, SfOwned *owned)
{
	Finding		finding = {.seg = seg, .record = record};
	bool		found = !IsInParallelMode() && sf_base_succeeds(find, &finding);

	SF_ASSERT(!seg->retained);
	if (found)
		*owned = finding.owned;
	return found;
}

/* ---- dead records ---- */

/* What a dead record owns (an SfBaseStep). */
typedef struct Reaping
{
	SfSegment  *seg;
	SfShareId	id;
	bool		found;			/* is there a record? */
	SfOwned		owned;
	SfShareCopy copy;
} Reaping;

static void
find_owned(void *arg)
{
	Reaping    *reaping = arg;

	reaping->found = sf_space_share_read(reaping->seg, reaping->id, &reaping->copy);
	if (reaping->found)
		reaping->owned = sfi_owned_of_share(reaping->seg, &reaping->copy.record);
}

/* The i-th entry of what is given back, in the name of the transaction that REAP has. */
static SfPendEntry
freed_entry(const SfOwned *owned, int i, const SfPendEntry *reap)
{
	SfPendEntry entry = {.fxid = reap->fxid, .outcome = SF_OUTCOME_KEPT};

	SF_ASSERT(reap->kind == SF_PEND_REAP && i >= 0 && i < owned->nruns + owned->npages);
	if (i < owned->nruns)
	{
		entry.kind = SF_PEND_FREE;
		entry.start = owned->runs[i].start;
		entry.count = owned->runs[i].nsectors;
	}
	else
	{
		entry.kind = SF_PEND_FREE_PAGE;
		entry.start = owned->pages[i - owned->nruns];
		entry.count = 1;
	}
	return entry;
}

/* The operation by which the cells of a record become free. */
static void
clear_record(Relation rel, SfShareId id, const SfShareRecord *record)
{
	Buffer		buf = sfi_page_read(rel, id.page, SF_PAGE_SHARE, BUFFER_LOCK_EXCLUSIVE);
	SfShareClear clear = {id.cell, sf_share_record_cells(record)};

	SF_ASSERT(clear.cell + clear.ncells <= SF_SHARE_CELLS && record->state == SF_SHARE_DEAD);
	sfi_change_op(sfi_change_add(buf), SF_OP_SHARE_CLEAR, &clear, sizeof(clear));
}

/*
 * Add entries for the next runs and pages to the tail, and note in REAP how many went; with
 * the last ones REAP goes, and the cells of the record.  Returns how many are left.
 */
static int
reap_some(SfPageWork *work, int index, const Reaping *reaping)
{
	SfPendEntry *reap = &work->entries[index];
	int			left = reaping->owned.nruns + reaping->owned.npages - (int) reap->count;
	int			n = Min(left, REAP_AT_ONCE);
	SfPendEntry entries[REAP_AT_ONCE];
	uint16		index16 = index;
	Buffer		buf;
	Buffer		tail;
	int			pending_at;

	SF_ASSERT(left >= 0 && reaping->found);
	SF_FAULT(reap_before_free);
	tail = sfi_pending_lock_both(work->rel, work->page, &buf, &n);
	sfi_change_begin();
	pending_at = sfi_change_add(buf);
	for (int i = 0; i < n; i++)
		entries[i] = freed_entry(&reaping->owned, reap->count + i, reap);
	reap->count += n;
	if (n == left)
		sfi_change_op(pending_at, SF_OP_PEND_REMOVE, &index16, sizeof(index16));
	else
	{
		const SfPendPut put = {*reap, index16};

		sfi_change_op(pending_at, SF_OP_PEND_PUT, &put, sizeof(put));
	}
	if (n > 0)
		sfi_change_op(tail == buf ? pending_at : sfi_change_add(tail), SF_OP_PEND_ADD, entries,
					  n * sizeof(SfPendEntry));
	if (n == left)
		clear_record(work->rel, sf_share_of_start(reap->start), &reaping->copy.record);
	sfi_change_finish_pages(SF_PAGES_REAP, n > 0 ? SF_PEND_FREE : 0, n);
	return left - n;
}

/* Find what a REAP entry is about; false: nothing can be done about it. */
static bool
find_dead(const SfPendEntry *entry, Reaping *reaping)
{
	SfShareId	id = sf_share_of_start(entry->start);

	return sf_base_succeeds(find_owned, reaping) && reaping->found &&
		reaping->copy.record.state == SF_SHARE_DEAD &&
		(uint16) reaping->copy.record.object_id == id.low_id;
}

/*
 * Give back what a dead record owns.  Where its map cannot be read it stays, and its entry
 * with it: securefile_check() says so.
 */
static bool
reap(SfPageWork *work, SfSegment *seg, int index)
{
	Reaping    *reaping = palloc0(sizeof(Reaping));
	uint16		index16 = index;
	bool		done = false;

	reaping->seg = seg;
	reaping->id = sf_share_of_start(work->entries[index].start);
	if (find_dead(&work->entries[index], reaping))
	{
		while (reap_some(work, index, reaping) > 0)
			CHECK_FOR_INTERRUPTS();
		sfi_pending_forget(work, &index16, 1);
		work->stats->entries_resolved++;
		done = true;
		SF_FAULT(reap_done);
	}
	pfree(reaping);
	return done;
}

/* Is there a REAP in that place whose time has come? */
static bool
is_to_reap(const SfPageWork *work, int index)
{
	const SfPendEntry *entry = &work->entries[index];

	return entry->kind == SF_PEND_REAP && sf_format_entry_problem(entry) == NULL &&
		sfi_pending_verdict(entry, work->horizon) == SF_VERDICT_FREE;
}

bool
sfi_references_resolve(SfPageWork *work, SfSegment *seg)
{
	Counting   *counting = palloc(sizeof(Counting));
	bool		reaped = false;
	int			i = 0;

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(work->rel, SF_LOCK_RESOLVER));
	/* what was done is gone from the copy, or is a REAP */
	while (collect(counting, work, i))
	{
		CHECK_FOR_INTERRUPTS();
		i = counting->entries[0];
		if (!count_on_page(counting))
			i++;
		else
			work->stats->entries_resolved += counting->n;
	}
	/* from the end, since each one that goes moves those behind it */
	for (i = work->n - 1; i >= 0; i--)
		if (is_to_reap(work, i))
			reaped |= reap(work, seg, i);
	pfree(counting);
	return reaped;
}
