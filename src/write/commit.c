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

#include "access/xact.h"
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
	sf_space_disown_parked();
}

void
sfi_write_require_open(void)
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
sfi_write_note_entries(void)
{
	entries_logged = true;
}

void
sf_write_pre_commit(void)
{
	SF_ASSERT(!pre_commit_done && GetCurrentTransactionNestLevel() == 1);
	pre_commit_done = true;
	if (!sfi_owner_has_work())
		return;
	SF_FAULT(commit_before_flush);
	sfi_gather_flush_all(true);
	SF_FAULT(commit_after_data);
	sfi_owner_log();
	SF_FAULT(commit_after_alloc);
	sfi_arena_release_full();
	SF_FAULT(commit_before_record);
}

bool
sf_write_at_end(bool commit)
{
	bool		logged = entries_logged;

	sfi_arena_end(commit, logged);
	sfi_gather_reset();
	sfi_owner_reset();
	sfi_work_reset();
	pre_commit_done = entries_logged = false;
	return logged;
}
