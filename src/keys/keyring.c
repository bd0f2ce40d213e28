/*-------------------------------------------------------------------------
 *
 * keyring.c
 *	  The memory that the master keys lie in, and looking one up.
 *
 * The area is the extension's own, mapped by the postmaster: so it outlives a crash of
 * its children, after which the server makes its shared memory anew and the postmaster
 * does not run the command again; and it can be left out of core dumps, which the huge
 * pages of the server's own shared memory cannot be.
 *
 * Locking: the LWLock is in the server's shared memory.  Shared to read, exclusive to
 * replace.  No other lock is taken under it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>
#include <sys/mman.h>

#include "keys/keys_internal.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

typedef struct Keyring
{
	pg_atomic_uint64 generation;
	pg_atomic_uint32 current;	/* 0 or 1: the set that counts */
	bool		failed;			/* the command failed at start */
	SfKeySet	sets[2];
} Keyring;

StaticAssertDecl(sizeof(SfKeyEntry) == 72, "no space between the parts of an entry");
StaticAssertDecl(sizeof(Keyring) <= SF_KEYRING_BYTES, "the keys fit into their area");
StaticAssertDecl(sizeof(Keyring) + 2 * sizeof(SfKeyEntry) > SF_KEYRING_BYTES,
				 "no more keys would fit");

static Keyring *keyring = NULL;
static LWLock *lock = NULL;

/* ---- start ---- */

/* Say that keys are less protected than they should be; errno tells why. */
static void
log_unprotected(const char *consequence)
{
	ereport(LOG,
			(errmsg("could not protect the memory of master keys: %m"),
			 errdetail_internal("%s", consequence)));
}

void
sf_keys_map(void)
{
	void	   *area;

	SF_ASSERT(keyring == NULL);
	if (sodium_init() < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not initialize libsodium")));
	area = mmap(NULL, SF_KEYRING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not map memory for master keys: %m")));
	if (mlock(area, SF_KEYRING_BYTES) != 0)
		log_unprotected(_("It could not be locked, so that keys may get into swap space: the limit of locked memory (ulimit -l) is too low."));
	if (madvise(area, SF_KEYRING_BYTES, MADV_DONTDUMP) != 0)
		log_unprotected(_("Core dumps may have keys in them."));

	keyring = area;
	pg_atomic_init_u64(&keyring->generation, 1);
	pg_atomic_init_u32(&keyring->current, 0);
}

/* The set that is not current. */
static SfKeySet *
spare_set(void)
{
	return &keyring->sets[1 - pg_atomic_read_u32(&keyring->current)];
}

/* A process that was killed may have been loading. */
static void
wipe_spare_set(void)
{
	SF_ASSERT(keyring != NULL);
	sodium_memzero(spare_set(), sizeof(SfKeySet));
}

const SfSharedArea sf_keys_area = {
	.name = "securefile keys", .at = (void **) &lock,
	.bytes = sizeof(LWLock), .lock = "securefile_keys", .init = wipe_spare_set
};

/* ---- replacing all keys ---- */

SfKeySet *
sfi_keys_replace_begin(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	SF_ASSERT(sodium_is_zero((const unsigned char *) spare_set(), sizeof(SfKeySet)));
	return spare_set();
}

void
sfi_keys_replace_end(bool replace)
{
	SF_ASSERT(LWLockHeldByMeInMode(lock, LW_EXCLUSIVE));
	if (replace)
	{
		SF_ASSERT(spare_set()->count > 0);

		/*
		 * a process that is killed here leaves one of the two sets current,
		 * whole
		 */
		pg_memory_barrier();
		pg_atomic_write_u32(&keyring->current, 1 - pg_atomic_read_u32(&keyring->current));
		pg_memory_barrier();
		keyring->failed = false;
		sf_keys_raise_generation();
	}
	sodium_memzero(spare_set(), sizeof(SfKeySet));
	LWLockRelease(lock);
}

void
sfi_keys_note_failed(void)
{
	LWLockAcquire(lock, LW_EXCLUSIVE);
	keyring->failed = true;
	LWLockRelease(lock);
}

uint64
sf_keys_generation(void)
{
	return keyring == NULL ? 0 : pg_atomic_read_u64(&keyring->generation);
}

void
sf_keys_raise_generation(void)
{
	if (keyring != NULL)
		pg_atomic_fetch_add_u64(&keyring->generation, 1);
}

/* ---- looking keys up ---- */

/* The set that counts, whose lock is held. */
static const SfKeySet *
current_set(void)
{
	SF_ASSERT(LWLockHeldByMe(lock));
	return &keyring->sets[pg_atomic_read_u32(&keyring->current)];
}

const SfKeyEntry *
sfi_keys_find(const SfKeySet *set, const char *name)
{
	for (int i = 0; i < set->count; i++)
	{
		if (strcmp(set->entries[i].name, name) == 0)
			return &set->entries[i];
	}
	return NULL;
}

/* The key that wraps new data keys, or NULL. */
static const SfKeyEntry *
find_master(const SfKeySet *set)
{
	if (sf_master_key[0] != '\0')
		return sfi_keys_find(set, sf_master_key);
	return set->count == 1 ? &set->entries[0] : NULL;
}

bool
sf_keys_with_master(const char *name, SfKeysUse use, void *arg)
{
	const SfKeyEntry *entry;

	if (keyring == NULL)
		return false;
	LWLockAcquire(lock, LW_SHARED);
	entry = sfi_keys_find(current_set(), name);
	if (entry != NULL)
		use(entry->key, entry->check, arg);
	LWLockRelease(lock);
	return entry != NULL;
}

const char *
sf_keys_master_name(void)
{
	static char name[SF_MASTER_NAME_SIZE];
	const SfKeyEntry *entry;

	if (keyring == NULL)
		return NULL;
	LWLockAcquire(lock, LW_SHARED);
	entry = find_master(current_set());
	if (entry != NULL)
		memcpy(name, entry->name, sizeof(name));
	LWLockRelease(lock);
	return entry != NULL ? name : NULL;
}

int
sf_keys_list(SfKeyListed **keys)
{
	const SfKeySet *set;
	const SfKeyEntry *master;
	int			count;

	sf_base_require_preload();
	*keys = palloc(SF_KEYS_MAX * sizeof(SfKeyListed));
	LWLockAcquire(lock, LW_SHARED);
	set = current_set();
	master = find_master(set);
	count = set->count;
	for (int i = 0; i < count; i++)
	{
		memcpy((*keys)[i].name, set->entries[i].name, SF_MASTER_NAME_SIZE);
		(*keys)[i].current = &set->entries[i] == master;
	}
	LWLockRelease(lock);
	return count;
}

/* ---- no current master key ---- */

/* The detail and the hint where no key is loaded at all. */
static int
explain_no_keys(bool failed)
{
	if (sf_key_command[0] == '\0')
	{
		errdetail("The setting securefile.key_command is empty.");
		errhint("Set it in postgresql.conf, reload the configuration, and call securefile_load_keys().");
	}
	else if (failed)
	{
		errdetail("The command of securefile.key_command failed when the server started, and the server log says why.");
		errhint("Call securefile_load_keys() when the command works.");
	}
	else
	{
		errdetail("The command of securefile.key_command has not been run since it was set.");
		errhint("Call securefile_load_keys().");
	}
	return 0;
}

/* The same where some are, but none is current; it may have become so after the caller's look. */
static int
explain_keys(int count, bool current)
{
	if (current)
	{
		errdetail("The keys have been loaded anew at this moment.");
		errhint("Repeat the command.");
	}
	else if (sf_master_key[0] != '\0')
	{
		errdetail("No key of the name \"%s\" is loaded, which securefile.master_key has.",
				  sf_master_key);
		errhint("Set securefile.master_key to a name that securefile_master_keys() shows, or add the key to the output of securefile.key_command and call securefile_load_keys().");
	}
	else
	{
		errdetail_plural("The setting securefile.master_key is empty, and %d key is loaded.",
						 "The setting securefile.master_key is empty, and %d keys are loaded.",
						 count, count);
		errhint("Set securefile.master_key to a name that securefile_master_keys() shows.");
	}
	return 0;
}

void
sf_keys_refuse_no_master(void)
{
	int			count;
	bool		current;
	bool		failed;

	sf_base_require_preload();
	LWLockAcquire(lock, LW_SHARED);
	count = current_set()->count;
	current = find_master(current_set()) != NULL;
	failed = keyring->failed;
	LWLockRelease(lock);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("there is no current master key"),
			 count == 0 ? explain_no_keys(failed) : explain_keys(count, current)));
}
