/*-------------------------------------------------------------------------
 *
 * retained.c
 *	  Storage that is dropped, or replaced, while logical decoding may need it.
 *
 * A slot that lags sends values of rows as they were, also when their table has
 * been truncated, rewritten or dropped since.  Their bytes lie in our files,
 * which then stay until no slot needs them; their unit maps lie in pages of the
 * segment relation, which the server removes at commit.  So before the commit
 * a copy of these pages is put beside the data files: file "kept", a first
 * block (KeptHeader) and then the pages in order.
 *
 * K1	the copy counts once the transaction that made it has committed; until
 *		then, and after an abort, the segment relation does.
 * K2	a process that reads the segment relation for decoding holds a lock on it, or
 *		knows that there is no copy that counts and none can come.
 *
 * The sweeper removes the storage when no slot's catalog horizon is older than
 * the transaction.
 *
 *	 BEGIN; DROP TABLE			pre-commit				commit record		later
 *	 note: storage goes		->	kept.new, fsync,	->	the copy counts	->	no slot needs it:
 *								renamed to kept			(K1)				sweeper removes all
 *
 * The copy is made before the commit record, since it may fail (a full disk), and the
 * transaction can still be rolled back then.  An abort leaves the copy where it is.  It
 * does not count, and the next drop of the same storage replaces it.
 *
 * Decoding compares no names and no catalog entries: the copy itself names the
 * transaction that made it, and the commit log knows how that has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>

#include "access/transam.h"
#include "access/xact.h"
#include "base/server.h"
#include "miscadmin.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/storage.h"
#include "storage/fd.h"

#define KEPT_NAME		"kept"
#define KEPT_MAGIC		UINT64CONST(0x53464b4550543031)

/* The first block of the file; the rest of it is zero. */
typedef struct KeptHeader
{
	uint64		magic;
	uint64		fxid;			/* transaction that dropped the storage */
} KeptHeader;

StaticAssertDecl(sizeof(KeptHeader) == 16, "the copy has the same layout on all machines");
StaticAssertDecl(sizeof(KeptHeader) <= BLCKSZ, "its header lies in the first block");

/*
 * One slot of this database is enough, wherever it stands: what is dropped now comes
 * after all that the slot has sent.
 */
static bool
note_slot(const SfServerSlot *slot, void *arg)
{
	*(bool *) arg = true;
	return false;
}

bool
sf_space_keeps_dropped(void)
{
	bool		found = false;

	sf_server_visit_slots(note_slot, &found);
	return found;
}

/* ---- making the copy ---- */

/* Write one block of the copy; a short write is a full disk. */
static void
write_kept_block(int fd, const char *path, uint64 n, const char *block)
{
	errno = 0;
	if (SF_FAULT_FAILS(io_page_write) || pg_pwrite(fd, block, BLCKSZ, n * BLCKSZ) != BLCKSZ)
	{
		if (errno == 0)
			errno = ENOSPC;
		sf_io_report_path(ERROR, "write file", path);
	}
}

/*
 * Under a name of its own until it is whole and durable: a crash in the middle must not
 * leave half of a copy under the name that counts.
 */
void
sfi_retained_save(SfStorage storage)
{
	PGAlignedBlock block = {0};
	KeptHeader *header = (KeptHeader *) block.data;
	SMgrRelation smgr = sf_compat_smgropen(storage);
	BlockNumber npages = smgrexists(smgr, MAIN_FORKNUM) ? smgrnblocks(smgr, MAIN_FORKNUM) : 0;
	char		final[MAXPGPATH];
	char		path[MAXPGPATH];
	int			fd;

	SF_ASSERT(sf_space_keeps_dropped() && CritSectionCount == 0);
	sf_io_make_entry(storage, KEPT_NAME);
	sf_io_make_entry(storage, KEPT_NAME ".new");
	sf_io_named_path(final, storage, KEPT_NAME);
	sf_io_named_path(path, storage, KEPT_NAME ".new");
	fd = SF_FAULT_FAILS(io_page_write) ? -1 :
		OpenTransientFile(path, O_RDWR | O_CREAT | O_TRUNC | PG_BINARY);
	if (fd < 0)
		sf_io_report_path(ERROR, "create file", path);
	header->magic = KEPT_MAGIC;
	header->fxid = U64FromFullTransactionId(GetTopFullTransactionId());
	write_kept_block(fd, path, 0, block.data);
	for (BlockNumber page = 0; page < npages; page++)
	{
		CHECK_FOR_INTERRUPTS();
		/* a drop goes on over damage: what needs that page will say so */
		sfi_page_image(storage, page, RBM_ZERO_ON_ERROR, block.data);
		write_kept_block(fd, path, 1 + (uint64) page, block.data);
	}
	if (CloseTransientFile(fd) != 0)
		sf_io_report_path(ERROR, "close file", path);
	if (SF_FAULT_FAILS(io_rename))
		sf_io_report_path(ERROR, "rename file", path);
	(void) durable_rename(path, final, ERROR);
	SF_FAULT(kept_after_copy);
}

/* ---- using it ---- */

/* Read one block of the copy; false when there is no copy, or no such block. */
static bool
read_kept_block(SfStorage storage, uint64 n, char *block)
{
	char		path[MAXPGPATH];

	sf_io_named_path(path, storage, KEPT_NAME);
	return sfi_page_from_file(path, n, block, ERROR);
}

/* Read the first block of the copy; false when there is none, or it is none of ours. */
static bool
read_kept_header(SfStorage storage, KeptHeader *header)
{
	PGAlignedBlock block;

	if (!read_kept_block(storage, 0, block.data))
		return false;
	*header = *(KeptHeader *) block.data;
	return header->magic == KEPT_MAGIC;
}

/* Did the transaction that made the copy commit? */
static bool
has_committed(const KeptHeader *header)
{
	FullTransactionId fxid = FullTransactionIdFromU64(header->fxid);

	SF_ASSERT(header->magic == KEPT_MAGIC);
	return TransactionIdDidCommit(XidFromFullTransactionId(fxid));
}

bool
sfi_retained_counts(SfStorage storage)
{
	KeptHeader	header;

	return read_kept_header(storage, &header) && (has_committed(&header) || SF_BREAKS(k1));
}

/*
 * As for what rows have set free: the horizon takes the catalog xmin of all slots into
 * account.  A slot that is older than the drop may still have to send those rows.
 */
bool
sfi_retained_is_needed(SfStorage storage)
{
	KeptHeader	header;

	return read_kept_header(storage, &header) && header.fxid >= sfi_pending_horizon().removable;
}

SfPageType
sfi_retained_page(SfStorage storage, uint32 page, char *content)
{
	PGAlignedBlock block;

	SF_ASSERT(page != SF_NO_PAGE);
	if (!read_kept_block(storage, 1 + (uint64) page, block.data))
		return 0;
	sfi_page_require_sound(block.data, storage, SfStorageRel(storage), page);
	memcpy(content, PageGetContents(block.data), SF_PAGE_CONTENT);
	return sfi_page_type(block.data);
}

SfHeader
sfi_retained_header(SfStorage storage)
{
	char		content[SF_PAGE_CONTENT];
	KeptHeader	header;

	SF_INVARIANT(K1, !read_kept_header(storage, &header) || has_committed(&header));
	if (sfi_retained_page(storage, 0, content) != SF_PAGE_HEADER)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("kept header page of a dropped securefile segment is damaged")));
	return *(SfHeader *) content;
}
