/*-------------------------------------------------------------------------
 *
 * maintain.h
 *	  One pass of the monitor over one column, in the foreground.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_MAINTAIN_H
#define SF_SQL_MAINTAIN_H

#include "check/check.h"

/*
 * Free what can be freed, and cut the free tail, all of it but for some space for the next
 * values; what was done is added to the sum.  A table that is not locked may have been dropped
 * meanwhile: then nothing is done, or an ERROR says that there is no segment.
 */
extern void sfi_maintain_column(const SfCheckColumn *column, SfMaintain *sum);

#endif							/* SF_SQL_MAINTAIN_H */
