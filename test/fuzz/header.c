/*-------------------------------------------------------------------------
 *
 * header.c
 *	  Damaged header pages of segments: what follows the fixed part is refused with
 *	  a reason, or names pages that there can be.
 *
 * An input is the contents of a header page, SfHeader and SfHeaderMore.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/dictionary.h"
#include "format/format.h"
#include "fuzz.h"

static void
check_page(uint32_t page)
{
	if (page == SF_NO_PAGE || SF_IS_MAP_PAGE(page))
		fuzz_stop("a page that was taken cannot be one");
}

const char *
fuzz_try(const uint8_t *bytes, size_t len)
{
	struct
	{
		SfHeader	header;
		SfHeaderMore more;
	}			page;
	SfHeaderMore more;
	const char *problem;

	if (len != sizeof(page))
		return "not of the length of a header";
	memcpy(&page, bytes, sizeof(page));
	more = page.more;
	/* as the server reads it: the extension is part of the page */
	problem = sf_format_page_problem(SF_PAGE_HEADER, &page);
	if (problem == NULL &&
		sf_format_header_more_problem(&page.header, bytes + sizeof(page.header)) != NULL)
		fuzz_stop("a page with a damaged extension was taken");
	if (problem != NULL || !(page.header.flags & SF_SEG_MORE))
		return problem;
	check_page(more.key_page);
	check_page(more.key_page_copy);
	check_page(more.share_head);
	check_page(more.advice_root);
	if ((more.key_page == 0) != (more.key_page_copy == 0))
		fuzz_stop("a key page without its copy was taken");
	return NULL;
}

static void
keep(uint16_t flags, SfHeaderMore more)
{
	SfHeader	header = {
		.total_sectors = 4096, .next_page = 30, .next_object_id = 1, .next_stamp = 1, .flags = flags
	};
	uint8_t		bytes[sizeof(header) + sizeof(more)];

	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), &more, sizeof(more));
	fuzz_keep(bytes, sizeof(bytes));
}

void
fuzz_seeds(void)
{
	keep(0, (SfHeaderMore) {9, 9, 9, 9, 9, 9, {9}});
	keep(SF_SEG_MORE, (SfHeaderMore) {0});
	keep(SF_SEG_MORE, (SfHeaderMore) {.key_page = 2, .key_page_copy = 3, .share_head = 4});
	keep(SF_SEG_MORE, (SfHeaderMore) {.key_page = 2, .key_page_copy = 2});
	keep(SF_SEG_MORE, (SfHeaderMore) {.key_page = 2});
	keep(SF_SEG_MORE | SF_SEG_UNLOGGED_DATA, (SfHeaderMore) {.advice_root = 9});
	keep(SF_SEG_MORE, (SfHeaderMore) {.dictionary = 5, .last_dictionary = 3});
	keep(SF_SEG_MORE, (SfHeaderMore) {.dictionary = 5});
	keep(SF_SEG_MORE, (SfHeaderMore) {.last_dictionary = SF_DICTIONARY_MAX + 1});
	keep(SF_SEG_MORE, (SfHeaderMore) {.reserved = {[39] = 1}});
}
