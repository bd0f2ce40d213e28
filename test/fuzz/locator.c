/*-------------------------------------------------------------------------
 *
 * locator.c
 *	  Damaged locators for the decoder: it says what is wrong with them, or what it
 *	  took can be read to its end and encoded to the same bytes.
 *
 *	  locator SECONDS SEED [FILE ...]
 *
 * Starts from locators of all shapes and the files (which are inputs that found
 * something once), and changes them at random; a changed one that gets an answer not
 * seen before is changed further.  Built with the address and undefined behaviour
 * sanitizers, which stop it; the input that it stopped at is in ./failed.
 *
 *-------------------------------------------------------------------------
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format/format.h"

#define MAX_INPUT		(SF_LOCATOR_MAX_SIZE + 64)
#define MAX_KNOWN		2000
#define ANSWERS			4096

typedef struct Input
{
	size_t		len;
	uint8_t		bytes[MAX_INPUT];
} Input;

static Input known[MAX_KNOWN];
static int	nknown;
static const SfSecret secret = {"sixteen bytes .."};
static uint64_t random_state;

static uint64_t
random_number(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

static void
stop(const char *what)
{
	fprintf(stderr, "locator: %s\n", what);
	abort();
}

/* ---- the decoder's answer ---- */

/* What was taken must be whole: read all of it, and encode it again. */
static void
check_taken(const uint8_t *bytes, size_t len, const SfLocator *loc)
{
	static SfRun runs[SF_FLAT_MAX_RUNS];
	static uint64_t checksums[SF_FLAT_MAX_UNITS];
	static uint8_t again[SF_LOCATOR_MAX_SIZE];
	bool		flat = !(loc->flags & SF_LOC_INODE);
	uint64_t	sectors = 0;

	if (loc->nunits != SF_UNITS_OF(loc->length_bytes) || loc->encoded != bytes ||
		loc->signed_bytes != len - SF_LOCATOR_MAC_SIZE)
		stop("fields contradict each other");
	for (uint32_t i = 0; flat && i < loc->nruns; i++)
	{
		runs[i] = sf_format_locator_run(loc, i);
		sectors += runs[i].nsectors;
	}
	for (uint32_t i = 0; flat && i < loc->nunits; i++)
		checksums[i] = sf_format_locator_checksum(loc, i);
	if (flat && sectors != SF_BYTES_TO_SECTORS(loc->length_bytes))
		stop("runs do not add up");
	if (sf_format_locator_encode(again, loc, runs, checksums, &secret) != len)
		stop("another length");
	if (sf_format_locator_genuine(loc, &secret) != (memcmp(again, bytes, len) == 0))
		stop("the hash takes others for genuine, or genuine ones for others");
}

/* Something that tells answers apart. */
static unsigned
answer_to(const Input *input)
{
	/* memory that ends where the input ends */
	uint8_t    *bytes = malloc(input->len == 0 ? 1 : input->len);
	SfLocator	loc;
	const char *wrong;
	unsigned	answer;

	memcpy(bytes, input->bytes, input->len);
	wrong = sf_format_locator_decode(bytes, input->len, &loc);
	if (wrong == NULL)
	{
		check_taken(bytes, input->len, &loc);
		answer = 1 + loc.flags * 1024 + loc.nruns * 7 + loc.depth * 131;
	}
	else
	{
		answer = 2 * ANSWERS;
		for (const char *c = wrong; *c != '\0'; c++)
			answer = answer * 31 + (unsigned char) *c;
	}
	free(bytes);
	return answer % ANSWERS;
}

/* ---- inputs ---- */

static void
keep(const Input *input)
{
	known[nknown < MAX_KNOWN ? nknown++ : (int) random_number(MAX_KNOWN)] = *input;
}

/* A flat locator, sound but for its length: runs of that many sectors, one map page each. */
static void
keep_flat(uint64_t length_bytes, uint32_t sectors_a_run)
{
	SfLocator	loc = {.length_bytes = length_bytes, .table_oid = 16384, .attnum = 2,
		.generation = 1, .object_id = 7, .incarnation = 42};
	SfRun		runs[SF_FLAT_MAX_RUNS + 1];
	uint64_t	checksums[SF_FLAT_MAX_UNITS + 1] = {0};
	uint64_t	left = SF_BYTES_TO_SECTORS(length_bytes);
	Input		input;

	loc.nunits = SF_UNITS_OF(length_bytes);
	for (; left > 0; left -= runs[loc.nruns++].nsectors)
	{
		runs[loc.nruns].start = (uint64_t) loc.nruns * SF_MAP_SECTORS;
		runs[loc.nruns].nsectors = left < sectors_a_run ? left : sectors_a_run;
	}
	input.len = sf_format_locator_encode(input.bytes, &loc, runs, checksums, &secret);
	keep(&input);
}

static void
keep_inode(uint64_t length_bytes, uint16_t depth)
{
	SfLocator	loc = {.length_bytes = length_bytes, .flags = SF_LOC_INODE, .depth = depth,
		.table_oid = 16384, .attnum = 2, .generation = 1, .object_id = 7, .incarnation = 42,
	.root_page = 2, .root_stamp = 3};
	Input		input;

	loc.nunits = SF_UNITS_OF(length_bytes);
	input.len = sf_format_locator_encode(input.bytes, &loc, NULL, NULL, &secret);
	keep(&input);
}

static void
keep_file(const char *name)
{
	FILE	   *file = fopen(name, "rb");
	Input		input;

	if (file == NULL)
	{
		perror(name);
		exit(1);
	}
	input.len = fread(input.bytes, 1, MAX_INPUT, file);
	fclose(file);
	keep(&input);
}

/* Numbers at which something begins or ends. */
static uint64_t
border(void)
{
	static const uint64_t borders[] = {0, 1, 2, 255, 256, SF_FLAT_MAX_UNITS, SF_MAP_SECTORS,
		SF_UNIT_SIZE, INT32_MAX, UINT32_MAX, INT64_MAX, (uint64_t) INT64_MAX + 1, UINT64_MAX};

	return borders[random_number(sizeof(borders) / sizeof(borders[0]))] + random_number(3) - 1;
}

/* A number of 1 to 8 bytes somewhere becomes another. */
static void
change_number(Input *input)
{
	size_t		size = (size_t) 1 << random_number(4);
	uint64_t	number = random_number(2) ? border() : random_number(UINT64_MAX);

	if (input->len >= size)
		memcpy(input->bytes + random_number(input->len - size + 1), &number, size);
}

static void
change(Input *input)
{
	switch (random_number(6))
	{
		case 0:
			input->len = random_number(MAX_INPUT + 1);
			break;
		case 1:
			input->len -= input->len > 0;
			break;
		case 2:
			input->len += input->len < MAX_INPUT;
			break;
		case 3:
			if (input->len > 0)
				input->bytes[random_number(input->len)] ^= 1 << random_number(8);
			break;
		default:
			change_number(input);
	}
}

/* ---- the loop ---- */

static void
remember_failure(const Input *input)
{
	FILE	   *file = fopen("failed", "wb");

	if (file != NULL)
	{
		fwrite(input->bytes, 1, input->len, file);
		fclose(file);
	}
}

static const Input *current;

/* The sanitizers' last call. */
extern void __sanitizer_set_death_callback(void (*callback) (void));
static void
at_death(void)
{
	remember_failure(current);
}

int
main(int argc, char **argv)
{
	static bool seen[ANSWERS];
	uint64_t	tried = 0;
	int			answers = 0;
	time_t		end;

	if (argc < 3)
	{
		fprintf(stderr, "usage: locator SECONDS SEED [FILE ...]\n");
		return 2;
	}
	end = time(NULL) + atoi(argv[1]);
	random_state = strtoull(argv[2], NULL, 10) * 2654435769u + 1;
	__sanitizer_set_death_callback(at_death);
	for (int i = 3; i < argc; i++)
		keep_file(argv[i]);
	for (uint64_t len = 1; len <= (uint64_t) SF_FLAT_MAX_UNITS * SF_UNIT_SIZE; len = len * 3 + 511)
		keep_flat(len, SF_MAP_SECTORS);
	for (uint64_t units = SF_FLAT_MAX_UNITS; units <= SF_FLAT_MAX_UNITS + 1; units++)
		keep_flat(units * SF_UNIT_SIZE, SF_UNIT_SECTORS);
	for (uint16_t depth = 1; depth <= 6; depth++)
		keep_inode((uint64_t) INT64_MAX >> (8 * (6 - depth)), depth);

	for (int i = 0; i < nknown; i++)
	{
		current = &known[i];
		seen[answer_to(current)] = true;
	}
	do
	{
		Input		input = known[random_number(nknown)];
		unsigned	answer;

		for (uint64_t n = 1 + random_number(4); n > 0; n--)
			change(&input);
		current = &input;
		answer = answer_to(&input);
		if (!seen[answer])
			keep(&input);
		seen[answer] = true;
	} while (++tried % 1024 != 0 || time(NULL) < end);

	for (int i = 0; i < ANSWERS; i++)
		answers += seen[i];
	printf("%llu inputs, %d answers\n", (unsigned long long) tried, answers);
	return 0;
}
