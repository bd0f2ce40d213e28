/*-------------------------------------------------------------------------
 *
 * retention.c
 *	  How long a column keeps what was removed: retention in the type modifier.
 *
 * A time is 1 to 63 minutes, hours, days or weeks.  What cannot be written so is refused, and
 * nothing is rounded: \d and pg_dump show the time that the owner has asked for.  One time has
 * one form, the one with the largest unit of which it is a whole number, since the server
 * compares modifiers bit by bit (ATTACH PARTITION, INHERITS).  Weeks are for times that cannot be
 * said in days: 2 weeks are shown as 14 days.
 *
 * What is kept takes space that nobody has asked for by an INSERT.  So a retention needs a
 * limit, max_size, and what is kept takes at most half of that.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"

#define MINUTE_US		((int64_t) 60 * 1000 * 1000)
#define NUMBER_MAX		SF_OPT_RETENTION_NUMBER_MASK
#define DIGITS_MAX		12		/* more are too large, whatever the unit */

#define INVALID_TIME	errcode(ERRCODE_INVALID_PARAMETER_VALUE)

/* A unit of time.  Its place in the table is its number in the modifier. */
typedef struct TimeUnit
{
	const char *name;			/* of one; several have an "s" behind it */
	int64_t		minutes;
} TimeUnit;

static const TimeUnit units[] = {
	{"minute", 1},
	{"hour", 60},
	{"day", 24 * 60},
	{"week", 7 * 24 * 60},
};

#define DAYS			2
#define LARGEST_UNIT	(lengthof(units) - 1)
#define LARGEST_MINUTES	(NUMBER_MAX * units[LARGEST_UNIT].minutes)

StaticAssertDecl(lengthof(units) == SF_OPT_RETENTION_UNIT_MASK + 1, "each number is a unit");

/* Minutes that the bits of a type modifier say, also where there is no max_size. */
static int64_t
stored_minutes(int32_t typmod)
{
	int64_t		number;
	int			unit;

	if (typmod < 0)
		return 0;
	number = (typmod >> SF_OPT_RETENTION_NUMBER_SHIFT) & SF_OPT_RETENTION_NUMBER_MASK;
	unit = (typmod >> SF_OPT_RETENTION_UNIT_SHIFT) & SF_OPT_RETENTION_UNIT_MASK;
	return number * units[unit].minutes;
}

int64_t
sf_config_retention_us(int32_t typmod)
{
	return sf_config_max_bytes(typmod) == 0 ? 0 : stored_minutes(typmod) * MINUTE_US;
}

/* The largest unit of which a time is a whole number; days, where they serve. */
static int
unit_of(int64_t minutes)
{
	int			unit = LARGEST_UNIT;

	SF_ASSERT(minutes > 0);
	if (minutes / units[DAYS].minutes <= NUMBER_MAX)
		unit = DAYS;
	while (minutes % units[unit].minutes != 0)
		unit--;
	return unit;
}

/* A time as it is written. */
static char *
time_text(int64_t minutes)
{
	const TimeUnit *unit = &units[unit_of(minutes)];
	int64_t		number = minutes / unit->minutes;

	return psprintf(INT64_FORMAT " %s%s", number, unit->name, number == 1 ? "" : "s");
}

/* Bits that are not the canonical ones are shown as those that are. */
char *
sf_config_retention_text(int32_t typmod)
{
	SF_ASSERT(sf_config_retention_us(typmod) > 0);
	return time_text(stored_minutes(typmod));
}

/* ERROR: the text is no time at all. */
SF_NORETURN static void
refuse_no_time(const char *text)
{
	ereport(ERROR,
			(INVALID_TIME,
			 errmsg("invalid time \"%s\" of securefile option \"retention\"", text),
			 errhint("A time is a whole number of minutes, hours, days or weeks, as in 'retention 7 days'. 'retention none' keeps nothing.")));
}

/* The greatest time with a form below one without: there is one, since 1 minute has a form. */
static int64_t
nearest_below(int64_t minutes)
{
	int64_t		nearest = 0;

	for (int i = 0; i < lengthof(units); i++)
		nearest = Max(nearest, Min(minutes / units[i].minutes, NUMBER_MAX) * units[i].minutes);
	SF_ASSERT(nearest > 0 && nearest < minutes);
	return nearest;
}

/* The least time with a form that is above one without.  63 weeks are above all of these. */
static int64_t
nearest_above(int64_t minutes)
{
	int64_t		nearest = LARGEST_MINUTES;

	for (int i = 0; i < lengthof(units); i++)
	{
		int64_t		number = minutes / units[i].minutes + 1;

		if (number <= NUMBER_MAX)
			nearest = Min(nearest, number * units[i].minutes);
	}
	SF_ASSERT(nearest > minutes);
	return nearest;
}

/* ERROR: the time is neither too short nor too long, and has no form. */
SF_NORETURN static void
refuse_inexact_time(const char *text, int64_t minutes)
{
	ereport(ERROR,
			(INVALID_TIME,
			 errmsg("time \"%s\" of securefile option \"retention\" cannot be stored exactly", text),
			 errdetail("A time is 1 to 63 minutes, hours, days or weeks."),
			 errhint("The nearest times are %s and %s.", time_text(nearest_below(minutes)),
					 time_text(nearest_above(minutes)))));
}

/* Is that the name of a unit, in any case?  "1 days" and "7 day" are accepted, too. */
static bool
is_unit(const TimeUnit *unit, const char *text)
{
	size_t		len = strlen(unit->name);

	return pg_strncasecmp(text, unit->name, len) == 0 &&
		(text[len] == '\0' || pg_strcasecmp(text + len, "s") == 0);
}

/* The minutes of a text such as "7 days"; more than the longest time stays more than that. */
static int64_t
parse_minutes(const char *text)
{
	const char *at = text;
	int64_t		number = 0;

	while (*at >= '0' && *at <= '9')
	{
		number = number * 10 + (*at++ - '0');
		if (at - text > DIGITS_MAX)
			number = LARGEST_MINUTES + 1;
	}
	if (at == text)
		refuse_no_time(text);
	at += strspn(at, " ");
	for (int i = 0; i < lengthof(units); i++)
	{
		if (is_unit(&units[i], at))
			return number * units[i].minutes;
	}
	refuse_no_time(text);
}

int32_t
sf_config_retention_bits(const char *text)
{
	int64_t		minutes;
	int64_t		number;
	int			unit;

	if (pg_strcasecmp(text, "none") == 0)
		return 0;
	minutes = parse_minutes(text);
	if (minutes == 0 || minutes > LARGEST_MINUTES)
		ereport(ERROR,
				(INVALID_TIME,
				 errmsg("time \"%s\" of securefile option \"retention\" is too %s", text,
						minutes == 0 ? "short" : "long"),
				 errhint("Times are %s to %s. 'retention none' keeps nothing.", time_text(1),
						 time_text(LARGEST_MINUTES))));
	/* with a smaller unit the number would be larger */
	unit = unit_of(minutes);
	number = minutes / units[unit].minutes;
	if (number > NUMBER_MAX)
		refuse_inexact_time(text, minutes);
	return (int32_t) number << SF_OPT_RETENTION_NUMBER_SHIFT | unit << SF_OPT_RETENTION_UNIT_SHIFT;
}

const char *
sf_config_retention_word(const char *word)
{
	static const char name[] = "retention";
	size_t		len = strlen(name);

	if (strncmp(word, name, len) != 0 || (word[len] != ' ' && word[len] != '\0'))
		return NULL;
	return word + len + strspn(word + len, " ");
}
