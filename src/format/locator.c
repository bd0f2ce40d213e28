/*-------------------------------------------------------------------------
 *
 * locator.c
 *	  Encode and decode locators.
 *
 *-------------------------------------------------------------------------
 */
#include <sodium/crypto_shorthash_siphash24.h>
#include <string.h>

#include "format/format.h"

_Static_assert(sizeof(SfUnit) == 24, "SfUnit is an on-disk format");
_Static_assert(sizeof(SfChild) == 16, "SfChild is an on-disk format");
_Static_assert(sizeof(SfHeader) == 96, "SfHeader is an on-disk format");
_Static_assert(sizeof(SfSecret) == crypto_shorthash_siphash24_KEYBYTES, "SipHash has such a key");
_Static_assert(SF_LOCATOR_MAC_SIZE == crypto_shorthash_siphash24_BYTES, "SipHash is that long");
_Static_assert(sizeof(SfPendEntry) == 24, "SfPendEntry is an on-disk format");
_Static_assert(sizeof(SfPageTrailer) == SF_PAGE_SPECIAL, "SfPageTrailer is an on-disk format");
_Static_assert(sizeof(SfMap) == 24 + 512 + 4096, "SfMap is an on-disk format");
_Static_assert(sizeof(SfMap) <= SF_PAGE_CONTENT, "a space map fits a page");
_Static_assert(SF_INODE_HEADER == 32, "SfInode is an on-disk format");
_Static_assert(SF_FLAT_MAX_UNITS <= SF_FLAT_MAX_RUNS, "a unit is one run at most");

#define GET(type, p)		({ type v_; memcpy(&v_, (p), sizeof(v_)); v_; })
#define PUT(type, p, v)		do { type v_ = (v); memcpy((p), &v_, sizeof(v_)); } while (0)

/* Check the part of a locator that describes an inode map. */
static const char *
decode_inode_map(const uint8_t *data, size_t len, SfLocator *loc)
{
	loc->depth = loc->nruns;
	loc->nruns = 0;
	if (len != SF_LOCATOR_INODE_SIZE)
		return "locator with an inode map has the wrong size";
	if (loc->depth < 1 || loc->depth > SF_INODE_MAX_DEPTH)
		return "inode tree has an impossible depth";
	loc->root_page = GET(uint32_t, data + 48);
	loc->root_stamp = GET(uint64_t, data + 56);
	return NULL;
}

/* ---- flat maps ---- */

/* Encoded size of a locator with a flat map of that many runs and units. */
static size_t
flat_size(uint32_t nruns, uint32_t nunits)
{
	return SF_LOCATOR_HEADER + (size_t) nruns * SF_ENCODED_RUN_SIZE + (size_t) nunits * 8 +
		SF_LOCATOR_MAC_SIZE;
}

static SfRun
get_run(const SfLocator *loc, uint32_t i)
{
	const uint8_t *p = loc->map + (size_t) i * SF_ENCODED_RUN_SIZE;

	return (SfRun) {GET(uint64_t, p), GET(uint32_t, p + 8)};
}

static uint64_t
get_checksum(const SfLocator *loc, uint64_t i)
{
	return GET(uint64_t, loc->map + (size_t) loc->nruns * SF_ENCODED_RUN_SIZE + (size_t) i * 8);
}

/* Does a run begin where the one before it ends, on the same map page? */
static bool
is_continued(const SfRun *last, uint64_t start)
{
	return last->start + last->nsectors == start &&
		last->start / SF_MAP_SECTORS == start / SF_MAP_SECTORS;
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

/* What is wrong with the runs of a flat map; all of them together are *sectors. */
static const char *
runs_problem(const SfLocator *loc, uint64_t *sectors)
{
	SfRun		last = {0};

	*sectors = 0;
	for (uint32_t i = 0; i < loc->nruns; i++)
	{
		SfRun		run = get_run(loc, i);

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
 * Check the part of a locator that is a flat map.  A unit lies within one run if
 * all runs but the last one are a number of whole units.
 */
static const char *
decode_flat_map(const uint8_t *data, size_t len, SfLocator *loc)
{
	uint64_t	sectors;
	const char *problem;

	if (loc->nunits > SF_FLAT_MAX_UNITS || loc->nruns > SF_FLAT_MAX_RUNS)
		return "flat unit map is too long";
	if (len != flat_size(loc->nruns, loc->nunits))
		return "locator has the wrong size";
	loc->map = data + SF_LOCATOR_HEADER;
	problem = runs_problem(loc, &sectors);
	if (problem != NULL)
		return problem;
	if (sectors != SF_BYTES_TO_SECTORS(loc->length_bytes))
		return "runs of the unit map do not add up to the length";
	for (uint32_t i = 0; i + 1 < loc->nruns; i++)
		if (get_run(loc, i).nsectors % SF_UNIT_SECTORS != 0)
			return "unit map has a run that ends inside a unit";
	return NULL;
}

void
sf_format_flat_begin(SfFlatMap *map, const SfLocator *loc, uint64_t first_unit)
{
	uint64_t	skip = first_unit * SF_UNIT_SECTORS;

	map->loc = loc;
	map->unit_no = first_unit;
	map->run_no = 0;
	if (first_unit >= loc->nunits)
		return;
	map->rest = get_run(loc, 0);
	while (skip >= map->rest.nsectors)
	{
		skip -= map->rest.nsectors;
		map->rest = get_run(loc, ++map->run_no);
	}
	map->rest.start += skip;
	map->rest.nsectors -= skip;
}

bool
sf_format_flat_next(SfFlatMap *map, SfUnit *unit)
{
	const SfLocator *loc = map->loc;

	if (map->unit_no >= loc->nunits)
		return false;
	if (map->rest.nsectors == 0)
		map->rest = get_run(loc, ++map->run_no);
	unit->start = map->rest.start;
	unit->checksum = get_checksum(loc, map->unit_no);
	unit->stored_bytes = sf_unit_plain_bytes(loc->length_bytes, map->unit_no);
	unit->flags = 0;
	map->rest.start += sf_unit_sectors(unit);
	map->rest.nsectors -= sf_unit_sectors(unit);
	map->unit_no++;
	return true;
}

/* ---- locators ---- */

const char *
sf_format_locator_decode(const uint8_t *data, size_t len, SfLocator *loc)
{
	memset(loc, 0, sizeof(*loc));
	if (len < SF_LOCATOR_HEADER)
		return "locator is too short";
	if (data[0] != SF_FORM_STORED)
		return "form of the value is unknown";
	if (data[1] != SF_LOCATOR_VERSION)
		return "locator has an unknown version";
	loc->flags = GET(uint16_t, data + 2);
	loc->table_oid = GET(uint32_t, data + 4);
	loc->attnum = GET(int16_t, data + 8);
	loc->key_id = GET(uint16_t, data + 10);
	loc->generation = GET(uint32_t, data + 12);
	loc->object_id = GET(uint64_t, data + 16);
	loc->length_bytes = GET(uint64_t, data + 24);
	loc->incarnation = GET(uint64_t, data + 32);
	loc->nunits = SF_UNITS_OF(loc->length_bytes);
	loc->nruns = GET(uint16_t, data + 44);
	loc->encoded = data;
	loc->signed_bytes = len - SF_LOCATOR_MAC_SIZE;
	if (loc->flags & ~SF_LOC_KNOWN_FLAGS)
		return "locator has unknown flags";
	if (loc->key_id != 0)
		return "locator has an unknown key id";
	if (loc->length_bytes == 0 || loc->length_bytes > (uint64_t) INT64_MAX ||
		GET(uint32_t, data + 40) != ((loc->flags & SF_LOC_INODE) ? 0 : loc->nunits))
		return "length and number of units do not agree";
	return (loc->flags & SF_LOC_INODE) ? decode_inode_map(data, len, loc)
		: decode_flat_map(data, len, loc);
}

static uint64_t
locator_mac(const uint8_t *data, size_t len, const SfSecret *secret)
{
	uint64_t	mac;

	(void) crypto_shorthash_siphash24((uint8_t *) &mac, data, len, secret->bytes);
	return mac;
}

uint64_t
sf_format_locator_hash(const SfLocator *loc)
{
	return GET(uint64_t, loc->encoded + loc->signed_bytes);
}

bool
sf_format_locator_genuine(const SfLocator *loc, const SfSecret *secret)
{
	return sf_format_locator_hash(loc) ==
		locator_mac(loc->encoded, loc->signed_bytes, secret);
}

/* Put the hash at the end of a locator; returns its size. */
static size_t
sign(uint8_t *data, size_t len, const SfSecret *secret)
{
	PUT(uint64_t, data + len, locator_mac(data, len, secret));
	return len + SF_LOCATOR_MAC_SIZE;
}

/* The fixed part. */
static void
put_header(uint8_t *data, const SfLocator *loc, uint16_t flags)
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
	PUT(uint64_t, data + 24, loc->length_bytes);
	PUT(uint64_t, data + 32, loc->incarnation);
}

size_t
sf_format_locator_encode_inode(uint8_t *data, const SfLocator *loc, const SfSecret *secret)
{
	put_header(data, loc, loc->flags | SF_LOC_INODE);
	PUT(uint16_t, data + 44, loc->depth);
	PUT(uint32_t, data + 48, loc->root_page);
	PUT(uint32_t, data + 52, 0);
	PUT(uint64_t, data + 56, loc->root_stamp);
	return sign(data, 64, secret);
}

size_t
sf_format_locator_encode_flat(uint8_t *data, const SfLocator *loc, const SfUnit *units,
							  const SfSecret *secret)
{
	SfRun		runs[SF_FLAT_MAX_RUNS];
	uint32_t	nruns = 0;
	uint8_t    *p = data + SF_LOCATOR_HEADER;

	if (loc->nunits > SF_FLAT_MAX_UNITS)
		return 0;
	for (uint64_t i = 0; i < loc->nunits; i++)
	{
		if (units[i].start == SF_HOLE)
			return 0;
		sf_format_append_run(runs, &nruns, &units[i]);
	}
	if (flat_size(nruns, loc->nunits) > SF_LOCATOR_MAX_SIZE)
		return 0;
	put_header(data, loc, loc->flags & ~SF_LOC_INODE);
	PUT(uint32_t, data + 40, (uint32_t) loc->nunits);
	PUT(uint16_t, data + 44, nruns);
	for (uint32_t i = 0; i < nruns; i++, p += SF_ENCODED_RUN_SIZE)
	{
		PUT(uint64_t, p, runs[i].start);
		PUT(uint32_t, p + 8, runs[i].nsectors);
	}
	for (uint64_t i = 0; i < loc->nunits; i++, p += 8)
		PUT(uint64_t, p, units[i].checksum);
	return sign(data, p - data, secret);
}
