/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  securefile_estimate(): what each level of compression would save and cost, told
 *	  from a sample of the stored values, before anybody changes the option.
 *
 * Rows are taken at random.  A value is divided into MOST_PARTS equal parts, and one unit
 * of each part is read and stands for it, so that a value of 10 GB costs 1 MB.
 *
 *	value		[ ....u....|....u....| ... |....u.... ]		u: a unit that is read
 *
 * Each level encodes these units as a store does, with the column's dictionary if it has
 * one, and decodes what it has made of them.
 * Whether a store tries to encode a unit depends on the units before it.  So an encoder
 * goes through all units of the value, and those that were not read are taken to gain
 * as much, or as little, as the one that stands for them.
 *
 * Nothing is written, so the function works on a standby, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "access/table.h"
#include "access/toast_compression.h"
#include "ddl/ddl.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "read/read.h"
#include "space/dictionary_pages.h"
#include "sql/content.h"
#include "sql/sample.h"
#include "transform/transform.h"
#include "utils/builtins.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_estimate);

#define COLUMNS				9	/* of the result */
#define MOST_PARTS			8	/* of one value */
#define MOST_UNITS_TOLD		1024	/* of one part that the encoder is told of */

/* The levels, by their option words. */
static const struct
{
	const char *option;
	SfCompression level;
}			levels[] = {
	{"nocompress", SF_COMPRESSION_NONE},
	{"compress_low", SF_COMPRESSION_LOW},
	{"compress_medium", SF_COMPRESSION_MEDIUM},
	{"compress_high", SF_COMPRESSION_HIGH},
};

#define LEVELS	lengthof(levels)

/* Units of a value that lie side by side, and the one that stands for them. */
typedef struct Part
{
	uint64		first;
	uint64		count;			/* at least 1 */
	uint64		read;			/* number of the unit that is read */
	bool		hole;			/* it is one: zeros that are not stored */
} Part;

/* What was read of one value. */
typedef struct Sample
{
	int64		length;			/* of the value */
	int			nparts;
	Part		parts[MOST_PARTS];
	char	   *plain;			/* room for the unit of each part */
} Sample;

/* What a level makes of one unit. */
typedef struct UnitCost
{
	uint32		plain_bytes;
	uint32		raw_bytes;		/* that it takes as it is, .. */
	uint32		coded_bytes;	/* .. and encoded; 0: nothing is gained */
	double		encode_s;
	double		decode_s;
} UnitCost;

/* What it makes of all values so far, by what it made of some units of them. */
typedef struct LevelCost
{
	double		compressed_units;
	double		stored_bytes;
	double		encoded_bytes;	/* plain bytes of all units that are no holes */
	double		encode_s;
	double		decode_s;
} LevelCost;

/* The numbers of one sample of rows. */
typedef struct Totals
{
	int64		values;
	int64		units;
	int64		plain_bytes;
	LevelCost	costs[LEVELS];
} Totals;

typedef struct Estimate
{
	SfSample	rows;
	AttrNumber	attnum;
	bool		in_row;			/* option of the column: small values stay in
								 * the row */
	Sample		sample;			/* what was read of the value at hand, .. */
	char	   *coded;			/* .. and room for a unit of it, encoded .. */
	char	   *decoded;		/* .. and decoded again */
	Totals		totals;
} Estimate;

/* ---- one value: reading ---- */

/*
 * Divide a value into parts of about as many units: of one, if it has no more units than
 * parts.  The unit in the middle of a part stands for it, but for values that TOAST has
 * compressed, which can be read from their beginning only: there it is one of the first.
 */
static void
choose_units(const SfSqlContent *content, Sample *sample)
{
	uint64		nunits = sf_units_of(content->length);
	bool		packed = false;

	if (sfi_sql_is_inline(content))
		packed = toast_get_compression_id(content->value.datum) != TOAST_INVALID_COMPRESSION_ID;
	sample->length = content->length;
	sample->nparts = Min(nunits, MOST_PARTS);
	for (int i = 0; i < sample->nparts; i++)
	{
		Part	   *part = &sample->parts[i];

		part->first = i * nunits / sample->nparts;
		part->count = (i + 1) * nunits / sample->nparts - part->first;
		part->read = packed ? i : part->first + (part->count - 1) / 2;
		SF_ASSERT(part->count > 0 && part->read < nunits);
		/* the parts lie side by side, and the last one ends with the value */
		SF_ASSERT(i + 1 < sample->nparts || part->first + part->count == nunits);
	}
}

/* Is a unit a hole, which takes no space at any level? */
static bool
is_hole(SfSqlContent *content, int64 start, int64 len)
{
	int64		data = start;

	if (content->value.form != SF_FORM_STORED)
		return false;
	return !sf_read_next_data(&content->value, &data, &len) || data > start;
}

/* Read the unit that stands for a part. */
static void
read_sampled_unit(SfSqlContent *content, Part *part, char *dst)
{
	int64		start = sf_unit_start(part->read);
	uint32		len = sf_unit_plain_bytes(content->length, part->read);
	bytea	   *slice;

	SF_ASSERT(len > 0 && len <= SF_UNIT_SIZE);
	part->hole = is_hole(content, start, len);
	if (part->hole)
		return;
	if (!sfi_sql_is_inline(content))
	{
		sf_read_value_range(&content->value, start, len, dst);
		return;
	}
	slice = sfi_sql_slice(content, start, len);
	memcpy(dst, VARDATA(slice), len);
	pfree(slice);
}

/* An SfBaseStep: read the units of the value at hand, or throw. */
static void
read_sample(void *arg)
{
	Estimate   *estimate = arg;
	Sample	   *sample = &estimate->sample;
	SfSqlContent content;

	sfi_sql_open(estimate->rows.value, &content);
	choose_units(&content, sample);
	for (int i = 0; i < sample->nparts; i++)
	{
		CHECK_FOR_INTERRUPTS();
		read_sampled_unit(&content, &sample->parts[i], sample->plain + i * SF_UNIT_SIZE);
	}
}

/* ---- one value at one level ---- */

static double
seconds_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}

/* Seconds to decode what was just encoded, as a read does. */
static double
decode(Estimate *estimate, SfDictionary *dictionary, const SfUnit *unit, uint32 plain_bytes)
{
	instr_time	start;

	SF_ASSERT(!sf_transform_is_raw(unit));
	INSTR_TIME_SET_CURRENT(start);
	if (sf_transform_decode(unit, dictionary, estimate->coded, estimate->decoded,
							plain_bytes) != SF_DECODED)
		elog(ERROR, "could not decode a unit of codec %u", unit->flags);
	return seconds_since(start);
}

/* The dictionary that a store at that level would use for the value at hand, or NULL. */
static SfDictionary *
dictionary_for(const Estimate *estimate, SfCompression level)
{
	SfHome		home;

	if (estimate->sample.length > SF_UNIT_SIZE || !sf_transform_is_trainable(level))
		return NULL;
	return sf_space_trained(RelationGetRelid(estimate->rows.rel), estimate->attnum,
							AccessShareLock, &home);
}

/* Does the value at hand stay in the row, compressed or not? */
static bool
stays_in_row(const Estimate *estimate)
{
	return estimate->in_row && estimate->sample.length <= SF_IN_ROW_MAX;
}

/*
 * Encode such a value, as write/pack.c does: no sector is to be saved, so all that saves an
 * eighth is worth it.
 */
static SfUnit
encode_in_row(const SfEncoder *encoder, const char *plain, uint32 len, char *dst)
{
	SfColumn	column = {.permanent = true};
	SfUnit		unit = {.flags = SF_CODEC_RAW};
	uint32		room = sf_transform_room_in_row(len, sf_write_packed_header(encoder));

	column.options.in_row = true;
	column.options.compression = encoder->level;
	if (sf_write_packs(&column, len))
		unit.stored_bytes = sf_transform_encode_bytes(encoder, encoder->level, plain, len,
													  dst, room);
	if (unit.stored_bytes > 0)
		unit.flags = encoder->codec->id;
	return unit;
}

/*
 * Bytes that an encoded unit takes: whole sectors of the segment, or, if it is all of the
 * value and has become small enough, those that it has in the row.
 */
static uint32
bytes_taken(const Estimate *estimate, const SfEncoder *encoder, const SfUnit *unit)
{
	uint32		in_row_bytes = sf_write_packed_header(encoder) + unit->stored_bytes;

	if (sf_transform_is_raw(unit))
		return 0;
	if (estimate->in_row && estimate->sample.length <= SF_UNIT_SIZE &&
		in_row_bytes <= SF_IN_ROW_MAX)
		return in_row_bytes;
	return sf_sectors_to_bytes(sf_unit_sectors(unit));
}

/*
 * Encode a unit as a store does, with what the encoder knows of the units before it.  It
 * is tried in any case: tell_encoder() says whether a store would.
 */
static UnitCost
try_unit(Estimate *estimate, SfEncoder encoder, const char *plain, uint32 len)
{
	UnitCost	cost = {.plain_bytes = len};
	SfUnit		unit;
	instr_time	start;

	SF_ASSERT(len > 0 && len <= SF_UNIT_SIZE);
	CHECK_FOR_INTERRUPTS();
	encoder.skip = 0;
	INSTR_TIME_SET_CURRENT(start);
	if (stays_in_row(estimate))
		unit = encode_in_row(&encoder, plain, len, estimate->coded);
	else
		(void) sf_transform_encode(&encoder, plain, len, estimate->coded, &unit);
	cost.encode_s = seconds_since(start);
	cost.raw_bytes = stays_in_row(estimate) ? len : sf_sectors_to_bytes(sf_bytes_to_sectors(len));
	cost.coded_bytes = bytes_taken(estimate, &encoder, &unit);
	if (cost.coded_bytes > 0)
		cost.decode_s = decode(estimate, encoder.dictionary, &unit, len);
	return cost;
}

/*
 * Tell the encoder of one more unit, which would gain, or would not.  Is it tried?  A unit
 * of one byte gains nothing and takes no time: it is given for each that does not gain, or
 * is passed over.
 */
static bool
tell_encoder(SfEncoder *encoder, bool gains)
{
	bool		tried = encoder->skip == 0;
	SfUnit		unit;

	if (tried && gains)
		encoder->step = 0;
	else
		(void) sf_transform_encode(encoder, "", 1, NULL, &unit);
	return tried;
}

/*
 * Add what a store makes of a part, if each unit of it is like the one that was read.  The
 * encoder is told of some of a part that has very many: it repeats itself by then.
 */
static void
add_part_cost(SfEncoder *encoder, const Part *part, int64 part_bytes, const UnitCost *unit,
			  LevelCost *sum)
{
	uint64		told = Min(part->count, MOST_UNITS_TOLD);
	double		scale = (double) part_bytes / unit->plain_bytes / told;
	uint64		tried = 0;
	uint64		gained;

	SF_ASSERT(part_bytes > 0 && told > 0);
	for (uint64 i = 0; i < told; i++)
		tried += tell_encoder(encoder, unit->coded_bytes > 0);
	gained = unit->coded_bytes > 0 ? tried : 0;
	sum->compressed_units += (double) gained / told * part->count;
	sum->stored_bytes += scale * gained * unit->coded_bytes +
		scale * (told - gained) * unit->raw_bytes;
	sum->encoded_bytes += part_bytes;
	sum->encode_s += scale * tried * unit->encode_s;
	sum->decode_s += scale * gained * unit->decode_s;
}

/*
 * Add what a level makes of the value at hand.  Its parts go through one encoder, in order;
 * holes are passed over, as by a store.
 */
static void
try_level(Estimate *estimate, SfCompression level, LevelCost *sum)
{
	const Sample *sample = &estimate->sample;
	SfEncoder	encoder;

	sf_transform_begin(&encoder, level, dictionary_for(estimate, level));
	for (int i = 0; i < sample->nparts; i++)
	{
		const Part *part = &sample->parts[i];
		int64		start = sf_unit_start(part->first);
		int64		end = Min(sf_unit_start(part->first + part->count), sample->length);
		UnitCost	unit;

		if (part->hole)
			continue;
		unit = try_unit(estimate, encoder, sample->plain + i * SF_UNIT_SIZE,
						sf_unit_plain_bytes(sample->length, part->read));
		add_part_cost(&encoder, part, end - start, &unit, sum);
	}
}

/* Is a level there in this build? */
static bool
has_level(int i)
{
	return levels[i].level == SF_COMPRESSION_NONE || sf_transform_codec(levels[i].level) != NULL;
}

/*
 * An SfBaseStep: try all levels on the value at hand.  The first value is tried twice: a
 * codec makes its tables when it is first used in a process, and that time is not one of
 * this value.
 */
static void
count_value(void *arg)
{
	Estimate   *estimate = arg;
	Totals	   *totals = &estimate->totals;
	LevelCost	warming = {0};

	for (int i = 0; i < LEVELS; i++)
	{
		if (!has_level(i))
			continue;
		if (totals->units == 0)
			try_level(estimate, levels[i].level, &warming);
		try_level(estimate, levels[i].level, &totals->costs[i]);
	}
	totals->values++;
	totals->units += sf_units_of(estimate->sample.length);
	totals->plain_bytes += estimate->sample.length;
}

/* ---- the result ---- */

/* Millions of bytes a second, which is null when there is no time to divide by. */
static double
speed(double bytes, double seconds, bool *isnull)
{
	*isnull = seconds <= 0;
	return *isnull ? 0 : bytes / seconds / 1e6;
}

static void
put_level(ReturnSetInfo *rsinfo, const Totals *totals, int i)
{
	const LevelCost *cost = &totals->costs[i];
	bool		plain = levels[i].level == SF_COMPRESSION_NONE;
	bool		nulls[COLUMNS] = {false};
	double		encodes = speed(cost->encoded_bytes, plain ? 0 : cost->encode_s, &nulls[7]);
	double		decodes = speed(cost->encoded_bytes, plain ? 0 : cost->decode_s, &nulls[8]);
	Datum		values[] = {
		CStringGetTextDatum(levels[i].option),
		Int64GetDatum(totals->values),
		Int64GetDatum(totals->units),
		Int64GetDatum((int64) (cost->compressed_units + 0.5)),
		Int64GetDatum(totals->plain_bytes),
		Int64GetDatum((int64) (cost->stored_bytes + 0.5)),
		Float8GetDatum(totals->plain_bytes / cost->stored_bytes),
		Float8GetDatum(encodes),
		Float8GetDatum(decodes)
	};

	SF_ASSERT(rsinfo->setDesc->natts == lengthof(values));
	nulls[6] = cost->stored_bytes == 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * securefile_estimate(table regclass, column name, sample_rows integer)
 * returns setof (option text, sampled_values bigint, units bigint, compressed_units bigint,
 *				  plain_bytes bigint, stored_bytes bigint, ratio float8,
 *				  compress_mb_s float8, decompress_mb_s float8)
 */
Datum
securefile_estimate(PG_FUNCTION_ARGS)
{
	Estimate   *estimate;

	sf_base_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	estimate = palloc0(sizeof(Estimate));
	sfi_sample_begin(&estimate->rows, fcinfo, 1, 100);
	estimate->sample.plain = palloc(MOST_PARTS * SF_UNIT_SIZE);
	estimate->coded = palloc(SF_UNIT_SIZE);
	estimate->decoded = palloc(SF_UNIT_SIZE);
	estimate->attnum = sfi_sample_open(&estimate->rows, PG_GETARG_OID(0), false);
	estimate->in_row = sf_ddl_describe(PG_GETARG_OID(0), estimate->attnum).options.in_row;
	sfi_sample_take(&estimate->rows, read_sample, count_value, estimate);
	table_close(estimate->rows.rel, NoLock);
	/* the server may write what lies in memory that is given back, as padding */
	sodium_memzero(estimate->sample.plain, MOST_PARTS * SF_UNIT_SIZE);
	sodium_memzero(estimate->coded, SF_UNIT_SIZE);
	sodium_memzero(estimate->decoded, SF_UNIT_SIZE);
	for (int i = 0; i < LEVELS; i++)
		if (has_level(i))
			put_level((ReturnSetInfo *) fcinfo->resultinfo, &estimate->totals, i);
	return (Datum) 0;
}
