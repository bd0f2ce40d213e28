/*-------------------------------------------------------------------------
 *
 * value_storage.c
 *	  securefile_storage(): how a value is stored (Oracle: DBMS_LOB.GETOPTIONS).
 *
 * What it says comes from the row and from the unit map.  No data is read, so it costs
 * little, and works for values whose data is damaged.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "read/read.h"
#include "transform/transform.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_storage);

#define STORAGE_COLUMNS		10
#define UNITS_AT_ONCE		512

/* What is counted of the units of a value. */
typedef struct UnitCounts
{
	int64		stored_bytes;
	int64		units;			/* holes are none */
	int64		encoded;
	uint32		codecs;			/* a bit for each that occurs */
	int64		pieces;
	int64		unused_bytes;	/* plain ones, of units of which a part is in
								 * no piece */
} UnitCounts;

/* The pieces of a value in the order of the unit space, and how far they were gone through. */
typedef struct Pieces
{
	SfRange    *ranges;
	int64		n;
	int64		next;
} Pieces;

static void
count_unit(UnitCounts *counts, const SfUnit *unit)
{
	if (unit->start == SF_HOLE)
		return;
	counts->stored_bytes += unit->stored_bytes;
	counts->units++;
	SF_ASSERT(unit->flags <= SF_CODEC_MAX && unit->stored_bytes > 0);
	counts->encoded += !sf_transform_is_raw(unit);
	counts->codecs |= 1u << unit->flags;
}

/* For qsort(). */
static int
compare_starts(const void *a, const void *b)
{
	uint64		x = ((const SfRange *) a)->start;
	uint64		y = ((const SfRange *) b)->start;

	return x < y ? -1 : x > y;
}

static Pieces
pieces_of(SfSegment *seg, const SfLocator *loc)
{
	Pieces		pieces = {0};

	pieces.n = sf_object_ranges(seg, loc, 0, sf_locator_value_bytes(loc), &pieces.ranges);
	qsort(pieces.ranges, pieces.n, sizeof(SfRange), compare_starts);
	return pieces;
}

/* How many bytes of a range of the unit space, which lies behind the last one, are in pieces. */
static uint64
bytes_in_pieces(Pieces *pieces, uint64 start, uint64 end)
{
	uint64		sum = 0;

	SF_ASSERT(start < end);
	for (; pieces->next < pieces->n; pieces->next++)
	{
		const SfRange *range = &pieces->ranges[pieces->next];
		uint64		from = Max(range->start, start);
		uint64		to = Min(range->start + range->length, end);

		if (from < to)
			sum += to - from;
		/* the next unit may have more of it */
		if (range->start + range->length > end)
			break;
	}
	return sum;
}

/* Go through the unit map.  The segment is locked for that time only, as in a read. */
static UnitCounts
count_units(SfLocator *loc)
{
	SfSegment  *seg = sf_object_open(loc);
	SfUnit	   *units = palloc(UNITS_AT_ONCE * sizeof(SfUnit));
	UnitCounts	counts = {0};
	Pieces		pieces;
	uint64		first = 0;

	SF_ASSERT(loc->nunits > 0);
	if (loc->flags & SF_LOC_PIECED)
		sf_object_require_genuine(seg, loc);
	pieces = pieces_of(seg, loc);
	counts.pieces = pieces.n;
	while ((first = sf_object_next_stored(seg, loc, first)) < loc->nunits)
	{
		uint32		n = Min(UNITS_AT_ONCE, loc->nunits - first);

		CHECK_FOR_INTERRUPTS();
		sf_object_units(seg, loc, first, n, units);
		for (uint32 i = 0; i < n; i++)
		{
			uint64		start = sf_unit_start(first + i);
			uint32		bytes = sf_unit_plain_bytes(loc->unit_space_bytes, first + i);

			count_unit(&counts, &units[i]);
			if (units[i].start != SF_HOLE)
				counts.unused_bytes += bytes - bytes_in_pieces(&pieces, start, start + bytes);
		}
		first += n;
	}
	pfree(pieces.ranges);
	pfree(units);
	sf_space_release(seg);
	return counts;
}

/* The codecs of a value by their names, "none" if there is none. */
static text *
codec_names(uint32 codecs)
{
	StringInfoData names;

	initStringInfo(&names);
	for (uint32 id = SF_CODEC_RAW + 1; id <= SF_CODEC_MAX; id++)
	{
		const SfCodecOps *codec = sf_transform_find(id);

		if (!(codecs & (1u << id)))
			continue;
		if (names.len > 0)
			appendStringInfoString(&names, ", ");
		if (codec != NULL)
			appendStringInfoString(&names, codec->name);
		else
			appendStringInfo(&names, "%u", id);
	}
	return cstring_to_text(names.len > 0 ? names.data : "none");
}

/* The columns that only a stored value has. */
static void
fill_stored(struct varlena *datum, Datum *values)
{
	SfLocator	loc = sf_object_locator(datum);
	UnitCounts	counts = count_units(&loc);

	SF_ASSERT(counts.encoded <= counts.units && counts.units <= (int64) loc.nunits);
	values[2] = Int64GetDatum(counts.stored_bytes);
	values[3] = Int64GetDatum(counts.units);
	values[4] = Int64GetDatum(counts.encoded);
	values[5] = PointerGetDatum(codec_names(counts.codecs));
	values[7] = BoolGetDatum((loc.flags & SF_LOC_HASHED) != 0);
	values[8] = Int64GetDatum(counts.pieces);
	values[9] = Int64GetDatum(counts.unused_bytes);
}

/* The result for a value that was not restored: nothing is stored but what the row has. */
static Datum
unfilled_row(FunctionCallInfo fcinfo, Datum value, const SfUnfilled *unfilled)
{
	Datum		values[STORAGE_COLUMNS] = {0};
	bool		nulls[STORAGE_COLUMNS];

	SF_ASSERT(unfilled->length_bytes <= PG_INT64_MAX);
	values[0] = CStringGetTextDatum("unfilled");
	values[1] = Int64GetDatum((int64) unfilled->length_bytes);
	values[2] = Int64GetDatum((int64) toast_datum_size(value));
	for (int i = 0; i < STORAGE_COLUMNS; i++)
		nulls[i] = i > 2;
	return sf_base_row(fcinfo, values, nulls);
}

/*
 * securefile_storage(document securefile)
 * returns (form text, length bigint, stored_bytes bigint, units bigint,
 *			compressed_units bigint, codec text, key_id integer, hashed boolean,
 *			pieces bigint, unused_bytes bigint)
 */
Datum
securefile_storage(PG_FUNCTION_ARGS)
{
	Datum		value = sf_object_given(PG_GETARG_DATUM(0));
	SfUnfilled	unfilled;
	uint8		form;
	struct varlena *datum;
	Datum		values[STORAGE_COLUMNS] = {0};
	bool		nulls[STORAGE_COLUMNS] = {false};

	if (sf_read_unfilled(value, &unfilled))
		PG_RETURN_DATUM(unfilled_row(fcinfo, value, &unfilled));
	datum = PG_DETOAST_DATUM_PACKED(value);
	form = sf_read_form(datum);
	values[0] = CStringGetTextDatum(form == SF_FORM_STORED ? "stored" :
									form == SF_FORM_EDITED ? "edited" : "inline");
	values[1] = Int64GetDatum(sf_read_length(datum));
	values[2] = Int64GetDatum((int64) toast_datum_size(value));
	values[5] = CStringGetTextDatum("none");
	values[8] = Int64GetDatum(1);
	if (form == SF_FORM_STORED)
		fill_stored(datum, values);
	if (form == SF_FORM_PACKED || sf_read_is_homed(datum))
		values[5] = PointerGetDatum(codec_names(1u << sf_read_packed_unit(datum).flags));
	values[6] = Int32GetDatum(sf_read_key_id(datum));
	/* an edited value is in memory only */
	if (form == SF_FORM_EDITED)
		nulls[2] = nulls[3] = nulls[4] = nulls[5] = nulls[6] = nulls[7] = nulls[8] =
			nulls[9] = true;
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
