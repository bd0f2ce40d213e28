/*-------------------------------------------------------------------------
 *
 * hide.h
 *	  Digests that may get to temporary files, in a form that tells nobody of the contents.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_HIDE_H
#define SF_SQL_HIDE_H

#include "base/base.h"

#include "common/sha2.h"

#define SF_HIDDEN_TAG_BYTES	24
#define SF_HIDDEN_BYTES		(SF_HIDDEN_TAG_BYTES + PG_SHA256_DIGEST_LENGTH)

/* Of one call.  It must not leave the memory of the process. */
typedef struct SfHidingKey
{
	uint8		tag[32];
	uint8		stream[32];
} SfHidingKey;

/* A new key.  ERROR INTERNAL_ERROR when there are no random numbers. */
extern void sfi_sql_hiding_key(SfHidingKey *key);

/*
 * Hide a SHA-256: SF_HIDDEN_BYTES, the same ones for the same digest and key.  reveal gets it
 * back.  Neither throws.
 */
extern void sfi_sql_hide(const SfHidingKey *key, const uint8 *digest, uint8 *hidden);
extern void sfi_sql_reveal(const SfHidingKey *key, const uint8 *hidden, uint8 *digest);

#endif							/* SF_SQL_HIDE_H */
