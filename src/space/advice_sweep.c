/*-------------------------------------------------------------------------
 *
 * advice_sweep.c
 *	  Advice on share records: how others find them, and what is left of those that are gone.
 *
 * A record that is gone leaves its entries behind, for nobody looks for them then.  So a bucket
 * that comes to three quarters is swept: entries that lead nowhere are taken out.  It is split
 * only if more than half of them stay.  Where none of a few entries is stale, as while a table
 * is loaded, the others are not looked at.
 *
 *		 entries	 |================|-----------------|.........|
 *					 0			 half			   3/4			full
 *					 after a sweep: stays | is split	^ swept
 *
 * The entries are looked at in a copy of the bucket, with no page locked: what they lead to,
 * share pages, comes before it in the order of locks.  Meanwhile others may take entries out, or
 * add them.  The same entry may even come again, for a new record in the same place, and is
 * taken out then: an entry may be lost.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/space_internal.h"

/* So many entries, at least, are looked at before all of them are. */
#define LOOKS_FIRST		16

/* ---- sweeping a bucket ---- */

typedef struct Sweep
{
	SfSegment  *seg;
	int			nleft;
	SfAdviceBucket bucket;		/* as it was before */
} Sweep;

static bool
is_stale(SfSegment *seg, const SfAdvice *advice)
{
	SfShareCopy copy;
	SfShareId	id;

	return !sf_space_share_follow(seg, advice, &id, &copy);
}

/* Is one of a few entries stale? */
static bool
is_worth_it(const Sweep *sweep)
{
	const int	step = Max(sweep->bucket.nentries / LOOKS_FIRST, 1);

	SF_ASSERT(sweep->nleft == sweep->bucket.nentries);
	SF_ASSERT(sweep->bucket.nentries <= SF_ADVICE_BUCKET_MAX);
	for (int i = 0; i < sweep->bucket.nentries; i += step)
		if (is_stale(sweep->seg, &sweep->bucket.entries[i]))
			return true;
	return false;
}

/* An SfBaseStep. */
static void
take_stale_out(void *arg)
{
	Sweep	   *sweep = arg;

	if (!is_worth_it(sweep))
		return;
	for (int i = 0; i < sweep->bucket.nentries; i++)
	{
		if (!is_stale(sweep->seg, &sweep->bucket.entries[i]))
			continue;
		sf_space_advice_remove(sweep->seg, &sweep->bucket.entries[i]);
		sweep->nleft--;
	}
	SF_ASSERT(sweep->nleft >= 0);
}

/*
 * Take stale entries out of the bucket of a key; returns how many are left.  What an entry
 * leads to may be damaged.  That is of no concern to a session that has another content to
 * store, and only ends the sweep.
 */
static int
sweep_bucket(SfSegment *seg, uint64 key)
{
	Sweep	   *sweep = palloc(sizeof(Sweep));
	int			nleft = 0;

	sweep->seg = seg;
	if (sfi_advice_copy(seg, key, &sweep->bucket))
	{
		sweep->nleft = sweep->bucket.nentries;
		(void) sf_base_succeeds(take_stale_out, sweep);
		nleft = sweep->nleft;
	}
	pfree(sweep);
	return nleft;
}

/* ---- advice on a record ---- */

bool
sf_space_share_follow(SfSegment *seg, const SfAdvice *advice, SfShareId *id, SfShareCopy *copy)
{
	uint64		full;

	SF_ASSERT(sf_format_advice_problem(advice) == NULL);
	*id = (SfShareId) {advice->page, advice->cell, 0};
	if (!sf_space_share_read(seg, *id, copy))
		return false;
	id->low_id = (uint16) copy->record.object_id;
	memcpy(&full, copy->record.hash, sizeof(full));
	return full == advice->full &&
		(sf_advice_kind(advice) == SF_ADVICE_FULL || copy->record.prefix_hash == advice->key);
}

static void
add(SfSegment *seg, const SfAdvice *advice, SfAdvice *dropped)
{
	if (sf_space_advice_add(seg, advice, dropped) == SFI_ADVICE_SWEEP_AT &&
		sweep_bucket(seg, advice->key) > SFI_ADVICE_SWEEP_AT / 2)
		sfi_advice_split(seg, advice->key, SFI_ADVICE_SWEEP_AT / 2);
}

/* The record is not lost with its advice, should that fail. */
void
sf_space_share_advise(SfSegment *seg, SfShareId id, const SfShareRecord *record)
{
	SfAdvice	advice = {.page = id.page, .cell = id.cell};
	SfAdvice	dropped;
	SfAdvice	gone;

	SF_ASSERT(sf_share_is_possible(id) && record->hash_method != SF_SHARE_HASH_NONE);
	memcpy(&advice.full, record->hash, sizeof(advice.full));
	advice.key = record->prefix_hash != 0 ? record->prefix_hash : advice.full;
	add(seg, &advice, &dropped);

	/*
	 * one of many contents with this first unit is found by all of its bytes
	 * from now on
	 */
	if (dropped.page != 0 && dropped.key == advice.key &&
		sf_advice_kind(&dropped) == SF_ADVICE_PREFIX)
	{
		SF_ASSERT(sf_format_advice_problem(&dropped) == NULL);
		dropped.key = dropped.full;
		add(seg, &dropped, &gone);
	}
}
