/*-------------------------------------------------------------------------
 *
 * record.h
 *	  WAL records of this room: opcodes, main data, and the table of them.
 *
 * To add a record: an opcode here, its struct (or one that is there), a row in
 * the table of wal_records.c with the function that replays it.  A record that only
 * changes pages needs no opcode: it is a PAGES record with one more reason.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_RECORD_H
#define SF_RECORD_H

#include "space/space.h"

/* ---- opcodes; which pages a record has is in the table of wal_records.c ---- */

#define XLOG_SF_CREATE		0x00	/* xl_sf_storage; block 0: header */
#define XLOG_SF_UNLINK		0x10	/* xl_sf_storage */
#define XLOG_SF_GROW		0x20	/* xl_sf_size; header, new map pages; in a
									 * move none */
#define XLOG_SF_TRUNCATE	0x30	/* xl_sf_size; header */
#define XLOG_SF_PAGES		0x40	/* xl_sf_pages; the pages of its reason */
#define XLOG_SF_RESOLVE		0x50	/* xl_sf_resolve; pending, map or free
									 * pages */
#define XLOG_SF_DATA		0x60	/* xl_sf_data, bytes */
#define XLOG_SF_DROP_DB		0x70	/* xl_sf_db */
#define XLOG_SF_OWN			0x80	/* xl_sf_db */
#define XLOG_SF_RELEASE		0x90	/* xl_sf_release, xl_sf_hole of each run */

/* The server leaves four bits to a resource manager. */
#define SF_RECORD_KINDS		16

/* What a PAGES record is for.  Redo does the same for all of them. */
typedef enum SfPagesReason
{
	SF_PAGES_ENTRIES = 1,		/* pending page, map pages: entries are added */
	SF_PAGES_QUEUE,				/* header, pending pages: one is added or
								 * taken out */
	SF_PAGES_INODE,				/* header, pending page, new inode pages */
	SF_PAGES_HEADER,			/* header: object ids are reserved */
	SF_PAGES_REPAIR,			/* header, and any page that is made anew */
	SF_PAGES_DICTIONARY,		/* header, new dictionary pages */
	SF_PAGES_KEYS,				/* header, both key pages */
	SF_PAGES_SHARE,				/* header, pending page, share page: a record
								 * is made or counted up; the root of its map */
	SF_PAGES_REAP,				/* pending pages, share page: space of a dead
								 * record becomes entries */
	SF_PAGES_ADVICE,			/* a bucket; or header, and buckets: one is
								 * made */
	SF_PAGES_MARK,				/* inode page: whose the map of that root is */
	SF_PAGES_HISTORY,			/* header, pending and history pages: entries
								 * are kept, or kept for long enough */
	SF_PAGES_REMOVED,			/* header, pages of removed values */
	SF_LAST_REASON = SF_PAGES_REMOVED,
} SfPagesReason;

/* ---- main data: every struct begins with the version ---- */

#define SF_WAL_VERSION		1

typedef struct xl_sf_storage
{
	uint8		version;
	SfStorage	storage;
} xl_sf_storage;

/* It begins as xl_sf_storage does. */
typedef struct xl_sf_size
{
	uint8		version;
	SfStorage	storage;
	uint64		total_sectors;
} xl_sf_size;

typedef struct xl_sf_pages
{
	uint8		version;
	uint8		reason;			/* SfPagesReason */
	uint8		kind;			/* SfPendKind of the entries that are added;
								 * 0: none */
	uint8		reserved;		/* 0 */
	uint16		nentries;		/* how many */
} xl_sf_pages;

/* It begins as xl_sf_storage does. */
typedef struct xl_sf_resolve
{
	uint8		version;
	SfStorage	storage;
	TransactionId horizon;		/* newest freeing xid; conflicts on a standby */
	uint16		nentries;
} xl_sf_resolve;

/* It begins as xl_sf_storage does. */
typedef struct xl_sf_data
{
	uint8		version;
	SfStorage	storage;
	uint64		start_sector;
	uint32		nsectors;
} xl_sf_data;

typedef struct xl_sf_db
{
	uint8		version;
	Oid			db;
} xl_sf_db;

/* It begins as xl_sf_storage does. */
typedef struct xl_sf_release
{
	uint8		version;
	SfStorage	storage;
	uint32		nholes;
} xl_sf_release;

/* Sectors that have gone back to the file system, in one data file. */
typedef struct xl_sf_hole
{
	uint64		start_sector;
	uint64		nsectors;
} xl_sf_hole;

/*
 * Runs in one record: few, and it is written just before they are punched.  So a standby
 * punches as slowly as its primary.
 */
#define SF_RELEASE_RUNS		8

/* Bytes of one data record: small enough for memory, large enough for speed. */
#define SF_DATA_RECORD_SECTORS	(1024 * 1024 / SF_SECTOR_SIZE)

/* ---- the table of records (wal_records.c) ---- */

/* What the main data of a record holds. */
#define SF_HOLDS_STORAGE		0x01	/* a segment: the struct begins as
										 * xl_sf_storage */
#define SF_HOLDS_SIZE		0x02	/* and its size: the struct begins as
									 * xl_sf_size */
#define SF_HOLDS_DB			0x04	/* a database: the struct is xl_sf_db */
#define SF_HOLDS_BYTES		0x08	/* bytes behind the struct */

/* One kind of record: all that redo, desc, identify and the check know of it. */
typedef struct SfRecordKind
{
	const char *name;			/* NULL: there is no such record */
	Size		size;			/* of its struct */
	int			holds;			/* SF_HOLDS_* */
	int			min_pages;
	int			max_pages;
	/* Replay it.  It has been checked. */
	void		(*redo) (XLogReaderState *record, const void *rec);

	/*
	 * Say what its struct holds besides; NULL: nothing.  Also of a damaged
	 * one.
	 */
	void		(*desc) (StringInfo buf, const void *rec);
	/* What is wrong with what its struct holds besides; NULL: nothing can be. */
	const char *(*problem) (const void *rec, Size len);
} SfRecordKind;

/* ---- may a record be replayed (record.c) ---- */

/* Is there as much main data as this kind has, of our version?  Never throws. */
extern bool sfi_record_is_readable(XLogReaderState *record, const SfRecordKind *kind);

/* DATA_CORRUPTED unless redo can go by what a record says; see also sfi_change_redo(). */
extern void sfi_record_check(XLogReaderState *record, const SfRecordKind *kind);
SF_NORETURN extern void sfi_record_report(const char *problem);

/*
 * What is wrong with making a page new in a record with that header (NULL: it has none);
 * NULL: nothing.  Asked before a record is written, too: redo refuses what breaks this.
 */
extern const char *sfi_record_new_page_problem(BlockNumber page, const SfHeader *header);

#endif							/* SF_RECORD_H */
