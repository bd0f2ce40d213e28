/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  The live rows of a table: every stored value verified, and what it owns
 *	  written down.
 *
 * The rows are those that are committed, as seen when no writer is left: what
 * the caller's own transaction did is not looked at, since its data may still
 * lie in memory and its space is not marked before it commits.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "check/check_internal.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "object/object.h"
#include "read/read.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* What one value turned out to be. */
typedef struct ValueWork
{
	SfCheck    *check;
	Datum		value;
	struct varlena *stored;		/* its locator, when it is to be verified */
	bool		map_damaged;
	SfOwned		owned;
} ValueWork;

/* Is the locator one of this very column?  Reports when not. */
static bool
belongs_here(SfCheck *check, const SfLocator *loc)
{
	if (loc->table_oid != check->column->table_oid ||
		loc->attnum != check->column->attnum)
	{
		sfi_check_report(check, SF_REPAIR_NONE, "bad locator", &check->tid, 0, 0,
						 "the value lies in the segment of table %u, column %d",
						 loc->table_oid, loc->attnum);
		return false;
	}
	if (check->seg == NULL)
	{
		sfi_check_report(check, SF_REPAIR_NONE, "bad locator", &check->tid, 0, 0,
						 "the value lies in a segment that does not exist");
		return false;
	}
	if (loc->incarnation != check->seg->incarnation)
	{
		sfi_check_report(check, SF_REPAIR_NONE, "bad locator", &check->tid, 0, 0,
						 "the value lies in storage that was replaced");
		return false;
	}
	return true;
}

/* An SfMapDamage. */
static void
note_damage(const ErrorData *error, void *arg)
{
	ValueWork  *work = arg;

	work->map_damaged = true;
	sfi_check_report_error(work->check, SF_REPAIR_NONE, error);
}

/*
 * First step: which form has the value, and what does it own?  A locator is
 * small, so larger values are not even fetched.
 */
static void
read_map(SfCheck *check, void *arg)
{
	ValueWork  *work = arg;
	struct varlena *packed;
	SfLocator	loc;

	if (toast_raw_datum_size(work->value) > SF_LOCATOR_MAX_SIZE + VARHDRSZ)
		return;
	packed = PG_DETOAST_DATUM_PACKED(work->value);
	if (sf_read_is_inline(packed))
		return;
	loc = sf_object_locator(packed);
	if (!belongs_here(check, &loc))
		return;
	sf_object_require_tag(check->seg, &loc);
	work->owned = sf_object_owned(check->seg, &loc, note_damage, work);
	check->max_object_id = Max(check->max_object_id, loc.object_id);
	work->stored = packed;
}

static void
found(const char *what, int64 segment_offset, int64 len, const char *detail, void *arg)
{
	SfCheck    *check = arg;

	sfi_check_report_bytes(check, SF_REPAIR_NONE, what, &check->tid, segment_offset, len, detail);
}

/* Second step: do the data files hold what the map says? */
static void
verify(SfCheck *check, void *arg)
{
	ValueWork  *work = arg;

	sf_read_verify(work->stored, found, check);
}

static void
note_owned(SfCheck *check, const SfOwned *owned)
{
	for (int i = 0; i < owned->nruns; i++)
		sfi_check_runs_add(&check->owned, owned->runs[i].start,
						   owned->runs[i].nsectors, SF_MAP_SECTORS, &check->tid);
	for (int i = 0; i < owned->npages; i++)
		sfi_check_runs_add(&check->owned_pages, owned->pages[i], 1, 0, &check->tid);
}

static void
check_value(SfCheck *check, Datum value)
{
	ValueWork	work = {.check = check, .value = value};
	uint64		nfindings = check->nfindings;

	(void) sfi_check_guarded(check, SF_REPAIR_NONE, read_map, &work);
	check->hidden |= check->nfindings > nfindings;
	if (work.stored == NULL)
		return;
	note_owned(check, &work.owned);
	if (!work.map_damaged)
		(void) sfi_check_guarded(check, SF_REPAIR_NONE, verify, &work);
}

/*
 * A snapshot taken after the lock, which keeps writers out: whatever committed
 * is in it.  To it our own transaction has not done anything yet.
 */
static Snapshot
take_snapshot(void)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	snapshot->curcid = FirstCommandId;
	return snapshot;
}

void
sfi_check_rows(SfCheck *check)
{
	Snapshot	snapshot = take_snapshot();
	TupleTableSlot *slot = table_slot_create(check->rel, NULL);
	TableScanDesc scan = table_beginscan(check->rel, snapshot, 0, NULL);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext,
													  "securefile check of a row",
													  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(row_context);

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, check->column->attnum, &isnull);

		CHECK_FOR_INTERRUPTS();
		ItemPointerCopy(&slot->tts_tid, &check->tid);
		if (!isnull)
			check_value(check, value);
		MemoryContextReset(row_context);
	}
	ItemPointerSetInvalid(&check->tid);

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(row_context);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
}

/* Report what a run shares with the one that reaches furthest before it. */
static void
report_twice(SfCheck *check, SfCheckRun *run, SfCheckRun *before)
{
	uint64		end = Min(run->start + run->count, before->start + before->count);

	sfi_check_report(check, SF_REPAIR_NONE, "sector owned twice", &run->tid,
					 run->start, end - run->start, "also by row (%u,%u)",
					 ItemPointerGetBlockNumberNoCheck(&before->tid),
					 ItemPointerGetOffsetNumberNoCheck(&before->tid));
}

static void
check_sectors(SfCheck *check)
{
	SfCheckRun *before = NULL;
	uint64		total = check->total_sectors;

	for (Size i = 0; i < check->owned.n; i++)
	{
		SfCheckRun *run = &check->owned.runs[i];

		CHECK_FOR_INTERRUPTS();
		if (run->start + run->count > total)
			sfi_check_report(check, SF_REPAIR_NONE, "bad locator", &run->tid, run->start, run->count,
							 "the data files end at byte " UINT64_FORMAT,
							 sf_sectors_to_bytes(total));
		if (before != NULL && run->start < before->start + before->count)
			report_twice(check, run, before);
		if (before == NULL ||
			run->start + run->count > before->start + before->count)
			before = run;
	}
}

static void
check_inode_pages(SfCheck *check)
{
	for (Size i = 1; i < check->owned_pages.n; i++)
	{
		SfCheckRun *before = &check->owned_pages.runs[i - 1];
		SfCheckRun *page = &check->owned_pages.runs[i];

		if (page->start == before->start)
			sfi_check_report(check, SF_REPAIR_NONE, "inode page owned twice", &page->tid, 0, 0,
							 "page " UINT64_FORMAT ", also by row (%u,%u)", page->start,
							 ItemPointerGetBlockNumberNoCheck(&before->tid),
							 ItemPointerGetOffsetNumberNoCheck(&before->tid));
	}
}

void
sfi_check_overlaps(SfCheck *check)
{
	sfi_check_runs_sort(&check->owned);
	sfi_check_runs_sort(&check->owned_pages);
	check_sectors(check);
	check_inode_pages(check);
}
