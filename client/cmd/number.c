/*-------------------------------------------------------------------------
 *
 * number.c
 *	  Numbers that a user writes.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "number.h"

/* The number at the start of a text; *rest is what follows.  False: there is none that fits. */
static bool
parse_digits(const char *text, int64_t *number, char **rest)
{
	errno = 0;
	*number = strtoll(text, rest, 10);
	return isdigit((unsigned char) *text) && errno == 0;
}

bool
number_parse(const char *text, int64_t least, int64_t most, int64_t *number)
{
	char	   *rest;

	return parse_digits(text, number, &rest) && *rest == '\0' &&
		*number >= least && *number <= most;
}

bool
number_parse_bytes(const char *text, int64_t *bytes)
{
	static const char *const units[] = {"", "kB", "MB", "GB", "TB"};
	int64_t		factor = 1;
	char	   *rest;

	if (!parse_digits(text, bytes, &rest) || *bytes < 1)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++, factor *= 1000)
		if (strcasecmp(rest, units[i]) == 0)
			return !__builtin_mul_overflow(*bytes, factor, bytes);
	return false;
}
