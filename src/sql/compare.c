/*-------------------------------------------------------------------------
 *
 * compare.c
 *	  Equality and hashing by content, a piece at a time.
 *
 * The hash is XXH3-64 of the bytes, whatever form they are in.  It ends up in
 * hash indexes and decides hash partitions, so it must never change.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#define XXH_STATIC_LINKING_ONLY	/* the state's size, to have it on the stack */
#include <xxhash.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "object/object.h"
#include "sql/content.h"

#define PIECE_BYTES		(1024 * 1024)

PG_FUNCTION_INFO_V1(securefile_eq);
PG_FUNCTION_INFO_V1(securefile_ne);
PG_FUNCTION_INFO_V1(securefile_hash);
PG_FUNCTION_INFO_V1(securefile_hash_extended);

/* The same object: equal without reading it. */
static bool
same_locator(const SfSqlContent *a, const SfSqlContent *b)
{
	return !a->is_inline && !b->is_inline &&
		sf_object_same(a->value, b->value);
}

static bool
pieces_equal(const SfSqlContent *a, const SfSqlContent *b, int64 object_offset, int64 len)
{
	bytea	   *piece_a = sf_sql_slice(a, object_offset, len);
	bytea	   *piece_b = sf_sql_slice(b, object_offset, len);
	bool		equal = memcmp(VARDATA(piece_a), VARDATA(piece_b), len) == 0;

	pfree(piece_a);
	pfree(piece_b);
	return equal;
}

/* Reads nothing when the lengths differ. */
static bool
contents_equal(Datum datum_a, Datum datum_b)
{
	SfSqlContent a = sf_sql_open(datum_a);
	SfSqlContent b = sf_sql_open(datum_b);

	if (a.length != b.length)
		return false;
	if (same_locator(&a, &b))
		return true;
	for (int64 at = 0; at < a.length; at += PIECE_BYTES)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pieces_equal(&a, &b, at, Min(PIECE_BYTES, a.length - at)))
			return false;
	}
	return true;
}

static uint64
content_hash(Datum datum, uint64 seed)
{
	SfSqlContent content = sf_sql_open(datum);
	XXH3_state_t state;

	XXH3_64bits_reset_withSeed(&state, seed);
	for (int64 at = 0; at < content.length; at += PIECE_BYTES)
	{
		int64		len = Min(PIECE_BYTES, content.length - at);
		bytea	   *piece = sf_sql_slice(&content, at, len);

		CHECK_FOR_INTERRUPTS();
		XXH3_64bits_update(&state, VARDATA(piece), len);
		pfree(piece);
	}
	return XXH3_64bits_digest(&state);
}

Datum
securefile_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(contents_equal(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

Datum
securefile_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!contents_equal(PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)));
}

/* The low half of securefile_hash_extended() with seed 0, as it must be. */
Datum
securefile_hash(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) content_hash(PG_GETARG_DATUM(0), 0));
}

Datum
securefile_hash_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) content_hash(PG_GETARG_DATUM(0), (uint64) PG_GETARG_INT64(1)));
}
