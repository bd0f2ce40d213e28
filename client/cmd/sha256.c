/*-------------------------------------------------------------------------
 *
 * sha256.c
 *	  SHA-256 of files of this machine, to be compared with what the server keeps.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef SF_OPENSSL
#include <openssl/evp.h>
#else
#include <sodium.h>
#endif

#include "local.h"
#include "sparse.h"

#define DIGEST_BYTES	32

#ifdef SF_OPENSSL
typedef EVP_MD_CTX * State;

static bool
begin(State *state)
{
	*state = EVP_MD_CTX_new();
	return *state != NULL && EVP_DigestInit_ex(*state, EVP_sha256(), NULL) == 1;
}

static bool
add(State *state, const void *bytes, size_t length)
{
	return EVP_DigestUpdate(*state, bytes, length) == 1;
}

static bool
end(State *state, unsigned char *digest)
{
	return EVP_DigestFinal_ex(*state, digest, NULL) == 1;
}

static void
give_up(State *state)
{
	EVP_MD_CTX_free(*state);
}
#else
typedef crypto_hash_sha256_state State;

static bool
begin(State *state)
{
	return crypto_hash_sha256_init(state) == 0;
}

static bool
add(State *state, const void *bytes, size_t length)
{
	return crypto_hash_sha256_update(state, bytes, length) == 0;
}

static bool
end(State *state, unsigned char *digest)
{
	return crypto_hash_sha256_final(state, digest) == 0;
}

static void
give_up(State *state)
{
	(void) state;
}
#endif

/* A SparseTake. */
static bool
add_part(void *arg, const void *bytes, size_t size)
{
	return add(arg, bytes, size);
}

/* Hash the file from its beginning; false with the reason. */
static bool
hash_file(int fd, State *state, unsigned char *digest, Failure *failure)
{
	bool		good = lseek(fd, 0, SEEK_SET) == 0 && sparse_each(fd, add_part, state) >= 0;

	if (!good && errno != 0)
		return failure_errno(failure, "could not read the file");
	if (!good || !end(state, digest))
		return failure_say(failure, "could not compute SHA-256");
	return true;
}

bool
local_sha256(int fd, char *hex, Failure *failure)
{
	unsigned char digest[DIGEST_BYTES];
	State		state;
	bool		good = begin(&state);

	if (!good)
		failure_say(failure, "could not compute SHA-256");
	good = good && hash_file(fd, &state, digest, failure);
	give_up(&state);
	for (int i = 0; good && i < DIGEST_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	return good;
}
