/*-------------------------------------------------------------------------
 *
 * check_shares.c
 *	  The share records of a segment against the rows that refer to them, and against
 *	  the pending entries about them.
 *
 * The references of a record must be exactly
 *
 *	 live rows that refer to it
 *	 + REF_DROP entries of transactions that have committed
 *	 + REF_ADD entries of transactions that have not, or not yet
 *
 * since the caller's lock excludes all transactions that change reference counts: each holds
 * a lock on the segment until it ends, and so does the resolver.
 *
 * A record owns the space of its object while it is LIVE, or NEW and its transaction has
 * committed, or DEAD, as far as its REAP entry has not given that back.  Before, it is the
 * ALLOC entries of its transaction that answer for the space.  Where rows refer to it, the
 * first of them has brought the space (check_rows.c); that of others is noted here.
 *
 * A count that is too low loses data: the last reference but one takes the object away.  One
 * that is too high costs space.  So the first is reported as urgent, and mended whatever
 * else was found; and nothing is lowered, or given back, while some value is not sound, for
 * what could not be read may be a reference.
 *
 * What an old snapshot may still see needs no reference of its own: what becomes nobody's
 * here is set free by entries of the repairing transaction, behind all older snapshots.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_shares.h"
#include "miscadmin.h"
#include "space/share_records.h"

/* ---- the list of pages ---- */

/* Report a finding that a new list of share pages will cure. */
static void
report_share_list(SfPageWalk *walk, const char *problem, uint32 page)
{
	SF_ASSERT(!walk->check->moving);
	walk->check->shares->relink = true;
	sfi_check_report_as(walk->check, SF_REPAIR_RELINK, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						"the list of share pages %s page %u", problem, page);
}

/*
 * Walk through the list of share pages, and mark them.  One that cannot be read is marked,
 * too: the list says what it was.
 */
static void
walk_list(SfPageWalk *walk)
{
	SfCheckPage read;
	uint32		head = walk->check->header.share_head;
	uint32		page = head == 0 ? SF_NO_PAGE : head;

	while (page != SF_NO_PAGE)
	{
		bool		exists = page < walk->nblocks;

		if (!exists || (walk->known[page] & SF_KNOWN_SHARE))
		{
			report_share_list(walk, exists ? "leads back to" : "ends behind the relation, at",
							  page);
			break;
		}
		(void) sfi_check_read_any(walk->check, SF_REPAIR_UNREPORTED, page, &read);
		if (read.type == SF_PAGE_SHARE || read.type == 0)
			walk->known[page] |= SF_KNOWN_SHARE | SF_KNOWN_OWNED;
		if (read.type != SF_PAGE_SHARE)
		{
			report_share_list(walk, "leads to what is none,", page);
			break;
		}
		page = read.u.share.next;
	}
}

/* Mark the pages that lost records belong on, and report those that are in another list. */
static void
mark_lost(SfPageWalk *walk)
{
	int64		n;
	SfCheckLost **lost = sfi_check_all_lost(walk->check, &n);

	for (int64 i = 0; i < n; i++)
	{
		uint32		page = lost[i]->id.page;

		if (page >= walk->nblocks || (i > 0 && lost[i - 1]->id.page == page))
			continue;
		/* a share page that is made anew has to get into the list */
		walk->check->shares->relink |= !(walk->known[page] & SF_KNOWN_SHARE);
		walk->known[page] |= SF_KNOWN_SHARE | SF_KNOWN_OWNED;
		if (walk->known[page] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE))
			sfi_check_report(walk->check, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
							 "share page %u is in a list of other pages", page);
	}
	pfree(lost);
}

/* ---- entries ---- */

void
sfi_check_share_entry(SfPageWalk *walk, uint32 page, const SfPendEntry *entry)
{
	SfCheckShares *shares = sfi_check_shares_of(walk->check);

	SF_ASSERT(sf_format_pend_kind(entry->kind)->is_share);
	shares->entries = sf_base_array_grow(shares->entries, shares->nentries, &shares->entries_size,
										 sizeof(SfCheckShareEntry), shares->context);
	shares->entries[shares->nentries++] = (SfCheckShareEntry) {*entry, page};
}

/* For qsort(): by record. */
static int
compare_entries(const void *a, const void *b)
{
	return sfi_check_compare_ids(sf_share_of_start(((const SfCheckShareEntry *) a)->entry.start),
								 sf_share_of_start(((const SfCheckShareEntry *) b)->entry.start));
}

/* Sums stop at the highest number: entries that are damaged may have any. */
static uint32
add_up(uint32 a, uint32 b)
{
	return a > PG_UINT32_MAX - b ? PG_UINT32_MAX : a + b;
}

/*
 * Note what an entry will do to a record in that state, made by that transaction (0: nobody
 * knows); false: it does not fit.
 */
static bool
apply_entry(SfCheckShare *share, uint16 state, uint64 maker_fxid, const SfPendEntry *entry)
{
	switch (entry->kind)
	{
		case SF_PEND_SHARE_NEW:
			if (maker_fxid != 0 && entry->fxid != maker_fxid)
				return false;
			share->facts |= SF_FACT_MADE;
			return true;
		case SF_PEND_REAP:
			if (state != SF_SHARE_DEAD || (share->facts & SF_FACT_DYING))
				return false;
			share->facts |= SF_FACT_DYING;
			share->waiting = entry->count;
			return true;
		default:
			if (state != SF_SHARE_NEW && state != SF_SHARE_LIVE)
				return false;
			share->waiting = add_up(share->waiting, entry->count);
			return true;
	}
}

/*
 * A lost record is made again as rows say, so entries about it will find it, but for one
 * that takes it for dead.
 */
static void
check_share_entry(SfPageWalk *walk, const SfCheckShareEntry *at)
{
	SfShareId	id = sf_share_of_start(at->entry.start);
	SfCheckLost *lost = sfi_check_lost(walk->check, id);
	const SfShareRecord *record = sfi_check_record(walk->check, id);
	bool		fits;

	if (lost != NULL)
		fits = apply_entry(&lost->share, SF_SHARE_LIVE, 0, &at->entry);
	else
		fits = record != NULL &&
			apply_entry(sfi_check_note(walk->check, id), record->state, record->maker_fxid,
						&at->entry);
	if (!fits)
		sfi_check_report_entry(walk, at->page, &at->entry, "there is no such share record");
}

/*
 * Check all entries about records.  They are sorted, so that each share page is read once.
 */
static void
check_entries(SfPageWalk *walk)
{
	SfCheckShares *shares = walk->check->shares;

	SF_ASSERT(shares->nentries >= 0 && shares->nentries <= shares->entries_size);
	if (shares->nentries > 0)
		qsort(shares->entries, shares->nentries, sizeof(SfCheckShareEntry), compare_entries);
	for (int64 i = 0; i < shares->nentries; i++)
	{
		CHECK_FOR_INTERRUPTS();
		check_share_entry(walk, &shares->entries[i]);
	}
}

/* ---- judging a record ---- */

/* How the transaction that made a record has ended.  The number may be any. */
static SfTransactionEnd
maker_end(const SfShareRecord *record)
{
	if ((uint32) record->maker_fxid < SF_FIRST_XID ||
		record->maker_fxid >= U64FromFullTransactionId(ReadNextFullTransactionId()))
		return SF_END_UNKNOWN;
	return sf_base_transaction_end(record->maker_fxid);
}

/* As it is, which is as it has to be. */
static SfCheckFate
leave(const SfShareRecord *record, bool owns)
{
	return (SfCheckFate) {record->state, record->references, owns};
}

/*
 * Nobody refers to it, and nothing will take it away.  While some value is not sound it
 * stays; and then its space is kept, whatever its state: of a dead one nothing tells how much
 * has been given back.
 */
static SfCheckFate
unreferred(const SfPageWalk *walk, const SfShareRecord *record, const char *why)
{
	SfCheckFate fate = leave(record, false);

	SF_ASSERT(!walk->check->moving);
	fate.is_wrong = true;
	fate.finding = SF_FINDING_UNREFERRED;
	fate.action = sfi_check_unowned(walk);
	fate.why = why;
	if (walk->all_sound)
		fate.state = 0;
	else
		fate.owns = record->state == SF_SHARE_LIVE || record->state == SF_SHARE_NEW;
	return fate;
}

/* It has to be in that state, and have so many references. */
static SfCheckFate
counted(const SfPageWalk *walk, const SfShareRecord *record, SfShareState state, uint32 due)
{
	SfCheckFate fate = {state, due, true};

	SF_ASSERT(due > 0 && (state == SF_SHARE_LIVE || state == SF_SHARE_NEW));
	fate.is_wrong = record->state != state || record->references != due;
	fate.finding = SF_FINDING_WRONG_REFERENCES;
	fate.action = SF_REPAIR_CORRECT;
	if (record->state == SF_SHARE_DEAD || record->state == SF_SHARE_RESERVED)
		fate.why = "it is given back although rows have it: repair it at once";
	else if (record->references < due)
		fate.why = "too low: repair it before rows are deleted";
	else if (record->references > due && !walk->all_sound)
	{
		fate.why = "too high, or of values that could not be read";
		fate.action = SF_REPAIR_KEEP;
		fate.references = record->references;
	}
	else if (record->references > due)
		fate.why = "too high";
	else
		fate.why = "it has to be live";
	return fate;
}

/* A record that rows refer to, or that is counted. */
static SfCheckFate
judge_counted(const SfPageWalk *walk, const SfShareRecord *record, const SfCheckShare *share,
			  bool waits)
{
	bool		is_dead = record->state == SF_SHARE_DEAD;
	bool		stays_new = record->state == SF_SHARE_NEW && waits &&
		maker_end(record) != SF_END_ABORTED;
	uint32		due = share == NULL ? 0 : is_dead ? share->rows :
		add_up(share->rows, share->waiting);

	if (due == 0)
		return unreferred(walk, record, "no row has it, and no pending entry is about it");
	return counted(walk, record, stays_new ? SF_SHARE_NEW : SF_SHARE_LIVE, due);
}

/*
 * The entries are forgotten: what no row has goes, if all rows could be read.  Otherwise it
 * stays as it is, and nothing takes it away; but one whose transaction failed, or that was
 * dead, is nobody's in any case.
 */
static SfCheckFate
judge_by_rows(const SfPageWalk *walk, const SfShareRecord *record, const SfCheckShare *share)
{
	bool		may_be_wanted = record->state == SF_SHARE_LIVE ||
		(record->state == SF_SHARE_NEW && maker_end(record) != SF_END_ABORTED);
	uint32		rows = share == NULL ? 0 : share->rows;

	if (rows == 0 && (walk->all_sound || !may_be_wanted))
		return (SfCheckFate) {0};
	return (SfCheckFate) {SF_SHARE_LIVE,
								 walk->all_sound ? rows : Max(rows, record->references), true};
}

/*
 * Rows that have a record say more than its state.  Without rows:
 *
 *	 state		transaction		entry		has to be
 *	 RESERVED	any				SHARE_NEW	as it is
 *	 RESERVED	any				none		free cells
 *	 NEW		committed		any			as entries about references have it
 *	 NEW		other			SHARE_NEW	as it is
 *	 NEW		other			none		free cells
 *	 LIVE		any				any			as entries about references have it
 *	 DEAD		any				REAP		as it is
 *	 DEAD		any				none		free cells
 */
SfCheckFate
sfi_check_judge(const SfPageWalk *walk, const SfShareRecord *record, const SfCheckShare *share,
				bool forget)
{
	bool		has_rows = share != NULL && share->rows > 0;
	bool		is_made = share != NULL && (share->facts & SF_FACT_MADE);
	bool		is_dying = share != NULL && (share->facts & SF_FACT_DYING);

	if (forget)
		return judge_by_rows(walk, record, share);
	switch (record->state)
	{
		case SF_SHARE_RESERVED:
			if (has_rows)
				break;
			return is_made ? leave(record, false) :
				unreferred(walk, record, "it is reserved, and no pending entry will undo that");
		case SF_SHARE_NEW:
			if (has_rows || maker_end(record) == SF_END_COMMITTED)
				break;
			return is_made ? leave(record, false) :
				unreferred(walk, record, "its transaction has not committed");
		case SF_SHARE_DEAD:
			if (has_rows)
				break;
			return is_dying ? leave(record, true) :
				unreferred(walk, record, "it is dead, and no pending entry gives its space back");
		default:
			break;
	}
	return judge_counted(walk, record, share, is_made);
}

/* ---- space of records ---- */

/* What a record owns. */
typedef struct Owning
{
	SfSegment  *seg;
	const SfShareRecord *record;
	SfOwned		owned;
} Owning;

static void
owned_step(void *arg)
{
	Owning	   *owning = arg;

	owning->owned = sf_object_of_share(owning->seg, owning->record);
}

/* Note what a record owns, but for what its REAP has given back.  False: that is not known. */
static bool
own_space(SfCheck *check, SfRepair action, const SfShareRecord *record,
		  const ItemPointerData * tid, uint32 given_back)
{
	/* errors of the map are those of no row */
	Owning		owning = {.seg = check->seg, .record = record};

	SF_ASSERT(!ItemPointerIsValid(&check->tid));
	if (!sfi_check_guarded(check, action, owned_step, &owning))
		return false;
	sf_rows_runs_add_owned(&check->owned, &check->owned_pages, &owning.owned, given_back, tid);
	return true;
}

/*
 * The same of one without live rows.  If its map cannot be read, nothing will ever give that
 * space back; then the record goes with all pending entries, and a repair sets free what is
 * nobody's.
 */
static void
own_without_rows(SfPageWalk *walk, const SfShareRecord *record, uint32 given_back)
{
	(void) own_space(walk->check, walk->all_sound ? SF_REPAIR_LISTS : SF_REPAIR_NONE, record,
					 NULL, given_back);
}

/*
 * The same of one that no live row has as it is, while some have changed versions: these need
 * what is left of its object.  If its map cannot be read, not even where a row has nothing
 * of it, nobody knows where that is.
 */
static void
own_for_versions(SfPageWalk *walk, SfShareId id, const SfShareRecord *record)
{
	SfCheck    *check = walk->check;
	const SfCheckShare *share = sfi_check_known(check, id);

	if (share == NULL || share->rows == 0 || (share->facts & SF_FACT_OWNED) ||
		own_space(check, SF_REPAIR_NONE, record, &share->tid, 0))
		return;
	walk->all_sound = false;
	check->hidden = true;
}

/* ---- records ---- */

/* Report what is wrong with a record. */
static void
report_fate(SfPageWalk *walk, SfShareId id, const SfShareRecord *record, SfCheckShare *share,
			const SfCheckFate *fate)
{
	static const char *const states[] = {
		[SF_SHARE_RESERVED] = "reserved",
		[SF_SHARE_NEW] = "new",
		[SF_SHARE_LIVE] = "live",
		[SF_SHARE_DEAD] = "dead",
	};

	/* share is NULL where neither a row nor an entry names the record */
	uint32		rows = share == NULL ? 0 : share->rows;
	uint32		waiting = share == NULL ? 0 : share->waiting;

	/* entries that take it for dead have to be forgotten */
	if (rows > 0 && (share->facts & SF_FACT_DYING))
		walk->check->lists_damaged = true;
	sfi_check_report_as(walk->check, fate->action, fate->finding, rows > 0 ? &share->tid : NULL,
						0, 0,
						"object " UINT64_FORMAT
						" in cell %u of page %u is %s with %u references, for %u rows and %u pending ones: %s",
						record->object_id, id.cell, id.page, states[record->state],
						record->references, rows, waiting, fate->why);
}

/* Check a record; one that rows would have otherwise was reported with them. */
static void
check_record(SfPageWalk *walk, SfShareId id, const SfShareRecord *record)
{
	SfCheck    *check = walk->check;
	SfCheckShare *share = sfi_check_known(check, id);
	SfCheckFate fate;

	if (sfi_check_lost(check, id) != NULL)
		return;
	fate = sfi_check_judge(walk, record, share, false);
	if (fate.is_wrong)
		report_fate(walk, id, record, share, &fate);
	/* one that is nobody's may say anything */
	if (!fate.is_wrong || fate.finding != SF_FINDING_UNREFERRED)
		check->max_object_id = Max(check->max_object_id,
								   Min(record->object_id, SF_NUMBER_MAX - 1));
	if (fate.owns && (share == NULL || share->rows == 0))
		own_without_rows(walk, record,
						 share != NULL && (share->facts & SF_FACT_DYING) ? share->waiting : 0);
}

/* What is done about each record of a share page. */
typedef void (*RecordStep) (SfPageWalk *walk, SfShareId id, const SfShareRecord *record);

/* Do it; false: there are cells in use without a record. */
static bool
visit_records(SfPageWalk *walk, const SfCheckPage *read, RecordStep step)
{
	const SfSharePage *page = &read->u.share;
	bool		is_odd = false;

	for (uint32 cell = 0; cell < SF_SHARE_CELLS;)
	{
		const SfShareRecord *record = sf_format_share_record(page, cell);

		is_odd |= record == NULL && sf_share_is_used(page, cell);
		if (record != NULL)
			step(walk, (SfShareId) {read->page, cell, (uint16) record->object_id}, record);
		cell += sf_share_record_cells(record);
	}
	return !is_odd;
}

bool
sfi_check_read_share_page(SfPageWalk *walk, uint32 page, SfCheckPage *read)
{
	return !SF_IS_MAP_PAGE(page) &&
		sfi_check_read_any(walk->check, SF_REPAIR_UNREPORTED, page, read) &&
		read->type == SF_PAGE_SHARE;
}

/*
 * Check all share pages that there are, and report those that the list does not lead to.  The
 * space of changed versions comes first, since all else depends on what is sound.
 */
static void
check_share_pages(SfPageWalk *walk)
{
	SfCheckPage read;

	for (uint32 page = 2; walk->check->shares->has_based && page < walk->npages; page++)
		if (sfi_check_read_share_page(walk, page, &read))
			(void) visit_records(walk, &read, own_for_versions);
	for (uint32 page = 2; page < walk->npages; page++)
	{
		if (!sfi_check_read_share_page(walk, page, &read))
			continue;
		if (!(walk->known[page] & SF_KNOWN_SHARE))
			report_share_list(walk, "does not lead to", page);
		walk->known[page] |= SF_KNOWN_SHARE | SF_KNOWN_OWNED;
		if (!visit_records(walk, &read, check_record))
			sfi_check_report_as(walk->check, SF_REPAIR_CORRECT, SF_FINDING_DAMAGED_PAGE, NULL, 0, 0,
								"page %u of the segment relation uses cells without a share record",
								page);
	}
}

void
sfi_check_shares(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;

	SF_ASSERT(!check->moving && check->owned.sorted && check->owned_pages.sorted);
	if (check->shares == NULL && walk->check->header.share_head == 0)
		return;
	(void) sfi_check_shares_of(check);
	walk_list(walk);
	mark_lost(walk);
	check_entries(walk);
	check_share_pages(walk);
	sfi_check_overlaps(check, true);
}
