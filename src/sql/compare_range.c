/*-------------------------------------------------------------------------
 *
 * compare_range.c
 *	  securefile_compare(): the order of the bytes of two values, or of ranges of
 *	  them (Oracle: DBMS_LOB.COMPARE).
 *
 * Two walks go side by side (walker.c).  Where both have zeros that lie nowhere, these
 * are passed over by their number, and nothing behind the first byte that differs is asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "sql/walker.h"

PG_FUNCTION_INFO_V1(securefile_compare);

/* One of the two; and what is left of the part at hand. */
typedef struct Side
{
	SfSqlWalk	walk;
	SfSqlPart	part;
	int64		start;			/* offset of the range */
	int64		count;			/* bytes of it */
} Side;

/* Open a value; the range of it is count bytes from a position on (from 1), as far as it goes. */
static void
begin_side(Side *side, Datum value, int64 start, int64 count)
{
	*side = (Side) {.start = start - 1};
	sfi_sql_walk_begin(&side->walk, value);
	sfi_sql_walk_by_unit(&side->walk);
	side->count = Min(count, Max(side->walk.length - side->start, 0));
}

/* Are both the same range of the same object, which is equal without reading it? */
static bool
is_same_range(const Side *a, Datum value_a, const Side *b, Datum value_b)
{
	if (a->start != b->start || a->count != b->count)
		return false;
	if (value_a == value_b)
		return true;
	/* a rope has no datum */
	return a->walk.content.value.datum != NULL && b->walk.content.value.datum != NULL &&
		sfi_sql_is_same(&a->walk.content, &b->walk.content);
}

/* The range is equal without reading it. */
static void
skip_range(const Side *side)
{
	if (side->walk.content.value.datum != NULL)
		sfi_sql_count(&side->walk.content.value, side->start, side->count, SF_SQL_SKIPPED);
}

/* The order of some bytes and as many zeros: above 0 or 0. */
static int
compare_with_zeros(const char *bytes, int64 len)
{
	static const char zeros[4096];
	int			order = 0;

	for (int64 at = 0; at < len && order == 0; at += sizeof(zeros))
		order = memcmp(bytes + at, zeros, Min(len - at, (int64) sizeof(zeros)));
	return order;
}

/* The order of the first bytes of two parts. */
static int
compare_parts(const SfSqlPart *a, const SfSqlPart *b, int64 len)
{
	if (a->bytes != NULL && b->bytes != NULL)
		return memcmp(a->bytes, b->bytes, len);
	if (a->bytes != NULL)
		return compare_with_zeros(a->bytes, len);
	return b->bytes == NULL ? 0 : -compare_with_zeros(b->bytes, len);
}

/* The part at hand, or the next one. */
static SfSqlPart *
part_at_hand(Side *side)
{
	if (side->part.length == 0 && !sfi_sql_walk_next(&side->walk, &side->part))
		elog(ERROR, "a securefile value ends before its length");
	return &side->part;
}

static void
take_bytes(SfSqlPart *part, int64 len)
{
	SF_ASSERT(len > 0 && len <= part->length);
	part->length -= len;
	if (part->bytes != NULL)
		part->bytes += len;
}

/* The order of the first count bytes of two ranges, which have as many. */
static int
compare_sides(Side *a, Side *b, int64 count)
{
	int			order = 0;
	int64		len;

	if (count == 0)
		return 0;
	sfi_sql_walk_range(&a->walk, a->start, a->start + count);
	sfi_sql_walk_range(&b->walk, b->start, b->start + count);
	for (int64 at = 0; at < count && order == 0; at += len)
	{
		SfSqlPart  *part_a = part_at_hand(a);
		SfSqlPart  *part_b = part_at_hand(b);

		len = Min(part_a->length, part_b->length);
		order = compare_parts(part_a, part_b, len);
		take_bytes(part_a, len);
		take_bytes(part_b, len);
	}
	return order;
}

/* The order of two ranges: -1, 0, or 1. */
static int
compare_ranges(Datum value_a, int64 start_a, Datum value_b, int64 start_b, int64 count)
{
	Side		a;
	Side		b;
	int			order;

	begin_side(&a, value_a, start_a, count);
	begin_side(&b, value_b, start_b, count);
	if (is_same_range(&a, value_a, &b, value_b))
	{
		order = 0;
		skip_range(&a);
		skip_range(&b);
	}
	else
		order = compare_sides(&a, &b, Min(a.count, b.count));
	if (order == 0)
		order = (a.count > b.count) - (a.count < b.count);
	sfi_sql_walk_end(&a.walk);
	sfi_sql_walk_end(&b.walk);
	return (order > 0) - (order < 0);
}

/*
 * securefile_compare(a securefile, b securefile, count bigint, start_a bigint, start_b bigint)
 * returns integer; only count may be NULL: all that both have.
 */
Datum
securefile_compare(PG_FUNCTION_ARGS)
{
	int64		count = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3) || PG_ARGISNULL(4))
		PG_RETURN_NULL();
	if (count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must not be negative, but is %lld", (long long) count)));
	sfi_sql_require_position("start_a", PG_GETARG_INT64(3), ERRCODE_INVALID_PARAMETER_VALUE);
	sfi_sql_require_position("start_b", PG_GETARG_INT64(4), ERRCODE_INVALID_PARAMETER_VALUE);
	PG_RETURN_INT32(compare_ranges(PG_GETARG_DATUM(0), PG_GETARG_INT64(3), PG_GETARG_DATUM(1),
								   PG_GETARG_INT64(4), count));
}
