/*-------------------------------------------------------------------------
 *
 * trial.c
 *	  A codec for tests, in builds with fault points only: runs of equal bytes.
 *
 * It shows that a codec is a row and a file: fault point draft_codec makes the ways of
 * writing use it.  What it stores are pairs (number of equal bytes, the byte)
 * behind the 8 bytes that every coded unit begins with (format.h).
 *
 *-------------------------------------------------------------------------
 */
#include "transform/transform.h"

#ifdef SF_FAULTS

#include <string.h>

#define LONGEST		255

/* What tells that decoding gave the right bytes: the low half of their checksum. */
static uint32_t
plain_check(const char *plain, uint32_t plain_bytes)
{
	return (uint32_t) sf_format_checksum(plain, plain_bytes, 0);
}

/* The body stays shorter than the plain bytes; the overhead comes before it. */
static uint32_t
bound(uint32_t plain_bytes)
{
	return plain_bytes + SF_CODED_OVERHEAD;
}

/*
 * Encode runs of equal bytes; 0 as soon as the body would be as long as the plain bytes.
 */
static uint32_t
encode(const char *plain, uint32_t plain_bytes, char *dst)
{
	uint32_t	check = plain_check(plain, plain_bytes);
	uint32_t	at = SF_CODED_OVERHEAD;
	uint32_t	n;

	for (uint32_t i = 0; i < plain_bytes; i += n)
	{
		for (n = 1; n < LONGEST && i + n < plain_bytes && plain[i + n] == plain[i]; n++)
			;
		/* a body must be shorter than the plain bytes */
		if (at + 2 >= SF_CODED_OVERHEAD + plain_bytes)
			return 0;
		dst[at++] = (char) n;
		dst[at++] = plain[i];
	}
	memcpy(dst, &plain_bytes, sizeof(plain_bytes));
	memcpy(dst + sizeof(plain_bytes), &check, sizeof(check));
	return at;
}

/*
 * Decode, with every length checked before it is used: the stored bytes may be anything,
 * as their checksum is not looked at here.
 */
static bool
decode(const char *stored, uint32_t stored_bytes, char *dst, uint32_t plain_bytes)
{
	uint32_t	head[2];
	uint32_t	done = 0;

	if (stored_bytes < SF_CODED_OVERHEAD)
		return false;
	memcpy(head, stored, sizeof(head));
	for (uint32_t at = SF_CODED_OVERHEAD; at + 1 < stored_bytes; at += 2)
	{
		uint32_t	n = (uint8_t) stored[at];

		if (n > plain_bytes - done)
			return false;
		memset(dst + done, stored[at + 1], n);
		done += n;
	}
	return done == plain_bytes && head[0] == plain_bytes &&
		head[1] == plain_check(dst, plain_bytes);
}

const SfTransform sf_transform_trial = {SF_TRANSFORM_TRIAL, "trial", bound, encode, decode};

#endif							/* SF_FAULTS */
