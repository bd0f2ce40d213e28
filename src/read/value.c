/*-------------------------------------------------------------------------
 *
 * value.c
 *	  Values: their lengths and their bytes, whatever their form.
 *
 *		 INLINE		the bytes themselves follow the form byte
 *		 PACKED		the same, compressed; TRAINED with a dictionary; SEALED encrypted
 *		 STORED		a locator: the bytes are units of a segment
 *		 EDITED		a list of pieces: bytes, zeros, and parts of STORED values
 *
 * All of them read alike: a range is cut at the edges of the pieces, and each part is
 * copied, filled with zeros, or read from its segment.  So does a STORED value that is PIECED: it
 * is ranges of its unit space (object/pieces.c).  Rows hold INLINE, PACKED and
 * STORED values; an EDITED one goes from one function of a statement to another.
 *
 * A locator may be older than the storage it leads to: kept in a variable over COMMIT,
 * for example.  So the segment is opened by the locator's incarnation, which fails when
 * the storage was replaced, and the locator has to bear the tag of that segment, which
 * nobody outside the server can make.
 *
 * Nothing here looks at visibility.  The caller got its locator from a row that a snapshot
 * shows, and the units of that row stay until no snapshot can show it any more.  A locator
 * that was kept longer leads to units that do not match, or match only if nobody has
 * written there since; then the value is what it was.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "read/read_internal.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* So many bytes of a PIECED value are looked up in its list at least. */
#define PIECES_AT_ONCE	((int64) 64 * 1024 * 1024)

/* Every form has its length in the datum itself: a locator knows that of its value. */
int64
sf_read_value_length(const SfValue *value)
{
	switch (value->form)
	{
		case SF_FORM_INLINE:
			return VARSIZE_ANY_EXHDR(value->datum) - 1;
		case SF_FORM_PACKED:
		case SF_FORM_TRAINED:
		case SF_FORM_SEALED:
			return sfi_read_packed_length(value->datum);
		case SF_FORM_EDITED:
			return sf_object_edited_length(value->datum);
		default:
			return sf_object_length(&value->loc);
	}
}

int64
sf_read_length(struct varlena *datum)
{
	SfUnfilled	unfilled;
	SfValue		value;

	if (sf_read_unfilled(PointerGetDatum(datum), &unfilled))
		return unfilled.length_bytes;
	sf_read_look(datum, &value);
	return sf_read_value_length(&value);
}

/*
 * Large results are worth keeping memory for: the next one will be as large.  The segment stays
 * locked for the time of the read only, as a TOAST table does: the row, not the lock, keeps the
 * value.
 */
static SfSegment *
begin_read(SfLocator *loc, int64 len)
{
	SfSegment  *seg;

	SF_ASSERT(len > 0);
	if (len >= SF_IO_LARGE)
		sf_io_use_memory();
	seg = sf_object_open(loc);
	sf_object_require_genuine(seg, loc);
	return seg;
}

/* A range of the unit space, with the segment open. */
static void
read_place(SfSegment *seg, SfLocator *loc, SfRange range, char *dst)
{
	SfReadTarget target = {.dst = dst, .offset = range.start, .len = range.length};
	SfReadJob	job;

	SF_ASSERT(range.length > 0 && range.start + range.length <= loc->unit_space_bytes);
	sfi_read_prepare_job(&job, seg, loc, &target, NULL);
	sfi_read_units(&job, NULL, SfReadTargetFirst(&target));
}

static void
read_stored(SfLocator *loc, int64 object_offset, int64 len, char *dst)
{
	SfSegment  *seg = begin_read(loc, len);
	SfRange    *ranges;
	int64		n;

	SF_ASSERT(object_offset >= 0 && object_offset + len <= sf_locator_value_bytes(loc));
	n = sf_object_ranges(seg, loc, object_offset, object_offset + len, &ranges);
	for (int64 i = 0; i < n; dst += ranges[i++].length)
		read_place(seg, loc, ranges[i], dst);
	pfree(ranges);
	sf_space_release(seg);
}

void
sf_read_unit_space(SfValue *value, int64 start, int64 len, char *dst)
{
	SfSegment  *seg;

	SF_ASSERT(value->form == SF_FORM_STORED && start >= 0);
	if (len == 0)
		return;
	seg = begin_read(&value->loc, len);
	read_place(seg, &value->loc, (SfRange) {start, len}, dst);
	sf_space_release(seg);
}

/* Bytes [offset, offset + len) of a piece; a part of a STORED value has a start in it, too. */
static void
read_piece(const SfPiece *piece, uint64 offset, uint64 len, char *dst)
{
	SF_ASSERT(len > 0 && offset + len <= (uint64) piece->length);
	switch (piece->kind)
	{
		case SF_PIECE_BYTES:
			memcpy(dst, piece->bytes + offset, len);
			break;
		case SF_PIECE_ZEROS:
			memset(dst, 0, len);
			break;
		case SF_PIECE_VALUE:
			sf_read_range(piece->value, piece->start + offset, len, dst);
			break;
	}
}

/* Whatever its form, a value is a list of pieces: of one, if it is not EDITED. */
int
sf_read_pieces(struct varlena *value, SfPiece **pieces)
{
	SfValue		look;

	sf_read_look(sf_read_unpacked(value), &look);
	if (look.form == SF_FORM_EDITED)
		return sf_object_pieces(value, pieces);
	value = look.datum;
	/* of the two fields, the kind tells which one counts */
	*pieces = palloc0(sizeof(SfPiece));
	(*pieces)->kind = look.form == SF_FORM_INLINE ? SF_PIECE_BYTES : SF_PIECE_VALUE;
	(*pieces)->length = sf_read_value_length(&look);
	(*pieces)->bytes = VARDATA_ANY(value) + 1;
	(*pieces)->value = value;
	return 1;
}

/*
 * Read a range of an EDITED value: the part of each piece that overlaps it.  at is the
 * place of the piece in the value.
 */
static void
read_edited(struct varlena *datum, uint64 object_offset, uint64 len, char *dst)
{
	SfPiece    *pieces;
	int			npieces = sf_object_pieces(datum, &pieces);
	uint64		end = object_offset + len;
	uint64		at = 0;

	for (int i = 0; i < npieces; at += pieces[i++].length)
	{
		uint64		from = Max(at, object_offset);
		uint64		to = Min(at + pieces[i].length, end);

		if (from < to)
			read_piece(&pieces[i], from - at, to - from, dst + (from - object_offset));
	}
	pfree(pieces);
}

void
sf_read_value_range(SfValue *value, int64 object_offset, int64 len, char *dst)
{
	struct varlena *datum = value->datum;

	if (len == 0)
		return;
	switch (value->form)
	{
		case SF_FORM_INLINE:
			SF_ASSERT(object_offset >= 0 && object_offset + len <= VARSIZE_ANY_EXHDR(datum) - 1);
			memcpy(dst, VARDATA_ANY(datum) + 1 + object_offset, len);
			break;
		case SF_FORM_PACKED:
		case SF_FORM_TRAINED:
		case SF_FORM_SEALED:
			sfi_read_packed(datum, object_offset, len, dst);
			break;
		case SF_FORM_EDITED:
			read_edited(datum, object_offset, len, dst);
			break;
		default:
			read_stored(&value->loc, object_offset, len, dst);
	}
}

void
sf_read_range(struct varlena *datum, int64 object_offset, int64 len, char *dst)
{
	SfValue		value;

	sf_read_look(datum, &value);
	sf_read_value_range(&value, object_offset, len, dst);
}

/* The length is the caller's: that of the version is the one it had when it was begun. */
void
sf_read_map(SfSegment *seg, SfEdit *edit, const SfLocator *version, int64 unit_space_bytes,
			int64 object_offset, int64 len, char *dst)
{
	SfReadTarget target = {.dst = dst, .offset = object_offset, .len = len, .edit = edit};
	SfReadJob	job;

	if (len == 0)
		return;
	SF_ASSERT(object_offset >= 0 && object_offset + len <= unit_space_bytes);

	/*
	 * the tag needs no look: the locator is this transaction's own, not from
	 * a datum
	 */
	sfi_read_prepare_job(&job, seg, version, &target, NULL);
	job.unit_space_bytes = unit_space_bytes;
	sfi_read_units(&job, NULL, SfReadTargetFirst(&target));
}

/*
 * End of the units that are stored from a stored one on, at most n of them; an
 * object_offset.  It may be behind the end of the value, if its last unit is short.
 */
static uint64
end_of_data(SfSegment *seg, const SfLocator *loc, uint64 first, uint32 n)
{
	SfUnit	   *units = palloc(n * sizeof(SfUnit));
	uint32		i = 0;

	sf_object_units(seg, loc, first, n, units);
	while (i < n && units[i].start != SF_HOLE)
		i++;
	pfree(units);
	return sf_unit_start(first + i);
}

/*
 * The next bytes of the unit space that are not in a hole, as below.  The map is asked twice:
 * where the next stored unit is, which skips leaves without any, and how far the stored units go on
 * from there.  One unit more than the range has room for is looked at, since a range may begin
 * inside a unit.
 */
static bool
next_stored(SfSegment *seg, const SfLocator *loc, int64 *start, int64 *len)
{
	int64		end = loc->unit_space_bytes;
	uint64		unit = sf_unit_of(*start);
	uint64		first = sf_object_next_stored(seg, loc, unit);

	SF_ASSERT(*start <= end);
	if (first > unit)
		*start = Min(first * SF_UNIT_SIZE, end);
	if (first < loc->nunits)
		end = Min(end, end_of_data(seg, loc, first,
								   Min(sf_units_of(*len) + 1, loc->nunits - first)));
	*len = Min(*len, end - *start);
	return *len > 0;
}

/*
 * The same of pieces, n of them, which begin at *object_offset of a value; false: it is behind
 * them.  Data of pieces that follow one another without a hole is found as one.
 */
static bool
next_in_pieces(SfSegment *seg, const SfLocator *loc, const SfRange *ranges, int64 n,
			   int64 *object_offset, int64 *len)
{
	int64		at = *object_offset;
	int64		found = 0;

	for (int64 i = 0; i < n && found < *len; at += ranges[i++].length)
	{
		int64		start = ranges[i].start;
		int64		data = Min(*len - found, (int64) ranges[i].length);
		bool		any = next_stored(seg, loc, &start, &data);
		int64		skipped = Min(start - (int64) ranges[i].start, (int64) ranges[i].length);

		CHECK_FOR_INTERRUPTS();
		data = any ? Min(data, (int64) ranges[i].length - skipped) : 0;
		if (found > 0 && skipped > 0)
			break;
		if (found == 0)
			*object_offset = at + skipped;
		found += data;
		/* a hole follows in this piece */
		if (data > 0 && skipped + data < (int64) ranges[i].length)
			break;
	}
	if (found > 0)
		*len = found;
	return found > 0;
}

/*
 * And of a PIECED value, whose list is read part by part.  What is found is whole units of the
 * value: callers know holes by these, and in the unit space they begin elsewhere.
 */
static bool
next_piece(SfSegment *seg, const SfLocator *loc, int64 *object_offset, int64 *len)
{
	const int64 first = *object_offset;
	const int64 most = *len;
	int64		end = sf_locator_value_bytes(loc);
	int64		part = Max(most, PIECES_AT_ONCE);
	bool		found = false;
	uint64		past;

	SF_ASSERT(first < end && most > 0);
	for (; !found && *object_offset < end; part *= 2)
	{
		SfRange    *ranges;
		int64		to = *object_offset + Min(part, end - *object_offset);
		int64		n = sf_object_ranges(seg, loc, *object_offset, to, &ranges);

		found = next_in_pieces(seg, loc, ranges, n, object_offset, len);
		if (!found)
			*object_offset = to;
		pfree(ranges);
	}
	past = Min(sf_unit_start(sf_units_of(*object_offset + *len)), (uint64) end);
	*object_offset = Max((int64) sf_unit_start(sf_unit_of(*object_offset)), first);
	*len = found ? Min(most, (int64) past - *object_offset) : 0;
	return found;
}

/* Flat values have no holes worth looking for, so all that is left of them counts as data. */
bool
sf_read_next_data(SfValue *value, int64 *object_offset, int64 *len)
{
	SfLocator  *loc = &value->loc;
	int64		end = sf_locator_value_bytes(loc);
	SfSegment  *seg;
	bool		found;

	SF_ASSERT(value->form == SF_FORM_STORED && *object_offset <= end);
	if (!(loc->flags & SF_LOC_INODE) || *object_offset == end)
	{
		*len = Min(*len, end - *object_offset);
		return *len > 0;
	}
	seg = sf_object_open(loc);
	/* what is a hole here is never read, so nothing else would tell */
	sf_object_require_genuine(seg, loc);
	found = loc->flags & SF_LOC_PIECED ? next_piece(seg, loc, object_offset, len) :
		next_stored(seg, loc, object_offset, len);
	sf_space_release(seg);
	return found;
}

/*
 * Whole value behind a header of that many bytes (varlena header included).  The memory
 * is taken for the exact length, and the units are read straight into it where possible.
 */
static struct varlena *
read_whole(SfValue *value, Size header)
{
	int64		len = sf_read_value_length(value);
	struct varlena *result;
	char		first;

	if (len > MaxAllocSize - header)
	{
		/* says so if it is the locator that is wrong */
		sf_read_value_range(value, 0, 1, &first);
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("securefile value of " INT64_FORMAT " bytes is too long to be returned whole",
						len),
				 errdetail("A whole value may be at most 1 GB."),
				 HistoricSnapshotActive() ?
				 errhint("With pgoutput, use a publication with a list of columns. To give the change up, move the slot behind its transaction with pg_replication_slot_advance().") :
				 errhint("Read it in pieces, with substring() or securefile_chunks(); for a digest use securefile_digest(). "
						 "For a backup run \"securefile dump DIR -- pg_dump ..\": pg_dump alone leaves the value out, with PGOPTIONS=\"-c securefile.dump_oversize=marker\".")));
	}
	result = palloc(header + len);
	SET_VARSIZE(result, header + len);
	sf_read_value_range(value, 0, len, (char *) result + header);
	return result;
}

/* A bytea has the same bytes behind a header without form. */
struct varlena *
sf_read_value_bytea(SfValue *value)
{
	return read_whole(value, VARHDRSZ);
}

struct varlena *
sf_read_bytea(struct varlena *datum)
{
	SfValue		value;

	sf_read_look(datum, &value);
	return sf_read_value_bytea(&value);
}

/* The memory is asked for once, so the form byte is put where the header leaves room for it. */
struct varlena *
sf_read_inline(struct varlena *datum)
{
	SfValue		value;
	struct varlena *result;

	sf_read_look(datum, &value);
	result = read_whole(&value, SF_INLINE_OVERHEAD);
	*VARDATA(result) = SF_FORM_INLINE;
	return result;
}
