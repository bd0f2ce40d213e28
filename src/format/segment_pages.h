/*-------------------------------------------------------------------------
 *
 * segment_pages.h
 *	  Pages of the segment relation.
 *
 * All are standard PostgreSQL pages: the 24-byte header (LSN, checksum), the
 * contents, and 16 bytes of special space at the end:
 *
 *	 offset	size	field
 *	 8176	4		magic 0x53464c31
 *	 8180	2		page type (SF_PAGE_*)
 *	 8182	2		page format version
 *	 8184	4		checksum of what the page says, which and whose page it is
 *	 8188	4		file number of the segment relation then; both 0: none
 *
 * Page 0 is the header; page 1 + 8k is space-map page k; all others are
 * dynamic: pending, inode, free, or one of those of key.h, share.h, dictionary.h and
 * removed.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SEGMENT_PAGES_H
#define SF_SEGMENT_PAGES_H

#include "format/format.h"

#define SF_PAGE_MAGIC			0x53464c31
#define SF_PAGE_VERSION			1
#define SF_PAGE_OFFSET			24	/* contents start here */
#define SF_PAGE_SPECIAL			16
#define SF_PAGE_CONTENT			(8192 - SF_PAGE_OFFSET - SF_PAGE_SPECIAL)

typedef enum SfPageType
{
	SF_PAGE_HEADER = 1,
	SF_PAGE_MAP,
	SF_PAGE_PENDING,
	SF_PAGE_INODE,
	SF_PAGE_FREE,
	SF_PAGE_KEYS,
	SF_PAGE_SHARE,
	SF_PAGE_ADVICE_BUCKET,
	SF_PAGE_DICTIONARY,
	SF_PAGE_REMOVED,
} SfPageType;

typedef struct SfPageTrailer
{
	uint32_t	magic;
	uint16_t	type;
	uint16_t	version;
	uint64_t	seal;
} SfPageTrailer;

#define SF_MAP_STRIDE			8
#define SF_MAP_PAGE(k)			(1 + (uint32_t) (k) * SF_MAP_STRIDE)
#define SF_IS_MAP_PAGE(p)		((p) != 0 && ((p) - 1) % SF_MAP_STRIDE == 0)
#define SF_NO_PAGE				UINT32_MAX

/* Can a page be a dynamic one? */
static inline bool
sf_is_dynamic_page(uint32_t page)
{
	return page != 0 && page != SF_NO_PAGE && !SF_IS_MAP_PAGE(page);
}

/*
 * Header page contents
 *
 *	 0	8	incarnation: random, new at every creation of the storage
 *	 8	8	creator: full transaction id that made this storage
 *	 16	8	next object id
 *	 24	8	sectors of data files
 *	 32	8	kept from: object ids below it are of a time before the cluster was
 *			restored; their data is here only if it is in WAL or in the backup
 *	 40	4	OID of the table
 *	 44	2	attribute number
 *	 46	2	flags (SF_SEG_*)
 *	 48	4	first free dynamic page, or SF_NO_PAGE
 *	 52	4	first pending page, or SF_NO_PAGE
 *	 56	4	last pending page, or SF_NO_PAGE
 *	 60	4	next dynamic page never used yet
 *	 64	8	next stamp of an inode page
 *	 72	8	restore id: that of the cluster when "kept from" was set
 *	 80	16	secret: random, new at every creation; the key of the locators
 *	 96	4	key page; here and below 0 stands for "no page"
 *	 100	4	its copy
 *	 104	4	first share page
 *	 108	4	first bucket of the advice on duplicates
 *	 112	4	first page of the newest dictionary
 *	 116	4	highest number that a dictionary has ever had
 *	 120	8	sectors that history pages keep, without shared objects, and their own
 *	 128	4	first history page
 *	 132	4	last history page
 *	 136	8	nothing that was removed until then is kept any more, in microseconds since
 *			2000-01-01 UTC
 *	 144	8	nor what transactions with full ids below that one have removed
 *	 152	4	first page of records of removed values
 *	 156	4	last page of them
 *	 160	4	first page of them that has a transaction whose end is not noted
 *	 164	4	number of pages of records of removed values
 *	 168	8	sectors of shared objects that history pages keep: these, or more
 *	 176	4	number of free dynamic pages
 *	 180	4	reserved, 0
 */
typedef struct SfHeader
{
	uint64_t	incarnation;
	uint64_t	creator_fxid;
	uint64_t	next_object_id;
	uint64_t	total_sectors;
	uint64_t	kept_from_id;
	uint32_t	table_oid;
	int16_t		attnum;
	uint16_t	flags;
	uint32_t	free_head;
	uint32_t	pending_head;
	uint32_t	pending_tail;
	uint32_t	next_page;
	uint64_t	next_stamp;
	uint64_t	restore_id;
	SfSecret	secret;
	uint32_t	key_page;
	uint32_t	key_page_copy;
	uint32_t	share_head;
	uint32_t	advice_root;
	uint32_t	dictionary;
	uint32_t	last_dictionary;
	uint64_t	kept_sectors;
	uint32_t	history_head;
	uint32_t	history_tail;
	int64_t		ended_us;
	uint64_t	ended_fxid;
	uint32_t	removed_head;
	uint32_t	removed_tail;
	uint32_t	removed_unknown;
	uint32_t	removed_pages;
	uint64_t	kept_shared_sectors;
	uint32_t	free_pages;
	uint32_t	reserved;
} SfHeader;

#define SF_SEG_UNLOGGED_DATA	0x0001	/* filesystem_like_logging */
#define SF_SEG_KNOWN_FLAGS		SF_SEG_UNLOGGED_DATA

/*
 * Object ids and stamps count up from 1, and no segment lives long enough to come this
 * far.  So a sum with one of them cannot overflow, and a number above is damage.
 */
#define SF_NUMBER_MAX			((uint64_t) 1 << 62)

/* Stamps from here on are not counted: they authenticate pages of KEYED objects. */
#define SF_KEYED_STAMP			((uint64_t) 1 << 61)

/*
 * Space-map page contents: 32768 sectors (16 MB) each
 *
 *	 0		8		boot id for which the lent plane holds; not logged
 *	 8		8		LSN of the last record that cleared bits here; not logged
 *	 16		4		number of used sectors
 *	 20		4		reserved, 0
 *	 24		512		lent plane: a bit a block, lent to a backend; not logged
 *	 536	4096	used plane: a bit a sector, in use or pending
 */

typedef struct SfMap
{
	uint64_t	boot_id;
	uint64_t	cleared_lsn;
	uint32_t	used_sectors;
	uint32_t	reserved;
	uint8_t		lent[SF_MAP_BLOCKS / 8];
	uint8_t		used[SF_MAP_SECTORS / 8];	/* a byte is a block */
} SfMap;

/* Sectors of one space-map page; all that there are must end within it. */
typedef struct SfMapRange
{
	uint16_t	first;			/* sector within the map page */
	uint16_t	count_minus_1;
} SfMapRange;

/* Set or clear bits of the used plane, and count them; ask for all of a range. */
extern void sf_format_map_set(SfMap *map, SfMapRange range);
extern void sf_format_map_clear(SfMap *map, SfMapRange range);
extern bool sf_format_map_all_used(const SfMap *map, SfMapRange range);
extern bool sf_format_map_none_used(const SfMap *map, SfMapRange range);

/* A segment has no more sectors than it can have map pages for. */
#define SF_MAX_SECTORS			((uint64_t) (UINT32_MAX / SF_MAP_STRIDE) * SF_MAP_SECTORS)

/*
 * Pending page contents: uncommitted free space, a queue of pages; or space of removed
 * values that is kept for a time, a list of history pages.  A history page is put into the
 * queue when its time is over, and keeps what it says.
 *
 *	 0	4	next page of the list, or SF_NO_PAGE
 *	 4	2	number of entries
 *	 6	2	reserved, 0
 *	 8	8	history page: when its first entry came, in microseconds since 2000-01-01 UTC;
 *			else 0
 *	 16	8	when its last entry came
 *	 24	8	sectors that its entries keep, without shared objects, and its own
 *	 32	8	of each shared object that an entry refers to, its part
 *	 40	24 x n	entries:
 *		 0	8	full id of the top-level transaction
 *		 8	8	first sector, or page number; kinds 5 to 8: share page (4), cell of its record
 *				(2), low half-word of the object id (2)
 *		 16	4	number of sectors, of pages (1), or of references (SHARE_NEW: 1); REAP: how
 *				many runs and pages of the object are in the queue already
 *		 20	1	kind (SF_PEND_*)
 *		 21	1	outcome (SF_OUTCOME_*)
 *		 22	2	reserved, 0
 */
typedef enum SfPendKind
{
	SF_PEND_ALLOC = 1,			/* run: free it if the transaction failed */
	SF_PEND_FREE,				/* run: free it if the transaction committed */
	SF_PEND_ALLOC_PAGE,			/* inode page: likewise */
	SF_PEND_FREE_PAGE,
	SF_PEND_SHARE_NEW,			/* share record: rows have it from now on, or
								 * it goes */
	SF_PEND_REF_ADD,			/* references: take them back if the
								 * transaction failed */
	SF_PEND_REF_DROP,			/* references: take them away if it committed */
	SF_PEND_REAP,				/* share record that is dead: its space goes */
	SF_PEND_FREE_NOW,			/* as FREE and FREE_PAGE, of what no retention
								 * has to keep */
	SF_PEND_FREE_PAGE_NOW,
	SF_PEND_REF_DROP_NOW,		/* as REF_DROP, likewise */
} SfPendKind;

/* What is to be known of a kind of entries; kinds.c has a row for each. */
typedef struct SfPendKindInfo
{
	const char *name;			/* NULL: there is no such kind */
	bool		is_alloc;		/* frees if the transaction failed, else if it
								 * committed */
	bool		is_page;		/* names a page */
	bool		is_share;		/* names a share record; if neither: a run of
								 * sectors */
	bool		is_kept;		/* a column with a retention keeps what it
								 * names */
} SfPendKindInfo;

/* The row of a kind, of whatever number; an unknown kind has no name. */
extern const SfPendKindInfo *sf_format_pend_kind(uint8_t kind);

typedef enum SfOutcome
{
	SF_OUTCOME_UNKNOWN = 0,
	SF_OUTCOME_COMMITTED,
	SF_OUTCOME_KEPT,			/* committed, and kept for its time, or never
								 * to be kept */
} SfOutcome;

typedef struct SfPendEntry
{
	uint64_t	fxid;
	uint64_t	start;
	uint32_t	count;
	uint8_t		kind;
	uint8_t		outcome;
	uint16_t	reserved;
} SfPendEntry;

/* What a history page says of its entries. */
typedef struct SfHistory
{
	int64_t		first_us;
	int64_t		last_us;
	uint64_t	sectors;
	uint64_t	shared_sectors;
} SfHistory;

typedef struct SfPending
{
	uint32_t	next;
	uint16_t	nentries;
	uint16_t	reserved;
	SfHistory	history;
	SfPendEntry entries[];
} SfPending;

/* Does an entry of that kind name a run of sectors? */
static inline bool
sf_pend_is_run(uint8_t kind)
{
	const SfPendKindInfo *info = sf_format_pend_kind(kind);

	return info->name != NULL && !info->is_page && !info->is_share;
}

/* Transaction ids below it, of whatever epoch, are none. */
#define SF_FIRST_XID			3

#define SF_PENDING_MAX \
	((SF_PAGE_CONTENT - offsetof(SfPending, entries)) / sizeof(SfPendEntry))

/*
 * Inode page contents: a node of an object's unit map.  Every node but the last
 * of its level is full, and the depth is the least that holds all units.
 *
 *	 0	8	object id
 *	 8	8	stamp, repeated in the pointer to this page
 *	 16	8	number of the first unit below this page
 *	 24	2	level: 0 leaf
 *	 26	2	number of entries
 *	 28	4	reserved, 0
 *	 32		leaf: 24 x n units (SfUnit); inner: 16 x n children (SfChild)
 *	 8144	8	root: whose the map is (share.h); else 0
 *
 * Or a node of the list of its pieces, which levels from 256 on tell.  A leaf has as many entries
 * as it happens to have.
 *
 *	 16	8	0
 *	 24	2	level: 256 leaf, 257 root above leaves
 *	 32		leaf: 16 x n pieces (SfRange); root: 24 x n leaves (SfListChild)
 */
typedef struct SfChild
{
	uint64_t	stamp;
	uint32_t	page;			/* SF_NO_PAGE: a hole */
	uint32_t	reserved;
} SfChild;

/* A range of the unit space, in bytes. */
typedef struct SfRange
{
	uint64_t	start;
	uint64_t	length;			/* above 0 */
} SfRange;

/* A leaf of a list of pieces, and how many bytes of the value these are. */
typedef struct SfListChild
{
	uint64_t	stamp;
	uint64_t	bytes;
	uint32_t	page;
	uint32_t	reserved;
} SfListChild;

typedef struct SfInode
{
	uint64_t	object_id;
	uint64_t	stamp;
	uint64_t	first_unit;
	uint16_t	level;
	uint16_t	nentries;
	uint32_t	reserved;
	union
	{
		SfUnit		units[1];
		SfChild		children[1];
		SfRange		pieces[1];
		SfListChild leaves[1];
	}			u;
} SfInode;

#define SF_INODE_HEADER			offsetof(SfInode, u)
#define SF_INODE_MAX_UNITS		((SF_PAGE_CONTENT - SF_INODE_HEADER) / sizeof(SfUnit))
#define SF_INODE_MAX_CHILDREN	((SF_PAGE_CONTENT - SF_INODE_HEADER) / sizeof(SfChild))

#define SF_LIST_LEVEL			256 /* of leaves of a list of pieces */
#define SF_LIST_MAX_PIECES		((SF_PAGE_CONTENT - SF_INODE_HEADER) / sizeof(SfRange))
#define SF_LIST_MAX_LEAVES		((SF_PAGE_CONTENT - SF_INODE_HEADER) / sizeof(SfListChild))

/* Is a node one of a list of pieces? */
static inline bool
sf_inode_is_list(const SfInode *inode)
{
	return inode->level >= SF_LIST_LEVEL;
}

/* Bytes of an entry of a node of a level, and how many of them it has room for. */
static inline size_t
sf_inode_entry_bytes(uint16_t level)
{
	return level == 0 ? sizeof(SfUnit) : level < SF_LIST_LEVEL ? sizeof(SfChild) :
		level == SF_LIST_LEVEL ? sizeof(SfRange) : sizeof(SfListChild);
}

static inline uint32_t
sf_inode_room(uint16_t level)
{
	return (uint32_t) ((SF_PAGE_CONTENT - SF_INODE_HEADER) / sf_inode_entry_bytes(level));
}

/* Inode trees have at most this many levels: they hold more than INT64_MAX bytes. */
#define SF_INODE_MAX_DEPTH		6

/* A free dynamic page: page number of the next one (4), or SF_NO_PAGE. */
typedef struct SfFreePage
{
	uint32_t	next;
} SfFreePage;

/*
 * What is wrong with the contents of a page of a type, as far as a look at their
 * fixed part tells, such that code that goes by them would leave the page; NULL
 * when nothing is.  The fixed part is an SfHeader, or what comes before the entries.
 */
extern const char *sf_format_page_problem(SfPageType type, const void *content);

/* Part of the contents of a page: bytes [offset, offset + len). */
typedef struct SfPart
{
	size_t		offset;
	size_t		len;
} SfPart;

/*
 * The part that the seal of a page covers: neither bytes that mean nothing, nor those
 * that are changed without a record.  Of any contents; len 0 if the type is unknown, or
 * if the page is such that it has no part.
 */
extern SfPart sf_format_page_sealed(SfPageType type, const void *content);

/* The same for a pointer of an inode page to another one, which has a node below it. */
extern const char *sf_format_child_problem(const SfChild *child);

/* The same for an entry of a pending page. */
extern const char *sf_format_entry_problem(const SfPendEntry *entry);

#endif							/* SF_SEGMENT_PAGES_H */
