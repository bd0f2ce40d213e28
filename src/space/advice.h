/*-------------------------------------------------------------------------
 *
 * advice.h
 *	  The index of advice on duplicates (advice.c), for the sweep that keeps it small
 *	  (advice_sweep.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SPACE_ADVICE_H
#define SF_SPACE_ADVICE_H

#include "format/share.h"
#include "space/space.h"

/* A bucket with one entry more is split. */
#define SFI_ADVICE_SWEEP_AT	(SF_ADVICE_BUCKET_MAX * 3 / 4 - 1)

/* Copy the bucket of a key; false: there is no index, or it is damaged. */
extern bool sfi_advice_copy(SfSegment *seg, uint64 key, SfAdviceBucket *copy);

/* Split the bucket of a key, if it has so many entries. */
extern void sfi_advice_split(SfSegment *seg, uint64 key, int nentries);

#endif							/* SF_SPACE_ADVICE_H */
