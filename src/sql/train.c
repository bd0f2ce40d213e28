/*-------------------------------------------------------------------------
 *
 * train.c
 *	  securefile_train(): a dictionary for a column of small values that are alike.
 *
 * Rows are taken at random.  Most of their values teach the library what they have in
 * common; every fifth is kept apart, and tells what the dictionary gains.  One that gains
 * too little is not stored, since each process would have to keep it.
 *
 * The library learns from all samples at once, in memory, and cannot be interrupted
 * meanwhile: hence the limits.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "ddl/ddl.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "object/object.h"
#include "read/read.h"
#include "space/dictionary_pages.h"
#include "sql/content.h"
#include "sql/sample.h"
#include "storage/lmgr.h"
#include "transform/transform.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_train);

#define LESSON_BYTES		(4 * 1024 * 1024)	/* to learn from */
#define TRIAL_BYTES			(1024 * 1024)	/* to try it with */
#define TRIAL_EVERY			5	/* one value in so many is one to try with */
#define LEAST_LESSONS		20

/* Values that lie one after the other. */
typedef struct Heap
{
	char	   *bytes;
	size_t	   *sizes;
	uint32		n;
	size_t		filled;
	size_t		room;
} Heap;

typedef struct Training
{
	SfSample	rows;
	SfColumn	column;
	bytea	   *content;		/* of the value at hand; NULL: it is of no use */
	Heap		lessons;
	Heap		trials;
} Training;

/* What the trials take, with a dictionary and without. */
typedef struct Outcome
{
	int64		plain_bytes;
	int64		packed_bytes;
	int64		trained_bytes;
} Outcome;

/* ---- arguments ---- */

static void
require_codec(void)
{
	if (!sf_transform_can_train())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dictionaries are not supported by this build"),
				 errhint("They need a build with zstd.")));
}

static void
refuse_use(const Training *training, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column \"%s\" of table \"%s\" does not use dictionaries",
					training->rows.column, RelationGetRelationName(training->rows.rel)),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* Does the column use a dictionary, and can it have one? */
static void
require_use(const Training *training)
{
	const char *table = RelationGetRelationName(training->rows.rel);
	const SfColumn *column = &training->column;

	if (training->rows.rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is a partitioned table", table),
				 errdetail("Each partition has a segment, and dictionaries, of its own."),
				 errhint("Call the function for each of the partitions.")));
	if (training->rows.rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no segments, which hold dictionaries", table),
				 errdetail("Temporary and unlogged tables keep all values in their rows.")));
	if (!sf_transform_is_trainable(column->options.compression))
		refuse_use(training, "Dictionaries are used by compress_medium and compress_high.",
				   "Change the option with ALTER TABLE .. ALTER COLUMN .. TYPE first.");
	if (!column->options.in_row)
		refuse_use(training,
				   "Dictionaries are for small values in their rows, and the column has disable_storage_in_row.",
				   "Change the option of the column to enable_storage_in_row first.");
	if (sf_config_encrypts(column))
		refuse_use(training, "Dictionaries have parts of values, and are not encrypted.", NULL);
}

/* ---- the sample ---- */

/* Is a value encrypted?  The column may have been another one when it was stored. */
static bool
is_secret(const SfSqlContent *content)
{
	return !sfi_sql_is_inline(content) && sf_read_key_id(content->value.datum) != 0;
}

/*
 * An SfBaseStep: read the value at hand, if it is of a length that is compressed in rows.  The
 * dictionary will have parts of it, as they are.
 */
static void
read_short_value(void *arg)
{
	Training   *training = arg;
	SfSqlContent content;

	sfi_sql_open(training->rows.value, &content);
	training->content = NULL;
	if (sf_write_packs(&training->column, content.length) && !is_secret(&content))
		training->content = sfi_sql_slice(&content, 0, content.length);
}

/* Add a value, as long as there is room for it. */
static void
add_value(Heap *heap, const bytea *value)
{
	size_t		len = VARSIZE_ANY_EXHDR(value);

	if (heap->filled + len > heap->room)
		return;
	memcpy(heap->bytes + heap->filled, VARDATA_ANY(value), len);
	heap->filled += len;
	heap->sizes[heap->n++] = len;
}

/* An SfBaseStep: put the value where it belongs. */
static void
sort_value(void *arg)
{
	Training   *training = arg;
	bool		is_trial = training->rows.taken % TRIAL_EVERY == TRIAL_EVERY - 1;

	/* each value once: the lists of sizes have room for all */
	SF_ASSERT(training->lessons.n + training->trials.n <= training->rows.taken &&
			  training->rows.taken < training->rows.rows);
	if (training->content != NULL)
		add_value(is_trial ? &training->trials : &training->lessons, training->content);
}

static Heap
make_heap(size_t room, int most)
{
	return (Heap) {.bytes = palloc(room), .sizes = palloc(most * sizeof(size_t)), .room = room};
}

/* ---- what is learnt, and what it gains ---- */

/* Bytes that a value takes in its row, behind the form, when it is encoded so. */
static uint32
bytes_in_row(const SfEncoder *encoder, uint32 header, const char *plain, uint32 len, char *room)
{
	uint32		stored = sf_transform_encode_bytes(encoder, encoder->level, plain, len, room,
												   sf_transform_room_in_row(len, header));

	return stored > 0 ? header + stored : len;
}

/* Encode all trials with a dictionary and without. */
static Outcome
try_dictionary(const Training *training, SfDictionary *dictionary)
{
	SfCompression level = training->column.options.compression;
	const Heap *trials = &training->trials;
	const char *plain = trials->bytes;
	char	   *room = palloc(SF_UNIT_SIZE);
	Outcome		outcome = {0};
	SfEncoder	without;
	SfEncoder	with;

	sf_transform_begin(&without, level, NULL);
	sf_transform_begin(&with, level, dictionary);
	for (uint32 i = 0; i < trials->n; i++)
	{
		uint32		len = (uint32) trials->sizes[i];

		CHECK_FOR_INTERRUPTS();
		outcome.plain_bytes += len;
		outcome.packed_bytes += bytes_in_row(&without, SF_PACKED_HEADER, plain, len, room);
		outcome.trained_bytes += bytes_in_row(&with, SF_TRAINED_HEADER, plain, len, room);
		plain += len;
	}
	pfree(room);
	return outcome;
}

/* Learn from the lessons; returns the length of the dictionary.  ERROR when they are few. */
static uint32
learn(const Training *training, char *bytes)
{
	const Heap *lessons = &training->lessons;
	uint32		len = 0;

	if (lessons->n >= LEAST_LESSONS && training->trials.n > 0)
		len = sf_transform_train(lessons->bytes, lessons->sizes, lessons->n, bytes,
								 SF_DICTIONARY_MAX_BYTES);
	if (len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("too little to learn from in column \"%s\" of table \"%s\"",
						training->rows.column, RelationGetRelationName(training->rows.rel)),
				 errdetail("%u of %lld sampled values have 64 bytes to 128 kB, %zu bytes together.",
						   lessons->n + training->trials.n, (long long) training->rows.taken,
						   lessons->filled + training->trials.filled),
				 errhint("Some hundred values are needed, of some hundred bytes each. Call the function when the table has more rows, or with more sample_rows; rows that row security hides from you are not sampled.")));
	SF_ASSERT(len <= SF_DICTIONARY_MAX_BYTES);
	return len;
}

/* Does the dictionary save an eighth of what compressed values take without it? */
static Outcome
judge(const Training *training, const char *bytes, uint32 len, bool *gains)
{
	char	   *copy = memcpy(palloc(len), bytes, len);
	SfDictionary *dictionary;
	Outcome		outcome;

	sf_transform_number_dictionary(copy, 1);
	dictionary = sf_transform_dictionary_new(copy, len);
	if (dictionary == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	PG_TRY();
	{
		outcome = try_dictionary(training, dictionary);
	}
	PG_FINALLY();
	{
		sf_transform_dictionary_free(dictionary);
	}
	PG_END_TRY();
	*gains = outcome.trained_bytes <= outcome.packed_bytes - outcome.packed_bytes / 8;
	return outcome;
}

/* Store the dictionary, and have all sessions look for it. */
static uint32
publish(const Training *training, char *bytes, uint32 len)
{
	SfSegment  *seg = sf_space_open(training->column.table_oid, training->column.attnum,
									RowExclusiveLock, false);
	uint32		number = sf_space_add_dictionary(seg, &(SfDictionaryBytes) {bytes, len});

	/* 0 would say that there is none */
	SF_ASSERT(number > 0);
	CacheInvalidateRelcache(training->rows.rel);
	return number;
}

/* ---- the function ---- */

static Training *
begin_training(FunctionCallInfo fcinfo)
{
	Training   *training = palloc0(sizeof(Training));

	sfi_sample_begin(&training->rows, fcinfo, LEAST_LESSONS, 10000);
	training->rows.only = true; /* children have dictionaries of their own */
	training->lessons = make_heap(LESSON_BYTES, training->rows.rows);
	training->trials = make_heap(TRIAL_BYTES, training->rows.rows);
	return training;
}

static Datum
result_row(FunctionCallInfo fcinfo, const Training *training, uint32 number, uint32 len,
		   Outcome outcome)
{
	Datum		values[] = {
		Int32GetDatum(number),
		Int32GetDatum(len),
		Int64GetDatum(training->lessons.n + training->trials.n),
		Int64GetDatum(outcome.plain_bytes),
		Int64GetDatum(outcome.packed_bytes),
		Int64GetDatum(outcome.trained_bytes)
	};
	bool		nulls[lengthof(values)] = {number == 0};

	return sf_base_row(fcinfo, values, nulls);
}

/*
 * securefile_train(table regclass, column name, sample_rows integer)
 * returns (dictionary integer, dictionary_bytes integer, sampled_values bigint,
 *			plain_bytes bigint, stored_bytes bigint, trained_bytes bigint)
 */
Datum
securefile_train(PG_FUNCTION_ARGS)
{
	char	   *bytes = palloc(SF_DICTIONARY_MAX_BYTES);
	Training   *training;
	Outcome		outcome;
	uint32		number = 0;
	uint32		len;
	bool		gains;
	AttrNumber	attnum;

	sf_base_require_writes("securefile_train()");
	sf_base_require_preload();
	training = begin_training(fcinfo);
	require_codec();
	attnum = sfi_sample_open(&training->rows, PG_GETARG_OID(0), true);
	training->column = sf_ddl_describe(PG_GETARG_OID(0), attnum);
	require_use(training);

	sfi_sample_take(&training->rows, read_short_value, sort_value, training);
	len = learn(training, bytes);
	outcome = judge(training, bytes, len, &gains);
	if (gains)
		number = publish(training, bytes, len);
	else
		ereport(NOTICE,
				(errmsg("no dictionary is stored for column \"%s\" of table \"%s\"",
						training->rows.column, RelationGetRelationName(training->rows.rel)),
				 errdetail("It would not save an eighth of what the compressed values take.")));
	table_close(training->rows.rel, NoLock);
	PG_RETURN_DATUM(result_row(fcinfo, training, number, len, outcome));
}
