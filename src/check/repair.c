/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  securefile_repair(): space map and lists of pages, made anew from the
 *	  live rows.
 *
 * A check finds what is wrong, and each finding names what the rows can mend:
 *
 *	what a live row owns			is marked used, and not about to be freed
 *	what nobody owns or names		gets a pending entry of this transaction
 *	a map page that is damaged		all of it is used, then as above
 *	an old map page, where a
 *	value's place is not known		all of it is used
 *	an old header page				goes on behind what there is, before all else
 *	damaged queue, damaged list		new ones; their entries as above
 *
 * As long as any value is not sound, which may be because the way to its data
 * is damaged, nothing is set free but what sound pending entries name.  Values
 * are never changed; what is wrong with them is told.
 *
 * Writers are kept out (ShareRowExclusiveLock on table and segment relation),
 * readers are not: pages of live values are not touched.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "check/check_internal.h"
#include "miscadmin.h"
#include "tcop/utility.h"

PG_FUNCTION_INFO_V1(securefile_repair);

#define RUNS_AT_ONCE	1024

/* Entries of this transaction that will set free what nobody owns. */
typedef struct Entries
{
	SfSegment  *seg;
	SfPendKind	kind;
	int			nruns;
	SfRun		runs[RUNS_AT_ONCE];
} Entries;

static Entries *
begin_entries(SfSegment *seg, SfPendKind kind)
{
	Entries    *entries = palloc(sizeof(Entries));

	entries->seg = seg;
	entries->kind = kind;
	entries->nruns = 0;
	return entries;
}

static void
flush_entries(Entries *entries)
{
	if (entries->nruns > 0)
		sf_space_log_entries(entries->seg, entries->kind, entries->runs, entries->nruns);
	entries->nruns = 0;
}

static void
add_entry(Entries *entries, uint64 start, uint32 count)
{
	CHECK_FOR_INTERRUPTS();
	if (entries->nruns == RUNS_AT_ONCE)
		flush_entries(entries);
	entries->runs[entries->nruns++] = (SfRun) {start, count};
}

/*
 * Of what no live row owns, what is to be set free?  As bits, of which named and
 * doomed tell what entries say.  When the lists stay, these do it with what they
 * name; when the lists go, new entries have to.
 */
static uint8
to_be_freed(const SfPageWalk *walk, uint8 named, uint8 doomed)
{
	if (walk->lists_damaged)
		return walk->all_sound ? 0xFF : doomed;
	return walk->all_sound ? ~named : 0;
}

/* ---- the space map ---- */

static void
repair_damaged_maps(SfPageWalk *walk)
{
	for (Size i = 0; i < walk->damaged_maps.n; i++)
		sf_space_repair_map(walk->check->seg, walk->damaged_maps.runs[i].start);
}

/* Log entries for the sectors of a map page that nobody owns. */
static void
free_sectors(SfPageWalk *walk, Entries *entries, uint32 map, const SfCheckPlanes *planes)
{
	SfCheckPage read;
	uint8	   *free = read.u.map.used;
	uint32		at = 0;
	uint32		n;

	(void) sf_space_read_page(walk->check->seg, SF_MAP_PAGE(map), read.u.content);
	for (uint32 i = 0; i < SF_MAP_SECTORS / 8; i++)
		free[i] &= ~planes->owned[i] & to_be_freed(walk, planes->named[i], planes->doomed[i]);
	for (; sfi_check_next_run(free, true, SF_MAP_SECTORS, &at, &n); at += n)
		add_entry(entries, sf_map_start(map) + at, n);
}

/* Asked in ascending order. */
static bool
is_distrusted(SfPageWalk *walk, uint32 map)
{
	SfCheckRuns *maps = &walk->distrusted_maps;

	if (maps->next == maps->n || maps->runs[maps->next].start != map)
		return false;
	maps->next++;
	return true;
}

static void
repair_maps(SfPageWalk *walk)
{
	SfSegment  *seg = walk->check->seg;
	Entries    *entries = begin_entries(seg, SF_PEND_FREE);
	SfCheckPlanes planes;
	uint8		used[SF_MAP_SECTORS / 8];	/* at least */

	sfi_check_rewind_planes(walk);
	for (uint64 first = 0; first < walk->check->total_sectors; first += SF_MAP_SECTORS)
	{
		uint32		map = sf_map_of(first);

		sfi_check_fill_planes(walk, first, &planes);
		for (int i = 0; i < SF_MAP_SECTORS / 8; i++)
			used[i] = planes.owned[i] | planes.doomed[i];
		if (is_distrusted(walk, map))
			memset(used, 0xFF, sizeof(used));
		sf_space_repair_bits(seg, map, used);
		free_sectors(walk, entries, map, &planes);
	}
	flush_entries(entries);
	pfree(entries);
}

/* ---- lists of pages ---- */

static void
repair_header(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;
	SfHeaderRepair repair = {
		.next_object_id = check->max_object_id + 1,
		.next_stamp = walk->max_stamp + 1,
		.total_sectors = check->total_sectors,
		.next_page = walk->end_page,
		.forget_lists = walk->lists_damaged,
	};

	if (walk->lists_damaged || walk->header_behind)
		sf_space_repair_header(check->seg, repair);
}

/* A page that is not an inode page, or damaged. */
static void
repair_other_page(SfPageWalk *walk, uint32 page, SfPageType type)
{
	bool		listed = (walk->known[page] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE)) &&
	!walk->lists_damaged;

	if (listed || (walk->known[page] & SF_KNOWN_OWNED))
		return;
	/* what cannot be read may be an inode page of a value that is not sound */
	if (type == 0 && !walk->all_sound)
		return;
	sf_space_repair_free_page(walk->check->seg, page);
}

static SfPageType
type_of(SfPageWalk *walk, uint32 page, SfCheckPage *read)
{
	return sfi_check_read_any(walk, NULL, page, read) ? read->type : 0;
}

static void
repair_dynamic(SfPageWalk *walk)
{
	Entries    *entries = begin_entries(walk->check->seg, SF_PEND_FREE_PAGE);
	SfCheckPage *read = palloc(sizeof(SfCheckPage));

	for (uint32 page = 2; page < walk->end_page; page++)
	{
		uint8		known = walk->known[page];
		SfPageType	type;

		if (SF_IS_MAP_PAGE(page))
			continue;
		type = type_of(walk, page, read);
		if (type != SF_PAGE_INODE)
			repair_other_page(walk, page, type);
		else if (!(known & SF_KNOWN_OWNED) &&
				 (to_be_freed(walk, (known & SF_KNOWN_NAMED) != 0,
							  (known & SF_KNOWN_DOOMED) != 0) & 1))
			add_entry(entries, page, 1);
	}
	flush_entries(entries);
	pfree(entries);
	pfree(read);
}

/* ---- the whole ---- */

static void
repair_column(SfPageWalk *walk)
{
	if (walk->lists_damaged && walk->running)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("pending pages name a transaction that has not ended"),
				 errhint("Wait for it, or end it, and try again.")));
	sf_space_repair_extend(walk->check->seg, walk->nblocks);
	repair_header(walk);
	repair_damaged_maps(walk);
	sf_space_repair_collect(walk->check->seg);
	repair_dynamic(walk);
	repair_maps(walk);
	SF_FAULT(repair_done);
	/* the commit of a transaction without an id would not wait for that */
	XLogFlush(XactLastRecEnd);
}

/*
 * The rows are those that have committed: what the transaction itself has done
 * is not among them, and must not be taken for nobody's.
 */
static void
refuse_unless_alone(void)
{
	PreventCommandIfReadOnly("securefile_repair()");
	PreventCommandIfParallelMode("securefile_repair()");
	if (FullTransactionIdIsValid(GetTopFullTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("securefile_repair() cannot repair in a transaction that has changed something"),
				 errhint("Commit first.")));
}

/*
 * securefile_repair(table regclass, column name, dry_run boolean)
 * returns setof (finding text, ctid tid, segment_offset bigint,
 *				  length_bytes bigint, detail text, action text)
 */
Datum
securefile_repair(PG_FUNCTION_ARGS)
{
	bool		dry_run = PG_ARGISNULL(2) || PG_GETARG_BOOL(2);

	sf_base_require_preload();
	sfi_check_arguments(fcinfo, false);
	PreventCommandDuringRecovery("securefile_repair()");
	if (dry_run)
		sfi_check_columns_of_call(fcinfo, ShareLock, NULL);
	else
	{
		refuse_unless_alone();
		sfi_check_columns_of_call(fcinfo, ShareRowExclusiveLock, repair_column);
	}
	return (Datum) 0;
}
