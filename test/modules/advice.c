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

	entry.hash = PG_GETARG_INT64(1);
	entry.page = PG_GETARG_INT32(2);
	entry.cell = PG_GETARG_INT32(3);
	entry.kind = PG_GETARG_INT32(4);
	return entry;
}

/* advice_add(table oid, hash bigint, page int, cell int, kind int) */
Datum
advice_add(PG_FUNCTION_ARGS)
{
	SfAdvice	entry = entry_of_arguments(fcinfo);

	sf_space_advice_add(open_to(PG_GETARG_OID(0), RowExclusiveLock), &entry);
	PG_RETURN_VOID();
}

/* advice_remove(table oid, hash bigint, page int, cell int, kind int) */
Datum
advice_remove(PG_FUNCTION_ARGS)
{
	SfAdvice	entry = entry_of_arguments(fcinfo);

	sf_space_advice_remove(open_to(PG_GETARG_OID(0), RowExclusiveLock), &entry);
	PG_RETURN_VOID();
}

/* advice_find(table oid, hash bigint, kind int) returns text: page.cell .. */
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
	SfAdvice	entry = {scramble(seed, i)};

	/* no number of a map page */
	entry.page = 2 + other % 6 + other / 6 % 1000 * 8;
	entry.cell = i % SF_SHARE_CELLS;
	entry.kind = 1 + i % 2;
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

		CHECK_FOR_INTERRUPTS();
		sf_space_advice_add(seg, &entry);
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
	int			n = sf_space_advice_find(seg, entry->hash, entry->kind, found);

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

#define ROOM		509			/* of a bucket */
#define SAME		4			/* entries of one hash and kind */
#define SPLITS_AT	381			/* three quarters */
#define LEAST		63			/* an eighth */

typedef struct ModelBucket
{
	int			n;
	SfAdvice	entries[ROOM];	/* the oldest one first */
} ModelBucket;

/* Linear hashing as the books have it: buckets before next have been split in this round. */
typedef struct Model
{
	ModelBucket **buckets;
	uint32		size;
	uint32		round;			/* buckets when the round began */
	uint32		next;
	int64		dropped;
} Model;

static void
model_new_bucket(Model *model, uint32 at)
{
	if (at == model->size)
	{
		model->size *= 2;
		model->buckets = repalloc_huge(model->buckets, model->size * sizeof(ModelBucket *));
	}
	model->buckets[at] = palloc0(sizeof(ModelBucket));
}

static Model *
model_new(void)
{
	Model	   *model = palloc0(sizeof(Model));

	model->size = 16;
	model->buckets = palloc(model->size * sizeof(ModelBucket *));
	model->round = 1;
	model_new_bucket(model, 0);
	return model;
}

static uint32
model_number(const Model *model, uint64 hash)
{
	uint32		number = hash % model->round;

	return number < model->next ? hash % (2 * model->round) : number;
}

static void
model_take_out(ModelBucket *bucket, int at)
{
	for (int i = at + 1; i < bucket->n; i++)
		bucket->entries[i - 1] = bucket->entries[i];
	bucket->n--;
}

static void
model_split(Model *model)
{
	ModelBucket *from = model->buckets[model->next];
	ModelBucket old;

	if (from->n < LEAST)
		return;
	model_new_bucket(model, model->round + model->next);
	old = *from;
	from->n = 0;
	model->next++;
	for (int i = 0; i < old.n; i++)
	{
		ModelBucket *to = model->buckets[model_number(model, old.entries[i].hash)];

		to->entries[to->n++] = old.entries[i];
	}
	if (model->next == model->round)
	{
		model->round *= 2;
		model->next = 0;
	}
}

static void
model_add(Model *model, const SfAdvice *entry)
{
	ModelBucket *bucket = model->buckets[model_number(model, entry->hash)];
	int			same = 0;
	int			oldest = 0;

	for (int i = bucket->n - 1; i >= 0; i--)
	{
		if (memcmp(&bucket->entries[i], entry, sizeof(*entry)) == 0)
			return;
		if (bucket->entries[i].hash == entry->hash && bucket->entries[i].kind == entry->kind)
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
		model_split(model);
}

static void
model_remove(Model *model, const SfAdvice *entry)
{
	ModelBucket *bucket = model->buckets[model_number(model, entry->hash)];

	for (int i = 0; i < bucket->n; i++)
		if (memcmp(&bucket->entries[i], entry, sizeof(*entry)) == 0)
		{
			model_take_out(bucket, i);
			return;
		}
}

/* Is what the segment has of a hash and kind, in its order, what the model has? */
static bool
model_agrees(const Model *model, SfSegment *seg, const SfAdvice *entry)
{
	const ModelBucket *bucket = model->buckets[model_number(model, entry->hash)];
	SfAdvice	found[SF_ADVICE_SAME_MAX];
	int			n = sf_space_advice_find(seg, entry->hash, entry->kind, found);
	int			seen = 0;

	for (int i = bucket->n - 1; i >= 0; i--)
		if (bucket->entries[i].hash == entry->hash && bucket->entries[i].kind == entry->kind)
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
 * so many has a hash whose low bits are 0, so that these never come apart; 0: none.
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
	if (cluster_every > 0 && entry.hash % cluster_every == 0)
		entry.hash &= ~(uint64) PG_UINT32_MAX;
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
	uint32		nbuckets;
	bool		removes;

	for (int64 i = 0; i < n; i++)
	{
		SfAdvice	entry = entry_of_step(seed, i, cluster_every, &removes);

		CHECK_FOR_INTERRUPTS();
		if (removes)
		{
			sf_space_advice_remove(seg, &entry);
			model_remove(model, &entry);
		}
		else
		{
			sf_space_advice_add(seg, &entry);
			model_add(model, &entry);
		}
	}
	for (int64 i = 0; i < n; i++)
	{
		SfAdvice	entry = entry_of_step(seed, i, cluster_every, &removes);

		CHECK_FOR_INTERRUPTS();
		wrong += !model_agrees(model, seg, &entry);
	}
	nbuckets = model->round + model->next;
	for (uint32 i = 0; i < nbuckets; i++)
		there += model->buckets[i]->n;
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("wrong " INT64_FORMAT ", entries " INT64_FORMAT
											  ", dropped " INT64_FORMAT ", buckets %u, load %.0f",
											  wrong, there, model->dropped, nbuckets,
											  100.0 * there / nbuckets / ROOM)));
}
