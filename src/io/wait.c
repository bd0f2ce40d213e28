/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waiting for the system: under which wait event, how often a call is made
 *	  again, and what is reported only once.
 *
 * Below io.c and open.c, which both wait.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "io/io_internal.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/wait_event.h"

/* How often in a row a call is made again: for some ten seconds of EAGAIN. */
#define MAX_REPEATS		10000

/*
 * Writers hold interrupts while they wait, so a call that the system never takes
 * has to end by itself.
 */
bool
sfi_io_repeat(int32 result, uint32 *repeats)
{
	if ((result != -EINTR && result != -EAGAIN && result != -EBUSY) || ++*repeats > MAX_REPEATS)
		return false;
	CHECK_FOR_INTERRUPTS();
	if (result != -EINTR)
		pg_usleep(1000L);
	return true;
}

/* Where names can be registered, the first call does so. */
static uint32
wait_event_of(SfIoWait which)
{
	static const char *const names[SF_IO_WAITS] = {
		[SF_IO_WAIT_READ] = "SecurefileDataRead",
		[SF_IO_WAIT_WRITE] = "SecurefileDataWrite",
		[SF_IO_WAIT_SYNC] = "SecurefileDataSync",
		[SF_IO_WAIT_EXTEND] = "SecurefileDataExtend",
	};
	static uint32 events[SF_IO_WAITS];

	SF_ASSERT(which >= 0 && which < SF_IO_WAITS);
	SF_WAIT_EVENT_DEFINE(events[which], names[which]);
	return events[which];
}

void
sfi_io_begin_wait(SfIoWait which)
{
	pgstat_report_wait_start(wait_event_of(which));
}

void
sfi_io_end_wait(SfIoWait which, uint64 us)
{
	pgstat_report_wait_end();
	sfi_io_charge_time(which, us);
}

/* The flags, one for each notice. */
static pg_atomic_uint32 *notices = NULL;

const SfSharedArea sf_io_notices_area = {
	.name = "securefile I/O notices", .at = (void **) &notices,
	.bytes = SF_IO_NOTICES * sizeof(pg_atomic_uint32)
};

bool
sfi_io_first_notice(int which)
{
	static bool said[SF_IO_NOTICES];

	SF_ASSERT(which >= 0 && which < SF_IO_NOTICES);
	if (said[which])
		return false;
	said[which] = true;
	return pg_atomic_exchange_u32(&notices[which], 1) == 0;
}
