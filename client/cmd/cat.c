/*-------------------------------------------------------------------------
 *
 * cat.c
 *	  securefile cat NAME...
 *
 *-------------------------------------------------------------------------
 */
#include <unistd.h>

#include "names.h"
#include "transfer.h"
#include "verbs.h"

static bool
cat_one(Session *session, const Options *options, const char *name, Failure *failure)
{
	(void) options;
	return transfer_get(session, name, STDOUT_FILENO, failure) >= 0;
}

int
verb_cat(const Options *options)
{
	return names_each(options, cat_one);
}
