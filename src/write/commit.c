/*-------------------------------------------------------------------------
 *
 * commit.c
 *	  The order of things at the end of a transaction.
 *
 * Before the commit (or prepare) record is written:
 *	 1	what is gathered is written; the bytes of logging columns go to WAL
 *		meanwhile;
 *	 2	the writes are waited for and made durable;
 *	 3	the space entries are in WAL: ALLOC for what rows own now, FREE for
 *		what they have lost, FREE_PAGE for inode pages that nobody owns;
 *	 4	regions that are full are given back: their used bits protect them now.
 * The commit record follows all of these in WAL, so that it is never durable
 * without them.  An abort needs none: what was not allocated was only lent.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "write/write_internal.h"

static bool pre_commit_done;
static bool entries_logged;		/* or begun to be: work for the monitor */
static bool exit_registered;

static void
at_exit(int code, Datum arg)
{
	sf_io_reap_all();
	sf_space_arena_disown();
}

void
sf_write_require_open(void)
{
	if (pre_commit_done)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("securefile values cannot be changed while the transaction is being committed")));
	if (!exit_registered)
	{
		/* runs after the abort of an open transaction */
		on_shmem_exit(at_exit, (Datum) 0);
		exit_registered = true;
	}
}

void
sf_write_note_entries(void)
{
	entries_logged = true;
}

/* Log facts of one kind, segment by segment; those of dropped ones fall away. */
static void
log_facts(SfFacts *facts, SfPendKind kind)
{
	SfRun	   *runs;
	int64		from = 0;

	if (facts->n == 0)
		return;
	runs = MemoryContextAllocHuge(sf_write_context(), facts->n * sizeof(SfRun));
	while (from < facts->n)
	{
		SfSegment  *seg = facts->items[from].seg;
		int64		n = 0;

		while (from + n < facts->n && facts->items[from + n].seg == seg)
		{
			runs[n] = facts->items[from + n].run;
			n++;
		}
		SF_FAULT(commit_before_entries);
		if (sf_space_is_usable(seg))
			sf_space_log_entries(seg, kind, runs, n);
		from += n;
	}
}

void
sf_write_pre_commit(void)
{
	SfFacts		alloc = {0};
	SfFacts		free = {0};
	SfFacts		pages = {0};

	pre_commit_done = true;
	if (!sf_owner_has_work())
		return;
	SF_FAULT(commit_before_flush);
	sf_gather_flush_all(true);
	SF_FAULT(commit_after_data);
	sf_owner_collect(&alloc, &free, &pages);
	if (alloc.n + free.n + pages.n > 0)
		sf_write_note_entries();
	log_facts(&alloc, SF_PEND_ALLOC);
	log_facts(&free, SF_PEND_FREE);
	log_facts(&pages, SF_PEND_FREE_PAGE);
	SF_FAULT(commit_after_alloc);
	sf_arena_release_full();
	SF_FAULT(commit_before_record);
}

bool
sf_write_at_end(bool commit)
{
	bool		logged = entries_logged;

	sf_arena_end(commit, logged);
	sf_gather_reset();
	sf_owner_reset();
	sf_work_reset();
	pre_commit_done = entries_logged = false;
	return logged;
}
