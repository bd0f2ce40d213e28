/*-------------------------------------------------------------------------
 *
 * request.c
 *	  Units that lie side by side become one request; every unit is checked,
 *	  and goes with one copy to where it is wanted.
 *
 *		idle --plan--> planned --start--> started --wait--> arrived
 *						  |						   ^   |	   |
 *						  +--all in gather buffers-+   +-again-+
 *
 * Every state leads back to idle: sfi_read_drop_request().  An ERROR leaves a request
 * where it is, and a request whose wait failed stays started.  The next user of its slot
 * has to wait for the kernel first (io.in_flight).
 *
 * The buffers are kept and aligned; a result's memory never is, since a
 * varlena's data starts behind a 4-byte header.
 *
 * Data that the own transaction has not written out yet lies in gather buffers.  It
 * is laid over the bytes from disk: before the request is started, since the gather
 * buffers may have all of it, and again when it has arrived, since the disk has
 * written over the buffer.  A request may arrive in a later call than the one that
 * started it.  In between, the transaction may have written some of the units out:
 * then they are no longer in the gather buffers, and were not on disk yet when
 * the disk was read.  The checksum tells, and the request is read again.
 *
 * So a unit that does not match is not yet damaged.  Two things are tried first, in
 * the order of SfReadRetry: the disk itself, in the place of an old buffer or page
 * of the page cache; and, in logical decoding, the end of the transaction that writes.
 *
 * A unit begins at any sector, but direct I/O wants whole blocks.  So a request begins with
 * the block that its first unit begins in, and data leads to that unit:
 *
 *		 blocks		|........|........|........|
 *		 buf		^    ^data
 *		 units		     [ unit ][ unit ][unit]
 *
 * The bytes at both ends belong to other units and are not looked at.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "read/read_internal.h"
#include "storage/procarray.h"

static SfReadOverlay overlay;

void
sf_read_set_overlay(SfReadOverlay fn)
{
	overlay = fn;
}

/* ---- where units lie ---- */

/* The first sector behind a unit: where a unit that lies side by side with it begins. */
static uint64
unit_end(const SfUnit *unit)
{
	return unit->start + sf_unit_sectors(unit);
}

/* The cuts are asked first: the header says that a segment is shorter before it is cut. */
uint64
sfi_read_known_end(SfSegment *seg, uint64 needed_sectors)
{
	uint64		cuts = sf_io_cuts();

	if (seg->cuts != cuts || seg->total_sectors < needed_sectors)
	{
		seg->total_sectors = sf_space_read_header(seg).total_sectors;
		seg->cuts = cuts;
	}
	return seg->total_sectors;
}

/* Once a unit is there, it is for the whole job: the end that the job knows only rises. */
bool
sfi_read_is_there(SfReadJob *job, const SfUnit *unit)
{
	uint64		end = unit_end(unit);

	if (end > job->total_sectors)
		job->total_sectors = Max(job->total_sectors, sfi_read_known_end(job->seg, end));
	return unit->stored_bytes != 0 && end <= job->total_sectors;
}

/* A request reads whole blocks, from the one that its first sector is in. */
static uint64
first_block(const SfReadRequest *request)
{
	return sf_block_of(request->units[0].start);
}

/* ---- states ---- */

static const uint8 next_states[] = {
	[SF_READ_IDLE] = 1 << SF_READ_IDLE | 1 << SF_READ_PLANNED,
	[SF_READ_PLANNED] = 1 << SF_READ_IDLE | 1 << SF_READ_STARTED | 1 << SF_READ_ARRIVED,
	[SF_READ_STARTED] = 1 << SF_READ_IDLE | 1 << SF_READ_ARRIVED,
	[SF_READ_ARRIVED] = 1 << SF_READ_IDLE | 1 << SF_READ_STARTED,
};

/* The only function that changes the state of a request. */
static void
set_state(SfReadRequest *request, SfReadState state)
{
	SF_ASSERT(next_states[request->state] & (1 << state));
	request->state = state;
}

void
sfi_read_drop_request(SfReadRequest *request)
{
	set_state(request, SF_READ_IDLE);
}

/* Its units lie side by side, and their blocks find room in its buffer. */
static bool
request_is_valid(const SfReadRequest *request)
{
	uint64		end = request->units[0].start;

	if (request->state == SF_READ_IDLE || request->nunits == 0 ||
		request->nunits > SF_READ_REQUEST_UNITS || request->overlaid > request->nsectors ||
		request->checked >> request->nunits != 0)
		return false;
	for (uint32 i = 0; i < request->nunits; i++)
	{
		if (request->units[i].start != end)
			return false;
		end = unit_end(&request->units[i]);
	}
	return end == request->units[0].start + request->nsectors &&
		(sf_blocks_of(end) - first_block(request)) * SF_BLOCK_SIZE <= SF_READ_REQUEST_BYTES;
}

/* ---- planning ---- */

/*
 * Does a unit lie right behind a request, and can it be read with it?  Not if it lies in
 * the next data file, or if the blocks of both would not find room in the buffer.
 */
static bool
continues(SfReadJob *job, const SfReadRequest *request, const SfUnit *unit)
{
	return unit->start == unit_end(&request->units[request->nunits - 1]) &&
		unit->start / SF_FILE_SECTORS == request->units[0].start / SF_FILE_SECTORS &&
		sfi_read_is_there(job, unit) &&
		(sf_blocks_of(unit_end(unit)) - first_block(request)) * SF_BLOCK_SIZE <=
		SF_READ_REQUEST_BYTES;
}

void
sfi_read_plan_request(SfReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n,
					  SfReadRequest *request)
{
	SF_ASSERT(request->state == SF_READ_IDLE);
	SF_ASSERT(n > 0 && units[0].start != SF_HOLE && sfi_read_is_there(job, &units[0]));

	/*
	 * Copied: the caller's list may be of the next leaf by the time the
	 * request arrives.
	 */
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
	request->overlaid = request->checked = 0;
	set_state(request, SF_READ_PLANNED);
	SF_ASSERT(request_is_valid(request));
}

/* ---- reading ---- */

/*
 * Lay what gather buffers hold of a request over it; returns how many sectors.  They are
 * newer than those of the disk, if that has any.
 */
static uint32
lay_over(SfReadJob *job, const SfReadRequest *request, char *data)
{
	return overlay(job->seg->storage, request->units[0].start, request->nsectors, data);
}

/* Asks without copying: a request that is read into the result has no buffer to lay over. */
bool
sfi_read_is_gathered(SfReadJob *job, const SfReadRequest *request)
{
	SF_ASSERT(request->state == SF_READ_PLANNED);
	return lay_over(job, request, NULL) > 0;
}

/* The disk has nothing of the request that counts, so it is neither asked nor asked again. */
static bool
is_gathered_whole(const SfReadRequest *request)
{
	return request->overlaid == request->nsectors;
}

void
sfi_read_start_request(SfReadJob *job, SfReadRequest *request, bool early)
{
	uint64		first = first_block(request);
	uint64		end = sf_blocks_of(request->units[0].start + request->nsectors);

	SF_ASSERT(request->state == SF_READ_PLANNED && !request->io.in_flight);
	request->data = request->buf +
		sf_sectors_to_bytes(request->units[0].start - sf_blocks_to_sectors(first));

	/*
	 * Read directly and at once, the bytes are what the disk has: no use
	 * asking it again.
	 */
	request->retry = early || job->buffered ? SF_RETRY_DISK : SF_RETRY_WRITER;
	request->overlaid = lay_over(job, request, request->data);
	SF_ASSERT(request_is_valid(request));
	if (is_gathered_whole(request))
	{
		job->stats->units_cached += request->nunits;
		set_state(request, SF_READ_ARRIVED);
		return;
	}
	request->io.files = job->files;
	request->io.segment_offset = first * SF_BLOCK_SIZE;
	request->io.buf = request->buf;
	request->io.len_bytes = (end - first) * SF_BLOCK_SIZE;
	request->io.is_write = request->io.durable = false;

	/*
	 * Planned until it has begun: an ERROR leaves a request that nothing was
	 * asked for.
	 */
	sf_io_start(&request->io);
	set_state(request, SF_READ_STARTED);
	job->stats->units_read += request->nunits;
	job->stats->direct_read_ops++;
	job->stats->direct_read_bytes += request->io.len_bytes;
}

/* One bit is enough: the checksum has to notice, and the disk to be asked. */
void
sfi_read_spoil_cached(SfReadJob *job, SfReadRequest *request)
{
	if (job->buffered && SF_FAULT_IO(read_stale) != SF_FAULT_NONE)
		request->data[0] ^= 1;
}

/*
 * Tell a listener, with the words of the error that is being handled.  The error is
 * over then: a check goes on with the next unit.
 */
static void
tell_unreadable(const SfReadListener *listener, const SfReadRequest *request)
{
	ErrorData  *error = CopyErrorData();

	FlushErrorState();
	sfi_read_tell(listener, "unreadable", request->units[0].start,
				  sf_sectors_to_bytes(request->nsectors), error->message);
	FreeErrorData(error);
}

/*
 * Wait for the disk.  Without a listener an ERROR passes through.  Catching it needs no
 * subtransaction: sf_io_wait() takes nothing that an abort would have to give back.
 */
static bool
wait_for_disk(const SfReadListener *listener, SfReadRequest *request)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool ok = true;

	SF_ASSERT(request->state == SF_READ_STARTED);
	if (listener == NULL)
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
		MemoryContextSwitchTo(context);
		tell_unreadable(listener, request);
		ok = false;
	}
	PG_END_TRY();
	return ok;
}

/* The bytes have come from the disk; those of gather buffers are newer. */
static void
arrive(SfReadJob *job, SfReadRequest *request)
{
	SF_ASSERT(!request->io.in_flight);
	if (request->overlaid > 0)
		(void) lay_over(job, request, request->data);
	set_state(request, SF_READ_ARRIVED);
}

bool
sfi_read_wait_request(SfReadJob *job, const SfReadListener *listener, SfReadRequest *request)
{
	SF_ASSERT(request_is_valid(request));
	SF_ASSERT(request->state == SF_READ_STARTED || request->state == SF_READ_ARRIVED);
	if (request->state == SF_READ_ARRIVED)
		return true;
	/* the files it was started with may have been closed since */
	request->io.files = job->files;
	if (!wait_for_disk(listener, request))
		return false;
	job->stats->ioreap_time_us += sf_io_take_counts().reap_us;
	sfi_read_spoil_cached(job, request);
	arrive(job, request);
	return true;
}

/*
 * The page cache can be behind a direct write; the disk is the truth.  Reads the
 * request again directly, into the same buffer.  Throws, with a listener too: there
 * is no telling any more what is in the buffer.
 */
static void
reread_directly(SfReadJob *job, SfReadRequest *request)
{
	SF_ASSERT(!is_gathered_whole(request) && !request->io.in_flight);
	set_state(request, SF_READ_STARTED);
	request->io.files = sf_io_open(job->seg->storage, false);
	sf_io_start(&request->io);
	sf_io_wait(&request->io);
	arrive(job, request);
}

/* ---- checking ---- */

/*
 * Decide whether a request is read once more, and wait before it is if that is
 * needed.  False when the bytes that are there are all there is.
 *
 * Logical decoding may stream a transaction that is still running, whose values lie
 * in the gather buffers of another process.  So a unit that does not match is read
 * again until that process has written it, or its transaction has ended, and then once
 * more: the last write and the end may have come after the last look.
 */
static bool
prepare_retry(SfReadRequest *request)
{
	SF_ASSERT(request->state == SF_READ_ARRIVED && request->retry <= SF_RETRY_NONE);
	if (is_gathered_whole(request))
		return false;
	if (request->retry == SF_RETRY_DISK)
	{
		request->retry = SF_RETRY_WRITER;
		return true;
	}
	if (request->retry == SF_RETRY_NONE || !TransactionIdIsValid(CheckXidAlive))
		return false;
	if (TransactionIdIsInProgress(CheckXidAlive))
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
	else
		request->retry = SF_RETRY_NONE;
	return true;
}

/*
 * The stored bytes of a unit, checked; NULL when they do not match and the listener was
 * told so.  A bit remembers the result: with reading ahead, small pieces ask for the
 * same unit many times.
 */
static const char *
checked_unit(SfReadJob *job, const SfReadListener *listener, SfReadRequest *request, uint32 i)
{
	const SfUnit *unit = &request->units[i];
	const char *bytes = request->data + sf_sectors_to_bytes(unit->start - request->units[0].start);
	uint64		found;

	SF_ASSERT(i < request->nunits && request->state == SF_READ_ARRIVED);
	if (request->checked & (UINT64CONST(1) << i))
	{
		job->stats->units_cached++;
		return bytes;
	}
	while (!sfi_read_matches(job, unit, bytes, &found))
	{
		if (!prepare_retry(request))
		{
			sfi_read_report_mismatch(job, listener, request->first_unit + i, unit, found);
			return NULL;
		}
		reread_directly(job, request);
	}
	request->checked |= UINT64CONST(1) << i;
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

/* The unit and the target may overlap in any way; the object's last unit is shorter. */
static Wanted
wanted_of(const SfReadJob *job, uint64 unit_no)
{
	const SfReadTarget *target = job->target;
	uint64		start = sf_unit_start(unit_no);
	uint64		from = Max(start, target->offset);
	uint64		to = Min(start + sf_unit_plain_bytes(job->unit_space_bytes, unit_no),
						 target->offset + target->len);

	if (target->dst == NULL || from >= to)
		return (Wanted) {NULL, 0, 0};
	return (Wanted) {target->dst + (from - target->offset), from - start, to - from};
}

/* Decode a unit, right into the result if all of it is wanted.  A check is told of it. */
static void
deliver_encoded(SfReadJob *job, const SfReadListener *listener, uint64 unit_no,
				const SfUnit *unit, const char *stored, Wanted wanted)
{
	const char *plain;

	/* a check does without: the stored bytes are what was written */
	if (!job->decrypts)
		return;
	SF_ASSERT(wanted.skip + wanted.len <= sf_unit_plain_bytes(job->unit_space_bytes, unit_no));
	SF_ASSERT(listener == NULL || wanted.len == 0);
	if (wanted.len > 0 && wanted.len == sf_unit_plain_bytes(job->unit_space_bytes, unit_no))
	{
		(void) sfi_read_decode(job, listener, unit_no, unit, stored, wanted.dst);
		return;
	}
	plain = sfi_read_plain(job, listener, unit_no, unit, stored);
	if (plain != NULL && wanted.len > 0)
		memcpy(wanted.dst, plain + wanted.skip, wanted.len);
	if (listener != NULL)
		listener->plain(unit_no, plain, listener->arg);
}

void
sfi_read_deliver_unit(SfReadJob *job, const SfReadListener *listener, SfReadRequest *request,
					  uint32 i)
{
	uint64		unit_no = request->first_unit + i;
	const SfUnit *unit = &request->units[i];
	const char *stored = checked_unit(job, listener, request, i);
	Wanted		wanted = wanted_of(job, unit_no);
	bool		is_check = job->target->dst == NULL;

	if (stored == NULL || (wanted.len == 0 && !is_check))
		return;
	if (listener != NULL && listener->plain == NULL)
		return;
	if (!sfi_read_is_plain(job, unit))
	{
		deliver_encoded(job, listener, unit_no, unit, stored, wanted);
		return;
	}
	SF_ASSERT(wanted.skip + wanted.len <= unit->stored_bytes);

	if (wanted.len > 0)
		memcpy(wanted.dst, stored + wanted.skip, wanted.len);
	if (listener != NULL)
		listener->plain(unit_no, stored, listener->arg);
}

void
sfi_read_deliver_holes(SfReadJob *job, uint64 first_unit, uint64 end_unit)
{
	SF_ASSERT(first_unit <= end_unit);
	for (uint64 unit_no = first_unit; unit_no < end_unit; unit_no++)
	{
		Wanted		wanted = wanted_of(job, unit_no);

		if (wanted.len > 0)
			memset(wanted.dst, 0, wanted.len);
	}
}
