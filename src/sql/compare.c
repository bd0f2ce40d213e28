/*-------------------------------------------------------------------------
 *
 * compare.c
 *	  Equality and hashing by content, a piece at a time, also of bytea.
 *
 * The hash is XXH3-64 of the bytes, whatever form they are in.  It ends up in
 * hash indexes and decides hash partitions, so it must never change.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#define XXH_STATIC_LINKING_ONLY /* the state's size, to have it on the stack */
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
PG_FUNCTION_INFO_V1(securefile_eq_bytea);
PG_FUNCTION_INFO_V1(securefile_bytea_eq);
PG_FUNCTION_INFO_V1(securefile_ne_bytea);
PG_FUNCTION_INFO_V1(securefile_bytea_ne);
PG_FUNCTION_INFO_V1(securefile_hash_bytea);
PG_FUNCTION_INFO_V1(securefile_hash_bytea_extended);

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
	bytea	   *piece_a = sfi_sql_slice(a, object_offset, len);
	bytea	   *piece_b = sfi_sql_slice(b, object_offset, len);
	bool		equal = memcmp(VARDATA(piece_a), VARDATA(piece_b), len) == 0;

	pfree(piece_a);
	pfree(piece_b);
	return equal;
}

/* Reads nothing when the lengths differ. */
static bool
contents_equal(SfSqlContent a, SfSqlContent b)
{
	if (a.length != b.length)
		return false;
	if (same_locator(&a, &b))
		return true;
	sfi_sql_unpack(&a);
	sfi_sql_unpack(&b);
	for (int64 at = 0; at < a.length; at += PIECE_BYTES)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pieces_equal(&a, &b, at, Min(PIECE_BYTES, a.length - at)))
			return false;
	}
	return true;
}

/* An SfSqlTake. */
static void
hash_bytes_further(void *state, const char *bytes, Size len)
{
	XXH3_64bits_update(state, bytes, len);
}

static uint64
content_hash(Datum datum, uint64 seed)
{
	XXH3_state_t state;

	XXH3_64bits_reset_withSeed(&state, seed);
	sfi_sql_feed(datum, hash_bytes_further, &state);
	return XXH3_64bits_digest(&state);
}

/* ---- of securefile ---- */

static SfSqlContent
file_arg(FunctionCallInfo fcinfo, int n)
{
	return sfi_sql_open(PG_GETARG_DATUM(n));
}

Datum
securefile_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(contents_equal(file_arg(fcinfo, 0), file_arg(fcinfo, 1)));
}

Datum
securefile_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!contents_equal(file_arg(fcinfo, 0), file_arg(fcinfo, 1)));
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

/* ---- of bytea, with the same results ---- */

static SfSqlContent
bytea_arg(FunctionCallInfo fcinfo, int n)
{
	return sfi_sql_open_bytea(PG_GETARG_DATUM(n));
}

static uint64
bytea_hash(FunctionCallInfo fcinfo, uint64 seed)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	uint64		hash = XXH3_64bits_withSeed(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), seed);

	PG_FREE_IF_COPY(bytes, 0);
	return hash;
}

Datum
securefile_eq_bytea(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(contents_equal(file_arg(fcinfo, 0), bytea_arg(fcinfo, 1)));
}

Datum
securefile_bytea_eq(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(contents_equal(bytea_arg(fcinfo, 0), file_arg(fcinfo, 1)));
}

Datum
securefile_ne_bytea(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!contents_equal(file_arg(fcinfo, 0), bytea_arg(fcinfo, 1)));
}

Datum
securefile_bytea_ne(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!contents_equal(bytea_arg(fcinfo, 0), file_arg(fcinfo, 1)));
}

Datum
securefile_hash_bytea(PG_FUNCTION_ARGS)
{
	PG_RETURN_UINT32((uint32) bytea_hash(fcinfo, 0));
}

Datum
securefile_hash_bytea_extended(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) bytea_hash(fcinfo, (uint64) PG_GETARG_INT64(1)));
}
