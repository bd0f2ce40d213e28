/*-------------------------------------------------------------------------
 *
 * copy.c
 *	  Pages of a segment relation, copied into new storage.
 *
 * The new storage is of the same incarnation: locators lead to it as they led
 * to the old one.  As for an index that is built, or a table that is moved to
 * another tablespace, pages are logged whole, written past shared buffers and
 * made durable before the transaction can commit.
 *
 * What holds for the old storage only is left out: the transaction that made it (the
 * sweeper asks whether it is still alive), and what is lent.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "base/server.h"
#include "miscadmin.h"
#include "space/pages.h"
#include "space/storage.h"

/*
 * Leave out what holds for the old storage only.  An LSN that is carried over would
 * make sf_space_lend() flush WAL up to a place that has nothing to do with this
 * storage; the boot id of this start would make lent bits count that nobody holds.
 */
static void
make_own(Page page)
{
	if (sfi_page_type(page) == SF_PAGE_HEADER)
		SfPageHeader(page)->creator_fxid = U64FromFullTransactionId(GetTopFullTransactionId());
	else if (sfi_page_type(page) == SF_PAGE_MAP)
	{
		SfPageMap(page)->boot_id = 0;
		SfPageMap(page)->cleared_lsn = 0;
	}
}

/*
 * A base backup that begins after the record must find the page in the file: it
 * copies files when its checkpoint is complete.
 */
static void
write_copied_page(SMgrRelation smgr, SfStorage to, BlockNumber n, char *block)
{
	sf_server_delay_checkpoint_begin();
	if (XLogIsNeeded())
		log_newpage(&to, MAIN_FORKNUM, n, block, false);
	PageSetChecksumInplace(block, n);
	smgrextend(smgr, MAIN_FORKNUM, n, block, true);
	sf_server_delay_checkpoint_end();
}

void
sfi_copy_pages(SfStorage to, BlockNumber npages, SfPageSource read, void *arg)
{
	SMgrRelation smgr = sf_compat_smgropen(to);
	SfIoBlock	block;

	SF_ASSERT(npages > 0 && smgrexists(smgr, MAIN_FORKNUM) && smgrnblocks(smgr, MAIN_FORKNUM) == 0);
	for (BlockNumber n = 0; n < npages; n++)
	{
		CHECK_FOR_INTERRUPTS();
		read(n, block.data, arg);

		/*
		 * Most pages between those of the map are not used yet.  They become
		 * holes, but for the last one: the relation must be as long as it
		 * was.
		 */
		if (PageIsNew(block.data) && n < npages - 1)
			continue;
		make_own(block.data);
		if (sfi_page_type(block.data) != 0)
			sfi_seal_put(block.data, SfStorageRel(to), n);
		write_copied_page(smgr, to, n, block.data);
	}

	/*
	 * The pages were written past shared buffers, so no checkpoint knows of
	 * them: what is not made durable here may be lost after the commit.
	 */
	smgrimmedsync(smgr, MAIN_FORKNUM);
	smgrclose(smgr);
}
