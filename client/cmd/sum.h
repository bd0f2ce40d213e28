/*-------------------------------------------------------------------------
 *
 * sum.h
 *	  Sums of numbers that a server has sent.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_SUM_H
#define SECUREFILE_SUM_H

#include <stdint.h>

/* The sum of numbers that are not negative, or the largest number. */
static inline int64_t
sum_of(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

#endif							/* SECUREFILE_SUM_H */
