/*-------------------------------------------------------------------------
 *
 * needle.h
 *	  A pattern of bytes, and where it is in bytes that lie in memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_NEEDLE_H
#define SF_SQL_NEEDLE_H

#include "base/base.h"

/* Two bytes of a pattern, which all candidates have: where they are in it, and which. */
typedef struct SfPair
{
	int64		first;
	int64		second;
	uint8		first_byte;
	uint8		second_byte;
} SfPair;

/* The first of n starts in a text where both bytes are in their places; n: there is none. */
typedef int64 (*SfFindPair) (const SfPair *pair, const uint8 *text, int64 n);

typedef struct SfNeedle
{
	const uint8 *bytes;
	int64		len;			/* at least 1 */
	int64		lead_zeros;		/* so many bytes 0 it begins with */
	SfPair		pair;
	SfFindPair	find_pair;

	int64		seen;			/* starts that were looked at, .. */
	int64		work;			/* .. and what comparing candidates has cost */

	/* two-way; as soon as that was too much */
	bool		linear;
	bool		periodic;
	int64		cut;			/* the critical factorization */
	int64		shift;			/* after all behind the cut was found */
	int64		known;			/* so many bytes of the next candidate match */
} SfNeedle;

/* Prepare a pattern, which has to stay.  Never throws. */
extern void sfi_needle_begin(SfNeedle *needle, const uint8 *bytes, int64 len);

/*
 * The first match that begins at or behind *start, and before nstarts (all that a match
 * there would have is in the text); false: there is none.  Sets *start to where the next
 * match begins at the earliest; matches may overlap.  The caller goes on there, or else, if it
 * goes on behind it, with sfi_needle_skip().  May be cancelled.
 *
 * Linear: the time of all calls is that of the bytes between the first start and the last one.
 */
extern bool sfi_needle_find(SfNeedle *needle, const uint8 *text, int64 nstarts, int64 *start,
							int64 *match);

/* What is known of the next candidate is forgotten. */
static inline void
sfi_needle_skip(SfNeedle *needle)
{
	needle->known = 0;
}

/* The fastest function that the processor has.  pair.c */
extern SfFindPair sfi_pair_function(void);

#endif							/* SF_SQL_NEEDLE_H */
