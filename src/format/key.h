/*-------------------------------------------------------------------------
 *
 * key.h
 *	  Key pages of the segment relation, byte by byte.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_KEY_H
#define SF_FORMAT_KEY_H

#include "format/segment_pages.h"

/*
 * Key page contents: the data keys of a column, each wrapped with a master key.  A segment
 * with keys has two such pages, which say the same, since a key that is lost takes all of
 * its values along.  Entries are added behind the last one, and never removed.
 *
 * The mark says that a transaction has shredded the column: if it commits, the first so
 * many keys are gone, and their bytes are overwritten after that.
 *
 *	 0	4	number of entries
 *	 4	4	mark: how many of them are shredded; 0 without a mark
 *	 8	8	mark: full id of the transaction, or of the subtransaction; 0 without a mark
 *	 16	128 x n	entries:
 *		 0	2	key id: 1, 2, .., as locators have it
 *		 2	1	purpose (SfKeyPurpose)
 *		 3	1	state (SfKeyState)
 *		 4	1	cipher of what the key encrypts (SfCipher)
 *		 5	1	how it is wrapped: 1, XChaCha20-Poly1305
 *		 6	2	reserved, 0
 *		 8	8	when it was made, in microseconds since 2000-01-01
 *		 16	32	name of the master key, with zeros behind it
 *		 48	8	check value of the master key
 *		 56	24	nonce
 *		 80	32	the key, encrypted
 *		 112	16	tag; it covers bytes 0 to 15, too, and whose segment this is
 */
typedef enum SfKeyPurpose
{
	SF_KEY_DATA = 1,			/* encrypts units and values in rows */
	SF_KEY_HASH,				/* hashes contents; nothing makes it yet */
} SfKeyPurpose;

typedef enum SfKeyState
{
	SF_KEY_USABLE = 1,			/* the last one of its purpose is for new
								 * values */
	SF_KEY_OLD,					/* for values that there are */
	SF_KEY_DISTRUSTED,			/* the same, and no version of a value may
								 * share units of it */
	SF_KEY_DESTROYED,			/* shredded: there are zeros from the check
								 * value of the master key on */
} SfKeyState;

#define SF_KEY_WRAP_XCHACHA20	1
#define SF_MASTER_NAME_SIZE		32	/* with the zero at its end */
#define SF_MASTER_CHECK_SIZE	8

typedef struct SfWrappedKey
{
	uint16_t	key_id;
	uint8_t		purpose;
	uint8_t		state;
	uint8_t		cipher;
	uint8_t		wrap;
	uint16_t	reserved;
	uint64_t	created;
	char		master[SF_MASTER_NAME_SIZE];
	uint8_t		master_check[SF_MASTER_CHECK_SIZE];
	uint8_t		nonce[24];
	uint8_t		wrapped[32];
	uint8_t		tag[16];
} SfWrappedKey;

#define SF_DATA_KEYS_MAX				63

typedef struct SfKeyPage
{
	uint32_t	nentries;
	uint32_t	shred_count;
	uint64_t	shred_fxid;
	SfWrappedKey entries[SF_DATA_KEYS_MAX];
} SfKeyPage;

/* What is used of a key page that is sound. */
static inline size_t
sf_key_page_size(const SfKeyPage *page)
{
	return offsetof(SfKeyPage, entries) + page->nentries * sizeof(SfWrappedKey);
}

/* Does the page's mark cover a key?  False if there is no mark. */
static inline bool
sf_key_is_marked(const SfKeyPage *page, const SfWrappedKey *entry)
{
	return entry->purpose == SF_KEY_DATA && entry->key_id <= page->shred_count;
}

/*
 * What is wrong with the entries of a key page, as far as can be told without a master key;
 * NULL when nothing is.  The page has as many as it says.
 */
extern const char *sf_format_keys_problem(const SfKeyPage *page);

#endif							/* SF_FORMAT_KEY_H */
