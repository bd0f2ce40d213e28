/*-------------------------------------------------------------------------
 *
 * xaes.c
 *	  Cipher XAES-256-GCM, by OpenSSL's libcrypto: AES-256-GCM for nonces of 24
 *	  bytes, which may be random (C2SP, XAES-256-GCM).
 *
 * The first 12 bytes of the nonce make a key, by AES-CMAC of two blocks; the last 12 are
 * the nonce of AES-256-GCM under that key:
 *
 *	L	= AES(key, 0)							block of zeros
 *	K1	= L shifted left by a bit, reduced		as CMAC has it
 *	Kx	= AES(key, M1 ^ K1) AES(key, M2 ^ K1)	Mi: 0, i, 'X', 0, first 12 bytes
 *
 * What the library knows of a key lies in ordinary memory, and begins with the key.  So
 * a context is made for each message, and given back at once: the library wipes it.
 *
 *-------------------------------------------------------------------------
 */
#ifdef SF_OPENSSL

#include <openssl/err.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <string.h>

#include "transform/transform.h"

#define BLOCK			16
#define HALF_NONCE		(SF_NONCE_BYTES / 2)

/*
 * What the library knows of a cipher is looked up once in a process.  OpenSSL 3 would do it
 * for each message otherwise, which takes longer than to encrypt 1 KB.
 */
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#define LOOK_UP(name, function)		EVP_CIPHER_fetch(NULL, name, NULL)
#else
#define LOOK_UP(name, function)		function()
#endif

/* NULL, as below, when the library has none, or no memory: the caller fails then. */
static const EVP_CIPHER *
block_cipher(void)
{
	static const EVP_CIPHER *cipher;

	if (cipher == NULL)
		cipher = LOOK_UP("AES-256-ECB", EVP_aes_256_ecb);
	return cipher;
}

static const EVP_CIPHER *
message_cipher(void)
{
	static const EVP_CIPHER *cipher;

	if (cipher == NULL)
		cipher = LOOK_UP("AES-256-GCM", EVP_aes_256_gcm);
	return cipher;
}

/* A context for AES-256 of whole blocks, each by itself; NULL: no memory. */
static EVP_CIPHER_CTX *
begin_blocks(const uint8_t *key)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();

	if (context != NULL &&
		EVP_EncryptInit_ex(context, block_cipher(), NULL, key, NULL) == 1 &&
		EVP_CIPHER_CTX_set_padding(context, 0) == 1)
		return context;
	EVP_CIPHER_CTX_free(context);
	return NULL;
}

/* False when the library fails, or has not given out all of them. */
static bool
encrypt_blocks(EVP_CIPHER_CTX * context, const uint8_t *blocks, int len, uint8_t *dst)
{
	int			n = 0;

	return EVP_EncryptUpdate(context, dst, &n, blocks, len) == 1 && n == len;
}

/* The key of a message, SF_KEY_BYTES. */
static bool
derive_key(const uint8_t *key, const uint8_t *nonce, uint8_t *derived)
{
	static const uint8_t zeros[BLOCK];
	EVP_CIPHER_CTX *context = begin_blocks(key);
	uint8_t		k1[BLOCK];
	uint8_t		blocks[2 * BLOCK] = {0};
	uint8_t		carry;
	bool		done;

	if (context == NULL || !encrypt_blocks(context, zeros, BLOCK, k1))
	{
		EVP_CIPHER_CTX_free(context);
		return false;
	}
	carry = k1[0] >> 7;
	for (int i = 0; i < BLOCK; i++)
		k1[i] = k1[i] << 1 | (i + 1 < BLOCK ? k1[i + 1] >> 7 : 0);
	k1[BLOCK - 1] ^= carry * 0x87;
	for (int half = 0; half < 2; half++)
	{
		uint8_t    *block = blocks + half * BLOCK;

		block[1] = half + 1;
		block[2] = 'X';
		memcpy(block + 4, nonce, HALF_NONCE);
		for (int i = 0; i < BLOCK; i++)
			block[i] ^= k1[i];
	}
	done = encrypt_blocks(context, blocks, sizeof(blocks), derived);
	EVP_CIPHER_CTX_free(context);
	sodium_memzero(k1, sizeof(k1));
	sodium_memzero(blocks, sizeof(blocks));
	return done;
}

/* A context for one message under the key that belongs to its nonce; NULL: no memory. */
static EVP_CIPHER_CTX *
begin(const uint8_t *key, const uint8_t *nonce, bool encrypt)
{
	EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
	uint8_t		derived[SF_KEY_BYTES];

	if (context != NULL &&
		(!derive_key(key, nonce, derived) ||
		 EVP_CipherInit_ex(context, message_cipher(), NULL, derived, nonce + HALF_NONCE,
						   encrypt) != 1))
	{
		EVP_CIPHER_CTX_free(context);
		context = NULL;
	}
	sodium_memzero(derived, sizeof(derived));
	return context;
}

/* One part more; dst NULL: it is authenticated only. */
static bool
add(EVP_CIPHER_CTX * context, uint8_t *dst, const void *part, size_t len)
{
	int			n;

	return len == 0 || EVP_CipherUpdate(context, dst, &n, part, len) == 1;
}

/* Give the context back, and the errors that the library notes for this thread, too. */
static bool
end(EVP_CIPHER_CTX * context, bool done)
{
	EVP_CIPHER_CTX_free(context);
	if (!done)
		ERR_clear_error();
	return done;
}

static bool
seal_xaes(const uint8_t *key, const uint8_t *nonce, SfBytes place, const SfMessage *message,
		  uint8_t *dst)
{
	EVP_CIPHER_CTX *context = begin(key, nonce, true);
	uint8_t    *body = dst + message->head.len;
	uint8_t    *tag = body + message->body.len;
	int			n;

	return end(context, context != NULL &&
			   add(context, NULL, place.data, place.len) &&
			   add(context, dst, message->head.data, message->head.len) &&
			   add(context, body, message->body.data, message->body.len) &&
			   EVP_CipherFinal_ex(context, tag, &n) == 1 &&
			   EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, SF_TAG_BYTES, tag) == 1);
}

/*
 * The library gives the bytes out before it has seen the tag.  Where the tag is wrong they
 * are wiped.
 */
static SfDecoded
open_xaes(const uint8_t *key, const uint8_t *nonce, SfBytes place, const uint8_t *sealed,
		  SfRoom head, SfRoom body)
{
	EVP_CIPHER_CTX *context = begin(key, nonce, false);
	const uint8_t *tag = sealed + head.len + body.len;
	uint8_t		rest[BLOCK];
	int			n;

	if (context == NULL)
	{
		ERR_clear_error();
		return SF_DECODE_NO_MEMORY;
	}
	if (end(context, add(context, NULL, place.data, place.len) &&
			add(context, head.data, sealed, head.len) &&
			add(context, body.data, sealed + head.len, body.len) &&
			EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, SF_TAG_BYTES, (void *) tag) == 1 &&
			EVP_CipherFinal_ex(context, rest, &n) == 1))
		return SF_DECODED;
	sodium_memzero(head.data, head.len);
	sodium_memzero(body.data, body.len);
	return SF_DECODE_NOT_GENUINE;
}

const SfCipherOps sf_transform_xaes = {SF_CIPHER_AES256, "aes", seal_xaes, open_xaes};

#endif							/* SF_OPENSSL */
