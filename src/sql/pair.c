/*-------------------------------------------------------------------------
 *
 * pair.c
 *	  Where a text has two bytes of a pattern, each in its place.
 *
 * Nearly all starts are refused here, so this loop is what a search costs.  With AVX2
 * it goes through 32 starts at a time.  Elsewhere memchr() looks for the rarer byte.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/needle.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define PAIR_AVX2
#include <immintrin.h>
#endif

static int64
find_with_memchr(const SfPair *pair, const uint8 *text, int64 n)
{
	const uint8 *first = text + pair->first;
	const uint8 *second = text + pair->second;
	int64		at = 0;

	while (at < n)
	{
		const uint8 *hit = memchr(first + at, pair->first_byte, n - at);

		if (hit == NULL)
			return n;
		at = hit - first;
		if (second[at] == pair->second_byte)
			return at;
		at++;
	}
	return n;
}

#ifdef PAIR_AVX2

#define VECTOR	((int64) sizeof(__m256i))

/* The starts, of the next 32, where both bytes are: all bits of each of them are set. */
__attribute__((target("avx2"), always_inline))
static inline __m256i
both_bytes(const uint8 *first, const uint8 *second, __m256i first_byte, __m256i second_byte)
{
	__m256i		a = _mm256_loadu_si256((const __m256i *) first);
	__m256i		b = _mm256_loadu_si256((const __m256i *) second);

	return _mm256_and_si256(_mm256_cmpeq_epi8(a, first_byte), _mm256_cmpeq_epi8(b, second_byte));
}

/* The rest of a text is looked at with starts that were refused already. */
__attribute__((target("avx2")))
static int64
find_with_avx2(const SfPair *pair, const uint8 *text, int64 n)
{
	const uint8 *first = text + pair->first;
	const uint8 *second = text + pair->second;
	const		__m256i first_byte = _mm256_set1_epi8((char) pair->first_byte);
	const		__m256i second_byte = _mm256_set1_epi8((char) pair->second_byte);
	int64		at = 0;

	if (n < VECTOR)
		return find_with_memchr(pair, text, n);
	for (; at <= n - 4 * VECTOR; at += 4 * VECTOR)
	{
		const uint8 *a = first + at;
		const uint8 *b = second + at;
		__m256i		h0 = both_bytes(a, b, first_byte, second_byte);
		__m256i		h1 = both_bytes(a + VECTOR, b + VECTOR, first_byte, second_byte);
		__m256i		h2 = both_bytes(a + 2 * VECTOR, b + 2 * VECTOR, first_byte, second_byte);
		__m256i		h3 = both_bytes(a + 3 * VECTOR, b + 3 * VECTOR, first_byte, second_byte);
		__m256i		any = _mm256_or_si256(_mm256_or_si256(h0, h1), _mm256_or_si256(h2, h3));

		/* the next loop finds out which */
		if (!_mm256_testz_si256(any, any))
			break;
	}
	for (; at < n; at += VECTOR)
	{
		uint32		hits;

		at = Min(at, n - VECTOR);
		hits = _mm256_movemask_epi8(both_bytes(first + at, second + at, first_byte, second_byte));
		if (hits != 0)
			return at + __builtin_ctz(hits);
	}
	return n;
}

#endif

SfFindPair
sfi_pair_function(void)
{
#ifdef PAIR_AVX2
	if (__builtin_cpu_supports("avx2") && !SF_FAULT_SKIPS(search_avx2))
		return find_with_avx2;
#endif
	return find_with_memchr;
}
