/*-------------------------------------------------------------------------
 *
 * frozen.c
 *	  getrandom(2) of a machine that is resumed from one image again and again: it
 *	  always gives the same.  FROZEN_FAILS in the environment: it gives nothing.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

ssize_t
getrandom(void *bytes, size_t len, unsigned int flags)
{
	(void) flags;
	if (getenv("FROZEN_FAILS") != NULL)
	{
		errno = ENOSYS;
		return -1;
	}
	memset(bytes, 7, len);
	return (ssize_t) len;
}
