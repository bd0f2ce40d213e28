/*-------------------------------------------------------------------------
 *
 * needle.c
 *	  Where a pattern is in bytes that lie in memory.
 *
 * All starts are sifted for two bytes of the pattern (pair.c), those that are rare in most
 * data.  What is left is compared.  Where that costs too much, since the text is made of beginnings
 * of the pattern, candidates are compared by the two-way algorithm from then on (Crochemore and
 * Perrin, 1991): it compares what lies behind a cut of the pattern first, and each byte of that
 * which matches lets it pass over a start.  So the time is linear whatever the text is, without
 * a table.
 *
 * Passing over starts that the two bytes refuse keeps that.  The algorithm would find a
 * mismatch at each of them, too, and pass over no fewer.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/needle.h"

#include "miscadmin.h"

/* A candidate costs as much as comparing so many bytes. */
#define CANDIDATE_WORK	32

/* So much work is nothing, and so much for each start that was looked at. */
#define FREE_WORK		(64 * 1024)
#define START_WORK		2

/* The pair is chosen from so many bytes of a pattern. */
#define CHOICE_BYTES	4096

/* What most data is made of, the most frequent first: binary data, then text. */
static const char frequent[] = "\0 etaoinsrhldcu\nmpfgwyb, .v\377k0123456789_-\"/=<>:;()'\t\r"
	"xjqzETASINORCLDMPBFHGUWVYKJXQZ\1\2\3\4{}[]&#*+%$@!?\\|~^`\200\300\20\10";

/* How frequent a byte is; 0: it is none of those. */
static int
frequency(uint8 byte)
{
	const char *place = memchr(frequent, (char) byte, sizeof(frequent) - 1);

	return place == NULL ? 0 : sizeof(frequent) - (place - frequent);
}

/*
 * The rarest byte, and the rarest other one: bytes that differ tell more of a text in which
 * one byte, or none but few, is repeated.  A pattern of one byte over and over has none: its ends.
 */
static SfPair
choose_pair(const uint8 *bytes, int64 len)
{
	SfPair		pair = {0, len - 1};
	int			best = lengthof(frequent) + 1;
	int			next = lengthof(frequent) + 1;

	len = Min(len, CHOICE_BYTES);
	for (int64 i = 0; i < len && best > 0; i++)
	{
		if (frequency(bytes[i]) < best)
		{
			best = frequency(bytes[i]);
			pair.first = i;
		}
	}
	for (int64 i = 0; i < len && next > 0; i++)
	{
		if (bytes[i] != bytes[pair.first] && frequency(bytes[i]) < next)
		{
			next = frequency(bytes[i]);
			pair.second = i;
		}
	}
	pair.first_byte = bytes[pair.first];
	pair.second_byte = bytes[pair.second];
	return pair;
}

void
sfi_needle_begin(SfNeedle *needle, const uint8 *bytes, int64 len)
{
	SF_ASSERT(len > 0);
	*needle = (SfNeedle) {.bytes = bytes, .len = len};
	while (needle->lead_zeros < len && bytes[needle->lead_zeros] == 0)
		needle->lead_zeros++;
	needle->pair = choose_pair(bytes, len);
	needle->find_pair = sfi_pair_function();
	needle->linear = SF_FAULT_SKIPS(search_sifted);
}

/* How many bytes are equal, from the first one on. */
static int64
count_equal(const uint8 *a, const uint8 *b, int64 n)
{
	enum
	{
		BLOCK = 256
	};
	int64		at = 0;

	while (n - at >= BLOCK && memcmp(a + at, b + at, BLOCK) == 0)
	{
		at += BLOCK;
		if (at % (1024 * 1024) == 0)
			CHECK_FOR_INTERRUPTS();
	}
	while (at < n && a[at] == b[at])
		at++;
	return at;
}

/* ---- two-way ---- */

/*
 * Where the largest suffix of a pattern begins, by the order of bytes or the opposite one;
 * *period: its period.
 */
static int64
largest_suffix(const uint8 *bytes, int64 len, bool opposite, int64 *period)
{
	int64		best = -1;		/* it begins behind that */
	int64		at = 0;			/* one that is compared with it, .. */
	int64		k = 1;			/* .. by this byte of both, from 1 */

	*period = 1;
	while (at + k < len)
	{
		uint8		byte = bytes[at + k];
		uint8		other = bytes[best + k];

		CHECK_FOR_INTERRUPTS();
		if (byte == other && k != *period)
			k++;
		else if (byte == other)
		{
			at += *period;
			k = 1;
		}
		else if (opposite ? byte > other : byte < other)
		{
			at += k;
			k = 1;
			*period = at - best;
		}
		else
		{
			best = at++;
			k = *period = 1;
		}
	}
	return best + 1;
}

/* Factorize the pattern: from now on candidates are compared by the two-way algorithm. */
static void
begin_linear(SfNeedle *needle)
{
	int64		period;
	int64		opposite_period;
	int64		cut = largest_suffix(needle->bytes, needle->len, false, &period);
	int64		opposite = largest_suffix(needle->bytes, needle->len, true, &opposite_period);

	if (opposite > cut)
	{
		cut = opposite;
		period = opposite_period;
	}
	needle->cut = cut;
	needle->periodic = cut + period <= needle->len &&
		count_equal(needle->bytes, needle->bytes + period, cut) == cut;
	needle->shift = needle->periodic ? period : Max(cut, needle->len - cut) + 1;
	needle->linear = true;
	SF_ASSERT(cut >= 0 && cut < needle->len && needle->shift <= needle->len);
}

/*
 * Is the pattern at a start?  Where its right part fails, one of the two bytes is looked for
 * from now on: in a text that repeats itself all other starts like this one fail there, too.
 */
static bool
compare_two_way(SfNeedle *needle, const uint8 *text, int64 *start)
{
	int64		from = Max(needle->cut, needle->known);
	int64		left = Max(needle->cut - needle->known, 0);
	int64		end;
	bool		equal;

	text += *start;
	end = from + count_equal(needle->bytes + from, text + from, needle->len - from);
	if (end < needle->len)
	{
		*start += end - needle->cut + 1;
		needle->known = 0;
		if (end != needle->pair.first)
		{
			needle->pair.second = end;
			needle->pair.second_byte = needle->bytes[end];
		}
		return false;
	}
	equal = count_equal(needle->bytes + needle->known, text + needle->known, left) == left;
	*start += needle->shift;
	needle->known = needle->periodic ? needle->len - needle->shift : 0;
	return equal;
}

/* ---- the search ---- */

static bool
compare_candidate(SfNeedle *needle, const uint8 *text, int64 *start)
{
	int64		equal = count_equal(needle->bytes, text + *start, needle->len);

	++*start;
	needle->work += CANDIDATE_WORK + equal;
	return equal == needle->len;
}

static bool
is_too_much(const SfNeedle *needle)
{
	return needle->work > FREE_WORK && (needle->work - FREE_WORK) / START_WORK > needle->seen;
}

bool
sfi_needle_find(SfNeedle *needle, const uint8 *text, int64 nstarts, int64 *start, int64 *match)
{
	while (*start < nstarts)
	{
		int64		refused = 0;

		CHECK_FOR_INTERRUPTS();
		if (needle->known == 0)
			refused = needle->find_pair(&needle->pair, text + *start, nstarts - *start);
		needle->seen += refused;
		*start += refused;
		if (*start == nstarts)
			break;
		*match = *start;
		if (needle->shift == 0 && (needle->linear || is_too_much(needle)))
			begin_linear(needle);
		if (needle->linear ? compare_two_way(needle, text, start)
			: compare_candidate(needle, text, start))
			return true;
	}
	return false;
}
