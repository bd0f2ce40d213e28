/*-------------------------------------------------------------------------
 *
 * number.h
 *	  Numbers that a user writes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_NUMBER_H
#define SECUREFILE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number from least to most. */
extern bool number_parse(const char *text, int64_t least, int64_t most, int64_t *number);

/* A number of bytes, at least 1, perhaps with kB, MB, GB or TB behind it: powers of ten. */
extern bool number_parse_bytes(const char *text, int64_t *bytes);

#endif							/* SECUREFILE_NUMBER_H */
