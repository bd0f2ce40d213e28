/*-------------------------------------------------------------------------
 *
 * reserved.c
 *	  Names of files that are not complete yet.
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reserved.h"
#include "text.h"

bool
reserved_is(const char *name)
{
	return strncmp(name, RESERVED_PREFIX, strlen(RESERVED_PREFIX)) == 0;
}

bool
reserved_refuse(const char *name, Failure *failure)
{
	if (!reserved_is(name))
		return true;
	return failure_say(failure, "names that begin with \"" RESERVED_PREFIX "\" are those of files "
					   "that are not complete\nHint: \"ls --unfinished\" lists them.");
}

char *
reserved_make(const char *name, const struct stat *source)
{
	return text_make(RESERVED_PREFIX "%lld-%lld.%09ld/%s", (long long) source->st_size,
					 (long long) source->st_mtim.tv_sec, source->st_mtim.tv_nsec, name);
}

const char *
reserved_final(const char *name, int64_t *size)
{
	int			used = 0;

	/* the time may be one before 1970 */
	if (sscanf(name, RESERVED_PREFIX "%" SCNd64 "-%*[0-9.-]/%n", size, &used) != 1 || used == 0 ||
		*size < 0)
		return NULL;
	return name + used;
}
