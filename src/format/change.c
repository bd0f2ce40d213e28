/*-------------------------------------------------------------------------
 *
 * change.c
 *	  Changes of pages, as WAL records carry them: may they be applied, and how.
 *
 * A record's checksum tells that it is what was written.  Redo still goes by
 * nothing that it has not looked at: what it writes to are shared buffers.
 *
 * Two passes, and why. sf_format_ops_problem() goes through a whole list and keeps
 * account of what the operations would do to the page (its type, the number of its
 * entries).  Only when all of the list is sound is the first one applied: a page is
 * changed whole or not at all, and applying cannot fail, so it can be done in a critical
 * section.
 *
 * The same function applies an operation when it is made (space/page_change.c) and when it is
 * replayed: the page after a crash is what it was before, by construction.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/change.h"
#include "format/dictionary.h"
#include "format/removed.h"
#include "format/share.h"

/* ---- may they be applied ---- */

/* A page while the operations of a list are looked at. */
typedef struct Look
{
	SfPageType	type;
	uint32_t	nentries;		/* of a pending page */
	uint32_t	nbytes;			/* of records of removed values */
	const void *content;		/* of the page, before the list; NULL: the
								 * list makes it */
} Look;

/*
 * The fixed part of the contents of a page, which is as much as
 * sf_format_page_problem() looks at.  No page has more of it than a header.
 */
typedef union FixedPart
{
	SfHeader	header;
	SfPending	pending;
	SfDictionaryPage dictionary;
	SfRemovedPage removed;
	uint8_t		bytes[sizeof(SfHeader)];
} FixedPart;

/* The operation that makes a page; what its contents leave out is 0 on the page, too. */
static const char *
init_problem(Look *look, SfOp op)
{
	uint32_t	type;
	FixedPart	fixed = {{0}};

	if (op.len < sizeof(type) || op.len - sizeof(type) > SF_PAGE_CONTENT)
		return "contents of a new page have an impossible length";
	memcpy(&type, op.payload, sizeof(type));
	op.payload += sizeof(type);
	op.len -= sizeof(type);
	memcpy(fixed.bytes, op.payload, op.len < sizeof(fixed) ? op.len : sizeof(fixed));
	look->type = (SfPageType) type;
	/* What follows in the list applies to the page that this operation makes. */
	look->nentries = type == SF_PAGE_PENDING ? fixed.pending.nentries : 0;
	look->nbytes = type == SF_PAGE_REMOVED ? fixed.removed.nbytes : 0;
	look->content = NULL;
	return sf_format_page_problem(look->type, &fixed);
}

/* A new header. */
static const char *
header_op_problem(Look *look, SfOp op)
{
	FixedPart	fixed = {{0}};

	memcpy(&fixed.header, op.payload, op.len);
	return sf_format_page_problem(look->type, &fixed);
}

/* A range of a space map ends on its page. */
static const char *
range_problem(Look *look, SfOp op)
{
	SfMapRange	range;

	memcpy(&range, op.payload, sizeof(range));
	return (uint32_t) range.first + range.count_minus_1 < SF_MAP_SECTORS ? NULL :
		"range of the space map leaves its page";
}

/*
 * Entries to be added: there is room for them, behind what the operations before have
 * left, and each of them is one that the resolver can go by.
 */
static const char *
add_problem(Look *look, SfOp op)
{
	uint32_t	n = op.len / sizeof(SfPendEntry);

	if (n == 0 || op.len % sizeof(SfPendEntry) != 0)
		return "pending entries have an impossible length";
	/* Counted before the entries are looked at: a list may add twice. */
	look->nentries += n;
	if (look->nentries > SF_PENDING_MAX)
		return "more pending entries than fit their page";
	for (uint32_t i = 0; i < n; i++)
	{
		SfPendEntry entry;
		const char *problem;

		memcpy(&entry, op.payload + i * sizeof(entry), sizeof(entry));
		problem = sf_format_entry_problem(&entry);
		if (problem != NULL)
			return problem;
	}
	return NULL;
}

/* The same, of entries that come to a history page. */
static const char *
kept_problem(Look *look, SfOp op)
{
	if (op.len <= sizeof(SfPendKept))
		return "pending entries have an impossible length";
	op.len -= sizeof(SfPendKept);
	op.payload += sizeof(SfPendKept);
	return add_problem(look, op);
}

/* Records of removed values to be added: there is room for them, and each of them can be. */
static const char *
removed_add_problem(Look *look, SfOp op)
{
	look->nbytes += op.len;
	return look->nbytes > SF_REMOVED_ROOM ? "more records of removed values than fit their page" :
		sf_format_removed_problem(op.payload, op.len);
}

/* Outcomes of chunks: one may begin at each of these places. */
static const char *
removed_states_problem(Look *look, SfOp op)
{
	if (op.len == 0 || op.len % sizeof(SfRemovedState) != 0)
		return "outcomes of removed values have an impossible length";
	for (size_t at = 0; at < op.len; at += sizeof(SfRemovedState))
	{
		SfRemovedState state;

		memcpy(&state, op.payload + at, sizeof(state));
		if (state.offset % 8 != 0 || state.offset + sizeof(SfRemovedChunk) > look->nbytes ||
			state.outcome > SF_REMOVED_WIPED)
			return "outcome of a removed value cannot be";
	}
	return NULL;
}

/* Records whose space is not kept any more: each of them is one of the page. */
static const char *
removed_ended_problem(Look *look, SfOp op)
{
	uint32_t	n = op.len / sizeof(uint16_t);

	if (n == 0 || op.len % sizeof(uint16_t) != 0)
		return "places of removed values have an impossible length";
	for (uint32_t i = 0; i < n; i++)
	{
		uint16_t	offset;

		memcpy(&offset, op.payload + i * sizeof(offset), sizeof(offset));
		if (offset < sizeof(SfRemovedChunk) || offset >= look->nbytes)
			return "place of a removed value is not one";
	}
	return NULL;
}

/*
 * Places of entries; of those to be removed each one once, in order. pend_remove() goes
 * through entries and places side by side, so it needs the order.
 */
static const char *
indexes_problem(Look *look, SfOp op)
{
	uint32_t	n = op.len / sizeof(uint16_t);
	int32_t		last = -1;

	if (n == 0 || op.len % sizeof(uint16_t) != 0)
		return "places of pending entries have an impossible length";
	for (uint32_t i = 0; i < n; i++)
	{
		uint16_t	index;

		memcpy(&index, op.payload + i * sizeof(index), sizeof(index));
		if (index >= look->nentries || (int32_t) index <= last)
			return "place of a pending entry is not one";
		last = index;
	}
	if (op.code == SF_OP_PEND_REMOVE)
		look->nentries -= n;
	return NULL;
}

/* A share record, whose cells lie on the page. */
static const char *
share_put_problem(Look *look, SfOp op)
{
	SfSharePut	put;
	union
	{
		SfShareRecord record;
		uint8_t		bytes[SF_SHARE_RECORD_MAX];
	}			copy;
	size_t		len = op.len - sizeof(put);

	if (op.len <= sizeof(put) || len > sizeof(copy))
		return "share record has an impossible length";
	memcpy(&put, op.payload, sizeof(put));
	memcpy(copy.bytes, op.payload + sizeof(put), len);
	if (put.cell + sf_share_cells_of((uint32_t) len) > SF_SHARE_CELLS)
		return "share record leaves its page";
	return len < sizeof(SfShareRecord) ? "share record has an impossible length"
		: sf_format_share_problem(&copy.record, len);
}

/* The state and the number of references of a record that is there. */
static const char *
share_set_problem(Look *look, SfOp op)
{
	SfShareSet	set;

	memcpy(&set, op.payload, sizeof(set));
	if (set.state < SF_SHARE_RESERVED || set.state > SF_SHARE_DEAD)
		return "share record has an unknown state";
	return look->content != NULL && sf_format_share_record(look->content, set.cell) != NULL ?
		NULL : "there is no share record to be changed";
}

static const char *
share_clear_problem(Look *look, SfOp op)
{
	SfShareClear clear;

	memcpy(&clear, op.payload, sizeof(clear));
	return clear.ncells > 0 && clear.cell + clear.ncells <= SF_SHARE_CELLS ? NULL :
		"cells of a share record leave their page";
}

/* An entry that takes the place of one that is there. */
static const char *
pend_put_problem(Look *look, SfOp op)
{
	SfPendPut	put;

	memcpy(&put, op.payload, sizeof(put));
	if (put.index >= look->nentries)
		return "place of a pending entry is not one";
	return sf_format_entry_problem(&put.entry);
}

static const char *
mark_problem(Look *look, SfOp op)
{
	uint64_t	mark;

	memcpy(&mark, op.payload, sizeof(mark));
	return sf_format_mark_problem(mark);
}

static const char *
advice_problem(Look *look, SfOp op)
{
	return look->content == NULL ? "advice is changed on a page that is made new" :
		sf_format_advice_op_problem(look->content, op);
}

/* What is to be known of a kind of operation. */
typedef struct OpKind
{
	SfPageType	type;			/* of the page, which is there */
	size_t		len;			/* of the payload; 0: problem() asks */
	const char *other_len;		/* what is wrong if it has another length */
	const char *(*problem) (Look *look, SfOp op);	/* else; or NULL */
} OpKind;

/* All but SF_OP_INIT. */
static const OpKind op_kinds[] = {
	[SF_OP_HEADER] = {SF_PAGE_HEADER, sizeof(SfHeader),
		"segment header has an impossible length", header_op_problem},
	[SF_OP_MAP_SET] = {SF_PAGE_MAP, sizeof(SfMapRange),
		"range of the space map has an impossible length", range_problem},
	[SF_OP_MAP_CLEAR] = {SF_PAGE_MAP, sizeof(SfMapRange),
		"range of the space map has an impossible length", range_problem},
	[SF_OP_PEND_ADD] = {SF_PAGE_PENDING, .problem = add_problem},
	[SF_OP_PEND_REMOVE] = {SF_PAGE_PENDING, .problem = indexes_problem},
	[SF_OP_PEND_COMMITTED] = {SF_PAGE_PENDING, .problem = indexes_problem},
	[SF_OP_PEND_NEXT] = {SF_PAGE_PENDING, sizeof(uint32_t),
		"number of the next pending page has an impossible length", NULL},
	[SF_OP_SHARE_PUT] = {SF_PAGE_SHARE, .problem = share_put_problem},
	[SF_OP_SHARE_SET] = {SF_PAGE_SHARE, sizeof(SfShareSet),
		"change of a share record has an impossible length", share_set_problem},
	[SF_OP_SHARE_CLEAR] = {SF_PAGE_SHARE, sizeof(SfShareClear),
		"cells of a share record have an impossible length", share_clear_problem},
	[SF_OP_PEND_PUT] = {SF_PAGE_PENDING, sizeof(SfPendPut),
		"pending entry has an impossible length", pend_put_problem},
	[SF_OP_ADVICE_ADD] = {SF_PAGE_ADVICE_BUCKET, sizeof(SfAdvice),
		"entry of advice has an impossible length", advice_problem},
	[SF_OP_ADVICE_REMOVE] = {SF_PAGE_ADVICE_BUCKET, sizeof(SfAdvice),
		"entry of advice has an impossible length", advice_problem},
	[SF_OP_ADVICE_SPLIT] = {SF_PAGE_ADVICE_BUCKET, sizeof(uint32_t),
		"split of a bucket of advice has an impossible length", advice_problem},
	[SF_OP_MARK] = {SF_PAGE_INODE, sizeof(uint64_t),
		"owner's mark has an impossible length", mark_problem},
	[SF_OP_PEND_KEPT] = {SF_PAGE_PENDING, .problem = kept_problem},
	[SF_OP_REMOVED_ADD] = {SF_PAGE_REMOVED, .problem = removed_add_problem},
	[SF_OP_REMOVED_STATES] = {SF_PAGE_REMOVED, .problem = removed_states_problem},
	[SF_OP_REMOVED_NEXT] = {SF_PAGE_REMOVED, sizeof(uint32_t),
		"number of the next page of removed values has an impossible length", NULL},
	[SF_OP_REMOVED_ENDED] = {SF_PAGE_REMOVED, .problem = removed_ended_problem},
};

/*
 * One operation: it is of a known kind, for a page of this type, and its payload is
 * sound.  Codes come from a record: one without a row is of a later version.
 */
static const char *
op_problem(Look *look, SfOp op)
{
	if (op.code == SF_OP_INIT)
		return init_problem(look, op);
	if (op.code >= sizeof(op_kinds) / sizeof(op_kinds[0]) || op_kinds[op.code].type == 0)
		return "change of an unknown kind";
	if (op_kinds[op.code].type != look->type)
		return "change of a page of another type";
	if (op_kinds[op.code].len > 0 && op_kinds[op.code].len != op.len)
		return op_kinds[op.code].other_len;
	return op_kinds[op.code].problem == NULL ? NULL : op_kinds[op.code].problem(look, op);
}

SfOp
sf_format_op_next(const uint8_t **ops)
{
	SfOpHeader	head;
	SfOp		op;

	memcpy(&head, *ops, sizeof(head));
	op.code = (SfOpCode) head.code;
	op.len = head.len;
	op.payload = *ops + sizeof(head);
	*ops = op.payload + op.len;
	return op;
}

const char *
sf_format_ops_problem(SfPageType type, const void *content, const uint8_t *ops, size_t len)
{
	const uint8_t *end = ops + len;
	const char *problem = NULL;
	Look		look = {.type = type, .content = content};

	/*
	 * Operations depend on how many entries there are on a pending page, or
	 * in a bucket of the advice, and how many records of removed values.
	 */
	if (type == SF_PAGE_PENDING)
		look.nentries = ((const SfPending *) content)->nentries;
	if (type == SF_PAGE_REMOVED)
		look.nbytes = ((const SfRemovedPage *) content)->nbytes;
	if (type == SF_PAGE_PENDING || type == SF_PAGE_ADVICE_BUCKET || type == SF_PAGE_REMOVED)
		problem = sf_format_page_problem(type, content);
	while (ops < end && problem == NULL)
	{
		size_t		left = end - ops;
		SfOpHeader	head;

		/*
		 * Head, then payload: neither is looked at before it is known to lie
		 * within the list.
		 */
		if (left < sizeof(head))
			return "list of changes is cut off";
		memcpy(&head, ops, sizeof(head));
		if (left - sizeof(head) < head.len)
			return "list of changes is cut off";
		problem = op_problem(&look, sf_format_op_next(&ops));
	}
	return problem;
}

/* ---- applying them ---- */

/*
 * Remove entries by ascending index, keeping the order of the others: the queue is
 * resolved from its head, and the oldest entries come first.
 */
static void
pend_remove(SfPending *pending, const uint16_t *indexes, uint32_t n)
{
	uint32_t	to = 0;
	uint32_t	skip = 0;

	/* One pass, however many are removed; the places ascend. */
	for (uint32_t from = 0; from < pending->nentries; from++)
	{
		if (skip < n && indexes[skip] == from)
			skip++;
		else
			pending->entries[to++] = pending->entries[from];
	}
	pending->nentries = to;
}

/* Append entries; there is room. */
static void
pend_add(SfPending *pending, SfOp op)
{
	memcpy(&pending->entries[pending->nentries], op.payload, op.len);
	pending->nentries += op.len / sizeof(SfPendEntry);
}

/* Append entries that are kept. */
static void
pend_keep(SfPending *pending, SfOp op)
{
	SfPendKept	kept;
	uint32_t	first = pending->nentries;

	memcpy(&kept, op.payload, sizeof(kept));
	op.payload += sizeof(kept);
	op.len -= sizeof(kept);
	pend_add(pending, op);
	for (uint32_t i = first; i < pending->nentries; i++)
		pending->entries[i].outcome = SF_OUTCOME_KEPT;
	if (first == 0)
		pending->history.first_us = kept.time_us;
	if (first == 0 || kept.time_us > pending->history.last_us)
		pending->history.last_us = kept.time_us;
	pending->history.sectors += kept.sectors;
	pending->history.shared_sectors += kept.shared_sectors;
}

/* Append chunks of records of removed values; there is room. */
static void
removed_add(SfRemovedPage *page, SfOp op)
{
	SfRemovedReader reader;

	memcpy(page->chunks + page->nbytes, op.payload, op.len);
	page->nbytes += op.len;
	sf_format_removed_begin(&reader, op.payload, (uint32_t) op.len);
	while (sf_format_removed_next_chunk(&reader))
		if (reader.chunk.time_us > page->newest_us)
			page->newest_us = reader.chunk.time_us;
}

/* Zeros in the place of the records of a chunk, as far as the page has them. */
static void
removed_wipe(SfRemovedPage *page, uint32_t offset)
{
	SfRemovedChunk chunk;

	memcpy(&chunk, page->chunks + offset, sizeof(chunk));
	if (chunk.nbytes > sizeof(chunk) && chunk.nbytes <= page->nbytes - offset)
		memset(page->chunks + offset + sizeof(chunk), 0, chunk.nbytes - sizeof(chunk));
}

/* The operations on pages of removed values. */
static void
apply_to_removed(SfRemovedPage *page, SfOp op)
{
	switch (op.code)
	{
		case SF_OP_REMOVED_ADD:
			removed_add(page, op);
			break;
		case SF_OP_REMOVED_STATES:
			for (size_t at = 0; at < op.len; at += sizeof(SfRemovedState))
			{
				SfRemovedState state;

				memcpy(&state, op.payload + at, sizeof(state));
				page->chunks[state.offset + offsetof(SfRemovedChunk, outcome)] =
					(uint8_t) state.outcome;
				if (state.outcome == SF_REMOVED_WIPED)
					removed_wipe(page, state.offset);
			}
			break;
		case SF_OP_REMOVED_ENDED:
			for (size_t at = 0; at < op.len; at += sizeof(uint16_t))
			{
				uint16_t	offset;

				memcpy(&offset, op.payload + at, sizeof(offset));
				page->chunks[offset] |= SF_REMOVED_ENDED;
			}
			break;
		case SF_OP_REMOVED_NEXT:
			memcpy(&page->next, op.payload, sizeof(uint32_t));
			break;
		default:
			break;
	}
}

/* The operations on share pages. */
static void
apply_to_share(SfSharePage *page, SfOp op)
{
	SfSharePut	put;
	SfShareSet	set;
	SfShareClear clear;

	switch (op.code)
	{
		case SF_OP_SHARE_PUT:
			memcpy(&put, op.payload, sizeof(put));
			sf_format_share_put(page, put.cell, op.payload + sizeof(put), op.len - sizeof(put));
			break;
		case SF_OP_SHARE_SET:
			memcpy(&set, op.payload, sizeof(set));
			sf_format_share_set(page, set);
			break;
		case SF_OP_SHARE_CLEAR:
			memcpy(&clear, op.payload, sizeof(clear));
			sf_format_share_clear(page, clear);
			break;
		default:
			break;
	}
}

void
sf_format_op_apply(void *content, SfOp op)
{
	/*
	 * Copied, as a payload is not aligned; it has at most as many places as a
	 * page has entries, since they ascend.
	 */
	uint16_t	indexes[SF_PENDING_MAX];
	uint32_t	nindexes = op.len / sizeof(uint16_t);
	SfMapRange	range;
	SfPendPut	put;

	switch (op.code)
	{
		case SF_OP_INIT:
			break;
		case SF_OP_HEADER:
			memcpy(content, op.payload, sizeof(SfHeader));
			break;
		case SF_OP_MAP_SET:
			memcpy(&range, op.payload, sizeof(range));
			sf_format_map_set(content, range);
			break;
		case SF_OP_MAP_CLEAR:
			memcpy(&range, op.payload, sizeof(range));
			sf_format_map_clear(content, range);
			break;
		case SF_OP_PEND_ADD:
			pend_add(content, op);
			break;
		case SF_OP_PEND_REMOVE:
			memcpy(indexes, op.payload, op.len);
			pend_remove(content, indexes, nindexes);
			break;
		case SF_OP_PEND_COMMITTED:
			memcpy(indexes, op.payload, op.len);
			for (uint32_t i = 0; i < nindexes; i++)
				((SfPending *) content)->entries[indexes[i]].outcome = SF_OUTCOME_COMMITTED;
			break;
		case SF_OP_PEND_NEXT:
			memcpy(&((SfPending *) content)->next, op.payload, sizeof(uint32_t));
			break;
		case SF_OP_PEND_PUT:
			memcpy(&put, op.payload, sizeof(put));
			((SfPending *) content)->entries[put.index] = put.entry;
			break;
		case SF_OP_ADVICE_ADD:
		case SF_OP_ADVICE_REMOVE:
		case SF_OP_ADVICE_SPLIT:
			sf_format_advice_apply(content, op);
			break;
		case SF_OP_PEND_KEPT:
			pend_keep(content, op);
			break;
		case SF_OP_REMOVED_ADD:
		case SF_OP_REMOVED_STATES:
		case SF_OP_REMOVED_ENDED:
		case SF_OP_REMOVED_NEXT:
			apply_to_removed(content, op);
			break;
		case SF_OP_MARK:
			memcpy((uint8_t *) content + SF_MARK_OFFSET, op.payload, sizeof(uint64_t));
			break;
		default:
			apply_to_share(content, op);
			break;
	}
}
