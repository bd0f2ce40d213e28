/*-------------------------------------------------------------------------
 *
 * compose.c
 *	  Values that are made of parts of other values.
 *
 * As long as all bytes are at hand the result is INLINE.  With a part of a STORED
 * value in it, it is EDITED: flat, or on a rope when it has some tens of pieces or
 * kilobytes of new bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/compose.h"

#include "common/int.h"
#include "fmgr.h"
#include "read/read.h"
#include "utils/memutils.h"

/* Up to so many pieces, and so many bytes in them, all is copied by each edit. */
#define FLAT_PIECES		32
#define FLAT_BYTES		(64 * 1024)

SfSource
sfi_compose_source(Datum value)
{
	SfSource	source = {sf_object_rope_of(value)};
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

/* A source of one piece. */
static SfSource
source_of(SfPiece piece)
{
	SfSource	source = {.npieces = 1, .length = piece.length};

	source.pieces = palloc(sizeof(SfPiece));
	source.pieces[0] = piece;
	return source;
}

SfSource
sfi_compose_source_bytes(const char *bytes, Size len)
{
	return source_of((SfPiece) {SF_PIECE_BYTES, len, 0, bytes});
}

SfSource
sfi_compose_source_zeros(int64 length)
{
	SF_ASSERT(length >= 0);
	return source_of((SfPiece) {SF_PIECE_ZEROS, length});
}

SfRope *
sfi_compose_longer_rope(SfRope *a, SfRope *b)
{
	if (a == NULL || b == NULL)
		return a == NULL ? b : a;
	return sf_object_rope_npieces(b) > sf_object_rope_npieces(a) ? b : a;
}

SfComposed
sfi_compose_begin(SfRope *like, MemoryContext parent)
{
	SfComposed	result = {.parent = parent};

	if (like != NULL)
		result.rope = sf_object_rope_begin(like, parent);
	return result;
}

static void
add_piece(SfComposed *result, SfPiece piece)
{
	if (piece.length == 0)
		return;
	result->pieces = sf_base_array_grow(result->pieces, result->npieces, &result->size,
										sizeof(SfPiece), CurrentMemoryContext);
	result->pieces[result->npieces++] = piece;
}

/* Put the pieces on the rope. */
static void
append_pieces(SfComposed *result)
{
	SF_ASSERT(result->rope != NULL && result->npieces <= PG_INT32_MAX);
	if (result->npieces > 0)
		sf_object_rope_append_pieces(result->rope, result->pieces, result->npieces);
	result->npieces = 0;
}

void
sfi_compose_add(SfComposed *result, const SfSource *source, int64 from, int64 to)
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

Datum
sfi_compose_end(SfComposed *result)
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
