/*-------------------------------------------------------------------------
 *
 * cipher.c
 *	  Encryption of units and of values in rows, and what authenticates the rest.
 *
 * A data key is 32 random bytes, and is never used itself.  Each purpose has a key of
 * its own, the HMAC of a word under the data key: what is a nonce for one purpose says
 * nothing about another.
 *
 * A nonce is 24 bytes, new for each message.  It is not counted: counters come again
 * after a restore, on a promoted standby, in a copy of the server.  It is an HMAC of
 * fresh random bytes, of the place, and of a hash of what is encrypted.  So it differs
 * where any of these does: a machine that was resumed twice from one image of its memory
 * may be given the same random bytes, but then encrypts the same message only.
 *
 * The cipher authenticates, besides the message, where it belongs.  So a unit that was
 * put in the place of another one, or of another object, is refused.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/random.h>

#include "transform/transform.h"

static const SfCipherOps *const ciphers[] = {
#ifdef SF_OPENSSL
	&sf_transform_xaes,
#endif
	&sf_transform_xchacha,
	NULL
};

const SfCipherOps *
sf_transform_find_cipher(uint32_t id)
{
	for (int i = 0; ciphers[i] != NULL; i++)
		if (ciphers[i]->id == id)
			return ciphers[i];
	return NULL;
}

/* ---- keys ---- */

/*
 * HMAC-SHA-256 of some parts, one after the other.  Nothing marks where a part ends: under
 * one key the length of all parts together tells that of each.
 */
static void
hmac(const uint8_t *key, const SfBytes *parts, int nparts, uint8_t *result)
{
	crypto_auth_hmacsha256_state state;

	crypto_auth_hmacsha256_init(&state, key, SF_KEY_BYTES);
	for (int i = 0; i < nparts; i++)
		crypto_auth_hmacsha256_update(&state, parts[i].data, parts[i].len);
	crypto_auth_hmacsha256_final(&state, result);
	sodium_memzero(&state, sizeof(state));
}

_Static_assert(crypto_auth_hmacsha256_BYTES == SF_KEY_BYTES, "an HMAC is a key");

void
sf_transform_subkey(const uint8_t *key, const char *purpose, uint8_t *subkey)
{
	const SfBytes word = {purpose, strlen(purpose)};

	hmac(key, &word, 1, subkey);
}

/*
 * The words are those of the on-disk formats: another word is another key, with which nothing
 * can be read that was written before.
 */
void
sf_transform_data_key(SfDataKey *key, uint16_t id, uint32_t cipher, const uint8_t *secret)
{
	key->id = id;
	key->cipher = cipher;
	sf_transform_subkey(secret, "unit", key->unit);
	sf_transform_subkey(secret, "inline", key->row);
	sf_transform_subkey(secret, "locator", key->locator);
	sf_transform_subkey(secret, "inode", key->inode);
	sf_transform_subkey(secret, "content", key->content);
	sf_transform_subkey(secret, "nonce", key->nonce);
	sf_transform_subkey(secret, "fingerprint", key->fingerprint);
}

/* ---- random bytes ---- */

/* The system call, and no file: a server may have no more descriptors to open one. */
bool
sf_transform_random(void *bytes, size_t len)
{
	uint8_t    *to = bytes;

	while (len > 0)
	{
		ssize_t		n = getrandom(to, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		len -= n;
	}
	return true;
}

/*
 * The nonce of a message whose body has that digest, as the head of this file says; false
 * without random bytes.
 */
static bool
make_nonce(const SfDataKey *key, SfBytes place, SfBytes head, const SfDigest *digest,
		   uint8_t *nonce)
{
	uint8_t		fresh[32];
	uint8_t		result[SF_KEY_BYTES];
	const SfBytes parts[] = {{fresh, sizeof(fresh)}, place, head, {digest, sizeof(*digest)}};

	/*
	 * Asked for each message: a pool of random bytes would be in the image,
	 * too.
	 */
	if (!sf_transform_random(fresh, sizeof(fresh)))
		return false;
	hmac(key->nonce, parts, 4, result);
	memcpy(nonce, result, SF_NONCE_BYTES);
	return true;
}

/* ---- sealed messages ---- */

/* Encrypt a message whose body has that digest. */
static bool
seal(const SfDataKey *key, const uint8_t *subkey, SfBytes place, const SfMessage *message,
	 const SfDigest *digest, uint8_t *dst)
{
	const SfCipherOps *cipher = sf_transform_find_cipher(key->cipher);

	return cipher != NULL && make_nonce(key, place, message->head, digest, dst) &&
		cipher->seal(subkey, dst, place, message, dst + SF_NONCE_BYTES);
}

bool
sf_transform_seal(const SfDataKey *key, const uint8_t *subkey, SfBytes place,
				  const SfMessage *message, uint8_t *dst)
{
	SfDigest	digest = sf_format_digest(message->body.data, message->body.len);
	bool		done = seal(key, subkey, place, message, &digest, dst);

	/* of a message that is a key, it says as much as half of it */
	sodium_memzero(&digest, sizeof(digest));
	return done;
}

/* Decrypt what sf_transform_seal() has made of a message of this length, head and body. */
static SfDecoded
unseal(const SfDataKey *key, const uint8_t *subkey, SfBytes place, const uint8_t *sealed,
	   SfRoom head, SfRoom body)
{
	const SfCipherOps *cipher = sf_transform_find_cipher(key->cipher);

	if (cipher == NULL)
		return SF_DECODE_NO_CIPHER;
	return cipher->open(subkey, sealed, place, sealed + SF_NONCE_BYTES, head, body);
}

/* ---- units ---- */

/* Where a unit belongs: the additional data of its tag. */
typedef struct UnitPlace
{
	char		magic[4];
	uint8_t		codec;
	uint8_t		reserved;		/* 0 */
	uint16_t	key_id;
	uint64_t	incarnation;
	uint64_t	object_id;
	uint64_t	unit_no;
} UnitPlace;

_Static_assert(sizeof(UnitPlace) == 32, "UnitPlace is an on-disk format");

/*
 * The generation is not part of it: versions of an object share the units that they have in
 * common.  An old unit in the place of a newer one is told by the map, which has its checksum.
 */
static UnitPlace
place_of(const SfDataKey *key, const SfUnitId *id, const SfUnit *unit)
{
	return (UnitPlace) {{'S', 'F', 'U', '1'}, unit->flags, 0, key->id,
							   id->incarnation, id->object_id, id->unit_no};
}

/* What stands in the sealed bytes of a unit besides its body: nonce, head, tag. */
_Static_assert(SF_NONCE_BYTES + SF_CODED_OVERHEAD + SF_TAG_BYTES == SF_KEYED_OVERHEAD,
			   "a sealed unit is SF_KEYED_OVERHEAD longer than its body");

uint32_t
sf_transform_sealed_bytes(const SfUnit *unit)
{
	return unit->stored_bytes + SF_KEYED_OVERHEAD -
		(sf_transform_is_raw(unit) ? 0 : SF_CODED_OVERHEAD);
}

/*
 * A unit that was encoded begins with its head.  One that is stored as it is gets one here,
 * so that all sealed units are alike, and the length of the plain bytes is known.  Its
 * bytes are gone through once for that and for the nonce.
 */
bool
sf_transform_seal_unit(const SfDataKey *key, const SfUnitId *id, SfUnit *unit,
					   const char *encoded, char *dst)
{
	const UnitPlace place = place_of(key, id, unit);
	uint8_t		head[SF_CODED_OVERHEAD];
	bool		is_raw = sf_transform_is_raw(unit);
	const SfMessage message = {
		{is_raw ? (const char *) head : encoded, SF_CODED_OVERHEAD},
		{encoded + (is_raw ? 0 : SF_CODED_OVERHEAD),
			unit->stored_bytes - (is_raw ? 0 : SF_CODED_OVERHEAD)}
	};
	const SfDigest digest = sf_format_digest(message.body.data, message.body.len);

	if (is_raw)
		sf_transform_put_head_of(encoded, unit->stored_bytes, &digest, head);
	if (!seal(key, key->unit, (SfBytes) {&place, sizeof(place)}, &message, &digest,
			  (uint8_t *) dst))
		return false;
	unit->stored_bytes = sf_transform_sealed_bytes(unit);
	return true;
}

SfDecoded
sf_transform_open_unit(const SfDataKey *key, const SfUnitId *id, SfUnit *unit,
					   const char *stored, char *head, char *body)
{
	const UnitPlace place = place_of(key, id, unit);
	uint32_t	body_bytes;
	SfDecoded	result;

	if (unit->stored_bytes <= SF_KEYED_OVERHEAD)
		return SF_DECODE_DAMAGED;
	body_bytes = unit->stored_bytes - SF_KEYED_OVERHEAD;
	result = unseal(key, key->unit, (SfBytes) {&place, sizeof(place)},
					(const uint8_t *) stored, (SfRoom) {head, SF_CODED_OVERHEAD},
					(SfRoom) {body, body_bytes});
	unit->stored_bytes = body_bytes + (sf_transform_is_raw(unit) ? 0 : SF_CODED_OVERHEAD);
	return result;
}

/* ---- values in rows ---- */

/* Where a value belongs: to which column, of which segment; all that its header says. */
typedef struct ValuePlace
{
	char		magic[4];
	uint8_t		header[SF_SEALED_HEADER];
} ValuePlace;

static ValuePlace
value_place_of(const uint8_t *value)
{
	ValuePlace	place = {{'S', 'F', 'I', '1'}, {0}};

	memcpy(place.header, value, sizeof(place.header));
	return place;
}

bool
sf_transform_seal_value(const SfDataKey *key, SfBytes encoded, uint8_t *value)
{
	const ValuePlace place = value_place_of(value);
	const SfMessage message = {.body = encoded};

	return sf_transform_seal(key, key->row, (SfBytes) {&place, sizeof(place)}, &message,
							 value + SF_SEALED_HEADER);
}

SfDecoded
sf_transform_open_value(const SfDataKey *key, const uint8_t *value, SfRoom encoded)
{
	const ValuePlace place = value_place_of(value);

	return unseal(key, key->row, (SfBytes) {&place, sizeof(place)},
				  value + SF_SEALED_HEADER, (SfRoom) {NULL, 0}, encoded);
}

/* ---- hashes of values ---- */

/*
 * Which version of which object a hash belongs to.  Each version has its own, while units are
 * shared: here the generation counts.
 */
typedef struct HashPlace
{
	char		magic[4];
	uint32_t	generation;
	uint64_t	incarnation;
	uint64_t	object_id;
} HashPlace;

_Static_assert(sizeof(HashPlace) == 24, "HashPlace is an on-disk format");
_Static_assert(SF_NONCE_BYTES + sizeof(SfContentHash) + SF_TAG_BYTES == SF_SEALED_HASH_SIZE,
			   "a sealed hash is as long as locators have it");

static HashPlace
hash_place_of(const SfLocator *version)
{
	return (HashPlace) {{'S', 'F', 'H', '1'}, version->generation, version->incarnation,
							   version->object_id};
}

bool
sf_transform_seal_hash(const SfDataKey *key, const SfLocator *version, const SfContentHash *hash,
					   uint8_t *sealed)
{
	const HashPlace place = hash_place_of(version);
	const SfMessage message = {.body = {hash, sizeof(*hash)}};

	return sf_transform_seal(key, key->content, (SfBytes) {&place, sizeof(place)}, &message,
							 sealed);
}

SfDecoded
sf_transform_open_hash(const SfDataKey *key, const SfLocator *version, const uint8_t *sealed,
					   SfContentHash *hash)
{
	const HashPlace place = hash_place_of(version);

	return unseal(key, key->content, (SfBytes) {&place, sizeof(place)}, sealed,
				  (SfRoom) {NULL, 0}, (SfRoom) {hash, sizeof(*hash)});
}

/* ---- what is not encrypted, and must be genuine ---- */

void
sf_transform_fingerprint(const SfDataKey *key, const SfDigest *digest, uint64_t length_bytes,
						 uint8_t *hash)
{
	uint8_t		result[SF_KEY_BYTES];
	const SfBytes parts[] = {{digest, sizeof(*digest)}, {&length_bytes, sizeof(length_bytes)}};

	if (key == NULL)
	{
		memcpy(hash, digest, SF_CONTENT_HASH_BYTES);
		return;
	}
	hmac(key->fingerprint, parts, 2, result);
	memcpy(hash, result, SF_CONTENT_HASH_BYTES);
	sodium_memzero(result, sizeof(result));
}

void
sf_transform_locator_tag(const SfDataKey *key, SfBytes locator, uint8_t *tag)
{
	uint8_t		result[SF_KEY_BYTES];

	hmac(key->locator, &locator, 1, result);
	memcpy(tag, result, SF_LOCATOR_TAG_SIZE);
}

bool
sf_transform_locator_is_genuine(const SfDataKey *key, const SfLocator *loc)
{
	uint8_t		tag[SF_LOCATOR_TAG_SIZE];

	sf_transform_locator_tag(key, (SfBytes) {loc->encoded, loc->tag - loc->encoded}, tag);
	return sodium_memcmp(tag, loc->tag, sizeof(tag)) == 0;
}

/*
 * A stamp is what the pointer to an inode page repeats.  Here it is made of all that the
 * page says, so that the locator, by its own tag, vouches for the whole tree.
 */
uint64_t
sf_transform_stamp(const SfDataKey *key, const SfInode *inode, size_t len)
{
	uint8_t		result[SF_KEY_BYTES];
	SfInode		fixed;
	uint64_t	stamp;
	const SfBytes parts[] = {
		{&fixed, SF_INODE_HEADER},
		{(const uint8_t *) inode + SF_INODE_HEADER, len - SF_INODE_HEADER}
	};

	/* The stamp stands in the page itself. */
	memcpy(&fixed, inode, SF_INODE_HEADER);
	fixed.stamp = 0;
	hmac(key->inode, parts, 2, result);
	memcpy(&stamp, result, sizeof(stamp));
	return SF_KEYED_STAMP + stamp % (SF_NUMBER_MAX - SF_KEYED_STAMP);
}
