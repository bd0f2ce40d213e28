/*-------------------------------------------------------------------------
 *
 * arrange.c
 *	  Which bytes of a PIECED value stay where they are in its unit space, and which
 *	  are copied.
 *
 * The value that is made is a row of stretches.  Each of them is in the unit space, at
 * some place, or is new.  Neighbours that go on in the unit space are one run, and so
 * are neighbours that are new.  An example, with units of 100 bytes, of which a value of
 * 900 bytes gets 30 at position 250, and loses 70 at position 640:
 *
 *		 stretches	[ 0 .. 250 ][ 30 new ][ 250 .. 640 ][ 710 .. 900 ]
 *		 runs		[ at 0, 250][new, 30 ][ at 250, 390][ at 710, 190]
 *		 rounded	[ at 0, 250][new, 100][ at 320, 320][ at 710, 190]
 *		 in place	[ at 0, 250][at 900  ][ at 320, 320][ at 710, 190]
 *
 * A list of short pieces would be read slowly, since each is in a unit of its own.  So
 * what is new, or shorter than a unit, is copied together with bytes of its neighbours:
 * so many that whole units are written, behind the unit space, where nothing else is in
 * these units.  An edit writes its own bytes and one or two units more, however many
 * edits there were before it.
 *
 *	Q1	no piece is shorter than a unit, unless it is the last one, or the only one;
 *	Q2	no two pieces have the same byte of the unit space;
 *	Q3	a unit of which no piece has a byte is a hole, and none is behind the last piece.
 *
 * What is stored of a unit and belongs to no piece is at most two parts of units for
 * each piece (Q1), so it is no more than the value, mostly far less.  It stays until
 * the value is stored anew: to remove it, all units of the value would have to move.
 *
 * What takes the place of as many bytes is written in that place, as in a value without
 * pieces: an UPDATE of some bytes does not make a list longer.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stream/pieced.h"

#define NOWHERE			(-1)

/* Values below that are stored without pieces. */
#define LEAST_BYTES		((int64) 1024 * 1024)

/* So are longer ones, and what has a longer unit space: places are added up without a look. */
#define MOST_BYTES		((int64) 1 << 61)

/* What is written has to be that part of what would be written without pieces. */
#define WORTH			8

#define COPY_BYTES		((int64) 1024 * 1024)

/* Bytes of the value that is made, in its order. */
typedef struct Stretch
{
	int64		at;				/* in the value */
	int64		length;
	int64		start;			/* place in the unit space, or NOWHERE */
	bool		is_new;			/* that place has other bytes so far */
	bool		is_staged;		/* else source says where its bytes are */
	SfPiece		source;
} Stretch;

/* A range of the value that stays at one place, or is copied to one. */
typedef struct Run
{
	int64		from;
	int64		to;
	int64		start;			/* NOWHERE: it is copied */
} Run;

typedef struct Plan
{
	SfStream   *stream;
	Stretch    *items;
	int64		nitems;
	int64		items_size;
	Run		   *runs;
	int64		nruns;
	int64		length;			/* of the value */
} Plan;

static int64
length_of(const Run *run)
{
	return run->to - run->from;
}

static int64
end_of(const Stretch *item)
{
	return item->start + item->length;
}

/* ---- items ---- */

static void
add_item(Plan *plan, Stretch item)
{
	SF_ASSERT(item.length > 0);
	item.at = plan->length;
	plan->length = sf_object_add_lengths(plan->length, item.length);
	plan->items = sf_base_array_grow(plan->items, plan->nitems, &plan->items_size, sizeof(Stretch),
									 CurrentMemoryContext);
	plan->items[plan->nitems++] = item;
}

/* A part of the value that the stage was opened on: its places. */
static void
add_base(Plan *plan, const SfPiece *piece)
{
	const SfPieced *pieced = plan->stream->pieced;
	SfRange    *ranges;
	int64		n = 1;
	int64		done = 0;

	if (pieced != NULL)
		n = sfi_pieced_places(plan->stream, piece->start, piece->length, &ranges);
	else
	{
		ranges = palloc(sizeof(SfRange));
		*ranges = (SfRange) {piece->start, piece->length};
	}
	for (int64 i = 0; i < n; done += ranges[i++].length)
	{
		Stretch		part = {.length = ranges[i].length, .start = ranges[i].start};

		part.source = sf_object_cut_piece(*piece, done, done + part.length);
		add_item(plan, part);
	}
	pfree(ranges);
}

static void
collect_edited(Plan *plan, const SfPiece *pieces, int npieces)
{
	for (int i = 0; i < npieces; i++)
	{
		if (pieces[i].kind == SF_PIECE_VALUE &&
			sf_object_same(plan->stream->value, pieces[i].value))
			add_base(plan, &pieces[i]);
		else
		{
			Stretch		part = {.length = pieces[i].length, .start = NOWHERE};

			part.source = pieces[i];
			add_item(plan, part);
		}
	}
}

static void
collect_staged(Plan *plan)
{
	const SfPieced *pieced = plan->stream->pieced;

	for (int64 i = 0; i < pieced->n; i++)
	{
		const SfRange *range = &pieced->ranges[i];
		Stretch		part = {.length = range->length, .start = range->start, .is_staged = true};

		add_item(plan, part);
	}
}

/* ---- places ---- */

/* For qsort(): items that have places, by these. */
static int
compare_starts(const void *a, const void *b)
{
	int64		x = (*(Stretch *const *) a)->start;
	int64		y = (*(Stretch *const *) b)->start;

	return x < y ? -1 : x > y;
}

/* The items that have places, in their order; *n: how many. */
static Stretch **
placed_items(const Plan *plan, int64 *n)
{
	Stretch   **placed = palloc_extended(Max(plan->nitems, 1) * sizeof(Stretch *), MCXT_ALLOC_HUGE);

	*n = 0;
	for (int64 i = 0; i < plan->nitems; i++)
		if (plan->items[i].start != NOWHERE)
			placed[(*n)++] = &plan->items[i];
	qsort(placed, *n, sizeof(Stretch *), compare_starts);
	return placed;
}

/* Bytes that are in the value twice have one place, and are copied for the other. */
static void
part_overlaps(Plan *plan)
{
	int64		n;
	Stretch   **placed = placed_items(plan, &n);
	int64		end = 0;

	for (int64 i = 0; i < n; i++)
	{
		if (placed[i]->start >= end)
			end = end_of(placed[i]);
		else
		{
			SF_ASSERT(!placed[i]->is_staged);
			placed[i]->start = NOWHERE;
		}
	}
	pfree(placed);
}

/* Is there nothing that stays in that range of the unit space? */
static bool
is_free(Stretch *const *placed, int64 n, int64 start, int64 length)
{
	int64		low = 0;
	int64		high = n;

	/* the last one that begins before the end of it */
	while (low < high)
	{
		int64		middle = (low + high) / 2;

		if (placed[middle]->start < start + length)
			low = middle + 1;
		else
			high = middle;
	}
	return low == 0 || end_of(placed[low - 1]) <= start;
}

/*
 * The place between the neighbours of items [i, end), if these fit there and nothing else is there:
 * what replaces as many bytes, what is put behind the last piece.  NOWHERE: there is none.
 *
 * No two of these places overlap.  Each begins where a piece ends, or with the unit space, and
 * ends where the next piece begins, or with the value.
 */
static int64
place_between(const Plan *plan, Stretch *const *placed, int64 n, int64 i, int64 end)
{
	const Stretch *before = i > 0 ? &plan->items[i - 1] : NULL;
	const Stretch *behind = end < plan->nitems ? &plan->items[end] : NULL;
	int64		length = plan->items[end - 1].at + plan->items[end - 1].length - plan->items[i].at;
	int64		start;

	if (before == NULL && behind == NULL)
		return NOWHERE;
	start = before != NULL ? end_of(before) : 0;
	if (behind != NULL && start + length != behind->start)
		return NOWHERE;
	return is_free(placed, n, start, length) ? start : NOWHERE;
}

/* Give new items places where that is possible. */
static void
fill_places(Plan *plan)
{
	int64		n;
	Stretch   **placed = placed_items(plan, &n);
	int64		end;

	for (int64 i = 0; i < plan->nitems; i = end)
	{
		int64		start;

		for (end = i; end < plan->nitems && plan->items[end].start == NOWHERE; end++)
			CHECK_FOR_INTERRUPTS();
		if (end == i)
		{
			end++;
			continue;
		}
		start = place_between(plan, placed, n, i, end);
		for (int64 k = i; k < end && start != NOWHERE; start += plan->items[k++].length)
		{
			plan->items[k].start = start;
			plan->items[k].is_new = true;
		}
	}
	pfree(placed);
}

/* ---- runs ---- */

/* Neighbours that are both copied are one run; so are those that go on in the unit space. */
static void
merge_runs(Plan *plan)
{
	int64		n = 0;

	for (int64 i = 0; i < plan->nruns; i++)
	{
		const Run	run = plan->runs[i];
		Run		   *last = n > 0 ? &plan->runs[n - 1] : NULL;

		if (length_of(&run) == 0)
			continue;
		if (last != NULL && (run.start == NOWHERE ? last->start == NOWHERE :
							 last->start != NOWHERE && last->start + length_of(last) == run.start))
			last->to = run.to;
		else
			plan->runs[n++] = run;
	}
	plan->nruns = n;
}

static void
make_runs(Plan *plan)
{
	plan->runs = palloc_extended(Max(plan->nitems, 1) * sizeof(Run), MCXT_ALLOC_HUGE);
	plan->nruns = plan->nitems;
	for (int64 i = 0; i < plan->nitems; i++)
	{
		const Stretch *item = &plan->items[i];

		plan->runs[i] = (Run) {item->at, item->at + item->length, item->start};
	}
	merge_runs(plan);
	for (int64 i = 0; i < plan->nruns && plan->nruns > 1; i++)
		if (length_of(&plan->runs[i]) < SF_UNIT_SIZE)
			plan->runs[i].start = NOWHERE;
	merge_runs(plan);
}

/* Move n bytes from the begin of a run to the copied one before it; all, if too few would stay. */
static void
take_from_behind(Run *copied, Run *run, int64 n)
{
	if (length_of(run) - n < SF_UNIT_SIZE)
		n = length_of(run);
	copied->to += n;
	run->from += n;
	run->start += n;
}

/* The same from the end of the one before it. */
static void
take_from_before(Run *run, Run *copied, int64 n)
{
	if (length_of(run) - n < SF_UNIT_SIZE)
		n = length_of(run);
	copied->from -= n;
	run->to -= n;
}

/*
 * Q1: have each copied run be whole units, by bytes of the one behind it; one at the end of the
 * value has at least one.  False: a run was used up, and what it was between is one now.
 */
static bool
round_runs(Plan *plan)
{
	for (int64 i = 0; i < plan->nruns; i++)
	{
		Run		   *run = &plan->runs[i];
		int64		missing = (SF_UNIT_SIZE - length_of(run) % SF_UNIT_SIZE) % SF_UNIT_SIZE;
		Run		   *other = NULL;

		if (run->start != NOWHERE || missing == 0)
			continue;
		if (i + 1 < plan->nruns)
			take_from_behind(run, other = run + 1, missing);
		else if (i > 0 && length_of(run) < SF_UNIT_SIZE)
			take_from_before(other = run - 1, run, missing);
		if (other != NULL && length_of(other) == 0)
			return false;
	}
	return true;
}

/* Q1; and all of the value is in runs. */
static bool
has_no_short_run(const Plan *plan)
{
	int64		at = 0;

	for (int64 i = 0; i < plan->nruns; at = plan->runs[i++].to)
		if (plan->runs[i].from != at ||
			(i + 1 < plan->nruns && length_of(&plan->runs[i]) < SF_UNIT_SIZE))
			return false;
	return at == plan->length;
}

/*
 * The order matters.  Bytes that are in the value twice are found first, since they cannot be in
 * their place twice.  New bytes that fit where they are get places then, so that they make no run
 * of their own.  Only what is left is copied.
 */
static void
plan_runs(Plan *plan)
{
	part_overlaps(plan);
	fill_places(plan);
	make_runs(plan);
	while (!round_runs(plan))
		merge_runs(plan);
	SF_INVARIANT(Q1, has_no_short_run(plan));
}

/* ---- is it worth it? ---- */

/* Bytes of items in a range of the value that are written; zeros are not. */
static int64
bytes_to_write(const Plan *plan, bool (*is_written) (const Plan *plan, const Stretch *item))
{
	int64		sum = 0;

	for (int64 i = 0; i < plan->nitems; i++)
		if ((plan->items[i].is_staged || plan->items[i].source.kind != SF_PIECE_ZEROS) &&
			is_written(plan, &plan->items[i]))
			sum += plan->items[i].length;
	return sum;
}

/* Is an item written if the value is stored without pieces?  All is, if it has some now. */
static bool
is_moved(const Plan *plan, const Stretch *item)
{
	return plan->stream->pieced != NULL || item->is_new || item->start != item->at;
}

static bool
is_new(const Plan *plan, const Stretch *item)
{
	return item->is_new;
}

/* Can the value be pieces: is it long enough, and not too long, and are they not too many? */
static bool
is_possible(const Plan *plan)
{
	return plan->length >= LEAST_BYTES && plan->length <= MOST_BYTES &&
		plan->stream->length <= MOST_BYTES && plan->nruns <= SF_PIECES_MAX;
}

static bool
is_worth_it(const Plan *plan)
{
	int64		moved = bytes_to_write(plan, is_moved);
	int64		written = bytes_to_write(plan, is_new);

	for (int64 i = 0; i < plan->nruns; i++)
		if (plan->runs[i].start == NOWHERE)
			written += length_of(&plan->runs[i]);
	SF_ASSERT(written >= 0);
	return is_possible(plan) && moved > 0 && written <= moved / WORTH;
}

/* ---- doing it ---- */

/* Copy bytes of the stage to another place of it, which is behind them. */
static void
copy_staged(SfStream *stream, int64 at, int64 start, int64 length)
{
	char	   *part = sf_base_secret_new(Min(length, COPY_BYTES));

	SF_ASSERT(start + length <= at);
	for (int64 done = 0; done < length; done += COPY_BYTES)
	{
		int64		n = Min(COPY_BYTES, length - done);

		CHECK_FOR_INTERRUPTS();
		sfi_stage_read(stream, start + done, n, part);
		sfi_stage_write(stream, at + done, part, n);
	}
	sf_base_secret_free(part);
}

/* Write what an item has of [from, to) of the value to a place. */
static void
write_item(const Plan *plan, const Stretch *item, int64 from, int64 to, int64 at)
{
	int64		skip = from - item->at;
	SfPiece		part;

	SF_ASSERT(from < to && skip >= 0 && to <= item->at + item->length);
	if (item->is_staged)
	{
		copy_staged(plan->stream, at, item->start + skip, to - from);
		return;
	}
	part = sf_object_cut_piece(item->source, skip, skip + (to - from));
	sfi_copy_piece(plan->stream, at, &part);
}

/*
 * Write items of a run, all of them (it is copied) or the new ones.  Runs come in the order of the
 * value, so that *item goes along; it may be one too far, since a run may begin inside an item.
 */
static void
write_run(const Plan *plan, const Run *run, int64 start, bool all, int64 *item)
{
	while (*item > 0 && plan->items[*item].at > run->from)
		--* item;
	for (; *item < plan->nitems && plan->items[*item].at < run->to; ++*item)
	{
		const Stretch *it = &plan->items[*item];
		int64		from = Max(it->at, run->from);
		int64		to = Min(it->at + it->length, run->to);

		if (from < to && (all || it->is_new))
			write_item(plan, it, from, to, start + (from - run->from));
	}
	*item = Min(*item, plan->nitems - 1);
}

/*
 * Where a copied run goes: behind the unit space, from a unit on; or, if the run before it ends
 * with the unit space, there.
 */
static int64
place_for(const Plan *plan, int64 i)
{
	int64		end = plan->stream->length;

	if (i > 0 && plan->runs[i - 1].start + length_of(&plan->runs[i - 1]) == end)
		return end;
	return sf_unit_start(sf_units_of(end));
}

/* What is in its place already is written before anything comes behind the unit space. */
static void
write_runs(Plan *plan)
{
	SfStream   *stream = plan->stream;
	int64		item = 0;

	for (int64 i = 0; i < plan->nruns; i++)
	{
		const Run  *run = &plan->runs[i];

		if (run->start == NOWHERE)
			continue;
		write_run(plan, run, run->start, false, &item);
		/* zeros at the end */
		if (stream->length < run->start + length_of(run))
			sfi_stage_resize(stream, run->start + length_of(run));
	}
	item = 0;
	for (int64 i = 0; i < plan->nruns; i++)
	{
		Run		   *run = &plan->runs[i];
		int64		start;
		int64		end;

		if (run->start != NOWHERE)
			continue;
		start = place_for(plan, i);
		end = sf_object_add_lengths(start, length_of(run));
		stream->final_length = Max(stream->final_length, end);
		write_run(plan, run, start, true, &item);
		run->start = start;
		/* likewise */
		if (stream->length < end)
			sfi_stage_resize(stream, end);
	}
	merge_runs(plan);
}

/* The ranges of the unit space, in the order of the value; palloc'd. */
static SfRange *
ranges_of(const Plan *plan)
{
	SfRange    *ranges = palloc_extended(Max(plan->nruns, 1) * sizeof(SfRange), MCXT_ALLOC_HUGE);

	for (int64 i = 0; i < plan->nruns; i++)
		ranges[i] = (SfRange) {plan->runs[i].start, length_of(&plan->runs[i])};
	return ranges;
}

/* For qsort(): by their starts. */
static int
compare_ranges(const void *a, const void *b)
{
	uint64		x = ((const SfRange *) a)->start;
	uint64		y = ((const SfRange *) b)->start;

	return x < y ? -1 : x > y;
}

/*
 * Q3.  Between two pieces only whole units are dropped: of the others a piece has a part.  The
 * unit space ends with a unit, so that the last unit need not be written with another length.
 */
static void
drop_dead_units(const Plan *plan)
{
	SfStream   *stream = plan->stream;
	SfRange    *ranges = ranges_of(plan);
	int64		end = 0;

	qsort(ranges, plan->nruns, sizeof(SfRange), compare_ranges);
	for (int64 i = 0; i < plan->nruns; i++)
	{
		int64		from = sf_unit_start(sf_units_of(end));
		int64		to = sf_unit_start(sf_unit_of(ranges[i].start));

		SF_INVARIANT(Q2, (int64) ranges[i].start >= end);
		if (from < to)
			sfi_stage_zero(stream, from, to - from);
		end = ranges[i].start + ranges[i].length;
	}
	end = sf_unit_start(sf_units_of(end));
	if (end < stream->length)
		sfi_stage_resize(stream, end);
	pfree(ranges);
}

/*
 * Carry out a plan; the stage then has the value, in pieces, or without any if the value is all of
 * the unit space, in its order.  While this goes on, the stage is one without pieces, so that what
 * is written to it goes to places of the unit space.
 */
static void
carry_out(Plan *plan)
{
	SfStream   *stream = plan->stream;
	SfPieced   *pieced = stream->pieced;
	SfRange    *ranges;

	/* places, not positions, from here on */
	stream->pieced = NULL;
	SF_FAULT(arrange_before);
	write_runs(plan);
	SF_FAULT(arrange_written);
	drop_dead_units(plan);
	if (plan->nruns == 1 && plan->runs[0].start == 0)
	{
		if (stream->length != plan->length)
			sfi_stage_resize(stream, plan->length);
		return;
	}
	ranges = ranges_of(plan);
	stream->pieced = pieced;
	sfi_pieced_set(stream, ranges, plan->nruns);
	pfree(ranges);
}

static void
end_plan(Plan *plan)
{
	if (plan->items != NULL)
		pfree(plan->items);
	if (plan->runs != NULL)
		pfree(plan->runs);
}

/*
 * Nothing is written before it is known that it is worth it.  Sources are values, which are read
 * from their segment, and not from the stage: so the order in which runs are written is free.
 */
bool
sfi_arrange_edited(SfStream *stream, const SfPiece *pieces, int npieces)
{
	Plan		plan = {.stream = stream};
	bool		worth_it;

	SF_ASSERT(stream->kind == STREAM_STAGE && stream->value != NULL && !stream->changed);
	collect_edited(&plan, pieces, npieces);
	plan_runs(&plan);
	worth_it = is_worth_it(&plan);
	if (worth_it)
	{
		stream->changed = true;
		carry_out(&plan);
	}
	end_plan(&plan);
	return worth_it;
}

/*
 * The sources are in the stage itself.  They are not overwritten, since copies go behind all that
 * is there; what a copy was made of is dropped in the end, if no piece needs it.
 */
bool
sfi_arrange_finish(SfStream *stream)
{
	Plan		plan = {.stream = stream};
	bool		possible;

	SF_ASSERT(stream->pieced != NULL && stream->once == NULL);
	collect_staged(&plan);
	plan_runs(&plan);
	possible = is_possible(&plan);
	if (possible)
		carry_out(&plan);
	end_plan(&plan);
	return possible;
}
