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
#include "format/format.h"

/* What came of an attempt to decode. */
typedef enum SfDecoded
{
	SF_DECODED,
	SF_DECODE_DAMAGED,			/* these are no stored bytes of such a unit */
	SF_DECODE_NO_MEMORY,
	SF_DECODE_NO_CODEC,			/* this build has no such codec */
	SF_DECODE_NO_DICTIONARY,	/* they need one, and none was given */
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
