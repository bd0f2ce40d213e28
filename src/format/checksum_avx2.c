/*-------------------------------------------------------------------------
 *
 * checksum_avx2.c
 *	  Unit checksums, built for processors that have AVX2.
 *
 *-------------------------------------------------------------------------
 */
#include "format/format.h"

#ifdef SF_FORMAT_AVX2

#pragma GCC target("avx2")

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t
sf_format_checksum_avx2(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}

SfDigest
sf_format_digest_avx2(const void *data, size_t len)
{
	XXH128_hash_t hash = XXH3_128bits(data, len);

	return (SfDigest) {hash.low64, hash.high64};
}

#endif
