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

PG_FUNCTION_INFO_V1(securefile_hash);
PG_FUNCTION_INFO_V1(securefile_hash_extended);
PG_FUNCTION_INFO_V1(securefile_hash_bytea);
PG_FUNCTION_INFO_V1(securefile_hash_bytea_extended);

/* A piece of an operand was read.  Only bytes of files are counted. */
static void
count_piece(const SfSqlContent *content, int64 object_offset, int64 len)
{
	if (!sfi_sql_is_bytea(content))
		sfi_sql_count(&content->value, object_offset, len, SF_SQL_SCANNED);
}

/* Do [object_offset, object_offset + len) have the same bytes in both? */
static bool
pieces_equal(SfSqlContent *a, SfSqlContent *b, int64 object_offset, int64 len)
{
	bytea	   *piece_a = sfi_sql_slice(a, object_offset, len);
	bytea	   *piece_b = sfi_sql_slice(b, object_offset, len);
	bool		equal;

	SF_ASSERT(len > 0 && len <= PIECE_BYTES);
	SF_ASSERT(VARSIZE_ANY_EXHDR(piece_a) == len && VARSIZE_ANY_EXHDR(piece_b) == len);
	equal = memcmp(VARDATA(piece_a), VARDATA(piece_b), len) == 0;
	count_piece(a, object_offset, len);
	count_piece(b, object_offset, len);

	sfi_sql_free_slice(a, piece_a);
	sfi_sql_free_slice(b, piece_b);
	return equal;
}

/*
 * Have both the same content?  Reads nothing if the lengths differ or if both are the
 * same object, and nothing behind the first piece that differs.  Hashes that both keep are
 * not asked: a kept hash is no check of the data.
 */
static bool
contents_equal(SfSqlContent *a, SfSqlContent *b)
{
	if (a->length != b->length || sfi_sql_is_same(a, b))
	{
		sfi_sql_count_content(a, SF_SQL_SKIPPED);
		sfi_sql_count_content(b, SF_SQL_SKIPPED);
		return a->length == b->length;
	}
	sfi_sql_unpack(a);
	sfi_sql_unpack(b);
	for (int64 at = 0; at < a->length; at += PIECE_BYTES)
	{
		CHECK_FOR_INTERRUPTS();
		if (!pieces_equal(a, b, at, Min(PIECE_BYTES, a->length - at)))
			return false;
	}
	return true;
}

/* An SfSqlTake: hash some more bytes of a value. */
static void
hash_bytes_further(void *state, const char *bytes, Size len)
{
	XXH3_64bits_update(state, bytes, len);
}

/* The hash of the content of a securefile. */
static uint64
content_hash(Datum datum, uint64 seed)
{
	XXH3_state_t state;

	/*
	 * else the secret of a seed is not made if the memory happens to have
	 * that seed already
	 */
	XXH3_INITSTATE(&state);
	XXH3_64bits_reset_withSeed(&state, seed);
	sfi_sql_feed(datum, hash_bytes_further, &state);
	return XXH3_64bits_digest(&state);
}

/* ---- =, <> ---- */

/*
 * A comparison of two operands: how each is opened, and which answer is true.  All
 * comparisons are one function, so that a bytea and a securefile with the same
 * content can never differ by one operator and be equal by another.
 */
#define COMPARISON(name, open_left, open_right, answer) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		SfSqlContent left; \
		SfSqlContent right; \
\
		open_left(PG_GETARG_DATUM(0), &left); \
		open_right(PG_GETARG_DATUM(1), &right); \
		PG_RETURN_BOOL(contents_equal(&left, &right) == (answer)); \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

COMPARISON(securefile_eq, sfi_sql_open, sfi_sql_open, true);
COMPARISON(securefile_ne, sfi_sql_open, sfi_sql_open, false);
COMPARISON(securefile_eq_bytea, sfi_sql_open, sfi_sql_open_bytea, true);
COMPARISON(securefile_bytea_eq, sfi_sql_open_bytea, sfi_sql_open, true);
COMPARISON(securefile_ne_bytea, sfi_sql_open, sfi_sql_open_bytea, false);
COMPARISON(securefile_bytea_ne, sfi_sql_open_bytea, sfi_sql_open, false);

/* ---- hash functions, with the same results for both types ---- */

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

/* The hash of a bytea, which lies in memory: one call, no feeding. */
static uint64
bytea_hash(FunctionCallInfo fcinfo, uint64 seed)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(0);
	uint64		hash = XXH3_64bits_withSeed(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), seed);

	PG_FREE_IF_COPY(bytes, 0);
	return hash;
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
