/*-------------------------------------------------------------------------
 *
 * edit.c
 *	  ||, overlay(), securefile_truncate(): values that say what they consist
 *	  of, and read or write nothing (Oracle: DBMS_LOB.APPEND, FRAGMENT_REPLACE,
 *	  TRIM, which write).
 *
 * As long as all bytes are at hand the result is INLINE; with a part of a
 * STORED value in it, it is EDITED.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/int.h"
#include "fmgr.h"
#include "read/read.h"
#include "sql/content.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_concat);
PG_FUNCTION_INFO_V1(securefile_concat_bytea);
PG_FUNCTION_INFO_V1(securefile_prepend);
PG_FUNCTION_INFO_V1(securefile_overlay);
PG_FUNCTION_INFO_V1(securefile_overlay_big);
PG_FUNCTION_INFO_V1(securefile_overlay_all);
PG_FUNCTION_INFO_V1(securefile_overlay_all_big);
PG_FUNCTION_INFO_V1(securefile_truncate_value);

/* Pieces of the result so far. */
typedef struct PieceList
{
	SfPiece    *items;
	int			n;
	int			size;
} PieceList;

static void
add_piece(PieceList *list, SfPiece piece)
{
	if (list->n == list->size)
	{
		list->size = Max(8, list->size * 2);
		list->items = list->items == NULL ? palloc(list->size * sizeof(SfPiece))
			: repalloc(list->items, list->size * sizeof(SfPiece));
	}
	list->items[list->n++] = piece;
}

static void
add_bytes(PieceList *list, bytea *bytes)
{
	add_piece(list, (SfPiece) {SF_PIECE_BYTES, VARSIZE_ANY_EXHDR(bytes), 0, VARDATA_ANY(bytes)});
}

static void
add_zeros(PieceList *list, int64 len)
{
	add_piece(list, (SfPiece) {SF_PIECE_ZEROS, len});
}

/* Bytes [from, to) of a value, as far as it has them. */
static void
add_range(PieceList *list, struct varlena *value, int64 from, int64 to)
{
	SfPiece    *pieces;
	int			npieces = sf_read_pieces(value, &pieces);
	int64		at = 0;

	for (int i = 0; i < npieces; at += pieces[i++].length)
	{
		SfPiece		piece = pieces[i];
		int64		first = Max(from, at);
		int64		past = Min(to, (int64) (at + piece.length));

		if (first >= past)
			continue;
		if (piece.kind == SF_PIECE_BYTES)
			piece.bytes += first - at;
		else
			piece.start += first - at;
		piece.length = past - first;
		add_piece(list, piece);
	}
}

/* Are all bytes here, and few enough? */
static bool
fits_inline(const PieceList *list, int64 *length)
{
	*length = 0;
	for (int i = 0; i < list->n; i++)
	{
		if (list->items[i].kind == SF_PIECE_VALUE ||
			pg_add_s64_overflow(*length, list->items[i].length, length))
			return false;
	}
	return *length <= SF_INLINE_MAX;
}

static struct varlena *
compose(const PieceList *list)
{
	int64		length;
	struct varlena *value;
	char	   *dst;

	if (!fits_inline(list, &length))
		return sf_object_edited(list->items, list->n);
	value = sf_read_new_inline(length, &dst);
	for (int i = 0; i < list->n; dst += list->items[i++].length)
	{
		if (list->items[i].kind == SF_PIECE_ZEROS)
			memset(dst, 0, list->items[i].length);
		else
			memcpy(dst, list->items[i].bytes, list->items[i].length);
	}
	return value;
}

#define GETARG_VALUE(n)		PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(n))

/* ---- || ---- */

Datum
securefile_concat(PG_FUNCTION_ARGS)
{
	PieceList	list = {NULL};

	add_range(&list, GETARG_VALUE(0), 0, PG_INT64_MAX);
	add_range(&list, GETARG_VALUE(1), 0, PG_INT64_MAX);
	PG_RETURN_POINTER(compose(&list));
}

Datum
securefile_concat_bytea(PG_FUNCTION_ARGS)
{
	PieceList	list = {NULL};

	add_range(&list, GETARG_VALUE(0), 0, PG_INT64_MAX);
	add_bytes(&list, PG_GETARG_BYTEA_PP(1));
	PG_RETURN_POINTER(compose(&list));
}

Datum
securefile_prepend(PG_FUNCTION_ARGS)
{
	PieceList	list = {NULL};

	add_bytes(&list, PG_GETARG_BYTEA_PP(0));
	add_range(&list, GETARG_VALUE(1), 0, PG_INT64_MAX);
	PG_RETURN_POINTER(compose(&list));
}

/* ---- overlay() ---- */

/*
 * Bytes in place of len bytes from position start (the first is 1); for what
 * lies outside of the value the rules are those of overlay() for bytea.
 */
static struct varlena *
overlay(struct varlena *value, bytea *bytes, int64 start, int64 len)
{
	PieceList	list = {NULL};
	int64		past;

	if (start <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 errmsg("negative substring length not allowed")));
	if (pg_add_s64_overflow(start - 1, len, &past))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	add_range(&list, value, 0, start - 1);
	add_bytes(&list, bytes);
	add_range(&list, value, Max(past, 0), PG_INT64_MAX);
	return compose(&list);
}

Datum
securefile_overlay(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(overlay(GETARG_VALUE(0), PG_GETARG_BYTEA_PP(1), PG_GETARG_INT32(2),
							  PG_GETARG_INT32(3)));
}

Datum
securefile_overlay_big(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(overlay(GETARG_VALUE(0), PG_GETARG_BYTEA_PP(1), PG_GETARG_INT64(2),
							  PG_GETARG_INT64(3)));
}

Datum
securefile_overlay_all(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_POINTER(overlay(GETARG_VALUE(0), bytes, PG_GETARG_INT32(2),
							  VARSIZE_ANY_EXHDR(bytes)));
}

Datum
securefile_overlay_all_big(PG_FUNCTION_ARGS)
{
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);

	PG_RETURN_POINTER(overlay(GETARG_VALUE(0), bytes, PG_GETARG_INT64(2),
							  VARSIZE_ANY_EXHDR(bytes)));
}

/* ---- securefile_truncate(): the first bytes, or all and zeros ---- */

Datum
securefile_truncate_value(PG_FUNCTION_ARGS)
{
	struct varlena *value = GETARG_VALUE(0);
	int64		length = PG_GETARG_INT64(1);
	PieceList	list = {NULL};

	if (length < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length of a securefile value cannot be negative")));
	add_range(&list, value, 0, length);
	add_zeros(&list, Max(length - sf_read_length(value), 0));
	PG_RETURN_POINTER(compose(&list));
}
