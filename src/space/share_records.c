/*-------------------------------------------------------------------------
 *
 * share_records.c
 *	  Share records: objects whose space no row owns, with the number of their
 *	  references (SecureFiles paper, section 3.5, "deduplication").
 *
 * A record is made by the transaction that stores an object, is counted up by those that
 * find it, and down by the resolver only (references.c):
 *
 *	 RESERVED --publish (pre-commit)--> NEW --its transaction has committed--> LIVE
 *		 |								 |										 |
 *		 +-- it has not, or no row kept it: the cells are free					 |
 *										 +------- no reference is left ----------+--> DEAD
 *
 * The functions that perform each transition, those of the resolver in references.c:
 *
 *	 (free) -> RESERVED			sf_space_share_put()
 *	 (free) -> LIVE				sf_space_share_root(), see below
 *	 RESERVED -> NEW			sf_space_share_publish()
 *	 NEW -> LIVE				end_new()
 *	 RESERVED, NEW -> (free)	end_new(): the transaction failed, or has left it RESERVED
 *	 NEW, LIVE -> DEAD			let_die(), in the record that lowers the count to 0
 *	 DEAD -> (free)				clear_record(), in the record with the last of its FREE entries
 *	 count + n, - n				sf_space_share_refer() of NEW and LIVE, count_down()
 *
 * securefile_repair() alone puts records as it judges them (sf_space_repair_page()).
 *
 * Invariants:
 *	 D1	a transaction refers to a record only after it has incremented its count, under its
 *		page's lock, while it was LIVE, or NEW and its transaction known to have committed;
 *	 D2	a count is lowered only by the resolver, in the record that takes out the entry
 *		that asks for it;
 *	 D3	DEAD is final.
 *
 * A record can also take over the map of a value that a row has, which is to be copied
 * without its bytes: it is LIVE at once, whatever becomes of the copying transaction, with
 * one reference for that row (root.c).
 *
 * A reference is counted by a record of its own before a row can have it, with an entry
 * that takes the count back should the transaction fail.  So nobody waits for anybody's
 * transaction: the locks here are those of two pages, for a moment.
 *
 * Share pages form a list, new ones at its head, and stay share pages.  A process goes on
 * where it found room last; without such a hint it looks at some pages from the head on.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/reserve.h"
#include "space/share_records.h"
#include "storage/lmgr.h"

/* Pages that are looked at for room before a new one is made. */
#define LOOK_AT_PAGES	8

/* The page that had room last. */
static struct
{
	SfStorage	storage;
	uint32		page;			/* 0: none */
}			hint;

static uint64
assigned_fxid(void)
{
	(void) GetCurrentTransactionId();
	return U64FromFullTransactionId(GetTopFullTransactionId());
}

/* The low half-word of an object id, which entries name with a record. */
static SfShareId
id_of(uint32 page, int cell, uint64 object_id)
{
	return (SfShareId) {page, (uint16) cell, (uint16) object_id};
}

/* The record of that object, on a page that is locked; NULL: there is none. */
static const SfShareRecord *
record_on(Buffer buf, SfShareId id, uint64 object_id)
{
	const SfShareRecord *record = sf_format_share_record(SfPageShare(BufferGetPage(buf)), id.cell);

	return record != NULL && record->object_id == object_id ? record : NULL;
}

bool
sf_space_share_read(SfSegment *seg, SfShareId id, SfShareCopy *copy)
{
	char		content[SF_PAGE_CONTENT];
	const SfShareRecord *record;

	if (!sf_share_is_possible(id) || sf_space_read_page(seg, id.page, content) != SF_PAGE_SHARE)
		return false;
	record = sf_format_share_record((SfSharePage *) content, id.cell);
	if (record == NULL)
		return false;
	memcpy(copy->bytes, record, sf_share_record_size(record));
	return true;
}

/* ---- a new record ---- */

/* The first of n free cells of a page, or -1; the page is of the list, and sound. */
static int
free_cells_of(Relation rel, uint32 page, uint32 n, uint32 *next)
{
	Buffer		buf = sfi_page_read(rel, page, SF_PAGE_SHARE, BUFFER_LOCK_SHARE);
	const SfSharePage *share = SfPageShare(BufferGetPage(buf));
	int			cell = sf_format_share_find_free(share, n);

	SF_ASSERT(n > 0 && n <= SF_SHARE_CELLS);
	*next = share->next;
	UnlockReleaseBuffer(buf);
	return cell;
}

/* The page that had room last, if that was one of the segment; 0: not so. */
static uint32
hinted_page(const SfSegment *seg)
{
	return SfStorageEquals(hint.storage, seg->storage) ? hint.page : 0;
}

/*
 * A page that had room for n cells when it was looked at; 0: none was found.  What is
 * read here is in memory when it is locked for good, with others waiting.
 */
static uint32
find_page(SfSegment *seg, Relation rel, uint32 n)
{
	uint32		page = SF_NO_PAGE;
	uint32		next;

	if (hinted_page(seg) != 0 && free_cells_of(rel, hint.page, n, &page) >= 0)
		return hint.page;
	if (page == SF_NO_PAGE)
		page = sfi_header(rel).share_head;
	for (int i = 0; i < LOOK_AT_PAGES && page != 0 && page != SF_NO_PAGE; i++, page = next)
		if (free_cells_of(rel, page, n, &next) >= 0)
			return page;
	return 0;
}

/* An entry of this transaction, to stand in the record that makes or counts a share record. */
static SfPendEntry
entry_of(SfPendKind kind, SfShareId id, uint32 count)
{
	return sfi_pending_entry(kind, assigned_fxid(), sf_share_to_start(id), count);
}

/* A record that is to be put somewhere. */
typedef struct Putting
{
	const SfShareCopy *copy;
	const SfRoot *root;			/* whose map it takes over, or NULL */
	uint64		mark;			/* that the root has */
} Putting;

/* What the queue has to know of it. */
static SfPendKind
entry_kind(const Putting *putting)
{
	return putting->root == NULL ? SF_PEND_SHARE_NEW : SF_PEND_REF_ADD;
}

/* Lock the root page, if there is one; false: it has another mark now. */
static bool
lock_root(Relation rel, const Putting *putting, Buffer *buf)
{
	*buf = putting->root == NULL ? InvalidBuffer :
		sfi_root_lock(rel, *putting->root, putting->mark);
	return putting->root == NULL || BufferIsValid(*buf);
}

/* Add to a change that the record owns the map of the root. */
static void
add_root(Buffer buf, SfShareId id)
{
	uint64		mark = sf_mark_of_share(id);

	if (BufferIsValid(buf))
		sfi_change_op(sfi_change_add(buf), SF_OP_MARK, &mark, sizeof(mark));
}

/*
 * Put a record on a page that is there; false: there is no room any more, or the root has
 * another mark.
 */
static bool
put_on_page(Relation rel, uint32 page, const Putting *putting, SfShareId *id)
{
	const SfShareCopy *copy = putting->copy;
	uint32		size = sf_share_record_size(&copy->record);
	Buffer		root;
	struct
	{
		SfSharePut	put;
		uint8		bytes[SF_SHARE_RECORD_MAX];
	}			payload = {{0}};
	Buffer		tail = sfi_pending_lock_tail(rel, 1, BUFFER_LOCK_SHARE, NULL);
	Buffer		buf = sfi_page_read(rel, page, SF_PAGE_SHARE, BUFFER_LOCK_EXCLUSIVE);
	int			cell = sf_format_share_find_free(SfPageShare(BufferGetPage(buf)),
												 sf_share_cells_of(size));
	SfPendEntry entry;

	if (cell < 0 || !lock_root(rel, putting, &root))
	{
		UnlockReleaseBuffer(buf);
		UnlockReleaseBuffer(tail);
		return false;
	}
	SF_ASSERT(cell < SF_SHARE_CELLS && sf_share_is_possible((SfShareId) {page, cell, 0}));
	*id = id_of(page, cell, copy->record.object_id);
	entry = entry_of(entry_kind(putting), *id, 1);
	payload.put.cell = cell;
	memcpy(payload.bytes, copy->bytes, size);
	sfi_change_begin();
	sfi_change_op(sfi_change_add(tail), SF_OP_PEND_ADD, &entry, sizeof(entry));
	sfi_change_op(sfi_change_add(buf), SF_OP_SHARE_PUT, &payload, sizeof(payload.put) + size);
	add_root(root, *id);
	sfi_change_finish_pages(SF_PAGES_SHARE, entry_kind(putting), 1);
	return true;
}

/*
 * Put a record on a new page, which becomes the head of the list; false: the root has another
 * mark.
 */
static bool
put_on_new_page(SfSegment *seg, Relation rel, const Putting *putting, SfShareId *id)
{
	const SfShareCopy *copy = putting->copy;
	SfSharePage *content = palloc0(sizeof(SfSharePage));
	Buffer		root;
	Buffer		hbuf;
	Buffer		tail;
	Buffer		buf;
	SfHeader	h;
	SfPendEntry entry;

	sfi_grow_first(seg, rel);
	tail = sfi_pending_lock_tail(rel, 1, BUFFER_LOCK_EXCLUSIVE, &hbuf);
	h = *SfPageHeader(BufferGetPage(hbuf));
	buf = sfi_pending_take_page(rel, &h);
	if (!lock_root(rel, putting, &root))
	{
		UnlockReleaseBuffer(buf);
		UnlockReleaseBuffer(tail);
		UnlockReleaseBuffer(hbuf);
		pfree(content);
		return false;
	}
	*id = id_of(BufferGetBlockNumber(buf), 0, copy->record.object_id);
	SF_ASSERT(id->page != h.share_head && !SF_IS_MAP_PAGE(id->page));
	content->next = h.share_head == 0 ? SF_NO_PAGE : h.share_head;
	sf_format_share_put(content, 0, copy->bytes, sf_share_record_size(&copy->record));
	h.share_head = id->page;
	entry = entry_of(entry_kind(putting), *id, 1);
	sfi_change_begin_header(hbuf, &h);
	sfi_change_op(sfi_change_add(tail), SF_OP_PEND_ADD, &entry, sizeof(entry));
	/* zeros behind the record are not logged */
	sfi_change_init(sfi_change_add(buf), SF_PAGE_SHARE, content,
					offsetof(SfSharePage, cells) + sf_share_record_size(&copy->record));
	add_root(root, *id);
	sfi_change_finish_pages(SF_PAGES_SHARE, entry_kind(putting), 1);
	pfree(content);
	return true;
}

/* Put a record where there is room; false: the root has another mark. */
static bool
put(SfSegment *seg, Relation rel, const Putting *putting, SfShareId *id)
{
	uint32		size = sf_share_record_size(&putting->copy->record);
	uint32		page;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true) && !seg->retained);
	SF_ASSERT(sf_format_share_problem(&putting->copy->record, size) == NULL);
	SF_ASSERT(putting->copy->record.maker_fxid == assigned_fxid());
	page = hinted_page(seg);
	if (page == 0 || !put_on_page(rel, page, putting, id))
	{
		page = find_page(seg, rel, sf_share_cells_of(size));
		if ((page == 0 || !put_on_page(rel, page, putting, id)) &&
			!put_on_new_page(seg, rel, putting, id))
			return false;
	}
	hint.storage = seg->storage;
	hint.page = id->page;
	return true;
}

SfShareId
sf_space_share_put(SfSegment *seg, const SfShareCopy *copy)
{
	Relation	rel = sfi_segment_rel(seg);
	const Putting putting = {.copy = copy};
	SfShareId	id;

	SF_ASSERT(copy->record.state == SF_SHARE_RESERVED && copy->record.references == 0);
	SF_FAULT(share_before_new);
	(void) put(seg, rel, &putting, &id);
	SF_FAULT(share_after_new);
	sfi_segment_close(rel);
	return id;
}

bool
sf_space_share_root(SfSegment *seg, SfRoot root, const SfShareCopy *copy, SfShareId *id)
{
	Relation	rel = sfi_segment_rel(seg);
	Putting		putting = {copy, &root};
	bool		done;

	SF_ASSERT(copy->record.state == SF_SHARE_LIVE && copy->record.references == 2);
	done = sfi_root_may_be_shared(rel, root, &putting.mark);
	SF_FAULT(share_root);
	done = done && put(seg, rel, &putting, id);
	sfi_segment_close(rel);
	return done;
}

/* ---- counting up ---- */

/*
 * D1.  A maker's outcome is asked of a copy, with no page locked: the commit log may have to
 * be read.  Under the lock it is enough that the state is one of these two still, for NEW of
 * the same object has the same maker.
 */
static bool
may_refer(const SfShareRecord *record)
{
	return record->state == SF_SHARE_LIVE ||
		(record->state == SF_SHARE_NEW &&
		 sf_base_transaction_end(record->maker_fxid) == SF_END_COMMITTED);
}

/* What is left to be asked under the lock. */
static bool
is_referable(const SfShareRecord *record)
{
	return record->state == SF_SHARE_LIVE || record->state == SF_SHARE_NEW;
}

/* Change count and state of a record of a locked page. */
static void
add_set(Buffer buf, SfShareId id, SfShareState state, uint32 references)
{
	const SfShareSet set = {id.cell, state, references};

	sfi_change_op(sfi_change_add(buf), SF_OP_SHARE_SET, &set, sizeof(set));
}

bool
sf_space_share_refer(SfSegment *seg, SfShareId id, uint64 object_id, uint32 n)
{
	Relation	rel;
	SfShareCopy copy;
	SfPendEntry entry;
	const SfShareRecord *record;
	Buffer		tail;
	Buffer		buf;

	SF_ASSERT(n > 0 && !seg->retained);
	if (!sf_space_share_read(seg, id, &copy) || copy.record.object_id != object_id ||
		(!may_refer(&copy.record) && !SF_BREAKS(d1)))
		return false;
	rel = sfi_segment_rel(seg);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	id.low_id = (uint16) object_id;
	entry = entry_of(SF_PEND_REF_ADD, id, n);
	tail = sfi_pending_lock_tail(rel, 1, BUFFER_LOCK_SHARE, NULL);
	buf = sfi_page_read(rel, id.page, SF_PAGE_SHARE, BUFFER_LOCK_EXCLUSIVE);
	record = record_on(buf, id, object_id);
	if (record == NULL || (!is_referable(record) && !SF_BREAKS(d1)) ||
		record->references > PG_UINT32_MAX - n)
	{
		UnlockReleaseBuffer(buf);
		UnlockReleaseBuffer(tail);
		sfi_segment_close(rel);
		return false;
	}
	SF_INVARIANT(D1, is_referable(record) && record->maker_fxid == copy.record.maker_fxid);
	sfi_change_begin();
	sfi_change_op(sfi_change_add(tail), SF_OP_PEND_ADD, &entry, sizeof(entry));
	add_set(buf, id, record->state, record->references + n);
	sfi_change_finish_pages(SF_PAGES_SHARE, SF_PEND_REF_ADD, 1);
	sfi_segment_close(rel);
	return true;
}

void
sf_space_share_publish(SfSegment *seg, SfShareId id, uint64 object_id, uint32 n)
{
	Relation	rel = sfi_segment_rel(seg);
	Buffer		buf = sfi_page_read(rel, id.page, SF_PAGE_SHARE, BUFFER_LOCK_EXCLUSIVE);
	const SfShareRecord *record = record_on(buf, id, object_id);

	SF_ASSERT(n > 0 && CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	if (record == NULL || record->state != SF_SHARE_RESERVED ||
		record->maker_fxid != assigned_fxid())
		sfi_page_report_damaged(rel, id.page,
								psprintf("Cell %u is not what this transaction left there.",
										 id.cell));
	sfi_change_begin();
	add_set(buf, id, SF_SHARE_NEW, n);
	sfi_change_finish_pages(SF_PAGES_SHARE, 0, 0);
	sfi_segment_close(rel);
}
