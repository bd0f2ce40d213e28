/*-------------------------------------------------------------------------
 *
 * max_size.c
 *	  The limit of a column: max_size in the type modifier.
 *
 * A size is a number of 1 to 127 and a power of two of MB.  What cannot be written so
 * is refused, and nothing is rounded: \d and pg_dump show what the owner has asked for.
 * One size has one form, the one with the smallest power, since the server compares
 * modifiers bit by bit (ATTACH PARTITION, INHERITS).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"

#define MB_BYTES		((uint64_t) 1024 * 1024)
#define NUMBER_MAX		((uint64_t) SF_OPT_MAX_SIZE_NUMBER_MASK)
#define POWER_MAX		SF_OPT_MAX_SIZE_POWER_MASK
#define LARGEST_MB		(NUMBER_MAX << POWER_MAX)
#define DIGITS_MAX		12		/* more are too large, whatever the unit */

#define INVALID_SIZE	errcode(ERRCODE_INVALID_PARAMETER_VALUE)

uint64_t
sf_config_max_bytes(int32_t typmod)
{
	uint64_t	number;
	int			power;

	if (typmod < 0)
		return 0;
	number = (typmod >> SF_OPT_MAX_SIZE_NUMBER_SHIFT) & SF_OPT_MAX_SIZE_NUMBER_MASK;
	power = (typmod >> SF_OPT_MAX_SIZE_POWER_SHIFT) & SF_OPT_MAX_SIZE_POWER_MASK;
	return (number << power) * MB_BYTES;
}

/* A size as it is written: with the largest unit of which it is a whole number. */
static char *
size_text(uint64_t mb)
{
	static const char *const units[] = {"MB", "GB", "TB"};
	int			unit = 0;

	while (unit < lengthof(units) - 1 && mb > 0 && mb % 1024 == 0)
	{
		mb /= 1024;
		unit++;
	}
	return psprintf(UINT64_FORMAT " %s", mb, units[unit]);
}

char *
sf_config_size_text(uint64_t bytes)
{
	SF_ASSERT(bytes % MB_BYTES == 0);
	return size_text(bytes / MB_BYTES);
}

SF_NORETURN static void
refuse_form(const char *text)
{
	ereport(ERROR,
			(INVALID_SIZE,
			 errmsg("invalid size \"%s\" of securefile option \"max_size\"", text),
			 errhint("A size is a whole number and a unit, MB, GB or TB, as in 'max_size 96 GB'. 'max_size none' is no limit.")));
}

/* The two sizes beside one that has no form, each written with the same power or the next one. */
SF_NORETURN static void
refuse_inexact(const char *text, uint64_t mb)
{
	int			power = 0;

	while (mb >> power > NUMBER_MAX)
		power++;
	ereport(ERROR,
			(INVALID_SIZE,
			 errmsg("size \"%s\" of securefile option \"max_size\" cannot be stored exactly", text),
			 errdetail("A size is a number of 1 to 127 times a power of two of MB."),
			 errhint("The nearest sizes are %s and %s.", size_text((mb >> power) << power),
					 size_text(((mb >> power) + 1) << power))));
}

/* The MB of a text such as "96 GB"; more than the largest size stays more than that. */
static uint64_t
parse_mb(const char *text)
{
	const char *at = text;
	uint64_t	mb = 0;

	while (*at >= '0' && *at <= '9')
	{
		mb = mb * 10 + (*at++ - '0');
		if (at - text > DIGITS_MAX)
			mb = LARGEST_MB + 1;
	}
	if (at == text)
		refuse_form(text);
	at += strspn(at, " ");
	if (pg_strcasecmp(at, "GB") == 0)
		return mb * 1024;
	if (pg_strcasecmp(at, "TB") == 0)
		return mb * 1024 * 1024;
	if (pg_strcasecmp(at, "MB") != 0)
		refuse_form(text);
	return mb;
}

/* The bits of a size; 0: no limit.  ERROR if it has no form. */
static int32_t
size_bits(const char *text)
{
	uint64_t	mb;
	int			power = 0;

	if (pg_strcasecmp(text, "none") == 0)
		return 0;
	mb = parse_mb(text);
	if (mb == 0 || mb > LARGEST_MB)
		ereport(ERROR,
				(INVALID_SIZE,
				 errmsg("size \"%s\" of securefile option \"max_size\" is too %s", text,
						mb == 0 ? "small" : "large"),
				 errhint("Sizes are %s to %s. 'max_size none' is no limit.", size_text(1),
						 size_text(LARGEST_MB))));
	while (mb >> power > NUMBER_MAX && ((mb >> power) & 1) == 0)
		power++;
	if (mb >> power > NUMBER_MAX)
		refuse_inexact(text, mb);
	SF_ASSERT(power <= POWER_MAX);
	return (int32_t) (mb >> power) << SF_OPT_MAX_SIZE_NUMBER_SHIFT |
		power << SF_OPT_MAX_SIZE_POWER_SHIFT;
}

/* Looks at the bits, since a time without a limit is no retention. */
void
sf_config_require_limit(int32_t typmod)
{
	if (typmod < 0 || sf_config_max_bytes(typmod) > 0 ||
		(typmod >> SF_OPT_RETENTION_NUMBER_SHIFT & SF_OPT_RETENTION_NUMBER_MASK) == 0)
		return;
	ereport(ERROR,
			(INVALID_SIZE,
			 errmsg("securefile option \"retention\" needs \"max_size\""),
			 errdetail("Values that are kept after their removal take at most half of max_size."),
			 errhint("Give both, as in securefile('retention 7 days', 'max_size 96 GB'), or neither.")));
}

int32_t
sf_config_with_max_size(int32_t typmod, const char *text)
{
	int32_t		bits = typmod < 0 ? 0 : typmod & ~SF_OPT_MAX_SIZE_BITS;

	bits |= size_bits(text);
	sf_config_require_limit(bits);
	return bits == 0 ? -1 : bits;
}

const char *
sf_config_max_size_word(const char *word)
{
	static const char name[] = "max_size";
	size_t		len = strlen(name);

	if (strncmp(word, name, len) != 0 || (word[len] != ' ' && word[len] != '\0'))
		return NULL;
	return word + len + strspn(word + len, " ");
}
