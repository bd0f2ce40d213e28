/*-------------------------------------------------------------------------
 *
 * later.c
 *	  What a later version of the library has written: pages, locators, WAL.
 *
 * After a step back to an older library such things are there, and they are whole.  So they
 * are refused under an error of their own: what is damaged may be repaired, given up or
 * overwritten, and these may not.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#define LATER_MESSAGE	"%s has format version %u, which this library does not know"

void
sf_base_report_later(const char *what, uint32 version, uint32 known)
{
	SF_ASSERT(version > known);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(LATER_MESSAGE, what, version),
			 errdetail("Library %s knows versions up to %u.", SF_VERSION, known),
			 errhint("Install the later version of securefile that has written it, and restart the server. If there was none, it is damaged: run securefile_check() on the column.")));
}

bool
sf_base_is_later(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED && error->message_id != NULL &&
		strcmp(error->message_id, LATER_MESSAGE) == 0;
}
