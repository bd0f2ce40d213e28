/*-------------------------------------------------------------------------
 *
 * check_removed.c
 *	  The records of removed values.
 *
 * They own nothing, and nothing is lost with them but the list of names.  So a damaged list is
 * forgotten by a repair, and what it spoke of is kept, and set free, as before.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/walk.h"
#include "space/history.h"

/* Report that the list is to be forgotten. */
static void
report_list(SfPageWalk *walk, const char *problem, uint32 page)
{
	walk->removed_damaged = true;
	sfi_check_report_as(walk->check, SF_REPAIR_RELINK, SF_FINDING_DAMAGED_LIST, NULL, 0, 0,
						"the list of removed values %s page %u", problem, page);
}

/* An object id that a value names was given out. */
static void
note_object(SfCheck *check, const SfRemovedRecord *record)
{
	SfLocator	loc;
	struct varlena *datum = sf_space_removed_value(record, &loc);

	if (datum == NULL)
		return;
	if (sf_format_locator_tag_ok(&loc, &check->seg->secret))
		check->max_object_id = Max(check->max_object_id, loc.object_id);
	pfree(datum);
}

/* Look at all records of a page. */
static void
check_records(SfPageWalk *walk, uint32 number, const SfRemovedPage *page)
{
	SfRemovedReader *reader = palloc(sizeof(SfRemovedReader));
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	sf_format_removed_begin(reader, page->chunks, page->nbytes);
	while (sf_format_removed_next(reader))
	{
		if (reader->chunk.fxid >= next || reader->chunk.time_us > page->newest_us)
			break;
		note_object(walk->check, &reader->record);
	}
	if (reader->at != page->nbytes)
		report_list(walk, "has a record that cannot be, on", number);
	pfree(reader);
}

/* Mark a page of the list, and read it; false: the list ends here. */
static bool
read_listed(SfPageWalk *walk, uint32 page, SfCheckPage *read)
{
	if (page >= walk->nblocks ||
		(walk->known[page] & (SF_KNOWN_QUEUED | SF_KNOWN_FREE | SF_KNOWN_OWNED)))
	{
		report_list(walk, page >= walk->nblocks ? "ends behind the relation, at" :
					"leads to a page in use,", page);
		return false;
	}
	walk->known[page] |= SF_KNOWN_REMOVED | SF_KNOWN_OWNED;
	(void) sfi_check_read_any(walk->check, SF_REPAIR_UNREPORTED, page, read);
	if (read->type == SF_PAGE_REMOVED)
		return true;
	report_list(walk, "leads to what is none,", page);
	return false;
}

void
sfi_check_removed(SfPageWalk *walk)
{
	const SfHeader *header = &walk->check->header;
	uint32		page = header->removed_head == 0 ? SF_NO_PAGE : header->removed_head;
	uint32		last = 0;
	uint32		n = 0;
	bool		has_unknown = header->removed_unknown == 0;
	SfCheckPage read;

	while (page != SF_NO_PAGE && read_listed(walk, page, &read))
	{
		check_records(walk, page, &read.u.removed);
		has_unknown |= page == header->removed_unknown;
		last = page;
		n++;
		page = read.u.removed.next;
	}
	if (!walk->removed_damaged && (last != header->removed_tail || !has_unknown))
		report_list(walk, "does not end at its last page, or leaves out", last);
	if (!walk->removed_damaged && n != header->removed_pages)
		report_list(walk, "has another number of pages than page 0 says, behind", last);
}
