/*-------------------------------------------------------------------------
 *
 * lock.c
 *	  The lock of everything that is printed.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <time.h>

#include "output.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void
output_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
output_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

bool
output_lock_within(int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	return pthread_mutex_timedlock(&lock, &until) == 0;
}
