/*-------------------------------------------------------------------------
 *
 * recount.c
 *	  Share pages made anew by a repair: states and counts as rows and pending entries
 *	  have them, lost records as rows have them, and the list of the pages.
 *
 * A record that rows refer to comes back at its cell, since the locators of rows, which name
 * the cell, are not changed.  Nobody knows its hash any more, so that nothing will be found
 * to be the same as its object; rows can be copied, and deleted.
 *
 * If the pending entries are forgotten, this comes after them: should the server crash in
 * between, counts are too high, and records wait for entries that are not there.  That costs
 * space, and the next repair finds it.  The other way round, entries would lower counts that
 * do not contain them any more.
 *
 * Cells become free without a word on the space of their object.  What no row owns then is
 * set free as any other such space: by entries of the repairing transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_shares.h"
#include "space/repair_pages.h"

/* One share page in the making. */
typedef struct Making
{
	SfPageWalk *walk;
	uint32		page;
	SfSharePage *content;
} Making;

/* ---- the records of a page ---- */

/* Make the cells of a record free. */
static void
clear_record(Making *making, uint32 cell, const SfShareRecord *record)
{
	const SfShareClear clear = {cell, sf_share_record_cells(record)};

	SF_ASSERT(cell + clear.ncells <= SF_SHARE_CELLS);
	sf_format_share_clear(making->content, clear);
}

/* Change a record that is there to what it has to be. */
static void
settle_record(Making *making, uint32 cell, const SfShareRecord *record)
{
	const SfShareId id = {making->page, cell, (uint16) record->object_id};
	SfCheck    *check = making->walk->check;
	SfCheckShare *share = sfi_check_known(check, id);
	SfCheckFate fate;

	/* rows would have it otherwise, and none has it as it is */
	if (sfi_check_lost(check, id) != NULL && (share == NULL || share->rows == 0))
		fate = (SfCheckFate) {0};
	else
		fate = sfi_check_judge(making->walk, record, share, making->walk->check->lists_damaged);
	if (fate.state != 0)
		sf_format_share_set(making->content, (SfShareSet) {cell, fate.state, fate.references});
	else
		clear_record(making, cell, record);
}

/* The same for all cells; those that have no record become free. */
static void
settle_records(Making *making)
{
	for (uint32 cell = 0; cell < SF_SHARE_CELLS;)
	{
		const SfShareRecord *record = sf_format_share_record(making->content, cell);
		uint32		n = sf_share_record_cells(record);

		if (record != NULL)
			settle_record(making, cell, record);
		else if (sf_share_is_used(making->content, cell))
			sf_format_share_clear(making->content, (SfShareClear) {cell, 1});
		cell += n;
	}
}

/* Do rows refer to a record, which may be one that was put back? */
static bool
has_rows(const Making *making, uint32 cell, const SfShareRecord *record)
{
	const SfShareId id = {making->page, cell, (uint16) record->object_id};
	const SfCheckShare *share = sfi_check_known(making->walk->check, id);

	return (share != NULL && share->rows > 0) ||
		sfi_check_lost(making->walk->check, id) != NULL;
}

/* Take records away that no row has and that reach into n cells; false: rows have one. */
static bool
make_room(Making *making, uint32 first, uint32 n)
{
	for (uint32 cell = 0; cell < first + n;)
	{
		const SfShareRecord *record = sf_format_share_record(making->content, cell);
		uint32		size = sf_share_record_cells(record);

		if (record != NULL && cell + size > first)
		{
			if (has_rows(making, cell, record))
				return false;
			clear_record(making, cell, record);
		}
		cell += size;
	}
	return true;
}

/* Put a lost record where rows look for it, if the check has said so. */
static void
put_lost(Making *making, const SfCheckLost *lost)
{
	SfShareRecord *record = lost->record;
	uint32		size = sf_share_record_size(record);
	uint32		n = sf_share_cells_of(size);
	uint64		references = lost->share.rows;

	if (!making->walk->check->lists_damaged)
		references += lost->share.waiting;
	if (!lost->has_place || !make_room(making, lost->id.cell, n))
		return;
	record->state = SF_SHARE_LIVE;
	record->references = Min(references, PG_UINT32_MAX);
	record->hash_method = SF_SHARE_HASH_NONE;
	record->compression = SF_SHARE_COMPRESSION_UNKNOWN;
	sf_format_share_put(making->content, lost->id.cell, record, size);
	SF_ASSERT(sf_format_share_record(making->content, lost->id.cell) != NULL);
}

/* ---- pages ---- */

/*
 * Make a page what it has to be, with nlost lost records; next: the one behind it, or 0 if that
 * stays as it is.  False: it is to be no share page.  One that cannot be read, and that no row
 * needs, becomes an empty one if all values are sound: otherwise it may be something else of
 * theirs.
 */
static bool
make_page(SfPageWalk *walk, uint32 page, SfCheckLost *const *lost, int64 nlost, uint32 next)
{
	SfCheckPage read;
	SfSharePage content = {.next = SF_NO_PAGE};
	Making		making = {walk, page, &content};
	bool		is_there = sfi_check_read_share_page(walk, page, &read);

	SF_ASSERT(next != page && !SF_IS_MAP_PAGE(page));
	if (is_there)
		content = read.u.share;
	else if (nlost == 0 && !(walk->all_sound && read.type == 0))
		return false;
	settle_records(&making);
	for (int64 i = 0; i < nlost; i++)
		put_lost(&making, lost[i]);
	if (next != 0)
		content.next = next;
	if (!is_there || memcmp(&content, &read.u.share, sizeof(SfSharePage)) != 0)
		sf_space_repair_page(walk->check->seg, page, &content);
	return true;
}

/* A new list ends at the page with the highest number, so that is made first. */
void
sfi_check_repair_shares(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;
	SfHeaderRepair head = {.change_share_head = true};
	uint32		next = SF_NO_PAGE;
	int64		nlost;
	SfCheckLost **lost;

	if (check->shares == NULL)
		return;
	SF_ASSERT(walk->nblocks > 0);
	lost = sfi_check_all_lost(check, &nlost);
	for (uint32 page = walk->nblocks - 1; page > 1; page--)
	{
		int64		n = 0;

		if (SF_IS_MAP_PAGE(page) || !(walk->known[page] & SF_KNOWN_SHARE))
			continue;
		while (nlost > 0 && lost[nlost - 1]->id.page > page)
			nlost--;
		while (n < nlost && lost[nlost - n - 1]->id.page == page)
			n++;
		if (make_page(walk, page, lost + nlost - n, n, check->shares->relink ? next : 0))
			next = page;
	}
	head.share_head = next == SF_NO_PAGE ? 0 : next;
	if (check->shares->relink)
		sf_space_repair_header(check->seg, head);
}

/* ---- space of records ---- */

/* Take the runs of records without live rows out of an array, which stays in order. */
static void
disown(SfRowRuns *runs, SfPageWalk *walk, bool are_pages)
{
	int64		to = 0;

	SF_ASSERT(runs->sorted);
	for (int64 i = 0; i < runs->n; i++)
	{
		SfRowRun   *run = &runs->runs[i];

		if (ItemPointerIsValid(&run->tid))
			runs->runs[to++] = *run;
		else if (are_pages && run->start < walk->nblocks)
			walk->known[run->start] &= ~SF_KNOWN_OWNED;
	}
	runs->n = to;
}

void
sfi_check_disown_records(SfPageWalk *walk)
{
	SfCheck    *check = walk->check;

	SF_ASSERT(walk->check->lists_damaged && walk->all_sound);
	disown(&check->owned, walk, false);
	disown(&check->owned_pages, walk, true);
	for (int64 i = 0; i < check->owned_pages.n; i++)
		if (check->owned_pages.runs[i].start < walk->nblocks)
			walk->known[check->owned_pages.runs[i].start] |= SF_KNOWN_OWNED;
}
