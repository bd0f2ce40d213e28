/*-------------------------------------------------------------------------
 *
 * request.c
 *	  Units that lie side by side become one request; every unit is checked,
 *	  and goes with one copy to where it is wanted.
 *
 * The buffers are kept and aligned; a result's memory never is, since a
 * varlena's data starts behind a 4-byte header.
 *
 * What the own transaction has not written out yet is laid over what comes from
 * disk: before the request is made, for perhaps none is needed, and again when
 * it has arrived.  Of a request that arrives in a later call than it was started
 * in, some of it may have been written out in between: not in the gather
 * buffers any more, and not on disk yet when the disk was read.  The check
 * tells, and then it is read again.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "read/read_internal.h"
#include "storage/procarray.h"
#include "transform/transform.h"
#include "utils/memutils.h"

static SfReadOverlay overlay;

void
sf_read_set_overlay(SfReadOverlay fn)
{
	overlay = fn;
}

/* ---- planning ---- */

static uint64
unit_end(const SfUnit *unit)
{
	return unit->start + sf_unit_sectors(unit);
}

bool
sfi_read_is_there(const SfReadJob *job, const SfUnit *unit)
{
	return unit->stored_bytes != 0 && unit_end(unit) <= job->total_sectors;
}

/* Block-aligned surroundings of a request: the first block, and behind the last. */
static uint64
first_block(const SfReadRequest *request)
{
	return sf_block_of(request->units[0].start);
}

static uint64
end_block(uint64 end_sector)
{
	return sf_blocks_of(end_sector);
}

/* Does a unit lie right behind a request, and can it be read with it? */
static bool
continues(const SfReadJob *job, const SfReadRequest *request, const SfUnit *unit)
{
	return unit->start == unit_end(&request->units[request->nunits - 1]) &&
		unit->start / SF_FILE_SECTORS == request->units[0].start / SF_FILE_SECTORS &&
		sfi_read_is_there(job, unit) &&
		(end_block(unit_end(unit)) - first_block(request)) * SF_BLOCK_SIZE <= SF_READ_REQUEST_BYTES;
}

void
sfi_read_plan_request(SfReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n,
					  SfReadRequest *request)
{
	SF_ASSERT(n > 0 && units[0].start != SF_HOLE && sfi_read_is_there(job, &units[0]));
	request->first_unit = first_unit;
	request->units[0] = units[0];
	request->nunits = 1;
	while (request->nunits < Min(n, SF_READ_REQUEST_UNITS) &&
		   continues(job, request, &units[request->nunits]))
	{
		request->units[request->nunits] = units[request->nunits];
		request->nunits++;
	}
	request->nsectors = unit_end(&request->units[request->nunits - 1]) - request->units[0].start;
}

/* ---- requests ---- */

/* Its units lie side by side, and their blocks find room in its buffer. */
static bool
request_is_valid(const SfReadRequest *request)
{
	uint64		end = request->units[0].start;

	if (request->nunits == 0 || request->nunits > SF_READ_REQUEST_UNITS || request->overlaid > request->nsectors)
		return false;
	for (uint32 i = 0; i < request->nunits; i++)
	{
		if (request->units[i].start != end)
			return false;
		end = unit_end(&request->units[i]);
	}
	return end == request->units[0].start + request->nsectors &&
		(end_block(end) - first_block(request)) * SF_BLOCK_SIZE <= SF_READ_REQUEST_BYTES;
}

/* Lay what gather buffers hold of a request over it; returns how many sectors. */
static uint32
lay_over(SfReadJob *job, const SfReadRequest *request, char *data)
{
	return overlay(job->seg->storage, request->units[0].start, request->nsectors, data);
}

bool
sfi_read_is_gathered(SfReadJob *job, const SfReadRequest *request)
{
	return lay_over(job, request, NULL) > 0;
}

/* Make a request for the block-aligned surroundings of a request. */
void
sfi_read_start_request(SfReadJob *job, SfReadRequest *request)
{
	uint64		first = first_block(request);
	uint64		end = end_block(request->units[0].start + request->nsectors);

	SF_ASSERT(!request->io.in_flight);
	request->data = request->buf + sf_sectors_to_bytes(request->units[0].start - sf_blocks_to_sectors(first));
	request->arrived = request->started = request->writer_ended = false;
	request->checked = 0;
	request->overlaid = lay_over(job, request, request->data);
	SF_ASSERT(request_is_valid(request));
	if (request->overlaid == request->nsectors)
		return;
	request->io.files = job->files;
	request->io.segment_offset = first * SF_BLOCK_SIZE;
	request->io.buf = request->buf;
	request->io.len_bytes = (end - first) * SF_BLOCK_SIZE;
	request->io.is_write = request->io.durable = false;
	sf_io_start(&request->io);
	request->started = true;
	request->may_reread = job->buffered;
	job->stats->direct_read_ops++;
	job->stats->direct_read_bytes += request->io.len_bytes;
}

void
sfi_read_spoil_cached(SfReadJob *job, SfReadRequest *request)
{
	if (job->buffered && SF_FAULT_IO(read_stale) != SF_FAULT_NONE)
		request->data[0] ^= 1;
}

/* Wait for the request of a request; in a check, an error is a finding. */
static bool
wait_request(SfReadJob *job, SfReadRequest *request)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool ok = true;

	if (job->target->found == NULL)
	{
		sf_io_wait(&request->io);
		return true;
	}
	PG_TRY();
	{
		sf_io_wait(&request->io);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		job->target->found("unreadable", sf_sectors_to_bytes(request->units[0].start),
						   sf_sectors_to_bytes(request->nsectors), error->message,
						   job->target->arg);
		FreeErrorData(error);
		ok = false;
	}
	PG_END_TRY();
	return ok;
}

bool
sfi_read_wait_request(SfReadJob *job, SfReadRequest *request)
{
	SF_ASSERT(request_is_valid(request));
	SF_ASSERT(request->started || request->overlaid == request->nsectors);
	if (request->arrived || !request->started)
		return true;
	/* what it was started with may have been closed since */
	request->io.files = job->files;
	if (!wait_request(job, request))
		return false;
	job->stats->ioreap_time_us += sf_io_take_counts().reap_us;
	sfi_read_spoil_cached(job, request);
	if (request->overlaid > 0)
		(void) lay_over(job, request, request->data);
	request->arrived = true;
	return true;
}

/*
 * The page cache can be behind a direct write; the disk is the truth.  Reads
 * the request again directly, into the same buffer.
 */
static void
reread_directly(SfReadJob *job, SfReadRequest *request)
{
	SF_ASSERT(request->started && request->arrived && !request->io.in_flight);
	request->io.files = sf_io_open(job->seg->storage, false);
	sf_io_start(&request->io);
	sf_io_wait(&request->io);
	if (request->overlaid > 0)
		(void) lay_over(job, request, request->data);
}

/* ---- checking ---- */

/*
 * Logical decoding may stream a transaction that is still running, whose values
 * lie in the gather buffers of another process.  Wait for them to be written,
 * or for its end; false when the data on disk is what there is.
 */
static bool
wait_for_writer(bool *ended)
{
	if (!TransactionIdIsValid(CheckXidAlive) || *ended)
		return false;
	if (TransactionIdIsInProgress(CheckXidAlive))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
		return true;
	}
	*ended = true;
	return true;
}

/* Is reading a request once more worth it? */
static bool
may_be_better(SfReadRequest *request)
{
	if (!request->started)
		return false;
	SF_ASSERT(request->arrived);
	if (request->may_reread)
	{
		request->may_reread = false;
		return true;
	}
	return wait_for_writer(&request->writer_ended);
}

/* The stored bytes of a unit, checked; NULL when they do not match and the target was told so. */
static const char *
checked_unit(SfReadJob *job, SfReadRequest *request, uint32 i)
{
	const SfUnit *unit = &request->units[i];
	const char *bytes = request->data + sf_sectors_to_bytes(unit->start - request->units[0].start);
	uint64		found;

	SF_ASSERT(i < request->nunits && (request->arrived || !request->started));
	if (request->checked & (1u << i))
		return bytes;
	while ((found = sf_format_checksum(bytes, unit->stored_bytes, job->seed)) != unit->checksum)
	{
		if (!may_be_better(request))
		{
			sfi_read_report_mismatch(job, request->first_unit + i, unit, found);
			return NULL;
		}
		reread_directly(job, request);
	}
	request->checked |= 1u << i;
	return bytes;
}

/* ---- delivery ---- */

/* What a target wants of a unit: where it goes, and which of the unit's bytes it is. */
typedef struct Wanted
{
	char	   *dst;
	uint32		skip;			/* plain bytes before it */
	uint32		len;			/* 0: nothing is wanted */
} Wanted;

static Wanted
wanted_of(const SfReadJob *job, uint64 unit_no)
{
	const SfReadTarget *target = job->target;
	uint64		start = sf_unit_start(unit_no);
	uint64		from = Max(start, target->offset);
	uint64		to = Min(start + sf_unit_plain_bytes(job->length_bytes, unit_no),
						 target->offset + target->len);

	if (target->dst == NULL || from >= to)
		return (Wanted) {NULL, 0, 0};
	return (Wanted) {target->dst + (from - target->offset), from - start, to - from};
}

/* Decode a unit, right into the result if all of it is wanted. */
static void
decode_unit(SfReadJob *job, uint64 unit_no, const SfUnit *unit, const char *stored, Wanted wanted)
{
	uint32		plain_bytes = sf_unit_plain_bytes(job->length_bytes, unit_no);
	char	   *plain = wanted.len == plain_bytes ? wanted.dst : palloc(plain_bytes);

	SF_ASSERT(wanted.len > 0 && wanted.skip + wanted.len <= plain_bytes);
	if (!sf_transform_decode(unit, stored, plain, plain_bytes))
		sfi_read_report_undecodable(unit_no, unit);
	if (plain == wanted.dst)
		return;
	memcpy(wanted.dst, plain + wanted.skip, wanted.len);
	pfree(plain);
}

void
sfi_read_deliver_unit(SfReadJob *job, SfReadRequest *request, uint32 i)
{
	uint64		unit_no = request->first_unit + i;
	const SfUnit *unit = &request->units[i];
	const char *stored = checked_unit(job, request, i);
	Wanted		wanted = wanted_of(job, unit_no);

	if (stored == NULL || wanted.len == 0)
		return;
	SF_ASSERT(!sf_transform_is_raw(unit) || wanted.skip + wanted.len <= unit->stored_bytes);
	if (sf_transform_is_raw(unit))
		memcpy(wanted.dst, stored + wanted.skip, wanted.len);
	else
		decode_unit(job, unit_no, unit, stored, wanted);
}

void
sfi_read_deliver_hole(SfReadJob *job, uint64 unit_no)
{
	Wanted		wanted = wanted_of(job, unit_no);

	if (wanted.len > 0)
		memset(wanted.dst, 0, wanted.len);
}
