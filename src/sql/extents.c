/*-------------------------------------------------------------------------
 *
 * extents.c
 *	  securefile_extents(): a tag for each part of a value, by which a later version can be
 *	  compared without reading either.
 *
 * A unit of a value is written once.  Its checksum, which is seeded by segment and object, its
 * stored length and its codec stand in the map, so these tell whether it is the same unit.  A tag
 * is a version byte, and a MAC of all this for the units of a part, with the object and the
 * numbers of the units.  It is not one of their places: data that is moved keeps its tags.
 *
 * The caller may choose contents, and is told the MAC.  So its key is none that protects anything:
 * it is derived from the secret of the segment for this use alone, and what goes into the MAC
 * begins with a text that no locator begins with.
 *
 * A value that is PIECED has one tag, of its list and of all its units: bytes that only move change
 * no unit.
 *
 * A value that lies in its row has no units; a program that wants it fetches it.  Nor is a part
 * listed that is one hole.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "object/object.h"
#include "sql/content.h"

PG_FUNCTION_INFO_V1(securefile_extents);

#define EXTENT_COLUMNS		3
#define GRANULE_MAX			(1024 * 1024 * 1024)
#define UNITS_AT_ONCE		512

#define TAG_VERSION			1
#define MAC_BYTES			16

/* What the key is derived for, and what a MAC begins with; of eight bytes with the zero. */
static const char KEY_USE[] = "extents";

/* A MAC is made of these, first of all, .. */
typedef struct ExtentHead
{
	char		use[8];
	uint64		object_id;
	uint64		first_unit;
	uint64		length_bytes;	/* of the part */
} ExtentHead;

/* .. and of one of these for each unit. */
typedef struct ExtentUnit
{
	uint64		checksum;
	uint32		stored_bytes;	/* 0: it is a hole */
	uint32		flags;
} ExtentUnit;

StaticAssertDecl(sizeof(ExtentHead) == 32 && sizeof(ExtentUnit) == 16, "a MAC has no padding");
StaticAssertDecl(sizeof(KEY_USE) == sizeof(((ExtentHead *) NULL)->use), "the text fits");
StaticAssertDecl(GRANULE_MAX % SF_UNIT_SIZE == 0, "a part has whole units");

typedef struct Extents
{
	FunctionCallInfo fcinfo;
	SfSegment  *seg;
	const SfLocator *loc;
	uint64		granule_units;
	uint8		key[crypto_generichash_KEYBYTES];
	SfUnit		units[UNITS_AT_ONCE];
} Extents;

static void
derive_key(Extents *extents)
{
	/* picks the fastest code that the processor has */
	if (sodium_init() < 0)
		elog(ERROR, "libsodium could not be initialized");
	StaticAssertStmt(sizeof(extents->seg->secret.bytes) >= crypto_generichash_KEYBYTES_MIN,
					 "a secret is a key");
	(void) crypto_generichash(extents->key, sizeof(extents->key),
							  (const unsigned char *) KEY_USE, sizeof(KEY_USE),
							  extents->seg->secret.bytes, sizeof(extents->seg->secret.bytes));
}

/* Add units [first, first + n) to a MAC. */
static void
add_units(Extents *extents, crypto_generichash_state * mac, uint64 first, uint32 n)
{
	SF_ASSERT(n <= UNITS_AT_ONCE && first + n <= extents->loc->nunits);
	sf_object_units(extents->seg, extents->loc, first, n, extents->units);
	for (uint32 i = 0; i < n; i++)
	{
		const SfUnit *unit = &extents->units[i];
		ExtentUnit	added = {unit->checksum, unit->stored_bytes, unit->flags};

		if (unit->start == SF_HOLE)
			added = (ExtentUnit) {0};
		(void) crypto_generichash_update(mac, (const unsigned char *) &added, sizeof(added));
	}
}

/* The tag of units [first, past), which have that many bytes of the value. */
static bytea *
tag_of(Extents *extents, uint64 first, uint64 past, uint64 length_bytes)
{
	ExtentHead	head = {.object_id = extents->loc->object_id, .first_unit = first,
		.length_bytes = length_bytes};
	crypto_generichash_state mac;
	bytea	   *tag = sfi_sql_new_bytea(1 + MAC_BYTES);

	memcpy(head.use, KEY_USE, sizeof(head.use));
	(void) crypto_generichash_init(&mac, extents->key, sizeof(extents->key), MAC_BYTES);
	(void) crypto_generichash_update(&mac, (const unsigned char *) &head, sizeof(head));
	for (; first < past; first += UNITS_AT_ONCE)
	{
		CHECK_FOR_INTERRUPTS();
		add_units(extents, &mac, first, (uint32) Min(UNITS_AT_ONCE, past - first));
	}
	VARDATA(tag)[0] = TAG_VERSION;
	(void) crypto_generichash_final(&mac, (unsigned char *) VARDATA(tag) + 1, MAC_BYTES);
	return tag;
}

static void
put_extent(FunctionCallInfo fcinfo, uint64 object_offset, uint64 length_bytes, bytea *tag)
{
	Datum		values[EXTENT_COLUMNS];
	bool		nulls[EXTENT_COLUMNS] = {false, false, tag == NULL};

	values[0] = Int64GetDatum((int64) object_offset + 1);
	values[1] = Int64GetDatum((int64) length_bytes);
	values[2] = PointerGetDatum(tag);
	sf_base_put_row(fcinfo, values, nulls);
}

/* A row for each part of a value in its segment that is not one hole. */
static void
put_stored(Extents *extents)
{
	const SfLocator *loc = extents->loc;
	uint64		first = 0;

	while ((first = sf_object_next_stored(extents->seg, loc, first)) < loc->nunits)
	{
		uint64		past;
		uint64		end;
		bytea	   *tag;

		first -= first % extents->granule_units;
		past = Min(first + extents->granule_units, loc->nunits);
		end = Min(sf_unit_start(past), loc->unit_space_bytes);
		SF_ASSERT(sf_unit_start(first) < end);
		tag = tag_of(extents, first, past, end - sf_unit_start(first));
		put_extent(extents->fcinfo, sf_unit_start(first), end - sf_unit_start(first), tag);
		pfree(tag);
		first = past;
	}
}

/* Add the number of a unit, and the unit. */
static void
add_numbered(Extents *extents, crypto_generichash_state * mac, uint64 unit_no)
{
	(void) crypto_generichash_update(mac, (const unsigned char *) &unit_no, sizeof(unit_no));
	add_units(extents, mac, unit_no, 1);
}

/* One row for a PIECED value: of its pieces, and all units. */
static void
put_pieced(Extents *extents)
{
	const SfLocator *loc = extents->loc;
	uint64		length_bytes = sf_locator_value_bytes(loc);
	ExtentHead	head = {.object_id = loc->object_id, .first_unit = PG_UINT64_MAX,
		.length_bytes = length_bytes};
	crypto_generichash_state mac;
	bytea	   *tag = sfi_sql_new_bytea(1 + MAC_BYTES);
	SfRange    *ranges;
	int64		n = sf_object_ranges(extents->seg, loc, 0, length_bytes, &ranges);
	uint64		unit_no = 0;

	memcpy(head.use, KEY_USE, sizeof(head.use));
	(void) crypto_generichash_init(&mac, extents->key, sizeof(extents->key), MAC_BYTES);
	(void) crypto_generichash_update(&mac, (const unsigned char *) &head, sizeof(head));
	(void) crypto_generichash_update(&mac, (const unsigned char *) ranges, n * sizeof(SfRange));
	while ((unit_no = sf_object_next_stored(extents->seg, loc, unit_no)) < loc->nunits)
	{
		CHECK_FOR_INTERRUPTS();
		add_numbered(extents, &mac, unit_no++);
	}
	VARDATA(tag)[0] = TAG_VERSION;
	(void) crypto_generichash_final(&mac, (unsigned char *) VARDATA(tag) + 1, MAC_BYTES);
	put_extent(extents->fcinfo, 0, length_bytes, tag);
	pfree(ranges);
	pfree(tag);
}

/* The map of an encrypted value has to be genuine: what its tags hide is not read. */
static void
put_units_of(FunctionCallInfo fcinfo, SfLocator *loc, uint32 granule)
{
	Extents		extents = {.fcinfo = fcinfo, .loc = loc, .granule_units = granule / SF_UNIT_SIZE};

	extents.seg = sf_object_open(loc);
	sf_object_require_genuine(extents.seg, loc);
	derive_key(&extents);
	if (loc->flags & SF_LOC_PIECED)
		put_pieced(&extents);
	else
		put_stored(&extents);
	sf_space_release(extents.seg);
	sodium_memzero(extents.key, sizeof(extents.key));
}

static void
require_granule(int32 granule)
{
	if (granule < SF_UNIT_SIZE || granule > GRANULE_MAX || granule % SF_UNIT_SIZE != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("granule must be a multiple of %d bytes, up to %d, not %d", SF_UNIT_SIZE,
						GRANULE_MAX, granule)));
}

/*
 * securefile_extents(document securefile, granule integer)
 * returns setof (start bigint, length bigint, tag bytea)
 */
Datum
securefile_extents(PG_FUNCTION_ARGS)
{
	int32		granule = PG_GETARG_INT32(1);
	SfSqlContent content;

	require_granule(granule);
	InitMaterializedSRF(fcinfo, 0);
	sfi_sql_open(PG_GETARG_DATUM(0), &content);
	if (content.value.form == SF_FORM_STORED)
		put_units_of(fcinfo, &content.value.loc, granule);
	else if (content.length > 0)
		put_extent(fcinfo, 0, content.length, NULL);
	return (Datum) 0;
}
