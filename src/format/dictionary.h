/*-------------------------------------------------------------------------
 *
 * dictionary.h
 *	  Dictionary pages of the segment relation, byte by byte.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_DICTIONARY_H
#define SF_FORMAT_DICTIONARY_H

#include "format/segment_pages.h"

/*
 * Dictionary page contents.  The pages of a dictionary form a list, and each of them leads
 * to the dictionary before, too.  Only a repair changes them: it makes the list anew.
 *
 *	 0	8	XXH3-64 of all of the dictionary
 *	 8	4	number of the dictionary: 1, 2, ..
 *	 12	4	its length
 *	 16	4	where in it the bytes of this page belong
 *	 20	4	next page of the dictionary, or SF_NO_PAGE
 *	 24	4	first page of the dictionary before, or SF_NO_PAGE
 *	 28	4	reserved, 0
 *	 32		bytes
 */
typedef struct SfDictionaryPage
{
	uint64_t	check;
	uint32_t	number;
	uint32_t	len;
	uint32_t	offset;
	uint32_t	next;
	uint32_t	before;
	uint32_t	reserved;
	uint8_t		bytes[];
} SfDictionaryPage;

#define SF_DICTIONARY_MAX_BYTES	(32 * 1024)
#define SF_DICTIONARY_MAX		255 /* numbers; a frame names one by a byte */
#define SF_DICTIONARY_PART		(SF_PAGE_CONTENT - sizeof(SfDictionaryPage))
#define SF_DICTIONARY_PAGES \
	((SF_DICTIONARY_MAX_BYTES + SF_DICTIONARY_PART - 1) / SF_DICTIONARY_PART)

/* How many bytes of its dictionary a page has; of a page that is sound. */
static inline uint32_t
sf_dictionary_part(const SfDictionaryPage *page)
{
	uint32_t	rest = page->len - page->offset;

	return rest < SF_DICTIONARY_PART ? rest : (uint32_t) SF_DICTIONARY_PART;
}

#endif							/* SF_FORMAT_DICTIONARY_H */
