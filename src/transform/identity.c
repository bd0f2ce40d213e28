/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  The codec that does nothing: stored bytes are plain bytes.
 *
 * The ways of writing and reading pass by it (sf_transform_encode(),
 * sf_transform_is_raw()), so that a unit without a codec is copied no more often
 * than it has to be.  It is the reference for the others.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "transform/transform.h"

static uint32_t
bound(uint32_t plain_bytes)
{
	return plain_bytes;
}

static uint32_t
encode(const char *plain, uint32_t plain_bytes, char *dst)
{
	memcpy(dst, plain, plain_bytes);
	return plain_bytes;
}

static bool
decode(const char *stored, uint32_t stored_bytes, char *dst, uint32_t plain_bytes)
{
	if (stored_bytes != plain_bytes)
		return false;
	memcpy(dst, stored, plain_bytes);
	return true;
}

const SfTransform sf_transform_identity = {SF_CODEC_RAW, "none", bound, encode, decode};
