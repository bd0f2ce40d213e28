/*-------------------------------------------------------------------------
 *
 * edited.c
 *	  EDITED values: what ||, overlay() and the like return.
 *
 * Nothing is read or written to make one: it says what of which value it
 * consists of.  Only storing it writes, and then what is in its place already
 * is shared.  It never leaves the transaction's memory (or a tuplestore), so
 * the format is nobody else's business.  The boot id tells one from damage to a
 * row that makes it look like this:
 *
 *	 offset	size	field
 *	 0		1		form: 3
 *	 1		3		0
 *	 4		4		number of pieces
 *	 8		8		length of the value in bytes
 *	 16		8	boot id
 *	 24		24 x n	pieces:
 *		 0	4	kind (SF_PIECE_*)
 *		 4	4	where its bytes, or its value's length (4) and value, lie behind the pieces
 *		 8	8	start in the value
 *		 16	8	length
 *	 ..		..		bytes and values
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/int.h"
#include "object/object.h"
#include "utils/memutils.h"

typedef struct EditedHeader
{
	uint8		form;
	uint8		reserved[3];
	uint32		npieces;
	uint64		length;
	uint64		boot_id;
} EditedHeader;

typedef struct EditedPiece
{
	uint32		kind;
	uint32		place;
	uint64		start;
	uint64		length;
} EditedPiece;

/* Does a piece go on where the one before it ends? */
static bool
goes_on(const SfPiece *last, const SfPiece *piece)
{
	if (last->kind != piece->kind)
		return false;
	switch (piece->kind)
	{
		case SF_PIECE_ZEROS:
			return true;
		case SF_PIECE_VALUE:
			return last->start + last->length == piece->start &&
				sf_object_same(last->value, piece->value);
		default:
			return last->bytes + last->length == piece->bytes;
	}
}

/* Pieces that are left after merging, and the sum of their lengths. */
static int
merge_pieces(const SfPiece *pieces, int npieces, SfPiece *merged, uint64 *length)
{
	int			n = 0;
	int64		sum = 0;

	for (int i = 0; i < npieces; i++)
	{
		if (pieces[i].length == 0)
			continue;
		if (pg_add_s64_overflow(sum, (int64) pieces[i].length, &sum))
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("securefile value would be too long"),
					 errdetail("A value may have at most %lld bytes.", (long long) PG_INT64_MAX)));
		if (n > 0 && goes_on(&merged[n - 1], &pieces[i]))
			merged[n - 1].length += pieces[i].length;
		else
			merged[n++] = pieces[i];
	}
	*length = sum;
	return n;
}

/* The first piece that has the same value as piece i, which is i itself if none. */
static int
first_with_value(const SfPiece *pieces, int i)
{
	for (int j = 0; j < i; j++)
		if (pieces[j].kind == SF_PIECE_VALUE && sf_object_same(pieces[j].value, pieces[i].value))
			return j;
	return i;
}

/* How many bytes a piece takes behind the list of pieces. */
static Size
data_size(const SfPiece *pieces, int i)
{
	switch (pieces[i].kind)
	{
		case SF_PIECE_BYTES:
			return pieces[i].length;
		case SF_PIECE_VALUE:
			return first_with_value(pieces, i) == i
				? sizeof(uint32) + VARSIZE_ANY_EXHDR(pieces[i].value) : 0;
		default:
			return 0;
	}
}

static Size
checked_size(const SfPiece *pieces, int n)
{
	Size		size = VARHDRSZ + sizeof(EditedHeader) + n * sizeof(EditedPiece);

	for (int i = 0; i < n; i++)
	{
		size += data_size(pieces, i);
		if (size > MaxAllocSize)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("new bytes of a securefile value are too many for one statement"),
					 errdetail("Together they may have at most 1 GB."),
					 errhint("Write them in several steps, or with securefile_write().")));
	}
	return size;
}

/* A value, behind its length. */
static void
put_value(char *dst, const struct varlena *value)
{
	uint32		len = VARSIZE_ANY_EXHDR(value);

	memcpy(dst, &len, sizeof(len));
	memcpy(dst + sizeof(len), VARDATA_ANY(value), len);
}

static struct varlena *
get_value(const char *src)
{
	struct varlena *value;
	uint32		len;

	memcpy(&len, src, sizeof(len));
	value = palloc(VARHDRSZ + len);
	SET_VARSIZE(value, VARHDRSZ + len);
	memcpy(VARDATA(value), src + sizeof(len), len);
	return value;
}

struct varlena *
sf_object_edited(const SfPiece *pieces, int npieces)
{
	SfPiece    *merged = palloc(Max(npieces, 1) * sizeof(SfPiece));
	EditedHeader header = {.form = SF_FORM_EDITED,.boot_id = sf_base_boot_id()};
	EditedPiece *out;
	struct varlena *datum;
	char	   *data;
	uint32		place = 0;
	Size		size;

	sf_base_require_preload();
	header.npieces = merge_pieces(pieces, npieces, merged, &header.length);
	size = checked_size(merged, header.npieces);
	datum = palloc(size);
	SET_VARSIZE(datum, size);
	memcpy(VARDATA(datum), &header, sizeof(header));
	out = palloc(Max(header.npieces, 1) * sizeof(EditedPiece));
	data = VARDATA(datum) + sizeof(header) + header.npieces * sizeof(EditedPiece);
	for (int i = 0; i < header.npieces; i++)
	{
		Size		n = data_size(merged, i);

		out[i] = (EditedPiece) {merged[i].kind, place, merged[i].start, merged[i].length};
		if (merged[i].kind == SF_PIECE_BYTES)
			memcpy(data + place, merged[i].bytes, n);
		else if (n > 0)
			put_value(data + place, merged[i].value);
		else if (merged[i].kind == SF_PIECE_VALUE)
			out[i].place = out[first_with_value(merged, i)].place;
		place += n;
	}
	memcpy(VARDATA(datum) + sizeof(header), out, header.npieces * sizeof(EditedPiece));
	pfree(out);
	pfree(merged);
	return datum;
}

static EditedHeader
get_header(const struct varlena *edited)
{
	EditedHeader header = {0};

	memcpy(&header, VARDATA_ANY(edited), Min(sizeof(header), VARSIZE_ANY_EXHDR(edited)));
	if (VARSIZE_ANY_EXHDR(edited) < sizeof(header) || header.boot_id == 0 ||
		header.boot_id != sf_base_boot_id())
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile value"),
				 errdetail("The value has the form of an edited one, and was not made by this server."),
				 errhint("Run securefile_check() on the column.")));
	return header;
}

int
sf_object_pieces(struct varlena *edited, SfPiece **pieces)
{
	const char *data = VARDATA_ANY(edited);
	EditedHeader header = get_header(edited);
	SfPiece    *result;
	const char *behind;

	result = palloc0(Max(header.npieces, 1) * sizeof(SfPiece));
	behind = data + sizeof(header) + header.npieces * sizeof(EditedPiece);
	for (int i = 0; i < header.npieces; i++)
	{
		EditedPiece piece;

		memcpy(&piece, data + sizeof(header) + i * sizeof(piece), sizeof(piece));
		result[i] = (SfPiece) {piece.kind, piece.length, piece.start};
		if (piece.kind == SF_PIECE_BYTES)
			result[i].bytes = behind + piece.place;
		else if (piece.kind == SF_PIECE_VALUE)
			result[i].value = get_value(behind + piece.place);
	}
	*pieces = result;
	return header.npieces;
}

uint64
sf_object_edited_length(const struct varlena *edited)
{
	return get_header(edited).length;
}
