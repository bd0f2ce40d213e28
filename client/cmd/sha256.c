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

struct Sha256
{
	State		state;
};

Sha256 *
sha256_begin(void)
{
	Sha256	   *sha = malloc(sizeof(Sha256));

	if (sha == NULL)
		abort();
	if (begin(&sha->state))
		return sha;
	sha256_free(sha);
	return NULL;
}

bool
sha256_add(void *sha, const void *bytes, size_t size)
{
	return sha != NULL && add(&((Sha256 *) sha)->state, bytes, size);
}

bool
sha256_add_zeros(Sha256 *sha, int64_t size)
{
	static const char zeros[64 * 1024];

	for (; size > 0; size -= sizeof(zeros))
	{
		size_t		part = size < (int64_t) sizeof(zeros) ? (size_t) size : sizeof(zeros);

		if (!sha256_add(sha, zeros, part))
			return false;
	}
	return true;
}

bool
sha256_end(Sha256 *sha, char *hex)
{
	unsigned char digest[DIGEST_BYTES];
	bool		good = sha != NULL && end(&sha->state, digest);

	for (int i = 0; good && i < DIGEST_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	sha256_free(sha);
	return good;
}

void
sha256_free(Sha256 *sha)
{
	if (sha != NULL)
		give_up(&sha->state);
	free(sha);
}

bool
local_sha256(int fd, char *hex, Failure *failure)
{
	Sha256	   *sha = sha256_begin();

	if (lseek(fd, 0, SEEK_SET) == 0 && sparse_each(fd, sha256_add, sha) >= 0)
		return sha256_end(sha, hex) || failure_say(failure, "could not compute SHA-256");
	if (errno != 0)
		failure_errno(failure, "could not read the file");
	else
		failure_say(failure, "could not compute SHA-256");
	sha256_free(sha);
	return false;
}
