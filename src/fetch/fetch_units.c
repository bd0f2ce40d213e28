/*-------------------------------------------------------------------------
 *
 * fetch_units.c
 *	  Units that are missing, many at a time: asked for, checked, and written to their
 *	  places (fetch_write.c).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "fetch/fetch_internal.h"
#include "format/checksum.h"
#include "miscadmin.h"

#define MOST_UNITS		256
#define MOST_BYTES		(4 * 1024 * 1024)

/* A unit that is missing. */
typedef struct Wanted
{
	SfUnit		unit;
	uint64		seed;
	uint64		value;			/* which of the values looked at it is of */
	TransactionId xmin;			/* of its row */
	bool		here;			/* was fetched */
} Wanted;

struct SfFetchBatch
{
	SfSegment  *seg;
	SfFetchSource *source;
	SfFetchCounts *counts;
	Wanted		wanted[MOST_UNITS];
	int			n;
	uint64		bytes;			/* of them all */
	uint64		value;			/* the one that is looked at, from 1 on */
	TransactionId xmin;			/* of its row */
	uint64		missing;		/* the last one that counts as missing, */
	uint64		left;			/* and as left */
	char	   *run;			/* bytes to be written, of units side by side */
	uint64		run_start;		/* first sector */
	uint32		run_sectors;
};

SfFetchBatch *
sfi_batch_begin(SfSegment *seg, SfFetchSource *source, SfFetchCounts *counts)
{
	SfFetchBatch *batch = palloc0(sizeof(SfFetchBatch));

	batch->seg = seg;
	batch->source = source;
	batch->counts = counts;
	if (source != NULL)
		batch->run = palloc(MOST_BYTES + SF_UNIT_STORED_MAX + SF_SECTOR_SIZE);
	return batch;
}

/* ---- writing ---- */

static void
write_run(SfFetchBatch *batch)
{
	if (batch->run_sectors > 0)
		sfi_fetch_write(batch->seg, sf_sectors_to_bytes(batch->run_start), batch->run,
						sf_sectors_to_bytes(batch->run_sectors));
	batch->run_sectors = 0;
}

/* Put a unit behind those that are to be written; the rest of its last sector is zeros. */
static void
put_unit(SfFetchBatch *batch, const SfUnit *unit, const char *bytes)
{
	uint32		sectors = sf_unit_sectors(unit);
	char	   *place;

	if (batch->run_sectors > 0 && batch->run_start + batch->run_sectors != unit->start)
		write_run(batch);
	if (batch->run_sectors == 0)
		batch->run_start = unit->start;
	place = batch->run + sf_sectors_to_bytes(batch->run_sectors);
	memcpy(place, bytes, unit->stored_bytes);
	memset(place + unit->stored_bytes, 0, sf_sectors_to_bytes(sectors) - unit->stored_bytes);
	batch->run_sectors += sectors;
	SF_ASSERT(sf_sectors_to_bytes(batch->run_sectors) <=
			  MOST_BYTES + SF_UNIT_STORED_MAX + SF_SECTOR_SIZE);
}

/* An SfFetchGot: nothing is written that is not what the map says. */
static void
take_unit(int i, const char *bytes, uint32 length, void *arg)
{
	SfFetchBatch *batch = arg;
	Wanted	   *wanted = &batch->wanted[i];

	SF_ASSERT(length == wanted->unit.stored_bytes);
	if (wanted->here || sf_format_checksum(bytes, length, wanted->seed) != wanted->unit.checksum)
		return;
	put_unit(batch, &wanted->unit, bytes);
	wanted->here = true;
}

/* ---- a batch ---- */

/* Ask for what was added, and write what comes. */
static void
get(SfFetchBatch *batch)
{
	SfFetchPart parts[MOST_UNITS];

	for (int i = 0; i < batch->n; i++)
		parts[i] = (SfFetchPart) {
										 .offset = sf_sectors_to_bytes(batch->wanted[i].unit.start),
										 .length = batch->wanted[i].unit.stored_bytes
										};
	sfi_fetch_ask(batch->source, batch->seg, parts, batch->n, take_unit, batch);
	write_run(batch);
}

static void
note_left_xmin(SfFetchCounts *counts, TransactionId xmin)
{
	SF_ASSERT(TransactionIdIsValid(xmin));
	if (!TransactionIdIsValid(counts->left_xmin) ||
		TransactionIdPrecedes(xmin, counts->left_xmin))
		counts->left_xmin = xmin;
}

/* A value is left once, however many of its units are. */
static void
count_left(SfFetchBatch *batch)
{
	for (int i = 0; i < batch->n; i++)
	{
		const Wanted *wanted = &batch->wanted[i];

		if (wanted->here)
			continue;
		batch->counts->left_bytes += wanted->unit.stored_bytes;
		if (wanted->value == batch->left)
			continue;
		batch->counts->left_values++;
		batch->left = wanted->value;
		note_left_xmin(batch->counts, wanted->xmin);
	}
}

void
sfi_batch_finish(SfFetchBatch *batch)
{
	CHECK_FOR_INTERRUPTS();
	if (batch->source != NULL && batch->n > 0)
		get(batch);
	count_left(batch);
	batch->n = 0;
	batch->bytes = 0;
}

void
sfi_batch_value(SfFetchBatch *batch, TransactionId xmin)
{
	batch->value++;
	batch->xmin = xmin;
}

void
sfi_batch_add(const SfUnit *unit, uint64 seed, void *arg)
{
	SfFetchBatch *batch = arg;

	SF_ASSERT(unit->start != SF_HOLE && batch->n < MOST_UNITS);
	batch->wanted[batch->n++] = (Wanted) {
												 .unit = *unit, .seed = seed, .value = batch->value,
												 .xmin = batch->xmin
												};
	batch->bytes += unit->stored_bytes;
	batch->counts->missing_bytes += unit->stored_bytes;
	batch->counts->missing_values += batch->value != batch->missing;
	batch->missing = batch->value;
	if (batch->n == MOST_UNITS || batch->bytes >= MOST_BYTES)
		sfi_batch_finish(batch);
}
