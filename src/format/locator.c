/*-------------------------------------------------------------------------
 *
 * locator.c
 *	  Encode and decode locators, also such as refer to share records.
 *
 * A locator comes from a row, and a row may be damaged.  So decoding takes nothing for
 * granted: it looks at a field only after it has seen that the bytes are there, and says
 * no to everything that this version would not have made.  Afterwards the rest of the
 * code walks the map without looking again (sf_format_locator_run() and its like have no
 * checks): what decode_flat_map() has accepted leads nowhere out of the locator.
 *
 * What decoding cannot tell is whether a sound locator is a genuine one.  The tag at the
 * end tells, and needs the segment's secret, which this file gets from its caller.
 *
 * A flat map has three lists, so that the usual one is as short as can be:
 *
 *	runs			12 bytes each; one, if the value lies in a row
 *	checksums		8 bytes a unit
 *	words			4 bytes a unit, only if a unit may be transformed
 *
 * Where a unit lies is not stored: units follow one another in the runs, each as long as
 * its stored bytes.  Of units that are stored as they are the place is arithmetic; of
 * others it is found by going through the words (SfFlatMap).
 *
 *-------------------------------------------------------------------------
 */
#include <sodium/crypto_shorthash_siphash24.h>
#include <string.h>

#include "format/share.h"

_Static_assert(sizeof(SfUnit) == 24, "SfUnit is an on-disk format");
_Static_assert(sizeof(SfChild) == 16, "SfChild is an on-disk format");
_Static_assert(sizeof(SfHeader) == 184, "SfHeader is an on-disk format");
_Static_assert(sizeof(SfSecret) == crypto_shorthash_siphash24_KEYBYTES, "SipHash has such a key");
_Static_assert(SF_LOCATOR_MAC_SIZE == crypto_shorthash_siphash24_BYTES, "SipHash is that long");
_Static_assert(sizeof(SfPendEntry) == 24, "SfPendEntry is an on-disk format");
_Static_assert(sizeof(SfPageTrailer) == SF_PAGE_SPECIAL, "SfPageTrailer is an on-disk format");
_Static_assert(sizeof(SfMap) == 24 + 512 + 4096, "SfMap is an on-disk format");
_Static_assert(sizeof(SfMap) <= SF_PAGE_CONTENT, "a space map fits a page");
_Static_assert(SF_INODE_HEADER == 32, "SfInode is an on-disk format");
_Static_assert(SF_FLAT_MAX_UNITS <= SF_FLAT_MAX_RUNS, "a unit is one run at most");

_Static_assert(sizeof(SfShareReference) == SF_LOCATOR_SHARED_SIZE,
			   "SfShareReference is an on-disk format");
_Static_assert(sizeof(SfPieceRoot) == SF_LOCATOR_PIECES_SIZE, "SfPieceRoot is an on-disk format");

#define GET(type, p)		({ type v_; memcpy(&v_, (p), sizeof(v_)); v_; })
#define PUT(type, p, v)		do { type v_ = (v); memcpy((p), &v_, sizeof(v_)); } while (0)

#define WORD_BYTES_BITS		18	/* of a unit's word: its stored bytes */
#define WORD_BYTES_MASK		((1u << WORD_BYTES_BITS) - 1)
#define WORD_MAX			((1u << (WORD_BYTES_BITS + 4)) - 1)
#define INODE_MAP_SIZE		16

_Static_assert(SF_UNIT_STORED_MAX <= WORD_BYTES_MASK, "a word holds any unit's stored bytes");

/* ---- where things are ---- */

/* Where the root of the list of pieces stands.  What a shared value refers to is in front of it. */
static size_t
pieces_offset(uint16_t flags)
{
	return SF_LOCATOR_HEADER + (flags & SF_LOC_SHARED ? SF_LOCATOR_SHARED_SIZE : 0);
}

/* Where the map begins. */
static size_t
map_offset(uint16_t flags)
{
	return pieces_offset(flags) + (flags & SF_LOC_PIECED ? SF_LOCATOR_PIECES_SIZE : 0);
}

/* Bytes of the hash of the value, which stands behind the map. */
static size_t
hash_size(uint16_t flags)
{
	if (!(flags & SF_LOC_HASHED))
		return 0;
	return flags & SF_LOC_KEYED ? SF_SEALED_HASH_SIZE : sizeof(SfContentHash);
}

/*
 * Size of a locator whose map has that many bytes.  A locator of another size is refused:
 * no byte of it is without a meaning.
 */
static size_t
locator_size(uint16_t flags, size_t map_bytes)
{
	return map_offset(flags) + map_bytes + hash_size(flags) +
		(flags & SF_LOC_KEYED ? SF_LOCATOR_TAG_SIZE : 0) + SF_LOCATOR_MAC_SIZE;
}

/* Bytes of a flat map. */
static size_t
flat_map_size(uint16_t flags, uint32_t nruns, uint32_t nunits)
{
	return (size_t) nruns * SF_ENCODED_RUN_SIZE +
		(size_t) nunits * (flags & SF_LOC_UNITS ? 12 : 8);
}

/* ---- inode maps ---- */

/*
 * Check the part of a locator that describes an inode map.  Whether the root page is the
 * one meant is found out when it is read: it repeats the stamp.
 */
static const char *
decode_inode_map(const uint8_t *data, size_t len, SfLocator *loc)
{
	const uint8_t *p = data + map_offset(loc->flags);

	/* The two share a field of the fixed part. */
	loc->depth = loc->nruns;
	loc->nruns = 0;
	if (len != locator_size(loc->flags, INODE_MAP_SIZE))
		return "locator with an inode map has the wrong size";
	if (loc->depth < 1 || loc->depth > SF_INODE_MAX_DEPTH)
		return "inode tree has an impossible depth";
	loc->root_page = GET(uint32_t, p);
	loc->root_stamp = GET(uint64_t, p + 8);
	return NULL;
}

/* ---- flat maps ---- */

/* Copied, as nothing in a locator is aligned. */
SfRun
sf_format_locator_run(const SfLocator *loc, uint32_t i)
{
	const uint8_t *p = loc->map + (size_t) i * SF_ENCODED_RUN_SIZE;

	return (SfRun) {GET(uint64_t, p), GET(uint32_t, p + 8)};
}

/* Checksum of unit i of a flat map. */
static uint64_t
get_checksum(const SfLocator *loc, uint64_t i)
{
	return GET(uint64_t, loc->map + (size_t) loc->nruns * SF_ENCODED_RUN_SIZE + (size_t) i * 8);
}

/* How a unit is stored, of a map with UNITS. */
static uint32_t
get_word(const SfLocator *loc, uint64_t i)
{
	return GET(uint32_t, loc->map + (size_t) loc->nruns * SF_ENCODED_RUN_SIZE +
			   (size_t) loc->nunits * 8 + (size_t) i * 4);
}

/*
 * Does a run begin where the one before it ends, on the same map page?  Such runs are
 * one: a value has one form of its map only, so two maps can be compared by their bytes.
 */
static bool
is_continued(const SfRun *last, uint64_t start)
{
	return last->start + last->nsectors == start &&
		sf_same_map(last->start, start);
}

void
sf_format_append_run(SfRun *runs, uint32_t *nruns, const SfUnit *unit)
{
	if (unit->start == SF_HOLE)
		return;
	if (*nruns > 0 && is_continued(&runs[*nruns - 1], unit->start))
		runs[*nruns - 1].nsectors += sf_unit_sectors(unit);
	else
		runs[(*nruns)++] = (SfRun) {unit->start, sf_unit_sectors(unit)};
}

/*
 * What is wrong with the runs of a flat map; all of them together are *sectors.  There
 * are 96 runs at most, so the sum cannot overflow.
 */
static const char *
runs_problem(const SfLocator *loc, uint64_t *sectors)
{
	SfRun		last = {0};

	*sectors = 0;
	for (uint32_t i = 0; i < loc->nruns; i++)
	{
		SfRun		run = sf_format_locator_run(loc, i);

		if (!sf_format_is_possible_run(run.start, run.nsectors))
			return "unit map has an impossible run";
		if (i > 0 && is_continued(&last, run.start))
			return "unit map has two runs in place of one";
		*sectors += run.nsectors;
		last = run;
	}
	return NULL;
}

/*
 * What is wrong with the units of a map without UNITS, all of them together.  The runs
 * must add up to the length, and each unit lies within one run if all runs but the last
 * one are a number of whole units.
 */
static const char *
raw_units_problem(const SfLocator *loc, uint64_t sectors)
{
	if (sectors != sf_bytes_to_sectors(loc->unit_space_bytes))
		return "runs of the unit map do not add up to the length";
	for (uint32_t i = 0; i + 1 < loc->nruns; i++)
		if (sf_format_locator_run(loc, i).nsectors % SF_UNIT_SECTORS != 0)
			return "unit map has a run that ends inside a unit";
	return NULL;
}

/*
 * The same for a map with UNITS: unit by unit, since each has a size of its own.  The
 * runs must be used up by the units, neither less nor more.
 */
static const char *
units_problem(const SfLocator *loc)
{
	uint32_t	run_no = 0;
	uint32_t	rest = sf_format_locator_run(loc, 0).nsectors;

	for (uint64_t i = 0; i < loc->nunits; i++)
	{
		uint32_t	word = get_word(loc, i);
		SfUnit		unit = {0, 0, word & WORD_BYTES_MASK, word >> WORD_BYTES_BITS};
		const char *problem = word > WORD_MAX ? "unit has unknown flags" :
			sf_format_unit_problem(&unit, loc->flags,
								   sf_unit_plain_bytes(loc->unit_space_bytes, i));

		if (problem != NULL)
			return problem;

		/*
		 * At the end of a run the next unit begins the next one, if there is
		 * one.
		 */
		if (rest == 0 && ++run_no < loc->nruns)
			rest = sf_format_locator_run(loc, run_no).nsectors;
		if (rest < sf_unit_sectors(&unit))
			return "unit map has a run that ends inside a unit";
		rest -= sf_unit_sectors(&unit);
	}
	return rest == 0 && run_no + 1 == loc->nruns ? NULL :
		"runs of the unit map do not add up to the units";
}

/*
 * Check the part of a locator that is a flat map.  The counts come first: they say how
 * many bytes the lists have, and nothing of these is read before that is known to agree.
 */
static const char *
decode_flat_map(const uint8_t *data, size_t len, SfLocator *loc)
{
	uint64_t	sectors;
	const char *problem;

	/*
	 * The limits first: they keep the sum of the sizes below what a size_t
	 * holds, and later copies of the lists within their arrays.
	 */
	if (loc->nunits > SF_FLAT_MAX_UNITS || loc->nruns > SF_FLAT_MAX_RUNS ||
		len > SF_LOCATOR_MAX_SIZE)
		return "flat unit map is too long";
	if (loc->nruns == 0 ||
		len != locator_size(loc->flags, flat_map_size(loc->flags, loc->nruns, loc->nunits)))
		return "locator has the wrong size";
	loc->map = data + map_offset(loc->flags);
	problem = runs_problem(loc, &sectors);
	if (problem != NULL)
		return problem;
	return loc->flags & SF_LOC_UNITS ? units_problem(loc) : raw_units_problem(loc, sectors);
}

/*
 * Pass over units that are stored as they are: their places are arithmetic, so that the
 * last unit of a value is found as fast as the first. "> rest" and not ">=": a position
 * at the end of a run stays there, and the next unit takes the next run if there is one.
 */
static void
skip_raw_units(SfFlatMap *map, uint64_t nunits)
{
	uint64_t	skip = nunits * SF_UNIT_SECTORS;

	while (skip > map->rest.nsectors)
	{
		skip -= map->rest.nsectors;
		map->rest = sf_format_locator_run(map->loc, ++map->run_no);
	}
	map->rest.start += skip;
	map->rest.nsectors -= skip;
	map->unit_no = nunits;
}

void
sf_format_flat_begin(SfFlatMap *map, const SfLocator *loc, uint64_t first_unit)
{
	SfUnit		unit;

	/* A flat map has one run at least, as a value has one unit and no holes. */
	*map = (SfFlatMap) {.loc = loc, .rest = sf_format_locator_run(loc, 0)};
	if (first_unit >= loc->nunits)
		map->unit_no = loc->nunits;
	else if (!(loc->flags & SF_LOC_UNITS))
		skip_raw_units(map, first_unit);
	else
		while (map->unit_no < first_unit)
			(void) sf_format_flat_next(map, &unit);
}

bool
sf_format_flat_next(SfFlatMap *map, SfUnit *unit)
{
	const SfLocator *loc = map->loc;

	if (map->unit_no >= loc->nunits)
		return false;
	if (map->rest.nsectors == 0)
		map->rest = sf_format_locator_run(loc, ++map->run_no);
	unit->start = map->rest.start;
	unit->checksum = get_checksum(loc, map->unit_no);
	if (loc->flags & SF_LOC_UNITS)
	{
		unit->stored_bytes = get_word(loc, map->unit_no) & WORD_BYTES_MASK;
		unit->flags = get_word(loc, map->unit_no) >> WORD_BYTES_BITS;
	}
	else
	{
		unit->stored_bytes = sf_unit_plain_bytes(loc->unit_space_bytes, map->unit_no);
		unit->flags = SF_CODEC_RAW;
	}
	map->rest.start += sf_unit_sectors(unit);
	map->rest.nsectors -= sf_unit_sectors(unit);
	map->unit_no++;
	return true;
}

/* ---- locators ---- */

/* Do version, flags and key id agree? */
static const char *
flags_problem(uint8_t version, const SfLocator *loc)
{
	if (version != SF_LOCATOR_VERSION)
		return "locator has an unknown version";
	if (loc->flags & ~SF_LOC_KNOWN_FLAGS)
		return "locator has unknown flags";
	if ((loc->flags & SF_LOC_KEYED) && !(loc->flags & SF_LOC_UNITS))
		return "locator has a key for units that it does not describe";
	if ((loc->key_id != 0) != ((loc->flags & SF_LOC_KEYED) != 0))
		return "locator has an unknown key id";
	return NULL;
}

/* The part of a locator that refers to a share record. */
static const char *
decode_share(const uint8_t *data, size_t len, SfLocator *loc)
{
	if (len < SF_LOCATOR_HEADER + SF_LOCATOR_SHARED_SIZE)
		return "locator is too short";
	memcpy(&loc->share, data + SF_LOCATOR_HEADER, sizeof(loc->share));
	if (!sf_share_is_possible((SfShareId) {loc->share.page, loc->share.cell, 0}) ||
		(loc->share.flags & ~SF_SHARE_BASED))
		return "locator names an impossible share record";
	return loc->share.reference_id > 0 && loc->share.reference_id <= SF_NUMBER_MAX ? NULL :
		"locator has an impossible reference id";
}

/*
 * The part of a locator that leads to the list of pieces.  They do not overlap, so the value is
 * no longer than what they are pieces of.  A shared object is not PIECED, and so no reference is.
 */
static const char *
decode_pieces(const uint8_t *data, size_t len, SfLocator *loc)
{
	const SfPieceRoot *root = &loc->pieces;

	if (len < map_offset(loc->flags))
		return "locator is too short";
	if (!(loc->flags & SF_LOC_INODE) ||
		((loc->flags & SF_LOC_SHARED) && !(loc->share.flags & SF_SHARE_BASED)))
		return "locator has pieces, and cannot have any";
	memcpy(&loc->pieces, data + pieces_offset(loc->flags), sizeof(loc->pieces));
	if (root->value_bytes == 0 || root->value_bytes > loc->unit_space_bytes)
		return "length and unit space do not agree";
	if (root->depth < 1 || root->depth > SF_LIST_MAX_DEPTH || root->reserved != 0)
		return "list of pieces has an impossible depth";
	return sf_is_dynamic_page(root->page) && root->stamp > 0 ? NULL :
		"list of pieces has an impossible page";
}

/* The parts between the map and the hash at the end, which begins there. */
static void
find_end(const uint8_t *end, SfLocator *loc)
{
	if (loc->flags & SF_LOC_KEYED)
		loc->tag = end -= SF_LOCATOR_TAG_SIZE;
	if (loc->flags & SF_LOC_HASHED)
		loc->hash = end - hash_size(loc->flags);
}

/*
 * What not every locator has, or a damaged one.  Field by field: to clear all of a struct so
 * large takes half of the time of decoding.
 */
static void
clear_optional(SfLocator *loc)
{
	loc->flags = 0;
	loc->depth = 0;
	loc->root_page = 0;
	loc->root_stamp = 0;
	loc->share = (SfShareReference) {0};
	loc->tag = NULL;
	loc->hash = NULL;
	loc->genuine = false;
	loc->map = NULL;
	loc->encoded = NULL;
}

const char *
sf_format_locator_decode(const uint8_t *data, size_t len, SfLocator *loc)
{
	const char *problem;

	clear_optional(loc);
	if (len < SF_LOCATOR_HEADER)
		return "locator is too short";
	if (data[0] != SF_FORM_STORED)
		return "form of the value is unknown";
	loc->flags = GET(uint16_t, data + 2);
	loc->table_oid = GET(uint32_t, data + 4);
	loc->attnum = GET(int16_t, data + 8);
	loc->key_id = GET(uint16_t, data + 10);
	loc->generation = GET(uint32_t, data + 12);
	loc->object_id = GET(uint64_t, data + 16);
	loc->unit_space_bytes = GET(uint64_t, data + 24);
	loc->incarnation = GET(uint64_t, data + 32);
	loc->nunits = sf_units_of(loc->unit_space_bytes);
	loc->nruns = GET(uint16_t, data + 44);

	/*
	 * What the tag covers, and where the locator lies: the caller keeps the
	 * bytes for as long as it uses the decoded form.
	 */
	loc->encoded = data;
	loc->tagged_bytes = len - SF_LOCATOR_MAC_SIZE;
	loc->pieces = (SfPieceRoot) {.value_bytes = loc->unit_space_bytes};
	problem = flags_problem(data[1], loc);
	if (problem == NULL && (loc->flags & SF_LOC_SHARED))
		problem = decode_share(data, len, loc);
	if (problem == NULL && (loc->flags & SF_LOC_PIECED))
		problem = decode_pieces(data, len, loc);
	if (problem != NULL)
		return problem;

	/*
	 * An empty value is INLINE.  The number of units follows from the length
	 * and stands there a second time: most damage to a length shows here,
	 * before the sizes of the lists are worked out from it.
	 */
	if (loc->unit_space_bytes == 0 || loc->unit_space_bytes > (uint64_t) INT64_MAX ||
		GET(uint32_t, data + 40) != ((loc->flags & SF_LOC_INODE) ? 0 : loc->nunits))
		return "length and number of units do not agree";
	problem = (loc->flags & SF_LOC_INODE) ? decode_inode_map(data, len, loc)
		: decode_flat_map(data, len, loc);
	if (problem == NULL)
		find_end(data + loc->tagged_bytes, loc);
	return problem;
}

void
sf_format_locator_encoded(const uint8_t *data, size_t len, SfLocator *loc)
{
	loc->flags = GET(uint16_t, data + 2);
	loc->encoded = data;
	loc->tagged_bytes = len - SF_LOCATOR_MAC_SIZE;
	if (loc->flags & SF_LOC_SHARED)
		memcpy(&loc->share, data + SF_LOCATOR_HEADER, sizeof(loc->share));
	if (!(loc->flags & SF_LOC_INODE))
	{
		loc->map = data + map_offset(loc->flags);
		loc->nruns = GET(uint16_t, data + 44);
	}
	find_end(data + loc->tagged_bytes, loc);
}

/*
 * The tag of that many bytes.  SipHash is for short messages with a secret key, which is
 * what locators are: a user who does not know the secret cannot make a tag, and a changed
 * bit is found out, too.
 */
static uint64_t
make_tag(const uint8_t *data, size_t len, const SfSecret *secret)
{
	uint64_t	tag;

	(void) crypto_shorthash_siphash24((uint8_t *) &tag, data, len, secret->bytes);
	return tag;
}

uint64_t
sf_format_locator_tag(const SfLocator *loc)
{
	return GET(uint64_t, loc->encoded + loc->tagged_bytes);
}

bool
sf_format_locator_tag_ok(const SfLocator *loc, const SfSecret *secret)
{
	return sf_format_locator_tag(loc) ==
		make_tag(loc->encoded, loc->tagged_bytes, secret);
}

/* ---- encoding ---- */

/* Write the parts before the map; returns where that begins. */
static uint8_t *
put_fixed(uint8_t *data, const SfLocator *loc, uint16_t flags)
{
	memset(data, 0, SF_LOCATOR_HEADER);
	data[0] = SF_FORM_STORED;
	data[1] = SF_LOCATOR_VERSION;
	PUT(uint16_t, data + 2, flags);
	PUT(uint32_t, data + 4, loc->table_oid);
	PUT(int16_t, data + 8, loc->attnum);
	PUT(uint16_t, data + 10, loc->key_id);
	PUT(uint32_t, data + 12, loc->generation);
	PUT(uint64_t, data + 16, loc->object_id);
	PUT(uint64_t, data + 24, loc->unit_space_bytes);
	PUT(uint64_t, data + 32, loc->incarnation);
	if (flags & SF_LOC_SHARED)
		memcpy(data + SF_LOCATOR_HEADER, &loc->share, sizeof(loc->share));
	if (flags & SF_LOC_PIECED)
		memcpy(data + pieces_offset(flags), &loc->pieces, sizeof(loc->pieces));
	return data + map_offset(flags);
}

/* The hash of the value, behind the map, which ends at p; returns its end. */
static uint8_t *
put_hash(uint8_t *p, const SfLocator *loc)
{
	if (loc->flags & SF_LOC_HASHED)
		memcpy(p, loc->hash, hash_size(loc->flags));
	return p + hash_size(loc->flags);
}

/*
 * Put the end of a locator behind its first len bytes, and return its length: of a KEYED one
 * a tag of zeros, and SipHash.
 */
static size_t
close_locator(uint8_t *data, size_t len, const SfSecret *secret)
{
	uint16_t	flags = GET(uint16_t, data + 2);

	if (flags & SF_LOC_KEYED)
	{
		memset(data + len, 0, SF_LOCATOR_TAG_SIZE);
		len += SF_LOCATOR_TAG_SIZE;
	}
	PUT(uint64_t, data + len, make_tag(data, len, secret));
	return len + SF_LOCATOR_MAC_SIZE;
}

void
sf_format_locator_set_tag(uint8_t *data, size_t len, const uint8_t *tag, const SfSecret *secret)
{
	const size_t mac = len - SF_LOCATOR_MAC_SIZE;

	memcpy(data + sf_locator_tag_offset(len), tag, SF_LOCATOR_TAG_SIZE);
	PUT(uint64_t, data + mac, make_tag(data, mac, secret));
}

size_t
sf_format_locator_encode_inode(uint8_t *data, const SfLocator *loc, const SfSecret *secret)
{
	uint8_t    *p = put_fixed(data, loc, loc->flags | SF_LOC_INODE);

	PUT(uint16_t, data + 44, loc->depth);
	PUT(uint32_t, p, loc->root_page);
	PUT(uint32_t, p + 4, 0);
	PUT(uint64_t, p + 8, loc->root_stamp);
	return close_locator(data, put_hash(p + INODE_MAP_SIZE, loc) - data, secret);
}

/* Write runs, checksums and words of a flat map; returns its end. */
static uint8_t *
put_flat_map(uint8_t *p, const SfLocator *loc, const SfRun *runs, uint32_t nruns,
			 const SfUnit *units)
{
	for (uint32_t i = 0; i < nruns; i++, p += SF_ENCODED_RUN_SIZE)
	{
		PUT(uint64_t, p, runs[i].start);
		PUT(uint32_t, p + 8, runs[i].nsectors);
	}
	for (uint64_t i = 0; i < loc->nunits; i++, p += 8)
		PUT(uint64_t, p, units[i].checksum);
	if (loc->flags & SF_LOC_UNITS)
		for (uint64_t i = 0; i < loc->nunits; i++, p += 4)
			PUT(uint32_t, p, units[i].stored_bytes | units[i].flags << WORD_BYTES_BITS);
	return p;
}

size_t
sf_format_locator_encode_flat(uint8_t *data, const SfLocator *loc, const SfUnit *units,
							  const SfSecret *secret)
{
	SfRun		runs[SF_FLAT_MAX_RUNS];
	uint32_t	nruns = 0;
	uint8_t    *p;

	if (loc->nunits > SF_FLAT_MAX_UNITS)
		return 0;

	/*
	 * The runs have room: a unit makes one run at most (asserted above), and
	 * there are no more units than runs.
	 */
	for (uint64_t i = 0; i < loc->nunits; i++)
	{
		if (units[i].start == SF_HOLE)
			return 0;
		sf_format_append_run(runs, &nruns, &units[i]);
	}

	/*
	 * A locator stays in its row, so it must not become so long that the row
	 * is moved out.
	 */
	if (locator_size(loc->flags, flat_map_size(loc->flags, nruns, loc->nunits)) >
		SF_LOCATOR_MAX_SIZE)
		return 0;

	/*
	 * The flags come from the map under construction, which counts as a tree
	 * until now.
	 */
	p = put_fixed(data, loc, loc->flags & ~SF_LOC_INODE);
	PUT(uint32_t, data + 40, (uint32_t) loc->nunits);
	PUT(uint16_t, data + 44, nruns);
	p = put_hash(put_flat_map(p, loc, runs, nruns, units), loc);
	return close_locator(data, p - data, secret);
}

size_t
sf_format_reference(uint8_t *dst, const SfShareRecord *record, SfShareId id,
					uint64_t reference_id, const SfSecret *secret)
{
	const SfShareReference reference = {id.page, id.cell, 0, reference_id};
	uint16_t	flags = GET(uint16_t, record->locator + 2) | SF_LOC_SHARED;
	size_t		map_bytes = record->locator_bytes - SF_LOCATOR_HEADER;
	uint8_t    *p = dst + SF_LOCATOR_HEADER;

	if (SF_LOCATOR_HEADER + sizeof(reference) + map_bytes +
		(flags & SF_LOC_KEYED ? SF_LOCATOR_TAG_SIZE : 0) + SF_LOCATOR_MAC_SIZE >
		SF_LOCATOR_MAX_SIZE)
		return 0;
	memcpy(dst, record->locator, SF_LOCATOR_HEADER);
	PUT(uint16_t, dst + 2, flags);
	memcpy(p, &reference, sizeof(reference));
	p += sizeof(reference);
	memcpy(p, record->locator + SF_LOCATOR_HEADER, map_bytes);
	return close_locator(dst, p + map_bytes - dst, secret);
}
