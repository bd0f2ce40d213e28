/*-------------------------------------------------------------------------
 *
 * ledger.c
 *	  What a transaction has to log: runs its rows have got, runs and inode
 *	  pages they have lost, by nest level.
 *
 * A note is noted at the nest level it comes from.  A subtransaction that
 * aborts takes its list along; one that commits gives them to its parent.
 * Neighbours are summed up as they come, and all notes of a level are when
 * they take more than securefile.transaction_memory.  If that is not enough
 * they are logged at once, as entries of a transaction that still runs, and
 * forgotten here:
 *
 * L1	an entry carries an xid whose verdict is that of the note's level, so that
 *		a subtransaction that aborts takes back what it has logged, as it does
 *		with rows that it has deleted;
 * L2	that xid is not above the one of the record, so that no crash can make
 *		the server give it out again while the entry is there;
 * L3	ALLOC entries of a subtransaction are never early: were it to abort, the
 *		resolver would clear used bits while the transaction can still write;
 * L4	a note is forgotten when its record is written, not when all are: an ERROR
 *		in between may be caught in a savepoint, and nothing may be logged twice;
 * L5	notes about storage that this transaction has replaced or dropped are never
 *		early: a rollback to a savepoint brings the storage back.  Only when the
 *		transaction ends do they fall away.
 *
 * Of L1 it is asserted that the xid is one of this transaction's that has not
 * aborted, and the top one for nest level 1 only.  Of which level another one is
 * the server does not tell; test 060 does.
 *
 *	levels:		1			2			2			4		(ascending, not all are there)
 *	lists:		ALLOC		ALLOC		ALLOC		ALLOC
 *				FREE		FREE		FREE		FREE
 *				FREE_PAGE	FREE_PAGE	FREE_PAGE	FREE_PAGE
 *
 * A level may occur twice: when a subtransaction commits its lists are appended to those
 * of its parent, and if there is no memory for that, which must not be an error at that
 * place, they stay beside them under the parent's number.
 *
 * Kinds are logged in the order of SfNoteKind, for all segments together: entries for
 * space that rows have got come before those for space that they have lost.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "config/config.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "write/write_internal.h"

#define FIRST_FACTS		16
#define MOST_KEPT_AT_ONCE	(1024 * 1024 / SF_SECTOR_SIZE)
#define LOOK_BACK		8		/* notes: columns and partitions that are
								 * written by turns */

typedef struct Note
{
	SfSegment  *seg;			/* this transaction's copy */
	SfRun		run;
} Note;

typedef struct NoteList
{
	Note	   *items;
	int64		done;			/* these are logged */
	int64		n;
	int64		size;
} NoteList;

typedef struct Level
{
	int			level;
	uint64		fxid;			/* of it, or of a child that has committed */
	NoteList	lists[SF_NOTE_KINDS];
} Level;

static Level *levels;			/* ascending; levels may occur more than once */
static int64 nlevels;
static int64 levels_size;
static int64 nnotes;			/* in all of them, and not logged */
static int64 nheld;				/* so many of them could not be logged early
								 * (L3, L5) */
static SfSegment **logged;		/* there were early entries for these */
static int64 nlogged;
static int64 logged_size;

/* ---- noting ---- */

/*
 * Make room for n more; false, and nothing changed, if there is no memory.  Not
 * sfi_write_make_room(), which throws: give() is called where nothing may.
 */
static bool
reserve_notes(NoteList *list, int64 n)
{
	int64		size = Max(Max(FIRST_FACTS, list->size * 2), list->n + n);
	Note	   *items;

	SF_ASSERT(list->done <= list->n && list->n <= list->size);
	if (list->n + n <= list->size)
		return true;
	items = MemoryContextAllocExtended(sfi_write_context(), size * sizeof(Note),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (items == NULL)
		return false;
	if (list->items != NULL)
	{
		memcpy(items, list->items, list->n * sizeof(Note));
		pfree(list->items);
	}
	list->items = items;
	list->size = size;
	return true;
}

static bool
names_pages(SfNoteKind kind)
{
	return kind == SF_NOTE_FREE_PAGE || kind == SF_NOTE_FREE_PAGE_NOW;
}

/*
 * Does a run go on where a note ends?  Merged ones stay on one map page.  Pages are noted
 * one by one, as their entries are.  Of references: are they to the same record?  Their
 * number is added up like a length.  What a retention keeps ends entry by entry, so that there
 * entries of several values stay short.
 */
static bool
touches(SfNoteKind kind, const Note *note, const SfSegment *seg, SfRun run)
{
	SF_ASSERT(note->run.nsectors > 0 && run.nsectors > 0);
	if (names_pages(kind))
		return false;
	if (kind == SF_NOTE_REF_DROP || kind == SF_NOTE_REF_DROP_NOW)
		return note->seg == seg && note->run.start == run.start;
	if (note->seg != seg || note->run.start + note->run.nsectors != run.start ||
		!sf_same_map(note->run.start, run.start))
		return false;
	return kind != SF_NOTE_FREE || note->run.nsectors + run.nsectors <= MOST_KEPT_AT_ONCE ||
		!sfi_write_retains(note->seg);
}

/* Add a run to a list, to one of the last notes if it continues that. */
static void
add(NoteList *list, SfNoteKind kind, SfSegment *seg, SfRun run)
{
	for (int64 i = list->n; i > list->done && i > list->n - LOOK_BACK; i--)
	{
		Note	   *note = &list->items[i - 1];

		if (touches(kind, note, seg, run))
		{
			note->run.nsectors += run.nsectors;
			return;
		}
	}
	if (!reserve_notes(list, 1))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed to note space of securefile values.")));
	list->items[list->n++] = (Note) {seg, run};
	nnotes++;
}

/*
 * The list of the current nest level, which by this gets an xid if it has none: early
 * entries of the level carry it (L1).
 */
static NoteList *
current_list(SfNoteKind kind)
{
	int			level = GetCurrentTransactionNestLevel();

	if (nlevels == 0 || levels[nlevels - 1].level < level)
	{
		uint64		fxid = U64FromFullTransactionId(GetCurrentFullTransactionId());

		levels = sfi_write_make_room(levels, nlevels, &levels_size, sizeof(Level));
		levels[nlevels++] = (Level) {.level = level, .fxid = fxid};
	}
	SF_ASSERT(levels[nlevels - 1].level == level);
	return &levels[nlevels - 1].lists[kind];
}

void
sfi_ledger_add_runs(SfNoteKind kind, SfSegment *seg, const SfRun *runs, int n)
{
	SF_ASSERT(!names_pages(kind));
	for (int i = 0; i < n; i++)
	{
		SF_ASSERT(sf_format_is_possible_run(runs[i].start, runs[i].nsectors));
		add(current_list(kind), kind, seg, runs[i]);
	}
}

void
sfi_ledger_add_pages(SfNoteKind kind, SfSegment *seg, const uint32 *pages, int n)
{
	SF_ASSERT(names_pages(kind));
	for (int i = 0; i < n; i++)
	{
		SF_ASSERT(sf_is_dynamic_page(pages[i]));
		add(current_list(kind), kind, seg, (SfRun) {pages[i], 1});
	}
}

void
sfi_ledger_add_drop(SfNoteKind kind, SfSegment *seg, SfShareId id, uint32 references)
{
	const SfRun drop = {sf_share_to_start(id), references};

	SF_ASSERT(sf_share_is_possible(id) && references > 0);
	SF_ASSERT(kind == SF_NOTE_REF_DROP || kind == SF_NOTE_REF_DROP_NOW);
	add(current_list(kind), kind, seg, drop);
}

/* ---- summing up ---- */

/* By segment, in any order that is the same for a whole sort, then by sector. */
static int
cmp_notes(const void *a, const void *b)
{
	const Note *x = a;
	const Note *y = b;

	if (x->seg != y->seg)
		return x->seg < y->seg ? -1 : 1;
	return x->run.start < y->run.start ? -1 : x->run.start > y->run.start;
}

/* Drop the notes at the beginning of a list that are logged. */
static void
forget_done(NoteList *list)
{
	SF_ASSERT(list->done >= 0 && list->done <= list->n);
	list->n -= list->done;
	if (list->done > 0)
		memmove(list->items, list->items + list->done, list->n * sizeof(Note));
	list->done = 0;
}

/* Forget what is logged; sort the rest by segment and sector, merge neighbours. */
static void
sum_up(NoteList *list, SfNoteKind kind)
{
	int64		to = 0;

	forget_done(list);
	if (list->n == 0)
		return;
	qsort(list->items, list->n, sizeof(Note), cmp_notes);
	for (int64 i = 1; i < list->n; i++)
	{
		if (touches(kind, &list->items[to], list->items[i].seg, list->items[i].run))
			list->items[to].run.nsectors += list->items[i].run.nsectors;
		else
			list->items[++to] = list->items[i];
	}
	nnotes -= list->n - (to + 1);
	list->n = to + 1;
}

/* Levels ascend, and the notes that are not logged are counted.  Goes through all levels. */
static bool
ledger_is_valid(void)
{
	int64		n = 0;

	for (int64 i = 0; i < nlevels; i++)
	{
		if (levels[i].level < 1 || (i > 0 && levels[i].level < levels[i - 1].level))
			return false;
		for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
			n += levels[i].lists[kind].n - levels[i].lists[kind].done;
	}
	return n == nnotes && nheld >= 0;
}

/* Sort all lists and merge neighbours. */
static void
sum_up_all(void)
{
	SF_ASSERT(ledger_is_valid());
	for (int64 i = 0; i < nlevels; i++)
		for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
			sum_up(&levels[i].lists[kind], kind);
	SF_ASSERT(ledger_is_valid());
}

/* ---- logging ---- */

/* L1 and L2, as far as the server tells: not of which level a subtransaction is. */
static void
check_fxid(int level, uint64 fxid)
{
	TransactionId xid = XidFromFullTransactionId(FullTransactionIdFromU64(fxid));

	SF_INVARIANT(L2, fxid <= U64FromFullTransactionId(GetCurrentFullTransactionId()));
	SF_INVARIANT(L1, (level == 1) == (fxid == U64FromFullTransactionId(GetTopFullTransactionId())));
	SF_INVARIANT(L1, TransactionIdIsCurrentTransactionId(xid));
}

/*
 * L1 and L2: the xid that the entries of a level carry.  The xid of the current level is
 * asked for anew, since a child that has committed meanwhile left its own in the level.
 */
static uint64
fxid_of(const Level *level)
{
	SF_ASSERT(level->level <= GetCurrentTransactionNestLevel());
	if (level->level == 1 || SF_BREAKS(l1))
		return U64FromFullTransactionId(GetTopFullTransactionId());
	if (level->level == GetCurrentTransactionNestLevel())
		return U64FromFullTransactionId(GetCurrentFullTransactionId()) + (SF_BREAKS(l2) ? 1 : 0);
	return level->fxid;
}

/*
 * Log as many of the next notes, up to an end, of one segment as go into one record; L4.
 * Storage that is gone takes its entries along, so notes about it just fall away.
 */
static void
log_some(NoteList *list, int64 end, SfPendKind kind, uint64 fxid)
{
	int64		done_before = list->done;
	SfRun		runs[SF_PENDING_MAX];
	SfSegment  *seg = list->items[list->done].seg;
	int			n = 0;

	SF_ASSERT(list->done < end && end <= list->n);
	while (n < SF_PENDING_MAX && list->done + n < end &&
		   list->items[list->done + n].seg == seg)
	{
		runs[n] = list->items[list->done + n].run;
		n++;
	}
	sfi_write_note_entries();
	/* notes of storage that is gone fall away */
	if (sf_space_is_usable(seg))

		/*
		 * Fewer than asked for may be logged: as many as fit the pending
		 * page.
		 */
		n = sf_space_log_some(seg, kind, fxid, runs, n);
	if (!SF_BREAKS(l4))
		list->done += n;
	nnotes -= n;
	SF_INVARIANT(L4, n > 0 && list->done == done_before + n);
}

/*
 * L5: move the notes whose storage is there to the front, in their order; returns how
 * many.  Asks once a segment, since the list is sorted by it.
 */
static int64
usable_first(NoteList *list)
{
	SfSegment  *seg = NULL;
	bool		usable = false;
	int64		n = 0;

	if (SF_BREAKS(l5))
		return list->n;
	for (int64 i = 0; i < list->n; i++)
	{
		Note		note = list->items[i];

		if (note.seg != seg)
			usable = sf_space_is_usable(note.seg);
		seg = note.seg;
		if (!usable)
			continue;
		list->items[i] = list->items[n];
		list->items[n++] = note;
	}
	return n;
}

static const SfPendKind pend_kinds[SF_NOTE_KINDS] = {
	[SF_NOTE_ALLOC] = SF_PEND_ALLOC,
	[SF_NOTE_FREE] = SF_PEND_FREE,
	[SF_NOTE_FREE_PAGE] = SF_PEND_FREE_PAGE,
	[SF_NOTE_FREE_NOW] = SF_PEND_FREE_NOW,
	[SF_NOTE_FREE_PAGE_NOW] = SF_PEND_FREE_PAGE_NOW,
	[SF_NOTE_REF_DROP] = SF_PEND_REF_DROP,
	[SF_NOTE_REF_DROP_NOW] = SF_PEND_REF_DROP_NOW,
};

void
sfi_ledger_log(void)
{
	sum_up_all();
	for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
	{
		for (int64 i = 0; i < nlevels; i++)
		{
			NoteList   *list = &levels[i].lists[kind];
			SfSegment  *seg = NULL;

			SF_ASSERT(levels[i].level == 1);
			while (list->done < list->n)
			{
				if (list->items[list->done].seg != seg)
					SF_FAULT(commit_before_entries);
				seg = list->items[list->done].seg;
				check_fxid(levels[i].level, fxid_of(&levels[i]));
				log_some(list, list->n, pend_kinds[kind], fxid_of(&levels[i]));
			}
		}
	}
	SF_ASSERT(nnotes == 0 && ledger_is_valid());
}

/*
 * Remember that a segment has early entries: sfi_ledger_has() must still find them.
 */
static void
note_logged(SfSegment *seg)
{
	for (int64 i = 0; i < nlogged; i++)
		if (logged[i] == seg)
			return;
	logged = sfi_write_make_room(logged, nlogged, &logged_size, sizeof(SfSegment *));
	logged[nlogged++] = seg;
}

/*
 * Log what may be logged early of a list.  All lists have been summed up, so that nothing
 * in them is done.
 */
static void
log_early(Level *level, SfNoteKind kind)
{
	NoteList   *list = &level->lists[kind];
	int64		usable;

	if (kind == SF_NOTE_ALLOC && level->level > 1 && !SF_BREAKS(l3))
		return;					/* L3 */
	SF_ASSERT(list->done == 0);
	usable = usable_first(list);
	while (list->done < usable)
	{
		uint64		fxid = fxid_of(level);

		CHECK_FOR_INTERRUPTS();
		SF_FAULT(entries_early);
		check_fxid(level->level, fxid);
		SF_INVARIANT(L3, kind != SF_NOTE_ALLOC || level->level == 1);
		SF_INVARIANT(L5, sf_space_is_usable(list->items[list->done].seg));
		note_logged(list->items[list->done].seg);
		log_some(list, usable, pend_kinds[kind], fxid);
	}
	forget_done(list);
}

/*
 * What is held does not count, and nothing is logged when the sum is half of the limit
 * or less: else all would be sorted again for each of the next notes.
 */
void
sfi_ledger_bound(void)
{
	int64		limit = sf_transaction_memory_kb * INT64CONST(1024) / sizeof(Note);

	/*
	 * Twice: held notes are in the sum and can double before it is worth
	 * trying again.  A limit of 0 stays 0, for tests that want everything
	 * logged at once.
	 */
	if (limit > 0)
		limit += 2 * nheld;
	if (nnotes <= limit)
		return;
	sum_up_all();
	if (nnotes <= limit / 2)
		return;
	for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
		for (int64 i = 0; i < nlevels; i++)
			log_early(&levels[i], kind);

	/*
	 * Whatever is left could not be logged.  Until it can, it must not count:
	 * else each further note would sort all of them again.
	 */
	nheld = nnotes;
	SF_ASSERT(ledger_is_valid());
}

bool
sfi_ledger_has(SfStorage storage)
{
	for (int64 i = 0; i < nlogged; i++)
		if (SfStorageEquals(logged[i]->storage, storage))
			return true;
	for (int64 i = 0; i < nlevels; i++)
		for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
		{
			const NoteList *list = &levels[i].lists[kind];

			for (int64 f = list->done; f < list->n; f++)
				if (SfStorageEquals(list->items[f].seg->storage, storage))
					return true;
		}
	return false;
}

/* ---- savepoints ---- */

/*
 * Add what a level has to another one; false, and nothing changed, if there is no memory
 * for that.  Room is made for all kinds first: a level that is half given would be logged
 * twice or not at all.
 */
static bool
give(Level *from, Level *to)
{
	for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
		if (!reserve_notes(&to->lists[kind], from->lists[kind].n - from->lists[kind].done))
			return false;
	for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
	{
		NoteList   *source = &from->lists[kind];
		NoteList   *target = &to->lists[kind];
		int64		n = source->n - source->done;

		if (n > 0)
			memcpy(target->items + target->n, source->items + source->done, n * sizeof(Note));
		target->n += n;
		SF_ASSERT(target->n <= target->size);
		if (source->items != NULL)
			pfree(source->items);
	}
	return true;
}

/* Throws nothing: what cannot be merged for want of memory stays as it is. */
void
sf_write_at_subcommit(int level)
{
	SF_ASSERT(level > 1 && (nlevels == 0 || levels[nlevels - 1].level <= level));
	sfi_removals_at_subcommit(level);

	/*
	 * The xid of a level stays that of the child: an entry that carries it
	 * has the same verdict as one of the parent from now on, since the child
	 * has committed to it.
	 */
	for (int64 i = nlevels; i > 0 && levels[i - 1].level >= level; i--)
		levels[i - 1].level = level - 1;
	if (level == 2)
		nheld = 0;				/* L3 holds nothing any more */
	while (nlevels > 1 && levels[nlevels - 2].level == levels[nlevels - 1].level &&
		   give(&levels[nlevels - 1], &levels[nlevels - 2]))
		nlevels--;
}

void
sf_write_at_subabort(int level)
{
	sfi_removals_at_subabort(level);
	for (; nlevels > 0 && levels[nlevels - 1].level >= level; nlevels--)
		for (int kind = 0; kind < SF_NOTE_KINDS; kind++)
		{
			NoteList   *list = &levels[nlevels - 1].lists[kind];

			nnotes -= list->n - list->done;
			if (list->items != NULL)
				pfree(list->items);
		}
	nheld = 0;
	SF_ASSERT(nnotes >= 0);
}

void
sfi_ledger_reset(void)
{
	levels = NULL;
	logged = NULL;
	nlevels = levels_size = nnotes = nheld = nlogged = logged_size = 0;
}
