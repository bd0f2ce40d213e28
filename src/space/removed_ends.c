/*-------------------------------------------------------------------------
 *
 * removed_ends.c
 *	  How the transactions of records of removed values have ended.
 *
 * A record counts when its transaction has committed.  The commit log tells, until it is cut.  So
 * the resolver notes the outcome with each chunk, from the first page on that has one that is not
 * known; removed_pages.c has a picture.  A chunk whose records were wiped needs none.
 *
 * Without that the commit log would have to be kept for as long as the retention, and the
 * horizon of freezing with it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "space/history_internal.h"
#include "space/pages.h"

/* Outcomes of the chunks of a page. */
typedef struct Ends
{
	int			nstates;
	SfRemovedState states[SF_REMOVED_ROOM / sizeof(SfRemovedChunk)];
	bool		left;			/* has a transaction not ended? */
} Ends;

/*
 * Ask for all of the copy, with nothing locked: the commit log may have to be read.  A transaction
 * of which nobody knows any more is taken for one that has not committed.
 */
static void
ask_ends(const SfRemovedPage *page, SfHorizon horizon, Ends *ends, SfMaintain *stats)
{
	SfRemovedReader *reader = palloc(sizeof(SfRemovedReader));

	ends->nstates = 0;
	ends->left = false;
	sf_format_removed_begin(reader, page->chunks, page->nbytes);
	while (sf_format_removed_next_chunk(reader))
	{
		SfTransactionEnd end;

		if (reader->chunk.outcome != SF_REMOVED_UNKNOWN)
			continue;
		end = sf_base_transaction_end_at(reader->chunk.fxid, horizon.next, horizon.clog);
		if (end == SF_END_RUNNING)
		{
			ends->left = true;
			sfi_note_unresolved(stats, FullTransactionIdFromU64(reader->chunk.fxid));
			continue;
		}
		ends->states[ends->nstates].offset = (uint16) reader->chunk_at;
		ends->states[ends->nstates++].outcome = end == SF_END_COMMITTED ? SF_REMOVED_COMMITTED :
			SF_REMOVED_ABORTED;
	}
	pfree(reader);
}

/* Note them on the page: only the resolver changes what is there. */
static void
put_ends(Relation rel, uint32 page, const Ends *ends)
{
	Buffer		buf = sfi_page_read(rel, page, SF_PAGE_REMOVED, BUFFER_LOCK_EXCLUSIVE);

	SF_ASSERT(ends->nstates > 0);
	sfi_change_begin();
	sfi_change_op(sfi_change_add(buf), SF_OP_REMOVED_STATES, ends->states,
				  ends->nstates * sizeof(SfRemovedState));
	sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
}

/* All before that page is noted, from now on. */
static void
move_unknown(Relation rel, uint32 page)
{
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(rel, &h);

	SF_ASSERT(h.removed_unknown != 0 && page != 0);
	h.removed_unknown = page;
	sfi_change_begin_header(hbuf, &h);
	sfi_change_finish_pages(SF_PAGES_REMOVED, 0, 0);
}

void
sfi_removed_note_ends(Relation rel, SfHorizon horizon, SfMaintain *stats)
{
	uint32		unknown = sfi_header(rel).removed_unknown;
	uint32		first = unknown;
	SfRemovedPage *copy = palloc(SF_PAGE_CONTENT);
	Ends	   *ends = palloc(sizeof(Ends));

	SF_INVARIANT(rule_1, sfi_page_lock_is_held(rel, SF_LOCK_RESOLVER));
	for (uint32 page = unknown; page != 0 && page != SF_NO_PAGE; page = copy->next)
	{
		CHECK_FOR_INTERRUPTS();
		sfi_page_read_copy(rel, page, SF_PAGE_REMOVED, copy);
		ask_ends(copy, horizon, ends, stats);
		if (ends->nstates > 0)
			put_ends(rel, page, ends);
		/* the last page gets more */
		if (page == first && !ends->left && copy->next != SF_NO_PAGE)
			first = copy->next;
	}
	if (first != unknown)
		move_unknown(rel, first);
	pfree(ends);
	pfree(copy);
}
