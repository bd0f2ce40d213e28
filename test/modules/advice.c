/*-------------------------------------------------------------------------
 *
 * advice.c
 *	  SQL functions that call those of the advice on duplicates (space/advice.c), and a
 *	  model that says what they must find.
 *
 * The library exports what they need where it is built with fault points.  For
 * test/t/deduplication/163_advice.pl.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "space/share_records.h"
#include "space/space.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(advice_add);
PG_FUNCTION_INFO_V1(advice_remove);
PG_FUNCTION_INFO_V1(advice_find);
PG_FUNCTION_INFO_V1(advice_fill);
PG_FUNCTION_INFO_V1(advice_lost);
PG_FUNCTION_INFO_V1(advice_against_model);

#define ATTNUM		4

static SfSegment *
open_to(Oid table_oid, LOCKMODE lockmode)
{
	return sf_space_open(table_oid, ATTNUM, lockmode, false);
}

/* ---- one entry ---- */

static SfAdvice
entry_of_arguments(FunctionCallInfo fcinfo)
{
	SfAdvice	entry;

	entry.key = PG_GETARG_INT64(1);
	entry.full = PG_GETARG_INT32(4) == SF_ADVICE_FULL ? entry.key : ~entry.key;
	entry.page = PG_GETARG_INT32(2);
	entry.cell = PG_GETARG_INT32(3);
	entry.reserved = 0;
	return entry;
}

/* advice_add(table oid, key bigint, page int, cell int, kind int) */
Datum
advice_add(PG_FUNCTION_ARGS)
{
	SfAdvice	entry = entry_of_arguments(fcinfo);
	SfAdvice	dropped;

	sf_space_advice_add(open_to(PG_GETARG_OID(0), RowExclusiveLock), &entry, &dropped);
	PG_RETURN_VOID();
}

/* advice_remove(table oid, key bigint, page int, cell int, kind int) */
Datum
advice_remove(PG_FUNCTION_ARGS)
{
	SfAdvice	entry = entry_of_arguments(fcinfo);

	sf_space_advice_remove(open_to(PG_GETARG_OID(0), RowExclusiveLock), &entry);
	PG_RETURN_VOID();
}

/* advice_find(table oid, key bigint, kind int) returns text: page.cell .. */
Datum
advice_find(PG_FUNCTION_ARGS)
{
	SfAdvice	found[SF_ADVICE_SAME_MAX];
	StringInfoData text;
	int			n = sf_space_advice_find(open_to(PG_GETARG_OID(0), AccessShareLock),
										 PG_GETARG_INT64(1), PG_GETARG_INT32(2), found);

	initStringInfo(&text);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%s%u.%u", i > 0 ? " " : "", found[i].page, found[i].cell);
	PG_RETURN_TEXT_P(cstring_to_text(text.data));
}

/* ---- many entries ---- */

/* Bits that depend on all of those of a number. */
static uint64
scramble(uint64 seed, uint64 i)
{
	return hash_bytes_uint32_extended((uint32) i, seed ^ hash_bytes_uint32_extended(i >> 32, 1));
}

/* Entry i of a series. */
static SfAdvice
entry_of(uint64 seed, uint64 i)
{
	uint64		other = scramble(seed + 1, i);
	uint64		key = scramble(seed, i);
	SfAdvice	entry = {key, i % 2 == 0 ? key : ~key};

	/* no number of a map page */
	entry.page = 2 + other % 6 + other / 6 % 1000 * 8;
	entry.cell = i % SF_SHARE_CELLS;
	return entry;
}

/*
 * advice_fill(table oid, seed bigint, first bigint, n bigint) returns float8: add entries
 * of a series, and say how many seconds that took.
 */
Datum
advice_fill(PG_FUNCTION_ARGS)
{
	SfSegment  *seg = open_to(PG_GETARG_OID(0), RowExclusiveLock);
	instr_time	began;
	instr_time	ended;

	INSTR_TIME_SET_CURRENT(began);
	for (int64 i = 0; i < PG_GETARG_INT64(3); i++)
	{
		SfAdvice	entry = entry_of(PG_GETARG_INT64(1), PG_GETARG_INT64(2) + i);
		SfAdvice	dropped;

		CHECK_FOR_INTERRUPTS();
		sf_space_advice_add(seg, &entry, &dropped);
	}
	INSTR_TIME_SET_CURRENT(ended);
	INSTR_TIME_SUBTRACT(ended, began);
	PG_RETURN_FLOAT8(INSTR_TIME_GET_DOUBLE(ended));
}

/* Does the segment have that entry? */
static bool
has(SfSegment *seg, const SfAdvice *entry)
{
	SfAdvice	found[SF_ADVICE_SAME_MAX];
	int			n = sf_space_advice_find(seg, entry->key, sf_advice_kind(entry), found);

	for (int i = 0; i < n; i++)
		if (memcmp(&found[i], entry, sizeof(*entry)) == 0)
			return true;
	return false;
}

/*
 * advice_lost(table oid, seed bigint, first bigint, n bigint) returns bigint: how many of these
 * entries are not found.
 */
Datum
advice_lost(PG_FUNCTION_ARGS)
{
	SfSegment  *seg = open_to(PG_GETARG_OID(0), AccessShareLock);
	int64		lost = 0;

	for (int64 i = 0; i < PG_GETARG_INT64(3); i++)
	{
		SfAdvice	entry = entry_of(PG_GETARG_INT64(1), PG_GETARG_INT64(2) + i);

		CHECK_FOR_INTERRUPTS();
		lost += !has(seg, &entry);
	}
	PG_RETURN_INT64(lost);
}

/* ---- the model ---- */

#define ROOM		334			/* of a bucket */
#define SAME		4			/* entries of one key and kind */
#define SPLITS_AT	250			/* three quarters */
#define DEPTH_MAX	32

typedef struct ModelBucket
{
	int			depth;
	int			n;
	SfAdvice	entries[ROOM];	/* the oldest one first */
} ModelBucket;

/*
 * Extendible hashing as the books have it: a directory of 2^depth places, of which several may have
 * the same bucket.  It does not become longer than 2^20.  A bucket of that depth that is split
 * has nobody beside it, since only keys of the same low bits come so far.
 */
#define DIRECTORY_MAX	20

typedef struct Model
{
	ModelBucket **directory;
	int			depth;
	uint32		nbuckets;
	int64		dropped;
} Model;

static Model *
model_new(void)
{
	Model	   *model = palloc0(sizeof(Model));

	model->directory = palloc(sizeof(ModelBucket *));
	model->directory[0] = palloc0(sizeof(ModelBucket));
	model->nbuckets = 1;
	return model;
}

static ModelBucket *
model_bucket(const Model *model, uint64 key)
{
	return model->directory[key % ((uint64) 1 << model->depth)];
}

static void
model_take_out(ModelBucket *bucket, int at)
{
	for (int i = at + 1; i < bucket->n; i++)
		bucket->entries[i - 1] = bucket->entries[i];
	bucket->n--;
}

static void
model_double(Model *model)
{
	Size		size = (Size) 1 << model->depth++;

	model->directory = repalloc_huge(model->directory, 2 * size * sizeof(ModelBucket *));
	memcpy(model->directory + size, model->directory, size * sizeof(ModelBucket *));
}

static void
model_split(Model *model, ModelBucket *from)
{
	ModelBucket *half;
	ModelBucket old = *from;

	if (from->depth == DEPTH_MAX)
		return;
	if (from->depth == model->depth && model->depth < DIRECTORY_MAX)
		model_double(model);
	half = palloc0(sizeof(ModelBucket));
	half->depth = ++from->depth;
	from->n = 0;
	for (int i = 0; i < old.n; i++)
	{
		ModelBucket *to = old.entries[i].key >> old.depth & 1 ? half : from;

		to->entries[to->n++] = old.entries[i];
	}
	model->nbuckets++;
	for (uint64 at = 0; old.depth < model->depth && at < (uint64) 1 << model->depth; at++)
		if (model->directory[at] == from && at >> old.depth & 1)
			model->directory[at] = half;
	if (old.depth >= model->depth && half->n > 0)
		elog(ERROR, "keys of the model have to be in a longer directory");
}

static void
model_add(Model *model, const SfAdvice *entry)
{
	ModelBucket *bucket = model_bucket(model, entry->key);
	int			same = 0;
	int			oldest = 0;

	for (int i = bucket->n - 1; i >= 0; i--)
	{
		if (memcmp(&bucket->entries[i], entry, sizeof(*entry)) == 0)
			return;
		if (bucket->entries[i].key == entry->key &&
			sf_advice_kind(&bucket->entries[i]) == sf_advice_kind(entry))
		{
			same++;
			oldest = i;
		}
	}
	if (same == SAME)
		model_take_out(bucket, oldest);
	else if (bucket->n == ROOM)
	{
		model->dropped++;
		model_take_out(bucket, 0);
	}
	bucket->entries[bucket->n++] = *entry;
	if (bucket->n >= SPLITS_AT)
		model_split(model, bucket);
}

static void
model_remove(Model *model, const SfAdvice *entry)
{
	ModelBucket *bucket = model_bucket(model, entry->key);

	for (int i = 0; i < bucket->n; i++)
		if (memcmp(&bucket->entries[i], entry, sizeof(*entry)) == 0)
		{
			model_take_out(bucket, i);
			return;
		}
}

/* Is what the segment has of a key and kind, in its order, what the model has? */
static bool
model_agrees(const Model *model, SfSegment *seg, const SfAdvice *entry)
{
	const ModelBucket *bucket = model_bucket(model, entry->key);
	SfAdvice	found[SF_ADVICE_SAME_MAX];
	int			n = sf_space_advice_find(seg, entry->key, sf_advice_kind(entry), found);
	int			seen = 0;

	for (int i = bucket->n - 1; i >= 0; i--)
		if (bucket->entries[i].key == entry->key &&
			sf_advice_kind(&bucket->entries[i]) == sf_advice_kind(entry))
		{
			if (seen == n || memcmp(&bucket->entries[i], &found[seen], sizeof(*entry)) != 0)
				return false;
			seen++;
		}
	return seen == n;
}

/*
 * The entry of step i, and whether that removes it.  Every tenth one, about, is of an earlier
 * step, half of these of the first 1000, and half are on another page.  cluster_every: one of
 * so many has a key whose low bits are 0, so that these never come apart; 0: none.  A key that
 * comes among these by chance is one of them: the directory of the model cannot tell them apart.
 */
static SfAdvice
entry_of_step(uint64 seed, uint64 i, uint64 cluster_every, bool *removes)
{
	uint64		lot = scramble(seed + 2, i);
	bool		again = lot % 10 == 0 && i > 0;
	uint64		earlier = lot / 64 % (lot / 32 % 2 == 0 ? Max(i, 1) : 1000);
	SfAdvice	entry = entry_of(seed, again ? Min(earlier, i) : i);

	*removes = again && lot / 10 % 4 == 0;
	if (again && lot / 10 % 2 == 1)
		entry.page += 8 * (1 + lot / 128 % 10);
	if (cluster_every > 0 && (entry.key % cluster_every == 0 ||
							  entry.key % ((uint64) 1 << DIRECTORY_MAX) == 0))
	{
		bool		is_full = sf_advice_kind(&entry) == SF_ADVICE_FULL;

		entry.key &= ~(uint64) PG_UINT32_MAX;
		entry.full = is_full ? entry.key : ~entry.key;
	}
	return entry;
}

/*
 * advice_against_model(table oid, seed bigint, n bigint, cluster_every int) returns text: add n
 * entries, some of them more than once, remove some; then look for each of them.  The
 * table has no advice before.
 */
Datum
advice_against_model(PG_FUNCTION_ARGS)
{
	SfSegment  *seg = open_to(PG_GETARG_OID(0), RowExclusiveLock);
	uint64		seed = PG_GETARG_INT64(1);
	int64		n = PG_GETARG_INT64(2);
	int			cluster_every = PG_GETARG_INT32(3);
	Model	   *model = model_new();
	int64		wrong = 0;
	int64		there = 0;
	bool		removes;

	for (int64 i = 0; i < n; i++)
	{
		SfAdvice	entry = entry_of_step(seed, i, cluster_every, &removes);
		SfAdvice	dropped;

		CHECK_FOR_INTERRUPTS();
		if (removes)
		{
			sf_space_advice_remove(seg, &entry);
			model_remove(model, &entry);
		}
		else
		{
			sf_space_advice_add(seg, &entry, &dropped);
			model_add(model, &entry);
		}
	}
	for (int64 i = 0; i < n; i++)
	{
		SfAdvice	entry = entry_of_step(seed, i, cluster_every, &removes);

		CHECK_FOR_INTERRUPTS();
		wrong += !model_agrees(model, seg, &entry);
	}
	for (uint64 at = 0; at < (uint64) 1 << model->depth; at++)
		if (at < (uint64) 1 << Min(model->directory[at]->depth, model->depth))
			there += model->directory[at]->n;
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("wrong " INT64_FORMAT ", entries " INT64_FORMAT
											  ", dropped " INT64_FORMAT ", buckets %u, load %.0f",
											  wrong, there, model->dropped, model->nbuckets,
											  100.0 * there / model->nbuckets / ROOM)));
}
