/*-------------------------------------------------------------------------
 *
 * first.c
 *	  Wakes the address sanitizer before anything else in a process begins.
 *
 * Else that is the first malloc(), wherever it is; when that is in bindtextdomain()
 * (libgpg-error calls it as it is loaded, and is a library of Debian's server), the
 * sanitizer asks for the text of an error, whose lock is held, and the process hangs.
 * Linked with -z initfirst.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

static void first(void) __attribute__((constructor));

static void
first(void)
{
	void	   *volatile block = malloc(1);

	free(block);
}
