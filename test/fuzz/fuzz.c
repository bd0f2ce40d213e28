/*-------------------------------------------------------------------------
 *
 * fuzz.c
 *	  The loop of the fuzzers, see fuzz.h.
 *
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuzz.h"

#define MAX_KNOWN		1000
#define PLACES			65536
#define MAX_ANSWERS		100

typedef struct Input
{
	size_t		len;
	uint8_t		bytes[FUZZ_MAX_INPUT];
} Input;

static Input known[MAX_KNOWN];
static int	nknown;
static uint64_t random_state;
static const Input *current;

/* Steps from one place of the code to the next: seen so far, and a new one just now? */
static bool seen[PLACES];
static int	nseen;
static bool found_new;
static uintptr_t last_place;

static const char *answers[MAX_ANSWERS];
static int	nanswers;

uint64_t
fuzz_random(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

void
fuzz_stop(const char *what)
{
	fprintf(stderr, "fuzzer: %s\n", what);
	abort();
}

void
fuzz_keep(const void *bytes, size_t len)
{
	Input	   *input = &known[nknown < MAX_KNOWN ? nknown++ : (int) fuzz_random(MAX_KNOWN)];

	if (len > FUZZ_MAX_INPUT)
		fuzz_stop("an input is too long");
	input->len = len;
	memcpy(input->bytes, bytes, len);
}

/* ---- where the code under test has been ---- */

/* Called by it at each of its branches. */
extern void __sanitizer_cov_trace_pc(void);
void
__sanitizer_cov_trace_pc(void)
{
	uintptr_t	place = (uintptr_t) __builtin_return_address(0);
	uintptr_t	way = (place * 31 + last_place) % PLACES;

	last_place = place;
	if (seen[way])
		return;
	seen[way] = true;
	nseen++;
	found_new = true;
}

static void
write_input(const char *name, const Input *input)
{
	FILE	   *file = fopen(name, "wb");

	if (file == NULL)
		return;
	fwrite(input->bytes, 1, input->len, file);
	fclose(file);
}

/* With a directory in FUZZ_SAVE the first input of each answer goes there. */
static void
note_answer(const char *answer, const Input *input)
{
	char		name[1000];

	if (answer == NULL)
		answer = "taken";
	for (int i = 0; i < nanswers; i++)
		if (strcmp(answers[i], answer) == 0)
			return;
	if (nanswers == MAX_ANSWERS)
		fuzz_stop("too many answers");
	answers[nanswers++] = answer;
	if (getenv("FUZZ_SAVE") == NULL)
		return;
	snprintf(name, sizeof(name), "%s/%s", getenv("FUZZ_SAVE"), answer);
	for (char *c = name + strlen(getenv("FUZZ_SAVE")); *c != '\0'; c++)
		if (*c == ' ' || *c == ',')
			*c = '-';
	write_input(name, input);
}

/* Try an input; true when it went where none was before. */
static bool
try_input(const Input *input)
{
	uint8_t    *bytes = malloc(input->len == 0 ? 1 : input->len);

	current = input;
	memcpy(bytes, input->bytes, input->len);
	found_new = false;
	last_place = 0;
	note_answer(fuzz_try(bytes, input->len), input);
	free(bytes);
	return found_new;
}

/* ---- changes ---- */

/* Numbers at which something begins or ends. */
static uint64_t
border(void)
{
	static const uint64_t borders[] = {0, 1, 2, 8, 96, 255, 256, 338, 512, 32768, 131072,
		8152, INT32_MAX, UINT32_MAX, INT64_MAX, (uint64_t) INT64_MAX + 1, UINT64_MAX};

	return borders[fuzz_random(sizeof(borders) / sizeof(borders[0]))] + fuzz_random(3) - 1;
}

/* A number of 1 to 8 bytes somewhere becomes another. */
static void
change_number(Input *input)
{
	size_t		size = (size_t) 1 << fuzz_random(4);
	uint64_t	number = fuzz_random(2) ? border() : fuzz_random(UINT64_MAX);

	if (input->len >= size)
		memcpy(input->bytes + fuzz_random(input->len - size + 1), &number, size);
}

/* Insert a part a second time, or take it out. */
static void
change_part(Input *input)
{
	size_t		len = fuzz_random(64);
	size_t		at;

	if (input->len < len)
		return;
	at = fuzz_random(input->len - len + 1);
	if (fuzz_random(2))
	{
		memmove(input->bytes + at, input->bytes + at + len, input->len - at - len);
		input->len -= len;
	}
	else if (input->len + len <= FUZZ_MAX_INPUT)
	{
		memmove(input->bytes + at + len, input->bytes + at, input->len - at);
		input->len += len;
	}
}

/* Replace the end by the end of another input. */
static void
change_end(Input *input)
{
	const Input *other = &known[fuzz_random(nknown)];
	size_t		from = fuzz_random(other->len + 1);

	if (from > input->len)
		return;
	memcpy(input->bytes + from, other->bytes + from, other->len - from);
	input->len = other->len;
}

/* Change an input at random: half of the changes put another number in. */
static void
change(Input *input)
{
	switch (fuzz_random(8))
	{
		case 0:
			input->len = fuzz_random(input->len + 1);
			break;
		case 1:
			input->len += input->len < FUZZ_MAX_INPUT;
			break;
		case 2:
			if (input->len > 0)
				input->bytes[fuzz_random(input->len)] ^= 1 << fuzz_random(8);
			break;
		case 3:
			change_part(input);
			break;
		case 4:
			change_end(input);
			break;
		default:
			change_number(input);
	}
}

/* ---- the loop ---- */

/* Keep the contents of a file as an input; exits if it cannot be read. */
static void
keep_file(const char *name)
{
	FILE	   *file = fopen(name, "rb");
	uint8_t		bytes[FUZZ_MAX_INPUT];
	size_t		len;

	if (file == NULL)
	{
		perror(name);
		exit(1);
	}
	len = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	fuzz_keep(bytes, len);
}

/* The sanitizers' last call. */
extern void __sanitizer_set_death_callback(void (*callback) (void));
static void
at_death(void)
{
	if (current != NULL)
		write_input("failed", current);
}

int
main(int argc, char **argv)
{
	uint64_t	tried = 0;
	clock_t		end;

	if (argc < 3)
	{
		fprintf(stderr, "usage: %s SECONDS SEED [FILE ...]\n", argv[0]);
		return 2;
	}
	/* seconds of processor time, so that a busy machine does as much work */
	end = (clock_t) atoi(argv[1]) * CLOCKS_PER_SEC;
	random_state = strtoull(argv[2], NULL, 10) * 2654435769u + 1;
	__sanitizer_set_death_callback(at_death);
	for (int i = 3; i < argc; i++)
		keep_file(argv[i]);
	fuzz_seeds();
	for (int i = 0; i < nknown; i++)
		(void) try_input(&known[i]);
	do
	{
		Input		input = known[fuzz_random(nknown)];

		for (uint64_t n = 1 + fuzz_random(4); n > 0; n--)
			change(&input);
		if (try_input(&input))
			fuzz_keep(input.bytes, input.len);
	} while (++tried % 1024 != 0 || clock() < end);

	for (int i = 0; i < nanswers; i++)
		printf("answer: %s\n", answers[i]);
	printf("%llu inputs, %d answers, %d ways through the code, %d inputs kept\n",
		   (unsigned long long) tried, nanswers, nseen, nknown);
	return 0;
}
