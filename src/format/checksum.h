/*-------------------------------------------------------------------------
 *
 * checksum.h
 *	  Checksums of units, digests of what is encrypted, and hashes of values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_CHECKSUM_H
#define SF_FORMAT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Seed of the unit checksums of one object. */
extern uint64_t sf_format_seed(uint64_t incarnation, uint64_t object_id);

/* XXH3-64 of a unit's stored bytes. */
extern uint64_t sf_format_checksum(const void *data, size_t len, uint64_t seed);

/*
 * XXH3-128, without a seed.  Of more than SF_DIGEST_SHORT bytes, the low half is their
 * XXH3-64, so that a caller that needs both goes through the bytes once.
 */
typedef struct SfDigest
{
	uint64_t	low;
	uint64_t	high;
} SfDigest;

#define SF_DIGEST_SHORT		240

extern SfDigest sf_format_digest(const void *data, size_t len);

/*
 * SHA-256 of a whole value, as locators keep it.  The midstate is what the algorithm has
 * come to behind the last whole block of SF_HASH_BLOCK bytes: its eight words.  With it the
 * hash goes on when bytes are appended.
 */
typedef struct SfContentHash
{
	uint8_t		digest[32];
	uint8_t		midstate[32];
} SfContentHash;

#define SF_HASH_BLOCK			64
#define SF_SEALED_HASH_SIZE		104 /* encrypted, with nonce and tag */

/* The same for processors that have AVX2, where it can be built for them. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SF_FORMAT_AVX2
extern uint64_t sf_format_checksum_avx2(const void *data, size_t len, uint64_t seed);
extern SfDigest sf_format_digest_avx2(const void *data, size_t len);
#endif

#endif							/* SF_FORMAT_CHECKSUM_H */
