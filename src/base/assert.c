/*-------------------------------------------------------------------------
 *
 * assert.c
 *	  What happens when an assertion fails.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <unistd.h>

void
sf_base_assertion_failed(const char *name, const char *condition, const char *file, int line)
{
	write_stderr("TRAP: securefile assertion failed: %s%s, file %s, line %d, process %d\n",
				 name, condition, file, line, (int) getpid());
	fflush(stderr);
	abort();
}
