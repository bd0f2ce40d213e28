/*-------------------------------------------------------------------------
 *
 * wrap.c
 *	  Entries of key pages: data keys, wrapped with master keys.
 *
 * What wraps a data key is not the master key itself, but a key of its own for that
 * purpose.  The tag of a wrapped key covers all that the entry says, and whose segment it
 * is in: an entry that is moved to another column, or whose state is changed, cannot be
 * unwrapped.  Nonces are made as those of values are (transform/cipher.c), with another key
 * that the master key has for them.
 *
 * Keys that there are change in rotate.c and shred.c, with what is here.  A secret lies on
 * the stack meanwhile, and is wiped before anything is thrown.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "keys/keys_internal.h"
#include "space/key_pages.h"
#include "utils/lsyscache.h"

/* What the tag of a wrapped key covers. */
typedef struct WrapPlace
{
	char		magic[4];
	uint8		purpose;
	uint8		state;
	uint8		cipher;
	uint8		wrap;
	uint16		key_id;
	int16		attnum;
	Oid			table_oid;
	uint64		created;
	uint64		incarnation;
} WrapPlace;

StaticAssertDecl(sizeof(WrapPlace) == 32, "WrapPlace is an on-disk format");

/* One use of a master key: wrap, or unwrap. */
typedef struct Wrapping
{
	const SfSegment *seg;
	SfWrappedKey *entry;
	uint8	   *secret;			/* SF_KEY_BYTES */
	bool		is_known;		/* the master key is the one that the entry
								 * names */
	bool		done;
} Wrapping;

static WrapPlace
place_of(const SfSegment *seg, const SfWrappedKey *entry)
{
	WrapPlace	place = {
		.magic = {'S', 'F', 'K', '1'},
		.purpose = entry->purpose,
		.state = entry->state,
		.cipher = entry->cipher,
		.wrap = entry->wrap,
		.key_id = entry->key_id,
		.attnum = seg->attnum,
		.table_oid = seg->table_oid,
		.created = entry->created,
		.incarnation = seg->incarnation,
	};

	return place;
}

/* An SfKeysUse: wrap a secret, for the first time or anew; sets the entry's last fields. */
static void
wrap(const uint8 *master, const uint8 *check, void *arg)
{
	Wrapping   *wrapping = arg;
	SfWrappedKey *entry = wrapping->entry;
	const WrapPlace place = place_of(wrapping->seg, entry);
	const SfMessage message = {.body = {wrapping->secret, SF_KEY_BYTES}};
	uint8		sealed[SF_NONCE_BYTES + SF_KEY_BYTES + SF_TAG_BYTES];
	uint8		key[SF_KEY_BYTES];
	SfDataKey	nonces = {.cipher = SF_CIPHER_XCHACHA20};

	memcpy(entry->master_check, check, sizeof(entry->master_check));
	sf_transform_subkey(master, "wrap", key);
	sf_transform_subkey(master, "nonce", nonces.nonce);
	wrapping->done = sf_transform_seal(&nonces, key, (SfBytes) {&place, sizeof(place)}, &message,
									   sealed);
	sodium_memzero(key, sizeof(key));
	sodium_memzero(&nonces, sizeof(nonces));
	memcpy(entry->nonce, sealed, sizeof(entry->nonce));
	memcpy(entry->wrapped, sealed + SF_NONCE_BYTES, sizeof(entry->wrapped));
	memcpy(entry->tag, sealed + SF_NONCE_BYTES + SF_KEY_BYTES, sizeof(entry->tag));
}

/* An SfKeysUse: the secret of an entry. */
static void
unwrap(const uint8 *master, const uint8 *check, void *arg)
{
	Wrapping   *wrapping = arg;
	const SfWrappedKey *entry = wrapping->entry;
	const WrapPlace place = place_of(wrapping->seg, entry);
	uint8		sealed[SF_KEY_BYTES + SF_TAG_BYTES];
	uint8		key[SF_KEY_BYTES];

	wrapping->is_known = memcmp(check, entry->master_check, sizeof(entry->master_check)) == 0;
	if (!wrapping->is_known)
		return;
	memcpy(sealed, entry->wrapped, SF_KEY_BYTES);
	memcpy(sealed + SF_KEY_BYTES, entry->tag, SF_TAG_BYTES);
	sf_transform_subkey(master, "wrap", key);
	wrapping->done =
		sf_transform_xchacha.open(key, entry->nonce, (SfBytes) {&place, sizeof(place)}, sealed,
								  (SfRoom) {NULL, 0},
								  (SfRoom) {wrapping->secret, SF_KEY_BYTES}) == SF_DECODED;
	sodium_memzero(key, sizeof(key));
}

/*
 * While the transaction that shreds has not ended, only itself can come here: it has the
 * column locked.  Where nobody knows any more how it has ended, nothing is lost.
 */
bool
sfi_keys_is_destroyed(const SfKeyPage *keys, const SfWrappedKey *entry)
{
	SfTransactionEnd end;

	if (entry->state == SF_KEY_DESTROYED)
		return true;
	if (!sf_key_is_marked(keys, entry))
		return false;
	end = sf_base_transaction_end(keys->shred_fxid);
	return end == SF_END_RUNNING || end == SF_END_COMMITTED;
}

SfUnwrapped
sfi_keys_unwrap(const SfSegment *seg, const SfKeyPage *keys, SfWrappedKey *entry, uint8 *secret)
{
	Wrapping	wrapping = {.seg = seg, .entry = entry, .secret = secret};

	if (sfi_keys_is_destroyed(keys, entry))
		return SF_UNWRAP_DESTROYED;
	if (!sf_keys_with_master(entry->master, unwrap, &wrapping) || !wrapping.is_known)
		return SF_UNWRAP_NO_MASTER;
	if (wrapping.done)
		return SF_UNWRAPPED;
	sodium_memzero(secret, SF_KEY_BYTES);
	return SF_UNWRAP_NOT_GENUINE;
}

bool
sfi_keys_wrap(const SfSegment *seg, SfWrappedKey *entry, const char *master, uint8 *secret)
{
	Wrapping	wrapping = {.seg = seg, .entry = entry, .secret = secret};
	char		name[SF_MASTER_NAME_SIZE] = {0};

	/* the name may be the entry's own */
	SF_ASSERT(master[0] != '\0' && strlen(master) <= SF_KEY_NAME_MAX);
	strlcpy(name, master, sizeof(name));
	memcpy(entry->master, name, sizeof(name));
	return sf_keys_with_master(name, wrap, &wrapping) && wrapping.done;
}

/* ---- which master key ---- */

void
sfi_keys_copy_check(const uint8 *master, const uint8 *check, void *arg)
{
	memcpy(arg, check, SF_MASTER_CHECK_SIZE);
}

bool
sfi_keys_is_wrapped_by(const SfWrappedKey *entry, const char *master, const uint8 *check)
{
	return strcmp(entry->master, master) == 0 &&
		memcmp(entry->master_check, check, SF_MASTER_CHECK_SIZE) == 0;
}

bool
sfi_keys_is_master_loaded(const SfWrappedKey *entry)
{
	uint8		check[SF_MASTER_CHECK_SIZE];

	return sf_keys_with_master(entry->master, sfi_keys_copy_check, check) &&
		sfi_keys_is_wrapped_by(entry, entry->master, check);
}

/* ---- changes ---- */

bool
sfi_keys_publish(SfSegment *seg, const SfKeyPage *seen, const SfKeyPage *keys)
{
	SF_FAULT(keys_publish);
	if (!sf_space_put_keys(seg, seen->nentries > 0 ? seen : NULL, keys))
		return false;

	/*
	 * nothing that may throw or be interrupted lies between the record and
	 * this
	 */
	sf_keys_raise_generation();
	SF_FAULT(keys_changed);
	return true;
}

/* ---- errors ---- */

const char *
sfi_keys_column_name(const SfSegment *seg)
{
	const char *column = get_attname(seg->table_oid, seg->attnum, true);
	const char *table = get_rel_name(seg->table_oid);

	if (column == NULL || table == NULL)
		return psprintf("column %d of table with OID %u", seg->attnum, seg->table_oid);
	return psprintf("column \"%s\" of table \"%s\"", column, table);
}

void
sfi_keys_refuse(const SfSegment *seg, const SfWrappedKey *entry, SfUnwrapped result)
{
	const char *column = sfi_keys_column_name(seg);

	SF_ASSERT(result != SF_UNWRAPPED);
	if (result == SF_UNWRAP_DESTROYED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("data key %u of %s was destroyed", entry->key_id, column),
				 errdetail("securefile_shred() was called for the column.  What the key has encrypted cannot be read any more."),
				 errhint("Such rows can be deleted, and their values be replaced by new ones.")));
	if (result == SF_UNWRAP_NO_MASTER)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("master key \"%s\" of %s is not loaded", entry->master, column),
				 errdetail("It wraps data key %u of the column.  A key of that name with other bytes is not the same.",
						   entry->key_id),
				 errhint("Have securefile.key_command print it, and call securefile_load_keys().")));
	sf_base_report_damage(psprintf("data key %u of %s cannot be authenticated", entry->key_id, column),
						  "It was not wrapped for this column with the master key that it names, or was changed since.");
}

void
sfi_keys_report_not_wrapped(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("could not make a key"),
			 errdetail("The system gives no random bytes, or there is no memory.")));
}
