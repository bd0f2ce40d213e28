/*-------------------------------------------------------------------------
 *
 * checksum.c
 *	  Unit checksums.
 *
 * Data that comes from disk is in no cache of the processor.  With the vectors
 * that every x86-64 has, XXH3 reads it at half the speed of memory; with AVX2 at
 * full speed (checksum_avx2.c).
 *
 *-------------------------------------------------------------------------
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "format/format.h"

uint64_t
sf_format_seed(uint64_t incarnation, uint64_t object_id)
{
	uint64_t	both[2] = {incarnation, object_id};

	return XXH3_64bits(both, sizeof(both));
}

uint64_t
sf_format_checksum(const void *data, size_t len, uint64_t seed)
{
#ifdef SF_FORMAT_AVX2
	if (__builtin_cpu_supports("avx2"))
		return sf_format_checksum_avx2(data, len, seed);
#endif
	return XXH3_64bits_withSeed(data, len, seed);
}

SfDigest
sf_format_digest(const void *data, size_t len)
{
	XXH128_hash_t hash;

#ifdef SF_FORMAT_AVX2
	if (__builtin_cpu_supports("avx2"))
		return sf_format_digest_avx2(data, len);
#endif
	hash = XXH3_128bits(data, len);
	return (SfDigest) {hash.low64, hash.high64};
}
