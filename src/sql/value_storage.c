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

#define STORAGE_COLUMNS		8
#define UNITS_AT_ONCE		512

/* What is counted of the units of a value. */
typedef struct UnitCounts
{
	int64		stored_bytes;
	int64		units;			/* holes are none */
	int64		encoded;
	uint32		codecs;			/* a bit for each that occurs */
} UnitCounts;

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

/* Go through the unit map.  The segment is locked for that time only, as in a read. */
static UnitCounts
count_units(const SfLocator *loc)
{
	SfSegment  *seg = sf_object_open(loc);
	SfUnit	   *units = palloc(UNITS_AT_ONCE * sizeof(SfUnit));
	UnitCounts	counts = {0};
	uint64		first = 0;

	SF_ASSERT(loc->nunits > 0);
	while ((first = sf_object_next_stored(seg, loc, first)) < loc->nunits)
	{
		uint32		n = Min(UNITS_AT_ONCE, loc->nunits - first);

		CHECK_FOR_INTERRUPTS();
		sf_object_units(seg, loc, first, n, units);
		for (uint32 i = 0; i < n; i++)
			count_unit(&counts, &units[i]);
		first += n;
	}
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
}

/* The result for a value that was not restored: nothing is stored but what the row has. */
static Datum
unfilled_row(FunctionCallInfo fcinfo, Datum value, const SfUnfilled *unfilled)
{
	Datum		values[STORAGE_COLUMNS] = {0};
	bool		nulls[STORAGE_COLUMNS] = {false, false, false, true, true, true, true, true};

	SF_ASSERT(unfilled->length_bytes <= PG_INT64_MAX);
	values[0] = CStringGetTextDatum("unfilled");
	values[1] = Int64GetDatum((int64) unfilled->length_bytes);
	values[2] = Int64GetDatum((int64) toast_datum_size(value));
	return sf_base_row(fcinfo, values, nulls);
}

/*
 * securefile_storage(document securefile)
 * returns (form text, length bigint, stored_bytes bigint, units bigint,
 *			compressed_units bigint, codec text, key_id integer, hashed boolean)
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
	if (form == SF_FORM_STORED)
		fill_stored(datum, values);
	if (form == SF_FORM_PACKED || sf_read_is_homed(datum))
		values[5] = PointerGetDatum(codec_names(1u << sf_read_packed_unit(datum).flags));
	values[6] = Int32GetDatum(sf_read_key_id(datum));
	/* an edited value is in memory only */
	if (form == SF_FORM_EDITED)
		nulls[2] = nulls[3] = nulls[4] = nulls[5] = nulls[6] = nulls[7] = true;
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
