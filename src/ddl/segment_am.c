/*-------------------------------------------------------------------------
 *
 * segment_am.c
 *	  Table access method securefile_segment: gives a segment relation its
 *	  storage and its vacuum.
 *
 * A segment relation is a relation of kind 't' whose pages are ours (header,
 * space map, pending, inode).  Having an access method of its own is what
 * makes storage creation, TRUNCATE and autovacuum against wraparound come to
 * us, and what keeps everybody else from taking the pages for heap tuples: it
 * has no rows, and every way to look for some is an error.
 *
 * It cannot be used by hand.  CREATE TABLE .. USING, SET ACCESS METHOD and
 * default_table_access_method all end in relation_set_new_filenode, which
 * serves only relations that segment_relation.c makes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/multixact.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "space/upgrade.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_segment_handler);

/* ---- what a segment has: storage, size, vacuum ---- */

static void
refuse_use_by_hand(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"%s\" cannot be used by hand",
					SF_SEGMENT_AM_NAME),
			 errdetail("It holds the segments of securefile columns, which are made and dropped with their columns."),
			 errhint("Create an ordinary table with a column of type securefile.")));
}

/* From 17 on it has an access method for its partitions to come, and is not asked itself. */
void
sfi_ddl_refuse_segment_am(Relation partitioned)
{
	SF_ASSERT(partitioned->rd_rel->relkind == RELKIND_PARTITIONED_TABLE);
	if (OidIsValid(partitioned->rd_rel->relam) && partitioned->rd_rel->relam == sfi_ddl_am_oid())
		refuse_use_by_hand();
}

/*
 * How old transaction ids in this database may be: all of them are known to the
 * commit log.  With a lock that keeps this from changing before the new relation
 * is there to hold it back.
 */
static void
oldest_ids(TransactionId *xid, MultiXactId *multi)
{
	Relation	rel;
	HeapTuple	tuple;

	LockDatabaseFrozenIds(ExclusiveLock);
	rel = table_open(DatabaseRelationId, AccessShareLock);
	tuple = sf_ddl_catalog_row(rel, DatabaseOidIndexId, Anum_pg_database_oid, MyDatabaseId, NULL);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find tuple for database %u", MyDatabaseId);
	*xid = ((Form_pg_database) GETSTRUCT(tuple))->datfrozenxid;
	*multi = ((Form_pg_database) GETSTRUCT(tuple))->datminmxid;
	table_close(rel, AccessShareLock);
}

/* Storage that pg_upgrade has left, with pages that are older than this cluster. */
static void
adopt_storage(SfStorage storage, TransactionId *freezeXid, MultiXactId *minmulti)
{
	oldest_ids(freezeXid, minmulti);
	sf_space_adopt_storage(storage);
}

/*
 * Storage that is dropped now is still wanted by logical decoding, and after a rollback to a
 * savepoint.  Then what the transaction has gathered for it is written first: what is gathered
 * for storage that is not there is let go.
 */
void
sfi_ddl_write_before_drop(void)
{
	if (GetCurrentTransactionNestLevel() > 1 || sf_space_keeps_dropped())
		sf_write_flush();
}

/* Make the storage of a new segment, or the storage that replaces an existing one. */
static void
segment_set_new_filenode(Relation rel, const SfStorage *newnode, char persistence,
						 TransactionId *freezeXid, MultiXactId *minmulti)
{
	const SfSegmentBirth *birth = sfi_ddl_segment_birth;
	const bool	replace = !SfStorageEquals(SfRelStorage(rel), *newnode);

	if (birth == NULL || rel->rd_rel->relkind != RELKIND_TOASTVALUE ||
		persistence != RELPERSISTENCE_PERMANENT)
		refuse_use_by_hand();
	sf_base_require_preload();

	/* as heap does: nobody older than this can write an entry here */
	*freezeXid = RecentXmin;
	*minmulti = GetOldestMultiXactId();

	if (birth->adopt != NULL)
	{
		SF_ASSERT(!replace && SfStorageEquals(*birth->adopt, *newnode));
		adopt_storage(*newnode, freezeXid, minmulti);
		return;
	}
	if (replace)
		sfi_ddl_write_before_drop();
	smgrclose(RelationCreateStorage(*newnode, persistence, true));
	sf_space_create_storage(*newnode, birth->table_oid, birth->attnum, birth->logged_data,
							birth->next_object_id);
	if (replace)
		sf_space_drop_storage(SfRelStorage(rel));
}

static void
report_vacuum(Relation rel, const SfMaintain *stats)
{
	ereport(INFO,
			(errmsg("vacuumed segment \"%s\": %llu of %llu pending entries resolved, %llu bytes freed",
					RelationGetRelationName(rel),
					(unsigned long long) stats->entries_resolved,
					(unsigned long long) stats->entries_seen,
					(unsigned long long) sf_sectors_to_bytes(stats->sectors_freed))));
}

/* What is to be finished, and the transaction that goes on to matter if that fails. */
typedef struct Finish
{
	SfSegment  *segment;
	uint64		fxid;
} Finish;

/* An SfBaseStep. */
static void
finish_step(void *arg)
{
	Finish	   *finish = arg;

	finish->fxid = sf_keys_shredding(finish->segment);
	sf_keys_finish_shred(finish->segment);
	finish->fxid = 0;
}

/*
 * Finish what securefile_shred() has left to do.  Where the keys are damaged, the commit log
 * is asked again about the transaction after a repair: returns the older one of that
 * and frozen.
 */
static TransactionId
finish_shred(Relation rel, SfSegment *segment, TransactionId frozen)
{
	Finish		finish = {segment};
	ErrorData  *error = sf_base_guarded(finish_step, &finish);
	TransactionId xid;

	if (error == NULL)
		return frozen;
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("keys of segment \"%s\" that securefile_shred() has destroyed are not overwritten",
					RelationGetRelationName(rel)),
			 errdetail("%s.", error->message),
			 errhint("Run securefile_repair() on the column.")));
	FreeErrorData(error);
	xid = XidFromFullTransactionId(FullTransactionIdFromU64(finish.fxid));
	return TransactionIdIsNormal(xid) && TransactionIdPrecedes(xid, frozen) ? xid : frozen;
}

/*
 * Vacuum: resolve the pending entries and advance relfrozenxid.  An entry that
 * is undecided afterwards either is of a transaction that runs, or did when we
 * began: then that is not older than what we have taken first.  Or the commit
 * log does not know it any more: to hold relfrozenxid back for it would keep
 * what does not help, until the server stops against wraparound.
 */
static void
segment_vacuum(Relation rel, VacuumParams *params, BufferAccessStrategy strategy)
{
	SfSegment  *segment;
	SfMaintain	stats = {0};
	TransactionId frozen;
	bool		frozen_updated;
	bool		multi_updated;

	sf_base_require_preload();

	/* one process at a time vacuums a segment */
	SF_ASSERT(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	/* all databases, and prepared transactions */
	frozen = GetOldestNonRemovableTransactionId(NULL);
	segment = sf_space_open_rel(rel);
	sf_space_resolve(segment, true, &stats);
	frozen = finish_shred(rel, segment, frozen);

	sf_compat_update_relstats(rel, RelationGetNumberOfBlocks(rel), frozen,
							  GetOldestMultiXactId(),
							  &frozen_updated, &multi_updated);
	if (params->options & VACOPT_VERBOSE)
		report_vacuum(rel, &stats);
}

static void
segment_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
					  double *tuples, double *allvisfrac)
{
	*pages = RelationGetNumberOfBlocks(rel);
	*tuples = 0;
	*allvisfrac = 0;
}

static bool
segment_needs_toast_table(Relation rel)
{
	return false;
}

static const TupleTableSlotOps *
segment_slot_callbacks(Relation rel)
{
	return &TTSOpsVirtual;
}

/* ---- what it has not: rows ---- */

SF_NORETURN static void
refuse_rows(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("segment \"%s\" of a securefile column has no rows",
					RelationGetRelationName(rel)),
			 errhint("Read and write the column it belongs to.")));
}

/*
 * A method that would do something with rows of a relation, which is an ERROR.  The server wants
 * every method to be there, also one that it could only call after another one, which refuses.
 */
#define NO_ROWS(result, method, relation, ...) \
	static result \
	method(__VA_ARGS__) \
	{ \
		refuse_rows(relation); \
	} \
	SF_NORETURN static void refuse_rows(Relation rel)

NO_ROWS(TableScanDesc, segment_scan_begin, rel,
		Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
		ParallelTableScanDesc pscan, uint32 flags);
NO_ROWS(void, segment_scan_end, scan->rs_rd, TableScanDesc scan);
NO_ROWS(void, segment_scan_rescan, scan->rs_rd,
		TableScanDesc scan, struct ScanKeyData *key, bool set_params, bool allow_strat,
		bool allow_sync, bool allow_pagemode);
NO_ROWS(bool, segment_scan_getnextslot, scan->rs_rd,
		TableScanDesc scan, ScanDirection direction, TupleTableSlot *slot);
NO_ROWS(IndexFetchTableData *, segment_index_fetch_begin, rel, Relation rel);
NO_ROWS(void, segment_index_fetch_reset, data->rel, IndexFetchTableData *data);
NO_ROWS(void, segment_index_fetch_end, data->rel, IndexFetchTableData *data);
NO_ROWS(bool, segment_index_fetch_tuple, scan->rel,
		IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
		TupleTableSlot *slot, bool *call_again, bool *all_dead);
NO_ROWS(bool, segment_tuple_fetch_row_version, rel,
		Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot);
NO_ROWS(bool, segment_tuple_tid_valid, scan->rs_rd,
		TableScanDesc scan, ItemPointer tid);
NO_ROWS(void, segment_tuple_get_latest_tid, scan->rs_rd,
		TableScanDesc scan, ItemPointer tid);
NO_ROWS(bool, segment_tuple_satisfies_snapshot, rel,
		Relation rel, TupleTableSlot *slot, Snapshot snapshot);
NO_ROWS(TransactionId, segment_index_delete_tuples, rel,
		Relation rel, TM_IndexDeleteOp *delstate);
NO_ROWS(void, segment_tuple_insert, rel,
		Relation rel, TupleTableSlot *slot, CommandId cid, int options,
		struct BulkInsertStateData *bistate);
NO_ROWS(void, segment_tuple_insert_speculative, rel,
		Relation rel, TupleTableSlot *slot, CommandId cid, int options,
		struct BulkInsertStateData *bistate, uint32 token);
NO_ROWS(void, segment_tuple_complete_speculative, rel,
		Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded);
NO_ROWS(void, segment_multi_insert, rel,
		Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
		struct BulkInsertStateData *bistate);
NO_ROWS(TM_Result, segment_tuple_delete, rel,
		Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
		Snapshot crosscheck, bool wait, TM_FailureData *tmfd, bool changing_part);
NO_ROWS(TM_Result, segment_tuple_update, rel,
		Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
		Snapshot snapshot, Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
		LockTupleMode *lockmode, SfUpdateIndexes *update_indexes);
NO_ROWS(TM_Result, segment_tuple_lock, rel,
		Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
		CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
		TM_FailureData *tmfd);
NO_ROWS(void, segment_nontransactional_truncate, rel, Relation rel);
NO_ROWS(void, segment_copy_data, rel, Relation rel, const SfStorage *newnode);
NO_ROWS(void, segment_copy_for_cluster, old_rel,
		Relation old_rel, Relation new_rel, Relation index, bool use_sort,
		TransactionId oldest_xmin, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
		double *num_tuples, double *tups_vacuumed, double *tups_recently_dead);
NO_ROWS(bool, segment_analyze_next_block, scan->rs_rd, SF_ANALYZE_BLOCK_ARGS);
NO_ROWS(bool, segment_analyze_next_tuple, scan->rs_rd,
		TableScanDesc scan, TransactionId oldest_xmin, double *liverows, double *deadrows,
		TupleTableSlot *slot);
NO_ROWS(double, segment_index_build_range_scan, rel,
		Relation rel, Relation index, struct IndexInfo *info, bool allow_sync,
		bool anyvisible, bool progress, BlockNumber start, BlockNumber nblocks,
		IndexBuildCallback callback, void *state, TableScanDesc scan);
NO_ROWS(void, segment_index_validate_scan, rel,
		Relation rel, Relation index, struct IndexInfo *info, Snapshot snapshot,
		struct ValidateIndexState *state);
NO_ROWS(bool, segment_sample_next_block, scan->rs_rd,
		TableScanDesc scan, struct SampleScanState *state);
NO_ROWS(bool, segment_sample_next_tuple, scan->rs_rd,
		TableScanDesc scan, struct SampleScanState *state, TupleTableSlot *slot);

static const TableAmRoutine segment_methods = {
	.type = T_TableAmRoutine,

	.slot_callbacks = segment_slot_callbacks,

	.scan_begin = segment_scan_begin,
	.scan_end = segment_scan_end,
	.scan_rescan = segment_scan_rescan,
	.scan_getnextslot = segment_scan_getnextslot,

	.parallelscan_estimate = table_block_parallelscan_estimate,
	.parallelscan_initialize = table_block_parallelscan_initialize,
	.parallelscan_reinitialize = table_block_parallelscan_reinitialize,

	.index_fetch_begin = segment_index_fetch_begin,
	.index_fetch_reset = segment_index_fetch_reset,
	.index_fetch_end = segment_index_fetch_end,
	.index_fetch_tuple = segment_index_fetch_tuple,

	.tuple_fetch_row_version = segment_tuple_fetch_row_version,
	.tuple_tid_valid = segment_tuple_tid_valid,
	.tuple_get_latest_tid = segment_tuple_get_latest_tid,
	.tuple_satisfies_snapshot = segment_tuple_satisfies_snapshot,
	.index_delete_tuples = segment_index_delete_tuples,

	.tuple_insert = segment_tuple_insert,
	.tuple_insert_speculative = segment_tuple_insert_speculative,
	.tuple_complete_speculative = segment_tuple_complete_speculative,
	.multi_insert = segment_multi_insert,
	.tuple_delete = segment_tuple_delete,
	.tuple_update = segment_tuple_update,
	.tuple_lock = segment_tuple_lock,

	.SF_AM_SET_NEW_STORAGE = segment_set_new_filenode,
	.relation_nontransactional_truncate = segment_nontransactional_truncate,
	.relation_copy_data = segment_copy_data,
	.relation_copy_for_cluster = segment_copy_for_cluster,
	.relation_vacuum = segment_vacuum,
	.scan_analyze_next_block = segment_analyze_next_block,
	.scan_analyze_next_tuple = segment_analyze_next_tuple,
	.index_build_range_scan = segment_index_build_range_scan,
	.index_validate_scan = segment_index_validate_scan,

	.relation_size = table_block_relation_size,
	.relation_needs_toast_table = segment_needs_toast_table,
	.relation_estimate_size = segment_estimate_size,

	.scan_sample_next_block = segment_sample_next_block,
	.scan_sample_next_tuple = segment_sample_next_tuple,
};

Datum
securefile_segment_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&segment_methods);
}
