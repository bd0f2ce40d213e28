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

/* A part of the result: a range of a rope, or (NULL) pieces. */
typedef struct Part
{
	SfRope	   *rope;
	int64		from;
	int64		to;
	SfPiece    *pieces;
	int			npieces;
} Part;

#define MAX_PARTS		3

typedef struct Composed
{
	Part		parts[MAX_PARTS];
	int			nparts;
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

static Part *
next_part(Composed *result)
{
	Part	   *part = &result->parts[result->nparts++];

	SF_ASSERT(result->nparts <= MAX_PARTS);
	*part = (Part) {NULL};
	return part;
}

static void
add_piece(Composed *result, SfPiece piece)
{
	Part	   *part = next_part(result);

	if (piece.length == 0)
		return;
	part->pieces = palloc(sizeof(SfPiece));
	part->pieces[part->npieces++] = piece;
}

static void
add_bytes(Composed *result, bytea *bytes)
{
	add_piece(result, (SfPiece) {SF_PIECE_BYTES, VARSIZE_ANY_EXHDR(bytes), 0, VARDATA_ANY(bytes)});
}

static void
add_zeros(Composed *result, int64 len)
{
	add_piece(result, (SfPiece) {SF_PIECE_ZEROS, len});
}

/* The pieces of bytes [from, to) of a value, as far as it has them. */
static void
cut_pieces(Part *part, const Source *source)
{
	int64		at = 0;

	part->pieces = palloc_extended(Max(source->npieces, 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	for (int i = 0; i < source->npieces; at += source->pieces[i++].length)
	{
		SfPiece		piece = source->pieces[i];
		int64		first = Max(part->from, at);
		int64		past = Min(part->to, (int64) (at + piece.length));

		if (first >= past)
			continue;
		if (piece.kind == SF_PIECE_BYTES)
			piece.bytes += first - at;
		else
			piece.start += first - at;
		piece.length = past - first;
		part->pieces[part->npieces++] = piece;
	}
	SF_ASSERT(part->npieces <= source->npieces);
}

static void
add_range(Composed *result, const Source *source, int64 from, int64 to)
{
	Part	   *part = next_part(result);

	SF_ASSERT(from >= 0 && from <= to);
	part->rope = source->rope;
	part->from = from;
	part->to = to;
	if (part->rope == NULL)
		cut_pieces(part, source);
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

/* All pieces in one list; false if some of them are in a rope. */
static bool
list_flat_pieces(const Composed *result, SfPiece **pieces, int64 *n)
{
	*n = 0;
	for (int i = 0; i < result->nparts; i++)
	{
		if (result->parts[i].rope != NULL)
			return false;
		*n += result->parts[i].npieces;
	}
	*pieces = palloc_extended(Max(*n, 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	SF_ASSERT(*n >= 0 && result->nparts <= MAX_PARTS);
	*n = 0;
	for (int i = 0; i < result->nparts; i++)
	{
		const Part *part = &result->parts[i];

		if (part->npieces > 0)
			memcpy(*pieces + *n, part->pieces, part->npieces * sizeof(SfPiece));
		*n += part->npieces;
	}
	return true;
}

/* The longest of the ropes in it, or NULL. */
static SfRope *
longest_rope(const Composed *result)
{
	SfRope	   *longest = NULL;

	for (int i = 0; i < result->nparts; i++)
	{
		SfRope	   *rope = result->parts[i].rope;

		if (rope != NULL &&
			(longest == NULL || sf_object_rope_npieces(rope) > sf_object_rope_npieces(longest)))
			longest = rope;
	}
	return longest;
}

/*
 * The value that has these parts, on a rope unless it is short enough to be flat.  In an
 * aggregate the rope is the next state, so it lies in the memory of the aggregate.
 */
static Datum
compose_rope(const Composed *result, FunctionCallInfo fcinfo)
{
	MemoryContext parent;
	SfRope	   *rope;
	SfPiece    *pieces;
	int			n;

	if (!AggCheckCallContext(fcinfo, &parent))
		parent = CurrentMemoryContext;
	rope = sf_object_rope_begin(longest_rope(result), parent);
	for (int i = 0; i < result->nparts; i++)
	{
		const Part *part = &result->parts[i];

		if (part->rope != NULL)
			sf_object_rope_append_range(rope, part->rope, part->from, part->to);
		else
			sf_object_rope_append_pieces(rope, part->pieces, part->npieces);
	}
	if (sf_object_rope_has_values(rope) &&
		(sf_object_rope_npieces(rope) > FLAT_PIECES / 2 ||
		 sf_object_rope_data(rope) > FLAT_BYTES / 2))
		return sf_object_rope_datum(rope);
	n = sf_object_rope_pieces(rope, &pieces);
	return compose_flat(pieces, n);
}

/* The value that has these parts: flat while a copy is cheap, else on a rope. */
static Datum
compose(const Composed *result, FunctionCallInfo fcinfo)
{
	SfPiece    *pieces;
	int64		n;
	int64		length;

	if (list_flat_pieces(result, &pieces, &n) &&
		(is_little(pieces, n) || fits_inline(pieces, n, &length)))
		return compose_flat(pieces, n);
	return compose_rope(result, fcinfo);
}

/* ---- || ---- */

Datum
securefile_concat(PG_FUNCTION_ARGS)
{
	Source		left = open_source(PG_GETARG_DATUM(0));
	Source		right = open_source(PG_GETARG_DATUM(1));
	Composed	result = {.nparts = 0};

	add_range(&result, &left, 0, PG_INT64_MAX);
	add_range(&result, &right, 0, PG_INT64_MAX);
	return compose(&result, fcinfo);
}

Datum
securefile_concat_bytea(PG_FUNCTION_ARGS)
{
	Source		left = open_source(PG_GETARG_DATUM(0));
	Composed	result = {.nparts = 0};

	add_range(&result, &left, 0, PG_INT64_MAX);
	add_bytes(&result, PG_GETARG_BYTEA_PP(1));
	return compose(&result, fcinfo);
}

Datum
securefile_prepend(PG_FUNCTION_ARGS)
{
	Source		right = open_source(PG_GETARG_DATUM(1));
	Composed	result = {.nparts = 0};

	add_bytes(&result, PG_GETARG_BYTEA_PP(0));
	add_range(&result, &right, 0, PG_INT64_MAX);
	return compose(&result, fcinfo);
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
	Composed	result = {.nparts = 0};
	int64		past;

	if (start <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	if (pg_add_s64_overflow(start - 1, len, &past))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	add_range(&result, &source, 0, start - 1);
	add_bytes(&result, bytes);
	add_range(&result, &source, Max(past, 0), PG_INT64_MAX);
	return compose(&result, fcinfo);
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
	Composed	result = {.nparts = 0};

	if (length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length of a securefile value cannot be negative")));
	add_range(&result, &source, 0, length);
	add_zeros(&result, Max(length - source.length, 0));
	return compose(&result, fcinfo);
}
