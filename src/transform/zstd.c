/*-------------------------------------------------------------------------
 *
 * zstd.c
 *	  Codec zstd: a body is one frame, without the length of its contents and
 *	  without a checksum, since both stand before the body.
 *
 * The medium level is zstd's 1, the high one its 9.  What levels 3 and 12 would gain
 * over them is a few per cent, for up to twice and four times the time.
 *
 * One context to compress and one to decompress are made on first use, and kept for
 * the life of the process: their tables take up to a megabyte, which would else be
 * asked for, and cleared, for each unit.
 *
 *-------------------------------------------------------------------------
 */
#ifdef SF_ZSTD

#include <zstd.h>

#include "transform/transform.h"

/* of a window that has all of a unit: 128 KB */
#define WINDOW_LOG		17

static struct ZSTD_CCtx_s *compressor;
static struct ZSTD_DCtx_s *decompressor;

/* Set one parameter of the compressor; false when the library refuses it. */
static bool
set(ZSTD_cParameter parameter, int value)
{
	return !ZSTD_isError(ZSTD_CCtx_setParameter(compressor, parameter, value));
}

/* Of the library, for tables of a dictionary as well: these are made for one level. */
int
sf_transform_zstd_level(SfCompression level)
{
	return level == SF_COMPRESSION_HIGH ? 9 : 1;
}

/*
 * Prepare the compressor for a level; false when memory is short.  A frame that did not
 * find room is given up first: no parameter can be set in the middle of a frame.  The
 * compressor keeps a dictionary until it is given another one, or none.
 */
static bool
prepare(SfCompression level, const ZSTD_CDict * dictionary)
{
	if (compressor == NULL && (compressor = ZSTD_createCCtx()) == NULL)
		return false;
	(void) ZSTD_CCtx_reset(compressor, ZSTD_reset_session_only);
	return set(ZSTD_c_compressionLevel, sf_transform_zstd_level(level)) &&
		set(ZSTD_c_windowLog, WINDOW_LOG) &&
		set(ZSTD_c_contentSizeFlag, 0) && set(ZSTD_c_checksumFlag, 0) &&
		!ZSTD_isError(ZSTD_CCtx_refCDict(compressor, dictionary));
}

/*
 * An error is a body that does not find room, or memory that is short, for which a unit
 * is stored as it is.
 */
uint32_t
sf_transform_zstd_encode(SfCompression level, const ZSTD_CDict * dictionary, const char *plain,
						 uint32_t plain_bytes, char *body, uint32_t room)
{
	size_t		len;

	if (!prepare(level, dictionary))
		return 0;
	len = ZSTD_compress2(compressor, body, room, plain, plain_bytes);
	return ZSTD_isError(len) ? 0 : (uint32_t) len;
}

/* The result has the exact room: a frame of more bytes than that is an error. */
SfDecoded
sf_transform_zstd_decode(const ZSTD_DDict * dictionary, const char *body, uint32_t body_bytes,
						 char *dst, uint32_t plain_bytes)
{
	size_t		len;

	if (decompressor == NULL && (decompressor = ZSTD_createDCtx()) == NULL)
		return SF_DECODE_NO_MEMORY;
	len = ZSTD_decompress_usingDDict(decompressor, dst, plain_bytes, body, body_bytes,
									 dictionary);
	return len == plain_bytes ? SF_DECODED : SF_DECODE_DAMAGED;
}

/*
 * Without a dictionary.  A frame that names one, which only the codec "trained" makes, is
 * damaged here.
 */
static uint32_t
encode_zstd(SfCompression level, SfDictionary *dictionary, const char *plain, uint32_t plain_bytes,
			char *body, uint32_t room)
{
	return sf_transform_zstd_encode(level, NULL, plain, plain_bytes, body, room);
}

static SfDecoded
decode_zstd(SfDictionary *dictionary, const char *body, uint32_t body_bytes, char *dst,
			uint32_t plain_bytes)
{
	return sf_transform_zstd_decode(NULL, body, body_bytes, dst, plain_bytes);
}

const SfCodecOps sf_transform_zstd = {SF_CODEC_ZSTD, "zstd", encode_zstd, decode_zstd};

#endif							/* SF_ZSTD */
