/*-------------------------------------------------------------------------
 *
 * change.c
 *	  Damaged pages, and damaged lists of changes for them, as redo gets them.  Either
 *	  the checks refuse them with a reason, or applying the list touches nothing but the
 *	  page and leaves a page for which the same holds.
 *
 * An input is the type of a page, the first bytes of its contents and the list.
 *
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "format/change.h"
#include "format/dictionary.h"
#include "format/removed.h"
#include "format/share.h"
#include "fuzz.h"

#define FIXED		sizeof(SfHeader)
#define ENTRIES		10

/* ---- trying one ---- */

/* Apply an operation as redo does; a new page is zeros behind its contents. */
static void
apply(SfPageType *type, uint8_t *content, SfOp op)
{
	uint32_t	new_type;

	if (op.code != SF_OP_INIT)
	{
		sf_format_op_apply(content, op);
		return;
	}
	memcpy(&new_type, op.payload, sizeof(new_type));
	*type = (SfPageType) new_type;
	memset(content, 0, SF_PAGE_CONTENT);
	memcpy(content, op.payload + sizeof(new_type), op.len - sizeof(new_type));
}

/* Go through all records of a page: each lies within it, and is as long as it may be. */
static void
walk_removed(const SfRemovedPage *page)
{
	static SfRemovedReader reader;
	unsigned	n = 0;

	sf_format_removed_begin(&reader, page->chunks, page->nbytes);
	while (sf_format_removed_next(&reader))
	{
		if (reader.at > reader.chunk_end || reader.chunk_end > page->nbytes ||
			reader.record.head.key_bytes > SF_REMOVED_KEY_MAX ||
			reader.record.head.value_bytes > SF_REMOVED_VALUE_MAX)
			fuzz_stop("a record of a removed value leaves its page");
		n++;
	}
	if (n > SF_REMOVED_ROOM / sizeof(SfRemovedHead))
		fuzz_stop("more records than fit");
}

/* Check the parts of a sound page that the resolver and the readers use. */
static void
walk(SfPageType type, const void *content)
{
	const SfPending *pending = content;
	const SfInode *inode = content;
	unsigned	sound = 0;

	if (sf_format_page_problem(type, content) != NULL)
		return;
	if (type == SF_PAGE_PENDING)
		for (int i = 0; i < pending->nentries; i++)
			if (sf_format_entry_problem(&pending->entries[i]) == NULL)
			{
				uint64_t	first = pending->entries[i].start % SF_MAP_SECTORS;

				if (pending->entries[i].kind <= SF_PEND_FREE &&
					first + pending->entries[i].count > SF_MAP_SECTORS)
					fuzz_stop("an entry leaves its map page");
				sound++;
			}
	if (type == SF_PAGE_REMOVED)
		walk_removed(content);
	if (type == SF_PAGE_INODE && inode->level == 0)
		for (int i = 0; i < inode->nentries; i++)
			sound += sf_format_unit_problem(&inode->u.units[i], SF_LOC_UNITS,
											SF_PLAIN_UNKNOWN) == NULL;
	if (sound > SF_PAGE_CONTENT / sizeof(SfUnit))
		fuzz_stop("more entries than fit");
}

/* Does what a change does depend on how many entries its page has? */
static bool
counts_entries(SfPageType type)
{
	return type == SF_PAGE_PENDING || type == SF_PAGE_ADVICE_BUCKET || type == SF_PAGE_REMOVED;
}

/* Apply a list that the checks took. */
static void
apply_all(SfPageType type, uint8_t *content, const uint8_t *ops, size_t len)
{
	const uint8_t *next = ops;

	while (next < ops + len)
		apply(&type, content, sf_format_op_next(&next));
	if (next != ops + len)
		fuzz_stop("the last change goes beyond the list");
	if (counts_entries(type) && sf_format_page_problem(type, content) != NULL)
		fuzz_stop("a change has damaged its page");
	walk(type, content);
}

const char *
fuzz_try(const uint8_t *bytes, size_t len)
{
	uint8_t    *content;
	uint8_t    *ops;
	SfPageType	type;
	const char *problem;

	if (len < 1 + FIXED)
		return "too short for this fuzzer";
	type = (SfPageType) bytes[0];
	content = malloc(SF_PAGE_CONTENT);
	memset(content, bytes[1], SF_PAGE_CONTENT);
	memcpy(content, bytes + 1, FIXED);
	len -= 1 + FIXED;
	ops = malloc(len > 0 ? len : 1);
	memcpy(ops, bytes + 1 + FIXED, len);

	walk(type, content);
	problem = sf_format_ops_problem(type, content, ops, len);
	if (problem == NULL)
		apply_all(type, content, ops, len);
	free(ops);
	free(content);
	return problem;
}

/* ---- sound ones to begin with ---- */

typedef struct Making
{
	uint8_t		bytes[FUZZ_MAX_INPUT];
	size_t		len;
} Making;

static void
begin(Making *making, SfPageType type, const void *content, size_t len)
{
	memset(making->bytes, 0, 1 + FIXED);
	making->bytes[0] = type;
	memcpy(making->bytes + 1, content, len < FIXED ? len : FIXED);
	making->len = 1 + FIXED;
}

static void
add(Making *making, SfOpCode code, const void *payload, size_t len)
{
	SfOpHeader	head = {code, len};

	memcpy(making->bytes + making->len, &head, sizeof(head));
	memcpy(making->bytes + making->len + sizeof(head), payload, len);
	making->len += sizeof(head) + len;
}

static void
keep(const Making *making)
{
	fuzz_keep(making->bytes, making->len);
}

/* A history page that gets entries. */
static void
keep_kept(void)
{
	SfPending	page = {.next = SF_NO_PAGE, .nentries = 2, .history = {5, 7, 40, 8}};
	struct
	{
		SfPendKept	kept;
		SfPendEntry entries[3];
	}			payload = {.kept = {9, 30, 16}};
	Making		making;

	for (int i = 0; i < 3; i++)
	{
		SfPendEntry entry = {700 + i, 100 + 40 * i, 10, SF_PEND_FREE, SF_OUTCOME_KEPT, 0};

		payload.entries[i] = entry;
	}
	begin(&making, SF_PAGE_PENDING, &page, sizeof(page));
	add(&making, SF_OP_PEND_KEPT, &payload, sizeof(payload));
	keep(&making);
}

/* A page of removed values that gets chunks of two records, and the outcome of the first one. */
static void
keep_removed(void)
{
	SfRemovedPage page = {.next = SF_NO_PAGE};
	SfRemovedState state = {0, SF_REMOVED_COMMITTED};
	static SfRemovedRecord records[2];
	union
	{
		SfRemovedChunk chunk;
		uint8_t		bytes[2048];
	}			u = {.chunk = {.fxid = 700, .time_us = 9, .nbytes = sizeof(SfRemovedChunk)}};
	Making		making;

	for (int i = 0; i < 2; i++)
	{
		records[i].head = (SfRemovedHead) {SF_REMOVED_DELETED, SF_REMOVED_WHOLE, 9, 81};
		memset(records[i].bytes, 'k', 90);
		records[i].bytes[5 + 30 * i] = '0' + i;
		u.chunk.nbytes += sf_format_removed_put(u.bytes + u.chunk.nbytes, &records[i],
												i == 0 ? NULL : &records[0]);
	}
	u.chunk.nbytes = (u.chunk.nbytes + 7) / 8 * 8;
	begin(&making, SF_PAGE_REMOVED, &page, sizeof(page));
	add(&making, SF_OP_REMOVED_ADD, &u, u.chunk.nbytes);
	add(&making, SF_OP_REMOVED_ADD, &u, u.chunk.nbytes);
	add(&making, SF_OP_REMOVED_STATES, &state, sizeof(state));
	add(&making, SF_OP_REMOVED_NEXT, &page.next, sizeof(page.next));
	keep(&making);
}

/* A pending page with nentries entries, and a list that adds, changes and removes some. */
static void
keep_pending(uint16_t nentries)
{
	SfPending	page = {.next = SF_NO_PAGE, .nentries = nentries};
	SfPendEntry entries[ENTRIES];
	uint16_t	indexes[ENTRIES];
	uint32_t	next = 5;
	Making		making;

	for (int i = 0; i < ENTRIES; i++)
	{
		entries[i] = (SfPendEntry) {.fxid = 700 + i, .start = i * 100, .count = 8,
										   .kind = 1 + i % 4
										  };
		indexes[i] = 2 * i;
	}
	begin(&making, SF_PAGE_PENDING, &page, sizeof(page));
	add(&making, SF_OP_PEND_ADD, entries, sizeof(entries));
	add(&making, SF_OP_PEND_COMMITTED, indexes, 3 * sizeof(uint16_t));
	add(&making, SF_OP_PEND_REMOVE, indexes, 5 * sizeof(uint16_t));
	add(&making, SF_OP_PEND_NEXT, &next, sizeof(next));
	keep(&making);
}

/* A bucket of advice, and a list that adds and removes entries, and splits it. */
static void
keep_bucket(uint16_t nentries, uint8_t depth)
{
	SfAdviceBucket page = {.nentries = nentries, .depth = depth};
	uint32_t	half = 5;
	Making		making;

	begin(&making, SF_PAGE_ADVICE_BUCKET, &page, sizeof(page));
	for (int i = 0; i < ENTRIES; i++)
	{
		SfAdvice	entry = {i / 6, i / 3, 2 + i % 3, i % SF_SHARE_CELLS, 0};

		add(&making, SF_OP_ADVICE_ADD, &entry, sizeof(entry));
		if (i % 4 == 3)
			add(&making, SF_OP_ADVICE_REMOVE, &entry, sizeof(entry));
	}
	add(&making, SF_OP_ADVICE_SPLIT, &half, sizeof(half));
	keep(&making);
}

/* A map page, and a list that sets and clears bits of it. */
static void
keep_map(void)
{
	SfMap		page = {0};
	SfMapRange	range = {32760, 7};
	Making		making;

	begin(&making, SF_PAGE_MAP, &page, sizeof(page));
	add(&making, SF_OP_MAP_SET, &range, sizeof(range));
	add(&making, SF_OP_MAP_CLEAR, &range, sizeof(range));
	keep(&making);
}

/* A list that makes a page of that type; for some also one that changes it. */
static void
keep_new(SfPageType type, const void *content, size_t len)
{
	uint32_t	type32 = type;
	uint8_t		payload[sizeof(type32) + FIXED];
	Making		making;

	memcpy(payload, &type32, sizeof(type32));
	memcpy(payload + sizeof(type32), content, len);
	begin(&making, 0, "", 1);
	add(&making, SF_OP_INIT, payload, sizeof(type32) + len);
	if (type == SF_PAGE_HEADER)
		add(&making, SF_OP_HEADER, content, len);
	keep(&making);
}

/* A new page with len bytes of contents; it has room for SF_PAGE_CONTENT. */
static void
keep_long(size_t len)
{
	uint8_t		payload[sizeof(uint32_t) + SF_PAGE_CONTENT + 1] = {SF_PAGE_MAP};
	Making		making;

	begin(&making, 0, "", 1);
	add(&making, SF_OP_INIT, payload, sizeof(uint32_t) + len);
	keep(&making);
}

/* A page of share records, and a list that puts one there, counts it up, and takes it out. */
static void
keep_share(uint16_t cell, uint16_t locator_bytes)
{
	SfSharePage page = {.next = SF_NO_PAGE};
	SfSharePut	put = {.cell = cell};
	SfShareRecord record = {
		.object_id = 7, .maker_fxid = 700, .references = 1, .state = SF_SHARE_NEW,
		.length_bytes = 5000, .locator_bytes = locator_bytes
	};
	SfShareSet	set = {cell, SF_SHARE_LIVE, 2};
	SfShareClear clear = {cell, (uint16_t) sf_share_record_cells(&record)};
	uint8_t		payload[sizeof(put) + SF_SHARE_RECORD_MAX] = {0};
	uint8_t    *locator = payload + sizeof(put) + sizeof(record);
	Making		making;

	memcpy(payload, &put, sizeof(put));
	memcpy(payload + sizeof(put), &record, sizeof(record));
	memcpy(locator + 16, &record.object_id, sizeof(record.object_id));
	begin(&making, SF_PAGE_SHARE, &page, sizeof(page));
	add(&making, SF_OP_SHARE_PUT, payload, sizeof(put) + sizeof(record) + locator_bytes);
	add(&making, SF_OP_SHARE_SET, &set, sizeof(set));
	add(&making, SF_OP_SHARE_CLEAR, &clear, sizeof(clear));
	keep(&making);
}

/* A page of a map, whose owner's mark is changed. */
static void
keep_mark(uint64_t mark)
{
	SfInode		page = {.nentries = 2, .stamp = 1};
	Making		making;

	begin(&making, SF_PAGE_INODE, &page, sizeof(page));
	add(&making, SF_OP_MARK, &mark, sizeof(mark));
	keep(&making);
}

/* A header that gets a dictionary. */
static void
keep_header(SfHeader header)
{
	Making		making;

	begin(&making, SF_PAGE_HEADER, &header, sizeof(header));
	header.dictionary = 5;
	header.last_dictionary = 2;
	add(&making, SF_OP_HEADER, &header, sizeof(header));
	keep(&making);
}

void
fuzz_seeds(void)
{
	SfDictionaryPage dictionary = {.number = 1, .len = 9000, .next = 7, .before = SF_NO_PAGE};
	SfHeader	header = {
		.total_sectors = 4096, .next_page = 3, .next_object_id = 1, .next_stamp = 1
	};
	SfPending	pending = {.next = SF_NO_PAGE};
	SfInode		inode = {.nentries = 2, .stamp = 1};
	SfFreePage	free_page = {SF_NO_PAGE};
	uint32_t	bucket[2] = {0};

	for (uint16_t n = 0; n <= SF_PENDING_MAX - ENTRIES; n += SF_PENDING_MAX / 4)
		keep_pending(n);
	keep_pending(SF_PENDING_MAX);
	keep_map();
	keep_kept();
	keep_removed();
	for (uint16_t n = 0; n <= SF_ADVICE_BUCKET_MAX; n += SF_ADVICE_BUCKET_MAX)
		for (uint8_t depth = 0; depth <= SF_ADVICE_DEPTH_MAX; depth += SF_ADVICE_DEPTH_MAX / 2)
			keep_bucket(n, depth);
	keep_new(SF_PAGE_HEADER, &header, sizeof(header));
	keep_new(SF_PAGE_PENDING, &pending, sizeof(pending));
	keep_new(SF_PAGE_INODE, &inode, sizeof(inode));
	keep_new(SF_PAGE_FREE, &free_page, sizeof(free_page));
	keep_new(SF_PAGE_ADVICE_BUCKET, bucket, sizeof(bucket));
	keep_new(SF_PAGE_DICTIONARY, &dictionary, sizeof(dictionary));
	keep_header(header);
	keep_share(0, SF_LOCATOR_HEADER);
	keep_share(SF_SHARE_CELLS / 2, SF_SHARE_LOCATOR_MAX);
	keep_share(SF_SHARE_CELLS - 1, SF_LOCATOR_HEADER);
	keep_mark(0);
	keep_mark(sf_mark_of_share((SfShareId) {5, 3, 0}));
	keep_long(SF_PAGE_CONTENT);
	keep_long(SF_PAGE_CONTENT + 1);
}
