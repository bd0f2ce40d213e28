/*-------------------------------------------------------------------------
 *
 * data.c
 *	  Data keys of columns: made, found, and kept by processes.
 *
 * A column's data keys lie in its segment (space/key_pages.c), wrapped with master keys (wrap.c).
 *
 * Values are written with the newest key of the column, if today's master key wraps it;
 * if not, with a new one.  So a master key that became known to somebody, and is only
 * loaded for the sake of old values, cannot be used to plant a data key for new ones.
 *
 * A process keeps the keys that it has unwrapped, in one piece of memory that is locked
 * and left out of core dumps.  What is kept holds for one generation of the keyring: when
 * master keys were loaded, or any data key was made or wrapped anew, it is asked for
 * again.  So it is when the process has rolled back storage: a key that was made in it is
 * nowhere then, and a value that was encrypted with it could never be read.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "keys/keys_internal.h"
#include "miscadmin.h"
#include "space/key_pages.h"
#include "utils/timestamp.h"

#define KEPT			64

/* An unwrapped key of a segment. */
typedef struct KeptKey
{
	uint64		incarnation;	/* 0: nothing is kept here */
	uint64		as_of;			/* generation of the keyring */
	uint64		used;			/* when, on the clock of uses */
	bool		is_current;		/* new values take it */
	bool		is_distrusted;
	SfDataKey	key;
} KeptKey;

static KeptKey *kept;			/* KEPT of them */
static uint64 clock_of_uses;

/* ---- what is kept ---- */

/* Forget all keys, some of which may have been rolled back with their storage. */
static void
forget_undone(void)
{
	static uint64 as_of;

	if (!sf_space_undone_since(&as_of))
		return;
	if (kept != NULL)
		sodium_memzero(kept, KEPT * sizeof(KeptKey));
}

/* A kept key that holds still: of that number, or 0: the current one. */
static KeptKey *
find_kept(uint64 incarnation, uint16 key_id)
{
	uint64		generation = sf_keys_generation();

	forget_undone();
	for (int i = 0; kept != NULL && i < KEPT; i++)
	{
		KeptKey    *there = &kept[i];

		if (there->incarnation == incarnation && there->as_of == generation &&
			(key_id == 0 ? there->is_current : there->key.id == key_id))
		{
			SF_ASSERT(there->key.id > 0);
			there->used = ++clock_of_uses;
			return there;
		}
	}
	return NULL;
}

/* The memory, made on first use for the life of the process. */
static void
make_kept(void)
{
	if (kept != NULL)
		return;
	if (sodium_init() < 0 || (kept = sodium_malloc(KEPT * sizeof(KeptKey))) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Keys need %zu bytes of locked memory.", KEPT * sizeof(KeptKey)),
				 errhint("Raise the limit of locked memory of the server's process (RLIMIT_MEMLOCK).")));
	sodium_memzero(kept, KEPT * sizeof(KeptKey));
}

/* The place of what is out of date, or else was not used for the longest time; wiped. */
static KeptKey *
make_place(const SfSegment *seg, uint16 key_id)
{
	KeptKey    *place = &kept[0];

	for (int i = 0; i < KEPT; i++)
	{
		/* one key has one place */
		if (kept[i].incarnation == seg->incarnation && kept[i].key.id == key_id)
		{
			place = &kept[i];
			break;
		}
		if (kept[i].used < place->used)
			place = &kept[i];
	}
	sodium_memzero(place, sizeof(*place));
	return place;
}

/*
 * Unwrap a key and keep it.  generation: of the keyring, before the entry was read.  ERROR
 * when its master key is not loaded, it was destroyed, or the entry is not genuine.
 */
static KeptKey *
keep(const SfSegment *seg, const SfKeyPage *keys, SfWrappedKey *entry, uint64 generation,
	 bool is_current)
{
	KeptKey    *place;
	uint8		secret[SF_KEY_BYTES];
	SfUnwrapped result;

	SF_ASSERT(entry->purpose == SF_KEY_DATA && entry->key_id > 0);
	make_kept();
	result = sfi_keys_unwrap(seg, keys, entry, secret);
	if (result != SF_UNWRAPPED)
		sfi_keys_refuse(seg, entry, result);
	place = make_place(seg, entry->key_id);
	sf_transform_data_key(&place->key, entry->key_id, entry->cipher, secret);
	sodium_memzero(secret, sizeof(secret));
	place->incarnation = seg->incarnation;
	place->as_of = generation;
	place->is_current = is_current;
	place->is_distrusted = entry->state == SF_KEY_DISTRUSTED;
	place->used = ++clock_of_uses;
	return place;
}

/* ---- for reads ---- */

/* Read the key pages; the entry of that number, or NULL. */
static SfWrappedKey *
read_entry(SfSegment *seg, uint16 key_id, SfKeyPage *keys)
{
	return sf_space_read_keys(seg, 0, keys) && key_id <= keys->nentries ?
		&keys->entries[key_id - 1] : NULL;
}

const SfDataKey *
sf_keys_of(SfSegment *seg, uint16 key_id)
{
	KeptKey    *there = find_kept(seg->incarnation, key_id);
	uint64		generation = sf_keys_generation();
	SfKeyPage	keys;
	SfWrappedKey *entry;

	SF_ASSERT(key_id > 0);
	if (there != NULL)
		return &there->key;
	entry = read_entry(seg, key_id, &keys);
	if (entry == NULL || entry->purpose != SF_KEY_DATA)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("%s has no data key %u", sfi_keys_column_name(seg), key_id),
				 errhint("Run securefile_check() on the column.")));
	SF_ASSERT(entry->key_id == key_id);
	return &keep(seg, &keys, entry, generation, false)->key;
}

const SfDataKey *
sf_keys_of_home(const SfHome *home, uint16 key_id)
{
	KeptKey    *there = find_kept(home->incarnation, key_id);
	const SfDataKey *key;
	SfSegment  *seg;

	if (there != NULL)
		return &there->key;
	seg = sf_space_open_incarnation(home->table_oid, home->attnum, home->incarnation);
	key = sf_keys_of(seg, key_id);
	sf_space_release(seg);
	return key;
}

static bool
has_cipher(uint32 cipher)
{
	return sf_transform_find_cipher(cipher) != NULL;
}

bool
sf_keys_can_decrypt(SfSegment *seg, uint16 key_id)
{
	KeptKey    *there;
	SfKeyPage	keys;
	SfWrappedKey *entry;

	if (key_id == 0)
		return true;
	there = find_kept(seg->incarnation, key_id);
	if (there != NULL)
		return has_cipher(there->key.cipher);
	entry = read_entry(seg, key_id, &keys);
	return entry == NULL ||
		(!sfi_keys_is_destroyed(&keys, entry) && sfi_keys_is_master_loaded(entry) &&
		 has_cipher(entry->cipher));
}

/*
 * The key that new values take: the newest for data, if it may be used, and this build has
 * its cipher; NULL if not.
 */
static SfWrappedKey *
current_of(SfKeyPage *keys, const char *master, const uint8 *check)
{
	for (int i = (int) keys->nentries - 1; i >= 0; i--)
	{
		SfWrappedKey *entry = &keys->entries[i];

		if (entry->purpose != SF_KEY_DATA)
			continue;
		return entry->state == SF_KEY_USABLE && has_cipher(entry->cipher) &&
			!sfi_keys_is_destroyed(keys, entry) && sfi_keys_is_wrapped_by(entry, master, check) ?
			entry : NULL;
	}
	return NULL;
}

/*
 * What is kept is of the newest generation, and a change of state raises that.
 */
bool
sf_keys_is_distrusted(SfSegment *seg, uint16 key_id)
{
	KeptKey    *there = find_kept(seg->incarnation, key_id);
	SfKeyPage	keys;
	SfWrappedKey *entry;

	SF_ASSERT(key_id > 0);
	if (there != NULL)
		return there->is_distrusted;
	entry = read_entry(seg, key_id, &keys);
	return entry != NULL && entry->state == SF_KEY_DISTRUSTED;
}

/*
 * What a key page says of a key, and whether its master key is loaded.  Whether the key is
 * genuine is not found out: that would need the master key.
 */
static SfKeyShown
show_key(const SfKeyPage *keys, SfWrappedKey *entry)
{
	SfKeyShown	shown = {
		.key_id = entry->key_id,
		.purpose = entry->purpose,
		.state = entry->state,
		.cipher = entry->cipher,
		.is_shredded = sfi_keys_is_destroyed(keys, entry),
		.is_loaded = sfi_keys_is_master_loaded(entry),
		.created = (TimestampTz) entry->created,
	};

	memcpy(shown.master, entry->master, sizeof(shown.master));
	return shown;
}

int
sf_keys_show(SfSegment *seg, SfKeyShown **shown)
{
	const char *master = sf_keys_master_name();
	uint8		check[SF_MASTER_CHECK_SIZE];
	SfKeyPage	keys;
	SfWrappedKey *current = NULL;

	*shown = NULL;
	if (!sf_space_read_keys(seg, 0, &keys))
		return 0;
	*shown = palloc0(keys.nentries * sizeof(SfKeyShown));
	if (master != NULL && sf_config_encrypts(sf_space_column(seg)) &&
		sf_keys_with_master(master, sfi_keys_copy_check, check))
		current = current_of(&keys, master, check);
	for (uint32 i = 0; i < keys.nentries; i++)
	{
		(*shown)[i] = show_key(&keys, &keys.entries[i]);
		(*shown)[i].is_current = &keys.entries[i] == current;
	}
	return (int) keys.nentries;
}

/* ---- for writes ---- */

/* The cipher that new keys are for; a build without OpenSSL has one only. */
static SfCipher
cipher_of_setting(void)
{
#ifdef SF_OPENSSL
	if (sf_cipher == SF_CIPHER_SETTING_AES ||
		(sf_cipher == SF_CIPHER_SETTING_AUTO && sodium_runtime_has_aesni()))
		return SF_CIPHER_AES256;
#endif
	return SF_CIPHER_XCHACHA20;
}

/*
 * A key that is new and has the name of an older one is most likely not what was meant, as on
 * a server that was restored and has other keys.  Of two keys of one name only one can be
 * loaded, and so either the older values could be read or the new ones.
 */
static void
refuse_namesake(const SfSegment *seg, const SfKeyPage *keys, const char *master)
{
	uint8		check[SF_MASTER_CHECK_SIZE];

	if (!sf_keys_with_master(master, sfi_keys_copy_check, check))
		return;
	for (uint32 i = 0; i < keys->nentries; i++)
	{
		const SfWrappedKey *entry = &keys->entries[i];

		if (strcmp(entry->master, master) == 0 && !sfi_keys_is_destroyed(keys, entry) &&
			!sfi_keys_is_wrapped_by(entry, master, check))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("master key \"%s\" is another one than that of data key %u of %s",
							master, entry->key_id, sfi_keys_column_name(seg)),
					 errdetail("It has the same name and other bytes, and only one key of a name can be loaded."),
					 errhint("Have securefile.key_command print the other one, or this one under a name of its own, and call securefile_load_keys().")));
	}
}

SfWrappedKey *
sfi_keys_append(const SfSegment *seg, SfKeyPage *keys, const char *master)
{
	uint8		secret[SF_KEY_BYTES];
	SfWrappedKey *entry = &keys->entries[keys->nentries];
	bool		done;

	if (keys->nentries >= SF_DATA_KEYS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s has had %d data keys already", sfi_keys_column_name(seg),
						SF_DATA_KEYS_MAX),
				 errhint("TRUNCATE, or securefile_rewrite() to the other logging mode, begins a new segment, which has keys of its own.")));
	refuse_namesake(seg, keys, master);
	*entry = (SfWrappedKey) {
									.key_id = ++keys->nentries,
									.purpose = SF_KEY_DATA,
									.state = SF_KEY_USABLE,
									.cipher = cipher_of_setting(),
									.wrap = SF_KEY_WRAP_XCHACHA20,
									.created = GetCurrentTimestamp(),
									};
	done = sf_transform_random(secret, sizeof(secret)) &&
		sfi_keys_wrap(seg, entry, master, secret);
	sodium_memzero(secret, sizeof(secret));
	if (!done)
		sfi_keys_report_not_wrapped();
	return entry;
}

/*
 * The entry of the current key, which is made if there is none.  When another session has
 * changed the keys meanwhile, its changes are looked at first.  generation: of the keyring,
 * before the keys were read, so that a change right after that is not missed.
 */
static SfWrappedKey *
take_current(SfSegment *seg, SfKeyPage *keys, uint64 *generation)
{
	const char *master = sf_keys_master_name();
	uint8		check[SF_MASTER_CHECK_SIZE];

	if (master == NULL || !sf_keys_with_master(master, sfi_keys_copy_check, check))
		sf_keys_refuse_no_master();
	for (;;)
	{
		SfKeyPage	seen;
		SfWrappedKey *entry;

		CHECK_FOR_INTERRUPTS();
		*generation = sf_keys_generation();
		if (!sf_space_read_keys(seg, 0, &seen))
			memset(&seen, 0, sizeof(seen));
		*keys = seen;
		entry = current_of(keys, master, check);
		if (entry != NULL)
			return entry;
		entry = sfi_keys_append(seg, keys, master);
		if (sfi_keys_publish(seg, &seen, keys))
			return entry;
	}
}

const SfDataKey *
sf_keys_current(SfSegment *seg)
{
	KeptKey    *there = find_kept(seg->incarnation, 0);
	uint64		generation;
	SfKeyPage	keys;
	SfWrappedKey *entry;

	if (there != NULL)
		return &there->key;
	entry = take_current(seg, &keys, &generation);
	return &keep(seg, &keys, entry, generation, true)->key;
}
