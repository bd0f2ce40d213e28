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
 * values; what was done is added to the sum.  The table is locked.
 */
extern void sfi_maintain_column(const SfCheckColumn *column, SfMaintain *sum);

#endif							/* SF_SQL_MAINTAIN_H */
