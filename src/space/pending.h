/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  The pending queue, for the files of space/ that work on it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_PENDING_H
#define SF_PENDING_H

#include "space/pages.h"

/* A transaction goes on: oldest_unresolved is the oldest one of these. */
static inline void
sfi_note_unresolved(SfMaintain *stats, FullTransactionId fxid)
{
	SF_ASSERT(FullTransactionIdIsValid(fxid));
	if (!FullTransactionIdIsValid(stats->oldest_unresolved) ||
		FullTransactionIdPrecedes(fxid, stats->oldest_unresolved))
		stats->oldest_unresolved = fxid;
}

/*
 * Lock the last page of the queue, or of the history.  DATA_CORRUPTED where it leads on to another:
 * then the header is an old one, and what is added here could get lost.
 */
extern Buffer sfi_pending_read_tail(Relation rel, uint32 tail);

/*
 * Take a dynamic page: off the free list, else one never used, extending the relation if
 * need be.  The header page is locked exclusively, and h is the caller's copy of it, which
 * is changed and has to be logged.  The page comes back locked exclusively, to be
 * initialised in the same record.  DATA_CORRUPTED, DISK_FULL.
 */
extern Buffer sfi_pending_take_page(Relation rel, SfHeader *h);

/* Put a page on the free list of such a copy.  Returns what it contains from now on. */
static inline SfFreePage
sfi_pending_give_page(SfHeader *h, uint32 page)
{
	SfFreePage	content = {h->free_head};

	SF_ASSERT(sf_is_dynamic_page(page) && page != h->free_head);
	h->free_head = page;
	h->free_pages++;
	return content;
}

/*
 * Lock the last page of the queue exclusively, with room for n entries (at most
 * SF_PENDING_MAX); adds a page if need be.  hmode BUFFER_LOCK_EXCLUSIVE: the header page
 * stays locked so, and is returned in *hbuf; BUFFER_LOCK_SHARE: it is released, and hbuf is
 * NULL.  No page of the segment is locked before.  DATA_CORRUPTED, DISK_FULL.
 */
extern Buffer sfi_pending_lock_tail(Relation rel, int n, int hmode, Buffer *hbuf);

/*
 * For the resolver: lock a pending page exclusively (*buf), and the last one of the queue,
 * which is returned and may be the same.  *n becomes as many entries as that has room for,
 * and at least 1 if it was; a page is added if need be.
 */
extern Buffer sfi_pending_lock_both(Relation rel, uint32 page, Buffer *buf, int *n);

/*
 * An entry of this transaction, which gets its xid here (rule 3).  fxid: the top-level one,
 * or that of a subtransaction, not above the current one.  start and count: sectors on one
 * map page, or a page number and 1, or a share record and a number of references.
 */
extern SfPendEntry sfi_pending_entry(SfPendKind kind, uint64 fxid, uint64 start, uint32 count);

/* What is to become of an entry. */
typedef enum SfVerdict
{
	SF_VERDICT_WAIT,			/* its transaction runs, or somebody needs it */
	SF_VERDICT_COMMITTED,		/* FREE committed, not below the horizon: note
								 * it */
	SF_VERDICT_DROP,			/* nothing to free: forget the entry */
	SF_VERDICT_FREE,			/* free the space and forget the entry */
	SF_VERDICT_LOST,			/* outcome cannot be known any more */
} SfVerdict;

/* Oldest full xid that may still matter to anybody, and that clog knows. */
typedef struct SfHorizon
{
	uint64		removable;		/* freeing xids below are seen by all */
	uint64		prepared;		/* PREPARE of xids below was decoded by all */
	uint64		clog;			/* outcomes below are not known any more */
	uint64		next;			/* no transaction from here on has ended */
} SfHorizon;

/*
 * The horizon as of now; it may be used for as long as one likes, and only gets more
 * careful than need be.  Looks at all processes and slots: not for every value.
 */
extern SfHorizon sfi_pending_horizon(void);

/* The entry is sound (sf_format_entry_problem()).  May read the commit log; no page locked. */
extern SfVerdict sfi_pending_verdict(const SfPendEntry *entry, SfHorizon horizon);

/* Is the entry's space live all the same?  (ALLOC committed, FREE aborted) */
extern bool sfi_pending_is_live(const SfPendEntry *entry, SfHorizon horizon);

/*
 * S5: has the transaction of an entry ended, and so?  True also where nobody can tell any
 * more.  For assertions: it asks the server anew, and goes by no horizon.
 */
extern bool sfi_pending_has_ended(const SfPendEntry *entry, bool committed);

/* ---- the resolver's work on one pending page (resolve.c, references.c) ---- */

#define SF_RESOLVE_MAPS	16		/* map pages in one record */

/* What the resolver keeps of what it could set free (history.c). */
typedef struct SfKeeping
{
	bool		keeps;			/* else nothing */
	bool		stays;			/* nothing of it ends in this walk */
	int64		retention_us;	/* for how long */
	uint64		most_sectors;	/* and so much of it */
	int64		now_us;			/* sfi_history_time() */
	int64		stamp_us;		/* the same, but not before any record of a
								 * removed value */
	uint64		ended_fxid;		/* but nothing of transactions below that one */
	uint64		bared_sectors;	/* of shared objects that have lost other
								 * references than kept ones */
} SfKeeping;

typedef struct SfPageWork
{
	Relation	rel;
	uint32		page;
	SfHorizon	horizon;
	SfKeeping	keeping;
	int			n;				/* entries as read; only more can be added */
	SfPendEntry entries[SF_PENDING_MAX];
	SfMap		left[SF_RESOLVE_MAPS];	/* maps of the record, as its clears
										 * leave them */
	SfMaintain *stats;
} SfPageWork;

/* Take entries with these places, which ascend, out of the copy: they are off the page. */
extern void sfi_pending_forget(SfPageWork *work, const uint16 *indexes, int n);

/* Raise *newest, what snapshots of a standby must outlive, to an entry that frees. */
extern void sfi_pending_note_freeing(TransactionId *newest, const SfPendEntry *entry);

/*
 * Carry out what can be of the entries of a page that are about share records.  The
 * resolver's lock is held, and no page.  True: entries that can be resolved are new in the
 * queue.  DATA_CORRUPTED at a damaged pending page; others are passed over.
 */
extern bool sfi_references_resolve(SfPageWork *work, SfSegment *seg);

/* Is space that an entry would set free to be kept instead?  The verdict on it is FREE. */
static inline bool
sfi_pending_is_to_keep(const SfPageWork *work, const SfPendEntry *entry)
{
	return work->keeping.keeps && sf_format_pend_kind(entry->kind)->is_kept &&
		entry->outcome != SF_OUTCOME_KEPT && entry->fxid >= work->keeping.ended_fxid;
}

/* Is it known of a transaction that it aborted, or ended in a crash? */
extern bool sfi_pending_transaction_aborted(uint64 fxid);

#endif							/* SF_PENDING_H */
