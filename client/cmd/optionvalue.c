/*-------------------------------------------------------------------------
 *
 * optionvalue.c
 *	  The values of options that are more than a text or a flag.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"
#include "number.h"
#include "optionvalue.h"
#include "output.h"

#define MAX_JOBS		64
#define MAX_GRANULE		(1024 * 1024 * 1024)
#define MAX_PART		256
#define MAX_BATCH		10000
#define MOST_KEPT		1000000
#define MAX_TIMEOUT		86400
#define MAX_RETRIES		20

static void
add_assignment(Options *options, const char *column, const char *value)
{
	options->sets = realloc(options->sets, (options->nsets + 1) * sizeof(Assignment));
	if (options->sets == NULL)
		abort();
	options->sets[options->nsets++] = (Assignment) {column, value};
}

/* --set: the text becomes column and value, in place. */
static void
add_set(Options *options, char *text, struct argp_state *state)
{
	char	   *equals = strchr(text, '=');

	if (equals == NULL || equals == text)
		argp_error(state, "--set wants COLUMN=VALUE, not \"%s\"", output_quoted(text));
	*equals = '\0';
	add_assignment(options, text, equals + 1);
}

/* A whole number from least to most. */
static int
parse_number(const char *option, const char *text, int least, int most, struct argp_state *state)
{
	int64_t		number;

	if (!number_parse(text, least, most, &number))
		argp_error(state, "--%s wants a number from %d to %d, not \"%s\"",
				   option, least, most, output_quoted(text));
	return (int) number;
}

static int64_t
parse_bytes(const char *option, const char *text, struct argp_state *state)
{
	int64_t		bytes;

	if (!number_parse_bytes(text, &bytes))
		argp_error(state, "--%s wants a number of bytes, perhaps with kB, MB, GB or TB behind it, "
				   "not \"%s\"", option, output_quoted(text));
	return bytes;
}

/* As securefile_extents() wants it. */
static int64_t
parse_granule(const char *text, struct argp_state *state)
{
	int64_t		bytes;

	if (!number_parse_bytes(text, &bytes) || bytes > MAX_GRANULE || bytes % PGSF_UNIT_BYTES != 0)
		argp_error(state, "--granule wants a multiple of %d bytes, up to %d, not \"%s\"",
				   PGSF_UNIT_BYTES, MAX_GRANULE, output_quoted(text));
	return bytes;
}

static LinkMode
parse_links(const char *text, struct argp_state *state)
{
	static const char *const names[] = {
		[LINKS_SKIP] = "skip",[LINKS_FOLLOW] = "follow",[LINKS_KEEP] = "keep",
		[LINKS_ERROR] = "error"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0)
			return (LinkMode) i;
	argp_error(state, "--links wants skip, follow, keep or error, not \"%s\"",
			   output_quoted(text));
	return LINKS_SKIP;
}

static void
add_filter_file(Options *options, const char *path, struct argp_state *state)
{
	Failure		failure;

	if (!filter_add_file(&options->filter, path, &failure))
		argp_error(state, "--exclude-from: %s", failure.text);
}

/* The options of trees that are handled by a function; false if it is none of them. */
static bool
parse_tree_option(Options *options, int key, char *arg, struct argp_state *state)
{
	switch (key)
	{
		case KEY_EXCLUDE:
		case KEY_INCLUDE:
			filter_add(&options->filter, arg, key == KEY_INCLUDE);
			break;
		case KEY_EXCLUDE_FROM:
			add_filter_file(options, arg, state);
			break;
		case KEY_LINKS:
			options->links = parse_links(arg, state);
			break;
		default:
			return false;
	}
	return true;
}

/* The options that are numbers; false if it is none of them. */
static bool
parse_number_option(Options *options, int key, char *arg, struct argp_state *state)
{
	switch (key)
	{
		case 'j':
			options->jobs = parse_number("jobs", arg, 1, MAX_JOBS, state);
			break;
		case KEY_BATCH:
			options->batch = parse_number("batch", arg, 1, MAX_BATCH, state);
			break;
		case KEY_MAX_SIZE:
			options->max_size = parse_bytes("max-size", arg, state);
			break;
		case KEY_DELTA_FROM:
			options->delta_from = parse_bytes("delta-from", arg, state);
			break;
		case KEY_RATE:
			options->rate = parse_bytes("rate", arg, state);
			break;
		case KEY_GRANULE:
			options->delta_granule = parse_granule(arg, state);
			break;
		case KEY_PART_SIZE:
			options->part_size = parse_number("part-size", arg, 1, MAX_PART, state);
			break;
		case KEY_TIMEOUT:
			options->timeout = parse_number("timeout", arg, 1, MAX_TIMEOUT, state);
			break;
		case KEY_RETRIES:
			options->retries = parse_number("retries", arg, 0, MAX_RETRIES, state);
			break;
		case KEY_MAX_DELETE:
			options->max_delete = parse_number("max-delete", arg, 0, INT_MAX, state);
			break;
		case KEY_KEEP:
			options->keep = parse_number("keep", arg, 1, MOST_KEPT, state);
			break;
		default:
			return false;
	}
	return true;
}

bool
optionvalue_take(Options *options, int key, char *arg, struct argp_state *state)
{
	switch (key)
	{
		case 'w':
			options->password = PASSWORD_NEVER;
			break;
		case 'W':
			options->password = PASSWORD_ALWAYS;
			break;
		case KEY_PREFIX:
			options->prefix = arg;
			options->has_prefix = true;
			break;
		case KEY_SET:
			add_set(options, arg, state);
			break;
		case KEY_SET_NULL:
			add_assignment(options, arg, NULL);
			break;
		default:
			return parse_tree_option(options, key, arg, state) ||
				parse_number_option(options, key, arg, state);
	}
	return true;
}
