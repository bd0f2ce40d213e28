/*-------------------------------------------------------------------------
 *
 * plain.c
 *	  Encoded units: their plain bytes.
 *
 * A codec decodes a unit as a whole.  Who reads a value in small pieces wants the same
 * unit many times, so the last two units that were wanted in part are kept:
 * two, since a piece may lie in two units, and two values may be read by turns.
 *
 * What is kept is found again by all that makes a unit what it is, its checksum among
 * it.  So nothing that is kept can be wrong: a unit that was written anew, also in the
 * same place, is another one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "portability/instr_time.h"
#include "read/read_internal.h"
#include "utils/memutils.h"

#define KEPT	2

typedef struct KeptUnit
{
	uint64		incarnation;
	uint64		object_id;
	uint64		unit_no;
	uint32		plain_bytes;	/* 0: nothing is kept */
	SfUnit		unit;
	char	   *plain;			/* SF_UNIT_SIZE; made on first use, for the
								 * life of the process */
} KeptUnit;

static KeptUnit kept[KEPT];
static int	last_used;

bool
sfi_read_decode(SfReadJob *job, const SfReadListener *listener, uint64 unit_no,
				const SfUnit *unit, const char *stored, char *dst)
{
	uint32		plain_bytes = sf_unit_plain_bytes(job->length_bytes, unit_no);
	instr_time	start;
	instr_time	end;
	SfDictionary *dictionary;
	SfDecoded	result;

	SF_ASSERT(!sf_transform_is_raw(unit) && plain_bytes > 0);
	SF_FAULT(decode);
	dictionary = sf_space_dictionary(job->seg, sf_transform_dictionary_of(unit, stored));
	INSTR_TIME_SET_CURRENT(start);
	result = sf_transform_decode(unit, dictionary, stored, dst, plain_bytes);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	job->stats->decompress_time_us += INSTR_TIME_GET_MICROSEC(end);
	if (result != SF_DECODED)
		sfi_read_report_undecodable(listener, unit_no, unit, result);
	return result == SF_DECODED;
}

/* Is it this unit that is kept there? */
static bool
is_kept(const KeptUnit *there, const SfReadJob *job, uint64 unit_no, const SfUnit *unit)
{
	return there->plain_bytes == sf_unit_plain_bytes(job->length_bytes, unit_no) &&
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
	if (!sfi_read_decode(job, listener, unit_no, unit, stored, there->plain))
		return NULL;
	there->incarnation = job->loc->incarnation;
	there->object_id = job->loc->object_id;
	there->unit_no = unit_no;
	there->unit = *unit;
	there->plain_bytes = sf_unit_plain_bytes(job->length_bytes, unit_no);
	last_used = there - kept;
	SF_ASSERT(is_kept(there, job, unit_no, unit));
	return there->plain;
}
