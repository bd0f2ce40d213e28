/*-------------------------------------------------------------------------
 *
 * check.c
 *	  securefile_check(): is a column sound?
 *
 * ShareLock on the table keeps writers out, and lets readers in.  Every live row
 * is read, and the space that the rows own is compared with the pages of the
 * segment.  The check changes nothing, and no finding ends it.
 *
 * A hot standby cannot keep its writer, the replay, out.  There the values are
 * read, and their space must be marked as used.  Everything else in the pages may
 * have changed since the rows were seen, so the check does not look at it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "check/walk.h"
#include "funcapi.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_check);

/*
 * Refuse a table whose storage this transaction has replaced: values that this
 * transaction stored there cannot be told from older ones, and the space of some
 * of them is not yet marked as used.
 */
static void
refuse_replaced_storage(Relation rel, Relation segrel)
{
	if (sf_compat_storage_replaced(rel) ||
		(segrel->rd_createSubid != InvalidSubTransactionId &&
		 rel->rd_createSubid == InvalidSubTransactionId))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot check table \"%s\" in the transaction that truncated or rewrote it",
						RelationGetRelationName(rel)),
				 errhint("Commit first.")));
}

/* Open the segment and read its header: the step that damage may end. */
static void
open_segment_step(void *arg)
{
	SfCheck    *check = arg;
	const SfCheckColumn *column = check->column;
	Oid			segrelid = sf_space_segment_relid(column->table_oid, column->attnum);

	if (!OidIsValid(segrelid))
	{
		sfi_check_report(check, SF_FINDING_NO_SEGMENT, NULL, 0, 0,
						 "the column has no segment relation");
		return;
	}
	check->segrel = relation_open(segrelid, NoLock);
	refuse_replaced_storage(check->rel, check->segrel);
	check->seg = sf_space_open_rel(check->segrel);
	check->header = sf_space_read_header(check->seg);

	/* the reference would end with this subtransaction */
	relation_close(check->segrel, NoLock);
}

/* Compare the size of the data files with the end that the header page has, if it can be. */
static void
check_file_size(SfCheck *check)
{
	uint64		want = sf_sectors_to_bytes(Min(check->header.total_sectors, check->total_sectors));
	uint64		found = sf_io_files_size(check->seg->storage);

	if (found < want)
		sfi_check_report_bytes(check, SF_REPAIR_USUAL, SF_FINDING_FILES_SHORT, NULL,
							   found, want - found,
							   psprintf("expected " UINT64_FORMAT " bytes, found " UINT64_FORMAT,
										want, found));
}

/* Check the segment, once the space of all rows is known. */
static void
check_segment(SfCheck *check, SfPageWalk *walk)
{
	check->segrel = relation_open(check->seg->relid, NoLock);
	SF_ASSERT(CheckRelationLockedByMe(check->segrel, check->lockmode, true));
	if (check->moving)
		check->header = sf_space_read_header(check->seg);	/* as new as the rows */
	sfi_check_begin_walk(check, walk);
	sfi_check_find_end(walk);
	check_file_size(check);
	sfi_check_overlaps(check, false);
	sfi_check_pages(walk);
	relation_close(check->segrel, NoLock);
}

/* Lock the segment relation of a column, whose table is locked; InvalidOid: it has none. */
static Oid
lock_segment(const SfCheckColumn *column, LOCKMODE lockmode)
{
	Oid			segrelid = sf_space_segment_relid(column->table_oid, column->attnum);

	if (!column->permanent)
		sf_check_report_no_segment(column);
	/* pg_upgrade leaves columns without a segment for a while: not damage */
	if (OidIsValid(segrelid))
		LockRelationOid(segrelid, lockmode);
	else
		sf_space_refuse_unfinished(column->table_oid, column->attnum, false);
	return segrelid;
}

/*
 * Check one column, whose table and segment relation are locked.  False when there is no
 * segment to go by.
 */
static bool
check_column(SfCheck *check, SfPageWalk *walk, const SfCheckColumn *column,
			 ReturnSetInfo *rsinfo, LOCKMODE lockmode)
{
	memset(check, 0, sizeof(SfCheck));
	check->column = column;
	check->context = CurrentMemoryContext;
	check->rsinfo = rsinfo;
	check->lockmode = lockmode;
	check->moving = RecoveryInProgress();
	ItemPointerSetInvalid(&check->tid);
	sf_rows_runs_init(&check->owned);
	sf_rows_runs_init(&check->owned_pages);

	check->rel = table_open(column->table_oid, NoLock);
	if (sfi_check_guarded(check, SF_REPAIR_NONE, open_segment_step, check))
	{
		sfi_check_rows(check);
		if (check->seg != NULL)
			check_segment(check, walk);
	}
	table_close(check->rel, NoLock);
	return check->seg != NULL;
}

void
sfi_check_columns_of_call(FunctionCallInfo fcinfo, LOCKMODE lockmode, SfCheckThen then)
{
	MemoryContext context;
	List	   *columns;
	List	   *locked;
	ListCell   *cell;

	SF_ASSERT(lockmode == AccessShareLock || lockmode >= ShareLock);
	InitMaterializedSRF(fcinfo, 0);
	columns = sf_check_columns(fcinfo, lockmode, false, &locked);
	context = AllocSetContextCreate(CurrentMemoryContext, "securefile check",
									ALLOCSET_DEFAULT_SIZES);
	foreach(cell, columns)
	{
		MemoryContext old_context = MemoryContextSwitchTo(context);
		Oid			segrelid = lock_segment(lfirst(cell), lockmode);
		SfCheck		check;
		SfPageWalk	walk;

		if (check_column(&check, &walk, lfirst(cell), (ReturnSetInfo *) fcinfo->resultinfo,
						 lockmode) &&
			then != NULL)
			then(&walk);
		if (then == NULL && OidIsValid(segrelid))
			UnlockRelationOid(segrelid, lockmode);
		MemoryContextSwitchTo(old_context);
		MemoryContextReset(context);
	}
	if (then == NULL)
		sf_check_release(locked, lockmode);
}

/*
 * Nothing is read but maps and pages: whether values are what they were is of no interest, only
 * where they lie.
 */
bool
sfi_check_places(const SfCheckColumn *column, SfCheckThen then)
{
	SfCheck		check;
	SfPageWalk	walk;

	LockRelationOid(column->table_oid, ShareLock);
	(void) lock_segment(column, ShareLock);
	if (!check_column(&check, &walk, column, NULL, ShareLock) ||
		(check.nfindings > 0 && !SF_BREAKS(unproved)))
		return false;
	then(&walk);
	return true;
}

/*
 * securefile_check(table regclass, column name)
 * returns setof (finding text, ctid tid, segment_offset bigint,
 *				  length_bytes bigint, detail text)
 */
Datum
securefile_check(PG_FUNCTION_ARGS)
{
	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	sfi_check_columns_of_call(fcinfo, RecoveryInProgress() ? AccessShareLock : ShareLock, NULL);
	return (Datum) 0;
}
