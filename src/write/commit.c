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
#include "write/write_internal.h"

void
sf_write_pre_commit(void)
{
	SF_ASSERT(GetCurrentTransactionNestLevel() == 1);
	sfi_work_close();
	if (!sfi_work_has_segments())
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
	bool		logged = sfi_work_has_entries();

	sfi_arena_end(commit, logged);
	sfi_gather_reset();
	sfi_charge_at_end();
	sfi_owner_reset();
	sfi_work_reset();
	return logged;
}
