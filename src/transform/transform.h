/*-------------------------------------------------------------------------
 *
 * transform.h
 *	  What is done to the bytes of a unit before they are stored, and undone when
 *	  they are read: codecs, one unit at a time.
 *
 * transform.c		the table of codecs
 * identity.c		the codec that every other one is compared with: none
 * trial.c			a codec for tests, in builds with fault points only
 *
 * Pure C over memory: no elog, no palloc, no server header, no page.  So the
 * fuzzer (test/fuzz/unit.c) tries each codec of the table without a server.
 *
 * To add a codec: a file here that defines an SfTransform, its row in transform.c, its
 * number among SfCodec in format.h if it is not there, and the option word that asks
 * for it (config/options.c sets SfOptions.codec).  The ways of writing and reading
 * stay as they are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TRANSFORM_H
#define SF_TRANSFORM_H

#include "format/format.h"

typedef struct SfTransform
{
	uint32_t	id;				/* SfCodec, as units have it in their flags */
	const char *name;

	/* Room that encode() may use for so many plain bytes. */
	uint32_t	(*bound) (uint32_t plain_bytes);

	/*
	 * Encode 1 to SF_UNIT_SIZE bytes into dst, which has room for bound().
	 * The result begins with the 8 bytes that format.h gives to all codecs
	 * ("Stored bytes of a unit": plain length, check of the plain bytes),
	 * which encode() writes and decode() checks.  Returns the number of
	 * stored bytes, a length that sf_format_unit_problem() takes for this
	 * codec: what follows the 8 bytes is shorter than the plain bytes.  0:
	 * nothing is gained, and the unit is better stored as it is.  A library
	 * may use malloc() if a failure of it is no more than a 0.
	 */
	uint32_t	(*encode) (const char *plain, uint32_t plain_bytes, char *dst);

	/*
	 * Decode into dst, which has room for plain_bytes.  False when these are
	 * not the stored bytes of a unit of that length; whatever they are,
	 * nothing behind the end of either is touched.
	 */
	bool		(*decode) (const char *stored, uint32_t stored_bytes, char *dst,
						   uint32_t plain_bytes);
} SfTransform;

/* The codec of that number, or NULL. */
extern const SfTransform *sf_transform_find(uint32_t id);

/*
 * A unit's bytes as they are to be stored: the plain bytes themselves if the codec
 * is none or gains nothing, which copies nothing; else dst, which has room for
 * bound() bytes.  Sets the unit's stored_bytes and flags.
 */
static inline const char *
sf_transform_encode(const SfTransform *codec, const char *plain, uint32_t plain_bytes, char *dst,
					SfUnit *unit)
{
	uint32_t	stored_bytes = codec->id == SF_CODEC_RAW ? 0
	: codec->encode(plain, plain_bytes, dst);

	unit->stored_bytes = stored_bytes == 0 ? plain_bytes : stored_bytes;
	unit->flags = stored_bytes == 0 ? SF_CODEC_RAW : codec->id;
	return stored_bytes == 0 ? plain : dst;
}

/* Are a unit's stored bytes its plain bytes? */
static inline bool
sf_transform_is_raw(const SfUnit *unit)
{
	return unit->flags == SF_CODEC_RAW;
}

/*
 * Decode a unit of any codec.  False when the bytes cannot be its stored bytes, or the
 * codec is unknown.
 */
extern bool sf_transform_decode(const SfUnit *unit, const char *stored, char *dst,
								uint32_t plain_bytes);

/* ---- codecs, for the table ---- */

extern const SfTransform sf_transform_identity;

/* The trial codec has the number of one that is still to come. */
#define SF_TRANSFORM_TRIAL		SF_CODEC_LZ4
#ifdef SF_FAULTS
extern const SfTransform sf_transform_trial;
#endif

#endif							/* SF_TRANSFORM_H */
