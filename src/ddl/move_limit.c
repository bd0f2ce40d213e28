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
 * What only is in use for a moment does not count: rows that are locked, and what waits for
 * snapshots.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/move_values.h"
#include "keys/keys.h"
#include "space/shrink_limit.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Less than that part of a segment is not worth it. */
#define WORTH_PART			10

/* What the rows of a column show. */
typedef struct Survey
{
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
	sectors = sf_space_owned_sectors(&owned);
	SF_ASSERT(loc.nunits > 0);
	survey->sectors += sectors;
	survey->weighted += sectors * Min(sectors / loc.nunits, SF_UNIT_SIZE / SF_SECTOR_SIZE);
}

/* Look at all rows. */
static Survey
survey_rows(Relation rel, AttrNumber attnum, SfSegment *seg)
{
	Survey		survey = {0};
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

SfMovePlan
sfi_ddl_move_plan(Relation rel, AttrNumber attnum, SfSegment *seg, int round)
{
	SfMovePlan	plan = {0};
	Survey		survey;
	SfShrinkLimit shrink;
	uint32		piece;

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	plan.fixed_end = sf_space_held_end(seg);
	survey = survey_rows(rel, attnum, seg);
	plan.fixed_end = Max(plan.fixed_end, survey.fixed_end);
	piece = survey.sectors > 0 ? survey.weighted / survey.sectors : 0;
	shrink = sf_space_shrink_limit(seg, Max(piece, 1), round);
	plan.total_sectors = shrink.total;
	plan.is_fixed = plan.fixed_end > shrink.limit;
	plan.limit = sf_round_up_block(Max(Max(shrink.limit, 1), plan.fixed_end));
	plan.after_sectors = sf_space_after_cuts(plan.limit);
	return plan;
}

bool
sfi_ddl_move_is_worth(const SfMovePlan *plan)
{
	return plan->after_sectors + plan->total_sectors / WORTH_PART <= plan->total_sectors;
}
