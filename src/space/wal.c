/*-------------------------------------------------------------------------
 *
 * wal.c
 *	  The records of space/: redo, description, masking; and data records.
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
#include "space/space_internal.h"
#include "storage/standby.h"

void
sf_space_log_data(SfSegment *seg, uint64 start_sector, const char *data, uint32 nsectors)
{
	if (!XLogIsNeeded())
		return;					/* wal_level=minimal: the data is durable */
	(void) GetCurrentTransactionId();
	while (nsectors > 0)
	{
		uint32		n = Min(nsectors, SF_DATA_RECORD_SECTORS);
		xl_sf_data	rec = {SF_WAL_VERSION, seg->node, start_sector, n};

		CHECK_FOR_INTERRUPTS();
		SF_FAULT(data_record);
		XLogBeginInsert();
		XLogRegisterData((char *) &rec, sizeof(rec));
		XLogRegisterData((char *) data, n * SF_SECTOR_SIZE);
		XLogInsert(SF_RMGR_ID, XLOG_SF_DATA);
		data += n * SF_SECTOR_SIZE;
		start_sector += n;
		nsectors -= n;
	}
}

static void
redo_data(const xl_sf_data *rec)
{
	SF_FAULT(redo_data);
	sf_io_redo_write(rec->node, rec->start_sector * SF_SECTOR_SIZE,
					 (const char *) (rec + 1), rec->nsectors * SF_SECTOR_SIZE);
}

/*
 * Rule 2 on a standby: flush before the blocks can be taken again; and no
 * reader there may still need what was freed.
 */
static void
redo_resolve(XLogReaderState *record, const xl_sf_resolve *rec)
{
	if (InHotStandby && TransactionIdIsValid(rec->horizon))
		sf_compat_resolve_conflict(rec->horizon, rec->node);
	XLogFlush(record->EndRecPtr);
	SF_FAULT(redo_resolve);
	sf_change_redo(record);
}

/*
 * The record of a move has no page that repeats the size.  The header page, which
 * was copied before, knows it, unless it was written as it was later.  False when
 * there is none: the segment has been dropped since, and needs no files.
 */
static bool
check_moved_size(const xl_sf_size *rec, XLogRecPtr end)
{
	Buffer		buf = InvalidBuffer;
	Page		page;
	bool		possible;

	if (smgrexists(sf_compat_smgropen(rec->node), MAIN_FORKNUM))
		buf = XLogReadBufferExtended(rec->node, MAIN_FORKNUM, 0, RBM_NORMAL_NO_LOG,
									 InvalidBuffer);
	if (!BufferIsValid(buf))
		return false;
	page = BufferGetPage(buf);
	possible = sf_page_type(page) != SF_PAGE_HEADER || PageGetLSN(page) >= end ||
		rec->total_sectors <= SfPageHeader(page)->total_sectors;
	ReleaseBuffer(buf);
	if (!possible)
		sf_record_report("its segment is not that long");
	return true;
}

/* Rule 5: growth adds beyond the end only. */
static void
redo_grow(XLogReaderState *record, const xl_sf_size *rec)
{
	if (XLogRecMaxBlockId(record) < 0 && !check_moved_size(rec, record->EndRecPtr))
		return;
	sf_io_files_ensure(rec->node, rec->total_sectors * SF_SECTOR_SIZE);
	SF_FAULT(redo_grow);
	sf_change_redo(record);
}

/*
 * Rule 5: in crash recovery the files stay as they are, for unlogged data may
 * have been committed there since; so it may in a copy that is younger than
 * this record (a base backup, pg_rewind), which ends where the server becomes
 * consistent.  After that all that comes is in WAL, and files are cut.
 */
static void
redo_truncate(XLogReaderState *record, const xl_sf_size *rec)
{
	XLogFlush(record->EndRecPtr);
	sf_change_redo(record);
	SF_FAULT(redo_truncate);
	if (InArchiveRecovery && reachedConsistency)
		sf_io_redo_truncate(rec->node, rec->total_sectors * SF_SECTOR_SIZE);
}

static void
redo_drop_db(const xl_sf_db *rec, XLogRecPtr end)
{
	XLogFlush(end);
	SF_FAULT(redo_drop_db);
	sf_io_database_unlink(rec->db);
}

void
sf_space_redo(XLogReaderState *record)
{
	void	   *rec = XLogRecGetData(record);

	sf_record_check(record);
	switch (sf_record_kind(record))
	{
		case XLOG_SF_CREATE:
			sf_storage_redo_create(rec);
			sf_change_redo(record);
			break;
		case XLOG_SF_UNLINK:
			sf_storage_redo_unlink(rec, record->EndRecPtr);
			break;
		case XLOG_SF_GROW:
			redo_grow(record, rec);
			break;
		case XLOG_SF_RESOLVE:
			redo_resolve(record, rec);
			break;
		case XLOG_SF_TRUNCATE:
			redo_truncate(record, rec);
			break;
		case XLOG_SF_ENTRIES:
			SF_FAULT(redo_entries);
			sf_change_redo(record);
			break;
		case XLOG_SF_QUEUE:
			SF_FAULT(redo_queue);
			sf_change_redo(record);
			break;
		case XLOG_SF_INODE:
			SF_FAULT(redo_inode);
			sf_change_redo(record);
			break;
		case XLOG_SF_HEADER:
			SF_FAULT(redo_header);
			sf_change_redo(record);
			break;
		case XLOG_SF_REPAIR:
			SF_FAULT(redo_repair);
			sf_change_redo(record);
			break;
		case XLOG_SF_DATA:
			redo_data(rec);
			break;
		case XLOG_SF_DROP_DB:
			redo_drop_db(rec, record->EndRecPtr);
			break;
		case XLOG_SF_OWN:
			SF_FAULT(redo_own);
			sf_io_database_set_own(((xl_sf_db *) rec)->db, ERROR);
			break;
	}
	SF_FAULT(redo_done);
}

static void
desc_node(StringInfo buf, SfNode node)
{
	appendStringInfo(buf, "segment %u/%u/%u", SfNodeSpc(node), SfNodeDb(node), SfNodeRel(node));
}

void
sf_space_desc(StringInfo buf, XLogReaderState *record)
{
	void	   *rec = XLogRecGetData(record);

	/* also called for a record that cannot be replayed */
	if (!sf_record_is_readable(record))
	{
		appendStringInfoString(buf, "damaged");
		return;
	}
	switch (sf_record_kind(record))
	{
		case XLOG_SF_CREATE:
		case XLOG_SF_UNLINK:
			desc_node(buf, ((xl_sf_node *) rec)->node);
			break;
		case XLOG_SF_GROW:
		case XLOG_SF_TRUNCATE:
			desc_node(buf, ((xl_sf_size *) rec)->node);
			appendStringInfo(buf, "; sectors " UINT64_FORMAT,
							 ((xl_sf_size *) rec)->total_sectors);
			break;
		case XLOG_SF_ENTRIES:
			appendStringInfo(buf, "kind %u; entries %u",
							 ((xl_sf_entries *) rec)->kind, ((xl_sf_entries *) rec)->nentries);
			break;
		case XLOG_SF_RESOLVE:
			desc_node(buf, ((xl_sf_resolve *) rec)->node);
			appendStringInfo(buf, "; horizon %u; entries %u",
							 ((xl_sf_resolve *) rec)->horizon, ((xl_sf_resolve *) rec)->nentries);
			break;
		case XLOG_SF_DATA:
			desc_node(buf, ((xl_sf_data *) rec)->node);
			appendStringInfo(buf, "; sector " UINT64_FORMAT "; sectors %u",
							 ((xl_sf_data *) rec)->start_sector, ((xl_sf_data *) rec)->nsectors);
			break;
		case XLOG_SF_DROP_DB:
		case XLOG_SF_OWN:
			appendStringInfo(buf, "database %u", ((xl_sf_db *) rec)->db);
			break;
	}
}

const char *
sf_space_identify(uint8 info)
{
	switch (info & ~XLR_INFO_MASK)
	{
		case XLOG_SF_CREATE:
			return "CREATE";
		case XLOG_SF_UNLINK:
			return "UNLINK";
		case XLOG_SF_GROW:
			return "GROW";
		case XLOG_SF_TRUNCATE:
			return "TRUNCATE";
		case XLOG_SF_ENTRIES:
			return "ENTRIES";
		case XLOG_SF_QUEUE:
			return "QUEUE";
		case XLOG_SF_RESOLVE:
			return "RESOLVE";
		case XLOG_SF_INODE:
			return "INODE";
		case XLOG_SF_HEADER:
			return "HEADER";
		case XLOG_SF_DATA:
			return "DATA";
		case XLOG_SF_DROP_DB:
			return "DROP_DATABASE";
		case XLOG_SF_OWN:
			return "OWN";
		case XLOG_SF_REPAIR:
			return "REPAIR";
	}
	return NULL;
}

/* Blank what is not logged, for wal_consistency_checking. */
void
sf_space_mask(char *pagedata, BlockNumber blkno)
{
	Page		page = (Page) pagedata;

	mask_page_lsn_and_checksum(page);
	if (sf_page_type(page) == SF_PAGE_MAP)
	{
		SfMap	   *map = SfPageMap(page);

		map->boot_id = 0;
		map->cleared_lsn = 0;
		memset(map->lent, 0, sizeof(map->lent));
	}
}

Size
sf_space_shmem_size(void)
{
	return add_size(sf_arena_shmem_size(), sf_dispense_shmem_size());
}

void
sf_space_shmem_init(void)
{
	sf_arena_shmem_init();
	sf_dispense_shmem_init();
}
