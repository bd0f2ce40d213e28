/*-------------------------------------------------------------------------
 *
 * check_rows.c
 *	  The live rows of a table: every stored value is verified, and the space
 *	  that it owns is collected.
 *
 * The rows are those that are committed once no writer is left.  Rows of the
 * caller's own transaction are left out: their data may still lie in memory, and
 * their space is not marked as used before the commit.
 *
 * Several rows may have one shared object (check_references.c).  It is verified with the first of
 * them, whose space it is for the reports; damage of it is reported for each of them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/server.h"
#include "check/check_shares.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "object/object.h"
#include "read/read.h"
#include "space/share_records.h"
#include "storage/lmgr.h"
#include "transform/transform.h"
#include "utils/snapmgr.h"

/* One value, and the results of the steps of its check. */
typedef struct ValueWork
{
	SfCheck    *check;
	Datum		value;
	SfCheckShare *share;		/* of a shared one, or NULL */
	struct varlena *stored;		/* its locator, when it is to be verified */
	bool		map_damaged;
	SfOwned		owned;
	/* while its space is found out: */
	const SfLocator *loc;
	SfShareId	id;				/* of the record that has all of it, .. */
	bool		is_shared;		/* .. if one has */
	const SfLocator *shared;	/* what it is a changed version of, or NULL */
} ValueWork;

/*
 * Does the segment that a value names belong to this very column?  Else that is a finding.
 */
static bool
belongs_here(SfCheck *check, SfHome home)
{
	if (home.table_oid != check->column->table_oid || home.attnum != check->column->attnum)
	{
		sfi_check_report(check, SF_FINDING_BAD_LOCATOR, &check->tid, 0, 0,
						 "the value lies in the segment of table %u, column %d",
						 home.table_oid, home.attnum);
		return false;
	}
	if (check->seg != NULL && check->seg->incarnation == home.incarnation)
		return true;
	sfi_check_report(check, SF_FINDING_BAD_LOCATOR, &check->tid, 0, 0, "the value lies in %s",
					 check->seg == NULL ? "a segment that does not exist" :
					 "storage that was replaced");
	return false;
}

/* An SfMapDamage: one damaged page of a unit map does not hide the others. */
static void
note_damage(const ErrorData *error, void *arg)
{
	ValueWork  *work = arg;

	work->map_damaged = true;
	sfi_check_report_error(work->check, SF_REPAIR_NONE, error);
}

/*
 * A value that is compressed or encrypted in its row is sound if it can be decoded; ERROR
 * if not.  Without its key, cipher or codec we cannot tell.
 */
static void
verify_in_row(SfCheck *check, struct varlena *value)
{
	SfUnit		unit;

	if (sf_read_form(value) == SF_FORM_INLINE ||
		!sf_keys_can_decrypt(check->seg, sf_read_key_id(value)))
		return;
	unit = sf_read_packed_unit(value);
	if (sf_transform_is_raw(&unit) || sf_transform_find(unit.flags) != NULL)
		(void) sf_read_unpacked(value);
}

/* Count a value that has bytes by its key; 0: it is not encrypted. */
static void
count_key(SfCheck *check, uint16 key_id)
{
	SF_ASSERT(ItemPointerIsValid(&check->tid));
	if (check->seg == NULL)
		return;
	if (key_id == 0)
		check->not_encrypted += sf_config_encrypts(sf_space_column(check->seg));
	else
		check->not_decrypted += !sf_keys_can_decrypt(check->seg, key_id);
}

/*
 * None of it is damage.  But a reader cannot know whether a value that is not encrypted is
 * of before the column had the option, or was put in the place of one that was.
 */
static void
tell_keys(const SfCheck *check)
{
	const SfCheckColumn *column = check->column;

	SF_ASSERT(!ItemPointerIsValid(&check->tid));
	if (check->not_encrypted > 0)
		ereport(NOTICE,
				(errmsg("column \"%s\" of table \"%s\" has " INT64_FORMAT " values that are not encrypted",
						column->name, column->table, check->not_encrypted),
				 errhint("CALL securefile_rewrite_online() with only_keys encrypts them.")));
	if (check->not_decrypted > 0)
		ereport(NOTICE,
				(errmsg("column \"%s\" of table \"%s\" has " INT64_FORMAT " values that were not decrypted",
						column->name, column->table, check->not_decrypted),
				 errdetail("Their master keys are not loaded, their data keys were destroyed, or this build lacks the cipher.  What is stored of them was verified.")));
}

/* The record that owns the map of a private value. */
static void
read_root(void *arg)
{
	ValueWork  *work = arg;

	work->is_shared = sf_space_root_record(work->check->seg, sf_object_root(work->loc), &work->id);
}

/*
 * Is a value what a share record has, as its locator says, or the root page of its map?  A
 * root that cannot be read is reported with the map.
 */
static bool
is_shared(ValueWork *work)
{
	work->id = sf_share_id_of(work->loc);
	if (!sf_object_has_root(work->loc))
		return sf_object_is_reference(work->loc);
	(void) sfi_check_guarded(work->check, SF_REPAIR_UNREPORTED, read_root, work);
	return work->is_shared;
}

/* Find out what a value owns. */
static void
find_owned(void *arg)
{
	ValueWork  *work = arg;

	work->owned = sf_object_owned(work->check->seg, work->loc, work->shared, note_damage, work);
}

/*
 * The same of a changed version of a shared value.  Where the map of that cannot be read, the
 * row can; but which of its units are its own nobody knows.  Nothing is set free then: should
 * the map come back, its record owns what it says.
 */
static void
find_owned_by_version(ValueWork *work)
{
	ErrorData  *error = sf_base_guarded(find_owned, work);

	SF_ASSERT(work->shared != NULL);
	if (error == NULL)
		return;
	sfi_check_report(work->check, SF_FINDING_NO_SHARED_MAP, &work->check->tid, 0, 0,
					 "the map of object " UINT64_FORMAT
					 ", of which the row has a changed version, cannot be read (%s), the value of the row can, unless another finding says otherwise: " SF_STORE_AGAIN,
					 work->loc->object_id, error->message);
	FreeErrorData(error);
}

/*
 * Find out the space of a value; of a changed version of a shared value without what its
 * record answers for.  False: another row has brought it, and its data.
 */
static bool
find_space(ValueWork *work, const SfLocator *loc)
{
	SfCheck    *check = work->check;
	SfShareVersion version;

	work->loc = loc;
	if (is_shared(work))
		work->share = sfi_check_reference(check, loc, work->id);
	else if ((loc->flags & SF_LOC_SHARED) && sfi_check_based(check, loc, &version))
		work->shared = &version.loc;
	if (loc->flags & SF_LOC_SHARED)
		check->max_object_id = Max(check->max_object_id, loc->share.reference_id);
	if (work->share != NULL && (work->share->facts & SF_FACT_OWNED))
		return false;
	if (work->share != NULL)
		work->share->facts |= SF_FACT_OWNED;
	if (work->shared != NULL)
		find_owned_by_version(work);
	else
		find_owned(work);
	return true;
}

/* The row has no bytes, and owns no space: nothing that is found out of others depends on it. */
static void
report_unfilled(SfCheck *check, const SfUnfilled *unfilled)
{
	SF_ASSERT(ItemPointerIsValid(&check->tid));
	sfi_check_report(check, SF_FINDING_UNFILLED, &check->tid, 0, 0,
					 "a dump has left out the " UINT64_FORMAT
					 " bytes of the value: run \"securefile restore\", or store the value again",
					 unfilled->length_bytes);
	check->nmendable++;
}

/*
 * First step: find out the value's form and the space that it owns.  Locators and
 * compressed values are small, so larger ones, which are INLINE, are not even fetched.
 */
static void
read_map(void *arg)
{
	ValueWork  *work = arg;
	SfCheck    *check = work->check;
	struct varlena *packed = sf_base_detoast_short(work->value, SF_IN_ROW_MAX + SF_SEALED_OVERHEAD);
	SfUnfilled	unfilled;
	SfLocator	loc;

	if (packed == NULL)
	{
		count_key(check, 0);
		return;
	}
	if (sf_read_unfilled(PointerGetDatum(packed), &unfilled))
	{
		report_unfilled(check, &unfilled);
		return;
	}
	if (sf_read_is_in_row(packed) || sf_read_is_homed(packed))
	{
		if (sf_read_is_homed(packed) && !belongs_here(check, sf_read_home(packed)))
			return;
		if (sf_read_length(packed) > 0)
			count_key(check, sf_read_key_id(packed));
		verify_in_row(check, packed);
		return;
	}
	loc = sf_object_locator(packed);
	if (!belongs_here(check, (SfHome) {loc.table_oid, loc.attnum, loc.incarnation}))
		return;
	sf_object_require_tag(check->seg, &loc);
	count_key(check, loc.key_id);
	check->max_object_id = Max(check->max_object_id, loc.object_id);
	if (find_space(work, &loc))
		work->stored = packed;
}

/* Callback of sf_read_verify(), which names findings by their text. */
static void
report_found(const char *what, int64 segment_offset, int64 len, const char *detail, void *arg)
{
	SfCheck    *check = arg;

	sfi_check_report_bytes(check, SF_REPAIR_USUAL, sfi_check_finding_named(what), &check->tid,
						   segment_offset, len, detail);
}

/* Second step: compare the units in the data files with their checksums in the map. */
static void
verify(void *arg)
{
	ValueWork  *work = arg;

	sf_read_verify(work->stored, report_found, work->check);
}

/* Findings so far that say that values, or their space, are not known to be sound. */
static uint64
unsound(const SfCheck *check)
{
	return check->nfindings - check->nmendable;
}

/*
 * Check a value in two steps, each guarded.  The space that it owns is noted even
 * if its data are damaged, for then a repair must not free that space.
 */
static void
check_value(SfCheck *check, Datum value)
{
	ValueWork	work = {.check = check, .value = value};
	uint64		before = unsound(check);

	SF_ASSERT(ItemPointerIsValid(&check->tid));
	(void) sfi_check_guarded(check, SF_REPAIR_NONE, read_map, &work);
	check->hidden |= unsound(check) > before;
	if (work.stored != NULL)
	{
		sf_rows_runs_add_owned(&check->owned, &check->owned_pages, &work.owned, 0, &check->tid);
		if (!work.map_damaged && check->rsinfo != NULL)
			(void) sfi_check_guarded(check, SF_REPAIR_NONE, verify, &work);
	}
	if (work.share == NULL)
		return;
	if (work.share->facts & SF_FACT_DAMAGED)
		sfi_check_report_again(check, work.share);
	else if (unsound(check) > before)
	{
		work.share->facts |= SF_FACT_DAMAGED;
		work.share->finding = check->newest;
	}
}

/*
 * Take a snapshot.  The caller's lock keeps writers out, so the snapshot sees all
 * that will ever be committed of their work.  Command id "first" hides the rows
 * of the caller's own transaction.
 */
static Snapshot
take_snapshot(void)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	sf_server_hide_own_changes(snapshot);
	return snapshot;
}

void
sfi_check_rows(SfCheck *check)
{
	Snapshot	snapshot = take_snapshot(); /* after the lock */
	SfRows		rows = sf_rows_begin(check->rel, check->column->attnum, snapshot);

	SF_ASSERT(CheckRelationLockedByMe(check->rel, check->lockmode, true));
	SF_ASSERT(!ItemPointerIsValid(&check->tid));
	while (sf_rows_next(&rows))
	{
		check->tid = rows.slot->tts_tid;
		check_value(check, rows.value);
	}
	sf_rows_end(&rows);
	ItemPointerSetInvalid(&check->tid);
	UnregisterSnapshot(snapshot);
	sfi_check_report_lost(check);
	if (check->rsinfo != NULL)
		tell_keys(check);
}

/* ---- overlaps ---- */

/*
 * Are two runs such as are reported: of rows both, or, with of_records, one of them of a share
 * record without rows?
 */
static bool
is_asked(const SfRowRun *run, const SfRowRun *other, bool of_records)
{
	return (ItemPointerIsValid(&run->tid) && ItemPointerIsValid(&other->tid)) != of_records;
}

/*
 * Report space of a run that another one has, too.  A record without rows must not be given
 * back then: it goes with all pending entries.
 */
static void
report_twice(SfCheck *check, SfFinding finding, const SfRowRun *run, const SfRowRun *other,
			 uint64 nsectors, const char *what)
{
	bool		is_row = ItemPointerIsValid(&run->tid);
	ItemPointerData tid = is_row ? run->tid : other->tid;
	bool		of_records = is_asked(run, other, true);
	const char *whose = "a share record without rows";

	SF_ASSERT(other->start <= run->start);
	if (!of_records)
		whose = psprintf("row (%u,%u)", ItemPointerGetBlockNumberNoCheck(&other->tid),
						 ItemPointerGetOffsetNumberNoCheck(&other->tid));
	sfi_check_report_as(check, of_records ? SF_REPAIR_LISTS : SF_REPAIR_USUAL, finding, &tid,
						run->start, nsectors, "%salso by %s", what, whose);
}

/* Report a run that lies behind the end of the data files. */
static void
report_behind_end(SfCheck *check, SfRowRun *run, bool of_records)
{
	if (of_records)
		sfi_check_report_as(check, SF_REPAIR_LISTS, SF_FINDING_BAD_LOCATOR, NULL, run->start,
							run->count,
							"the data files end before, owned by a share record without rows");
	else
		sfi_check_report(check, SF_FINDING_BAD_LOCATOR, &run->tid, run->start, run->count,
						 "the data files end at byte " UINT64_FORMAT,
						 sf_sectors_to_bytes(check->total_sectors));
}

/*
 * Report runs that overlap, or lie behind the end.  The runs are sorted by start,
 * so a run overlaps an earlier one only if it starts before the furthest end so far.
 */
static void
check_sectors(SfCheck *check, bool of_records)
{
	uint64		furthest = 0;	/* end so far, */
	SfRowRun   *before = NULL;	/* and whose that is */

	SF_ASSERT(check->owned.sorted);
	for (int64 i = 0; i < check->owned.n; i++)
	{
		SfRowRun   *run = &check->owned.runs[i];
		uint64		end = run->start + run->count;

		CHECK_FOR_INTERRUPTS();
		if (end > check->total_sectors && is_asked(run, run, of_records))
			report_behind_end(check, run, of_records);
		if (run->start < furthest && is_asked(run, before, of_records))
			report_twice(check, SF_FINDING_SECTOR_TWICE, run, before,
						 Min(end, furthest) - run->start, "");
		if (end > furthest)
			before = run;
		furthest = Max(furthest, end);
	}
}

/* Report inode pages that two own; in a sorted array these are neighbours. */
static void
check_inode_pages(SfCheck *check, bool of_records)
{
	SF_ASSERT(check->owned_pages.sorted);
	for (int64 i = 1; i < check->owned_pages.n; i++)
	{
		SfRowRun   *before = &check->owned_pages.runs[i - 1];
		SfRowRun   *page = &check->owned_pages.runs[i];

		SF_ASSERT(page->count == 1 && before->start <= page->start);
		if (page->start == before->start && is_asked(page, before, of_records))
			report_twice(check, SF_FINDING_INODE_PAGE_TWICE, page, before, 0,
						 psprintf("page " UINT64_FORMAT ", ", page->start));
	}
}

void
sfi_check_overlaps(SfCheck *check, bool of_records)
{
	sf_rows_runs_sort(&check->owned);
	sf_rows_runs_sort(&check->owned_pages);
	check_sectors(check, of_records);
	check_inode_pages(check, of_records);
}
