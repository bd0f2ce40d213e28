/*-------------------------------------------------------------------------
 *
 * plain.c
 *	  Encoded and encrypted units: their plain bytes.
 *
 *	stored bytes --open (KEYED)--> as encoded --decode--> plain bytes
 *
 * A codec decodes a unit as a whole.  A reader of small pieces of a value wants the same
 * unit many times, so the last two units that were wanted in part are kept:
 * two, since a piece may lie in two units, and two values may be read by turns.
 *
 * What is kept is found again by all that makes a unit what it is, its checksum among
 * it.  So nothing that is kept can be wrong: a unit that was written anew, also in the
 * same place, is another one.
 *
 * Of encrypted units nothing is kept beyond the transaction: all that was decrypted is
 * wiped at its end.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "keys/keys.h"
#include "read/read_internal.h"
#include "space/dictionary_pages.h"
#include "utils/memutils.h"

#define KEPT	2

typedef struct KeptUnit
{
	uint64		incarnation;
	uint64		object_id;
	uint64		unit_no;
	uint32		plain_bytes;	/* 0: nothing is kept */
	uint32		opened_bytes;	/* as many may be of encrypted units */
	SfUnit		unit;
	char	   *plain;			/* SF_UNIT_SIZE; made on first use, for the
								 * life of the process */
} KeptUnit;

static KeptUnit kept[KEPT];
static int	last_used;

#define OPENED_BYTES	(SF_CODED_OVERHEAD + SF_UNIT_SIZE)

/* A unit that was decrypted, and is still encoded; OPENED_BYTES, or NULL. */
static char *opened;
static uint32 opened_bytes;		/* as many of them are to be wiped */

/*
 * Decrypt a unit into memory of this file; it is then one that was encoded only.  One that
 * was not even that goes to dst, and is done.
 */
static SfDecoded
open_unit(SfReadJob *job, uint64 unit_no, SfUnit *unit, const char *stored, char *dst,
		  uint32 plain_bytes)
{
	const SfUnitId id = {job->loc->incarnation, job->loc->object_id, unit_no};
	const SfDataKey *key = sf_keys_of(job->seg, job->loc->key_id);
	char		head[SF_CODED_OVERHEAD];
	SfDecoded	result;

	SF_FAULT(decrypt);
	if (unit->stored_bytes > plain_bytes + SF_KEYED_OVERHEAD)
		return SF_DECODE_DAMAGED;
	if (!sf_transform_is_raw(unit))
	{
		if (opened == NULL)
			opened = MemoryContextAlloc(TopMemoryContext, OPENED_BYTES);
		opened_bytes = Max(opened_bytes, Min(unit->stored_bytes, OPENED_BYTES));
		return sf_transform_open_unit(key, &id, unit, stored, opened, opened + sizeof(head));
	}
	if (unit->stored_bytes != plain_bytes + SF_KEYED_OVERHEAD)
		return SF_DECODE_DAMAGED;
	result = sf_transform_open_unit(key, &id, unit, stored, head, dst);
	if (result == SF_DECODED && !sf_transform_head_ok(dst, plain_bytes, head))
		result = SF_DECODE_DAMAGED;
	return result;
}

/* Decode a unit that is not raw. */
static SfDecoded
decode_unit(SfReadJob *job, const SfUnit *unit, const char *stored, char *dst,
			uint32 plain_bytes)
{
	const SfHome home = {job->seg->table_oid, job->seg->attnum, job->seg->incarnation};
	SfDictionary *dictionary;
	uint64		start_us;
	SfDecoded	result;

	SF_FAULT(decode);
	dictionary = sf_space_dictionary(&home, sf_transform_dictionary_of(unit, stored));
	start_us = sf_base_now_us();
	result = sf_transform_decode(unit, dictionary, stored, dst, plain_bytes);
	job->stats->decompress_time_us += sf_base_now_us() - start_us;
	job->stats->units_decompressed++;
	return result;
}

bool
sfi_read_decode(SfReadJob *job, const SfReadListener *listener, uint64 unit_no,
				const SfUnit *unit, const char *stored, char *dst)
{
	uint32		plain_bytes = sf_unit_plain_bytes(job->unit_space_bytes, unit_no);
	SfUnit		encoded = *unit;
	SfDecoded	result = SF_DECODED;

	SF_ASSERT(!sfi_read_is_plain(job, unit) && plain_bytes > 0);
	if (job->loc->flags & SF_LOC_KEYED)
	{
		result = open_unit(job, unit_no, &encoded, stored, dst, plain_bytes);
		stored = opened;
	}
	if (result == SF_DECODED && !sf_transform_is_raw(unit))
		result = decode_unit(job, &encoded, stored, dst, plain_bytes);
	if (result == SF_DECODE_NO_DICTIONARY && listener == NULL)
		sfi_read_report_no_dictionary(sf_transform_dictionary_of(&encoded, stored));
	if (result != SF_DECODED)
		sfi_read_report_undecodable(listener, unit_no, unit, result);
	return result == SF_DECODED;
}

/* Is it this unit that is kept there? */
static bool
is_kept(const KeptUnit *there, const SfReadJob *job, uint64 unit_no, const SfUnit *unit)
{
	return there->plain_bytes == sf_unit_plain_bytes(job->unit_space_bytes, unit_no) &&
		there->unit_no == unit_no && there->object_id == job->loc->object_id &&
		there->incarnation == job->loc->incarnation &&
		memcmp(&there->unit, unit, sizeof(SfUnit)) == 0;
}

/* The unit that was not used last makes room; nothing is kept there until all is right. */
static KeptUnit *
make_place(void)
{
	KeptUnit   *there = &kept[(last_used + 1) % KEPT];

	SF_ASSERT(last_used >= 0 && last_used < KEPT);
	if (there->plain == NULL)
		there->plain = MemoryContextAlloc(TopMemoryContext, SF_UNIT_SIZE);
	there->plain_bytes = 0;
	return there;
}

const char *
sfi_read_plain(SfReadJob *job, const SfReadListener *listener, uint64 unit_no,
			   const SfUnit *unit, const char *stored)
{
	KeptUnit   *there;

	for (int i = 0; i < KEPT; i++)
		if (is_kept(&kept[i], job, unit_no, unit))
		{
			last_used = i;
			return kept[i].plain;
		}
	there = make_place();
	if (job->loc->flags & SF_LOC_KEYED)
		there->opened_bytes = Max(there->opened_bytes,
								  sf_unit_plain_bytes(job->unit_space_bytes, unit_no));
	if (!sfi_read_decode(job, listener, unit_no, unit, stored, there->plain))
		return NULL;
	there->incarnation = job->loc->incarnation;
	there->object_id = job->loc->object_id;
	there->unit_no = unit_no;
	there->unit = *unit;
	there->plain_bytes = sf_unit_plain_bytes(job->unit_space_bytes, unit_no);
	last_used = there - kept;
	SF_ASSERT(is_kept(there, job, unit_no, unit));
	return there->plain;
}

void
sfi_read_wipe(void)
{
	if (opened_bytes > 0)
		sodium_memzero(opened, opened_bytes);
	opened_bytes = 0;
	for (int i = 0; i < KEPT; i++)
	{
		if (kept[i].opened_bytes == 0)
			continue;
		kept[i].plain_bytes = 0;
		sodium_memzero(kept[i].plain, kept[i].opened_bytes);
		kept[i].opened_bytes = 0;
	}
}
