/*-------------------------------------------------------------------------
 *
 * keys_internal.h
 *	  What the files of this room share.  keys.h has their map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_KEYS_INTERNAL_H
#define SF_KEYS_INTERNAL_H

#include "keys/keys.h"

/* ---- why keys cannot be loaded ---- */

/* The number that comes with each kind is in brackets. */
typedef enum SfKeyFailureKind
{
	SF_KEY_NO_COMMAND,			/* securefile.key_command is empty */
	SF_KEY_NOT_STARTED,			/* it could not be started (errno) */
	SF_KEY_NOT_READ,			/* nor its output be read (errno) */
	SF_KEY_TIMEOUT,				/* it took too long (seconds) */
	SF_KEY_EXIT,				/* it failed (status) */
	SF_KEY_SIGNAL,				/* it was killed (signal) */
	/* from here on it is the output that is wrong */
	SF_KEY_TOO_LONG,			/* it printed too much (bytes allowed) */
	SF_KEY_TOO_MANY,			/* too many keys (keys allowed) */
	SF_KEY_NONE,				/* not a single key */
	SF_KEY_BAD_LINE,			/* no name and key (line, as all below) */
	SF_KEY_BAD_NAME,			/* a name that is not allowed */
	SF_KEY_ZEROS,				/* a key of all zeros */
	SF_KEY_TWICE,				/* a name that an earlier line has */
} SfKeyFailureKind;

#define SF_KEY_FAILURES		(SF_KEY_TWICE + 1)

typedef struct SfKeyFailure
{
	SfKeyFailureKind kind;
	int			number;
} SfKeyFailure;

/* Note why; false, for the caller to return. */
static inline bool
sfi_keys_fail(SfKeyFailure *failure, SfKeyFailureKind kind, int number)
{
	failure->kind = kind;
	failure->number = number;
	return false;
}

/* ---- the memory of the keyring (keyring.c) ---- */

/*
 * The keyring is an area of 32 KB: a header, and two sets, one of which is current.  Keys
 * are loaded into the other one.  So a process that is killed meanwhile leaves the
 * current set as it was; the area outlives the crash, and nobody would mend it.
 */
#define SF_KEYRING_BYTES	(32 * 1024)
#define SF_KEYS_MAX			227 /* as many as fit, asserted in keyring.c */

typedef struct SfKeyEntry
{
	char		name[SF_MASTER_NAME_SIZE];	/* zeros behind it */
	uint8		key[SF_KEY_BYTES];
	uint8		check[SF_MASTER_CHECK_SIZE];
} SfKeyEntry;

typedef struct SfKeySet
{
	int32		count;
	SfKeyEntry	entries[SF_KEYS_MAX];
} SfKeySet;

/*
 * Take the lock of the keyring exclusively, and return the set that is not current, of no
 * keys and all zeros.  Between the two calls nothing may throw.
 */
extern SfKeySet *sfi_keys_replace_begin(void);

/*
 * Make that set the current one, or with replace false leave the one that is.  The other
 * one is wiped, and the lock released.
 */
extern void sfi_keys_replace_end(bool replace);

/* The key of that name in a set, or NULL.  Never throws. */
extern const SfKeyEntry *sfi_keys_find(const SfKeySet *set, const char *name);

/* Note that the command failed at start.  A load that succeeds forgets it. */
extern void sfi_keys_note_failed(void);

/* ---- the command (key_command.c) ---- */

/*
 * What a command may print, comments included.  Small, so that this and the keyring fit
 * into the 64 KB that processes could lock on older systems.
 */
#define SF_KEY_OUTPUT_MAX	24000

/* A command that runs or has run.  Begins as zeros, but for fd. */
typedef struct SfKeyCommand
{
	pid_t		pid;			/* also its process group; 0: it has ended */
	int			fd;				/* of its output; -1: none is open */
	char	   *output;			/* what it has printed, in locked memory */
	size_t		len_bytes;
} SfKeyCommand;

/*
 * Run the command of securefile.key_command to its end.  False, with the reason, unless
 * all of its output was read and its exit status is 0.  In the postmaster this only waits;
 * other processes look at interrupts and may throw.  In any case call
 * sfi_keys_command_end() afterwards.
 */
extern bool sfi_keys_command_run(SfKeyCommand *command, SfKeyFailure *failure);

/*
 * Kill what is left of the command, and wipe and free what it has printed.  Never throws;
 * may be called again.
 */
extern void sfi_keys_command_end(SfKeyCommand *command);

/* ---- its lines (lines.c) ---- */

/*
 * Fill a set with the keys of these lines; false, with the reason, if any of them is
 * wrong.  The set, which was of zeros, may hold anything then.  Allocates nothing, keeps no
 * key anywhere else, and never throws.
 */
extern bool sfi_keys_parse(const char *text, size_t len_bytes, SfKeySet *set,
						   SfKeyFailure *failure);

/*
 * ---- wrapped keys (wrap.c; the last ones in data.c) ----
 *
 * A secret is SF_KEY_BYTES of a data key in memory of the caller, which wipes it.
 */

typedef enum SfUnwrapped
{
	SF_UNWRAPPED,
	SF_UNWRAP_NO_MASTER,		/* the master key that wraps it is not loaded */
	SF_UNWRAP_NOT_GENUINE,
	SF_UNWRAP_DESTROYED,		/* securefile_shred() */
} SfUnwrapped;

/*
 * Can a key, an entry of that page, be used no more, because the column was shredded, or is
 * by the transaction that asks?
 */
extern bool sfi_keys_is_destroyed(const SfKeyPage *keys, const SfWrappedKey *entry);

/* The secret of an entry of that page; not set unless the result is SF_UNWRAPPED. */
extern SfUnwrapped sfi_keys_unwrap(const SfSegment *seg, const SfKeyPage *keys,
								   SfWrappedKey *entry, uint8 *secret);

/*
 * Wrap a secret with the master key of that name, which may be the one that the entry has:
 * sets the name, and all that follows it.  What comes before is covered by the tag, and is
 * as it is to be.  False, and the entry means nothing: no such key is loaded, or there are
 * no random bytes.  Never throws.
 */
extern bool sfi_keys_wrap(const SfSegment *seg, SfWrappedKey *entry, const char *master,
						  uint8 *secret);

/* Is the master key of an entry loaded, the one with the same bytes? */
extern bool sfi_keys_is_master_loaded(const SfWrappedKey *entry);

/* Is a key wrapped with the master key of that name and check value? */
extern bool sfi_keys_is_wrapped_by(const SfWrappedKey *entry, const char *master,
								   const uint8 *check);

/* An SfKeysUse: the check value of a master key; arg: room for it. */
extern void sfi_keys_copy_check(const uint8 *master, const uint8 *check, void *arg);

/*
 * Append a new data key to a copy of a key page, wrapped with the master key of that name,
 * and return its entry.  PROGRAM_LIMIT_EXCEEDED when there are as many as fit, and
 * OBJECT_NOT_IN_PREREQUISITE_STATE when a master key of that name and other bytes wraps one of
 * those that there are.
 */
extern SfWrappedKey *sfi_keys_append(const SfSegment *seg, SfKeyPage *keys, const char *master);

/*
 * sf_space_put_keys(), after which all processes look at their keys anew.  seen has no entry if
 * there are no key pages.  False: somebody else has changed them meanwhile, and nothing is done.
 */
extern bool sfi_keys_publish(SfSegment *seg, const SfKeyPage *seen, const SfKeyPage *keys);

/* What errors call the column of a segment: by its number, where it has no name any more. */
extern const char *sfi_keys_column_name(const SfSegment *seg);

/* The ERROR for an entry that could not be unwrapped, or not be wrapped. */
SF_NORETURN extern void sfi_keys_refuse(const SfSegment *seg, const SfWrappedKey *entry,
										SfUnwrapped result);
SF_NORETURN extern void sfi_keys_report_not_wrapped(void);

#endif							/* SF_KEYS_INTERNAL_H */
