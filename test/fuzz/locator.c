/*-------------------------------------------------------------------------
 *
 * locator.c
 *	  Damaged locators for the decoder.  Either it gives a reason for refusing them, or
 *	  the decoded locator can be read to its end and encoded to the same bytes, and a share
 *	  record can be made of it, and a reference of that.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/share.h"
#include "fuzz.h"

/* "sixteen bytes ..", without an end */
static const SfSecret secret = {
	{'s', 'i', 'x', 't', 'e', 'e', 'n', ' ', 'b', 'y', 't', 'e', 's', ' ', '.', '.'}
};

/* ---- the decoder's answer ---- */

/* Read a flat map from each of its units on: all ways must give the same units. */
static void
read_units(const SfLocator *loc, SfUnit *units)
{
	SfFlatMap	map;
	SfUnit		unit;
	uint64_t	n = 0;

	sf_format_flat_begin(&map, loc, 0);
	while (sf_format_flat_next(&map, &units[n]))
	{
		if (sf_format_unit_problem(&units[n], loc->flags,
								   sf_unit_plain_bytes(loc->unit_space_bytes, n)) != NULL)
			fuzz_stop("a unit of a map that was taken is unsound");
		if (++n > loc->nunits)
			fuzz_stop("more units than there are");
	}
	if (n != loc->nunits)
		fuzz_stop("fewer units than there are");
	for (uint64_t first = 0; first <= n; first++)
	{
		sf_format_flat_begin(&map, loc, first);
		if (sf_format_flat_next(&map, &unit) != (first < n) ||
			(first < n && memcmp(&unit, &units[first], sizeof(unit)) != 0))
			fuzz_stop("a unit is another one when the map is read from it on");
	}
}

/* A locator that the decoder took must be whole: read all of it, and encode it again. */
static void
check_taken(const uint8_t *bytes, size_t len, const SfLocator *loc)
{
	static SfUnit units[SF_FLAT_MAX_UNITS + 1];
	static uint8_t again[SF_LOCATOR_MAX_SIZE];
	size_t		again_len;

	if (loc->nunits != sf_units_of(loc->unit_space_bytes) || loc->encoded != bytes ||
		loc->tagged_bytes != len - SF_LOCATOR_MAC_SIZE)
		fuzz_stop("fields contradict each other");
	memset(units, 0, sizeof(units));
	if (loc->flags & SF_LOC_INODE)
		again_len = sf_format_locator_encode_inode(again, loc, &secret);
	else
	{
		read_units(loc, units);
		again_len = sf_format_locator_encode_flat(again, loc, units, &secret);
	}
	if (again_len != len)
		fuzz_stop("another length");
	if (sf_format_locator_tag_ok(loc, &secret) != (memcmp(again, bytes, len) == 0))
		fuzz_stop("the hash takes others for genuine, or genuine ones for others");
}

/*
 * The locator of a share record has all but what a reference gets anew; so a record that is
 * made of the reference is the same.
 */
static void
check_shared(size_t len, const SfLocator *loc)
{
	static uint8_t buffer[sizeof(SfShareRecord) + SF_LOCATOR_MAX_SIZE];
	static uint8_t reference[SF_LOCATOR_MAX_SIZE];
	static uint8_t again[SF_LOCATOR_MAX_SIZE];
	SfShareRecord *record = (SfShareRecord *) buffer;
	const size_t whole = len + (loc->flags & SF_LOC_SHARED ? 0 : SF_LOCATOR_SHARED_SIZE);
	const size_t hash_bytes = loc->flags & SF_LOC_KEYED ? SF_SEALED_HASH_SIZE : 64;
	SfLocator	other;
	size_t		other_len;

	record->locator_bytes = sf_format_share_locator(record->locator, loc);
	if ((record->locator_bytes != 0) != (whole <= SF_LOCATOR_MAX_SIZE) ||
		record->locator_bytes > SF_SHARE_LOCATOR_MAX)
		fuzz_stop("a record has no room for a locator, or for one that is too long");
	if (record->locator_bytes == 0)
		return;
	other_len = sf_format_reference(reference, record, (SfShareId) {5, 6, 7}, 8, &secret);
	if (other_len != whole || sf_format_locator_decode(reference, other_len, &other) != NULL ||
		other.flags != (loc->flags | SF_LOC_SHARED) || other.share.reference_id != 8)
		fuzz_stop("a reference is not a locator");
	if ((loc->flags & SF_LOC_HASHED) && memcmp(other.hash, loc->hash, hash_bytes) != 0)
		fuzz_stop("a reference has another hash");
	if (sf_format_share_is_hashed(record) != ((loc->flags & SF_LOC_HASHED) != 0))
		fuzz_stop("a record has a hash, or has none");
	if (sf_format_share_locator(again, &other) != record->locator_bytes ||
		memcmp(again, record->locator, record->locator_bytes) != 0)
		fuzz_stop("a record of a reference is another one");
}

const char *
fuzz_try(const uint8_t *bytes, size_t len)
{
	SfLocator	loc;
	const char *wrong = sf_format_locator_decode(bytes, len, &loc);

	if (wrong == NULL)
	{
		check_taken(bytes, len, &loc);
		check_shared(len, &loc);
	}
	return wrong;
}

/* ---- inputs ---- */

static const uint8_t tag[SF_LOCATOR_TAG_SIZE] = {1, 2, 3};
static const uint8_t hash[SF_SEALED_HASH_SIZE] = {4, 5, 6};

/* A locator without a map. */
static SfLocator
make(uint64_t unit_space_bytes, uint16_t flags)
{
	return (SfLocator) {.unit_space_bytes = unit_space_bytes,
							   .nunits = sf_units_of(unit_space_bytes),
							   .flags = flags, .table_oid = 16384, .attnum = 2,
							   .key_id = flags & SF_LOC_KEYED ? 5 : 0,
							   .generation = 1, .object_id = 7, .incarnation = 42,
							   .share = {3, 125, SF_SHARE_BASED, 8}, .tag = tag,
							   .hash = hash};
}

/* How unit i is stored: if units may be transformed, as one of four ways. */
static SfUnit
make_unit(const SfLocator *loc, uint64_t i, uint64_t start)
{
	uint32_t	plain_bytes = sf_unit_plain_bytes(loc->unit_space_bytes, i);
	uint32_t	around = loc->flags & SF_LOC_KEYED ? SF_KEYED_OVERHEAD : 0;
	SfUnit		unit = {start, i, plain_bytes + around, SF_CODEC_RAW};

	if (!(loc->flags & SF_LOC_UNITS) || i % 4 == 0 || plain_bytes < 2)
		return unit;
	unit.flags = i % 2 ? SF_CODEC_LZ4 : SF_CODEC_ZSTD;
	unit.stored_bytes = (around ? around : SF_CODED_OVERHEAD) + (i % 4 == 1 ? plain_bytes - 1 : 1);
	return unit;
}

/* A flat locator of runs of so many units, one map page each; none when it does not fit. */
static void
keep_flat(uint64_t length_bytes, uint32_t units_a_run, uint16_t flags)
{
	SfLocator	loc = make(length_bytes, flags);
	SfUnit		units[SF_FLAT_MAX_UNITS + 1] = {0};
	uint8_t		bytes[FUZZ_MAX_INPUT];
	uint64_t	at = 0;
	size_t		len;
	size_t		extra = (flags & SF_LOC_SHARED ? SF_LOCATOR_SHARED_SIZE : 0) +
		(flags & SF_LOC_KEYED ? SF_LOCATOR_TAG_SIZE : 0) +
		(!(flags & SF_LOC_HASHED) ? 0 : flags & SF_LOC_KEYED ? SF_SEALED_HASH_SIZE : 64);
	size_t		nruns = (loc.nunits + units_a_run - 1) / units_a_run;

	for (uint64_t i = 0; i < loc.nunits; i++)
	{
		if (i % units_a_run == 0)
			at = sf_map_start(i / units_a_run);
		units[i] = make_unit(&loc, i, at);
		at += sf_unit_sectors(&units[i]);
	}
	extra += SF_LOCATOR_HEADER + 12 * nruns + (flags & SF_LOC_UNITS ? 12 : 8) * loc.nunits +
		SF_LOCATOR_MAC_SIZE;
	len = sf_format_locator_encode_flat(bytes, &loc, units, &secret);
	if (len != (loc.nunits <= SF_FLAT_MAX_UNITS && extra <= SF_LOCATOR_MAX_SIZE ? extra : 0))
		fuzz_stop("a map that fits is refused, or one that does not is encoded");
	fuzz_keep(bytes, len);
}

/* Three units in two runs of one and a half: they add up, but the second unit is cut. */
static void
keep_cut_unit(void)
{
	const uint32_t half = SF_UNIT_SECTORS * 3 / 2;
	SfLocator	loc = {.unit_space_bytes = sf_unit_start(3), .nunits = 3, .generation = 1};
	SfUnit		units[3] = {{0, 1, SF_UNIT_SIZE, 0}, {SF_UNIT_SECTORS, 2, SF_UNIT_SIZE, 0},
	{SF_MAP_SECTORS, 3, SF_UNIT_SIZE, 0}};
	uint8_t		bytes[FUZZ_MAX_INPUT];
	size_t		len = sf_format_locator_encode_flat(bytes, &loc, units, &secret);

	for (int i = 0; i < 2; i++)
		memcpy(bytes + SF_LOCATOR_HEADER + i * SF_ENCODED_RUN_SIZE + 8, &half, sizeof(half));
	fuzz_keep(bytes, len);
}

static void
keep_inode(uint64_t length_bytes, uint16_t depth, uint16_t flags)
{
	SfLocator	loc = make(length_bytes, flags | SF_LOC_INODE);
	uint8_t		bytes[FUZZ_MAX_INPUT];

	loc.depth = depth;
	loc.root_page = 2;
	loc.root_stamp = 3;
	fuzz_keep(bytes, sf_format_locator_encode_inode(bytes, &loc, &secret));
}

/* Flat maps of all lengths, and inodes of all depths, with these flags. */
static void
keep_all(uint16_t flags)
{
	for (uint64_t len = 1; len <= sf_unit_start(SF_FLAT_MAX_UNITS); len = len * 3 + 511)
		keep_flat(len, 100, flags);
	/* around the longest maps: a run for each unit, and few runs */
	for (uint64_t units = 75; units <= SF_FLAT_MAX_UNITS + 1; units++)
	{
		keep_flat(sf_unit_start(units), 1, flags);
		if (units >= SF_FLAT_MAX_UNITS)
			keep_flat(sf_unit_start(units), 100, flags);
	}
	for (uint16_t depth = 1; depth <= 6; depth++)
		keep_inode((uint64_t) INT64_MAX >> (8 * (6 - depth)), depth, flags);
}

void
fuzz_seeds(void)
{
	static const uint16_t flags[] = {0, SF_LOC_UNITS, SF_LOC_SHARED, SF_LOC_UNITS | SF_LOC_KEYED,
		SF_LOC_SHARED | SF_LOC_UNITS, SF_LOC_SHARED | SF_LOC_UNITS | SF_LOC_KEYED};
	static const uint16_t also[] = {0, SF_LOC_HASHED};

	keep_cut_unit();
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		for (size_t j = 0; j < sizeof(also) / sizeof(also[0]); j++)
			keep_all(flags[i] | also[j]);
}
