/*-------------------------------------------------------------------------
 *
 * packed.h
 *	  PACKED, TRAINED and SEALED values: what decoding them without a codec or a key
 *	  tells, and how they begin.  format.h has their bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_PACKED_H
#define SF_FORMAT_PACKED_H

#include "format/format.h"

/*
 * A PACKED value (data: its bytes from the form on): its compressed bytes, which begin at
 * SF_PACKED_HEADER, as if they were those of a unit, and how many plain bytes they say
 * that they stand for.  NULL when sound as far as that can be seen without decoding,
 * else a static text that says what is wrong.
 */
#define SF_PACKED_HEADER		4
extern const char *sf_format_packed_decode(const uint8_t *data, size_t len, SfUnit *unit,
										   uint32_t *plain_bytes);

/* Fill in the first SF_PACKED_HEADER bytes of a PACKED value. */
extern void sf_format_packed_encode(uint8_t *data, uint32_t codec);

/* The segment that has the dictionary of a TRAINED value. */
typedef struct SfHome
{
	uint32_t	table_oid;
	int16_t		attnum;
	uint64_t	incarnation;
} SfHome;

/* The same for a TRAINED value, whose compressed bytes begin at SF_TRAINED_HEADER. */
#define SF_TRAINED_HEADER		16
extern const char *sf_format_trained_decode(const uint8_t *data, size_t len, SfUnit *unit,
											uint32_t *plain_bytes, SfHome *home);

/* Fill in the first SF_TRAINED_HEADER bytes of a TRAINED value. */
extern void sf_format_trained_encode(uint8_t *data, const SfHome *home);

/*
 * A SEALED value, looked at: bytes are those of its nonce, and behind it; unit says how its
 * contents are stored when they are decrypted.
 */
typedef struct SfSealed
{
	SfHome		home;
	uint16_t	key_id;
	uint32_t	plain_bytes;
	SfUnit		unit;
} SfSealed;

#define SF_SEALED_HEADER		24	/* bytes before the nonce; the tag covers
									 * them */
#define SF_SEALED_OVERHEAD		64	/* these, the nonce and the tag */
extern const char *sf_format_sealed_decode(const uint8_t *data, size_t len, SfSealed *sealed);

/* Fill in the first SF_SEALED_HEADER bytes of a SEALED value. */
extern void sf_format_sealed_encode(uint8_t *data, const SfSealed *sealed);

#endif							/* SF_FORMAT_PACKED_H */
