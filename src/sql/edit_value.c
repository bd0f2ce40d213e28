/*-------------------------------------------------------------------------
 *
 * edit_value.c
 *	  ||, overlay(), securefile_truncate(): values that say what they consist
 *	  of, and read or write nothing (Oracle: DBMS_LOB.APPEND, FRAGMENT_REPLACE,
 *	  TRIM, which write).
 *
 * As long as all bytes are at hand the result is INLINE.  With a part of a STORED
 * value in it, it is EDITED: flat, or on a rope when it has some tens of pieces or
 * kilobytes of new bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/int.h"
#include "fmgr.h"
#include "read/read.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_concat);
PG_FUNCTION_INFO_V1(securefile_concat_bytea);
PG_FUNCTION_INFO_V1(securefile_prepend);
PG_FUNCTION_INFO_V1(securefile_overlay);
PG_FUNCTION_INFO_V1(securefile_overlay_big);
PG_FUNCTION_INFO_V1(securefile_overlay_all);
PG_FUNCTION_INFO_V1(securefile_overlay_all_big);
PG_FUNCTION_INFO_V1(securefile_truncate_value);

/* Up to so many pieces, and so many bytes in them, all is copied by each edit. */
#define FLAT_PIECES		32
#define FLAT_BYTES		(64 * 1024)

/* A value that parts of the result are taken from. */
typedef struct Source
{
	SfRope	   *rope;			/* or NULL, and all its pieces */
	SfPiece    *pieces;
	int			npieces;
	int64		length;
} Source;

/*
 * The result, of parts that are added in order: those on a rope, or NULL, if none of them comes
 * from one; and pieces that follow these.
 */
typedef struct Composed
{
	MemoryContext parent;		/* of the rope */
	SfRope	   *rope;
	SfPiece    *pieces;
	int64		npieces;
	int64		size;			/* room for so many */
} Composed;

/* Take a value as a source of parts: a rope, or a list of pieces. */
static Source
open_source(Datum value)
{
	Source		source = {sf_object_rope_of(value)};
	struct varlena *flat;

	value = sf_object_given(value);
	if (source.rope != NULL)
		source.length = sf_object_rope_length(source.rope);
	else
	{
		flat = PG_DETOAST_DATUM_PACKED(value);
		source.npieces = sf_read_pieces(flat, &source.pieces);
		source.length = sf_read_length(flat);
	}
	return source;
}

/* Of two ropes, each of which may be NULL, the one of more pieces. */
static SfRope *
longer_rope(SfRope *a, SfRope *b)
{
	if (a == NULL || b == NULL)
		return a == NULL ? b : a;
	return sf_object_rope_npieces(b) > sf_object_rope_npieces(a) ? b : a;
}

/*
 * Begin a result; like: the longest of the ropes that parts of it come from, or NULL.  In an
 * aggregate the rope is the next state, so it lies in the memory of the aggregate.
 */
static Composed
begin_result(FunctionCallInfo fcinfo, SfRope *like)
{
	Composed	result = {.rope = NULL};

	if (!AggCheckCallContext(fcinfo, &result.parent))
		result.parent = CurrentMemoryContext;
	if (like != NULL)
		result.rope = sf_object_rope_begin(like, result.parent);
	return result;
}

static void
add_piece(Composed *result, SfPiece piece)
{
	if (piece.length == 0)
		return;
	result->pieces = sf_base_array_grow(result->pieces, result->npieces, &result->size,
										sizeof(SfPiece), CurrentMemoryContext);
	result->pieces[result->npieces++] = piece;
}

static void
add_bytes(Composed *result, bytea *bytes)
{
	add_piece(result, (SfPiece) {SF_PIECE_BYTES, VARSIZE_ANY_EXHDR(bytes), 0, VARDATA_ANY(bytes)});
}

/* Put the pieces on the rope. */
static void
append_pieces(Composed *result)
{
	SF_ASSERT(result->rope != NULL && result->npieces <= PG_INT32_MAX);
	if (result->npieces > 0)
		sf_object_rope_append_pieces(result->rope, result->pieces, result->npieces);
	result->npieces = 0;
}

/* Bytes [from, to) of a value, as far as it has them. */
static void
add_range(Composed *result, const Source *source, int64 from, int64 to)
{
	int64		at = 0;

	SF_ASSERT(from >= 0 && from <= to);
	if (source->rope != NULL)
	{
		append_pieces(result);
		sf_object_rope_append_range(result->rope, source->rope, from, to);
	}
	for (int i = 0; i < source->npieces; at += source->pieces[i++].length)
	{
		int64		first = Max(from, at);
		int64		past = Min(to, (int64) (at + source->pieces[i].length));

		if (first < past)
			add_piece(result, sf_object_cut_piece(source->pieces[i], first - at, past - at));
	}
}

/* Are all bytes in memory, and few enough for an INLINE value?  *length: their number. */
static bool
fits_inline(const SfPiece *pieces, int n, int64 *length)
{
	*length = 0;
	for (int i = 0; i < n; i++)
	{
		if (pieces[i].kind == SF_PIECE_VALUE ||
			pg_add_s64_overflow(*length, pieces[i].length, length))
			return false;
	}
	return *length <= SF_INLINE_MAX;
}

/* Is so little in the pieces that the next edit may copy all of it? */
static bool
is_little(const SfPiece *pieces, int64 n)
{
	uint64		bytes = 0;

	for (int64 i = 0; i < n && n <= FLAT_PIECES; i++)
		bytes += pieces[i].kind == SF_PIECE_BYTES ? pieces[i].length : 0;
	return n <= FLAT_PIECES && bytes <= FLAT_BYTES;
}

/* The value that has these pieces: INLINE if possible, else flat EDITED. */
static Datum
compose_flat(const SfPiece *pieces, int n)
{
	int64		length;
	struct varlena *value;
	char	   *dst;

	if (!fits_inline(pieces, n, &length))
		return PointerGetDatum(sf_object_edited(pieces, n));
	value = sf_read_new_inline(length, &dst);
	for (int i = 0; i < n; dst += pieces[i++].length)
	{
		if (pieces[i].kind == SF_PIECE_ZEROS)
			memset(dst, 0, pieces[i].length);
		else
			memcpy(dst, pieces[i].bytes, pieces[i].length);
	}
	SF_ASSERT(dst == (char *) value + VARSIZE_ANY(value));
	return PointerGetDatum(value);
}

/*
 * The value that has the parts: flat while a copy is cheap, else on a rope, unless that turns
 * out to be short.
 */
static Datum
compose(Composed *result)
{
	SfPiece    *pieces;
	int64		length;
	int			n;

	if (result->rope == NULL && (is_little(result->pieces, result->npieces) ||
								 fits_inline(result->pieces, result->npieces, &length)))
		return compose_flat(result->pieces, result->npieces);
	if (result->rope == NULL)
		result->rope = sf_object_rope_begin(NULL, result->parent);
	append_pieces(result);
	if (sf_object_rope_has_values(result->rope) &&
		(sf_object_rope_npieces(result->rope) > FLAT_PIECES / 2 ||
		 sf_object_rope_data(result->rope) > FLAT_BYTES / 2))
		return sf_object_rope_datum(result->rope);
	n = sf_object_rope_pieces(result->rope, &pieces);
	return compose_flat(pieces, n);
}

/* ---- || ---- */

Datum
securefile_concat(PG_FUNCTION_ARGS)
{
	Source		left = open_source(PG_GETARG_DATUM(0));
	Source		right = open_source(PG_GETARG_DATUM(1));
	Composed	result = begin_result(fcinfo, longer_rope(left.rope, right.rope));

	add_range(&result, &left, 0, PG_INT64_MAX);
	add_range(&result, &right, 0, PG_INT64_MAX);
	return compose(&result);
}

Datum
securefile_concat_bytea(PG_FUNCTION_ARGS)
{
	Source		left = open_source(PG_GETARG_DATUM(0));
	Composed	result = begin_result(fcinfo, left.rope);

	add_range(&result, &left, 0, PG_INT64_MAX);
	add_bytes(&result, PG_GETARG_BYTEA_PP(1));
	return compose(&result);
}

Datum
securefile_prepend(PG_FUNCTION_ARGS)
{
	Source		right = open_source(PG_GETARG_DATUM(1));
	Composed	result = begin_result(fcinfo, right.rope);

	add_bytes(&result, PG_GETARG_BYTEA_PP(0));
	add_range(&result, &right, 0, PG_INT64_MAX);
	return compose(&result);
}

/* ---- overlay() ---- */

/*
 * Bytes in place of len bytes from position start (the first is 1); for what
 * lies outside of the value the rules are those of overlay() for bytea.
 */
static Datum
overlay(FunctionCallInfo fcinfo, bytea *bytes, int64 start, int64 len)
{
	Source		source = open_source(PG_GETARG_DATUM(0));
	Composed	result;
	int64		past;

	if (start <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	if (pg_add_s64_overflow(start - 1, len, &past))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	result = begin_result(fcinfo, source.rope);
	add_range(&result, &source, 0, start - 1);
	add_bytes(&result, bytes);
	add_range(&result, &source, Max(past, 0), PG_INT64_MAX);
	return compose(&result);
}

Datum
securefile_overlay(PG_FUNCTION_ARGS)
{
	return overlay(fcinfo, PG_GETARG_BYTEA_PP(1), PG_GETARG_INT32(2), PG_GETARG_INT32(3));
}

Datum
securefile_overlay_big(PG_FUNCTION_ARGS)
{
	return overlay(fcinfo, PG_GETARG_BYTEA_PP(1), PG_GETARG_INT64(2), PG_GETARG_INT64(3));
}

Datum
securefile_overlay_all(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);

	return overlay(fcinfo, bytes, PG_GETARG_INT32(2), VARSIZE_ANY_EXHDR(bytes));
}

Datum
securefile_overlay_all_big(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);

	return overlay(fcinfo, bytes, PG_GETARG_INT64(2), VARSIZE_ANY_EXHDR(bytes));
}

/* ---- securefile_truncate(): the first bytes, or all and zeros ---- */

Datum
securefile_truncate_value(PG_FUNCTION_ARGS)
{
	Source		source = open_source(PG_GETARG_DATUM(0));
	int64		length = PG_GETARG_INT64(1);
	Composed	result;

	if (length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length of a securefile value cannot be negative")));
	result = begin_result(fcinfo, source.rope);
	add_range(&result, &source, 0, length);
	add_piece(&result, (SfPiece) {SF_PIECE_ZEROS, Max(length - source.length, 0)});
	return compose(&result);
}
