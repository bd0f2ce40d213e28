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

#define SF_PACKED_HEADER		4	/* bytes before what is stored */
#define SF_TRAINED_HEADER		16
#define SF_SEALED_HEADER		24	/* bytes before the nonce; the tag covers
									 * them */
#define SF_SEALED_OVERHEAD		64	/* these, the nonce and the tag */

/* The segment that has the dictionary of a TRAINED value, or the key of a SEALED one. */
typedef struct SfHome
{
	uint32_t	table_oid;
	int16_t		attnum;
	uint64_t	incarnation;
} SfHome;

/* Such a value, looked at. */
typedef struct SfPacked
{
	SfUnit		unit;			/* how its contents are stored, when they are
								 * decrypted: as if they were a unit */
	uint32_t	plain_bytes;	/* that it says it stands for */
	uint32_t	header;			/* SF_PACKED_HEADER, .. of its form */
	SfHome		home;			/* TRAINED, SEALED; else 0 */
	uint16_t	key_id;			/* SEALED; else 0 */
} SfPacked;

/*
 * Look at a value (data: its bytes from the form on).  NULL when sound as far as that can be
 * seen without decoding, else a static text that says what is wrong.
 */
extern const char *sf_format_packed_decode(const uint8_t *data, size_t len, SfPacked *packed);

/* Fill in the header of a PACKED, a TRAINED, and a SEALED value. */
extern void sf_format_packed_encode(uint8_t *data, uint32_t codec);
extern void sf_format_trained_encode(uint8_t *data, const SfHome *home);
extern void sf_format_sealed_encode(uint8_t *data, const SfPacked *packed);

#endif							/* SF_FORMAT_PACKED_H */
