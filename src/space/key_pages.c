/*-------------------------------------------------------------------------
 *
 * key_pages.c
 *	  Key pages of a segment: the wrapped data keys of its column.
 *
 * A key that is lost takes all of its values along.  So there are two pages that say the
 * same, always changed by one record, and a reader that meets damage on one goes by the
 * other.
 *
 * Keys are published as dictionaries are: at once, whether the transaction commits or
 * not.  The record comes before any value that needs the key can be committed.
 *
 * Nothing here needs a master key, or knows what a wrapped key is.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/key_pages.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/repair_pages.h"
#include "space/reserve.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

/* The page that is read (an SfBaseStep). */
typedef struct Reading
{
	SfSegment  *seg;
	uint32		page;
	SfKeyPage  *keys;
} Reading;

SF_NORETURN static void
report_bad_keys(uint32 page, const char *detail)
{
	sfi_page_report_contents("key", page, detail);
}

/* Read one key page; DATA_CORRUPTED. */
static void
read_key_page(void *arg)
{
	const Reading *reading = arg;
	char		content[SF_PAGE_CONTENT];
	SfPageType	type = sf_space_read_page(reading->seg, reading->page, content);
	const char *problem;

	if (type != SF_PAGE_KEYS)
		report_bad_keys(reading->page, psprintf("Expected page type %d, found %d.", SF_PAGE_KEYS,
												type));
	memset(reading->keys, 0, sizeof(SfKeyPage));
	memcpy(reading->keys, content, sf_key_page_size((SfKeyPage *) content));
	problem = sf_format_keys_problem(reading->keys);
	if (problem != NULL)
		report_bad_keys(reading->page, psprintf("The %s.", problem));
}

bool
sf_space_read_keys(SfSegment *seg, uint32 page, SfKeyPage *keys)
{
	SfHeader	header;
	Reading		reading = {seg, page, keys};
	ErrorData  *error;

	if (page != 0)
	{
		read_key_page(&reading);
		return true;
	}
	header = sf_space_read_header(seg);
	reading.page = header.key_page;
	if (header.key_page == 0)
		return false;
	error = sf_base_guarded_read(read_key_page, &reading);
	if (error == NULL)
		return true;
	reading.page = header.key_page_copy;
	read_key_page(&reading);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("one of two key pages of column %d of table with OID %u is damaged",
					seg->attnum, seg->table_oid),
			 errdetail("%s.  The other one is used.", error->message),
			 errhint("Run securefile_repair() on the column.")));
	FreeErrorData(error);
	return true;
}

/* Does a page say what the caller has seen? */
static bool
says(Relation rel, uint32 page, const SfKeyPage *keys)
{
	char		content[SF_PAGE_CONTENT];

	return sfi_page_copy(rel, page, content) == SF_PAGE_KEYS &&
		memcmp(content, keys, sf_key_page_size(keys)) == 0;
}

/*
 * Do the pages say what the caller has seen?  keys NULL: there was none.  An ERROR when only
 * one of them does: nobody else has changed them then, and to try again would not help.
 */
static bool
is_as_seen(Relation rel, const SfHeader *h, const SfKeyPage *keys)
{
	bool		first;

	if (h->key_page == 0 || keys == NULL)
		return h->key_page == 0 && keys == NULL;
	first = says(rel, h->key_page, keys);
	if (says(rel, h->key_page_copy, keys) != first)
		report_bad_keys(h->key_page_copy, psprintf("It differs from page %u.", h->key_page));
	return first;
}

/*
 * Lock one of the two pages, which is made if there is none.  repairs: what is there does not
 * matter.
 */
static Buffer
lock_page(Relation rel, SfHeader *h, uint32 *page, bool repairs)
{
	Buffer		buf;

	if (*page != 0)
		return repairs ? sfi_page_reinit(rel, *page)
			: sfi_page_read(rel, *page, SF_PAGE_KEYS, BUFFER_LOCK_EXCLUSIVE);
	buf = sfi_pending_take_page(rel, h);
	*page = BufferGetBlockNumber(buf);
	SF_ASSERT(*page != 0 && !SF_IS_MAP_PAGE(*page));
	return buf;
}

/* Write both pages, and the header, which is locked and names them from then on. */
static void
write_pages(Relation rel, Buffer hbuf, SfHeader h, const SfKeyPage *keys, SfPagesReason reason)
{
	uint32	   *pages[] = {&h.key_page, &h.key_page_copy};
	int			header;

	sfi_change_begin();
	header = sfi_change_add(hbuf);
	for (int copy = 0; copy < 2; copy++)
		sfi_change_init(sfi_change_add(lock_page(rel, &h, pages[copy], reason == SF_PAGES_REPAIR)),
						SF_PAGE_KEYS, keys, sf_key_page_size(keys));
	sfi_change_header(header, &h);
	SF_FAULT(keys_made);
	sfi_change_finish_pages(reason, 0, 0);
}

bool
sf_space_put_keys(SfSegment *seg, const SfKeyPage *seen, const SfKeyPage *keys)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	h;
	Buffer		hbuf;
	bool		as_seen;

	SF_ASSERT(sf_format_keys_problem(keys) == NULL && keys->nentries > 0 && !seg->retained);
	SF_ASSERT(seen == NULL || seen->nentries <= keys->nentries);
	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));

	sfi_grow_first(seg, rel);
	hbuf = sfi_header_lock(rel, &h);
	as_seen = is_as_seen(rel, &h, seen);
	if (as_seen)
		write_pages(rel, hbuf, h, keys, SF_PAGES_KEYS);
	else
		UnlockReleaseBuffer(hbuf);
	sfi_segment_close(rel);
	return as_seen;
}

/* Have a page of the segment relation written; the server flushes its WAL first. */
static void
write_out(Relation rel, uint32 page)
{
	Buffer		buf = sfi_page_read(rel, page, SF_PAGE_KEYS, BUFFER_LOCK_SHARE);

	FlushOneBuffer(buf);
	UnlockReleaseBuffer(buf);
}

void
sf_space_sync_keys(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	SfHeader	header = sf_space_read_header(seg);

	SF_ASSERT(header.key_page != 0 && !seg->retained);
	write_out(rel, header.key_page);
	write_out(rel, header.key_page_copy);
	smgrimmedsync(RelationGetSmgr(rel), MAIN_FORKNUM);
	sfi_segment_close(rel);
}

void
sf_space_repair_keys(SfSegment *seg, const uint32 pages[2], const SfKeyPage *keys)
{
	Relation	rel = sfi_segment_rel(seg);
	Buffer		hbuf;
	SfHeader	h;

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	SF_ASSERT(pages[0] != pages[1] && sf_format_keys_problem(keys) == NULL);
	SF_FAULT(repair_page);
	hbuf = sfi_header_lock(rel, &h);
	h.key_page = pages[0];
	h.key_page_copy = pages[1];
	write_pages(rel, hbuf, h, keys, SF_PAGES_REPAIR);
	sfi_segment_close(rel);
}
