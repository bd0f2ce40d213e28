/*-------------------------------------------------------------------------
 *
 * locator.c
 *	  Damaged locators for the decoder: it says what is wrong with them, or what it
 *	  took can be read to its end and encoded to the same bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/format.h"
#include "fuzz.h"

static const SfSecret secret = {"sixteen bytes .."};

/* ---- the decoder's answer ---- */

/* What was taken must be whole: read all of it, and encode it again. */
static void
check_taken(const uint8_t *bytes, size_t len, const SfLocator *loc)
{
	static SfRun runs[SF_FLAT_MAX_RUNS];
	static uint64_t checksums[SF_FLAT_MAX_UNITS];
	static uint8_t again[SF_LOCATOR_MAX_SIZE];
	bool		flat = !(loc->flags & SF_LOC_INODE);
	uint64_t	sectors = 0;

	if (loc->nunits != SF_UNITS_OF(loc->length_bytes) || loc->encoded != bytes ||
		loc->signed_bytes != len - SF_LOCATOR_MAC_SIZE)
		fuzz_stop("fields contradict each other");
	for (uint32_t i = 0; flat && i < loc->nruns; i++)
	{
		runs[i] = sf_format_locator_run(loc, i);
		sectors += runs[i].nsectors;
	}
	for (uint32_t i = 0; flat && i < loc->nunits; i++)
		checksums[i] = sf_format_locator_checksum(loc, i);
	if (flat && sectors != SF_BYTES_TO_SECTORS(loc->length_bytes))
		fuzz_stop("runs do not add up");
	if (sf_format_locator_encode(again, loc, runs, checksums, &secret) != len)
		fuzz_stop("another length");
	if (sf_format_locator_genuine(loc, &secret) != (memcmp(again, bytes, len) == 0))
		fuzz_stop("the hash takes others for genuine, or genuine ones for others");
}

const char *
fuzz_try(const uint8_t *bytes, size_t len)
{
	SfLocator	loc;
	const char *wrong = sf_format_locator_decode(bytes, len, &loc);

	if (wrong == NULL)
		check_taken(bytes, len, &loc);
	return wrong;
}

/* ---- inputs ---- */

/* A flat locator, sound but for its length: runs of that many sectors, one map page each. */
static void
keep_flat(uint64_t length_bytes, uint32_t sectors_a_run)
{
	SfLocator	loc = {.length_bytes = length_bytes, .table_oid = 16384, .attnum = 2,
		.generation = 1, .object_id = 7, .incarnation = 42};
	SfRun		runs[SF_FLAT_MAX_RUNS + 1];
	uint64_t	checksums[SF_FLAT_MAX_UNITS + 1] = {0};
	uint64_t	left = SF_BYTES_TO_SECTORS(length_bytes);
	uint8_t		bytes[FUZZ_MAX_INPUT];

	loc.nunits = SF_UNITS_OF(length_bytes);
	for (; left > 0; left -= runs[loc.nruns++].nsectors)
	{
		runs[loc.nruns].start = (uint64_t) loc.nruns * SF_MAP_SECTORS;
		runs[loc.nruns].nsectors = left < sectors_a_run ? left : sectors_a_run;
	}
	fuzz_keep(bytes, sf_format_locator_encode(bytes, &loc, runs, checksums, &secret));
}

static void
keep_inode(uint64_t length_bytes, uint16_t depth)
{
	SfLocator	loc = {.length_bytes = length_bytes, .flags = SF_LOC_INODE, .depth = depth,
		.table_oid = 16384, .attnum = 2, .generation = 1, .object_id = 7, .incarnation = 42,
	.root_page = 2, .root_stamp = 3};
	uint8_t		bytes[FUZZ_MAX_INPUT];

	loc.nunits = SF_UNITS_OF(length_bytes);
	fuzz_keep(bytes, sf_format_locator_encode(bytes, &loc, NULL, NULL, &secret));
}

void
fuzz_seeds(void)
{
	for (uint64_t len = 1; len <= (uint64_t) SF_FLAT_MAX_UNITS * SF_UNIT_SIZE; len = len * 3 + 511)
		keep_flat(len, SF_MAP_SECTORS);
	for (uint64_t units = SF_FLAT_MAX_UNITS; units <= SF_FLAT_MAX_UNITS + 1; units++)
	{
		keep_flat(units * SF_UNIT_SIZE, SF_UNIT_SECTORS);
		keep_flat(units * SF_UNIT_SIZE, SF_MAP_SECTORS);
	}
	for (uint16_t depth = 1; depth <= 6; depth++)
		keep_inode((uint64_t) INT64_MAX >> (8 * (6 - depth)), depth);
}
