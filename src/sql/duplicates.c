/*-------------------------------------------------------------------------
 *
 * duplicates.c
 *	  securefile_duplicates(): which values of a column are equal, and what deduplication
 *	  would save, before anybody turns it on (Oracle: DBMS_SECUREFILES tells a ratio).
 *
 *	 rows --> what is known of each value --> sort: equal ones come one after the other
 *		  --> groups --> sort: what saves most comes first --> result
 *
 * Values are told by their SHA-256: one that is kept costs nothing, others are read.  Of values
 * that share an object already one counts.
 *
 * Both sorts spill to disk beyond work_mem.  The first one has hidden digests only.
 * The second one, and the result, have those that more than one value has, as they are:  if
 * any value was encrypted, these stay in memory.
 *
 * The query runs with the caller's rights and row security.  All rows are of one snapshot,
 * which is taken under the lock, as for a SELECT: a transaction that had the lock before may
 * have written all rows anew.  Nothing is written, so the function works on a standby, too.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/sha2.h"
#include "ddl/ddl.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "object/object.h"
#include "parser/parse_oper.h"
#include "read/read.h"
#include "space/share_records.h"
#include "sql/content.h"
#include "sql/sample.h"
#include "stream/stream.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(securefile_duplicates);
extern Datum securefile_content_digest(PG_FUNCTION_ARGS);

/* ---- digests in a form that may get to temporary files, and tells nobody of the contents ---- */

/*
 * A digest confirms a guess.  So what is sorted, and spills to disk, is the digest under a
 * key that is new with each call and never leaves its memory.  Equal digests have equal forms,
 * and the call gets the digest back.
 *
 *	 form = tag, digest XOR stream
 *	 tag = BLAKE2b of the digest, with the first half of the key
 *	 stream = XChaCha20 with the other half, and the tag as nonce
 */

#define HIDDEN_TAG_BYTES	24
#define HIDDEN_BYTES		(HIDDEN_TAG_BYTES + PG_SHA256_DIGEST_LENGTH)

/* Of one call.  It must not leave the memory of the process. */
typedef struct HidingKey
{
	uint8		tag[32];
	uint8		stream[32];
} HidingKey;

StaticAssertDecl(sizeof(((HidingKey *) 0)->tag) >= crypto_generichash_blake2b_KEYBYTES,
				 "BLAKE2b takes such a key");
StaticAssertDecl(sizeof(((HidingKey *) 0)->stream) == crypto_stream_xchacha20_KEYBYTES,
				 "XChaCha20 has such a key");
StaticAssertDecl(HIDDEN_TAG_BYTES == crypto_stream_xchacha20_NONCEBYTES, "the tag is a nonce");

/* A new key.  ERROR INTERNAL_ERROR when there are no random numbers. */
static void
make_hiding_key(HidingKey *key)
{
	if (sodium_init() < 0 || !pg_strong_random(key, sizeof(HidingKey)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random key")));
}

/* Hide a SHA-256: the same bytes for the same digest and key. */
static void
hide(const HidingKey *key, const uint8 *digest, uint8 *hidden)
{
	(void) crypto_generichash_blake2b(hidden, HIDDEN_TAG_BYTES, digest, PG_SHA256_DIGEST_LENGTH,
									  key->tag, sizeof(key->tag));
	(void) crypto_stream_xchacha20_xor(hidden + HIDDEN_TAG_BYTES, digest,
									   PG_SHA256_DIGEST_LENGTH, hidden, key->stream);
}

/* Get it back. */
static void
reveal(const HidingKey *key, const uint8 *hidden, uint8 *digest)
{
	(void) crypto_stream_xchacha20_xor(digest, hidden + HIDDEN_TAG_BYTES,
									   PG_SHA256_DIGEST_LENGTH, hidden, key->stream);
}

/* ---- what is searched ---- */

/* What is known of a value: the columns of the sort, of which all but the last are keys. */
enum
{
	KEY_TABLE,
	KEY_DIGEST,
	KEY_LENGTH,
	KEY_OBJECT,
	OWN_BYTES,
	COLUMNS,
};

/* The columns of the result. */
enum
{
	RESULT_TABLE,
	RESULT_DIGEST,
	RESULT_LENGTH,
	RESULT_COPIES,
	RESULT_SAVES,
	RESULT_COLUMNS,
};

typedef struct Search
{
	SfSample	rows;			/* of which: all */
	Datum		found[COLUMNS]; /* what is known of the value at hand */
	bool		counts;			/* it could be shared */
	bool		secret;			/* one that counts is encrypted */
	HidingKey	key;
	TupleDesc	desc;
	Tuplesortstate *values;
	ReturnSetInfo *result;
	Tuplesortstate *groups;
} Search;

/* A column to sort by. */
typedef struct SortKey
{
	AttrNumber	column;
	bool		descending;
} SortKey;

/* Equal values of one table, as they come out of the sort. */
typedef struct Equals
{
	Oid			table_oid;
	uint8		hidden[HIDDEN_BYTES];	/* digest */
	int64		length;
	int64		copies;			/* 0: there is none yet */
	uint64		object_id;		/* of the last one */
	int64		own_bytes;		/* of all objects, .. */
	int64		most_bytes;		/* .. and of the largest one, which stays */
} Equals;

/* ---- sorts ---- */

static Tuplesortstate *
begin_sort(TupleDesc desc, const SortKey *keys, int nkeys, int memory_kb)
{
	AttrNumber	columns[COLUMNS];
	Oid			operators[COLUMNS];
	Oid			collations[COLUMNS] = {InvalidOid};
	bool		nulls_first[COLUMNS] = {false};

	SF_ASSERT(nkeys > 0 && nkeys <= COLUMNS);
	for (int i = 0; i < nkeys; i++)
	{
		Oid			type = TupleDescAttr(desc, keys[i].column - 1)->atttypid;
		Oid			less;
		Oid			more;

		get_sort_group_operators(type, true, false, true, &less, NULL, &more, NULL);
		columns[i] = keys[i].column;
		operators[i] = keys[i].descending ? more : less;
	}
	return tuplesort_begin_heap(desc, nkeys, columns, operators, collations, nulls_first,
								memory_kb, NULL, TUPLESORT_NONE);
}

/* Put a row without nulls into a sort. */
static void
put_row(Tuplesortstate *sort, TupleDesc desc, const Datum *values)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);

	ExecClearTuple(slot);
	memcpy(slot->tts_values, values, desc->natts * sizeof(Datum));
	memset(slot->tts_isnull, 0, desc->natts * sizeof(bool));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sort, slot);
	ExecDropSingleTupleTableSlot(slot);
}

/* ---- one value ---- */

/*
 * The number of what takes the space of a value, which nothing else in the segment has.  A
 * version of a shared object has the id of that, but units that no other row has: its
 * reference tells it from others.
 */
static uint64
number_of(const SfLocator *loc)
{
	return sf_object_is_version(loc) ? loc->share.reference_id : loc->object_id;
}

/* Bytes that a value takes in its segment, in whole sectors: of a version, its own units. */
static int64
own_bytes(const SfLocator *loc)
{
	SfSegment  *seg = sf_object_open(loc);
	SfShareVersion shared;
	SfOwned		owned;

	if (sf_object_is_version(loc))
		sf_object_shared_base(seg, loc, &shared);
	owned = sf_object_difference(seg, loc, NULL, sf_object_is_version(loc) ? &shared.loc : NULL);
	sf_space_release(seg);
	return (int64) sf_sectors_to_bytes(sf_space_owned_sectors(&owned));
}

/* The digest of a value as it may get to disk. */
static Datum
hidden_digest(const HidingKey *key, Datum value)
{
	bytea	   *digest = DatumGetByteaPP(DirectFunctionCall1(securefile_content_digest, value));
	bytea	   *hidden = sfi_sql_new_bytea(HIDDEN_BYTES);

	SF_ASSERT(VARSIZE_ANY_EXHDR(digest) == PG_SHA256_DIGEST_LENGTH);
	hide(key, (const uint8 *) VARDATA_ANY(digest), (uint8 *) VARDATA(hidden));
	/* memory that is used again may get to disk as padding */
	explicit_bzero(VARDATA_ANY(digest), PG_SHA256_DIGEST_LENGTH);
	return PointerGetDatum(hidden);
}

/*
 * An SfBaseStep: find out what is to be known of the value at hand, or throw.  Its table
 * stands in its locator.  A query for tableoid would need a privilege for the whole table.
 */
static void
look_at_value(void *arg)
{
	Search	   *search = arg;
	struct varlena *datum = sf_base_detoast_short(search->rows.value, SF_LOCATOR_MAX_SIZE);
	SfLocator	loc;

	/* deduplication looks for no other ones */
	search->counts = datum != NULL && sf_read_form(datum) == SF_FORM_STORED &&
		!sf_stream_is_too_sparse(datum);
	if (!search->counts)
		return;
	loc = sf_object_locator(datum);
	search->found[KEY_TABLE] = ObjectIdGetDatum(loc.table_oid);
	search->found[KEY_DIGEST] = hidden_digest(&search->key, search->rows.value);
	search->found[KEY_LENGTH] = Int64GetDatum((int64) sf_locator_value_bytes(&loc));
	search->found[KEY_OBJECT] = Int64GetDatum((int64) number_of(&loc));
	search->found[OWN_BYTES] = Int64GetDatum(own_bytes(&loc));
	search->secret |= loc.key_id != 0;
}

/* An SfBaseStep. */
static void
put_value(void *arg)
{
	Search	   *search = arg;

	if (search->counts)
		put_row(search->values, search->desc, search->found);
}

static void
begin_values(Search *search)
{
	static const Oid types[COLUMNS] = {OIDOID, BYTEAOID, INT8OID, INT8OID, INT8OID};
	static const SortKey keys[] = {
		{KEY_TABLE + 1}, {KEY_DIGEST + 1}, {KEY_LENGTH + 1}, {KEY_OBJECT + 1}
	};

	search->desc = CreateTemplateTupleDesc(COLUMNS);
	for (int i = 0; i < COLUMNS; i++)
		TupleDescInitEntry(search->desc, i + 1, NULL, types[i], -1, 0);
	search->values = begin_sort(search->desc, keys, lengthof(keys), work_mem);
}

/* ---- the result ---- */

/* kB for what has digests as they are. */
static int
memory_of_result(const Search *search)
{
	return search->secret ? MAX_KILOBYTES : work_mem;
}

static void
begin_groups(Search *search)
{
	static const SortKey keys[] = {
		{RESULT_SAVES + 1, true}, {RESULT_TABLE + 1}, {RESULT_DIGEST + 1}
	};

	SF_ASSERT(search->result->setDesc->natts == RESULT_COLUMNS);
	search->groups = begin_sort(search->result->setDesc, keys, lengthof(keys),
								memory_of_result(search));
}

/* A group is over: a row of the result, if it has more than one value. */
static void
put_group(Search *search, const Equals *group)
{
	bytea	   *digest;
	Datum		values[RESULT_COLUMNS];

	if (group->copies < 2)
		return;
	SF_ASSERT(group->own_bytes >= group->most_bytes);
	digest = sfi_sql_new_bytea(PG_SHA256_DIGEST_LENGTH);
	reveal(&search->key, group->hidden, (uint8 *) VARDATA(digest));
	values[RESULT_TABLE] = ObjectIdGetDatum(group->table_oid);
	values[RESULT_DIGEST] = PointerGetDatum(digest);
	values[RESULT_LENGTH] = Int64GetDatum(group->length);
	values[RESULT_COPIES] = Int64GetDatum(group->copies);
	values[RESULT_SAVES] = Int64GetDatum(group->own_bytes - group->most_bytes);
	put_row(search->groups, search->result->setDesc, values);
	pfree(digest);
}

/* Is a value one of the group? */
static bool
belongs_to(const Equals *group, const Datum *values)
{
	const bytea *hidden = DatumGetByteaPP(values[KEY_DIGEST]);

	return group->copies > 0 && group->table_oid == DatumGetObjectId(values[KEY_TABLE]) &&
		group->length == DatumGetInt64(values[KEY_LENGTH]) &&
		memcmp(group->hidden, VARDATA_ANY(hidden), sizeof(group->hidden)) == 0;
}

/* Add a value; those of one object come one after the other. */
static void
add_to(Equals *group, const Datum *values)
{
	uint64		object_id = (uint64) DatumGetInt64(values[KEY_OBJECT]);
	int64		bytes = DatumGetInt64(values[OWN_BYTES]);

	SF_ASSERT(group->copies == 0 || object_id >= group->object_id);
	if (group->copies++ > 0 && group->object_id == object_id)
		return;
	group->object_id = object_id;
	group->own_bytes += bytes;
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
	const bytea *hidden = DatumGetByteaPP(values[KEY_DIGEST]);

	SF_ASSERT(VARSIZE_ANY_EXHDR(hidden) == sizeof(group.hidden));
	memcpy(group.hidden, VARDATA_ANY(hidden), sizeof(group.hidden));
	return group;
}

static void
put_groups(Search *search)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(search->desc, &TTSOpsMinimalTuple);
	Equals		group = {0};

	begin_groups(search);
	tuplesort_performsort(search->values);
	while (tuplesort_gettupleslot(search->values, true, false, slot, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (!belongs_to(&group, slot->tts_values))
		{
			put_group(search, &group);
			group = begin_group(slot->tts_values);
		}
		add_to(&group, slot->tts_values);
	}
	put_group(search, &group);
	ExecDropSingleTupleTableSlot(slot);
	tuplesort_end(search->values);
}

/* A result that has not got a row yet, with memory enough for all of them. */
static void
keep_in_memory(ReturnSetInfo *result)
{
	bool		random = (result->allowedModes & SFRM_Materialize_Random) != 0;
	MemoryContext old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);

	/* digests as they are must not have got to its file */
	SF_ASSERT(tuplestore_tuple_count(result->setResult) == 0);
	tuplestore_end(result->setResult);
	result->setResult = tuplestore_begin_heap(random, false, MAX_KILOBYTES);
	MemoryContextSwitchTo(old);
}

/* Groups that save most come first. */
static void
put_result(Search *search)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(search->result->setDesc, &TTSOpsMinimalTuple);

	if (search->secret)
		keep_in_memory(search->result);
	tuplesort_performsort(search->groups);
	while (tuplesort_gettupleslot(search->groups, true, false, slot, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		tuplestore_puttupleslot(search->result->setResult, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	tuplesort_end(search->groups);
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
	Search	   *search;

	sf_base_require_preload();
	InitMaterializedSRF(fcinfo, 0);
	search = palloc0(sizeof(Search));
	search->result = (ReturnSetInfo *) fcinfo->resultinfo;
	make_hiding_key(&search->key);
	sfi_sample_begin(&search->rows, fcinfo, 0, 0);
	(void) sfi_sample_open(&search->rows, PG_GETARG_OID(0), false);
	begin_values(search);
	sfi_sample_take(&search->rows, look_at_value, put_value, search);
	put_groups(search);
	put_result(search);
	table_close(search->rows.rel, NoLock);
	return (Datum) 0;
}
