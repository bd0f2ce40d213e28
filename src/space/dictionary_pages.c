/*-------------------------------------------------------------------------
 *
 * dictionary_pages.c
 *	  Dictionaries of a segment: what its column's values have in common, kept
 *	  for the codec "trained".
 *
 * The extension of the header page leads to the newest dictionary, and each one to the
 * one before.  They are published as a value of a sequence is: at once, by one record,
 * whether the transaction commits or not.  So no value can be seen whose dictionary
 * cannot, and there is nothing to take back.
 *
 * The bytes of a dictionary never change, and stay as long as its segment: any row that some
 * snapshot can see may need it.  TRUNCATE and securefile_rewrite() begin a new segment,
 * and so a new list.
 *
 * A process keeps the last dictionaries it has used, in the form that the codec needs.
 * What is kept is found by the incarnation of its segment and its number.  These are never
 * given out again, but by a rollback of a move to another tablespace; all is forgotten then.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/dictionary_pages.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/repair_pages.h"
#include "space/reserve.h"
#include "storage/lmgr.h"
#include "utils/inval.h"

#define KEPT			8

typedef struct KeptDictionary
{
	uint64		incarnation;
	uint32		number;
	uint64		used;			/* when, on the clock of uses; 0: nothing is
								 * kept here */
	SfDictionary *dictionary;
} KeptDictionary;

static KeptDictionary kept[KEPT];
static uint64 clock_of_uses;

/* ---- what is kept ---- */

/* Forget all dictionaries, some of which may have been rolled back with their storage. */
static void
forget_undone(void)
{
	static uint64 as_of;

	if (!sf_space_undone_since(&as_of))
		return;
	for (int i = 0; i < KEPT; i++)
	{
		if (kept[i].used > 0)
			sf_transform_dictionary_free(kept[i].dictionary);
		kept[i] = (KeptDictionary) {0};
	}
}

static SfDictionary *
find_kept(uint64 incarnation, uint32 number)
{
	SF_ASSERT(number > 0);
	forget_undone();
	for (int i = 0; i < KEPT; i++)
		if (kept[i].used > 0 && kept[i].incarnation == incarnation && kept[i].number == number)
		{
			kept[i].used = ++clock_of_uses;
			return kept[i].dictionary;
		}
	return NULL;
}

/* Keep a dictionary, in the place of the one that was not used for the longest time. */
static SfDictionary *
keep(uint64 incarnation, uint32 number, SfDictionary *dictionary)
{
	KeptDictionary *place = &kept[0];

	SF_ASSERT(dictionary != NULL && find_kept(incarnation, number) == NULL);
	for (int i = 1; i < KEPT; i++)
		if (kept[i].used < place->used)
			place = &kept[i];
	if (place->used > 0)
		sf_transform_dictionary_free(place->dictionary);
	*place = (KeptDictionary) {incarnation, number, ++clock_of_uses, dictionary};
	return dictionary;
}

/* ---- pages ---- */

typedef union PageContent
{
	SfDictionaryPage page;
	char		bytes[SF_PAGE_CONTENT];
} PageContent;

SF_NORETURN static void
report_damaged(uint32 page, const char *detail)
{
	sfi_page_report_contents("dictionary", page, detail);
}

/* Read one page of a dictionary; what its fixed part says is possible. */
static void
read_dictionary_page(SfSegment *seg, uint32 page, PageContent *content)
{
	SfPageType	type = sf_space_read_page(seg, page, content->bytes);

	if (type != SF_PAGE_DICTIONARY)
		report_damaged(page, psprintf("Expected page type %d, found %d.", SF_PAGE_DICTIONARY,
									  type));
}

/*
 * All bytes of the dictionary that begins on a page, whose first page has been read.  The
 * offsets rise by the bytes of a page, so that the list has an end.  visit, or NULL, is
 * told each page before it is read.
 */
static char *
read_bytes(SfSegment *seg, uint32 first, PageContent *content, SfDictionaryVisit visit, void *arg)
{
	SfDictionaryPage head = content->page;
	char	   *bytes = palloc(head.len);
	const char *problem;
	uint32		at = 0;
	uint32		page = first;

	for (;;)
	{
		const SfDictionaryPage *part = &content->page;

		if (part->number != head.number || part->len != head.len || part->check != head.check ||
			part->before != head.before || part->offset != at)
			report_damaged(page, psprintf("It is not the page at offset %u of dictionary %u.", at,
										  head.number));
		memcpy(bytes + at, part->bytes, sf_dictionary_part(part));
		at += sf_dictionary_part(part);
		if (part->next == SF_NO_PAGE)
			break;
		page = part->next;
		if (visit != NULL)
			visit(page, arg);
		read_dictionary_page(seg, page, content);
	}
	if (sf_format_checksum(bytes, head.len, 0) != head.check)
		report_damaged(first, psprintf("Dictionary %u is not what was written.", head.number));
	problem = sf_transform_dictionary_problem(bytes, head.len, head.number);
	if (problem != NULL)
		report_damaged(first, psprintf("Dictionary %u cannot be used: %s.", head.number, problem));
	return bytes;
}

/*
 * Find a dictionary of a segment; number 0: the newest.  Returns its first page, whose
 * contents are read, or 0.  The numbers fall, so that the list has an end.
 */
static uint32
find_dictionary(SfSegment *seg, uint32 number, PageContent *content)
{
	uint32		page = sf_space_read_header(seg).dictionary;
	uint32		last = SF_DICTIONARY_MAX + 1;

	while (page != 0 && page != SF_NO_PAGE)
	{
		read_dictionary_page(seg, page, content);
		if (content->page.number >= last)
			report_damaged(page, psprintf("Dictionary %u stands behind dictionary %u.",
										  content->page.number, last));
		last = content->page.number;
		if (number == 0 || number == last)
			return page;
		page = content->page.before;
	}
	return 0;
}

/* ---- for other rooms ---- */

/*
 * The bytes of a dictionary, and their number; NULL when there is none.  *number: which
 * one, 0: the newest; set to the one that was found.
 */
static char *
read_dictionary(SfSegment *seg, uint32 *number, uint32 *len)
{
	PageContent content;
	uint32		page = find_dictionary(seg, *number, &content);

	SF_ASSERT(page == 0 || *number == 0 || content.page.number == *number);
	*number = page != 0 ? content.page.number : 0;
	*len = page != 0 ? content.page.len : 0;
	return page != 0 ? read_bytes(seg, page, &content, NULL, NULL) : NULL;
}

void
sf_space_dictionary_at(SfSegment *seg, uint32 page, SfDictionaryVisit visit, void *arg,
					   uint32 *number, uint32 *before)
{
	PageContent content;

	visit(page, arg);
	read_dictionary_page(seg, page, &content);
	*number = content.page.number;
	*before = content.page.before;
	pfree(read_bytes(seg, page, &content, visit, arg));
}

static SfDictionary *
read_and_keep(SfSegment *seg, uint32 number)
{
	SfDictionary *dictionary;
	char	   *bytes;
	uint32		len;

	if (number == 0 || !sf_transform_can_train())
		return NULL;
	dictionary = find_kept(seg->incarnation, number);
	if (dictionary != NULL)
		return dictionary;
	bytes = read_dictionary(seg, &number, &len);
	if (bytes == NULL)
		return NULL;
	dictionary = sf_transform_dictionary_new(bytes, len);
	pfree(bytes);
	if (dictionary == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("A dictionary of %u bytes could not be prepared.", len)));
	return keep(seg->incarnation, number, dictionary);
}

SfDictionary *
sf_space_dictionary(const SfHome *home, uint32 number)
{
	SfDictionary *dictionary;
	SfSegment  *seg;

	if (number == 0)
		return NULL;
	dictionary = find_kept(home->incarnation, number);
	if (dictionary != NULL)
		return dictionary;
	seg = sf_space_open_incarnation(home->table_oid, home->attnum, home->incarnation);
	dictionary = read_and_keep(seg, number);
	sf_space_release(seg);
	return dictionary;
}

/*
 * What the newest dictionary of a column was when it was last looked for.  A process that
 * adds one has all others look again, by an invalidation of the table.  A process that
 * misses that for a moment uses the one before, or none, which is as right.
 */
typedef struct Newest
{
	Oid			table_oid;
	AttrNumber	attnum;
	uint64		incarnation;
	uint32		number;			/* 0: the segment has none */
	uint64		as_of;			/* tables_state then; 0: nothing is known */
} Newest;

#define KNOWN_COLUMNS	16

static Newest newest[KNOWN_COLUMNS];
static uint64 tables_state = 1; /* rises when one of these tables may have
								 * changed */

/* A table was invalidated, or all of them (InvalidOid). */
static void
table_changed(Datum arg, Oid relid)
{
	for (int i = 0; i < KNOWN_COLUMNS; i++)
		if (!OidIsValid(relid) || newest[i].table_oid == relid)
			tables_state++;
}

/*
 * Do new values of the column use its dictionaries?  Not in a column that encrypts: they
 * have parts of values, and are not encrypted.
 */
static bool
uses_dictionaries(SfSegment *seg)
{
	const SfColumn *column = sf_space_column(seg);

	return sf_transform_is_trainable(column->options.compression) && !sf_config_encrypts(column);
}

/*
 * Look for the newest dictionary of a segment.  If the table changes meanwhile, the answer
 * counts as one of before.
 */
static void
learn_newest(SfSegment *seg, Newest *known)
{
	static bool watching;
	uint64		state = tables_state;
	PageContent content;

	SF_ASSERT(!seg->retained);
	if (!watching)
		CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
	watching = true;
	known->as_of = 0;
	known->table_oid = seg->table_oid;
	known->number = uses_dictionaries(seg) && find_dictionary(seg, 0, &content) != 0 ?
		content.page.number : 0;
	known->attnum = seg->attnum;
	known->incarnation = seg->incarnation;
	SF_ASSERT(known->number <= SF_DICTIONARY_MAX);
	known->as_of = state;
}

/* The newest dictionary of a segment, read in a step that damage may end. */
typedef struct Trained
{
	SfSegment  *seg;
	Newest	   *known;
	SfDictionary *dictionary;
} Trained;

/* An SfBaseStep. */
static void
trained_step(void *arg)
{
	Trained    *trained = arg;

	SF_ASSERT(!trained->seg->retained);
	if (trained->known->as_of != tables_state)
		learn_newest(trained->seg, trained->known);
	trained->dictionary = read_and_keep(trained->seg, trained->known->number);
}

/*
 * Read the newest dictionary.  A damaged one must not keep anybody from storing values: it
 * counts as none, with a WARNING, until the table is changed or a repair has been there.
 */
static SfDictionary *
read_trained(SfSegment *seg, Newest *known)
{
	Trained		trained = {seg, known, NULL};
	uint64		state = tables_state;
	ErrorData  *error;

	SF_ASSERT(known->as_of == 0 || known->number > 0);
	error = sf_base_guarded_read(trained_step, &trained);
	if (error == NULL)
		return trained.dictionary;
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) != ERRCODE_TO_CATEGORY(ERRCODE_DATA_CORRUPTED))
		ReThrowError(error);
	*known = (Newest) {seg->table_oid, seg->attnum, seg->incarnation, 0, state};
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("values of column %d of table with OID %u are stored without its dictionary",
					seg->attnum, seg->table_oid),
			 errdetail("%s.", error->message),
			 errhint("Run securefile_check() on the column.")));
	FreeErrorData(error);
	return NULL;
}

/*
 * A column without a dictionary is told by a look into memory.  For one that has some the
 * segment is opened each time: a value must not be encoded for a segment that this
 * transaction has replaced.
 */
SfDictionary *
sf_space_trained(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode, SfHome *home)
{
	Newest	   *known = &newest[(table_oid * 31 + (uint32) attnum) % KNOWN_COLUMNS];
	bool		is_known = known->as_of == tables_state && known->table_oid == table_oid &&
		known->attnum == attnum;
	SfDictionary *dictionary = NULL;
	SfSegment  *seg;

	/*
	 * small values need neither a server that knows the library, nor a
	 * segment
	 */
	if ((is_known && known->number == 0) || !sf_base_preloaded)
		return NULL;
	seg = sf_space_open(table_oid, attnum, lockmode, true);
	if (seg == NULL)
		return NULL;
	is_known = is_known && known->incarnation == seg->incarnation;
	*home = (SfHome) {table_oid, attnum, seg->incarnation};
	if (is_known && sf_transform_can_train())
		dictionary = find_kept(seg->incarnation, known->number);
	if (dictionary != NULL)
		return dictionary;
	if (!is_known)
		known->as_of = 0;
	return read_trained(seg, known);
}

/* ---- a new one ---- */

/* Refuse one more dictionary than there are numbers. */
static void
require_number(uint32 last)
{
	if (last >= SF_DICTIONARY_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("segment has had %u dictionaries already", last),
				 errdetail("A segment can have %d of them.", SF_DICTIONARY_MAX),
				 errhint("TRUNCATE, or securefile_rewrite() to the other logging mode, begins a new segment, which has the newest one only.")));
}

/* Refuse a header from before the newest dictionary, which would give its number again. */
static void
require_newest(SfSegment *seg)
{
	PageContent content;
	uint32		last = sf_space_read_header(seg).last_dictionary;

	if (find_dictionary(seg, 0, &content) != 0 && content.page.number > last)
		report_damaged(0, psprintf("There is dictionary %u, and the header knows them up to %u.",
								   content.page.number, last));
}

/*
 * Write the pages of a dictionary into the change, from the last one to the first, since
 * each of them names the next.  Returns the first one.
 */
static uint32
add_pages(Relation rel, SfHeader *h, const char *bytes, const SfDictionaryPage *head)
{
	uint32		next = SF_NO_PAGE;
	uint32		at = (head->len - 1) / SF_DICTIONARY_PART * SF_DICTIONARY_PART;

	for (;; at -= SF_DICTIONARY_PART)
	{
		Buffer		buf = sfi_pending_take_page(rel, h);
		PageContent content;
		uint32		part;

		content.page = *head;
		content.page.offset = at;
		content.page.next = next;
		part = sf_dictionary_part(&content.page);
		SF_ASSERT(part > 0 && (next == SF_NO_PAGE) == (at + part == head->len));
		memcpy(content.page.bytes, bytes + at, part);
		sfi_change_init(sfi_change_add(buf), SF_PAGE_DICTIONARY, &content,
						sizeof(SfDictionaryPage) + part);
		next = BufferGetBlockNumber(buf);
		if (at == 0)
			return next;
	}
}

uint32
sf_space_add_dictionary(SfSegment *seg, const SfDictionaryBytes *made)
{
	Relation	rel;
	SfDictionaryPage head = {.before = SF_NO_PAGE};
	Buffer		hbuf;
	SfHeader	h;
	int			header;

	if (made == NULL)
		return 0;
	SF_ASSERT(made->len > 0 && made->len <= SF_DICTIONARY_MAX_BYTES && !seg->retained);
	head.len = made->len;
	rel = sfi_segment_rel(seg);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));

	sfi_grow_first(seg, rel);
	require_newest(seg);
	hbuf = sfi_header_lock(rel, &h);
	require_number(h.last_dictionary);
	head.number = ++h.last_dictionary;
	if (h.dictionary != 0)
		head.before = h.dictionary;
	sf_transform_number_dictionary(made->bytes, head.number);
	if (SF_FAULT_SKIPS(train_right))
		memset(made->bytes + 8, 0xFF, 8);	/* tables of codes, as the library
											 * has them */
	head.check = sf_format_checksum(made->bytes, made->len, 0);

	sfi_change_begin();
	header = sfi_change_add(hbuf);
	h.dictionary = add_pages(rel, &h, made->bytes, &head);
	sfi_change_header(header, &h);
	SF_FAULT(train_before_record);
	sfi_change_finish_pages(SF_PAGES_DICTIONARY, 0, 0);
	sfi_segment_close(rel);
	return head.number;
}

/*
 * All of its pages lead to the one before, so all are changed, by one record.  The header
 * is in it, unchanged: redo makes no page anew that the header of its record does not know.
 */
void
sf_space_repair_dictionary(SfSegment *seg, uint32 first_page, uint32 before)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header;
	Buffer		hbuf = sfi_header_lock(rel, &header);
	PageContent content;

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	SF_FAULT(repair_page);
	sfi_change_begin_header(hbuf, &header);
	for (uint32 page = first_page; page != SF_NO_PAGE; page = content.page.next)
	{
		Buffer		buf = sfi_page_read(rel, page, SF_PAGE_DICTIONARY, BUFFER_LOCK_EXCLUSIVE);

		memcpy(&content, SfPageDictionary(BufferGetPage(buf)), sizeof(content));
		content.page.before = before;
		sfi_change_init(sfi_change_add(buf), SF_PAGE_DICTIONARY, &content,
						sizeof(SfDictionaryPage) + sf_dictionary_part(&content.page));
	}
	sfi_change_finish_pages(SF_PAGES_REPAIR, 0, 0);
	sfi_segment_close(rel);
}

/* ---- from storage to storage ---- */

typedef struct Fetching
{
	SfSegment  *seg;
	SfDictionaryBytes *found;
} Fetching;

/* An SfBaseStep. */
static void
fetch_step(void *arg)
{
	Fetching   *fetching = arg;
	uint32		newest = 0;

	fetching->found->bytes = read_dictionary(fetching->seg, &newest, &fetching->found->len);
}

SfDictionaryBytes *
sf_space_fetch_dictionary(SfSegment *seg)
{
	Fetching	fetching = {seg, palloc0(sizeof(SfDictionaryBytes))};
	ErrorData  *error;

	if (!uses_dictionaries(seg))
		return NULL;
	error = sf_base_guarded(fetch_step, &fetching);
	if (error != NULL)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the new segment of column %d of table with OID %u has no dictionary",
						seg->attnum, seg->table_oid),
				 errdetail("The dictionary of the old one: %s.", error->message),
				 errhint("Call securefile_train() when there are new rows.")));
	return error == NULL && fetching.found->bytes != NULL ? fetching.found : NULL;
}
