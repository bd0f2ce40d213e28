/*-------------------------------------------------------------------------
 *
 * hasher.c
 *	  The digest of a content that comes in parts, and that of its first unit.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>
#define XXH_STATIC_LINKING_ONLY /* the state's size and alignment */
#include <xxhash.h>

#include "stream/deduplicate.h"

#define ALIGNMENT	64

struct SfHasher
{
	int64		length;
	SfDigest	prefix;
	char		room[sizeof(XXH3_state_t) + ALIGNMENT];
};

/* The last draft whose hash is known when it is finished. */
static struct
{
	uint64		incarnation;
	uint64		object_id;		/* 0: none */
	uint64		length;
	SfDigest	digest;
	SfDigest	prefix;
}			noted_hash;

/* The state has an alignment of its own, which palloc() does not give. */
static XXH3_state_t *
state_of(const SfHasher *hasher)
{
	return (XXH3_state_t *) TYPEALIGN(ALIGNMENT, hasher->room);
}

SfHasher *
sfi_hasher_new(void)
{
	SfHasher   *hasher = palloc(sizeof(SfHasher));

	hasher->length = 0;
	(void) XXH3_128bits_reset(state_of(hasher));
	return hasher;
}

/* The state has the last bytes, if they are no whole block. */
void
sfi_hasher_free(SfHasher *hasher)
{
	sodium_memzero(hasher, sizeof(SfHasher));
	pfree(hasher);
}

SfDigest
sfi_hasher_digest(const SfHasher *hasher)
{
	XXH128_hash_t hash = XXH3_128bits_digest(state_of(hasher));

	return (SfDigest) {hash.low64, hash.high64};
}

void
sfi_hasher_add(SfHasher *hasher, const char *data, int64 len)
{
	SF_ASSERT(len > 0 && hasher->length >= 0);
	if (hasher->length < SF_UNIT_SIZE && hasher->length + len >= SF_UNIT_SIZE)
	{
		int64		n = SF_UNIT_SIZE - hasher->length;

		(void) XXH3_128bits_update(state_of(hasher), data, n);
		hasher->length += n;
		hasher->prefix = sfi_hasher_digest(hasher);
		data += n;
		len -= n;
	}
	(void) XXH3_128bits_update(state_of(hasher), data, len);
	hasher->length += len;
}

SfDigest
sfi_hasher_prefix(const SfHasher *hasher)
{
	SF_ASSERT(hasher->length >= SF_UNIT_SIZE);
	return hasher->prefix;
}

void
sfi_hasher_note(const SfHasher *hasher, const SfLocator *draft)
{
	SF_ASSERT(hasher->length == (int64) sf_locator_value_bytes(draft) && draft->generation == 1);
	noted_hash.incarnation = draft->incarnation;
	noted_hash.object_id = draft->object_id;
	noted_hash.length = sf_locator_value_bytes(draft);
	noted_hash.digest = sfi_hasher_digest(hasher);
	noted_hash.prefix = hasher->prefix;
}

/*
 * An id comes again only where a move of the storage was rolled back; the length is compared,
 * too, and then what is found is compared byte by byte, as ever.
 */
bool
sfi_hasher_recall(const SfValue *value, SfDigest *digest, SfDigest *prefix)
{
	const SfLocator *loc = &value->loc;

	*digest = noted_hash.digest;
	*prefix = noted_hash.prefix;
	return value->form == SF_FORM_STORED && loc->object_id == noted_hash.object_id &&
		loc->incarnation == noted_hash.incarnation && loc->generation == 1 &&
		sf_locator_value_bytes(loc) == noted_hash.length;
}
