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
} SfDecoded;

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
	 */
	uint32_t	(*encode) (SfCompression level, const char *plain, uint32_t plain_bytes,
						   char *body, uint32_t room);

	/*
	 * Decode a body into dst, which has room for plain_bytes.  The body may
	 * be any bytes; nothing behind the end of either is touched.
	 */
	SfDecoded	(*decode) (const char *body, uint32_t body_bytes, char *dst,
						   uint32_t plain_bytes);
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

/* The same for a value in its row, where no sectors count. */
static inline uint32_t
sf_transform_room_in_row(uint32_t plain_bytes)
{
	uint32_t	room = plain_bytes - plain_bytes / 8;

	return room > SF_PACKED_HEADER ? room - SF_PACKED_HEADER : 0;
}

/*
 * Encode 1 to SF_UNIT_SIZE bytes into dst: the bytes that all codecs begin with, and
 * the body, room bytes at most together.  Returns how many bytes these are; 0 when
 * they do not find room, or memory is short.
 */
extern uint32_t sf_transform_encode_bytes(const SfCodecOps *codec, SfCompression level,
										  const char *plain, uint32_t plain_bytes,
										  char *dst, uint32_t room);

/*
 * Decode the stored bytes of a unit of a codec that is not SF_CODEC_RAW into dst, which
 * has room for plain_bytes.  The stored bytes may be any bytes.
 */
extern SfDecoded sf_transform_decode(const SfUnit *unit, const char *stored, char *dst,
									 uint32_t plain_bytes);

/* ---- adapt.c ---- */

/* What an object has shown of itself, while its units are encoded one after the other. */
typedef struct SfEncoder
{
	SfCompression level;
	const SfCodecOps *codec;	/* NULL: no compression */
	uint32_t	step;			/* units to pass over after the next failure */
	uint32_t	skip;			/* units still to be passed over */
	uint64_t	plain_bytes;	/* of the units so far .. */
	uint64_t	stored_bytes;	/* .. and what is stored of them */
} SfEncoder;

/* Begin an object of a column with that level of compression. */
extern void sf_transform_begin(SfEncoder *encoder, SfCompression level);

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

/* ---- codecs, for the table ---- */

#ifdef SF_LZ4
extern const SfCodecOps sf_transform_lz4;
#endif
#ifdef SF_ZSTD
extern const SfCodecOps sf_transform_zstd;
#endif

#endif							/* SF_TRANSFORM_H */
