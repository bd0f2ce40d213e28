/*-------------------------------------------------------------------------
 *
 * root.c
 *	  Whose the map of a root page is (SecureFiles paper, section 3.5, goes no
 *	  further than references to what was stored to be shared).
 *
 * A value with inode pages can be copied without its bytes though it is private: a copier and
 * a deleter (or editor) synchronise on the root page.  Each leaves a mark there, under the
 * lock of the page:
 *
 *	 none --own (pre-commit)--> OWNED --take--> TAKEN
 *									|
 *									+--share (share_records.c)--> SHARED: a record owns the map
 *
 * Invariants:
 *	 M1	a record takes over a map only where a row has it that has committed, and nobody
 *		else gives it up: OWNED of a transaction that has committed, or TAKEN of one that
 *		has failed;
 *	 M2	a transaction that gives up a map has marked it as TAKEN before, or found it SHARED,
 *		and then a reference is what the row loses.
 *
 * A transaction takes what it owns itself by removing the mark: whatever becomes of it, that
 * map is not to be shared.  Marks are not taken back by savepoints, which costs a copy its
 * bytes, at most.
 *
 * An OWNED mark of a transaction of which the commit log knows nothing any more is one of a
 * transaction that has committed: had it failed, its entries would have made a free page of
 * the root, and they keep the commit log until then.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "space/pages.h"
#include "space/share_records.h"
#include "storage/lmgr.h"

/* Marks name the top-level transaction, whose outcome decides, and not the current one. */
static uint64
top_fxid(void)
{
	return U64FromFullTransactionId(GetTopFullTransactionId());
}

/* The mark on a page, if it is that root; 0 if not. */
static uint64
mark_of(const void *content, SfRoot root)
{
	const SfInode *inode = content;
	uint64		mark;

	memcpy(&mark, (const char *) content + SF_MARK_OFFSET, sizeof(mark));
	if (inode->object_id != root.object_id || inode->stamp != root.stamp ||
		sf_format_mark_problem(mark) != NULL)
		return 0;
	return mark;
}

/* The mark of a root, as it was a moment ago. */
static uint64
read_mark(Relation rel, SfRoot root)
{
	char		content[SF_PAGE_CONTENT];

	return sfi_page_copy(rel, root.page, content) == SF_PAGE_INODE ? mark_of(content, root) : 0;
}

Buffer
sfi_root_lock(Relation rel, SfRoot root, uint64 mark)
{
	Buffer		buf = sfi_page_pin(rel, root.page);
	const SfInode *inode;

	SF_ASSERT(mark != 0 || root.page != 0);
	if (!BufferIsValid(buf))
		return InvalidBuffer;
	if (!sfi_page_lock_sound(rel, buf, SF_PAGE_INODE, BUFFER_LOCK_EXCLUSIVE))
	{
		ReleaseBuffer(buf);
		return InvalidBuffer;
	}
	inode = SfPageInode(BufferGetPage(buf));
	if (inode->object_id == root.object_id && inode->stamp == root.stamp &&
		mark_of(inode, root) == mark)
		return buf;
	UnlockReleaseBuffer(buf);
	return InvalidBuffer;
}

/* Change a mark; false: it is another one already. */
static bool
change_mark(Relation rel, SfRoot root, uint64 from, uint64 to)
{
	Buffer		buf = sfi_root_lock(rel, root, from);

	SF_ASSERT(sf_format_mark_problem(to) == NULL && from != to);
	if (!BufferIsValid(buf))
		return false;
	sfi_change_begin();
	sfi_change_op(sfi_change_add(buf), SF_OP_MARK, &to, sizeof(to));
	sfi_change_finish_pages(SF_PAGES_MARK, 0, 0);
	return true;
}

/* Does a mark name a transaction? */
static bool
names_transaction(uint64 mark)
{
	return sf_mark_kind(mark) == SF_MARK_OWNED || sf_mark_kind(mark) == SF_MARK_TAKEN;
}

/* The outcome of the transaction that a mark names. */
static SfTransactionEnd
end_of(uint64 mark)
{
	return sf_base_transaction_end(sf_mark_value(mark));
}

/* M1 */
static bool
may_be_shared(uint64 mark)
{
	SfTransactionEnd end;

	if (!names_transaction(mark))
		return false;
	end = end_of(mark);
	return sf_mark_kind(mark) == SF_MARK_TAKEN ? end == SF_END_ABORTED :
		end == SF_END_COMMITTED || end == SF_END_UNKNOWN;
}

bool
sfi_root_may_be_shared(Relation rel, SfRoot root, uint64 *mark)
{
	bool		may_be;

	*mark = read_mark(rel, root);
	may_be = may_be_shared(*mark) || SF_BREAKS(m1);
	SF_INVARIANT(M1, !may_be || may_be_shared(*mark));
	return may_be;
}

/*
 * What a mark becomes when a transaction takes the map; the same: it stays.  One that only
 * begins a version leaves the mark of another one that has begun and runs: that one, too,
 * counts on it.
 */
static uint64
taken(uint64 mark, bool gives_up)
{
	SfTransactionEnd end;
	uint64		fxid;

	if (!names_transaction(mark))
		return mark;
	fxid = top_fxid();
	if (sf_mark_value(mark) == fxid)
		return sf_mark_kind(mark) == SF_MARK_OWNED ? 0 : mark;
	end = end_of(mark);
	if (sf_mark_kind(mark) == SF_MARK_TAKEN && end != SF_END_ABORTED &&
		!(gives_up && end == SF_END_RUNNING))
		return mark;
	return sf_mark(SF_MARK_TAKEN, fxid);
}

/* The record that a mark names; page 0, and false: none. */
static bool
record_of(uint64 mark, SfRoot root, SfShareId *id)
{
	bool		is_shared = sf_mark_kind(mark) == SF_MARK_SHARED;

	SF_ASSERT(sf_format_mark_problem(mark) == NULL);
	*id = is_shared ? sf_mark_share_id(mark, root.object_id) : (SfShareId) {0};
	return is_shared;
}

bool
sf_space_root_record(SfSegment *seg, SfRoot root, SfShareId *id)
{
	Relation	rel = sfi_segment_rel(seg);
	uint64		mark = read_mark(rel, root);

	sfi_segment_close(rel);
	return record_of(mark, root, id);
}

void
sf_space_root_own(SfSegment *seg, SfRoot root)
{
	Relation	rel = sfi_segment_rel(seg);

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true) && !seg->retained);
	SF_FAULT(root_own);
	/* an earlier mark is right */
	if (read_mark(rel, root) == 0)
		(void) change_mark(rel, root, 0, sf_mark(SF_MARK_OWNED, top_fxid()));
	sfi_segment_close(rel);
}

bool
sf_space_root_take(SfSegment *seg, SfRoot root, bool gives_up, SfShareId *id)
{
	Relation	rel = sfi_segment_rel(seg);
	uint64		mark;
	uint64		next;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true) && !seg->retained);
	do
	{
		CHECK_FOR_INTERRUPTS();
		mark = read_mark(rel, root);
		next = SF_BREAKS(m2) ? mark : taken(mark, gives_up);
		SF_FAULT(root_take);
	} while (next != mark && !change_mark(rel, root, mark, next));
	SF_INVARIANT(M2, !gives_up || !may_be_shared(read_mark(rel, root)));
	sfi_segment_close(rel);
	return record_of(mark, root, id);
}
