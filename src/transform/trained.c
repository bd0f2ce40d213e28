/*-------------------------------------------------------------------------
 *
 * trained.c
 *	  Codec "trained": zstd with a dictionary, which is learnt from values of the
 *	  column.
 *
 * A small value repeats little of itself, but much of others like it: keys of JSON,
 * headers of e-mail, tags of XML.  The dictionary holds what they have in common, and
 * the tables of codes that suit them, so that a frame need not have its own.
 *
 * A dictionary is the library's own format.  Its number, 1 to SF_DICTIONARY_MAX, stands
 * behind the magic number, and the library writes it into each frame, in one byte.  So a
 * frame says which dictionary it needs.
 *
 *-------------------------------------------------------------------------
 */
#include "transform/transform.h"

/* The table of codecs tells: a build without zstd lacks this codec, too. */
bool
sf_transform_can_train(void)
{
	return sf_transform_find(SF_CODEC_TRAINED) != NULL;
}

/* LZ4 has dictionaries, too, but no tables of codes, which are what a small value needs. */
bool
sf_transform_is_trainable(SfCompression level)
{
	return level >= SF_COMPRESSION_MEDIUM && sf_transform_can_train();
}

#ifdef SF_ZSTD

#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zstd.h>
#include <zstd_errors.h>

/* Bytes of the magic number that a dictionary begins with; its number follows. */
#define MAGIC_SIZE	4

_Static_assert(SF_DICTIONARY_MAX <= UINT8_MAX, "a frame names its dictionary by one byte");
_Static_assert(sizeof(uint32_t) == 4, "the number of a dictionary has four bytes");

/*
 * What the library makes of the bytes of a dictionary, to decode with it, and to encode at
 * a level.  To make these tables takes longer than to use them for a small value, so they
 * are made once: the first when the dictionary is read, the others when a level is met.
 * The bytes are kept for those.
 */
struct SfDictionary
{
	ZSTD_DDict *decoding;
	ZSTD_CDict *encoding[SF_COMPRESSION_HIGH + 1];	/* made on first use */
	uint32_t	len;
	char		bytes[];
};

/* ---- the bytes of a dictionary ---- */

/*
 * The library tries several ways to choose what goes into the dictionary, and takes the
 * one that serves the samples best.  What it puts in last is the most useful.
 */
uint32_t
sf_transform_train(const char *samples, const size_t *sizes, uint32_t n, char *dictionary,
				   uint32_t room)
{
	size_t		len = ZDICT_trainFromBuffer(dictionary, room, samples, sizes, n);

	return ZDICT_isError(len) ? 0 : (uint32_t) len;
}

/*
 * The library gives a number of its own, of four bytes in each frame.  The format has the
 * number there, in little-endian order.
 */
void
sf_transform_number_dictionary(char *dictionary, uint32_t number)
{
	memcpy(dictionary + MAGIC_SIZE, &number, sizeof(number));
}

/*
 * The library tells that it cannot use the tables in a dictionary only where it prepares
 * one, and there not from a lack of memory.  So it is asked before: damage is an error of
 * another kind, which check and repair know.
 */
const char *
sf_transform_dictionary_problem(const char *bytes, uint32_t len, uint32_t number)
{
	size_t		header = ZDICT_getDictHeaderSize(bytes, len);

	if (ZDICT_getDictID(bytes, len) != number)
		return "its bytes have another number";
	if (ZDICT_isError(header) && ZSTD_getErrorCode(header) != ZSTD_error_memory_allocation)
		return "the library does not take it";
	return NULL;
}

/* ---- a dictionary ---- */

/*
 * Bytes without the magic number would be taken as mere contents, without a number: they
 * are refused, since no frame could name them.
 */
SfDictionary *
sf_transform_dictionary_new(const char *bytes, uint32_t len)
{
	SfDictionary *dictionary = calloc(1, sizeof(SfDictionary) + len);

	if (dictionary == NULL)
		return NULL;
	memcpy(dictionary->bytes, bytes, len);
	dictionary->len = len;
	dictionary->decoding = ZSTD_createDDict(bytes, len);
	if (dictionary->decoding != NULL && ZSTD_getDictID_fromDDict(dictionary->decoding) != 0)
		return dictionary;
	sf_transform_dictionary_free(dictionary);
	return NULL;
}

/*
 * Also of one whose making failed half-way, or that was never used at some level: the
 * library takes what is not there for nothing to be freed.
 */
void
sf_transform_dictionary_free(SfDictionary *dictionary)
{
	for (int i = 0; i <= SF_COMPRESSION_HIGH; i++)
		(void) ZSTD_freeCDict(dictionary->encoding[i]);
	(void) ZSTD_freeDDict(dictionary->decoding);
	free(dictionary);
}

/*
 * Asked before a unit is decoded.  The head of the frame has the number; if that is
 * damaged, there is no such dictionary, or the wrong one is used, and the check of the
 * plain bytes tells.
 */
uint32_t
sf_transform_dictionary_of(const SfUnit *unit, const char *stored)
{
	if (unit->flags != SF_CODEC_TRAINED || unit->stored_bytes <= SF_CODED_OVERHEAD)
		return 0;
	return ZSTD_getDictID_fromFrame(stored + SF_CODED_OVERHEAD,
									unit->stored_bytes - SF_CODED_OVERHEAD);
}

/* ---- the codec ---- */

/* The level is that of the tables, which are made when a level is met first. */
static uint32_t
encode_trained(SfCompression level, SfDictionary *dictionary, const char *plain,
			   uint32_t plain_bytes, char *body, uint32_t room)
{
	ZSTD_CDict **encoding = &dictionary->encoding[level];

	if (*encoding == NULL)
		*encoding = ZSTD_createCDict(dictionary->bytes, dictionary->len,
									 sf_transform_zstd_level(level));
	return *encoding == NULL ? 0
		: sf_transform_zstd_encode(level, *encoding, plain, plain_bytes, body, room);
}

/* The library compares the number in the frame with that of the dictionary once more. */
static SfDecoded
decode_trained(SfDictionary *dictionary, const char *body, uint32_t body_bytes, char *dst,
			   uint32_t plain_bytes)
{
	return dictionary == NULL ? SF_DECODE_NO_DICTIONARY
		: sf_transform_zstd_decode(dictionary->decoding, body, body_bytes, dst, plain_bytes);
}

const SfCodecOps sf_transform_trained = {SF_CODEC_TRAINED, "zstd with dictionary",
	encode_trained, decode_trained};

#else							/* SF_ZSTD */

/*
 * Without the library nothing is learnt and no dictionary is there.  These are what
 * other rooms name; the two questions above keep them from being asked.
 */

uint32_t
sf_transform_train(const char *samples, const size_t *sizes, uint32_t n, char *dictionary,
				   uint32_t room)
{
	/* as the library says of samples that are too few */
	return 0;
}

void
sf_transform_number_dictionary(char *dictionary, uint32_t number)
{
}

const char *
sf_transform_dictionary_problem(const char *bytes, uint32_t len, uint32_t number)
{
	return NULL;
}

SfDictionary *
sf_transform_dictionary_new(const char *bytes, uint32_t len)
{
	return NULL;
}

void
sf_transform_dictionary_free(SfDictionary *dictionary)
{
}

/* A unit that needs a dictionary has a codec that this build has not. */
uint32_t
sf_transform_dictionary_of(const SfUnit *unit, const char *stored)
{
	return 0;
}

#endif							/* SF_ZSTD */
