/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Storing a value that is not INLINE: copies, and edits in place.
 *
 * What an EDITED value has of the base at the very place it has there is left
 * alone: that is what makes UPDATE t SET f = f || x as cheap as x.  Everything
 * else is written.
 *
 *		 base			[ AAAA | BBBB | CCCC ]
 *		 EDITED value	[ AAAA | xx | CCCC' | yy ]		pieces, in order
 *							 ^ at its place		^ CCCC has moved: copied
 *
 * Only the very same place counts.  Units of a value lie at multiples of their size, so a
 * part that has moved by any other distance has its bytes in other units.
 *
 * Pieces are put from the first to the last (copy_range.c).  A piece that is copied reads the
 * value it is a part of, never the stage, so it matters nothing what has been written before it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stream/deduplicate.h"
#include "stream/pieced.h"

/* In a column that deduplicates, values with a longer gap are stored by themselves. */
#define LONGEST_GAP		((int64) 64 * 1024 * 1024)

/*
 * Has the base (or NULL) these bytes, at that very place?  The same locator, byte by
 * byte, is the same version of the same object.
 */
static bool
is_in_place(const struct varlena *base, int64 at, const SfPiece *piece)
{
	return base != NULL && piece->kind == SF_PIECE_VALUE && piece->start == at &&
		sf_object_same(base, piece->value);
}

/* Where the last piece ends that is in its place; 0: none is. */
static int64
end_in_place(const struct varlena *base, const SfPiece *pieces, int npieces)
{
	int64		end = 0;
	int64		at = 0;

	for (int i = 0; i < npieces; at += pieces[i++].length)
		if (is_in_place(base, at, &pieces[i]))
			end = at + pieces[i].length;
	return end;
}

/* Is any piece one of the base, wherever it is? */
static bool
has_any(const struct varlena *base, const SfPiece *pieces, int npieces)
{
	for (int i = 0; i < npieces; i++)
		if (pieces[i].kind == SF_PIECE_VALUE && sf_object_same(base, pieces[i].value))
			return true;
	return false;
}

void
sfi_store_pieces(SfStream *stream, const SfPiece *pieces, int npieces)
{
	int64		needed = end_in_place(stream->value, pieces, npieces);
	int64		at = 0;

	/* known now, so that the first write can be given room for all */
	for (int i = 0; i < npieces; i++)
		stream->final_length += pieces[i].length;

	/* cut first: what comes behind the base then meets zeros that are holes */
	if (needed < stream->length)
		sfi_once_resize(stream, needed);
	for (int i = 0; i < npieces; at += pieces[i++].length)
		if (!is_in_place(stream->value, at, &pieces[i]))
			sfi_copy_piece(stream, at, &pieces[i]);
	/* zeros at the end */
	if (at > stream->length)
		sfi_once_resize(stream, at);
	SF_ASSERT(stream->kind == STREAM_STAGE && needed <= at);
	SF_ASSERT(stream->length == at && at == stream->final_length);
}

struct varlena *
sfi_store_base(const SfPiece *pieces, int npieces)
{
	return npieces > 0 && pieces[0].kind == SF_PIECE_VALUE && pieces[0].start == 0
		? pieces[0].value : NULL;
}

bool
sfi_store_edited(SfStream *stream, const SfPiece *pieces, int npieces)
{
	if (sfi_arrange_edited(stream, pieces, npieces))
		return true;
	if (stream->pieced != NULL || end_in_place(stream->value, pieces, npieces) == 0)
		return false;
	sfi_store_pieces(stream, pieces, npieces);
	return true;
}

/* Can the value of a row be edited in place: is any of it left, and may it be shared? */
static bool
is_editable(SfSegment *seg, const SfValue *old, const SfPiece *pieces, int npieces)
{
	return old != NULL && has_any(old->datum, pieces, npieces) &&
		sf_write_may_share(seg, &old->loc);
}

/*
 * Not where the column has got the option encrypt, or lost it, since a handle of this
 * transaction began to write the value.
 */
static bool
may_adopt(SfSegment *seg, const SfValue *value)
{
	return value->form == SF_FORM_STORED &&
		((value->loc.flags & SF_LOC_KEYED) != 0) == sf_config_encrypts(sf_space_column(seg));
}

/* All bytes of a value, as a draft that shares nothing. */
static SfValue
copy_of(SfSegment *seg, const SfPiece *pieces, int npieces)
{
	SfStream   *stream = sf_stream_create(seg);

	sfi_once_give_up(stream);
	sfi_store_pieces(stream, pieces, npieces);
	return sf_stream_finish(stream);
}

/*
 * The value of the row with its changes, as a draft that shares the rest; or that value itself; or
 * a copy, if nothing is left to share.
 */
static SfValue
edited_of(SfSegment *seg, const SfValue *old, const SfPiece *pieces, int npieces)
{
	SfStream   *stream = sf_stream_edit(old->datum);

	if (!sfi_store_edited(stream, pieces, npieces))
		return copy_of(seg, pieces, npieces);
	return sf_stream_finish(stream);
}

/* Place a draft in the row that had old, or NULL; result may be old itself. */
static SfValue
place(SfSegment *seg, SfValue result, const SfValue *old)
{
	/* nothing was changed: it is what the row has */
	if (old != NULL && sf_object_same(result.datum, old->datum))
		return result;
	if (!sf_write_adopt(seg, &result, old))
		elog(ERROR, "securefile value could not be placed");
	return result;
}

/* Is a range of a STORED value nothing for a long way? */
static bool
has_long_gap(const SfPiece *piece)
{
	int64		end = piece->start + piece->length;
	int64		at = piece->start;
	SfValue		value;

	sf_read_look(piece->value, &value);
	while (at < end)
	{
		int64		from = at;
		int64		len = end - at;

		CHECK_FOR_INTERRUPTS();
		if (!sf_read_next_data(&value, &from, &len))
			from = end;
		if (Min(from, end) - at > LONGEST_GAP)
			return true;
		at = from + len;
	}
	return false;
}

/*
 * Is a value too sparse to be looked for?  A hash goes through all bytes, also those of gaps,
 * and these may be as long as the largest value.
 */
static bool
is_too_sparse(const SfPiece *pieces, int npieces)
{
	for (int i = 0; i < npieces; i++)
		if ((int64) pieces[i].length > LONGEST_GAP &&
			(pieces[i].kind == SF_PIECE_ZEROS ||
			 (pieces[i].kind == SF_PIECE_VALUE && has_long_gap(&pieces[i]))))
			return true;
	return false;
}

bool
sf_stream_is_too_sparse(struct varlena *value)
{
	SfPiece    *pieces;
	int			npieces = sf_read_pieces(value, &pieces);

	return is_too_sparse(pieces, npieces);
}

/*
 * A new value of its own: a draft that no row has yet, or a copy of all bytes.  A draft that is
 * PIECED is copied: a share record may be made of it.
 */
static SfValue
private_of(SfSegment *seg, const SfValue *value, const SfPiece *pieces, int npieces)
{
	if (!may_adopt(seg, value) || !sf_write_is_draft(seg, value) ||
		(value->loc.flags & SF_LOC_PIECED))
		return copy_of(seg, pieces, npieces);
	return *value;
}

/*
 * In a column that deduplicates: what has the same content, or a value of its own that others
 * can refer to; one that is too sparse stays private.
 */
static SfValue
store_once(SfSegment *seg, const SfValue *value, const SfPiece *pieces, int npieces, bool anew)
{
	SfFingerprint hash;
	SfValue		found = {NULL};

	if (is_too_sparse(pieces, npieces))
		return place(seg, private_of(seg, value, pieces, npieces), NULL);
	if (anew && sfi_store_is_as_asked(seg, value))
		found = sfi_store_reflink(seg, value);
	if (found.datum == NULL)
		found = sfi_store_found(seg, value, &hash);
	if (found.datum != NULL)
	{
		sfi_count_hit(seg, &found.loc);
		return found;
	}
	found = private_of(seg, value, pieces, npieces);
	return sf_write_share(seg, &found, &hash);
}

/*
 * Four cases, from cheap to dear: the value is a draft made for this row, and only has to
 * be adopted; it can be copied without its bytes; it is an edit of the row's own value, and its
 * changes are written; else all of it is copied.  old is given up in the last one, since nothing
 * is shared with it.
 *
 * In a column that deduplicates, a value that changes the row's own one in place is a version
 * of it, and stays private.  Other drafts are looked for, and so is what would be copied.
 */
SfValue
sf_stream_store(SfSegment *seg, const SfValue *value, const SfValue *old, bool anew)
{
	bool		once = sf_config_deduplicates(sf_space_column(seg));
	SfValue		reflink = {NULL};
	SfPiece    *pieces;
	int			npieces;

	if (may_adopt(seg, value) && (!once || sf_write_is_version(seg, value)) &&
		sf_write_adopt(seg, value, old))
		return *value;
	if (!anew)
		reflink = sfi_store_reflink(seg, value);
	if (reflink.datum != NULL)
	{
		sfi_count_hit(seg, &reflink.loc);
		return reflink;
	}
	npieces = sf_read_pieces(value->datum, &pieces);
	if (value->form == SF_FORM_EDITED && is_editable(seg, old, pieces, npieces))
		return place(seg, edited_of(seg, old, pieces, npieces), old);
	if (once)
		return store_once(seg, value, pieces, npieces, anew);
	return place(seg, copy_of(seg, pieces, npieces), NULL);
}
