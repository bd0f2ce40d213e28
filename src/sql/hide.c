/*-------------------------------------------------------------------------
 *
 * hide.c
 *	  Digests that may get to temporary files, in a form that tells nobody of the contents.
 *
 * A digest confirms a guess.  So what is sorted, and spills to disk, is the digest under a
 * key that is new with each call and never leaves its memory.  Equal digests have equal forms,
 * and the call gets the digest back.
 *
 *	 form = tag, digest XOR stream
 *	 tag = BLAKE2b of the digest, with the first half of the key
 *	 stream = XChaCha20 with the other half, and the tag as nonce
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "sql/hide.h"

StaticAssertDecl(sizeof(((SfHidingKey *) 0)->tag) >= crypto_generichash_blake2b_KEYBYTES,
				 "BLAKE2b takes such a key");
StaticAssertDecl(sizeof(((SfHidingKey *) 0)->stream) == crypto_stream_xchacha20_KEYBYTES,
				 "XChaCha20 has such a key");
StaticAssertDecl(SF_HIDDEN_TAG_BYTES == crypto_stream_xchacha20_NONCEBYTES, "the tag is a nonce");

void
sfi_sql_hiding_key(SfHidingKey *key)
{
	if (sodium_init() < 0 || !pg_strong_random(key, sizeof(SfHidingKey)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate a random key")));
}

void
sfi_sql_hide(const SfHidingKey *key, const uint8 *digest, uint8 *hidden)
{
	(void) crypto_generichash_blake2b(hidden, SF_HIDDEN_TAG_BYTES, digest, PG_SHA256_DIGEST_LENGTH,
									  key->tag, sizeof(key->tag));
	(void) crypto_stream_xchacha20_xor(hidden + SF_HIDDEN_TAG_BYTES, digest,
									   PG_SHA256_DIGEST_LENGTH, hidden, key->stream);
}

void
sfi_sql_reveal(const SfHidingKey *key, const uint8 *hidden, uint8 *digest)
{
	(void) crypto_stream_xchacha20_xor(digest, hidden + SF_HIDDEN_TAG_BYTES,
									   PG_SHA256_DIGEST_LENGTH, hidden, key->stream);
}
