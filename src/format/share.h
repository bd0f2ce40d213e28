/*-------------------------------------------------------------------------
 *
 * share.h
 *	  What columns that deduplicate keep in pages of the segment relation, byte by
 *	  byte: share records, and advice on where a content may be stored already.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_SHARE_H
#define SF_FORMAT_SHARE_H

#include "format/segment_pages.h"

/* ---------------------------------------------------------------------
 * Share page contents: share records, each in one or more cells in a row
 *
 *	 0	4	next share page, or SF_NO_PAGE
 *	 4	4	reserved, 0
 *	 8	16	used plane: a bit a cell; the last two bits are 0
 *	 24	64 x 126	cells
 *
 * A share record stands for an object whose space no row owns, since several rows may
 * have it.  Each of them has a locator with SHARED, which names the record.
 *
 *	 0	8	object id
 *	 8	8	full id of the top-level transaction that stored the object
 *	 16	4	references: rows that some snapshot may still see, and transactions
 *			that are about to have one
 *	 20	2	state (SfShareState)
 *	 22	2	key id, as in the locator
 *	 24	16	hash of the plain bytes
 *	 40	8	hash of the first unit; 0 if there is no other
 *	 48	8	length of the value in bytes
 *	 56	1	compression of the column then (its option), or 255: nobody knows
 *	 57	1	how it was hashed (SfShareHash); 0: the hashes mean nothing
 *	 58	2	length of the locator
 *	 60	4	blocks that are stored
 *	 64	n	the locator, without its SHARED part, tag and SipHash at its end.  It has the
 *			SHA-256 of a HASHED value, which all references repeat: also an encrypted one, as
 *			that belongs to the object, its generation and key, which are theirs, too
 * ---------------------------------------------------------------------
 */
#define SF_SHARE_CELL_SIZE		64
#define SF_SHARE_COMPRESSION_UNKNOWN	255 /* of a record that a repair has
											 * made */
#define SF_CONTENT_HASH_BYTES	16

typedef enum SfShareState
{
	SF_SHARE_RESERVED = 1,		/* its transaction runs; no row has it yet */
	SF_SHARE_NEW,				/* if its transaction commits, rows have it */
	SF_SHARE_LIVE,				/* rows have it */
	SF_SHARE_DEAD,				/* nobody can have it; its space is given back */
} SfShareState;

typedef enum SfShareHash
{
	SF_SHARE_HASH_NONE,
	SF_SHARE_HASH_XXH3,			/* XXH3-128 */
	SF_SHARE_HASH_KEYED,		/* a MAC of that, under a subkey of the data
								 * key */
} SfShareHash;

typedef struct SfShareRecord
{
	uint64_t	object_id;
	uint64_t	maker_fxid;
	uint32_t	references;
	uint16_t	state;
	uint16_t	key_id;
	uint8_t		hash[SF_CONTENT_HASH_BYTES];
	uint64_t	prefix_hash;
	uint64_t	length_bytes;
	uint8_t		compression;
	uint8_t		hash_method;
	uint16_t	locator_bytes;
	uint32_t	stored_blocks;
	uint8_t		locator[];
} SfShareRecord;

typedef struct SfSharePage
{
	uint32_t	next;
	uint32_t	reserved;
	uint8_t		used[16];
	uint8_t		cells[SF_SHARE_CELLS][SF_SHARE_CELL_SIZE];
} SfSharePage;

/*
 * The longest locator that a record can have: none is made that does not fit with SHARED.  A
 * kept hash counts as a part of it.
 */
#define SF_SHARE_LOCATOR_MAX \
	(SF_LOCATOR_MAX_SIZE - SF_LOCATOR_SHARED_SIZE - SF_LOCATOR_MAC_SIZE)
#define SF_SHARE_RECORD_MAX		(SF_SHARE_CELL_SIZE + SF_SHARE_LOCATOR_MAX)

static inline uint32_t
sf_share_record_size(const SfShareRecord *record)
{
	return (uint32_t) sizeof(SfShareRecord) + record->locator_bytes;
}

static inline uint32_t
sf_share_cells_of(uint32_t record_bytes)
{
	return (record_bytes + SF_SHARE_CELL_SIZE - 1) / SF_SHARE_CELL_SIZE;
}

/* Cells of a record; those that have none (NULL) are looked at one by one. */
static inline uint32_t
sf_share_record_cells(const SfShareRecord *record)
{
	return record == NULL ? 1 : sf_share_cells_of(sf_share_record_size(record));
}

static inline bool
sf_share_is_used(const SfSharePage *page, uint32_t cell)
{
	return page->used[cell / 8] >> cell % 8 & 1;
}

/*
 * The record that begins at a cell of a page, or NULL if none does, or one that cannot be:
 * its cells lie on the page and are used, and its fields are possible.
 */
extern const SfShareRecord *sf_format_share_record(const SfSharePage *page, uint32_t cell);

/* What is wrong with a record of so many bytes, by itself; NULL when nothing is. */
extern const char *sf_format_share_problem(const SfShareRecord *record, size_t len);

/*
 * A run of the object of a record, by number; false when there are no more.  One with a map
 * in inode pages has none here.
 */
extern bool sf_format_share_run(const SfShareRecord *record, uint32_t i, SfRun *run);

extern bool sf_format_share_has_inodes(const SfShareRecord *record);

/* The first cell of n free ones in a row, or -1. */
extern int	sf_format_share_find_free(const SfSharePage *page, uint32_t n);

/*
 * Where a record is: what pending entries, and locators with SHARED, name.  In an entry it
 * stands with the low part of the object's id, so that one that is left over from another
 * record is told.
 */
typedef struct SfShareId
{
	uint32_t	page;
	uint16_t	cell;
	uint16_t	low_id;			/* low half-word of the object id */
} SfShareId;

static inline uint64_t
sf_share_to_start(SfShareId id)
{
	return (uint64_t) id.page | (uint64_t) id.cell << 32 | (uint64_t) id.low_id << 48;
}

static inline SfShareId
sf_share_of_start(uint64_t start)
{
	return (SfShareId) {(uint32_t) start, (uint16_t) (start >> 32), (uint16_t) (start >> 48)};
}

/* Can there be a record? */
static inline bool
sf_share_is_possible(SfShareId id)
{
	return sf_is_dynamic_page(id.page) && id.cell < SF_SHARE_CELLS;
}

/* Does the object keep the SHA-256 of its value? */
extern bool sf_format_share_is_hashed(const SfShareRecord *record);

/* The record that a locator with SHARED refers to. */
static inline SfShareId
sf_share_id_of(const SfLocator *loc)
{
	return (SfShareId) {loc->share.page, loc->share.cell, (uint16_t) loc->object_id};
}

/*
 * The locator of a record from that of a value (SF_SHARE_LOCATOR_MAX bytes at dst), and the
 * locator of a reference to a record (SF_LOCATOR_MAX_SIZE bytes at dst; a KEYED one has a
 * tag of zeros, as from sf_format_locator_encode_flat()).  Both return the length; 0: it
 * would be too long.
 */
extern size_t sf_format_share_locator(uint8_t *dst, const SfLocator *loc);
extern size_t sf_format_reference(uint8_t *dst, const SfShareRecord *record, SfShareId id,
								  uint64_t reference_id, const SfSecret *secret);

/* ---------------------------------------------------------------------
 * Owner's mark, at the end of an inode page that is the root of a map: the owner of the map,
 * when a value that is no reference is to be copied without its bytes.  A root without a mark
 * is not copied so; one that has become part of a larger map has a mark that nobody asks.
 *
 *	 bits 62-63	kind (SfMarkKind)
 *	 bits 0-61	OWNED, TAKEN: full id of a top-level transaction
 *				SHARED: share page (32 bits), cell (16 bits)
 * ---------------------------------------------------------------------
 */
typedef enum SfMarkKind
{
	SF_MARK_NONE,
	SF_MARK_OWNED,				/* if that transaction has committed, a row
								 * has it */
	SF_MARK_TAKEN,				/* unless it has failed, the row loses it */
	SF_MARK_SHARED,				/* a share record owns it */
} SfMarkKind;

#define SF_MARK_OFFSET			(SF_PAGE_CONTENT - sizeof(uint64_t))
#define SF_MARK_KIND_BIT		62

static inline uint64_t
sf_mark(SfMarkKind kind, uint64_t value)
{
	return (uint64_t) kind << SF_MARK_KIND_BIT | value;
}

static inline SfMarkKind
sf_mark_kind(uint64_t mark)
{
	return (SfMarkKind) (mark >> SF_MARK_KIND_BIT);
}

static inline uint64_t
sf_mark_value(uint64_t mark)
{
	return mark & (((uint64_t) 1 << SF_MARK_KIND_BIT) - 1);
}

/* The mark of a map that a record owns, and the record that a SHARED mark names. */
static inline uint64_t
sf_mark_of_share(SfShareId id)
{
	return sf_mark(SF_MARK_SHARED, (uint64_t) id.page | (uint64_t) id.cell << 32);
}

static inline SfShareId
sf_mark_share_id(uint64_t mark, uint64_t object_id)
{
	return (SfShareId) {(uint32_t) mark, (uint16_t) (mark >> 32), (uint16_t) object_id};
}

/* What is wrong with a mark; NULL when nothing is. */
extern const char *sf_format_mark_problem(uint64_t mark);

/* ---- changes of share pages (change.h) ---- */

/* SF_OP_SHARE_PUT: this, and the bytes of a record, which goes to free cells. */
typedef struct SfSharePut
{
	uint16_t	cell;
	uint16_t	reserved;		/* 0 */
} SfSharePut;

/* SF_OP_SHARE_SET: of the record at a cell. */
typedef struct SfShareSet
{
	uint16_t	cell;
	uint16_t	state;
	uint32_t	references;
} SfShareSet;

/* SF_OP_SHARE_CLEAR: cells become free. */
typedef struct SfShareClear
{
	uint16_t	cell;
	uint16_t	ncells;
} SfShareClear;

/* SF_OP_PEND_PUT: an entry takes the place of another one. */
typedef struct SfPendPut
{
	SfPendEntry entry;
	uint16_t	index;
	uint16_t	reserved[3];	/* 0 */
} SfPendPut;

extern void sf_format_share_put(SfSharePage *page, uint32_t cell, const void *record, size_t len);
extern void sf_format_share_set(SfSharePage *page, SfShareSet set);
extern void sf_format_share_clear(SfSharePage *page, SfShareClear clear);

/* ---------------------------------------------------------------------
 * Advice: a hash index of share records by extendible hashing (Fagin, Nievergelt, Pippenger,
 * Strong, 1979), with links from bucket to bucket in place of a directory.  It is never believed:
 * what it leads to is looked at.  So nothing is lost with an entry that is lost, and a bucket
 * that is full drops its oldest one.
 *
 * A bucket of depth d has the entries whose key mod 2^d is its number.  When it is split, its
 * depth becomes d + 1, and the entries with bit d go to a new bucket, whose number has that bit,
 * too, and which has the same depth.  Bucket 0 is there from the beginning.  So all keys begin
 * at bucket 0, and each bit that is set leads on, as far as there are buckets:
 *
 *	 bucket 0 (depth 3) --bit 0--> 1 (2) --bit 1--> 3 (2)
 *		 |  |
 *		 |  +--bit 1--> 2 (3) --bit 2--> 6 (3)
 *		 +--bit 2--> 4 (3)
 *
 * The key of an entry is the hash of the first unit, of a content that has more, and else the
 * hash of all bytes.  Of one first unit SF_ADVICE_SAME_MAX entries have that key.  The oldest of
 * them, when another one comes, is moved: its key is the hash of all bytes from then on.
 *
 *	 0	4	number of the bucket
 *	 4	2	number of entries
 *	 6	1	depth
 *	 7	1	reserved, 0
 *	 8	4 x 32	pages of the buckets that were split off, by the bit; 0: none
 *	 136	24 x n	entries, the oldest one first
 *		 0	8	key
 *		 8	8	first 8 bytes of the hash of all bytes
 *		 16	4	share page
 *		 20	2	cell
 *		 22	2	reserved, 0
 * ---------------------------------------------------------------------
 */
typedef enum SfAdviceKind
{
	SF_ADVICE_FULL = 1,			/* the key is the hash of all bytes */
	SF_ADVICE_PREFIX,			/* the key is the hash of the first unit */
} SfAdviceKind;

typedef struct SfAdvice
{
	uint64_t	key;
	uint64_t	full;
	uint32_t	page;
	uint16_t	cell;
	uint16_t	reserved;
} SfAdvice;

#define SF_ADVICE_DEPTH_MAX		32
#define SF_ADVICE_BUCKET_MAX	((SF_PAGE_CONTENT - 136) / sizeof(SfAdvice))
#define SF_ADVICE_SAME_MAX		4	/* entries of one key and kind */

typedef struct SfAdviceBucket
{
	uint32_t	number;
	uint16_t	nentries;
	uint8_t		depth;
	uint8_t		reserved;
	uint32_t	pages[SF_ADVICE_DEPTH_MAX];
	SfAdvice	entries[SF_ADVICE_BUCKET_MAX];
} SfAdviceBucket;

/* The number of the bucket, of so many bits, that a key belongs to. */
static inline uint32_t
sf_advice_number(uint64_t key, int depth)
{
	return (uint32_t) (key & (((uint64_t) 1 << depth) - 1));
}

static inline SfAdviceKind
sf_advice_kind(const SfAdvice *entry)
{
	return entry->key == entry->full ? SF_ADVICE_FULL : SF_ADVICE_PREFIX;
}

static inline uint32_t
sf_advice_bucket_size(const SfAdviceBucket *bucket)
{
	return (uint32_t) (offsetof(SfAdviceBucket, entries) + bucket->nentries * sizeof(SfAdvice));
}

/*
 * What is wrong, NULL when nothing is: with an entry; with a bucket of that number, its links
 * and its entries.  The bucket is sound as sf_format_page_problem() has it.
 */
extern const char *sf_format_advice_problem(const SfAdvice *entry);
extern const char *sf_format_advice_bucket_problem(const SfAdviceBucket *bucket, uint32_t number);

/*
 * The bit of a key that leads on from a bucket whose number has the bits below it; -1: the key
 * belongs to the bucket itself.
 */
extern int	sf_format_advice_next(const SfAdviceBucket *bucket, uint64_t key);

/*
 * has: is an entry there, by its value?  find: those of a key and kind, the newest one first
 * (SF_ADVICE_SAME_MAX at found); returns how many.
 */
extern bool sf_format_advice_has(const SfAdviceBucket *bucket, const SfAdvice *entry);
extern int	sf_format_advice_find(const SfAdviceBucket *bucket, uint64_t key, SfAdviceKind kind,
								  SfAdvice *found);

/*
 * Which entry goes when another one, which is not there, is added?  False: none does.
 */
extern bool sf_format_advice_dropped(const SfAdviceBucket *bucket, const SfAdvice *entry,
									 SfAdvice *dropped);

/* The bucket that a split makes beside one; they keep the order of entries. */
extern void sf_format_advice_half(const SfAdviceBucket *bucket, SfAdviceBucket *half);

/*
 * ---- changes of pages of the advice (change.h) ----
 *
 * SF_OP_ADVICE_ADD: an entry, which is not there, becomes the newest one.  If there are
 * SF_ADVICE_SAME_MAX of its key and kind the oldest of these goes, and else, if the bucket is full,
 * the oldest entry.
 * SF_OP_ADVICE_REMOVE: an entry goes, if it is there.
 * SF_OP_ADVICE_SPLIT: the number of a page (4 bytes), to which the half of the bucket goes.
 */

#endif							/* SF_FORMAT_SHARE_H */
