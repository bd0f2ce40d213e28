/*-------------------------------------------------------------------------
 *
 * repair.c
 *	  securefile_repair(): rebuilds the space map and the lists of pages from
 *	  the live rows.
 *
 * A check comes first.  The live rows tell how to mend these of its findings:
 *
 *	space of a live row				is marked used, and no entry will free it
 *	space that nobody owns or names	gets a pending entry of this transaction
 *	a damaged map page				is set to all used, then as above
 *	a stale map page, where a value
 *	could not be located			is set to all used
 *	a stale header page				gets numbers behind all that are in use; this
 *									comes before all other repairs
 *	a header page that names a next
 *	page far behind the last one	gets that behind the last one
 *	a damaged queue, free list or	all of them become new ones; their entries as above, so
 *	list of history pages			that a retention keeps what it kept, for once more its time
 *	a damaged list of removed		is forgotten
 *	values
 *	a damaged dictionary			is forgotten, if all values are sound
 *	damaged advice on duplicates	is made anew from the share records
 *	a share record that is not		is made again from a row that refers to it, if there
 *	there							is room (lost.c)
 *	a wrong count of references		is raised; it is lowered if all values are sound
 *	share records with a damaged	are counted by the rows alone
 *	queue
 *
 * While any value has a finding, its unit map may be the damaged part, and the
 * value may own space that the check has not seen.  Then nothing is set free but
 * the space that sound pending entries name.  Values are never changed, only
 * reported.
 *
 * ShareRowExclusiveLock on the table and the segment relation keeps writers out,
 * and lets readers in: a repair does not touch the pages of live values.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "check/check_shares.h"
#include "miscadmin.h"
#include "space/lend.h"
#include "space/repair_pages.h"

PG_FUNCTION_INFO_V1(securefile_repair);

#define RUNS_AT_ONCE	1024

/* Pending entries of this transaction, for space that nobody owns. */
typedef struct Entries
{
	SfSegment  *seg;
	SfPendKind	kind;
	int			nruns;
	SfRun		runs[RUNS_AT_ONCE];
} Entries;

static void
flush_entries(Entries *entries)
{
	for (int done = 0; done < entries->nruns;)
		done += sf_space_log_some(entries->seg, entries->kind,
								  U64FromFullTransactionId(GetTopFullTransactionId()),
								  entries->runs + done, entries->nruns - done);
	entries->nruns = 0;
}

/* Add an entry; full arrays go into WAL and the queue at once. */
static void
add_entry(Entries *entries, uint64 start, uint32 count)
{
	SF_ASSERT(count > 0 && entries->nruns >= 0 && entries->nruns <= RUNS_AT_ONCE);
	CHECK_FOR_INTERRUPTS();
	if (entries->nruns == RUNS_AT_ONCE)
		flush_entries(entries);
	entries->runs[entries->nruns++] = (SfRun) {start, count};
}

/*
 * Which sectors (or pages) that no live row owns need a new entry that frees them?
 * Arguments and result are bits, one for each sector: named by an entry, and doomed to
 * be freed by one.  If the pending queue is kept, its entries free what they name.  If
 * it is rebuilt, they are lost, and the same space needs new entries.
 */
static uint8
to_be_freed(const SfPageWalk *walk, uint8 named, uint8 doomed)
{
	if (walk->check->lists_damaged)
		return walk->all_sound ? 0xFF : doomed;
	return walk->all_sound ? ~named : 0;
}

/* ---- the space map ---- */

static void
repair_damaged_maps(SfPageWalk *walk)
{
	for (int64 i = 0; i < walk->damaged_maps.n; i++)
		sf_space_repair_map(walk->check->seg, walk->damaged_maps.runs[i].start, NULL);
}

/* Log entries for the sectors of a map page that nobody owns. */
static void
free_sectors(SfPageWalk *walk, Entries *entries, uint32 map, const SfCheckPlanes *planes)
{
	SfCheckPage read;
	uint8	   *free = read.u.map.used;
	uint32		at = 0;
	uint32		n;

	/* if lists are rebuilt, all transactions with entries have ended */
	SF_ASSERT(!(walk->check->lists_damaged && walk->running));
	(void) sf_space_read_page(walk->check->seg, SF_MAP_PAGE(map), read.u.content);
	for (uint32 i = 0; i < SF_MAP_SECTORS / 8; i++)
		free[i] &= ~planes->owned[i] & to_be_freed(walk, planes->named[i], planes->doomed[i]);
	for (; sfi_check_next_run(free, true, SF_MAP_SECTORS, &at, &n); at += n)
		add_entry(entries, sf_map_start(map) + at, n);
}

/* Must a map page not be trusted?  Asked for all map pages, in ascending order. */
static bool
is_distrusted(SfPageWalk *walk, uint32 map)
{
	SfRowRuns  *maps = &walk->distrusted_maps;

	SF_ASSERT(maps->next == maps->n || maps->runs[maps->next].start >= map);
	if (maps->next == maps->n || maps->runs[maps->next].start != map)
		return false;
	maps->next++;
	return true;
}

/*
 * Make each page of the space map show the space of live rows, and of the entries
 * that will free it, as used; and log entries for the rest that is in use.
 */
static void
repair_maps(SfPageWalk *walk)
{
	SfSegment  *seg = walk->check->seg;
	Entries		entries = {.seg = seg, .kind = SF_PEND_FREE};
	SfCheckPlanes planes;
	uint8		used[SF_MAP_SECTORS / 8];	/* sectors to be marked used */

	sfi_check_rewind_planes(walk);
	for (uint64 first = 0; first < walk->check->total_sectors; first += SF_MAP_SECTORS)
	{
		uint32		map = sf_map_of(first);

		sfi_check_fill_planes(walk, first, &planes);
		for (int i = 0; i < SF_MAP_SECTORS / 8; i++)
			used[i] = planes.owned[i] | planes.doomed[i];
		if (is_distrusted(walk, map))
			memset(used, 0xFF, sizeof(used));
		sf_space_repair_map(seg, map, used);
		free_sectors(walk, &entries, map, &planes);
	}
	SF_ASSERT(walk->distrusted_maps.next == walk->distrusted_maps.n);
	flush_entries(&entries);
}

/* ---- lists of pages ---- */

/*
 * Correct the header, if it is stale; make both lists empty, if one is damaged.  The
 * dictionaries come after the numbers: their pages are made anew by records with a header
 * that has to know them.
 */
static void
repair_header(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;
	SfHeaderRepair repair = {
		.next_object_id = check->max_object_id + 1,
		.next_stamp = walk->max_stamp + 1,
		.total_sectors = check->total_sectors,
		.next_page = walk->end_page,
		.lower_next_page = walk->header_ahead && walk->all_sound,
		.lower_end = walk->end_ahead && walk->all_sound,
		.forget_lists = walk->check->lists_damaged,
		.forget_removed = walk->removed_damaged,
	};

	SfHeaderRepair dictionaries = {0};

	if (walk->check->lists_damaged || walk->removed_damaged || walk->header_behind ||
		repair.lower_next_page || repair.lower_end)
		sf_space_repair_header(check->seg, repair);
	sfi_check_dictionary_repair(walk, &dictionaries);
	if (dictionaries.change_dictionary)
		sf_space_repair_header(check->seg, dictionaries);
}

/* Free a page that is not an inode page, or damaged, unless it is in use or in a list. */
static void
repair_other_page(SfPageWalk *walk, uint32 page, SfPageType type)
{
	bool		listed = (walk->known[page] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE)) &&
		!walk->check->lists_damaged;
	bool		is_forgotten = walk->removed_damaged && (walk->known[page] & SF_KNOWN_REMOVED);

	if (listed || ((walk->known[page] & SF_KNOWN_OWNED) && !is_forgotten) ||
		((walk->known[page] & SF_KNOWN_ADVICE) && !walk->advice_damaged))
		return;
	/* an unreadable page may be an inode page of a value with findings */
	if (type == 0 && !walk->all_sound)
		return;
	sf_space_repair_page(walk->check->seg, page, NULL);
}

static SfPageType
type_of(SfPageWalk *walk, uint32 page)
{
	SfCheckPage read;

	(void) sfi_check_read_any(walk->check, SF_REPAIR_UNREPORTED, page, &read);
	return read.type;
}

/* Free the pages, but the header and map pages, that nobody owns. */
static void
repair_dynamic(SfPageWalk *walk)
{
	Entries		entries = {.seg = walk->check->seg, .kind = SF_PEND_FREE_PAGE};

	SF_ASSERT(walk->end_page <= walk->nblocks);
	for (uint32 page = 2; page < walk->end_page; page++)
	{
		uint16		known = walk->known[page];
		SfPageType	type;

		if (SF_IS_MAP_PAGE(page))
			continue;
		type = type_of(walk, page);
		if (type != SF_PAGE_INODE)
			repair_other_page(walk, page, type);
		else if (!(known & SF_KNOWN_OWNED) &&
				 (to_be_freed(walk, (known & SF_KNOWN_NAMED) != 0,
							  (known & SF_KNOWN_DOOMED) != 0) & 1))
			add_entry(&entries, page, 1);
	}
	flush_entries(&entries);
}

/* ---- the whole ---- */

/*
 * Repair one column, after its check.  The header comes first, since the other
 * steps take numbers and pages from it.  Damaged map pages come before the pages
 * and bits, since all steps that follow read the space map.  Advice comes last, when its old
 * pages are free; that some of it is missing is no finding.
 */
static void
repair_column(SfPageWalk *walk)
{
	SF_ASSERT(!walk->check->moving && walk->check->lockmode >= ShareRowExclusiveLock);
	if (walk->check->later)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a later version of securefile has stored something in the column, which this library does not know"),
				 errdetail("A repair would take it for damage. securefile_check() lists it."),
				 errhint("Install the later version, and restart the server.")));
	if (walk->check->nfindings == 0)
	{
		sfi_check_rebuild_advice(walk);
		return;
	}
	if (walk->check->lists_damaged && walk->running)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("pending pages name a transaction that has not ended"),
				 errhint("Wait for it, or end it, and try again.")));
	sf_space_repair_extend(walk->check->seg, walk->nblocks);
	if (walk->check->lists_damaged && walk->all_sound)
		sfi_check_disown_records(walk);
	repair_header(walk);
	sfi_check_repair_keys(walk);
	sfi_check_repair_shares(walk);
	sfi_check_forget_advice(walk);
	repair_damaged_maps(walk);
	sf_space_repair_collect(walk->check->seg);
	repair_dynamic(walk);
	repair_maps(walk);
	sfi_check_rebuild_advice(walk);
	SF_FAULT(repair_done);
	/* a commit without a transaction id would not wait for these records */
	XLogFlush(XactLastRecEnd);
}

/*
 * Refuse to run in a transaction that has changed something: the check sees
 * committed rows only, so the space of this transaction's own rows would look as
 * if nobody owned it.
 */
static void
refuse_unless_alone(void)
{
	sf_base_require_writes("securefile_repair()");
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
	sf_check_require_arguments(fcinfo, false);
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
