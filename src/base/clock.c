/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  A clock that does not jump forward.
 *
 * What is kept for a time must not be lost because somebody sets the server's clock, or a time
 * server does.  So a span of time is believed only if it has passed on the clock that is never
 * set, too: since the server was started, no more time has gone by than that clock tells.  A
 * clock that is set back makes ages shorter, or negative, and what waits for them waits longer.
 *
 * The time of the start itself is the wall clock's.  A server that is started with a wrong clock
 * goes by that.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <time.h>

#include "utils/timestamp.h"

/* Both clocks at the start of the server; its processes inherit them. */
static int64 start_wall_us;
static int64 start_running_us;

/* Microseconds of the clock that is never set, and goes on while the machine sleeps. */
static int64
running_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

void
sf_base_clock_begin(void)
{
	start_wall_us = GetCurrentTimestamp();
	start_running_us = running_us();
}

int64
sf_base_steady_time(void)
{
	int64		wall = GetCurrentTimestamp();
	int64		steady = start_wall_us + (running_us() - start_running_us);

	SF_ASSERT(sf_base_preloaded && start_wall_us != 0);
	if (SF_FAULT_SKIPS(clock_forward))
		wall += 365 * USECS_PER_DAY;
	if (SF_FAULT_SKIPS(time_passes))
	{
		wall += 100 * USECS_PER_DAY;
		steady += 100 * USECS_PER_DAY;
	}
	return Min(wall, steady);
}
