/*-------------------------------------------------------------------------
 *
 * lz4.c
 *	  Codec LZ4: a body is one LZ4 block.
 *
 * The block format has neither a length nor a checksum; both stand before the body.
 *
 *-------------------------------------------------------------------------
 */
#ifdef SF_LZ4

#include <lz4.h>
#include <stdlib.h>

#include "transform/transform.h"

/* Its tables, 16 KB, which LZ4 would else make on the stack for each unit. */
static void *state;

/* LZ4 has one level here: the others of the library write slower and read as fast. */
static uint32_t
encode_lz4(SfCompression level, SfDictionary *dictionary, const char *plain, uint32_t plain_bytes,
		   char *body, uint32_t room)
{
	int			len;

	if (state == NULL && (state = malloc(LZ4_sizeofState())) == NULL)
		return 0;
	len = LZ4_compress_fast_extState(state, plain, body, (int) plain_bytes, (int) room, 1);
	return len > 0 ? (uint32_t) len : 0;
}

/* The library writes to no byte outside of dst, whatever the body is. */
static SfDecoded
decode_lz4(SfDictionary *dictionary, const char *body, uint32_t body_bytes, char *dst,
		   uint32_t plain_bytes)
{
	int			len = LZ4_decompress_safe(body, dst, (int) body_bytes, (int) plain_bytes);

	return len >= 0 && (uint32_t) len == plain_bytes ? SF_DECODED : SF_DECODE_DAMAGED;
}

const SfCodecOps sf_transform_lz4 = {SF_CODEC_LZ4, "lz4", encode_lz4, decode_lz4};

#endif							/* SF_LZ4 */
