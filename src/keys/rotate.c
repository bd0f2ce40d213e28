/*-------------------------------------------------------------------------
 *
 * rotate.c
 *	  Data keys are wrapped with another master key, or give way to new ones.
 *
 * To wrap a key anew does not change the key: what it has encrypted stays as it is.  A new
 * data key is for new values, and the older ones stay for those that there are.
 *
 * What a key page says of a key is covered by the tag of its wrap.  So a key whose state
 * changes is wrapped anew, too, with the master key that it has.
 *
 * All keys of a segment are changed by one record, made from what was read before.  If
 * somebody else was faster, all is done again, on what that one has left.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "keys/keys_internal.h"
#include "miscadmin.h"
#include "space/key_pages.h"

/* Wrap one key anew, with that state, if it can be unwrapped; if not it stays as it is. */
static SfUnwrapped
wrap_anew(const SfSegment *seg, const SfKeyPage *keys, SfWrappedKey *entry, SfKeyState state,
		  const char *master)
{
	uint8		secret[SF_KEY_BYTES];
	SfUnwrapped result = sfi_keys_unwrap(seg, keys, entry, secret);
	bool		done = true;

	SF_ASSERT(state >= entry->state && state <= SF_KEY_DISTRUSTED);
	if (result == SF_UNWRAPPED)
	{
		entry->state = state;
		done = sfi_keys_wrap(seg, entry, master, secret);
	}
	sodium_memzero(secret, sizeof(secret));
	if (!done)
		sfi_keys_report_not_wrapped();
	return result;
}

/* ---- another master key ---- */

/* The master key that wraps keys from now on. */
typedef struct Target
{
	char		name[SF_MASTER_NAME_SIZE];
	uint8		check[SF_MASTER_CHECK_SIZE];
} Target;

/* Fill it in, by a name or for the current one; ERROR if it is not loaded. */
static void
find_target(const char *master, Target *target)
{
	const char *name = master != NULL ? master : sf_keys_master_name();

	if (name != NULL && sf_keys_with_master(name, sfi_keys_copy_check, target->check))
	{
		strlcpy(target->name, name, sizeof(target->name));
		return;
	}
	if (master == NULL)
		sf_keys_refuse_no_master();
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("master key \"%s\" is not loaded", master),
			 errhint("Have securefile.key_command print it, and call securefile_load_keys().")));
}

static void
warn_passed_over(const SfSegment *seg, const SfWrappedKey *entry, SfUnwrapped result)
{
	bool		no_master = result == SF_UNWRAP_NO_MASTER;

	SF_ASSERT(result != SF_UNWRAPPED);
	ereport(WARNING,
			(errcode(no_master ? ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE
					 : ERRCODE_DATA_CORRUPTED),
			 errmsg("data key %u of %s is not wrapped anew", entry->key_id,
					sfi_keys_column_name(seg)),
			 no_master ?
			 errdetail("Its master key \"%s\" is not loaded.  A key of that name with other bytes is not the same.",
					   entry->master) :
			 errdetail("It cannot be authenticated: it was not wrapped for this column with the master key \"%s\" that it names, or was changed since.",
					   entry->master),
			 no_master ?
			 errhint("Have securefile.key_command print it, call securefile_load_keys(), and repeat the command.") :
			 errhint("Run securefile_check() on the column.")));
}

/* Wrap anew what is not wrapped by the target; results: of each key, which became what. */
static int
rewrap_all(const SfSegment *seg, SfKeyPage *keys, const Target *target, SfUnwrapped *results)
{
	int			done = 0;

	for (uint32 i = 0; i < keys->nentries; i++)
	{
		SfWrappedKey *entry = &keys->entries[i];

		results[i] = SF_UNWRAPPED;
		if (sfi_keys_is_wrapped_by(entry, target->name, target->check) ||
			sfi_keys_is_destroyed(keys, entry))
			continue;
		results[i] = wrap_anew(seg, keys, entry, entry->state, target->name);
		done += results[i] == SF_UNWRAPPED;
		SF_ASSERT(results[i] != SF_UNWRAPPED || strcmp(entry->master, target->name) == 0);
	}
	return done;
}

int
sf_keys_rewrap(SfSegment *seg, const char *master)
{
	Target		target;
	SfUnwrapped results[SF_DATA_KEYS_MAX];
	SfKeyPage	seen;
	SfKeyPage	keys;
	int			done;

	find_target(master, &target);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!sf_space_read_keys(seg, 0, &seen))
			return 0;
		keys = seen;
		done = rewrap_all(seg, &keys, &target, results);
	} while (done > 0 && !sfi_keys_publish(seg, &seen, &keys));
	SF_ASSERT(done <= (int) keys.nentries && keys.nentries == seen.nentries);

	for (uint32 i = 0; i < keys.nentries; i++)
		if (results[i] != SF_UNWRAPPED)
			warn_passed_over(seg, &keys.entries[i], results[i]);
	return done;
}

/* ---- a new data key ---- */

/* Let no new value take one of the data keys; ERROR if that cannot be done. */
static void
retire_all(const SfSegment *seg, SfKeyPage *keys, bool distrust)
{
	for (uint32 i = 0; i < keys->nentries; i++)
	{
		SfWrappedKey *entry = &keys->entries[i];
		SfKeyState	state = distrust ? SF_KEY_DISTRUSTED : Max(entry->state, SF_KEY_OLD);
		SfUnwrapped result;

		/*
		 * a key for hashes is for ever: what it has hashed is compared with
		 * new hashes
		 */
		if (entry->purpose != SF_KEY_DATA || entry->state == state ||
			sfi_keys_is_destroyed(keys, entry))
			continue;
		result = wrap_anew(seg, keys, entry, state, entry->master);
		if (result != SF_UNWRAPPED)
			sfi_keys_refuse(seg, entry, result);
	}
}

/*
 * Read the keys, and what they are to be: the older ones retired, and a new one, whose entry
 * is returned.  seen has none if there are no key pages.
 */
static SfWrappedKey *
plan_new(SfSegment *seg, bool distrust, SfKeyPage *seen, SfKeyPage *keys)
{
	const char *master = sf_keys_master_name();

	StaticAssertStmt(SF_KEY_USABLE < SF_KEY_OLD && SF_KEY_OLD < SF_KEY_DISTRUSTED,
					 "states are in the order of trust");
	if (master == NULL)
		sf_keys_refuse_no_master();
	if (!sf_space_read_keys(seg, 0, seen))
		memset(seen, 0, sizeof(*seen));
	*keys = *seen;
	retire_all(seg, keys, distrust);
	SF_ASSERT(keys->nentries == seen->nentries);
	return sfi_keys_append(seg, keys, master);
}

void
sf_keys_can_make_new(SfSegment *seg, bool distrust)
{
	SfKeyPage	seen;
	SfKeyPage	keys;

	(void) plan_new(seg, distrust, &seen, &keys);
}

uint16
sf_keys_make_new(SfSegment *seg, bool distrust)
{
	SfKeyPage	seen;
	SfKeyPage	keys;
	SfWrappedKey *entry;

	do
	{
		CHECK_FOR_INTERRUPTS();
		entry = plan_new(seg, distrust, &seen, &keys);
	} while (!sfi_keys_publish(seg, &seen, &keys));
	SF_ASSERT(entry->key_id == keys.nentries && entry->state == SF_KEY_USABLE);
	return entry->key_id;
}
