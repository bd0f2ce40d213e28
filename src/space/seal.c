/*-------------------------------------------------------------------------
 *
 * seal.c
 *	  What a page is: its type, and its seal, a checksum of our own over what
 *	  it says.
 *
 * What a page of a segment relation says decides what is written over and what
 * reads as zeros, and nothing else would tell a wrong bit in it where the
 * cluster has no data checksums.  The seal also covers which page of which
 * relation this is, so that a page in the place of another one is noticed.  It
 * cannot tell that a page is an older one of its own (see doc/proof.md).
 *
 * Each change of a page (page_change.c, copy.c) seals it again; a page whose seal
 * is broken stays so, also when redo changes it.  A seal of 0 is none: nothing
 * is known of that page, and it is believed.
 *
 * The upper half of a seal is the file number it was made for, in clear: after
 * pg_upgrade the storage may have another one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/pages.h"

/* Which page it is. */
typedef struct Place
{
	uint32		relnumber;
	uint32		page;
	uint32		type;
	uint32		version;
} Place;

/*
 * The version of the format, 0 of no page of ours.  Asked of any block that was read, so nothing
 * on it is believed yet.
 */
static uint16
version_of(Page page)
{
	const PageHeaderData *head = (const PageHeaderData *) page;
	const SfPageTrailer *trailer = sfi_page_trailer(page);

	if (PageGetPageSize(page) != BLCKSZ || head->pd_special != BLCKSZ - SF_PAGE_SPECIAL ||
		head->pd_upper != head->pd_special || head->pd_lower != head->pd_upper)
		return 0;
	return trailer->magic == SF_PAGE_MAGIC ? trailer->version : 0;
}

SfPageType
sfi_page_type(Page page)
{
	return version_of(page) == SF_PAGE_VERSION ? (SfPageType) sfi_page_trailer(page)->type : 0;
}

uint32
sfi_page_later_version(Page page)
{
	uint16		version = version_of(page);

	return version > SF_PAGE_VERSION ? version : 0;
}

uint32
sfi_seal_relnumber(Page page)
{
	return sfi_page_trailer(page)->seal >> 32;
}

/* Never 0, which means "no seal": no file has that number. */
uint64
sfi_seal_compute(Page page, uint32 relnumber, BlockNumber n)
{
	Place		place = {relnumber, n, sfi_page_type(page), SF_PAGE_VERSION};
	uint64		seed = sf_format_checksum(&place, sizeof(place), 0);
	SfPart		sealed = sf_format_page_sealed((SfPageType) place.type, PageGetContents(page));

	/* the count lies before the lent plane, and so apart from the used one */
	SF_ASSERT(sealed.offset + sealed.len <= SF_PAGE_CONTENT);
	if (place.type == SF_PAGE_MAP)
		seed ^= SfPageMap(page)->used_sectors;
	return (uint64) relnumber << 32 |
		(uint32) sf_format_checksum(PageGetContents(page) + sealed.offset, sealed.len, seed);
}

bool
sfi_seal_holds(Page page, uint32 relnumber, BlockNumber n)
{
	uint64		seal = sfi_page_trailer(page)->seal;

	return seal == 0 || seal == sfi_seal_compute(page, relnumber, n);
}

void
sfi_seal_put(Page page, uint32 relnumber, BlockNumber n)
{
	SF_ASSERT(sfi_page_type(page) != 0 && relnumber != 0);
	sfi_page_trailer(page)->seal = sfi_seal_compute(page, relnumber, n);
}
