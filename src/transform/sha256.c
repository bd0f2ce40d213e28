/*-------------------------------------------------------------------------
 *
 * sha256.c
 *	  SHA-256 of values, which can be continued.
 *
 * A value that is appended to keeps its hash without being read again: the locator has the
 * state of the algorithm behind the last whole block of the value.  Interfaces that hide
 * their state (EVP of OpenSSL, that of the server) cannot give it.  So this is the one of
 * OpenSSL that shows it, which uses the same instructions of the processor; it is marked as
 * deprecated since OpenSSL 3, and is there.  A build without OpenSSL takes libsodium's, which
 * is portable C.
 *
 * Both have the eight words of the state as the standard has them, so a hash that one has
 * begun the other can continue.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#ifdef SF_OPENSSL
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#else
#include <sodium.h>
#endif

#include "transform/transform.h"

/* What the rest of this file needs of a library: a state, its words, and three steps. */
#ifdef SF_OPENSSL
typedef SHA256_CTX State;

/* OpenSSL: SHA256_CTX, a struct of its headers for ever. */
#define STATE_WORDS(of)	((of)->h)
#define init(state)			((void) SHA256_Init(state))
#define update(state, bytes, len)	((void) SHA256_Update(state, bytes, len))
#define finish(state, digest)	((void) SHA256_Final(digest, state))

/* The length of a message is that in bits, in two halves. */
static void
set_length(State *state, uint64_t length_bytes)
{
	state->Nl = (SHA_LONG) (length_bytes << 3);
	state->Nh = (SHA_LONG) (length_bytes >> 29);
}
#else
/* The same of libsodium, which counts in one number. */
typedef crypto_hash_sha256_state State;

#define STATE_WORDS(of)	((of)->state)
#define init(state)			((void) crypto_hash_sha256_init(state))
#define update(state, bytes, len)	((void) crypto_hash_sha256_update(state, bytes, len))
#define finish(state, digest)	((void) crypto_hash_sha256_final(state, digest))

static void
set_length(State *state, uint64_t length_bytes)
{
	state->count = length_bytes << 3;
}
#endif

/*
 * What callers have is room for either: no header of a library gets into transform.h.
 */
_Static_assert(sizeof(State) <= sizeof(((SfSha256 *) NULL)->state), "a state finds room");
_Static_assert(sizeof(STATE_WORDS((State *) NULL)) ==
			   sizeof(((SfContentHash *) NULL)->midstate), "a midstate is eight words");

/* The state of the library is copied, as what holds it is of another type. */
static State
load(const SfSha256 *hash)
{
	State		state;

	memcpy(&state, hash->state, sizeof(state));
	return state;
}

/* Put it back. */
static void
store(SfSha256 *hash, const State *state)
{
	memcpy(hash->state, state, sizeof(*state));
}

void
sf_transform_hash_begin(SfSha256 *hash)
{
	State		state;

	init(&state);
	memset(hash, 0, sizeof(*hash));
	store(hash, &state);
}

/*
 * The states of both libraries are told by the words and the length, as long as no byte
 * waits for a whole block: then the buffer is not looked at.
 */
void
sf_transform_hash_resume(SfSha256 *hash, const SfContentHash *kept, uint64_t length_bytes)
{
	State		state;

	sf_transform_hash_begin(hash);
	hash->length_bytes = length_bytes - length_bytes % SF_HASH_BLOCK;
	state = load(hash);
	memcpy(STATE_WORDS(&state), kept->midstate, sizeof(kept->midstate));
	set_length(&state, hash->length_bytes);
	store(hash, &state);
}

/* OpenSSL and libsodium both take any length, and cannot fail. */
void
sf_transform_hash_update(SfSha256 *hash, const void *bytes, size_t len)
{
	State		state = load(hash);

	update(&state, bytes, len);
	store(hash, &state);
	hash->length_bytes += len;
}

/*
 * Bytes of a block that is not whole wait in the state: its words are those behind the last
 * whole one.
 */
void
sf_transform_hash_finish(const SfSha256 *hash, SfContentHash *kept)
{
	State		state = load(hash);

	memcpy(kept->midstate, STATE_WORDS(&state), sizeof(kept->midstate));
	finish(&state, kept->digest);
}
