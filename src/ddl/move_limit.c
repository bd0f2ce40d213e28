/*-------------------------------------------------------------------------
 *
 * move_limit.c
 *	  How short can the segment of a column become?
 *
 * Values are moved so that the segment ends earlier.  The limit is the least sector for which all
 * that lies beyond it finds a place before it, with a little to spare for writers.
 *
 * One value beyond the limit that cannot move would make all the work useless, since only a free
 * tail can be cut.  So before anything is written all rows are looked at, and the queue of pending
 * entries, and the limit is not set below what must stay.  If the files would hardly become
 * shorter then, nothing is moved.
 *
 * What only is in use for a moment does not count: rows that are locked, what waits for snapshots,
 * and what a transaction has stored or deleted that ends within a second.  One that had begun
 * before and still has not ended by then may take hours, or is prepared.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "ddl/move_values.h"
#include "keys/keys.h"
#include "space/shrink_limit.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* So long transactions are waited for; how often it is looked. */
#define LASTING_US			1000000
#define LOOK_US				10000

/* What the rows of a column show. */
typedef struct Survey
{
	uint64		limit;			/* that is asked about */
	uint64		beyond;			/* values that can move and reach beyond it */
	uint64		fixed_end;
	double		sectors;		/* of all values */
	double		weighted;		/* the same, each times the size of its units */
} Survey;

bool
sfi_ddl_move_is_shared(SfSegment *seg, const SfLocator *loc)
{
	SfShareId	id;

	if (loc->flags & SF_LOC_SHARED)
		return true;
	return sf_object_has_root(loc) && sf_space_root_record(seg, sf_object_root(loc), &id);
}

/* Can a value not be moved, whatever happens? */
static bool
is_fixed(SfSegment *seg, const SfLocator *loc)
{
	return sfi_ddl_move_is_shared(seg, loc) || !sf_keys_can_decrypt(seg, loc->key_id);
}

/* Look at one value. */
static void
survey_value(SfSegment *seg, Datum value, Survey *survey)
{
	SfLocator	loc;
	SfOwned		owned;
	double		sectors;

	if (!sf_rows_space_of(seg, value, &loc, &owned))
		return;
	if (is_fixed(seg, &loc))
		survey->fixed_end = Max(survey->fixed_end, sf_rows_end_of(&owned));
	else
		survey->beyond += sf_rows_end_of(&owned) > survey->limit;
	sectors = sf_space_owned_sectors(&owned);
	SF_ASSERT(loc.nunits > 0);
	survey->sectors += sectors;
	survey->weighted += sectors * Min(sectors / loc.nunits, SF_UNIT_SIZE / SF_SECTOR_SIZE);
}

/* Look at all rows. */
static Survey
survey_rows(Relation rel, AttrNumber attnum, SfSegment *seg, uint64 limit)
{
	Survey		survey = {.limit = limit};
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SfRows		rows = sf_rows_begin(rel, attnum, snapshot);
	SfRowContext context;

	sfi_ddl_row_context_begin(&context, rel, attnum);
	while (sf_rows_next(&rows))
	{
		context.tid = rows.slot->tts_tid;
		survey_value(seg, rows.value, &survey);
	}
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	UnregisterSnapshot(snapshot);
	return survey;
}

/*
 * Behind the last sector that is held by transactions which had an id below that one, or kept by
 * the retention; transactions that hold something behind the limit are given some time to end.
 */
static uint64
lasting_end(SfSegment *seg, uint64 before, uint64 limit)
{
	uint64		until_us = sf_base_now_us() + LASTING_US;
	uint64		kept_end;
	uint64		end;

	while ((end = sf_space_held_end(seg, before, &kept_end)) > limit && sf_base_now_us() < until_us)
		sfi_ddl_move_sleep(sf_base_now_us() + LOOK_US);
	return Max(end, kept_end);
}

SfMovePlan
sfi_ddl_move_plan(Relation rel, AttrNumber attnum, SfSegment *seg, uint64 spare)
{
	SfMovePlan	plan = {0};
	uint64		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	Survey		survey;
	SfShrinkLimit shrink;
	uint32		piece;

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	survey = survey_rows(rel, attnum, seg, SF_MAX_SECTORS);
	SF_FAULT(shrink_surveyed);
	piece = survey.sectors > 0 ? survey.weighted / survey.sectors : 0;
	shrink = sf_space_shrink_limit(seg, Max(piece, 1), spare);
	plan.total_sectors = shrink.total;
	plan.fixed_end = Max(survey.fixed_end, lasting_end(seg, next, shrink.limit));
	plan.is_fixed = plan.fixed_end > shrink.limit;
	plan.limit = sf_round_up_block(Max(Max(shrink.limit, 1), plan.fixed_end));
	plan.after_sectors = sf_space_after_cuts(plan.limit);
	return plan;
}

bool
sfi_ddl_move_is_left(Relation rel, AttrNumber attnum, SfSegment *seg, uint64 limit)
{
	uint64		until_us = sf_base_now_us() + LASTING_US;

	while (sf_space_is_reserved_from(seg, limit) && sf_base_now_us() < until_us)
		sfi_ddl_move_sleep(sf_base_now_us() + LOOK_US);
	return survey_rows(rel, attnum, seg, limit).beyond > 0;
}

bool
sfi_ddl_move_is_worth(const SfMovePlan *plan)
{
	return plan->after_sectors + plan->total_sectors / SFI_WORTH_PART <= plan->total_sectors;
}
