/*-------------------------------------------------------------------------
 *
 * wal_records.c
 *	  The records of space/: the table of them, the resource manager with redo,
 *	  description and masking; and data records.
 *
 * What redo may rely on, and what it must do, by rules of doc/architecture.md:
 *
 *	 rule 2		a record that frees space or removes files is made durable before its
 *				effect, also on a standby: after a restart the standby begins again
 *				before it, and must not find files that are ahead of its WAL;
 *	 rule 4		pages go through shared buffers, and a relation that has been dropped
 *				later in WAL is left to the server's own handling of missing pages;
 *	 rule 5		bytes of data files are never touched but by DATA records.  Columns with
 *				filesystem_like_logging have no such records, and what they have
 *				committed lies in the files alone.
 *
 * Files come before pages where they get longer, and after them where they get shorter,
 * as on the primary: a page never says more than there is.
 *
 * A record is checked as a whole (record.c) before any of it is replayed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/bufmask.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "replication/decode.h"
#include "replication/reorderbuffer.h"
#include "space/lend.h"
#include "space/pages.h"
#include "space/record.h"
#include "space/storage.h"
#include "storage/standby.h"

/* Bytes of data records: before the WAL writer is woken first in a transaction, and then again. */
#define FLUSH_BEHIND_FROM	(4 * 1024 * 1024)
#define FLUSH_BEHIND_STEP	(1024 * 1024)

/*
 * The session has logged len_bytes of data up to lsn.  Have the WAL writer write and flush what
 * a long value logs, beside the session, which would write its WAL alone and wait for the flush of
 * each segment.  A transaction that logs little flushes it all at commit, and is not to wait for
 * two flushes.
 */
static void
flush_behind(XLogRecPtr lsn, Size len_bytes)
{
	static TransactionId xid = InvalidTransactionId;
	static Size logged = 0;		/* by xid, since the WAL writer was woken */

	if (xid != GetTopTransactionId())
	{
		xid = GetTopTransactionId();
		logged = 0;
	}
	logged += len_bytes;
	if (logged >= FLUSH_BEHIND_FROM)
	{
		XLogSetAsyncXactLSN(lsn);
		logged -= FLUSH_BEHIND_STEP;
	}
}

/*
 * In pieces of 1 MB: a record is assembled in memory, and replay reads it whole.  With an
 * xid, so that logical decoding and recovery count the records to the transaction.
 */
void
sf_space_log_data(SfSegment *seg, uint64 start_sector, const char *data, uint32 nsectors)
{
	SF_ASSERT(nsectors > 0 && start_sector + nsectors <= SF_MAX_SECTORS);
	SF_ASSERT(seg->logged_data);
	if (!XLogIsNeeded())
		return;					/* wal_level=minimal: the data is durable */
	(void) GetCurrentTransactionId();
	while (nsectors > 0)
	{
		uint32		n = Min(nsectors, SF_DATA_RECORD_SECTORS);
		xl_sf_data	rec = {SF_WAL_VERSION, seg->storage, start_sector, n};

		CHECK_FOR_INTERRUPTS();
		SF_FAULT(data_record);
		XLogBeginInsert();
		XLogRegisterData((char *) &rec, sizeof(rec));
		XLogRegisterData((char *) data, sf_sectors_to_bytes(n));
		flush_behind(XLogInsert(SF_RMGR_ID, XLOG_SF_DATA), sf_sectors_to_bytes(n));
		data += sf_sectors_to_bytes(n);
		start_sector += n;
		nsectors -= n;
	}
}

/* ---- what the structs hold, besides what many of them do ---- */

static const char *const reasons[] = {
	[SF_PAGES_ENTRIES] = "ENTRIES",
	[SF_PAGES_QUEUE] = "QUEUE",
	[SF_PAGES_INODE] = "INODE",
	[SF_PAGES_HEADER] = "HEADER",
	[SF_PAGES_REPAIR] = "REPAIR",
	[SF_PAGES_DICTIONARY] = "DICTIONARY",
	[SF_PAGES_KEYS] = "KEYS",
	[SF_PAGES_SHARE] = "SHARE",
	[SF_PAGES_REAP] = "REAP",
	[SF_PAGES_ADVICE] = "ADVICE",
	[SF_PAGES_MARK] = "MARK",
	[SF_PAGES_HISTORY] = "HISTORY",
	[SF_PAGES_REMOVED] = "REMOVED",
};

/* The name of a reason; NULL: there is no such reason. */
static const char *
reason_name(uint8 reason)
{
	return reason < lengthof(reasons) ? reasons[reason] : NULL;
}

/* What is wrong with what a PAGES record says of itself; NULL: nothing. */
static const char *
reason_problem(const void *data, Size len)
{
	const xl_sf_pages *rec = data;

	if (reason_name(rec->reason) == NULL || rec->reserved != 0)
		return "it changes pages for an unknown reason";
	if (rec->nentries == 0 ? rec->kind != 0 : sf_format_pend_kind(rec->kind)->name == NULL)
		return "its pending entries are of an unknown kind";
	return NULL;
}

/* A wrong reason or kind is named as such: desc is asked of damaged records, too. */
static void
desc_pages(StringInfo buf, const void *data)
{
	const xl_sf_pages *rec = data;
	const char *reason = reason_name(rec->reason);
	const char *kind = sf_format_pend_kind(rec->kind)->name;

	appendStringInfo(buf, "reason %s", reason != NULL ? reason : "unknown");
	if (rec->nentries > 0)
		appendStringInfo(buf, "; kind %s; entries %u", kind != NULL ? kind : "unknown",
						 rec->nentries);
}

static void
desc_resolve(StringInfo buf, const void *data)
{
	const xl_sf_resolve *rec = data;

	appendStringInfo(buf, "; horizon %u; entries %u", rec->horizon, rec->nentries);
}

/* What is wrong with a DATA record; NULL: nothing. */
static const char *
bytes_problem(const void *data, Size len)
{
	const xl_sf_data *rec = data;

	if (rec->nsectors == 0 || rec->nsectors > SF_DATA_RECORD_SECTORS ||
		len != sizeof(*rec) + sf_sectors_to_bytes(rec->nsectors))
		return "it has another number of bytes than it says";
	if (rec->start_sector > SF_MAX_SECTORS - rec->nsectors)
		return "its bytes have an impossible place";
	return NULL;
}

static void
desc_bytes(StringInfo buf, const void *data)
{
	const xl_sf_data *rec = data;

	appendStringInfo(buf, "; sector " UINT64_FORMAT "; sectors %u", rec->start_sector,
					 rec->nsectors);
}

/* One of the runs behind the struct, which need not be aligned. */
static xl_sf_hole
hole_of(const xl_sf_release *rec, uint32 i)
{
	xl_sf_hole	hole;

	memcpy(&hole, (const char *) (rec + 1) + i * sizeof(hole), sizeof(hole));
	return hole;
}

/* What is wrong with a RELEASE record; NULL: nothing. */
static const char *
holes_problem(const void *data, Size len)
{
	const xl_sf_release *rec = data;

	if (rec->nholes == 0 || rec->nholes > SF_RELEASE_RUNS ||
		len != sizeof(*rec) + rec->nholes * sizeof(xl_sf_hole))
		return "it has another number of runs than it says";
	for (uint32 i = 0; i < rec->nholes; i++)
	{
		xl_sf_hole	hole = hole_of(rec, i);

		if (hole.nsectors == 0 || hole.nsectors > SF_MAP_SECTORS ||
			hole.start_sector > SF_MAX_SECTORS - hole.nsectors ||
			!sf_same_map(hole.start_sector, hole.start_sector + hole.nsectors - 1) ||
			hole.start_sector % SF_BLOCK_SECTORS != 0 || hole.nsectors % SF_BLOCK_SECTORS != 0)
			return "it has an impossible run";
	}
	return NULL;
}

static void
desc_holes(StringInfo buf, const void *data)
{
	const xl_sf_release *rec = data;

	appendStringInfo(buf, "; runs %u", rec->nholes);
}

/* ---- redo ---- */

/*
 * Rule 5: files come with the first growth, and creation touches none; after a
 * crash they may be there and hold committed data already.
 */
static void
redo_create(XLogReaderState *record, const void *data)
{
	sf_io_database_claim(SfStorageDb(((const xl_sf_storage *) data)->storage));
	SF_FAULT(redo_create);
	sfi_change_redo(record);
}

/* Rule 2, on a standby: what is gone must not come back after a restart. */
static void
redo_unlink(XLogReaderState *record, const void *data)
{
	XLogFlush(record->EndRecPtr);
	SF_FAULT(redo_unlink);
	sf_io_files_unlink(((const xl_sf_storage *) data)->storage);
	sf_io_redo_settle_removed(((const xl_sf_storage *) data)->storage);
}

/* A record whose pages are all there is to it. */
static void
redo_pages(XLogReaderState *record, const void *data)
{
	SF_FAULT(redo_pages);
	sfi_change_redo(record);
}

/*
 * The bytes are written as they are, also where a later record frees the sectors: what
 * lies there is of no meaning then.  Where the directory is gone, a record that follows
 * removes the storage, and the bytes are left out (sf_io_redo_write()).
 */
static void
redo_data(XLogReaderState *record, const void *data)
{
	const xl_sf_data *rec = data;

	SF_ASSERT(rec->nsectors > 0 && rec->nsectors <= SF_DATA_RECORD_SECTORS);
	SF_FAULT(redo_data);
	sf_io_redo_write(rec->storage, sf_sectors_to_bytes(rec->start_sector),
					 (const char *) (rec + 1), sf_sectors_to_bytes(rec->nsectors));
}

/*
 * Rule 2 on a standby: flush before the blocks can be taken again; and no
 * reader there may still need what was freed.
 */
static void
redo_resolve(XLogReaderState *record, const void *data)
{
	const xl_sf_resolve *rec = data;

	if (InHotStandby && TransactionIdIsValid(rec->horizon))
		sf_compat_resolve_conflict(rec->horizon, rec->storage);
	XLogFlush(record->EndRecPtr);
	SF_FAULT(redo_resolve);
	sfi_change_redo(record);
}

/*
 * The record of a move has no page that repeats the size.  The header page, which
 * was copied before, knows it, unless it was written as it was later.  False when
 * there is none: the segment has been dropped since, and needs no files.
 */
static bool
require_moved_size(const xl_sf_size *rec, XLogRecPtr end)
{
	Buffer		buf = InvalidBuffer;
	Page		page;
	bool		possible;

	SF_ASSERT(InRecovery && rec->total_sectors <= SF_MAX_SECTORS);
	if (smgrexists(sf_compat_smgropen(rec->storage), MAIN_FORKNUM))
		buf = XLogReadBufferExtended(rec->storage, MAIN_FORKNUM, 0, RBM_NORMAL_NO_LOG,
									 InvalidBuffer);
	if (!BufferIsValid(buf))
		return false;
	page = BufferGetPage(buf);
	possible = sfi_page_type(page) != SF_PAGE_HEADER || PageGetLSN(page) >= end ||
		rec->total_sectors <= SfPageHeader(page)->total_sectors;
	ReleaseBuffer(buf);
	if (!possible)
		sfi_record_report("its segment is not that long");
	return true;
}

/*
 * Rule 5: growth adds beyond the end only.  Files that are longer already stay so: in
 * crash recovery they have grown before, and values may lie there.
 */
static void
redo_grow(XLogReaderState *record, const void *data)
{
	const xl_sf_size *rec = data;

	if (XLogRecMaxBlockId(record) < 0 && !require_moved_size(rec, record->EndRecPtr))
		return;
	sf_io_files_ensure(rec->storage, sf_sectors_to_bytes(rec->total_sectors));
	SF_FAULT(redo_grow);
	sfi_change_redo(record);
}

/*
 * Rule 5: in crash recovery the files stay as they are, for unlogged data may
 * have been committed there since; so it may in a copy that is younger than
 * this record (a base backup, pg_rewind), which ends where the server becomes
 * consistent.  After that all that comes is in WAL, and files are cut.
 */
static void
redo_truncate(XLogReaderState *record, const void *data)
{
	const xl_sf_size *rec = data;

	SF_ASSERT(InRecovery && rec->total_sectors % SF_BLOCK_SECTORS == 0);
	XLogFlush(record->EndRecPtr);
	sfi_change_redo(record);
	SF_FAULT(redo_truncate);
	sf_io_redo_settle_cut(rec->storage, sf_sectors_to_bytes(rec->total_sectors));
	if (InArchiveRecovery && reachedConsistency)
		sf_io_redo_truncate(rec->storage, sf_sectors_to_bytes(rec->total_sectors));
}

/*
 * Rule 5, as redo_truncate() has it: after a crash what lies there may be newer.  The primary
 * starts with the holes that it has.
 */
static void
redo_release(XLogReaderState *record, const void *data)
{
	const xl_sf_release *rec = data;

	XLogFlush(record->EndRecPtr);
	SF_FAULT(redo_release);
	if (!InArchiveRecovery || !reachedConsistency)
		return;
	for (uint32 i = 0; i < rec->nholes; i++)
	{
		xl_sf_hole	hole = hole_of(rec, i);

		sf_io_punch(rec->storage, sf_sectors_to_bytes(hole.start_sector),
					sf_sectors_to_bytes(hole.nsectors));
	}
}

/* The files of a database go with one record: its segments have none of their own. */
static void
redo_drop_db(XLogReaderState *record, const void *data)
{
	SF_ASSERT(OidIsValid(((const xl_sf_db *) data)->db));
	XLogFlush(record->EndRecPtr);
	SF_FAULT(redo_drop_db);
	sf_io_database_unlink(((const xl_sf_db *) data)->db);
	sf_io_redo_settle_database(((const xl_sf_db *) data)->db);
}

static void
redo_own(XLogReaderState *record, const void *data)
{
	SF_FAULT(redo_own);
	sf_io_database_set_own(((const xl_sf_db *) data)->db, ERROR);
}

/* ---- the table of records ---- */

#define OPCODE(info)		((info) >> 4)
#define NODE				SF_HOLDS_STORAGE
#define SIZE				SF_HOLDS_SIZE
#define DB					SF_HOLDS_DB
#define BYTES				SF_HOLDS_BYTES
#define MAX					SF_CHANGE_MAX

/* name; struct; what it holds; fewest and most pages; redo, desc, problem */
static const SfRecordKind records[SF_RECORD_KINDS] = {
	[OPCODE(XLOG_SF_CREATE)] =
	{"CREATE", sizeof(xl_sf_storage), NODE, 1, MAX, redo_create},
	[OPCODE(XLOG_SF_UNLINK)] =
	{"UNLINK", sizeof(xl_sf_storage), NODE, 0, 0, redo_unlink},
	[OPCODE(XLOG_SF_GROW)] =	/* of a move: no page */
	{"GROW", sizeof(xl_sf_size), NODE | SIZE, 0, MAX, redo_grow},
	[OPCODE(XLOG_SF_TRUNCATE)] =
	{"TRUNCATE", sizeof(xl_sf_size), NODE | SIZE, 1, MAX, redo_truncate},
	[OPCODE(XLOG_SF_PAGES)] =
	{"PAGES", sizeof(xl_sf_pages), 0, 1, MAX, redo_pages, desc_pages, reason_problem},
	[OPCODE(XLOG_SF_RESOLVE)] =
	{"RESOLVE", sizeof(xl_sf_resolve), NODE, 1, MAX, redo_resolve, desc_resolve},
	[OPCODE(XLOG_SF_DATA)] =
	{"DATA", sizeof(xl_sf_data), NODE | BYTES, 0, 0, redo_data, desc_bytes, bytes_problem},
	[OPCODE(XLOG_SF_DROP_DB)] =
	{"DROP_DATABASE", sizeof(xl_sf_db), DB, 0, 0, redo_drop_db},
	[OPCODE(XLOG_SF_OWN)] =
	{"OWN", sizeof(xl_sf_db), DB, 0, 0, redo_own},
	[OPCODE(XLOG_SF_RELEASE)] =
	{"RELEASE", sizeof(xl_sf_release), NODE | BYTES, 0, 0, redo_release, desc_holes, holes_problem},
};

StaticAssertDecl(OPCODE(XLOG_SF_RELEASE) < SF_RECORD_KINDS, "the table has a row for every opcode");
StaticAssertDecl(lengthof(reasons) == SF_LAST_REASON + 1, "every reason has a name");
StaticAssertDecl(offsetof(xl_sf_size, storage) == offsetof(xl_sf_storage, storage) &&
				 offsetof(xl_sf_resolve, storage) == offsetof(xl_sf_storage, storage) &&
				 offsetof(xl_sf_data, storage) == offsetof(xl_sf_storage, storage) &&
				 offsetof(xl_sf_release, storage) == offsetof(xl_sf_storage, storage),
				 "what names a segment begins as xl_sf_storage");

/* The row of an opcode; one of which there is no record has no name. */
static const SfRecordKind *
kind_of(uint8 info)
{
	return &records[OPCODE(info & ~XLR_INFO_MASK)];
}

/* May a record, which is sound, have changed key pages? */
static bool
changes_keys(XLogReaderState *record)
{
	const xl_sf_pages *rec = (const xl_sf_pages *) XLogRecGetData(record);

	return (XLogRecGetInfo(record) & ~XLR_INFO_MASK) == XLOG_SF_PAGES &&
		(rec->reason == SF_PAGES_KEYS || rec->reason == SF_PAGES_REPAIR);
}

/*
 * DATA_CORRUPTED for a record that cannot be right, which ends recovery.
 *
 * Sessions of a standby keep data keys that they have unwrapped, and what the segment says of
 * them, until they are told that keys have changed.  A session may outlive a promotion, and
 * write then by what it keeps.
 */
static void
redo(XLogReaderState *record)
{
	const SfRecordKind *kind = kind_of(XLogRecGetInfo(record));

	SF_ASSERT(InRecovery);
	sfi_record_check(record, kind);
	SF_ASSERT(kind->redo != NULL && kind->size <= XLogRecGetDataLen(record));
	kind->redo(record, XLogRecGetData(record));
	SF_FAULT(redo_done);
	if (changes_keys(record))
		sfi_above.keys_changed();
}

/*
 * For pg_walinspect and error messages, so it must get along with any bytes, and never
 * throws.  What many structs begin with is said here, and what one has of its own by the row's
 * function.
 */
static void
desc(StringInfo buf, XLogReaderState *record)
{
	const SfRecordKind *kind = kind_of(XLogRecGetInfo(record));
	void	   *rec = XLogRecGetData(record);
	SfStorage	storage;

	/* also called for a record that cannot be replayed */
	if (!sfi_record_is_readable(record, kind))
	{
		appendStringInfoString(buf, "damaged");
		return;
	}
	if ((kind->holds & NODE) != 0)
	{
		storage = ((xl_sf_storage *) rec)->storage;
		appendStringInfo(buf, "segment %u/%u/%u", SfStorageSpc(storage), SfStorageDb(storage),
						 SfStorageRel(storage));
	}
	if ((kind->holds & SIZE) != 0)
		appendStringInfo(buf, "; sectors " UINT64_FORMAT, ((xl_sf_size *) rec)->total_sectors);
	if ((kind->holds & DB) != 0)
		appendStringInfo(buf, "database %u", ((xl_sf_db *) rec)->db);
	if (kind->desc != NULL)
		kind->desc(buf, rec);
}

/* NULL: there is no such opcode. */
static const char *
identify(uint8 info)
{
	return kind_of(info)->name;
}

/*
 * The lent plane, and what goes with it, is changed without WAL on the primary, and not
 * at all on a standby.
 */
static void
mask(char *pagedata, BlockNumber blkno)
{
	Page		page = (Page) pagedata;

	mask_page_lsn_and_checksum(page);
	if (sfi_page_type(page) == SF_PAGE_MAP)
	{
		SfMap	   *map = SfPageMap(page);

		map->boot_id = 0;
		map->cleared_lsn = 0;
		memset(map->lent, 0, sizeof(map->lent));
	}
}

/*
 * Logical decoding learns of values from row changes, and has to ignore the records
 * of this resource manager.  It must ignore even their transaction ids: the removal
 * of files is logged after the commit of its transaction, and would make decoding
 * wait for a second commit.
 */
static void
decode_nothing(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
}

static const RmgrData rmgr = {
	.rm_name = "securefile",
	.rm_redo = redo,
	.rm_desc = desc,
	.rm_identify = identify,
	.rm_cleanup = sf_io_redo_require_settled,
	.rm_mask = mask,
	.rm_decode = decode_nothing,
};

void
sf_space_install(const SfSpaceAbove *above)
{
	SF_ASSERT(above->describe != NULL && above->owned_of_share != NULL);
	sfi_above = *above;
	RegisterCustomRmgr(SF_RMGR_ID, (RmgrData *) &rmgr);
}
