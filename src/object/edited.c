/*-------------------------------------------------------------------------
 *
 * edited.c
 *	  EDITED values: what ||, overlay() and the like return.
 *
 * Nothing is read or written to make one: it says what of which value it
 * consists of.  Only storing it writes, and then what is in its place already
 * is shared.  It never leaves the transaction's memory (or a tuplestore), so
 * the format is nobody else's business.  The boot id tells one from damage to a
 * row that makes it look like this.  A user who comes to know the id can make bytes
 * look so (ALTER TYPE of a column, seen from a function that it calls), so what they
 * say of themselves is checked: it leads nowhere out of them.
 *
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
 * A value that several pieces refer to is there once: a statement that cuts a value into
 * a thousand pieces (replace(), overlay() in a loop) would else copy its locator, up to 2
 * KB, for each.  So making a value and taking it apart go by a set of values (SfValues).
 *
 * Places of bytes and values are 32 bits, as no datum is longer than 1 GB; lengths are
 * those of the value that it stands for, which can be far longer than the datum.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "common/hashfn.h"
#include "common/int.h"
#include "object/object_internal.h"
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

bool
sfi_object_goes_on(const SfPiece *last, const SfPiece *piece)
{
	SF_ASSERT(last->length > 0 && piece->length > 0);
	if (last->kind != piece->kind)
		return false;
	switch (piece->kind)
	{
		case SF_PIECE_ZEROS:
			return true;
		case SF_PIECE_VALUE:
			return last->start + last->length == piece->start &&
				sf_object_same(last->value, piece->value);

			/*
			 * Bytes continue others only where they lie behind them in
			 * memory: merging such pieces copies nothing.
			 */
		default:
			return last->bytes + last->length == piece->bytes;
	}
}

uint64
sf_object_add_lengths(uint64 a, uint64 b)
{
	int64		sum;

	SF_ASSERT(a <= PG_INT64_MAX && b <= PG_INT64_MAX);
	if (pg_add_s64_overflow((int64) a, (int64) b, &sum))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("securefile value would be too long"),
				 errdetail("A value may have at most %lld bytes.", (long long) PG_INT64_MAX)));
	return sum;
}

void
sfi_object_require_edited_size(Size data, uint64 npieces)
{
	if (data + npieces * sizeof(EditedPiece) > MaxAllocSize - VARHDRSZ - sizeof(EditedHeader))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("new bytes of a securefile value are too many for one statement"),
				 errdetail("Together they may have at most 1 GB."),
				 errhint("Write them in several steps, or with securefile_write().")));
}

/* ---- values that occur more than once ---- */

typedef struct Slot
{
	struct varlena *value;		/* NULL: free */
	uint64		key;
	uint32		place;
} Slot;

struct SfValues
{
	Slot	   *slots;
	uint32		mask;
};

SfValues *
sfi_values_begin(uint64 n)
{
	SfValues   *values = palloc(sizeof(SfValues));
	uint64		size = 16;

	/* At least half of the slots stay free, so find_slot() always ends. */
	while (size < 2 * n)
		size *= 2;
	values->slots = palloc_extended(size * sizeof(Slot), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	values->mask = size - 1;
	return values;
}

void
sfi_values_end(SfValues *values)
{
	pfree(values->slots);
	pfree(values);
}

/*
 * The slot of a key in a set that is never more than half full: the value's own slot, if
 * a value is given, else the first with that key; or a free one, which gets the key.
 */
static Slot *
find_slot(SfValues *values, uint64 key, const struct varlena *value)
{
	SF_ASSERT((values->mask & (values->mask + 1)) == 0);	/* a power of 2 of slots */
	for (uint64 i = key;; i++)
	{
		Slot	   *slot = &values->slots[i & values->mask];

		if (slot->value == NULL ||
			(slot->key == key && (value == NULL || sf_object_same(slot->value, value))))
		{
			slot->key = key;
			return slot;
		}
	}
}

/* The slot of a value, whose key is the hash of its bytes. */
static Slot *
slot_of(SfValues *values, const struct varlena *value)
{
	return find_slot(values, hash_bytes_extended((const unsigned char *) VARDATA_ANY(value),
												 VARSIZE_ANY_EXHDR(value), 0), value);
}

struct varlena **
sfi_values_find(SfValues *values, const struct varlena *value)
{
	return &slot_of(values, value)->value;
}

/* ---- making one ---- */

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
		sum = sf_object_add_lengths(sum, pieces[i].length);
		if (n > 0 && sfi_object_goes_on(&merged[n - 1], &pieces[i]))
			merged[n - 1].length += pieces[i].length;
		else
			merged[n++] = pieces[i];
	}
	SF_ASSERT(n <= npieces && sum >= 0);
	*length = sum;
	return n;
}

/* Where the data of each piece lies behind the pieces; returns how much it is. */
static Size
place_data(const SfPiece *pieces, int n, EditedPiece *out)
{
	SfValues   *values = sfi_values_begin(n);
	Size		size = 0;

	for (int i = 0; i < n; i++)
	{
		Slot	   *slot;

		out[i] = (EditedPiece) {pieces[i].kind, size, pieces[i].start, pieces[i].length};
		if (pieces[i].kind == SF_PIECE_BYTES)
			size += pieces[i].length;
		else if (pieces[i].kind == SF_PIECE_VALUE)
		{
			slot = slot_of(values, pieces[i].value);
			if (slot->value == NULL)
			{
				slot->value = pieces[i].value;
				slot->place = size;
				size += sizeof(uint32) + VARSIZE_ANY_EXHDR(pieces[i].value);
			}
			out[i].place = slot->place;
		}
		sfi_object_require_edited_size(size, n);
	}
	sfi_values_end(values);
	return size;
}

/* Write a value behind its length; neither is aligned. */
static void
put_value(char *dst, const struct varlena *value)
{
	uint32		len = VARSIZE_ANY_EXHDR(value);

	memcpy(dst, &len, sizeof(len));
	memcpy(dst + sizeof(len), VARDATA_ANY(value), len);
}

/*
 * The value at that place (palloc'd, with a long header): what follows in the flat value
 * is not aligned, so a datum cannot point there.
 */
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

/*
 * Copy bytes and values to their places, which ascend but for a value that is there
 * already: its place is before the end of what was copied, and it is passed over.
 */
static void
put_data(char *data, const SfPiece *pieces, int n, const EditedPiece *out)
{
	Size		end = 0;

	for (int i = 0; i < n; i++)
	{
		if (out[i].place < end)
			continue;
		if (pieces[i].kind == SF_PIECE_BYTES)
		{
			memcpy(data + out[i].place, pieces[i].bytes, pieces[i].length);
			end = out[i].place + pieces[i].length;
		}
		else if (pieces[i].kind == SF_PIECE_VALUE)
		{
			put_value(data + out[i].place, pieces[i].value);
			end = out[i].place + sizeof(uint32) + VARSIZE_ANY_EXHDR(pieces[i].value);
		}
	}
}

struct varlena *
sf_object_edited(const SfPiece *pieces, int npieces)
{
	SfPiece    *merged = palloc_extended(Max(npieces, 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	EditedHeader header = {.form = SF_FORM_EDITED, .boot_id = sf_base_boot_id()};
	EditedPiece *out;
	struct varlena *datum;
	Size		size;

	sf_base_require_preload();

	/*
	 * Merged first, so that a value that was put together from neighbouring
	 * parts is as short as one that was never cut.
	 */
	header.npieces = merge_pieces(pieces, npieces, merged, &header.length);
	sfi_object_require_edited_size(0, header.npieces);
	out = palloc(Max(header.npieces, 1) * sizeof(EditedPiece));
	size = VARHDRSZ + sizeof(header) + header.npieces * sizeof(EditedPiece) +
		place_data(merged, header.npieces, out);
	SF_ASSERT(size <= MaxAllocSize);
	datum = palloc(size);
	SET_VARSIZE(datum, size);
	memcpy(VARDATA(datum), &header, sizeof(header));
	memcpy(VARDATA(datum) + sizeof(header), out, header.npieces * sizeof(EditedPiece));
	put_data(VARDATA(datum) + sizeof(header) + header.npieces * sizeof(EditedPiece), merged,
			 header.npieces, out);
	pfree(out);
	pfree(merged);
	return datum;
}

/* ---- taking it apart ---- */

/*
 * Raise the one error for a value of this form that this server did not make, or that
 * was changed since.
 */
static void
require_sound(bool sound)
{
	if (!sound)
		sf_base_report_damage("invalid securefile value",
							  "The value has the form of an edited one, and was not made by this server.");
}

/*
 * The header of an EDITED value, checked: of this start of the server, and with room for
 * its list of pieces.  What follows may still be anything; see require_sound_piece().
 */
static EditedHeader
get_header(const struct varlena *edited)
{
	EditedHeader header = {0};

	memcpy(&header, VARDATA_ANY(edited), Min(sizeof(header), VARSIZE_ANY_EXHDR(edited)));
	require_sound(VARSIZE_ANY_EXHDR(edited) >= sizeof(header) && header.boot_id != 0 &&
				  header.boot_id == sf_base_boot_id());

	/*
	 * Compared as a quotient: a product of what a forged header says could
	 * overflow.
	 */
	require_sound(header.npieces <=
				  (VARSIZE_ANY_EXHDR(edited) - sizeof(header)) / sizeof(EditedPiece));
	return header;
}

/*
 * Check that a piece leads nowhere out of the datum: its bytes, or its value, lie in
 * what is behind the list of pieces. behind, size: that part.
 */
static void
require_sound_piece(const EditedPiece *piece, const char *behind, Size size)
{
	uint32		len;

	switch (piece->kind)
	{
		case SF_PIECE_BYTES:
			/* Differences, not sums: none of these can overflow. */
			require_sound(piece->place <= size && piece->length <= size - piece->place);
			break;
		case SF_PIECE_VALUE:
			require_sound(piece->place <= size && size - piece->place >= sizeof(len));
			memcpy(&len, behind + piece->place, sizeof(len));
			require_sound(len <= size - piece->place - sizeof(len));
			break;
		default:
			require_sound(piece->kind == SF_PIECE_ZEROS);
	}
}

/*
 * Check that a piece is a part of the value that it names.  The value's locator is
 * decoded for that, but its tag is not checked here: reading it does that.
 */
static void
require_sound_part(const SfPiece *piece)
{
	SfLocator	loc = sf_object_locator(piece->value);
	uint64		length = sf_locator_value_bytes(&loc);

	require_sound(piece->start <= length && piece->length <= length - piece->start);
}

int
sf_object_pieces(struct varlena *edited, SfPiece **pieces)
{
	const char *data = VARDATA_ANY(edited);
	EditedHeader header = get_header(edited);
	SfPiece    *result = palloc_extended(Max(header.npieces, 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	SfValues   *values = sfi_values_begin(header.npieces);
	const char *behind = data + sizeof(header) + header.npieces * sizeof(EditedPiece);
	Size		size = data + VARSIZE_ANY_EXHDR(edited) - behind;
	uint64		total = 0;

	for (int i = 0; i < header.npieces; i++)
	{
		EditedPiece piece;

		memcpy(&piece, data + sizeof(header) + i * sizeof(piece), sizeof(piece));
		require_sound_piece(&piece, behind, size);

		/*
		 * The running sum stays within the length that the header tells, so
		 * it cannot overflow.
		 */
		require_sound(piece.length <= header.length - total);
		total += piece.length;
		result[i] = (SfPiece) {piece.kind, piece.length, piece.start};
		if (piece.kind == SF_PIECE_BYTES)
			result[i].bytes = behind + piece.place;
		else if (piece.kind == SF_PIECE_VALUE)
		{
			/*
			 * By its place, not by its bytes: all pieces of a value have the
			 * same place, and no bytes have to be hashed.
			 */
			Slot	   *slot = find_slot(values, hash_combine64(0, piece.place), NULL);

			if (slot->value == NULL)
				slot->value = get_value(behind + piece.place);
			result[i].value = slot->value;
			require_sound_part(&result[i]);
		}
	}
	require_sound(total == header.length);
	sfi_values_end(values);
	*pieces = result;
	return header.npieces;
}

uint64
sf_object_edited_length(const struct varlena *edited)
{
	return get_header(edited).length;
}
