/*-------------------------------------------------------------------------
 *
 * format.h
 *	  Every on-disk format of securefile, byte by byte: here what all have in common,
 *	  locators and units; in segment_pages.h the pages of segments.
 *
 * Pure C over fixed-width integers: no elog, no palloc, no server header, so
 * that the server, the command and a fuzzer share it.  All integers are in
 * the machine's byte order, as everything in a PostgreSQL cluster is.
 *
 * locator.c		encode and decode locators
 * page_problem.c	check pages of a segment relation
 * packed.c			check PACKED, TRAINED and SEALED values (packed.h)
 * unfilled.c		UNFILLED values, and their markers in dumps (unfilled.h)
 * key.c			check entries of key pages (key.h)
 * used_plane.c		the used plane of a space-map page
 * kinds.c			the kinds of pending entries
 * share.c			share records: what is possible, their cells, their own locators (share.h)
 * advice_page.c	buckets of the advice on duplicates, and their changes (share.h)
 * removed_page.c	records of removed values (removed.h)
 * change.c			check and apply the changes that a WAL record carries (change.h)
 * checksum.c		checksums of units (checksum.h); checksum_avx2.c: for processors with AVX2
 *
 * Ledger of format versions (what reads what):
 *
 *	 format				version	since	read by
 *	 locator			1		1.0		1.0
 *	 segment page		1		1.0		1.0
 *	 WAL record			1		1.0		1.0
 *	 data file			(none: sectors only, all checksums are in unit maps)
 *
 * Spaces in which a number may count (never mixed without a conversion):
 *	 object_offset	bytes from the start of a value
 *	 sector			512-byte sectors from the start of a segment's data
 *	 block			4096-byte allocation blocks of the same (8 sectors)
 *	 page			8 KB pages of the segment relation
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_H
#define SF_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/checksum.h"

#define SF_SECTOR_SIZE			512
#define SF_BLOCK_SIZE			4096
#define SF_BLOCK_SECTORS		(SF_BLOCK_SIZE / SF_SECTOR_SIZE)
#define SF_UNIT_SIZE			(128 * 1024)
#define SF_UNIT_SECTORS			(SF_UNIT_SIZE / SF_SECTOR_SIZE)
#define SF_FILE_SIZE			((uint64_t) 1024 * 1024 * 1024)
#define SF_FILE_SECTORS			(SF_FILE_SIZE / SF_SECTOR_SIZE)

/* one space-map page has the bits of this many (16 MB) */
#define SF_MAP_SECTORS			32768
#define SF_MAP_BLOCKS			(SF_MAP_SECTORS / SF_BLOCK_SECTORS)

/*
 * Arithmetic of the five numbers that count space: bytes, sectors, blocks and
 * space maps of a segment, units of a value.  "_of" with one sector, block or
 * byte is where it lies, rounded down; "bytes_to", "blocks_of", "maps_of" and
 * "units_of" are how many there are room for all, rounded up.
 */
static inline uint64_t
sf_bytes_to_sectors(uint64_t nbytes)
{
	return (nbytes + SF_SECTOR_SIZE - 1) / SF_SECTOR_SIZE;
}

static inline uint64_t
sf_sectors_to_bytes(uint64_t nsectors)
{
	return nsectors * SF_SECTOR_SIZE;
}

static inline uint64_t
sf_blocks_to_sectors(uint64_t nblocks)
{
	return nblocks * SF_BLOCK_SECTORS;
}

static inline uint64_t
sf_block_of(uint64_t sector)
{
	return sector / SF_BLOCK_SECTORS;
}

static inline uint64_t
sf_blocks_of(uint64_t nsectors)
{
	return (nsectors + SF_BLOCK_SECTORS - 1) / SF_BLOCK_SECTORS;
}

/* The first sector of a block, at or after the given one. */
static inline uint64_t
sf_round_up_block(uint64_t sector)
{
	return sf_blocks_to_sectors(sf_blocks_of(sector));
}

static inline uint64_t
sf_map_of(uint64_t sector)
{
	return sector / SF_MAP_SECTORS;
}

static inline uint64_t
sf_map_of_block(uint64_t block)
{
	return block / SF_MAP_BLOCKS;
}

static inline bool
sf_same_map(uint64_t sector, uint64_t other)
{
	return sf_map_of(sector) == sf_map_of(other);
}

/* The first sector, or block, that a space map is about. */
static inline uint64_t
sf_map_start(uint64_t map)
{
	return map * SF_MAP_SECTORS;
}

/* Sectors of a space map that lie before an end. */
static inline uint32_t
sf_map_sectors_before(uint64_t end, uint64_t map)
{
	uint64_t	first = sf_map_start(map);

	return end <= first ? 0 : end - first < SF_MAP_SECTORS ? end - first : SF_MAP_SECTORS;
}

static inline uint64_t
sf_map_first_block(uint64_t map)
{
	return map * SF_MAP_BLOCKS;
}

static inline uint64_t
sf_maps_of(uint64_t nsectors)
{
	return (nsectors + SF_MAP_SECTORS - 1) / SF_MAP_SECTORS;
}

static inline uint64_t
sf_units_of(uint64_t length_bytes)
{
	return (length_bytes + SF_UNIT_SIZE - 1) / SF_UNIT_SIZE;
}

static inline uint64_t
sf_unit_of(uint64_t object_offset)
{
	return object_offset / SF_UNIT_SIZE;
}

static inline uint64_t
sf_unit_start(uint64_t unit_no)
{
	return unit_no * SF_UNIT_SIZE;
}

/* Bytes of the value that a unit has; 0: it lies behind the end. */
static inline uint32_t
sf_unit_plain_bytes(uint64_t length_bytes, uint64_t unit_no)
{
	uint64_t	left;

	if (unit_no >= sf_units_of(length_bytes))
		return 0;
	left = length_bytes - sf_unit_start(unit_no);
	return left < SF_UNIT_SIZE ? (uint32_t) left : SF_UNIT_SIZE;
}

/* A run of sectors of one segment.  Never crosses a space-map page. */
typedef struct SfRun
{
	uint64_t	start;			/* first sector */
	uint32_t	nsectors;		/* length, in sectors; never 0 */
} SfRun;

/* ---------------------------------------------------------------------
 * Value (the bytes after a varlena header)
 *
 *	 offset	size	field
 *	 0		1		form: 1 INLINE, 2 STORED, 4 SEALED, 5 PACKED, 6 TRAINED, 7 UNFILLED;
 *					3 EDITED exists in memory only
 *	 INLINE:
 *	 1		n		the bytes of the value
 *	 PACKED (a small value, compressed in the row):
 *	 1		1		codec (SfCodec), not 0
 *	 2		2		reserved, 0
 *	 4		n		what is stored of a compressed unit, below
 *	 TRAINED (the same, compressed with a dictionary of the segment):
 *	 1		1		codec, SF_CODEC_TRAINED
 *	 2		2		attribute number of the column
 *	 4		4		OID of the table the segment belongs to
 *	 8		8		incarnation of the segment
 *	 16		n		what is stored of a compressed unit, below
 *	 SEALED (a small value, encrypted in the row, compressed or not):
 *	 1		1		codec (SfCodec)
 *	 2		2		key id, not 0
 *	 4		4		OID of the table the segment belongs to
 *	 8		2		attribute number of the column
 *	 10		2		reserved, 0
 *	 12		4		length of the value in bytes
 *	 16		8		incarnation of the segment
 *	 24		24		nonce
 *	 48		n		the value, or what is stored of a compressed unit; encrypted
 *	 48 + n	16		tag; it covers bytes 0 to 23, too
 *	 UNFILLED (a dump has left the bytes out, and they were not restored yet):
 *	 1		1		version, 1
 *	 2		1		bit 0: a hash follows; rest 0
 *	 3		5		reserved, 0
 *	 8		8		length of the value in bytes; 1 to 2^63 - 1
 *	 16		32		SHA-256 of the value, if bit 0 is set
 *	 STORED (locator):
 *	 1		1		locator version; whichever it is, version, table, attribute number, incarnation
 *					and the last 8 bytes are where they are here
 *	 2		2		flags (SF_LOC_*)
 *	 4		4		OID of the table the segment belongs to
 *	 8		2		attribute number of the column
 *	 10		2		key id; not 0 if and only if KEYED
 *	 12		4		generation of the object (1 for a new one)
 *	 16		8		object id, never reused within a segment
 *	 24		8		length of the unit space in bytes: of the value, unless PIECED
 *	 32		8		incarnation of the segment
 *	 40		4		number of units of a flat map; 0 with an inode map
 *	 44		2		number of runs (flat map), or depth of the inode tree
 *	 46		2		reserved, 0
 *	 SHARED only (reference to a share record):
 *	 48		4		share page
 *	 52		2		cell of that page
 *	 54		2		share flags (SF_SHARE_*)
 *	 56		8		reference id, from the object ids, unique for each row
 *	 PIECED only (never that of a reference, nor in a share record; INODE is set, too):
 *	 ..		8		length of the value in bytes
 *	 ..		8		stamp of the root page of the list of pieces (segment_pages.h)
 *	 ..		4		its page
 *	 ..		2		levels of the list, 1 or 2
 *	 ..		2		reserved, 0
 *	 flat map (INODE not set):
 *	 ..		12 x r	runs: first sector (8), number of sectors (4)
 *	 ..		8 x u	XXH3-64 of the stored bytes of every unit
 *	 ..		4 x u	UNITS only: bits 0-17 stored bytes, 18-21 codec (SfCodec), rest 0
 *	 inode map (INODE set):
 *	 ..		4		root inode page
 *	 ..		4		reserved, 0
 *	 ..		8		stamp of the root page
 *	 all:
 *	 ..		64		HASHED only: SHA-256 of the value (SfContentHash); if KEYED, too, nonce (24),
 *					the same encrypted (64), tag (16)
 *	 ..		16		KEYED only: HMAC-SHA-256 of all bytes before it, cut to 128 bits
 *	 last 8			SipHash-2-4 of all bytes before it, keyed with the segment's secret
 *
 * In a flat map the units lie one after the other in the runs, each unit
 * contiguous, starting on a sector, and within one run.  Runs that touch on one map
 * page are one run.  A value with holes has an inode map.
 *
 * Units stand for the unit space.  That is the value, or (PIECED) the value is ranges of it, its
 * pieces, in an order that a list has.  Pieces do not overlap.
 *
 * Every unit but the last holds SF_UNIT_SIZE bytes of the unit space.  Without UNITS it
 * is stored as it is, in as many bytes.  With UNITS each unit says how many bytes
 * are stored and what was done to it: in a flat map by the words behind the
 * checksums, in an inode map by the units of the leaves.
 *
 * Stored bytes of a unit:
 *	 raw			the bytes of the value
 *	 compressed		number of plain bytes (4), low half of their unseeded XXH3-64 (4),
 *					output of the codec, shorter than the plain bytes
 *	 KEYED			nonce (24), ciphertext, tag (16).  The plaintext begins with the same
 *					8 bytes as a compressed unit, raw or compressed; so 48 bytes more.
 *					All units of an object have one key
 *
 * Versions of an object (generations) share units, always at the same place of
 * the unit space, and inode pages.
 *
 * The server makes locators and takes none from outside.  Should one get in all
 * the same, by a flaw elsewhere or by damage to a row, the hash at its end
 * tells: nothing is read or freed through a locator that is not genuine.
 * ---------------------------------------------------------------------
 */
#define SF_FORM_INLINE			1
#define SF_FORM_STORED			2
#define SF_FORM_EDITED			3
#define SF_FORM_SEALED			4
#define SF_FORM_PACKED			5
#define SF_FORM_TRAINED			6	/* as PACKED, with a dictionary */
#define SF_FORM_UNFILLED		7

#define SF_LOCATOR_VERSION		1
#define SF_LOCATOR_HEADER		48
#define SF_LOCATOR_SHARED_SIZE	16
#define SF_LOCATOR_PIECES_SIZE	24
#define SF_LOCATOR_TAG_SIZE		16	/* of a KEYED one */
#define SF_LOCATOR_MAC_SIZE		8
#define SF_LOC_INODE			0x0001	/* map is a tree of inode pages */
#define SF_LOC_UNITS			0x0002	/* units may be transformed */
#define SF_LOC_SHARED			0x0004	/* refers to a share record */
#define SF_LOC_KEYED			0x0008	/* units are encrypted */
#define SF_LOC_HASHED			0x0010	/* has the SHA-256 of the value */
#define SF_LOC_PIECED			0x0020	/* is pieces of its unit space */
#define SF_LOC_KNOWN_FLAGS \
	(SF_LOC_INODE | SF_LOC_UNITS | SF_LOC_SHARED | SF_LOC_KEYED | SF_LOC_HASHED | SF_LOC_PIECED)

#define SF_SHARE_CELLS			126 /* of a share page (share.h) */
#define SF_SHARE_BASED			0x0001	/* a changed version of the shared
										 * value */

/* What was done to a unit: bits 0-3 of its flags; the other bits are 0. */
typedef enum SfCodec
{
	SF_CODEC_RAW = 0,
	SF_CODEC_LZ4,				/* a block */
	SF_CODEC_ZSTD,				/* a frame */
	SF_CODEC_TRAINED,			/* a frame of zstd that names a dictionary */
} SfCodec;

/* How a data key encrypts; noted with the key. */
typedef enum SfCipher
{
	SF_CIPHER_AES256 = 1,		/* XAES-256-GCM */
	SF_CIPHER_XCHACHA20,		/* XChaCha20-Poly1305 */
} SfCipher;

#define SF_CODEC_MAX			SF_CODEC_TRAINED
#define SF_CODED_OVERHEAD		8	/* bytes before the output of a codec */
#define SF_KEYED_OVERHEAD		48	/* bytes around what is encrypted */
#define SF_UNIT_STORED_MAX		(SF_UNIT_SIZE + SF_KEYED_OVERHEAD)

/*
 * A flat map stands in the locator as long as that is no longer than
 * SF_LOCATOR_MAX_SIZE, and has no more units than this (12 MB).
 */
#define SF_FLAT_MAX_UNITS		96
#define SF_FLAT_MAX_RUNS		96

#define SF_ENCODED_RUN_SIZE		12
#define SF_LOCATOR_MAX_SIZE \
	(SF_LOCATOR_HEADER + SF_FLAT_MAX_RUNS * SF_ENCODED_RUN_SIZE + SF_FLAT_MAX_UNITS * 8 + \
	 SF_LOCATOR_MAC_SIZE)

/* What only the server knows of a segment: the key of its locators. */
typedef struct SfSecret
{
	uint8_t		bytes[16];
} SfSecret;

/* The part of a locator that refers to a share record (share.h), as it stands there. */
typedef struct SfShareReference
{
	uint32_t	page;
	uint16_t	cell;
	uint16_t	flags;			/* SF_SHARE_* */
	uint64_t	reference_id;
} SfShareReference;

/* Levels of a list of pieces. */
#define SF_LIST_MAX_DEPTH		2

/* Where a locator with PIECED has the list of its pieces, as it stands there. */
typedef struct SfPieceRoot
{
	uint64_t	value_bytes;
	uint64_t	stamp;
	uint32_t	page;
	uint16_t	depth;
	uint16_t	reserved;
} SfPieceRoot;

/* The fixed part of a locator, decoded. */
typedef struct SfLocator
{
	uint16_t	flags;
	uint32_t	table_oid;
	int16_t		attnum;
	uint16_t	key_id;
	uint32_t	generation;
	uint64_t	object_id;
	uint64_t	unit_space_bytes;	/* what the units stand for, in their
									 * order */
	uint64_t	incarnation;
	uint64_t	nunits;
	uint16_t	nruns;			/* flat map */
	uint16_t	depth;			/* inode map: 1 = the root is a leaf */
	uint32_t	root_page;		/* inode map */
	uint64_t	root_stamp;		/* inode map */
	SfPieceRoot pieces;			/* PIECED; value_bytes: of every locator */
	SfShareReference share;		/* SHARED */
	const uint8_t *tag;			/* KEYED: SF_LOCATOR_TAG_SIZE bytes */
	const uint8_t *hash;		/* HASHED: of 64 or SF_SEALED_HASH_SIZE bytes */
	bool		genuine;		/* KEYED: the tag was found right, so that the
								 * pages of the map have to be, too */
	const uint8_t *map;			/* flat map: encoded runs, checksums, words */
	const uint8_t *encoded;		/* the locator itself, */
	size_t		tagged_bytes;	/* and how much of it the hash covers */
} SfLocator;

/* The length of the value. */
static inline uint64_t
sf_locator_value_bytes(const SfLocator *loc)
{
	return loc->pieces.value_bytes;
}

/*
 * One unit of a value: where it lies and what it must hash to.  How many bytes
 * are stored is one thing, how many bytes of the value they stand for (its plain
 * bytes) another: the unit's place in the value says that (sf_unit_plain_bytes()).
 */
typedef struct SfUnit
{
	uint64_t	start;			/* first sector; SF_HOLE: zeros, not stored */
	uint64_t	checksum;		/* XXH3-64 of the stored bytes */
	uint32_t	stored_bytes;
	uint32_t	flags;			/* SfCodec; 0 unless the locator has UNITS */
} SfUnit;

#define SF_HOLE					UINT64_MAX

static inline uint32_t
sf_unit_sectors(const SfUnit *unit)
{
	return sf_bytes_to_sectors(unit->stored_bytes);
}

/*
 * What is wrong with a unit of a map; NULL when nothing is.  Every map, be it in
 * a locator, in an inode page or under construction, is judged by this.
 * loc_flags: of the locator whose map it is.  plain_bytes: what the length of the
 * value gives the unit; SF_PLAIN_UNKNOWN: the length is not known here, and any that
 * a unit can have will do.
 */
#define SF_PLAIN_UNKNOWN		0
extern const char *sf_format_unit_problem(const SfUnit *unit, uint16_t loc_flags,
										  uint32_t plain_bytes);

/* Does a run lie on one map page, of those there can be? */
extern bool sf_format_is_possible_run(uint64_t start, uint64_t nsectors);

/*
 * Append a unit's sectors to a list of runs, merging them with the last run where
 * the two touch and stay on one map page.  runs has room for one more.
 */
extern void sf_format_append_run(SfRun *runs, uint32_t *nruns, const SfUnit *unit);

/*
 * Decode the fixed part of a STORED value (data: its bytes from the form on,
 * which loc points into).  Checks everything that can be checked without the
 * segment; returns NULL when sound, else a static text that says what is wrong.
 */
extern const char *sf_format_locator_decode(const uint8_t *data, size_t len, SfLocator *loc);

/* Run i of a flat map, of a locator that is sound: i < loc->nruns. */
extern SfRun sf_format_locator_run(const SfLocator *loc, uint32_t i);

/*
 * The decoded form of what was just encoded from loc, or of a reference to its object: loc
 * points into data from now on.  Checks nothing.
 */
extern void sf_format_locator_encoded(const uint8_t *data, size_t len, SfLocator *loc);

/* Has a STORED value a version that this code does not know? */
static inline bool
sf_format_locator_is_later(const uint8_t *data)
{
	return data[1] > SF_LOCATOR_VERSION;
}

/* Was this decoded locator made with that secret, and not changed since? */
extern bool sf_format_locator_tag_ok(const SfLocator *loc, const SfSecret *secret);

/* The hash at its end: what tells it from any other locator of its segment. */
extern uint64_t sf_format_locator_tag(const SfLocator *loc);

/*
 * Encode a locator with a flat map of the units of a value, loc->nunits of them,
 * into SF_LOCATOR_MAX_SIZE bytes.  Returns how many bytes it has; 0: the map does
 * not fit a locator, or has a hole, and has to stand in inode pages.
 */
extern size_t sf_format_locator_encode_flat(uint8_t *data, const SfLocator *loc,
											const SfUnit *units, const SfSecret *secret);

/*
 * Put the tag, SF_LOCATOR_TAG_SIZE bytes, into a KEYED locator of that size, which the
 * functions above and below make with a tag of zeros.  It is of the bytes before it.
 */
extern void sf_format_locator_set_tag(uint8_t *data, size_t len, const uint8_t *tag,
									  const SfSecret *secret);

/* Where that tag begins. */
static inline size_t
sf_locator_tag_offset(size_t len)
{
	return len - SF_LOCATOR_MAC_SIZE - SF_LOCATOR_TAG_SIZE;
}

/* The same for a locator with an inode map, which fits always. */
extern size_t sf_format_locator_encode_inode(uint8_t *data, const SfLocator *loc,
											 const SfSecret *secret);

/*
 * Units of a flat map, one after the other from first_unit on.  next: false
 * behind the last one.
 */
typedef struct SfFlatMap
{
	const SfLocator *loc;
	uint64_t	unit_no;		/* the next one */
	uint32_t	run_no;			/* the run that it lies in or the one before, */
	SfRun		rest;			/* and what of that is left from it on */
} SfFlatMap;

extern void sf_format_flat_begin(SfFlatMap *map, const SfLocator *loc, uint64_t first_unit);
extern bool sf_format_flat_next(SfFlatMap *map, SfUnit *unit);

#endif							/* SF_FORMAT_H */
