/*-------------------------------------------------------------------------
 *
 * header.c
 *	  Damaged header pages of segments are refused with a reason, or name pages that
 *	  there can be.
 *
 * An input is an SfHeader.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/dictionary.h"
#include "format/segment_pages.h"
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
	SfHeader	header;
	const char *problem;

	if (len != sizeof(header))
		return "not of the length of a header";
	memcpy(&header, bytes, sizeof(header));
	problem = sf_format_page_problem(SF_PAGE_HEADER, &header);
	if (problem != NULL)
		return problem;
	check_page(header.key_page);
	check_page(header.key_page_copy);
	check_page(header.share_head);
	check_page(header.advice_root);
	check_page(header.dictionary);
	if ((header.key_page == 0) != (header.key_page_copy == 0))
		fuzz_stop("a key page without its copy was taken");
	return NULL;
}

static void
keep(SfHeader header)
{
	header.total_sectors = 4096;
	header.next_page = 30;
	header.next_object_id = header.next_stamp = 1;
	fuzz_keep((const uint8_t *) &header, sizeof(header));
}

void
fuzz_seeds(void)
{
	keep((SfHeader) {0});
	keep((SfHeader) {.flags = SF_SEG_KNOWN_FLAGS + 1});
	keep((SfHeader) {.key_page = 2, .key_page_copy = 3, .share_head = 4});
	keep((SfHeader) {.key_page = 2, .key_page_copy = 2});
	keep((SfHeader) {.key_page = 2});
	keep((SfHeader) {.flags = SF_SEG_UNLOGGED_DATA, .advice_root = 9});
	keep((SfHeader) {.dictionary = 5, .last_dictionary = 3});
	keep((SfHeader) {.dictionary = 5});
	keep((SfHeader) {.last_dictionary = SF_DICTIONARY_MAX + 1});
}
