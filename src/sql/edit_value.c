/*-------------------------------------------------------------------------
 *
 * edit_value.c
 *	  ||, overlay(), securefile_truncate() and the like: values that say what they
 *	  consist of, and read or write nothing (Oracle: DBMS_LOB.APPEND, COPY, ERASE,
 *	  FRAGMENT_INSERT, FRAGMENT_DELETE, FRAGMENT_MOVE, FRAGMENT_REPLACE, TRIM, which
 *	  write).
 *
 * Positions of the first byte are 1 in SQL, and 0 in ranges here.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/int.h"
#include "fmgr.h"
#include "sql/compose.h"
#include "sql/content.h"

PG_FUNCTION_INFO_V1(securefile_concat);
PG_FUNCTION_INFO_V1(securefile_concat_bytea);
PG_FUNCTION_INFO_V1(securefile_prepend);
PG_FUNCTION_INFO_V1(securefile_overlay);
PG_FUNCTION_INFO_V1(securefile_overlay_big);
PG_FUNCTION_INFO_V1(securefile_overlay_all);
PG_FUNCTION_INFO_V1(securefile_overlay_all_big);
PG_FUNCTION_INFO_V1(securefile_overlay_value);
PG_FUNCTION_INFO_V1(securefile_truncate_value);
PG_FUNCTION_INFO_V1(securefile_part);
PG_FUNCTION_INFO_V1(securefile_erase_value);
PG_FUNCTION_INFO_V1(securefile_insert_value);
PG_FUNCTION_INFO_V1(securefile_delete_value);
PG_FUNCTION_INFO_V1(securefile_move_value);

/*
 * Begin a result; like: as for sfi_compose_begin().  In an aggregate the rope is the next
 * state, so it lies in the memory of the aggregate.
 */
static SfComposed
begin_result(FunctionCallInfo fcinfo, SfRope *like)
{
	MemoryContext parent;

	if (!AggCheckCallContext(fcinfo, &parent))
		parent = CurrentMemoryContext;
	return sfi_compose_begin(like, parent);
}

/* An argument of type bytea as a source. */
static SfSource
source_bytes(FunctionCallInfo fcinfo, int argument)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(argument);

	return sfi_compose_source_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
}

/* ---- || ---- */

static Datum
concat(FunctionCallInfo fcinfo, const SfSource *left, const SfSource *right)
{
	SfComposed	result = begin_result(fcinfo, sfi_compose_longer_rope(left->rope, right->rope));

	sfi_compose_add_all(&result, left);
	sfi_compose_add_all(&result, right);
	return sfi_compose_end(&result);
}

Datum
securefile_concat(PG_FUNCTION_ARGS)
{
	SfSource	left = sfi_compose_source(PG_GETARG_DATUM(0));
	SfSource	right = sfi_compose_source(PG_GETARG_DATUM(1));

	return concat(fcinfo, &left, &right);
}

Datum
securefile_concat_bytea(PG_FUNCTION_ARGS)
{
	SfSource	left = sfi_compose_source(PG_GETARG_DATUM(0));
	SfSource	right = source_bytes(fcinfo, 1);

	return concat(fcinfo, &left, &right);
}

Datum
securefile_prepend(PG_FUNCTION_ARGS)
{
	SfSource	left = source_bytes(fcinfo, 0);
	SfSource	right = sfi_compose_source(PG_GETARG_DATUM(1));

	return concat(fcinfo, &left, &right);
}

/* ---- others in the place of some bytes ---- */

/* A value that has, in the place of its bytes [first, past), what is placed there. */
static Datum
replace(FunctionCallInfo fcinfo, const SfSource *source, const SfSource *placed,
		int64 first, int64 past)
{
	SfComposed	result = begin_result(fcinfo, sfi_compose_longer_rope(source->rope, placed->rope));

	sfi_compose_add(&result, source, 0, first);
	sfi_compose_add_all(&result, placed);
	sfi_compose_add(&result, source, past, PG_INT64_MAX);
	return sfi_compose_end(&result);
}

/*
 * Bytes in place of len bytes from position start (the first is 1); for what
 * lies outside of the value the rules are those of overlay() for bytea.
 */
static Datum
overlay(FunctionCallInfo fcinfo, const SfSource *placed, int64 start, int64 len)
{
	SfSource	source = sfi_compose_source(PG_GETARG_DATUM(0));
	int64		past;

	if (start <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	if (pg_add_s64_overflow(start - 1, len, &past))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	return replace(fcinfo, &source, placed, start - 1, Max(past, 0));
}

Datum
securefile_overlay(PG_FUNCTION_ARGS)
{
	SfSource	placed = source_bytes(fcinfo, 1);

	return overlay(fcinfo, &placed, PG_GETARG_INT32(2), PG_GETARG_INT32(3));
}

Datum
securefile_overlay_big(PG_FUNCTION_ARGS)
{
	SfSource	placed = source_bytes(fcinfo, 1);

	return overlay(fcinfo, &placed, PG_GETARG_INT64(2), PG_GETARG_INT64(3));
}

Datum
securefile_overlay_all(PG_FUNCTION_ARGS)
{
	SfSource	placed = source_bytes(fcinfo, 1);

	return overlay(fcinfo, &placed, PG_GETARG_INT32(2), placed.length);
}

Datum
securefile_overlay_all_big(PG_FUNCTION_ARGS)
{
	SfSource	placed = source_bytes(fcinfo, 1);

	return overlay(fcinfo, &placed, PG_GETARG_INT64(2), placed.length);
}

/* Of another securefile; a count that is NULL: as many bytes as it has. */
Datum
securefile_overlay_value(PG_FUNCTION_ARGS)
{
	SfSource	placed;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	placed = sfi_compose_source(PG_GETARG_DATUM(1));
	return overlay(fcinfo, &placed, PG_GETARG_INT64(2),
				   PG_ARGISNULL(3) ? placed.length : PG_GETARG_INT64(3));
}

/* ---- ranges: securefile_part(), securefile_erase(), securefile_delete() ---- */

/* Bytes [first, past) of a value, which has them. */
typedef struct Range
{
	int64		first;
	int64		past;
} Range;

/* How many bytes are before the end of a range, were the value long enough. */
static int64
past_of(int64 start, int64 count)
{
	int64		past;

	sfi_sql_require_position("start", start, ERRCODE_SUBSTRING_ERROR);
	if (count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("count must not be negative, but is %lld", (long long) count)));
	if (pg_add_s64_overflow(start - 1, count, &past))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("%lld bytes from position %lld on would end behind position %lld.",
						   (long long) count, (long long) start, (long long) PG_INT64_MAX)));
	return past;
}

/* What a value has of count bytes from position start on. */
static Range
range_of(const SfSource *source, int64 start, int64 count)
{
	int64		past = past_of(start, count);
	Range		range = {Min(start - 1, source->length), Min(past, source->length)};

	SF_ASSERT(range.first >= 0 && range.first <= range.past);
	return range;
}

/* A count that is NULL: to the end. */
Datum
securefile_part(PG_FUNCTION_ARGS)
{
	SfSource	source;
	SfComposed	result;
	Range		range;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	source = sfi_compose_source(PG_GETARG_DATUM(0));
	range = range_of(&source, PG_GETARG_INT64(1), PG_ARGISNULL(2) ? 0 : PG_GETARG_INT64(2));
	if (PG_ARGISNULL(2))
		range.past = source.length;
	result = begin_result(fcinfo, source.rope);
	sfi_compose_add(&result, &source, range.first, range.past);
	return sfi_compose_end(&result);
}

/* Zeros in the place of a range. */
Datum
securefile_erase_value(PG_FUNCTION_ARGS)
{
	SfSource	source = sfi_compose_source(PG_GETARG_DATUM(0));
	Range		range = range_of(&source, PG_GETARG_INT64(1), PG_GETARG_INT64(2));
	SfSource	zeros = sfi_compose_source_zeros(range.past - range.first);

	return replace(fcinfo, &source, &zeros, range.first, range.past);
}

Datum
securefile_delete_value(PG_FUNCTION_ARGS)
{
	SfSource	source = sfi_compose_source(PG_GETARG_DATUM(0));
	Range		range = range_of(&source, PG_GETARG_INT64(1), PG_GETARG_INT64(2));
	SfSource	nothing = {NULL};

	return replace(fcinfo, &source, &nothing, range.first, range.past);
}

/* ---- securefile_insert(), securefile_move() ---- */

/* Zeros up to a place that is behind the end of a source. */
static void
add_gap(SfComposed *result, const SfSource *source, int64 place)
{
	SfSource	gap = sfi_compose_source_zeros(Max(place - source->length, 0));

	sfi_compose_add_all(result, &gap);
}

Datum
securefile_insert_value(PG_FUNCTION_ARGS)
{
	SfSource	source = sfi_compose_source(PG_GETARG_DATUM(0));
	int64		start = PG_GETARG_INT64(1);
	SfSource	placed = sfi_compose_source(PG_GETARG_DATUM(2));
	SfComposed	result;

	past_of(start, placed.length);
	result = begin_result(fcinfo, sfi_compose_longer_rope(source.rope, placed.rope));
	sfi_compose_add(&result, &source, 0, start - 1);
	add_gap(&result, &source, start - 1);
	sfi_compose_add_all(&result, &placed);
	sfi_compose_add(&result, &source, start - 1, PG_INT64_MAX);
	return sfi_compose_end(&result);
}

/*
 * A destination within the range that it moves is refused by what was asked for, not by what
 * the value has of it: whether a statement is right then does not depend on the value.
 */
static void
require_outside(int64 start, int64 count, int64 destination)
{
	int64		past = past_of(start, count);

	sfi_sql_require_position("destination", destination, ERRCODE_SUBSTRING_ERROR);
	if (destination > start && destination - 1 < past)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("destination %lld lies within the bytes that are to be moved",
						(long long) destination),
				 errdetail("They are %lld bytes from position %lld on.",
						   (long long) count, (long long) start),
				 errhint("The destination may be the first of them, or the first byte behind them, or any other one.")));
}

/* The range, put before what was at a place outside of it; a place behind the end makes a gap. */
static void
add_moved(SfComposed *result, const SfSource *source, Range range, int64 place)
{
	if (place <= range.first)
	{
		sfi_compose_add(result, source, 0, place);
		sfi_compose_add(result, source, range.first, range.past);
		sfi_compose_add(result, source, place, range.first);
		sfi_compose_add(result, source, range.past, PG_INT64_MAX);
	}
	else
	{
		SF_ASSERT(place >= range.past);
		sfi_compose_add(result, source, 0, range.first);
		sfi_compose_add(result, source, range.past, place);
		add_gap(result, source, place);
		sfi_compose_add(result, source, range.first, range.past);
		sfi_compose_add(result, source, place, PG_INT64_MAX);
	}
}

Datum
securefile_move_value(PG_FUNCTION_ARGS)
{
	SfSource	source = sfi_compose_source(PG_GETARG_DATUM(0));
	int64		start = PG_GETARG_INT64(1);
	int64		count = PG_GETARG_INT64(2);
	int64		destination = PG_GETARG_INT64(3);
	SfComposed	result;
	Range		range;

	require_outside(start, count, destination);
	range = range_of(&source, start, count);
	result = begin_result(fcinfo, source.rope);
	if (range.first == range.past)
		sfi_compose_add_all(&result, &source);
	else
		add_moved(&result, &source, range, destination - 1);
	return sfi_compose_end(&result);
}

/* ---- securefile_truncate(): the first bytes, or all and zeros ---- */

Datum
securefile_truncate_value(PG_FUNCTION_ARGS)
{
	SfSource	source = sfi_compose_source(PG_GETARG_DATUM(0));
	int64		length = PG_GETARG_INT64(1);
	SfComposed	result;

	if (length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length of a securefile value cannot be negative")));
	result = begin_result(fcinfo, source.rope);
	sfi_compose_add(&result, &source, 0, length);
	add_gap(&result, &source, length);
	return sfi_compose_end(&result);
}
