/*-------------------------------------------------------------------------
 *
 * transform.h
 *	  What is done to the bytes of a unit before they are stored, and undone when
 *	  they are read: codecs, one unit at a time.
 *
 * transform.c		the table of codecs; the bytes that all of them begin with
 * adapt.c			encode what is worth it: which units are tried at all
 * lz4.c			codec LZ4; in builds with liblz4
 * zstd.c			codec zstd; in builds with libzstd
 * trained.c		codec "trained": zstd with a dictionary; likewise
 * cipher.c			keys, nonces, sealed units; what authenticates locators and inode pages
 * xaes.c			cipher XAES-256-GCM; in builds with OpenSSL
 * xchacha.c		cipher XChaCha20-Poly1305
 * sha256.c			hashes of whole values, which can be continued
 *
 * Pure C over memory: no elog, no palloc, no server header, no page.  So the
 * fuzzer (test/fuzz/unit.c) tries each codec of the table without a server.  The
 * libraries get their memory from malloc(), once a process, on first use.  Nothing
 * here runs in the postmaster.
 *
 * The level of compression is not in the format: a unit says which codec it was
 * encoded with, and every codec decodes what any of its levels has made.
 *
 * To add a codec: a file here that defines an SfCodecOps, its row in transform.c, its
 * number among SfCodec in format.h if it is not there, and the option word that asks
 * for it (config/options.c).  The ways of writing and reading stay as they are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TRANSFORM_H
#define SF_TRANSFORM_H

#include "config/config.h"
#include "format/dictionary.h"
#include "format/packed.h"
#include "format/share.h"

/* What came of an attempt to decode. */
typedef enum SfDecoded
{
	SF_DECODED,
	SF_DECODE_DAMAGED,			/* these are no stored bytes of such a unit */
	SF_DECODE_NO_MEMORY,
	SF_DECODE_NO_CODEC,			/* this build has no such codec */
	SF_DECODE_NO_DICTIONARY,	/* they need one, and none was given */
	SF_DECODE_NO_CIPHER,		/* this build has no such cipher */
	SF_DECODE_NOT_GENUINE,		/* no holder of the key made them for this
								 * place */
} SfDecoded;

/* What a codec has learnt from values that are alike (trained.c). */
typedef struct SfDictionary SfDictionary;

/*
 * A codec.  A body is what it makes of the plain bytes of a unit: all stored bytes
 * but the first SF_CODED_OVERHEAD.
 */
typedef struct SfCodecOps
{
	uint32_t	id;				/* SfCodec, as units have it in their flags */
	const char *name;

	/*
	 * Encode 1 to SF_UNIT_SIZE bytes into a body of at most room bytes.
	 * Returns its length; 0 when it does not find room, or memory is short.
	 * The dictionary is for the codec "trained", else NULL.
	 */
	uint32_t	(*encode) (SfCompression level, SfDictionary *dictionary, const char *plain,
						   uint32_t plain_bytes, char *body, uint32_t room);

	/*
	 * Decode a body into dst, which has room for plain_bytes.  The body may
	 * be any bytes; nothing behind the end of either is touched.
	 */
	SfDecoded	(*decode) (SfDictionary *dictionary, const char *body, uint32_t body_bytes,
						   char *dst, uint32_t plain_bytes);
} SfCodecOps;

/* The codec of that number, or NULL when this build has none. */
extern const SfCodecOps *sf_transform_find(uint32_t id);

/* The codec of a level of compression, or NULL: none, or not in this build. */
extern const SfCodecOps *sf_transform_codec(SfCompression level);

/* Are a unit's stored bytes its plain bytes? */
static inline bool
sf_transform_is_raw(const SfUnit *unit)
{
	return unit->flags == SF_CODEC_RAW;
}

/*
 * The most bytes that may be stored of a unit, for compression to be worth it: seven
 * eighths of the plain bytes, and a sector less.  0: nothing can be gained.
 */
extern uint32_t sf_transform_room(uint32_t plain_bytes);

/* The same for a value in its row, where no sectors count, behind a header. */
static inline uint32_t
sf_transform_room_in_row(uint32_t plain_bytes, uint32_t header_bytes)
{
	uint32_t	room = plain_bytes - plain_bytes / 8;

	return room > header_bytes ? room - header_bytes : 0;
}

/*
 * Encode 1 to SF_UNIT_SIZE bytes into dst: the bytes that all codecs begin with, and
 * the body, room bytes at most together.  Returns how many bytes these are; 0 when
 * they do not find room, or memory is short.
 */
struct SfEncoder;
extern uint32_t sf_transform_encode_bytes(const struct SfEncoder *encoder, SfCompression level,
										  const char *plain, uint32_t plain_bytes,
										  char *dst, uint32_t room);

/*
 * Decode the stored bytes of a unit of a codec that is not SF_CODEC_RAW into dst, which
 * has room for plain_bytes.  The stored bytes may be any bytes.  The dictionary is the one
 * that sf_transform_dictionary_of() names, or NULL.
 */
extern SfDecoded sf_transform_decode(const SfUnit *unit, SfDictionary *dictionary,
									 const char *stored, char *dst, uint32_t plain_bytes);

/*
 * The bytes that stored bytes begin with, but for those of a unit that is stored as it is:
 * SF_CODED_OVERHEAD of them, by the digest of the plain bytes.  ok: do they say so of these
 * plain bytes?
 */
extern void sf_transform_put_head_of(const char *plain, uint32_t plain_bytes,
									 const SfDigest *digest, void *head);
extern bool sf_transform_head_ok(const char *plain, uint32_t plain_bytes, const void *head);

/* ---- adapt.c ---- */

/* What an object has shown of itself, while its units are encoded one after the other. */
typedef struct SfEncoder
{
	SfCompression level;
	const SfCodecOps *codec;	/* NULL: no compression */
	SfDictionary *dictionary;	/* of the codec "trained", else NULL */
	uint32_t	step;			/* units to pass over after the next failure */
	uint32_t	skip;			/* units still to be passed over */
	uint64_t	plain_bytes;	/* of the units so far .. */
	uint64_t	stored_bytes;	/* .. and what is stored of them */
} SfEncoder;

/*
 * Begin an object of a column with that level of compression.  The dictionary, or NULL, is
 * not used by a level that has no use for it; it must be there as long as the encoder is.
 */
extern void sf_transform_begin(SfEncoder *encoder, SfCompression level,
							   SfDictionary *dictionary);

/*
 * A unit's bytes as they are to be stored: dst, which has room for SF_UNIT_SIZE bytes,
 * when compression gains enough; else the plain bytes themselves, which copies nothing.
 * Sets the unit's stored_bytes and flags.
 */
extern const char *sf_transform_encode(SfEncoder *encoder, const char *plain,
									   uint32_t plain_bytes, char *dst, SfUnit *unit);

/*
 * How many bytes are likely to be stored of so many plain bytes to come, by what was
 * stored of the units so far.
 */
extern uint64_t sf_transform_expect(const SfEncoder *encoder, uint64_t plain_bytes);

/* ---- trained.c ---- */

/* Can this build make and use dictionaries?  The others do nothing if not. */
extern bool sf_transform_can_train(void);

/* Does a level of compression use dictionaries? */
extern bool sf_transform_is_trainable(SfCompression level);

/*
 * Learn from n samples that lie one after the other.  Returns the length of the
 * dictionary, at most room bytes; 0 when the samples are too few or too small, or memory
 * is short.  Takes a second for a megabyte, and some megabytes of memory.
 */
extern uint32_t sf_transform_train(const char *samples, const size_t *sizes, uint32_t n,
								   char *dictionary, uint32_t room);

/* Put a number, 1 to SF_DICTIONARY_MAX, into what sf_transform_train() has made. */
extern void sf_transform_number_dictionary(char *dictionary, uint32_t number);

/*
 * Why bytes are no dictionary of that number, or NULL.  The bytes may be any.  A build that
 * cannot use dictionaries finds nothing wrong.
 */
extern const char *sf_transform_dictionary_problem(const char *bytes, uint32_t len,
												   uint32_t number);

/*
 * A dictionary of bytes, which are copied; NULL when they are none, or memory is short.
 * In memory of malloc(), about 100 KB, and as much for each level that encodes with it.
 */
extern SfDictionary *sf_transform_dictionary_new(const char *bytes, uint32_t len);

extern void sf_transform_dictionary_free(SfDictionary *dictionary);

/* The number of the dictionary that a unit needs; 0: none, also of damaged bytes. */
extern uint32_t sf_transform_dictionary_of(const SfUnit *unit, const char *stored);

/*
 * ---- cipher.c: encryption ----
 *
 * Memory of the caller, which wipes what it has of keys and of plain bytes.
 */

#define SF_KEY_BYTES		32
#define SF_NONCE_BYTES		24
#define SF_TAG_BYTES		16

/* Bytes that are read, and room for bytes. */
typedef struct SfBytes
{
	const void *data;
	size_t		len;
} SfBytes;

typedef struct SfRoom
{
	void	   *data;
	size_t		len;
} SfRoom;

/* What is encrypted, in two parts, either of which may be empty. */
typedef struct SfMessage
{
	SfBytes		head;
	SfBytes		body;
} SfMessage;

/* A cipher that encrypts a message, and authenticates it with the place it belongs to. */
typedef struct SfCipherOps
{
	uint32_t	id;				/* SfCipher */
	const char *name;

	/*
	 * Encrypt into dst, which gets the length of the message, and the tag.
	 * False when memory is short.
	 */
	bool		(*seal) (const uint8_t *key, const uint8_t *nonce, SfBytes place,
						 const SfMessage *message, uint8_t *dst);

	/*
	 * Decrypt a message of the length of head and body, behind which is its
	 * tag.  Unless SF_DECODED, head and body hold nothing of it.
	 */
	SfDecoded	(*open) (const uint8_t *key, const uint8_t *nonce, SfBytes place,
						 const uint8_t *sealed, SfRoom head, SfRoom body);
} SfCipherOps;

/* The cipher of that number, or NULL when this build has none. */
extern const SfCipherOps *sf_transform_find_cipher(uint32_t id);

/* A data key of a column: a key for each purpose. */
typedef struct SfDataKey
{
	uint16_t	id;				/* as locators have it */
	uint8_t		cipher;			/* SfCipher */
	uint8_t		unit[SF_KEY_BYTES];
	uint8_t		row[SF_KEY_BYTES];	/* of values in rows */
	uint8_t		locator[SF_KEY_BYTES];
	uint8_t		inode[SF_KEY_BYTES];
	uint8_t		content[SF_KEY_BYTES];	/* of hashes of values */
	uint8_t		nonce[SF_KEY_BYTES];
	uint8_t		fingerprint[SF_KEY_BYTES];	/* of fingerprints of values */
} SfDataKey;

/* The key for a purpose: HMAC-SHA-256 of the word under a key.  Any two may be the same memory. */
extern void sf_transform_subkey(const uint8_t *key, const char *purpose, uint8_t *subkey);

/* All keys of a data key, of which secret has SF_KEY_BYTES. */
extern void sf_transform_data_key(SfDataKey *key, uint16_t id, uint32_t cipher,
								  const uint8_t *secret);

/* Bytes from the system's generator; false when it has none. */
extern bool sf_transform_random(void *bytes, size_t len);

/*
 * Encrypt a message for a place, with one of the keys of a data key, into dst: nonce,
 * message, tag.  False when memory is short, or random bytes.
 */
extern bool sf_transform_seal(const SfDataKey *key, const uint8_t *subkey, SfBytes place,
							  const SfMessage *message, uint8_t *dst);

/*
 * What a content of that length and digest hashes to for deduplication, 16 bytes.  key: of a
 * column that encrypts, so that nobody without it can confirm a guess; or NULL.
 */
extern void sf_transform_fingerprint(const SfDataKey *key, const SfDigest *digest,
									 uint64_t length_bytes, uint8_t *hash);

/* Which unit: what its tag says besides codec and key. */
typedef struct SfUnitId
{
	uint64_t	incarnation;
	uint64_t	object_id;
	uint64_t	unit_no;
} SfUnitId;

/* How many bytes are stored of an encoded unit when it is sealed. */
extern uint32_t sf_transform_sealed_bytes(const SfUnit *unit);

/*
 * Encrypt a unit, encoded as its stored_bytes and flags say, into dst, which has room for
 * sf_transform_sealed_bytes(); then stored_bytes are these.  False as above.
 */
extern bool sf_transform_seal_unit(const SfDataKey *key, const SfUnitId *id, SfUnit *unit,
								   const char *encoded, char *dst);

/*
 * Decrypt a unit's stored bytes.  Then head has SF_CODED_OVERHEAD bytes, and body the rest:
 * the plain bytes, or the output of the codec.  stored_bytes are what they were before the
 * unit was sealed.  body has room for stored_bytes less SF_KEYED_OVERHEAD.
 */
extern SfDecoded sf_transform_open_unit(const SfDataKey *key, const SfUnitId *id, SfUnit *unit,
										const char *stored, char *head, char *body);

/*
 * The same of a SEALED value, whose header is there: seal puts what follows it, of the
 * bytes of a value or of its encoded unit; open takes all of it apart.
 */
extern bool sf_transform_seal_value(const SfDataKey *key, SfBytes encoded, uint8_t *value);
extern SfDecoded sf_transform_open_value(const SfDataKey *key, const uint8_t *value,
										 SfRoom encoded);

/* The tag of a KEYED locator, of all bytes before it; and does a decoded one have it? */
extern void sf_transform_locator_tag(const SfDataKey *key, SfBytes locator, uint8_t *tag);
extern bool sf_transform_locator_is_genuine(const SfDataKey *key, const SfLocator *loc);

/* The stamp of an inode page of a KEYED object, by len bytes of its contents, its stamp aside. */
extern uint64_t sf_transform_stamp(const SfDataKey *key, const SfInode *inode, size_t len);

/* ---- sha256.c ---- */

/* The hash of a value in the making. */
typedef struct SfSha256
{
	uint64_t	length_bytes;	/* of what it has seen */
	uint64_t	state[14];		/* of the library */
} SfSha256;

/* Begin one; none of these fails. */
extern void sf_transform_hash_begin(SfSha256 *hash);

/*
 * Go on with the hash of a value of that length.  It has seen the whole blocks of it: the
 * bytes behind these are to come again.
 */
extern void sf_transform_hash_resume(SfSha256 *hash, const SfContentHash *kept,
									 uint64_t length_bytes);

/* The bytes that follow those it has seen. */
extern void sf_transform_hash_update(SfSha256 *hash, const void *bytes, size_t len);

/* What is kept of the hash of all bytes so far, which goes on if more come. */
extern void sf_transform_hash_finish(const SfSha256 *hash, SfContentHash *kept);

/*
 * The same as a KEYED locator keeps it, encrypted for this version of the object: seal makes
 * SF_SEALED_HASH_SIZE bytes of it, and returns false as above.
 */
extern bool sf_transform_seal_hash(const SfDataKey *key, const SfLocator *version,
								   const SfContentHash *hash, uint8_t *sealed);
extern SfDecoded sf_transform_open_hash(const SfDataKey *key, const SfLocator *version,
										const uint8_t *sealed, SfContentHash *hash);

/* ---- ciphers, for the table ---- */

extern const SfCipherOps sf_transform_xchacha;
#ifdef SF_OPENSSL
extern const SfCipherOps sf_transform_xaes;
#endif

/* ---- codecs, for the table ---- */

#ifdef SF_LZ4
extern const SfCodecOps sf_transform_lz4;
#endif
#ifdef SF_ZSTD
extern const SfCodecOps sf_transform_zstd;
extern const SfCodecOps sf_transform_trained;

struct ZSTD_CDict_s;
struct ZSTD_DDict_s;

/* What zstd.c does for both of them; the dictionaries may be NULL. */
extern uint32_t sf_transform_zstd_encode(SfCompression level,
										 const struct ZSTD_CDict_s *dictionary,
										 const char *plain, uint32_t plain_bytes,
										 char *body, uint32_t room);
extern SfDecoded sf_transform_zstd_decode(const struct ZSTD_DDict_s *dictionary,
										  const char *body, uint32_t body_bytes,
										  char *dst, uint32_t plain_bytes);

/* The library's number of a level. */
extern int	sf_transform_zstd_level(SfCompression level);
#endif

#endif							/* SF_TRANSFORM_H */
