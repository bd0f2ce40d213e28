/*-------------------------------------------------------------------------
 *
 * duplicates.c
 *	  securefile_duplicates(): which values of a column are equal, and what deduplication
 *	  would save, before anybody turns it on (Oracle tells what it has saved, afterwards).
 *
 * Values are told by their SHA-256: one that is kept costs nothing, others are read.  What is
 * known of each value goes through a sort, which spills to disk beyond work_mem, so that
 * equal ones come one after the other.  Of values that share an object already one counts.
 *
 * The query runs with the caller's rights and row security, and sees what the statement of
 * the caller sees.  Nothing is written, so the function works on a standby, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/sha2.h"
#include "ddl/ddl.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "object/object.h"
#include "parser/parse_oper.h"
#include "read/read.h"
#include "sql/content.h"
#include "sql/sample.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

PG_FUNCTION_INFO_V1(securefile_duplicates);
extern Datum securefile_content_digest(PG_FUNCTION_ARGS);

/* What is known of a value: the columns of the sort, of which all but the last are keys. */
enum
{
	KEY_TABLE,
	KEY_DIGEST,
	KEY_LENGTH,
	KEY_OBJECT,
	STORED_BYTES,
	COLUMNS,
};

typedef struct Search
{
	SfSample	rows;			/* of which: all */
	Datum		value;			/* the one at hand, .. */
	Datum		found[COLUMNS]; /* .. and what is known of it */
	bool		is_stored;
	TupleDesc	desc;
	Tuplesortstate *sort;
} Search;

/* Equal values of one table, as they come out of the sort. */
typedef struct Equals
{
	Oid			table_oid;
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	int64		length;
	int64		copies;			/* 0: there is none yet */
	uint64		object_id;		/* of the last one */
	int64		stored_bytes;	/* of all objects, .. */
	int64		most_bytes;		/* .. and of the largest one, which stays */
} Equals;

/* ---- one value ---- */

/* An SfBaseStep: find out what is to be known of the value at hand, or throw. */
static void
look_at_value(void *arg)
{
	Search	   *search = arg;
	struct varlena *datum = PG_DETOAST_DATUM_PACKED(search->value);
	SfLocator	loc;

	search->is_stored = sf_read_form(datum) == SF_FORM_STORED &&
		sf_read_length(datum) > SF_IN_ROW_MAX;
	if (!search->is_stored)
		return;
	loc = sf_object_locator(datum);
	search->found[KEY_DIGEST] = DirectFunctionCall1(securefile_content_digest, search->value);
	search->found[KEY_LENGTH] = Int64GetDatum((int64) loc.length_bytes);
	search->found[KEY_OBJECT] = Int64GetDatum((int64) loc.object_id);
	search->found[STORED_BYTES] = Int64GetDatum(sfi_sql_stored_bytes(datum));
}

/* Put what is known of a value into the sort. */
static void
put_value(Search *search)
{
	bool		nulls[COLUMNS] = {false};
	TupleTableSlot *slot = MakeSingleTupleTableSlot(search->desc, &TTSOpsVirtual);

	ExecClearTuple(slot);
	memcpy(slot->tts_values, search->found, sizeof(search->found));
	memcpy(slot->tts_isnull, nulls, sizeof(nulls));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(search->sort, slot);
	ExecDropSingleTupleTableSlot(slot);
}

/* The row that the cursor has fetched. */
static void
take_row(Search *search)
{
	SPITupleTable *rows = SPI_tuptable;
	MemoryContext old = MemoryContextSwitchTo(search->rows.value_context);
	bool		isnull;

	CHECK_FOR_INTERRUPTS();
	search->found[KEY_TABLE] = SPI_getbinval(rows->vals[0], rows->tupdesc, 1, &isnull);
	search->value = SPI_getbinval(rows->vals[0], rows->tupdesc, 2, &isnull);
	SF_ASSERT(!isnull);
	if (sfi_sample_read(&search->rows, look_at_value) && search->is_stored)
		put_value(search);
	MemoryContextSwitchTo(old);
	MemoryContextReset(search->rows.value_context);
}

/* ---- all rows ---- */

static void
begin_sort(Search *search)
{
	static const Oid types[COLUMNS] = {OIDOID, BYTEAOID, INT8OID, INT8OID, INT8OID};
	AttrNumber	keys[] = {KEY_TABLE + 1, KEY_DIGEST + 1, KEY_LENGTH + 1, KEY_OBJECT + 1};
	Oid			operators[lengthof(keys)];
	Oid			collations[lengthof(keys)] = {InvalidOid};
	bool		nulls_first[lengthof(keys)] = {false};

	search->desc = CreateTemplateTupleDesc(COLUMNS);
	for (int i = 0; i < COLUMNS; i++)
		TupleDescInitEntry(search->desc, i + 1, NULL, types[i], -1, 0);
	for (int i = 0; i < lengthof(keys); i++)
		get_sort_group_operators(types[i], true, false, false, &operators[i], NULL, NULL, NULL);
	search->sort = tuplesort_begin_heap(search->desc, lengthof(keys), keys, operators, collations,
										nulls_first, work_mem, NULL, TUPLESORT_NONE);
}

/* All names have their schemas, since the search_path is the caller's. */
static char *
query_of(const Search *search)
{
	Relation	rel = search->rows.rel;
	const char *column = quote_identifier(search->rows.column);

	return psprintf("SELECT tableoid, %s FROM %s WHERE %s IS NOT NULL", column,
					quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
											   RelationGetRelationName(rel)),
					column);
}

/* Take all rows, by a cursor, so that they are never all in memory. */
static void
take_rows(Search *search)
{
	Portal		cursor;

	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	cursor = SPI_cursor_open_with_args(NULL, query_of(search), 0, NULL, NULL, NULL, true, 0);
	while (SPI_cursor_fetch(cursor, true, 1), SPI_processed > 0)
	{
		take_row(search);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(cursor);
	SPI_finish();
	PopActiveSnapshot();
}

/* ---- the result ---- */

/* A group is over: a row of the result, if it has more than one value. */
static void
put_group(ReturnSetInfo *rsinfo, const Equals *group)
{
	bytea	   *digest = palloc(VARHDRSZ + sizeof(group->digest));
	Datum		values[5];
	bool		nulls[5] = {false};

	if (group->copies < 2)
		return;
	SF_ASSERT(group->stored_bytes >= group->most_bytes);
	SET_VARSIZE(digest, VARHDRSZ + sizeof(group->digest));
	memcpy(VARDATA(digest), group->digest, sizeof(group->digest));
	values[0] = ObjectIdGetDatum(group->table_oid);
	values[1] = PointerGetDatum(digest);
	values[2] = Int64GetDatum(group->length);
	values[3] = Int64GetDatum(group->copies);
	values[4] = Int64GetDatum(group->stored_bytes - group->most_bytes);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	pfree(digest);
}

/* Is a value one of the group? */
static bool
belongs_to(const Equals *group, const Datum *values)
{
	const bytea *digest = DatumGetByteaPP(values[KEY_DIGEST]);

	return group->copies > 0 && group->table_oid == DatumGetObjectId(values[KEY_TABLE]) &&
		group->length == DatumGetInt64(values[KEY_LENGTH]) &&
		memcmp(group->digest, VARDATA_ANY(digest), sizeof(group->digest)) == 0;
}

/* Add a value; those of one object come one after the other. */
static void
add_to(Equals *group, const Datum *values)
{
	uint64		object_id = (uint64) DatumGetInt64(values[KEY_OBJECT]);
	int64		bytes = DatumGetInt64(values[STORED_BYTES]);

	if (group->copies++ > 0 && group->object_id == object_id)
		return;
	group->object_id = object_id;
	group->stored_bytes += bytes;
	group->most_bytes = Max(group->most_bytes, bytes);
}

/* A group that begins with a value. */
static Equals
begin_group(const Datum *values)
{
	Equals		group = {
		.table_oid = DatumGetObjectId(values[KEY_TABLE]),
		.length = DatumGetInt64(values[KEY_LENGTH])
	};
	const bytea *digest = DatumGetByteaPP(values[KEY_DIGEST]);

	SF_ASSERT(VARSIZE_ANY_EXHDR(digest) == sizeof(group.digest));
	memcpy(group.digest, VARDATA_ANY(digest), sizeof(group.digest));
	return group;
}

static void
put_groups(Search *search, ReturnSetInfo *rsinfo)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(search->desc, &TTSOpsMinimalTuple);
	Equals		group = {0};

	tuplesort_performsort(search->sort);
	while (tuplesort_gettupleslot(search->sort, true, false, slot, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (!belongs_to(&group, slot->tts_values))
		{
			put_group(rsinfo, &group);
			group = begin_group(slot->tts_values);
		}
		add_to(&group, slot->tts_values);
	}
	put_group(rsinfo, &group);
	ExecDropSingleTupleTableSlot(slot);
	tuplesort_end(search->sort);
}

/* ---- the function ---- */

/*
 * securefile_duplicates(table regclass, column name)
 * returns setof (relid oid, digest bytea, length_bytes bigint, copies bigint,
 *				  saves_bytes bigint)
 */
Datum
securefile_duplicates(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Search	   *search;

	sf_base_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	search = palloc0(sizeof(Search));
	search->rows.column = NameStr(*PG_GETARG_NAME(1));
	search->rows.arg = search;
	search->rows.context = CurrentMemoryContext;
	search->rows.value_context = AllocSetContextCreate(CurrentMemoryContext,
													   "securefile duplicates",
													   ALLOCSET_DEFAULT_SIZES);
	(void) sfi_sample_open(&search->rows, PG_GETARG_OID(0));
	begin_sort(search);
	take_rows(search);
	put_groups(search, rsinfo);
	sfi_sample_warn(&search->rows);
	table_close(search->rows.rel, NoLock);
	PG_RETURN_NULL();
}
