/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  securefile_estimate(): what each level of compression would save and cost, told
 *	  from a sample of the stored values, before anybody changes the option.
 *
 * Rows are taken at random, and of each value up to MOST_UNITS units that are spread
 * evenly over it, so that a value of 10 GB costs 1 MB.  Each level encodes these units
 * as a store does, one encoder for each value, and decodes what it has made of them.  A
 * value counts with its full length: what its units show is scaled up to it.
 *
 *	value		[ ......u.......|......u.......| ... |......u....... ]
 *							 1/8			1/8				 1/8
 *
 * Nothing is written, so the function works on a standby, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "access/toast_compression.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "ddl/ddl.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "read/read.h"
#include "sql/content.h"
#include "transform/transform.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_estimate);

#define MOST_UNITS			8	/* of one value */
#define MOST_SAMPLE_ROWS	1000000

enum
{
	COLUMN_OPTION,
	COLUMN_VALUES,
	COLUMN_UNITS,
	COLUMN_COMPRESSED_UNITS,
	COLUMN_PLAIN_BYTES,
	COLUMN_STORED_BYTES,
	COLUMN_RATIO,
	COLUMN_COMPRESS_SPEED,
	COLUMN_DECOMPRESS_SPEED,
	COLUMNS,
};

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

/* What was read of one value. */
typedef struct Sample
{
	int64		length;			/* of the value */
	int64		read_bytes;		/* of the units below, holes included */
	int			nunits;
	uint64		unit_no[MOST_UNITS];	/* ascending */
	bool		hole[MOST_UNITS];	/* zeros that are not stored */
	char	   *plain;			/* memory for MOST_UNITS units */
} Sample;

/*
 * What a level makes of units, or of all values so far.  Numbers that are scaled up
 * are no integers.
 */
typedef struct LevelCost
{
	int64		compressed_units;
	double		stored_bytes;
	double		encoded_bytes;	/* plain bytes of what a store hands to the
								 * encoder */
	double		encode_s;
	double		decode_s;
} LevelCost;

/* The numbers of one sample of rows. */
typedef struct Totals
{
	int64		values;
	int64		units;
	int64		plain_bytes;
	int64		damaged;		/* values that could not be read */
	char	   *problem;		/* of the first one */
	LevelCost	costs[LEVELS];
} Totals;

typedef struct Estimate
{
	Relation	rel;
	const char *column;
	bool		in_row;			/* option of the column: small values stay in
								 * the row */
	int			sample_rows;
	MemoryContext context;		/* lasts for the whole call */
	MemoryContext value_context;	/* reset after each value */
	Datum		value;			/* the one at hand, .. */
	Sample		sample;			/* .. what was read of it, .. */
	char	   *coded;			/* .. and room for a unit of it, encoded .. */
	char	   *decoded;		/* .. and decoded again */
	Totals		totals;
} Estimate;

/* ---- arguments ---- */

static void
check_arguments(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table, column and sample_rows must not be null")));
	if (PG_GETARG_INT32(2) < 1 || PG_GETARG_INT32(2) > MOST_SAMPLE_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample_rows must be between 1 and %d, not %d",
						MOST_SAMPLE_ROWS, PG_GETARG_INT32(2)),
				 errhint("The default is 100.")));
}

/* The column's number; ERROR when this is no table, or it has no such securefile column. */
static AttrNumber
find_column(Oid table_oid, const char *column)
{
	char	   *table = get_rel_name(table_oid);
	char		relkind = get_rel_relkind(table_oid);
	AttrNumber	attnum;
	Oid			typid;

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", table_oid)));
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", table),
				 errhint("Name the table that holds the values.")));
	attnum = get_attnum(table_oid, column);
	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", column, table)));
	typid = get_atttype(table_oid, attnum);
	if (typid == BYTEAOID || sf_ddl_described_type(typid) != BYTEAOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s\" is not of type securefile", column, table),
				 errhint("View securefile_columns lists those that are.")));
	return attnum;
}

/*
 * Open the table, locked until the transaction ends, as SELECT does.  A role without
 * privileges gets no lock.  The column is looked for again under the lock: before it,
 * somebody may have changed it.
 */
static void
open_table(Estimate *estimate, Oid table_oid)
{
	AttrNumber	attnum = find_column(table_oid, estimate->column);

	sf_ddl_require_privilege(table_oid, attnum, ACL_SELECT);
	sf_base_refuse_other_temp(table_oid);
	estimate->rel = table_open(table_oid, AccessShareLock);
	attnum = find_column(table_oid, estimate->column);
	estimate->in_row = sf_ddl_describe(table_oid, attnum).options.in_row;
}

/* ---- one value: reading ---- */

/*
 * Choose units: all of them, or those in the middle of equal parts.  A value that TOAST
 * has compressed can be read from its beginning only, so its first units are taken.
 */
static void
choose_units(const SfSqlContent *content, Sample *sample)
{
	uint64		nunits = sf_units_of(content->length);
	bool		first = content->is_inline &&
	toast_get_compression_id(content->value) != TOAST_INVALID_COMPRESSION_ID;

	sample->length = content->length;
	sample->read_bytes = 0;
	sample->nunits = Min(nunits, MOST_UNITS);
	for (int i = 0; i < sample->nunits; i++)
		sample->unit_no[i] = first ? i : (2 * i + 1) * nunits / (2 * sample->nunits);
	SF_ASSERT(nunits == 0 || sample->unit_no[sample->nunits - 1] < nunits);
}

/* Is a unit a hole, which takes no space at any level? */
static bool
is_hole(const SfSqlContent *content, int64 start, int64 len)
{
	int64		data = start;

	if (content->is_inline || sf_read_form(content->value) != SF_FORM_STORED)
		return false;
	return !sf_read_next_data(content->value, &data, &len) || data > start;
}

static void
read_unit(const SfSqlContent *content, Sample *sample, int i)
{
	int64		start = sf_unit_start(sample->unit_no[i]);
	uint32		len = sf_unit_plain_bytes(content->length, sample->unit_no[i]);
	char	   *dst = sample->plain + i * SF_UNIT_SIZE;
	bytea	   *slice;

	SF_ASSERT(len > 0 && len <= SF_UNIT_SIZE);
	sample->read_bytes += len;
	sample->hole[i] = is_hole(content, start, len);
	if (sample->hole[i])
		return;
	if (!content->is_inline)
	{
		sf_read_range(content->value, start, len, dst);
		return;
	}
	slice = sfi_sql_slice(content, start, len);
	memcpy(dst, VARDATA(slice), len);
	pfree(slice);
}

/* An SfBaseStep: read the units of the value at hand, or throw. */
static void
read_value(void *arg)
{
	Estimate   *estimate = arg;
	SfSqlContent content = sfi_sql_open(estimate->value);

	choose_units(&content, &estimate->sample);
	for (int i = 0; i < estimate->sample.nunits; i++)
	{
		CHECK_FOR_INTERRUPTS();
		read_unit(&content, &estimate->sample, i);
	}
}

/* Does an error say that the data cannot be read, and not that the call cannot go on? */
static bool
is_about_data(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category == ERRCODE_TO_CATEGORY(ERRCODE_DATA_CORRUPTED) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_UNDEFINED_FILE);
}

/* Read the value at hand; false if it is damaged, which is counted. */
static bool
read_guarded(Estimate *estimate)
{
	ErrorData  *error = sf_base_guarded(read_value, estimate);
	Totals	   *totals = &estimate->totals;

	if (error == NULL)
		return true;
	if (!is_about_data(error))
		ReThrowError(error);
	if (totals->damaged++ == 0)
		totals->problem = MemoryContextStrdup(estimate->context, error->message);
	return false;
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

/* Decode what was just encoded, as a read does. */
static void
decode(Estimate *estimate, const SfUnit *unit, uint32 plain_bytes, LevelCost *cost)
{
	instr_time	start;

	SF_ASSERT(!sf_transform_is_raw(unit));
	INSTR_TIME_SET_CURRENT(start);
	if (sf_transform_decode(unit, estimate->coded, estimate->decoded, plain_bytes) != SF_DECODED)
		elog(ERROR, "could not decode a unit of codec %u", unit->flags);
	cost->decode_s += seconds_since(start);
	cost->compressed_units++;
}

/*
 * What is stored of a value that stays in the row in any case (pack.c): no sector is to
 * be saved, so it is compressed wherever an eighth is saved.
 */
static void
try_in_row(Estimate *estimate, SfCompression level, const char *plain, uint32 len, LevelCost *cost)
{
	const SfColumn column = {.permanent = true, .options = {.in_row = true, .compression = level}};
	const SfCodecOps *codec = sf_transform_codec(level);
	SfUnit		unit;
	instr_time	start;

	SF_ASSERT(len <= SF_IN_ROW_MAX);
	cost->stored_bytes = len;
	if (!sf_write_packs(&column, len))
		return;
	unit.flags = codec->id;
	INSTR_TIME_SET_CURRENT(start);
	unit.stored_bytes = sf_transform_encode_bytes(codec, level, plain, len, estimate->coded,
												  len - len / 8 - SF_PACKED_HEADER);
	cost->encode_s = seconds_since(start);
	cost->encoded_bytes = len;
	if (unit.stored_bytes == 0)
		return;
	cost->stored_bytes = SF_PACKED_HEADER + unit.stored_bytes;
	decode(estimate, &unit, len, cost);
}

/*
 * Bytes that an encoded unit takes: whole sectors of the segment, unless it is all of a
 * value, and goes to the row because it has become small enough (pack.c).
 */
static uint32
bytes_taken(const Estimate *estimate, const SfUnit *unit)
{
	if (estimate->in_row && estimate->sample.length <= SF_UNIT_SIZE &&
		!sf_transform_is_raw(unit) && SF_PACKED_HEADER + unit->stored_bytes <= SF_IN_ROW_MAX)
		return SF_PACKED_HEADER + unit->stored_bytes;
	return sf_sectors_to_bytes(sf_unit_sectors(unit));
}

/* Encode a unit as a store does. */
static void
try_unit(Estimate *estimate, SfEncoder *encoder, const char *plain, uint32 len, LevelCost *cost)
{
	SfUnit		unit;
	instr_time	start;

	CHECK_FOR_INTERRUPTS();
	INSTR_TIME_SET_CURRENT(start);
	(void) sf_transform_encode(encoder, plain, len, estimate->coded, &unit);
	cost->encode_s += seconds_since(start);
	cost->encoded_bytes += len;
	cost->stored_bytes += bytes_taken(estimate, &unit);
	if (!sf_transform_is_raw(&unit))
		decode(estimate, &unit, len, cost);
}

/*
 * Encode the units of a sample in order.  After a unit that did not gain, the encoder passes
 * over some units without a try.  Units between two of the sample are among these.
 */
static void
try_units(Estimate *estimate, SfCompression level, LevelCost *cost)
{
	const Sample *sample = &estimate->sample;
	uint64		next = 0;
	SfEncoder	encoder;

	sf_transform_begin(&encoder, level);
	for (int i = 0; i < sample->nunits; i++)
	{
		encoder.skip -= Min(encoder.skip, sample->unit_no[i] - next);
		next = sample->unit_no[i] + 1;
		if (!sample->hole[i])
			try_unit(estimate, &encoder, sample->plain + i * SF_UNIT_SIZE,
					 sf_unit_plain_bytes(sample->length, sample->unit_no[i]), cost);
	}
}

/* Add what a level makes of the value at hand to its sum. */
static void
try_level(Estimate *estimate, SfCompression level, LevelCost *sum)
{
	const Sample *sample = &estimate->sample;
	LevelCost	cost = {0};
	double		scale;

	if (sample->length == 0)
		return;
	if (estimate->in_row && sample->length <= SF_IN_ROW_MAX)
		try_in_row(estimate, level, sample->plain, sample->length, &cost);
	else
		try_units(estimate, level, &cost);
	scale = (double) sample->length / sample->read_bytes;
	SF_ASSERT(scale >= 1);
	sum->compressed_units += cost.compressed_units;
	sum->stored_bytes += scale * cost.stored_bytes;
	sum->encoded_bytes += scale * cost.encoded_bytes;
	sum->encode_s += scale * cost.encode_s;
	sum->decode_s += scale * cost.decode_s;
}

/* Is a level there in this build? */
static bool
has_level(int i)
{
	return levels[i].level == SF_COMPRESSION_NONE || sf_transform_codec(levels[i].level) != NULL;
}

/*
 * Try all levels on the value at hand.  The first value is tried twice: a codec makes its
 * tables when it is first used in a process, and that time is not one of this value.
 */
static void
count_value(Estimate *estimate)
{
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
	totals->units += estimate->sample.nunits;
	totals->plain_bytes += estimate->sample.length;
}

/* ---- the sample of rows ---- */

/*
 * Rows of the table and its children by the catalog; negative: not known.  ERROR when one
 * of them is a foreign table: all of its values would be fetched, and no option of the
 * column holds for them.
 */
static double
known_rows(Oid table_oid)
{
	double		nrows = 0;
	bool		known = true;
	ListCell   *cell;

	foreach(cell, find_all_inheritors(table_oid, AccessShareLock, NULL))
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_class form;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "could not find relation %u", lfirst_oid(cell));
		form = (Form_pg_class) GETSTRUCT(tuple);
		if (form->relkind == RELKIND_FOREIGN_TABLE)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is a foreign table", NameStr(form->relname)),
					 errdetail("Its values are stored elsewhere."),
					 errhint("Call the function for each of the other partitions or children.")));
		if (form->relkind == RELKIND_RELATION)
		{
			known = known && form->reltuples >= 0;
			nrows += form->reltuples;
		}
		ReleaseSysCache(tuple);
	}
	return known ? nrows : -1;
}

/* The part of the rows to look at, in per cent: so many that enough are hit by chance. */
static double
percentage(const Estimate *estimate)
{
	double		nrows = known_rows(RelationGetRelid(estimate->rel));
	double		wanted = 2.0 * estimate->sample_rows + 20;

	return nrows > wanted ? 100 * wanted / nrows : 100;
}

/*
 * The query of a sample.  All names have their schemas, the sampling method too, since the
 * search_path is the caller's.  More rows are looked at than wanted; their order is random,
 * so that rows at the end of the table are taken as often as others.
 */
static char *
sample_query(const Estimate *estimate, double percent)
{
	const char *schema = get_namespace_name(RelationGetNamespace(estimate->rel));
	const char *table = RelationGetRelationName(estimate->rel);
	const char *column = quote_identifier(estimate->column);

	SF_ASSERT(percent > 0 && percent <= 100);
	return psprintf("SELECT %s FROM %s TABLESAMPLE pg_catalog.bernoulli (%g)"
					" WHERE %s IS NOT NULL ORDER BY pg_catalog.random() LIMIT %d",
					column, quote_qualified_identifier(schema, table), percent, column,
					estimate->sample_rows);
}

/* The value in the row that the cursor has fetched. */
static void
take_row(Estimate *estimate)
{
	MemoryContext old = MemoryContextSwitchTo(estimate->value_context);
	bool		isnull;

	estimate->value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	SF_ASSERT(!isnull);
	if (read_guarded(estimate))
		count_value(estimate);
	MemoryContextSwitchTo(old);
	MemoryContextReset(estimate->value_context);
}

/*
 * Take a sample from so many per cent of the rows.  A cursor gives them one by one, so that
 * they are never all in memory.  The query runs with the caller's rights and row security,
 * and sees what the statement of the caller sees.
 */
static void
take_sample(Estimate *estimate, double percent)
{
	Portal		cursor = SPI_cursor_open_with_args(NULL, sample_query(estimate, percent), 0,
												   NULL, NULL, NULL, true, 0);

	estimate->totals = (Totals) {0};
	while (SPI_cursor_fetch(cursor, true, 1), SPI_processed > 0)
	{
		take_row(estimate);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(cursor);
}

/*
 * Sample the rows.  Where too few are hit, because the catalog's number of rows is old
 * or many values are null, all rows are looked at.
 */
static void
sample_table(Estimate *estimate)
{
	double		percent = percentage(estimate);
	const Totals *totals = &estimate->totals;

	take_sample(estimate, percent);
	if (percent < 100 && totals->values + totals->damaged < estimate->sample_rows)
		take_sample(estimate, 100);
	SF_ASSERT(totals->values + totals->damaged <= estimate->sample_rows);
	if (totals->damaged > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("%lld damaged values of column \"%s\" of table \"%s\" are not in the estimate",
						(long long) totals->damaged, estimate->column,
						RelationGetRelationName(estimate->rel)),
				 errdetail("The first one: %s.", totals->problem),
				 errhint("securefile_check() lists the damaged values of a column.")));
}

/* ---- the result ---- */

/* Millions of bytes a second; null when there is no time to divide by. */
static void
put_speed(Datum *value, bool *isnull, double bytes, double seconds)
{
	*isnull = seconds <= 0;
	if (seconds > 0)
		*value = Float8GetDatum(bytes / seconds / 1e6);
}

static void
put_level(ReturnSetInfo *rsinfo, const Totals *totals, int i)
{
	const LevelCost *cost = &totals->costs[i];
	Datum		values[COLUMNS] = {0};
	bool		nulls[COLUMNS] = {false};
	bool		plain = levels[i].level == SF_COMPRESSION_NONE;

	values[COLUMN_OPTION] = CStringGetTextDatum(levels[i].option);
	values[COLUMN_VALUES] = Int64GetDatum(totals->values);
	values[COLUMN_UNITS] = Int64GetDatum(totals->units);
	values[COLUMN_COMPRESSED_UNITS] = Int64GetDatum(cost->compressed_units);
	values[COLUMN_PLAIN_BYTES] = Int64GetDatum(totals->plain_bytes);
	values[COLUMN_STORED_BYTES] = Int64GetDatum((int64) (cost->stored_bytes + 0.5));
	nulls[COLUMN_RATIO] = cost->stored_bytes == 0;
	if (cost->stored_bytes > 0)
		values[COLUMN_RATIO] = Float8GetDatum(totals->plain_bytes / cost->stored_bytes);
	put_speed(&values[COLUMN_COMPRESS_SPEED], &nulls[COLUMN_COMPRESS_SPEED],
			  cost->encoded_bytes, plain ? 0 : cost->encode_s);
	put_speed(&values[COLUMN_DECOMPRESS_SPEED], &nulls[COLUMN_DECOMPRESS_SPEED],
			  cost->encoded_bytes, plain ? 0 : cost->decode_s);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * securefile_estimate(table regclass, column name, sample_rows integer)
 * returns setof (option text, sampled_values bigint, sampled_units bigint,
 *				  compressed_units bigint, plain_bytes bigint, stored_bytes bigint,
 *				  ratio float8, compress_mb_s float8, decompress_mb_s float8)
 */
Datum
securefile_estimate(PG_FUNCTION_ARGS)
{
	Estimate   *estimate;

	sf_base_require_preload();
	check_arguments(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	estimate = palloc0(sizeof(Estimate));
	estimate->context = CurrentMemoryContext;
	estimate->value_context = AllocSetContextCreate(CurrentMemoryContext, "securefile estimate",
													ALLOCSET_DEFAULT_SIZES);
	estimate->column = NameStr(*PG_GETARG_NAME(1));
	estimate->sample_rows = PG_GETARG_INT32(2);
	estimate->sample.plain = palloc(MOST_UNITS * SF_UNIT_SIZE);
	estimate->coded = palloc(SF_UNIT_SIZE);
	estimate->decoded = palloc(SF_UNIT_SIZE);
	open_table(estimate, PG_GETARG_OID(0));

	SPI_connect();
	sample_table(estimate);
	SPI_finish();
	table_close(estimate->rel, NoLock);
	for (int i = 0; i < LEVELS; i++)
		if (has_level(i))
			put_level((ReturnSetInfo *) fcinfo->resultinfo, &estimate->totals, i);
	return (Datum) 0;
}
