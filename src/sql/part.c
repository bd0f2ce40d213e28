/*-------------------------------------------------------------------------
 *
 * part.c
 *	  length(), octet_length(), substring(): what needs no whole value.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/int.h"
#include "fmgr.h"
#include "object/object.h"
#include "read/read.h"
#include "sql/content.h"
#include "sql/sql.h"

PG_FUNCTION_INFO_V1(securefile_length);
PG_FUNCTION_INFO_V1(securefile_substring);
PG_FUNCTION_INFO_V1(securefile_substring_rest);
PG_FUNCTION_INFO_V1(securefile_substring_big);
PG_FUNCTION_INFO_V1(securefile_substring_big_rest);

Datum
securefile_length(PG_FUNCTION_ARGS)
{
	SfRope	   *rope = sf_object_rope_of(PG_GETARG_DATUM(0));
	SfUnfilled	unfilled;
	SfSqlContent content;

	if (rope != NULL)
		PG_RETURN_INT64(sf_object_rope_length(rope));

	/*
	 * CHECK constraints and generated columns ask for it while a dump is
	 * restored
	 */
	if (sf_read_unfilled(sf_object_given(PG_GETARG_DATUM(0)), &unfilled))
		PG_RETURN_INT64((int64) unfilled.length_bytes);
	sfi_sql_open(PG_GETARG_DATUM(0), &content);
	PG_RETURN_INT64(content.length);
}

/* Bytes [first, past) of a value of some length, as far as there are any. */
typedef struct Part
{
	int64		first;
	int64		past;
} Part;

static Part
part_of(int64 length, int64 start, int64 end_offset)
{
	Part		part;

	part.first = Min(Max(start, 1) - 1, length);
	part.past = Max(Min(Max(end_offset, 0), length), part.first);
	SF_ASSERT(part.first >= 0 && part.first <= part.past && part.past <= length);
	return part;
}

/* Of a value that grows in a loop: no more of it is made flat than is asked for. */
static bytea *
substring_of_rope(const SfRope *rope, int64 start, int64 end_offset)
{
	Part		part = part_of(sf_object_rope_length(rope), start, end_offset);
	struct varlena *flat = sf_object_rope_part(rope, part.first, part.past);
	SfSqlContent content;

	sfi_sql_open(PointerGetDatum(flat), &content);
	return sfi_sql_hand_out(&content, 0, part.past - part.first);
}

/* Bytes from position start (the first is 1) to before that offset. */
static bytea *
substring(Datum value, int64 start, int64 end_offset)
{
	SfRope	   *rope = sf_object_rope_of(value);
	SfSqlContent content;
	Part		part;

	sf_sql_send_large();
	if (rope != NULL)
		return substring_of_rope(rope, start, end_offset);
	sfi_sql_open(value, &content);
	part = part_of(content.length, start, end_offset);
	return sfi_sql_hand_out(&content, part.first, part.past - part.first);
}

/* Offset of the end of a substring; an overflow means to the end, as for bytea. */
static int64
end_offset(int64 start, int64 length)
{
	int64		end;

	if (length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	return pg_add_s64_overflow(Max(start, PG_INT64_MIN + 1) - 1, length, &end) ? PG_INT64_MAX : end;
}

Datum
securefile_substring(PG_FUNCTION_ARGS)
{
	int64		start = PG_GETARG_INT32(1);

	PG_RETURN_BYTEA_P(substring(PG_GETARG_DATUM(0), start,
								end_offset(start, PG_GETARG_INT32(2))));
}

Datum
securefile_substring_rest(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(substring(PG_GETARG_DATUM(0), PG_GETARG_INT32(1), PG_INT64_MAX));
}

Datum
securefile_substring_big(PG_FUNCTION_ARGS)
{
	int64		start = PG_GETARG_INT64(1);

	PG_RETURN_BYTEA_P(substring(PG_GETARG_DATUM(0), start,
								end_offset(start, PG_GETARG_INT64(2))));
}

Datum
securefile_substring_big_rest(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(substring(PG_GETARG_DATUM(0), PG_GETARG_INT64(1), PG_INT64_MAX));
}
