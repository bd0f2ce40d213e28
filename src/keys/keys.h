/*-------------------------------------------------------------------------
 *
 * keys.h
 *	  Keys: the keyring, which has the master keys in memory under their names, and the
 *	  data keys of columns, which master keys wrap.
 *
 * keyring.c		the memory that all processes share; looking a key up
 * load.c			filling it: the command is run, its lines are taken, or none of them
 * key_command.c	running the command, and reading what it prints
 * lines.c			what the lines say
 * wrap.c			data keys: wrapped, unwrapped
 * data.c			data keys: made, found, kept
 * rotate.c			data keys: wrapped anew, and replaced by new ones
 * shred.c			data keys: destroyed
 *
 * Master keys come from outside, by the command of securefile.key_command, and are
 * never stored.  The postmaster runs it at start; securefile_load_keys() runs it again.
 *
 * Bytes of keys lie in two places only, both locked and left out of core dumps: the
 * keyring, and for a moment the buffer that the command's output is read into.  No
 * function here copies them anywhere else, or returns a pointer to them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_KEYS_H
#define SF_KEYS_H

#include "base/base.h"
#include "base/shared.h"
#include "config/config.h"
#include "datatype/timestamp.h"
#include "format/key.h"
#include "space/space.h"
#include "transform/transform.h"

StaticAssertDecl(SF_MASTER_NAME_SIZE == SF_KEY_NAME_MAX + 1, "a name ends with a zero");

/* ---- using keys ---- */

/*
 * A number that rises whenever master keys were loaded, or sf_keys_raise_generation()
 * was called: what was made with keys before may be out of date then.  0 without preload.
 * Takes no lock, never throws.
 */
extern uint64 sf_keys_generation(void);

/*
 * Let all processes look at their unwrapped keys anew.  Takes no lock, never throws, and
 * may run in critical sections and in replay.  Does nothing without preload.
 */
extern void sf_keys_raise_generation(void);

/*
 * Told of a key of SF_KEY_BYTES, and of its check value of SF_MASTER_CHECK_SIZE: the first
 * bytes of HMAC-SHA-256(key, "check").  Keeps no pointer to either, must be short, take no
 * lock, and not throw.
 */
typedef void (*SfKeysUse) (const uint8 *key, const uint8 *check, void *arg);

/*
 * Call use with the master key of that name, under the lock of the keyring, which is
 * shared; false if none is loaded under that name (or there is no preload).  Throws only
 * what taking an LWLock does.
 */
extern bool sf_keys_with_master(const char *name, SfKeysUse use, void *arg);

/*
 * Name of the current master key, which wraps new data keys: the one in
 * securefile.master_key, or if that is empty the only one.  NULL if no such key is loaded.
 * The result is in static memory, valid until the next call.  Takes the lock of the
 * keyring for a moment.
 */
extern const char *sf_keys_master_name(void);

/*
 * ERROR OBJECT_NOT_IN_PREREQUISITE_STATE that says why there is no current master key, and
 * what to do.  Call when sf_keys_master_name() was NULL.
 */
SF_NORETURN extern void sf_keys_refuse_no_master(void);

/* ---- loading them ---- */

/*
 * Run the command of securefile.key_command, and replace all master keys with those that
 * it prints; their number.  ERROR, and the keys are as before, if it fails or prints
 * anything else.  No message has a byte of what it printed.  Waits for the command, at
 * most securefile.key_timeout, and looks at interrupts meanwhile.  Call in a process that
 * has a latch; needs no transaction.
 */
extern int	sf_keys_load(void);

/* A name in the keyring; the current master key is the one that wraps new data keys. */
typedef struct SfKeyListed
{
	char		name[SF_MASTER_NAME_SIZE];
	bool		current;
} SfKeyListed;

/*
 * Names of all master keys, in the order of the command's lines; palloc'd.  Returns their
 * number.  ERROR without preload.
 */
extern int	sf_keys_list(SfKeyListed **keys);

/*
 * ---- data keys (data.c) ----
 *
 * The segment is open and locked, as for reading or writing.  A key is in memory that is
 * locked; the pointer is good until the next call of any of these.  They read key pages, so
 * no page may be locked.
 */

/*
 * A data key of a segment, by the number that a locator has.  ERROR
 * OBJECT_NOT_IN_PREREQUISITE_STATE when the master key that wraps it is not loaded,
 * DATA_CORRUPTED when the segment has no such key, or it is not genuine.
 */
extern const SfDataKey *sf_keys_of(SfSegment *seg, uint16 key_id);

/*
 * The same for a value that names its segment, which is opened if the key is not known.
 * UNDEFINED_OBJECT when it is gone.
 */
extern const SfDataKey *sf_keys_of_home(const SfHome *home, uint16 key_id);

/*
 * Can what a key has encrypted be decrypted: is its master key loaded, was it not
 * destroyed, and has this build its cipher?  True, too, of key 0, and of one that is damaged.
 */
extern bool sf_keys_can_decrypt(SfSegment *seg, uint16 key_id);

/*
 * Is no new version of a value to share units that this key has encrypted?  False of a key
 * that the segment does not have.  Needs no master key.  DATA_CORRUPTED when both key pages
 * are damaged.
 */
extern bool sf_keys_is_distrusted(SfSegment *seg, uint16 key_id);

/* What can be shown of a key of a segment. */
typedef struct SfKeyShown
{
	uint16		key_id;
	uint8		purpose;		/* SfKeyPurpose */
	uint8		state;			/* SfKeyState */
	uint8		cipher;			/* SfCipher */
	bool		is_current;		/* a new value would take it now */
	bool		is_shredded;	/* no value of it can be read any more; its
								 * bytes may still be there, unless state says
								 * so */
	bool		is_loaded;		/* its master key */
	char		master[SF_MASTER_NAME_SIZE];
	TimestampTz created;
} SfKeyShown;

/*
 * All keys of a segment in the order of their numbers, palloc'd; returns how many.  Needs no
 * master key.  DATA_CORRUPTED as above.
 */
extern int	sf_keys_show(SfSegment *seg, SfKeyShown **shown);

/*
 * The data key that new values of a column take.  It is made if there is none, or if the
 * newest is not wrapped with today's master key, or is for a cipher that this build lacks.
 * Errors as above, and those of writing.
 */
extern const SfDataKey *sf_keys_current(SfSegment *seg);

/*
 * ---- rotation (rotate.c) ----
 *
 * The segment is open and locked for writing.  A change holds for all when the function
 * returns, and whether the transaction commits or not; a ROLLBACK that brings old storage
 * of the column back brings back its keys as they were.  The record of a change is in WAL,
 * but not flushed.  When somebody else changes the keys at the same time, both changes are
 * made, one after the other.
 */

/*
 * Wrap with the master key of that name (NULL: the current one) all keys of a segment that
 * another one wraps; how many these were.  A key that cannot be unwrapped, because its
 * master key is not loaded or it is not genuine, stays as it is, with a WARNING.  ERROR
 * OBJECT_NOT_IN_PREREQUISITE_STATE when there is no such master key, DATA_CORRUPTED when
 * both key pages are damaged.
 */
extern int	sf_keys_rewrap(SfSegment *seg, const char *master);

/*
 * Make a new data key, which new values take from now on; its number.  Those that there
 * are become old, or with distrust distrusted.  ERROR as above, also when a master key is
 * not loaded that wraps one of those; PROGRAM_LIMIT_EXCEEDED when there are as many keys as
 * fit.  After an ERROR nothing has changed.
 *
 * can_make_new: throw these errors, and change nothing.
 */
extern uint16 sf_keys_make_new(SfSegment *seg, bool distrust);
extern void sf_keys_can_make_new(SfSegment *seg, bool distrust);

/*
 * ---- destroying (shred.c) ----
 *
 * What a transaction shreds is gone when it has committed, and is not when it has not.  In
 * between, the table and the segment are locked against everybody else.  Bytes of keys are
 * overwritten after the commit only.
 */

/*
 * Have this transaction destroy all data keys that a segment has; how many these are.  New
 * values take a new key.  ERROR ACTIVE_SQL_TRANSACTION if it has done so already, in another
 * subtransaction, and DATA_CORRUPTED as above.
 */
extern int	sf_keys_shred(SfSegment *seg);

/*
 * Overwrite what a committed transaction has destroyed, on disk, too.  The segment is locked
 * for writing, and no page of it.  Does nothing if there is nothing to do, and reads one page
 * then.  DATA_CORRUPTED when a key page is damaged, and errors of writing.
 */
extern void sf_keys_finish_shred(SfSegment *seg);

/* The full id of the transaction that sf_keys_finish_shred() is to finish; 0: none. */
extern uint64 sf_keys_shredding(SfSegment *seg);

/* Before PREPARE TRANSACTION: FEATURE_NOT_SUPPORTED if it has shredded anything. */
extern void sf_keys_refuse_prepare(void);

/* At the end of a transaction; true if it has shredded anything.  Never throws. */
extern bool sf_keys_at_end(void);

/* ---- start ---- */

/*
 * Make the memory of the keyring.  Call from _PG_init while the postmaster preloads: its
 * children get the memory, and it outlives their crashes.  ERROR when there is none.
 */
extern void sf_keys_map(void);

/* Shared memory of the room. */
extern const SfSharedArea sf_keys_area;

/*
 * In the postmaster, when shared memory is made for the first time: load the keys, if
 * there is a command.  When it fails, the log says so.  Does nothing after a crash, since
 * the keys are there, and nothing in other processes.  Never throws.
 */
extern void sf_keys_load_at_start(void);

#endif							/* SF_KEYS_H */
