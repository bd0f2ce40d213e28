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

/* Check the part of a locator that is a flat map. */
static const char *
decode_flat_map(const uint8_t *data, size_t len, SfLocator *loc)
{
	uint64_t	sectors = 0;

	if (loc->nunits > SF_FLAT_MAX_UNITS || loc->nruns > SF_FLAT_MAX_RUNS)
		return "flat unit map is too long";
	if (len != sf_format_locator_flat_size(loc->nruns, loc->nunits))
		return "locator has the wrong size";
	loc->map = data + SF_LOCATOR_HEADER;
	for (uint32_t i = 0; i < loc->nruns; i++)
	{
		SfRun		run = sf_format_locator_run(loc, i);

		if (run.nsectors == 0 || run.nsectors > SF_MAP_SECTORS ||
			run.start / SF_MAP_SECTORS != (run.start + run.nsectors - 1) / SF_MAP_SECTORS)
			return "unit map has an impossible run";
		sectors += run.nsectors;
	}
	if (sectors != SF_BYTES_TO_SECTORS(loc->length_bytes))
		return "runs of the unit map do not add up to the length";
	return NULL;
}

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

size_t
sf_format_locator_encode(uint8_t *data, const SfLocator *loc, const SfRun *runs,
						 const uint64_t *checksums, const SfSecret *secret)
{
	uint8_t    *p = data + SF_LOCATOR_HEADER;

	memset(data, 0, SF_LOCATOR_HEADER);
	data[0] = SF_FORM_STORED;
	data[1] = SF_LOCATOR_VERSION;
	PUT(uint16_t, data + 2, loc->flags);
	PUT(uint32_t, data + 4, loc->table_oid);
	PUT(int16_t, data + 8, loc->attnum);
	PUT(uint16_t, data + 10, loc->key_id);
	PUT(uint32_t, data + 12, loc->generation);
	PUT(uint64_t, data + 16, loc->object_id);
	PUT(uint64_t, data + 24, loc->length_bytes);
	PUT(uint64_t, data + 32, loc->incarnation);
	PUT(uint32_t, data + 40, (loc->flags & SF_LOC_INODE) ? 0 : (uint32_t) loc->nunits);
	if (loc->flags & SF_LOC_INODE)
	{
		PUT(uint16_t, data + 44, loc->depth);
		PUT(uint32_t, data + 48, loc->root_page);
		PUT(uint32_t, data + 52, 0);
		PUT(uint64_t, data + 56, loc->root_stamp);
		return sign(data, 64, secret);
	}
	PUT(uint16_t, data + 44, loc->nruns);
	for (uint32_t i = 0; i < loc->nruns; i++, p += SF_ENCODED_RUN_SIZE)
	{
		PUT(uint64_t, p, runs[i].start);
		PUT(uint32_t, p + 8, runs[i].nsectors);
	}
	memcpy(p, checksums, (size_t) loc->nunits * 8);
	return sign(data, p + (size_t) loc->nunits * 8 - data, secret);
}

SfRun
sf_format_locator_run(const SfLocator *loc, uint32_t i)
{
	const uint8_t *p = loc->map + (size_t) i * SF_ENCODED_RUN_SIZE;

	return (SfRun) {GET(uint64_t, p), GET(uint32_t, p + 8)};
}

uint64_t
sf_format_locator_checksum(const SfLocator *loc, uint32_t i)
{
	return GET(uint64_t, loc->map + (size_t) loc->nruns * SF_ENCODED_RUN_SIZE + (size_t) i * 8);
}
