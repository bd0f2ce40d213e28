/*-------------------------------------------------------------------------
 *
 * lost.c
 *	  Lost share records: which of them a repair can make again, and the rows that
 *	  refer to them.
 *
 * A record comes back at the cell that the locators of its rows name, or not at all.  After
 * an older share page was put back, others may have taken its cells since then:
 *
 *	 cells wanted are free, or of a record that no row has		it comes back
 *	 .. are of a record that rows have							it cannot
 *	 .. are wanted by two lost ones								the first one comes back
 *
 * So this is asked when all rows are known.  Rows whose record cannot come back can be read;
 * each one that is stored again, or deleted, leaves space behind, which the next repair finds
 * to be nobody's.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_shares.h"
#include "miscadmin.h"

/* Cells of a share page that rows need, or lost records will have. */
typedef struct Cells
{
	bool		taken[SF_SHARE_CELLS];
} Cells;

/* Take cells; false: some are taken, or there are not so many. */
static bool
take(Cells *cells, uint32 first, uint32 n)
{
	SF_ASSERT(n > 0);
	if (first + n > SF_SHARE_CELLS)
		return false;
	for (uint32 cell = first; cell < first + n; cell++)
		if (cells->taken[cell])
			return false;
	memset(cells->taken + first, true, n);
	return true;
}

/* The cells of records that rows have as they are; page NULL: there are none. */
static Cells
cells_of_rows(SfCheck *check, uint32 number, const SfSharePage *page)
{
	Cells		cells = {{false}};

	for (uint32 cell = 0; page != NULL && cell < SF_SHARE_CELLS;)
	{
		const SfShareRecord *record = sf_format_share_record(page, cell);
		uint32		n = sf_share_record_cells(record);
		const SfCheckShare *share = record == NULL ? NULL :
			sfi_check_known(check, (SfShareId) {number, cell, (uint16) record->object_id});

		if (share != NULL && share->rows > 0)
			(void) take(&cells, cell, n);
		cell += n;
	}
	return cells;
}

/* Find out which ones can come back; they are in order, so that each page is read once. */
static void
find_places(SfCheck *check)
{
	int64		n;
	SfCheckLost **lost = sfi_check_all_lost(check, &n);
	Cells		cells;

	for (int64 i = 0; i < n; i++)
	{
		SfShareId	id = lost[i]->id;
		uint32		size = sf_share_record_size(lost[i]->record);

		CHECK_FOR_INTERRUPTS();
		SF_ASSERT(i == 0 || sfi_check_compare_ids(lost[i - 1]->id, id) <= 0);
		if (i == 0 || lost[i - 1]->id.page != id.page)
			cells = cells_of_rows(check, id.page, sfi_check_share_page(check, id.page));
		lost[i]->has_place = take(&cells, id.cell, sf_share_cells_of(size));
	}
	pfree(lost);
}

/* Report a row; it is sound itself, and so is what it owns. */
static void
report_row(SfCheck *check, SfCheckLostRow *row)
{
	const SfCheckLost *lost = row->lost;
	const char *why = ", and no room for one, since other rows need the cell: " SF_STORE_AGAIN;

	SF_ASSERT(lost->record != NULL && lost->share.rows > 0);
	sfi_check_report_as(check, lost->has_place ? SF_REPAIR_RECORD : SF_REPAIR_NONE,
						row->is_other_map ? SF_FINDING_OTHER_MAP : SF_FINDING_NO_RECORD,
						&row->tid, 0, 0, "cell %u of page %u %s object " UINT64_FORMAT "%s",
						lost->id.cell, lost->id.page,
						row->is_other_map ? "has another map of" : "has no share record of",
						lost->record->object_id, lost->has_place ? "" : why);
	check->nmendable++;
}

void
sfi_check_report_lost(SfCheck *check)
{
	SfCheckShares *shares = check->shares;

	if (shares == NULL || shares->nlost_rows == 0)
		return;
	SF_ASSERT(!check->moving);
	find_places(check);
	for (int64 i = 0; i < shares->nlost_rows; i++)
		report_row(check, &shares->lost_rows[i]);
}
