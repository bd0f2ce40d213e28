/*-------------------------------------------------------------------------
 *
 * xchacha.c
 *	  Cipher XChaCha20-Poly1305, by libsodium: for any processor, and for builds
 *	  without OpenSSL.
 *
 * The library takes a message in one piece.  So the parts are copied behind one another
 * first, and encrypted in place, which costs a thirtieth of the time of the cipher.
 *
 *-------------------------------------------------------------------------
 */
#include <sodium.h>
#include <string.h>

#include "transform/transform.h"

_Static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == SF_KEY_BYTES, "a key of the library");
_Static_assert(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES == SF_NONCE_BYTES, "its nonce");
_Static_assert(crypto_aead_xchacha20poly1305_ietf_ABYTES == SF_TAG_BYTES, "its tag");

/* Copy bytes; where there are none, neither place need be one. */
static void
copy_bytes(uint8_t *dst, const uint8_t *src, size_t len)
{
	if (len > 0)
		memcpy(dst, src, len);
}

static bool
seal_xchacha(const uint8_t *key, const uint8_t *nonce, SfBytes place, const SfMessage *message,
			 uint8_t *dst)
{
	size_t		len = message->head.len + message->body.len;

	copy_bytes(dst, message->head.data, message->head.len);
	copy_bytes(dst + message->head.len, message->body.data, message->body.len);
	return crypto_aead_xchacha20poly1305_ietf_encrypt(dst, NULL, dst, len, place.data, place.len,
													  NULL, nonce, key) == 0;
}

/* A message in memory of its own, which is wiped before it is given back. */
static SfDecoded
open_xchacha(const uint8_t *key, const uint8_t *nonce, SfBytes place, const uint8_t *sealed,
			 SfRoom head, SfRoom body)
{
	size_t		len = head.len + body.len;
	uint8_t    *plain = malloc(len);
	SfDecoded	result = SF_DECODE_NOT_GENUINE;

	if (plain == NULL)
		return SF_DECODE_NO_MEMORY;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(plain, NULL, NULL, sealed, len + SF_TAG_BYTES,
												   place.data, place.len, nonce, key) == 0)
	{
		copy_bytes(head.data, plain, head.len);
		copy_bytes(body.data, plain + head.len, body.len);
		result = SF_DECODED;
	}
	sodium_memzero(plain, len);
	free(plain);
	return result;
}

const SfCipherOps sf_transform_xchacha = {SF_CIPHER_XCHACHA20, "chacha20", seal_xchacha,
	open_xchacha};
