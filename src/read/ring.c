/*-------------------------------------------------------------------------
 *
 * ring.c
 *	  Requests in flight, in the order of their units.
 *
 * One engine for both ways of reading: a range in one go (units.c) and reading
 * ahead (ahead.c).  They differ in where they look units up, in how far they plan,
 * and in what they do about a unit that cannot be read.
 *
 *		 slots	  [ arrived | started | started |  idle   ]	  size 4, busy 3
 *					oldest						planned next
 *
 *		 units	  7	 8 | 9	10 11 | 12 .. 18 | 19 ..
 *				  holes  request	 request	next_unit
 *
 * Requests are planned in the order of their units, so the oldest has the unit that is
 * wanted next, or that unit is a hole: units that no request has, up to next_unit, are
 * holes.  Planning ends before a unit that is not where data files are.  Nobody may
 * ever ask for that unit, so it is no error here.
 *
 * At most depth requests are busy.  A long queue pays only for bytes that are wanted,
 * so the depth doubles with each request that was taken whole, until it is most.
 *
 * An ERROR leaves a ring as it is, with requests in flight.  Nothing dangles, for slots
 * and buffers are never given back; sfi_ring_prepare() waits for the requests.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"

/* The request in the i-th place from the oldest on. */
static SfReadRequest *
ring_slot_of(const SfReadRing *ring, int i)
{
	return &ring->slots[(ring->oldest + i) % ring->size];
}

/* Busy requests are in the order of their units, and what is planned lies behind them. */
bool
sfi_ring_is_valid(const SfReadRing *ring)
{
	uint64		end = 0;

	if (ring->size <= 0 || ring->oldest < 0 || ring->oldest >= ring->size || ring->busy < 0 ||
		ring->busy > ring->size || ring->depth <= 0 || ring->depth > ring->size)
		return false;
	for (int i = 0; i < ring->busy; i++)
	{
		const SfReadRequest *request = ring_slot_of(ring, i);

		if ((request->state != SF_READ_STARTED && request->state != SF_READ_ARRIVED) ||
			request->first_unit < end)
			return false;
		end = SfReadRequestEnd(request);
	}
	return end <= ring->next_unit;
}

void
sfi_ring_prepare(SfReadRing *ring, int size, uint64 next_unit)
{
	SF_ASSERT(size > 0 && ring->size >= 0);
	if (ring->size < size)
	{
		char	   *mem = sf_io_buffer_alloc((Size) (size - ring->size) * SF_READ_REQUEST_BYTES);

		for (; ring->size < size; ring->size++, mem += SF_READ_REQUEST_BYTES)
			ring->slots[ring->size].buf = mem;
	}
	for (int i = 0; i < ring->size; i++)
	{
		if (ring->slots[i].io.in_flight)
			sf_io_reap_all();
		sfi_read_drop_request(&ring->slots[i]);
	}

	/*
	 * Nothing is known yet of what the caller will want, so it begins with
	 * one request.
	 */
	ring->oldest = ring->busy = 0;
	ring->depth = 1;
	ring->next_unit = next_unit;
}

static SfReadRequest *
oldest_request(const SfReadRing *ring)
{
	return ring->busy > 0 ? ring_slot_of(ring, 0) : NULL;
}

/* Its place is free, and the next one is the oldest. */
static void
drop_oldest(SfReadRing *ring)
{
	SF_ASSERT(ring->busy > 0);
	sfi_read_drop_request(ring_slot_of(ring, 0));
	ring->oldest = (ring->oldest + 1) % ring->size;
	ring->busy--;
}

/* ---- fill ---- */

SfReadRequest *
sfi_ring_plan(SfReadRing *ring, SfReadJob *job, const SfUnit *units, uint32 n)
{
	SfReadRequest *request;

	SF_ASSERT(sfi_ring_is_valid(ring));
	if (ring->busy >= ring->depth)
		return NULL;

	/*
	 * Holes need no request: they are delivered when the unit behind them is
	 * reached.
	 */
	for (; n > 0 && units->start == SF_HOLE; units++, n--)
		ring->next_unit++;
	if (n == 0 || !sfi_read_is_there(job, units))
		return NULL;
	request = ring_slot_of(ring, ring->busy);
	sfi_read_plan_request(job, units, ring->next_unit, n, request);
	ring->next_unit = SfReadRequestEnd(request);
	return request;
}

void
sfi_ring_start(SfReadRing *ring, SfReadJob *job, bool early)
{
	/*
	 * It takes its place only when it has been started: an ERROR leaves the
	 * ring sound.
	 */
	SF_ASSERT(ring->busy < ring->depth);
	SF_ASSERT(SfReadRequestEnd(ring_slot_of(ring, ring->busy)) == ring->next_unit);
	sfi_read_start_request(job, ring_slot_of(ring, ring->busy), early);
	ring->busy++;
	SF_ASSERT(sfi_ring_is_valid(ring));
}

/* ---- take ---- */

bool
sfi_ring_wait(SfReadRing *ring, SfReadJob *job, const SfReadListener *listener, uint64 unit_no)
{
	SfReadRequest *request = oldest_request(ring);

	SF_ASSERT(sfi_ring_is_valid(ring) && unit_no <= ring->next_unit);
	if (request == NULL)
		return unit_no < ring->next_unit;
	return unit_no < request->first_unit || sfi_read_wait_request(job, listener, request);
}

/*
 * The last byte counts, not the last unit: a target that ends inside a unit is followed
 * by one that begins there, and wants the unit again, without a second check.
 */
uint64
sfi_ring_take(SfReadRing *ring, SfReadJob *job, const SfReadListener *listener,
			  uint64 unit_no, uint64 end)
{
	SfReadRequest *request = oldest_request(ring);
	uint64		holes_end = request != NULL ? request->first_unit : ring->next_unit;

	SF_ASSERT(unit_no < end);
	if (unit_no < holes_end)
	{
		end = Min(end, holes_end);
		sfi_read_deliver_holes(job, unit_no, end);
		return end;
	}
	SF_ASSERT(request != NULL && unit_no < SfReadRequestEnd(request));
	end = Min(end, SfReadRequestEnd(request));
	for (; unit_no < end; unit_no++)
		sfi_read_deliver_unit(job, listener, request, unit_no - request->first_unit);
	if (sf_unit_start(SfReadRequestEnd(request)) <= job->target->offset + job->target->len)
	{
		drop_oldest(ring);
		ring->depth = Min(ring->depth * 2, ring->most);
	}
	return unit_no;
}

uint64
sfi_ring_skip(SfReadRing *ring)
{
	uint64		end;

	if (ring->busy == 0)
		return ++ring->next_unit;
	end = SfReadRequestEnd(ring_slot_of(ring, 0));
	drop_oldest(ring);
	SF_ASSERT(sfi_ring_is_valid(ring));
	return end;
}
