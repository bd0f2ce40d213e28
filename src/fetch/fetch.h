/*-------------------------------------------------------------------------
 *
 * fetch.h
 *	  Data of filesystem_like_logging columns that is not on this server, since it is not in
 *	  WAL: brought from another server that has it, unit by unit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FETCH_H
#define SF_FETCH_H

#include "base/base.h"
#include "base/shared.h"

/* Shared memory of the room. */
extern const SfSharedArea sf_fetch_area;
extern const SfSharedArea sf_fetch_columns_area;

#endif							/* SF_FETCH_H */
