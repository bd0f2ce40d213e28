/*-------------------------------------------------------------------------
 *
 * check_references.c
 *	  Live rows that refer to share records: are these there, and of the same object?
 *
 * A row's locator has the whole map, and is authenticated: it says what its record must
 * have.  So the record is compared with each row that refers to it; the space and the data
 * of the object are looked at for the first of these rows only, and stand for all.
 *
 * A record that is not there, or has another map, is a lost one: what the first row says of
 * it is kept, and a repair makes the record of it again, at its cell.  That is no reason not
 * to set free what nobody owns, since the row is sound, and so is what it owns.  Where rows
 * contradict each other, or there is no place for a record, nothing is mended, and each row
 * is taken for the owner of its space.
 *
 * A standby cannot keep its writer out, and a record may go before the rows that this check
 * sees are removed: what is lost there is not reported.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "check/check_shares.h"
#include "space/share_records.h"
#include "storage/bufmgr.h"

/* A record has two cells at least, so no two of them begin in one of these pairs. */
#define PAIRS	(SF_SHARE_CELLS / 2)

/* What is known of the records of a page. */
typedef struct PageFacts
{
	uint32		page;			/* key */
	SfCheckShare *pairs;
} PageFacts;

StaticAssertDecl(sizeof(SfCheckShare) == 16, "memory for each record");
StaticAssertDecl(offsetof(SfShareRecord, locator) + SF_LOCATOR_HEADER > SF_SHARE_CELL_SIZE,
				 "a record has two cells at least");

/* The pages that the segment relation has, or had before its end was lost. */
static uint32
page_limit(const SfCheck *check)
{
	Relation	rel = relation_open(check->seg->relid, NoLock);
	uint32		npages = RelationGetNumberOfBlocks(rel);

	relation_close(rel, NoLock);
	return Max(npages, check->header.next_page);
}

SfCheckShares *
sfi_check_shares_of(SfCheck *check)
{
	SfCheckShares *shares = check->shares;

	if (shares != NULL)
		return shares;
	shares = MemoryContextAllocZero(check->context, sizeof(SfCheckShares));
	shares->context = check->context;
	shares->pages = sf_base_table("securefile check shares", sizeof(uint32),
								  sizeof(PageFacts), check->context);
	shares->lost = sf_base_table("securefile check lost", sizeof(SfShareId),
								 sizeof(SfCheckLost), check->context);
	shares->read.page = SF_NO_PAGE;
	shares->limit = page_limit(check);
	check->shares = shares;
	return shares;
}

/* ---- what is known ---- */

SfCheckShare *
sfi_check_known(SfCheck *check, SfShareId id)
{
	PageFacts  *facts = check->shares == NULL ? NULL :
		hash_search(check->shares->pages, &id.page, HASH_FIND, NULL);

	SF_ASSERT(id.cell < SF_SHARE_CELLS);
	return facts == NULL ? NULL : &facts->pairs[id.cell / 2];
}

SfCheckShare *
sfi_check_note(SfCheck *check, SfShareId id)
{
	SfCheckShares *shares = sfi_check_shares_of(check);
	SfCheckShare *pairs;
	PageFacts  *facts;

	SF_ASSERT(sf_share_is_possible(id));
	if (sfi_check_known(check, id) == NULL)
	{
		pairs = MemoryContextAllocZero(shares->context, PAIRS * sizeof(SfCheckShare));
		facts = hash_search(shares->pages, &id.page, HASH_ENTER, NULL);
		facts->pairs = pairs;
	}
	return sfi_check_known(check, id);
}

/* ---- records ---- */

/* A page that cannot be read is one without records. */
const SfSharePage *
sfi_check_share_page(SfCheck *check, uint32 page)
{
	SfCheckPage *read = &sfi_check_shares_of(check)->read;

	if (read->page != page)
		(void) sfi_check_read_any(check, SF_REPAIR_UNREPORTED, page, read);
	return read->type == SF_PAGE_SHARE ? &read->u.share : NULL;
}

const SfShareRecord *
sfi_check_record(SfCheck *check, SfShareId id)
{
	const SfSharePage *page = sfi_check_share_page(check, id.page);
	const SfShareRecord *record = page == NULL ? NULL : sf_format_share_record(page, id.cell);

	return record != NULL && (uint16) record->object_id == id.low_id ? record : NULL;
}

/* Do two records stand for the same object, with the same map? */
static bool
is_same(const SfShareRecord *a, const SfShareRecord *b)
{
	return a->object_id == b->object_id && a->length_bytes == b->length_bytes &&
		a->key_id == b->key_id && a->locator_bytes == b->locator_bytes &&
		memcmp(a->locator, b->locator, a->locator_bytes) == 0;
}

/* ---- lost records ---- */

SfCheckLost *
sfi_check_lost(const SfCheck *check, SfShareId id)
{
	SfCheckLost *lost = NULL;

	if (check->shares != NULL && hash_get_num_entries(check->shares->lost) > 0)
		lost = hash_search(check->shares->lost, &id, HASH_FIND, NULL);
	return lost == NULL || lost->record == NULL ? NULL : lost;
}

/* The same, also of one of which no row says what it was; made if there is none. */
static SfCheckLost *
enter_lost(SfCheck *check, SfShareId id)
{
	bool		found;
	SfCheckLost *lost = hash_search(sfi_check_shares_of(check)->lost, &id, HASH_ENTER, &found);

	if (!found)
	{
		memset(&lost->share, 0, sizeof(lost->share));
		lost->record = NULL;
		lost->has_place = false;
	}
	return lost;
}

int
sfi_check_compare_ids(SfShareId a, SfShareId b)
{
	if (a.page != b.page)
		return a.page < b.page ? -1 : 1;
	return (int) a.cell - (int) b.cell;
}

/* For qsort(): by place, and those of one place by object. */
static int
compare_lost(const void *a, const void *b)
{
	const SfCheckLost *x = *(SfCheckLost *const *) a;
	const SfCheckLost *y = *(SfCheckLost *const *) b;
	int			by_place = sfi_check_compare_ids(x->id, y->id);

	return by_place != 0 ? by_place : (int) x->id.low_id - (int) y->id.low_id;
}

SfCheckLost **
sfi_check_all_lost(const SfCheck *check, int64 *n)
{
	int64		size = check->shares == NULL ? 0 : hash_get_num_entries(check->shares->lost);
	SfCheckLost **all = palloc_extended((size + 1) * sizeof(SfCheckLost *), MCXT_ALLOC_HUGE);
	HASH_SEQ_STATUS status;
	SfCheckLost *lost;

	*n = 0;
	if (size == 0)
		return all;
	hash_seq_init(&status, check->shares->lost);
	while ((lost = hash_seq_search(&status)) != NULL)
		if (lost->record != NULL)
			all[(*n)++] = lost;
	SF_ASSERT(*n <= size);
	qsort(all, *n, sizeof(SfCheckLost *), compare_lost);
	return all;
}

/* Note that a row refers to a lost record. */
static void
note_lost_row(SfCheck *check, const SfCheckLost *lost, bool is_other_map)
{
	SfCheckShares *shares = check->shares;

	SF_ASSERT(ItemPointerIsValid(&check->tid) && !check->moving);
	shares->lost_rows = sf_base_array_grow(shares->lost_rows, shares->nlost_rows,
										   &shares->lost_rows_size, sizeof(SfCheckLostRow),
										   shares->context);
	shares->lost_rows[shares->nlost_rows++] = (SfCheckLostRow) {lost, check->tid, is_other_map};
}

/* May a page, which was looked at, be made a share page?  Not if it is somebody's. */
static bool
can_be_share_page(const SfCheckShares *shares)
{
	SfPageType	type = shares->read.type;

	/* 0: it is empty, damaged, or none of a segment */
	return shares->read.page < shares->limit &&
		(type == 0 || type == SF_PAGE_SHARE || type == SF_PAGE_PENDING || type == SF_PAGE_FREE);
}

/* Note what a row says of a record that is lost; NULL: another row says something else. */
static SfCheckLost *
note_lost(SfCheck *check, SfShareId id, const SfShareRecord *wanted)
{
	SfCheckLost *lost = enter_lost(check, id);
	uint32		size = sf_share_record_size(wanted);

	SF_ASSERT(wanted->references == 0 && (uint16) wanted->object_id == id.low_id);
	if (lost->record != NULL)
		return is_same(lost->record, wanted) ? lost : NULL;
	lost->record = MemoryContextAlloc(check->shares->context, size);
	memcpy(lost->record, wanted, size);
	return lost;
}

/*
 * Note a reference to a record that is not there (record NULL), or has another map.  A
 * repair makes it anew, if there is room (lost.c); where other rows would have it otherwise it
 * does not, and that is reported here.
 */
static SfCheckShare *
refer_to_lost(SfCheck *check, SfShareId id, const SfShareRecord *record,
			  const SfShareRecord *wanted)
{
	const SfCheckShare *known = sfi_check_known(check, id);

	/* the same object, so that rows that fit the record may be there, too */
	bool		is_other_map = record != NULL && record->object_id == wanted->object_id;
	SfCheckLost *lost = NULL;

	if (can_be_share_page(check->shares) && !(is_other_map && known != NULL && known->rows > 0))
		lost = note_lost(check, id, wanted);
	if (lost != NULL && !check->moving)
		note_lost_row(check, lost, is_other_map);
	else if (!check->moving)
		sfi_check_report_as(check, SF_REPAIR_NONE,
							is_other_map ? SF_FINDING_OTHER_MAP : SF_FINDING_NO_RECORD,
							&check->tid, 0, 0, "cell %u of page %u %s object " UINT64_FORMAT ": "
							SF_STORE_AGAIN, id.cell, id.page,
							is_other_map ? "has another map of" : "has no share record of",
							wanted->object_id);
	return lost == NULL ? NULL : &lost->share;
}

/* ---- references ---- */

/*
 * Report a reference to a record which is as the row says, while another row of the same
 * object says something else.
 */
static void
report_quarrel(SfCheck *check, SfShareId id)
{
	sfi_check_report_as(check, SF_REPAIR_NONE, SF_FINDING_OTHER_MAP, &check->tid, 0, 0,
						"rows have two maps of the object in cell %u of page %u", id.cell,
						id.page);
}

SfCheckShare *
sfi_check_reference(SfCheck *check, const SfLocator *loc, SfShareId id)
{
	const SfShareRecord *record = sfi_check_record(check, id);
	SfCheckShare *share;
	SfShareCopy wanted;

	SF_ASSERT(ItemPointerIsValid(&check->tid));
	if (!sf_object_share_record(loc, &wanted))
		elog(ERROR, "locator of object " UINT64_FORMAT " is too long", loc->object_id);
	if (record != NULL && is_same(record, &wanted.record))
	{
		share = sfi_check_note(check, id);
		if (sfi_check_lost(check, id) != NULL)
			report_quarrel(check, id);
	}
	else
		share = refer_to_lost(check, id, record, &wanted.record);
	if (share != NULL && share->rows++ == 0)
		share->tid = check->tid;
	return share;
}

/*
 * Where the record is lost, the map of its object is: other rows may have it, and this one
 * is counted with what they say.
 */
bool
sfi_check_based(SfCheck *check, const SfLocator *loc, SfShareVersion *shared)
{
	SfShareId	id = sf_share_id_of(loc);
	const SfShareRecord *record = sfi_check_record(check, id);
	bool		is_there = record != NULL && record->object_id == loc->object_id;
	SfCheckShare *share;

	SF_ASSERT(ItemPointerIsValid(&check->tid) && (loc->share.flags & SF_SHARE_BASED));
	share = is_there ? sfi_check_note(check, id) : &enter_lost(check, id)->share;
	check->shares->has_based = true;
	if (share->rows++ == 0)
		share->tid = check->tid;
	if (is_there)
		sf_object_share_version(check->seg, record, shared);
	else if (!check->moving)
		sfi_check_report_as(check, SF_REPAIR_NONE, SF_FINDING_NO_RECORD, &check->tid, 0, 0,
							"cell %u of page %u has no share record of object " UINT64_FORMAT
							", of which the row has a changed version: if a repair does not make it again, "
							SF_STORE_AGAIN,
							id.cell, id.page, loc->object_id);
	return is_there;
}

/* The place is told with the first row; of the data it is the same. */
void
sfi_check_report_again(SfCheck *check, const SfCheckShare *share)
{
	SF_ASSERT((share->facts & SF_FACT_DAMAGED) && share->rows > 1);
	sfi_check_report_as(check, SF_REPAIR_NONE, share->finding, &check->tid, 0, 0,
						"the value is that of row (%u,%u)",
						ItemPointerGetBlockNumberNoCheck(&share->tid),
						ItemPointerGetOffsetNumberNoCheck(&share->tid));
}
