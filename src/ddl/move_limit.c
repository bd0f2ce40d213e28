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
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Of what has to find a place, so much more room is asked for; in each round more. */
#define SPARE				0.05
#define SPARE_MORE			0.15
/* A cut leaves so much of a segment, see sfi_grow_cut_tail(). */
#define CUT_PART			8
#define CUT_MOST			(sf_bytes_to_sectors(64 * 1024 * 1024))
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

/*
 * The least sector below which there is room for what lies beyond it.  Within a map page used and
 * usable sectors count as spread evenly: if they are not, some values may find no place, and the
 * next call goes on.
 */
static uint64
least_limit(const SfMapUse *use, uint64 total, int round)
{
	const double factor = 1 + SPARE + SPARE_MORE * round;
	double		spare = Min(total / (4 * CUT_PART), CUT_MOST / 4);
	double		above = 0;
	double		below = 0;

	SF_ASSERT(round >= 0);
	for (uint32 map = 0; map < sf_maps_of(total); map++)
		above += use[map].used_sectors * factor;
	for (uint32 map = 0; map < sf_maps_of(total); map++)
	{
		double		used = use[map].used_sectors * factor;
		double		usable = use[map].usable_sectors;
		double		missing = above + spare - below;

		if (missing <= used + usable)
			return sf_map_start(map) +
				(uint64) (missing * sf_map_sectors_before(total, map) / Max(used + usable, 1));
		above -= used;
		below += usable;
	}
	return total;
}

SfMovePlan
sfi_ddl_move_plan(Relation rel, AttrNumber attnum, SfSegment *seg, int round)
{
	SfMovePlan	plan = {0};
	Survey		survey;
	SfMapUse   *use;
	uint32		piece;

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	plan.fixed_end = sf_space_held_end(seg);
	survey = survey_rows(rel, attnum, seg);
	plan.fixed_end = Max(plan.fixed_end, survey.fixed_end);
	piece = survey.sectors > 0 ? survey.weighted / survey.sectors : 0;
	use = sf_space_map_use(seg, Max(piece, 1), &plan.total_sectors);
	plan.limit = Max(least_limit(use, plan.total_sectors, round), 1);
	plan.is_fixed = plan.fixed_end > plan.limit;
	plan.limit = sf_round_up_block(Max(plan.limit, plan.fixed_end));
	plan.after_sectors = plan.limit + Min(plan.limit / CUT_PART, CUT_MOST);
	pfree(use);
	return plan;
}

bool
sfi_ddl_move_is_worth(const SfMovePlan *plan)
{
	return plan->after_sectors + plan->total_sectors / WORTH_PART <= plan->total_sectors;
}
